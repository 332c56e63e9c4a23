//! The plain buffer through its public interface.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc;

use sluice_membuf::{BufferFault, PlainBuffer, Segment};

use crate::{BYTES_MAX, pattern};

/// A plain buffer of two pages that the script has filled with the pattern.
fn filled() -> (Segment, PlainBuffer) {
    let mut segment = Segment::create(BYTES_MAX).unwrap();
    let buffer = segment.begin_plain(8192).unwrap();
    let script = File::from(segment.fd().try_clone_to_owned().unwrap());
    script.write_all_at(&pattern(0, 8192), 0).unwrap();
    (segment, buffer)
}

#[test]
fn slice_has_the_bytes_that_the_script_wrote() {
    let (_segment, buffer) = filled();
    assert_eq!(buffer.slice(0, 8192, || ()).unwrap(), pattern(0, 8192));
    assert_eq!(buffer.slice(5000, 300, || ()).unwrap(), pattern(5000, 300));
    assert_eq!(buffer.slice(8192, 0, || ()).unwrap(), "");
}

#[test]
fn slice_outside_the_buffer_is_a_fault() {
    let (_segment, buffer) = filled();
    for (offset, bytes) in [
        (0, 8193),
        (8192, 1),
        (8193, 0),
        (1, u64::MAX),
        (u64::MAX, 1),
        (u64::MAX, u64::MAX),
    ] {
        let fault = buffer.slice(offset, bytes, || panic!("never called")).unwrap_err();
        assert_eq!(fault, BufferFault { offset, bytes, capacity: 8192 });
    }
    let fault = buffer.slice(8000, 200, || ()).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "200 bytes at offset 8000 do not lie within the memory buffer of 8192 bytes"
    );
}

#[test]
fn on_free_is_called_once_when_the_last_clone_is_dropped() {
    let (_segment, buffer) = filled();
    let (freed, frees) = mpsc::channel();
    let part = buffer.slice(10, 100, move || freed.send(()).unwrap()).unwrap();
    let end = part.slice(90..);
    drop(part);
    assert_eq!(frees.try_recv(), Err(mpsc::TryRecvError::Empty));
    drop(end);
    assert_eq!(frees.try_recv(), Ok(()));
    assert_eq!(
        frees.try_recv(),
        Err(mpsc::TryRecvError::Disconnected),
        "called once, then dropped"
    );
}

#[test]
fn slice_outlives_buffer_and_segment() {
    let (segment, buffer) = filled();
    let part = buffer.slice(100, 200, || ()).unwrap();
    drop(segment);
    drop(buffer);
    assert_eq!(part, pattern(100, 200));
}

#[test]
fn size_is_rounded_up_to_a_page() {
    let mut segment = Segment::create(BYTES_MAX).unwrap();
    for (asked, given) in [(0, 4096), (1, 4096), (4096, 4096), (4097, 8192), (1 << 20, 1 << 20)] {
        assert_eq!(segment.begin_plain(asked).unwrap().capacity(), given);
    }
}
