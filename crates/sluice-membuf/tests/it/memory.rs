//! The memory itself: it is allocated at begin, one buffer at a time uses it, and it is released.

#![allow(unsafe_code)] // setrlimit(2)

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};

use sluice_membuf::{BeginError, RingWriter, Segment};

use crate::{Mailbox, pattern, ring};

/// A duplicate of the memfd, as a process that the script left behind holds it.
fn left_behind(segment: &Segment) -> File {
    File::from(segment.fd().try_clone_to_owned().unwrap())
}

/// Bytes of memory allocated to the file.
fn resident_bytes(file: &File) -> u64 {
    file.metadata().unwrap().blocks() * 512
}

/// Numbers of descriptors and mappings of this process that belong to the file with `inode`.
fn descriptors_and_mappings(inode: u64) -> (usize, usize) {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| {
        let link = entry.ok()?.path();
        let target = fs::read_link(&link).ok()?;
        target
            .to_string_lossy()
            .contains("memfd:sluice-buffer")
            .then(|| fs::metadata(&link).ok())?
    });
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let inode_text = inode.to_string();
    let is_ours =
        |line: &&str| line.contains("memfd:sluice-buffer") && line.split_whitespace().nth(4) == Some(&inode_text);
    (
        descriptors.filter(|metadata| metadata.ino() == inode).count(),
        maps.lines().filter(is_ours).count(),
    )
}

#[test]
fn all_memory_is_allocated_at_begin() {
    let mut segment = Segment::create().unwrap();
    let file = left_behind(&segment);
    assert_eq!((file.metadata().unwrap().len(), resident_bytes(&file)), (0, 0));
    let reader = segment.begin_ring(1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), (1 << 20) + 4096);
    assert!(resident_bytes(&file) >= (1 << 20) + 4096);
    drop(reader);
}

#[test]
fn descriptor_and_mappings_are_released_with_the_last_chunk() {
    let (segment, mut reader, mut writer, _mailbox) = ring(8192);
    let inode = left_behind(&segment).metadata().unwrap().ino();
    assert_eq!(descriptors_and_mappings(inode), (1, 4), "two mappings per side");
    writer.write(b"last").unwrap();
    drop(writer);
    let chunk = reader.take(100).unwrap().unwrap();
    drop((segment, reader));
    assert_eq!(descriptors_and_mappings(inode), (1, 2), "the chunk holds them");
    assert_eq!(chunk, "last");
    drop(chunk);
    assert_eq!(descriptors_and_mappings(inode), (0, 0));
}

#[test]
fn memory_is_released_even_if_another_process_holds_the_descriptor() {
    let mut segment = Segment::create().unwrap();
    let file = left_behind(&segment);
    drop(segment.begin_ring(1 << 20).unwrap());
    drop(segment);
    assert_eq!(
        resident_bytes(&file),
        4096,
        "only the control page, which says that the ring is closed"
    );
}

#[test]
fn trim_releases_memory_only_when_not_in_use() {
    let mut segment = Segment::create().unwrap();
    let file = left_behind(&segment);
    let reader = segment.begin_ring(1 << 20).unwrap();
    segment.trim(0);
    assert!(
        resident_bytes(&file) >= (1 << 20) + 4096,
        "not while the ring is in use"
    );
    drop(reader);
    segment.trim(64 << 10);
    assert_eq!(resident_bytes(&file), 64 << 10);
    segment.trim(0);
    assert_eq!(resident_bytes(&file), 4096);
    let _reader = segment.begin_ring(1 << 20).unwrap();
    assert!(
        resident_bytes(&file) >= (1 << 20) + 4096,
        "the next begin allocates it again"
    );
}

#[test]
fn next_exchange_may_use_another_size_and_starts_at_zero() {
    let mut segment = Segment::create().unwrap();
    for (asked, given) in [
        (0, 8192),
        (8193, 12288),
        (1 << 20, 1 << 20),
        (8192, 8192),
        (40_000, 40_960),
    ] {
        let mut reader = segment.begin_ring(asked).unwrap();
        assert_eq!(reader.capacity(), given);
        let (_mailbox, doorbell) = Mailbox::open();
        let mut writer = RingWriter::open(segment.fd(), doorbell).unwrap();
        assert_eq!(writer.capacity(), given);
        for counter in [0, 6000] {
            writer.write(&pattern(counter, 6000)).unwrap();
            let taken: Vec<u8> = std::iter::from_fn(|| reader.take(5000).unwrap()).flatten().collect();
            assert_eq!(taken, pattern(counter, 6000));
        }
        assert_eq!(reader.sent_bytes(), 12_000);
    }
}

#[test]
fn ring_does_not_begin_while_a_chunk_of_the_previous_one_is_held() {
    let (mut segment, mut reader, mut writer, _mailbox) = ring(8192);
    writer.write(b"on its way").unwrap();
    let chunk = reader.take(100).unwrap().unwrap();
    assert!(matches!(segment.begin_ring(8192), Err(BeginError::InUse)));
    drop(reader);
    assert!(segment.is_in_use());
    assert!(matches!(segment.begin_plain(8192), Err(BeginError::InUse)));
    assert_eq!(chunk, "on its way");
    drop(chunk);
    assert!(!segment.is_in_use());
    assert!(segment.begin_plain(8192).is_ok());
}

#[test]
fn segment_is_not_in_use_when_the_last_on_free_is_called() {
    let (segment, mut reader, mut writer, _mailbox) = ring(8192);
    let segment = Arc::new(Mutex::new(segment));
    let (report, reports) = mpsc::channel();
    let asked = Arc::clone(&segment);
    reader.set_on_free(Box::new(move || {
        report.send(asked.lock().unwrap().is_in_use()).unwrap();
    }));
    writer.write(b"two chunks").unwrap();
    let chunks = [reader.take(5).unwrap(), reader.take(5).unwrap()];
    drop(reader);
    drop(chunks);
    assert_eq!(reports.iter().take(2).collect::<Vec<_>>(), [true, false]);
    let part = segment.lock().unwrap().begin_plain(1).unwrap();
    let (report, reports) = mpsc::channel();
    let asked = Arc::clone(&segment);
    let slice = part
        .slice(0, 1, move || {
            report.send(asked.lock().unwrap().is_in_use()).unwrap();
        })
        .unwrap();
    drop(part);
    drop(slice);
    assert_eq!(reports.recv(), Ok(false));
}

#[test]
fn excessive_size_is_refused_before_the_oom_killer_acts() {
    let mut segment = Segment::create().unwrap();
    for bytes in [1 << 46, 1 << 62] {
        assert!(matches!(segment.begin_ring(bytes), Err(BeginError::NoMemory)));
        assert!(matches!(segment.begin_plain(bytes), Err(BeginError::NoMemory)));
    }
    assert!(matches!(segment.begin_ring(u64::MAX), Err(BeginError::TooLarge)));
    assert!(matches!(segment.begin_ring(u64::MAX - 4095), Err(BeginError::TooLarge)));
    assert!(matches!(segment.begin_plain(u64::MAX), Err(BeginError::TooLarge)));
    assert_eq!(resident_bytes(&left_behind(&segment)), 0);
    assert!(segment.begin_ring(8192).is_ok(), "usable after an error");
}

#[test]
fn writer_refuses_memory_without_a_ring() {
    let mut segment = Segment::create().unwrap();
    let open = |segment: &Segment| RingWriter::open(segment.fd(), Mailbox::open().1).map(|_| ());
    assert_eq!(
        open(&segment).unwrap_err().kind(),
        std::io::ErrorKind::InvalidData,
        "empty"
    );
    let _plain = segment.begin_plain(1 << 16).unwrap();
    assert_eq!(
        open(&segment).unwrap_err().kind(),
        std::io::ErrorKind::InvalidData,
        "plain"
    );
}

#[test]
fn size_above_the_file_limit_is_refused_without_sigxfsz() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "memory::begin_under_a_file_limit"])
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{}: {report}", child.status);
    assert!(report.contains("1 passed"), "{report}");
}

#[test]
#[ignore = "lowers a limit of its process; the test above runs it in a process of its own"]
fn begin_under_a_file_limit() {
    let limit = libc::rlimit {
        rlim_cur: 64 << 10,
        rlim_max: 64 << 10,
    };
    // SAFETY: reads one rlimit.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
    assert_eq!(result, 0);
    let mut segment = Segment::create().unwrap();
    assert!(
        matches!(segment.begin_ring(64 << 10), Err(BeginError::TooLarge)),
        "one page above the limit"
    );
    assert!(segment.begin_ring(60 << 10).is_ok());
}
