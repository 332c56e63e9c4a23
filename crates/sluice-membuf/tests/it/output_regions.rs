//! The regions behind the buffer: announced while free, sent without a copy, independent of buffers, and released.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use sluice_membuf::{REGION_BYTES, Segment};

use crate::{BYTES_MAX, FILE_BYTES};

fn script_file(segment: &Segment) -> File {
    File::from(segment.fd().try_clone_to_owned().unwrap())
}

#[test]
fn a_region_is_announced_until_its_bytes_are_in_flight() {
    let segment = Segment::create(BYTES_MAX).unwrap();
    let script = script_file(&segment);
    let first = segment.free_region().unwrap();
    assert_eq!(segment.free_region(), Some(first), "nothing is sent yet");
    script.write_all_at(b"one", first.offset).unwrap();
    let one = segment.output(first, 3).unwrap().unwrap();
    let second = segment.free_region().unwrap();
    assert_eq!(second.offset, first.offset + REGION_BYTES);
    script.write_all_at(b"two", second.offset).unwrap();
    let two = segment.output(second, 3).unwrap().unwrap();
    let part = one.slice(1..);
    assert_eq!(
        (segment.free_region(), &one[..], &two[..]),
        (None, &b"one"[..], &b"two"[..])
    );
    drop(one);
    assert_eq!(segment.free_region(), None, "a clone is in flight");
    drop(part);
    assert_eq!(segment.free_region(), Some(first));
}

#[test]
fn more_bytes_than_a_region_has_are_refused() {
    let segment = Segment::create(BYTES_MAX).unwrap();
    let region = segment.free_region().unwrap();
    for bytes in [REGION_BYTES + 1, u64::MAX] {
        assert!(segment.output(region, bytes).unwrap().is_none());
    }
    assert_eq!(segment.free_region(), Some(region));
    let all = segment.output(region, REGION_BYTES).unwrap().unwrap();
    assert!(all.iter().all(|byte| *byte == 0), "what was never written");
    let none = Segment::create(0).unwrap();
    assert!(none.free_region().is_none() && none.output(region, 1).unwrap().is_none());
}

#[test]
fn buffers_and_regions_do_not_affect_each_other() {
    let mut segment = Segment::create(BYTES_MAX).unwrap();
    let script = script_file(&segment);
    let region = segment.free_region().unwrap();
    script.write_all_at(&[7; 128 << 10], region.offset).unwrap();
    let output = segment.output(region, REGION_BYTES).unwrap().unwrap();
    for _ in 0..2 {
        drop(segment.begin_ring(BYTES_MAX).unwrap());
        segment.end_exchange();
        segment.trim();
    }
    assert!(!segment.is_in_use() && !segment.needs_trim());
    drop(segment);
    assert!(output.iter().all(|byte| *byte == 7), "bytes in flight stay");
}

#[test]
fn memory_is_released_with_the_segment_unless_it_is_being_sent() {
    for is_sent in [true, false] {
        let segment = Segment::create(BYTES_MAX).unwrap();
        let script = script_file(&segment);
        assert_eq!(script.metadata().unwrap().len(), FILE_BYTES);
        let region = segment.free_region().unwrap();
        script.write_all_at(&[7; 40_000], region.offset).unwrap();
        let output = segment.output(region, 40_000).unwrap().unwrap();
        let output = Some(output).filter(|_| !is_sent);
        drop(segment);
        assert_eq!(script.metadata().unwrap().blocks() == 0, is_sent);
        drop(output);
    }
}
