//! The memory itself: it is allocated at begin, one buffer at a time uses it, and it is released.

#![allow(unsafe_code)] // setrlimit(2), fallocate(2)

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};

use sluice_membuf::{BeginError, Budget, Garbage, KEPT_BYTES, RingWriter, Segment};

use crate::{BYTES_MAX, FILE_BYTES, Mailbox, pattern, ring};

/// A duplicate of the memfd, as a process that the script left behind holds it.
fn left_behind(segment: &Segment) -> File {
    File::from(segment.fd().try_clone_to_owned().unwrap())
}

/// Bytes of memory allocated to the file.
fn resident_bytes(file: &File) -> u64 {
    file.metadata().unwrap().blocks() * 512
}

fn punch(file: &File, offset: i64, bytes: i64) {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: changes the file only; mappings of it read as zeros afterwards.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, bytes) };
    assert_eq!(result, 0);
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
    let mut segment = Segment::create(BYTES_MAX).unwrap();
    let file = left_behind(&segment);
    assert_eq!((file.metadata().unwrap().len(), resident_bytes(&file)), (FILE_BYTES, 0));
    let reader = segment.begin_ring(1 << 20).unwrap();
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
    let mut segment = Segment::create(BYTES_MAX).unwrap();
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
fn trim_keeps_a_ring_of_the_default_size_and_does_nothing_while_in_use() {
    let mut segment = Segment::create(8 << 20).unwrap();
    let file = left_behind(&segment);
    let all = (8 << 20) + 4096;
    let reader = segment.begin_ring(8 << 20).unwrap();
    assert!(segment.needs_trim());
    segment.trim();
    assert_eq!(resident_bytes(&file), all, "not while the ring is in use");
    drop(reader);
    segment.trim();
    assert_eq!(resident_bytes(&file), KEPT_BYTES);
    assert!(!segment.needs_trim());
    assert!(segment.try_begin_ring((1 << 20) + 1).is_none());
    drop(segment.try_begin_ring(1 << 20).unwrap().unwrap());
    let _reader = segment.begin_ring(8 << 20).unwrap();
    assert_eq!(resident_bytes(&file), all, "the next begin allocates it again");
}

#[test]
fn memory_that_a_script_takes_without_a_buffer_goes_when_its_process_is_kept() {
    let mut segment = Segment::create(8 << 20).unwrap();
    let file = left_behind(&segment);
    assert!(!segment.needs_trim());
    let strays = vec![7; 4 << 20];
    file.write_all_at(&strays, 4 << 20).unwrap();
    segment.end_exchange();
    assert!(segment.needs_trim());
    segment.trim();
    assert_eq!(resident_bytes(&file), 0);
    // What is there when the process ends goes, too.
    file.write_all_at(&strays, 0).unwrap();
    drop(segment);
    assert_eq!(resident_bytes(&file), 4096);
}

#[test]
fn bytes_of_earlier_exchanges_read_as_zeros() {
    // The earlier exchange has a buffer of each size and writes everywhere, also outside of it.
    for (earlier, later) in [
        (0, 4 << 20),
        (64 << 10, 4096),
        (64 << 10, 4 << 20),
        (4 << 20, 64 << 10),
        (4 << 20, 4 << 20),
    ] {
        for is_trimmed in [false, true] {
            let mut segment = Segment::create(4 << 20).unwrap();
            let script = left_behind(&segment);
            if earlier > 0 {
                drop(segment.begin_plain(earlier).unwrap());
            }
            script.write_all_at(&vec![7; 4 << 20], 0).unwrap();
            segment.end_exchange();
            if is_trimmed {
                segment.trim();
            }
            // A process that the script left running.
            script.write_all_at(b"late", 100).unwrap();
            let first = segment.begin_plain(later.min(4096)).unwrap();
            let is_clear = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
            assert!(
                is_clear(&first.slice(0, 4096, || ()).unwrap()),
                "{earlier} {later} {is_trimmed}"
            );
            drop(first);
            script.write_all_at(b"mine", 4000).unwrap();
            let second = segment.begin_plain(later).unwrap();
            let content = second.slice(0, later, || ()).unwrap();
            assert_eq!(&content[4000..4004], b"mine", "the exchange's own bytes remain");
            assert!(
                is_clear(&content[..4000]) && is_clear(&content[4004..]),
                "{earlier} {later} {is_trimmed}"
            );
        }
    }
}

#[test]
fn begin_allocates_again_what_the_script_punched_out() {
    let mut segment = Segment::create(BYTES_MAX).unwrap();
    let script = left_behind(&segment);
    drop(segment.begin_ring(BYTES_MAX).unwrap());
    drop(segment.try_begin_ring(BYTES_MAX).unwrap().unwrap());
    punch(&script, 4096, 65536);
    assert!(segment.try_begin_ring(BYTES_MAX).is_none());
    drop(segment.begin_ring(BYTES_MAX).unwrap());
    assert_eq!(resident_bytes(&script), BYTES_MAX + 4096);
}

#[test]
fn all_segments_together_stay_within_their_budget() {
    let budget = Budget::new(3 << 20);
    let create = || Segment::create_within(&budget, 8 << 20, Arc::new(drop)).unwrap();
    let (mut first, mut second) = (create(), create());
    let buffer = first.begin_plain(2 << 20).unwrap();
    assert!(matches!(second.begin_plain(2 << 20), Err(BeginError::OverBudget(_))));
    assert_eq!(resident_bytes(&left_behind(&second)), 0);
    drop(second.begin_plain(1 << 20).unwrap());
    assert_eq!(budget.used_bytes(), 3 << 20);
    drop(buffer);
    first.end_exchange();
    assert!(first.needs_trim());
    first.trim();
    assert_eq!(
        budget.used_bytes(),
        (1 << 20) + 4096,
        "nothing is kept while it is tight"
    );
    drop(first);
    assert_eq!(budget.used_bytes(), 1 << 20);
    let part = second.begin_plain(1 << 20).unwrap().slice(0, 10, || ()).unwrap();
    drop(second);
    assert_eq!(budget.used_bytes(), 1 << 20, "a part is being sent");
    drop(part);
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn last_holder_passes_memory_on_for_release() {
    static RELEASED: Mutex<Vec<Garbage>> = Mutex::new(Vec::new());
    let create = || {
        let release = |garbage| RELEASED.lock().unwrap().push(garbage);
        Segment::create_within(&Budget::new(1 << 20), 1 << 20, Arc::new(release))
    };
    drop(create().unwrap());
    assert!(RELEASED.lock().unwrap().is_empty(), "there was no memory");
    // A script that has only written waits as well: its memory may be locked.
    let written = create().unwrap();
    left_behind(&written).write_all_at(b"two pages", 4090).unwrap();
    drop(written);
    assert!(RELEASED.lock().unwrap().pop().is_some());
    let mut segment = create().unwrap();
    let file = left_behind(&segment);
    let part = segment.begin_plain(1 << 20).unwrap().slice(0, 10, || ()).unwrap();
    drop(segment);
    assert!(RELEASED.lock().unwrap().is_empty(), "a part is being sent");
    drop(part);
    assert_eq!(resident_bytes(&file), 1 << 20);
    let garbage = RELEASED.lock().unwrap().pop();
    drop(garbage);
    assert_eq!(resident_bytes(&file), 4096);
}

#[test]
fn next_exchange_may_use_another_size_and_starts_at_zero() {
    let mut segment = Segment::create(BYTES_MAX).unwrap();
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
    let mut segment = Segment::create(1 << 62).unwrap();
    for bytes in [1 << 46, 1 << 62] {
        assert!(matches!(segment.begin_ring(bytes), Err(BeginError::NoMemory)));
        assert!(matches!(segment.begin_plain(bytes), Err(BeginError::NoMemory)));
    }
    assert!(matches!(segment.begin_ring(1 << 63), Err(BeginError::TooLarge)));
    assert!(matches!(segment.begin_ring(u64::MAX), Err(BeginError::TooLarge)));
    assert!(matches!(segment.begin_ring(u64::MAX - 4095), Err(BeginError::TooLarge)));
    assert!(matches!(segment.begin_plain(u64::MAX), Err(BeginError::TooLarge)));
    assert_eq!(resident_bytes(&left_behind(&segment)), 0);
    assert!(segment.begin_ring(8192).is_ok(), "usable after an error");
}

#[test]
fn writer_refuses_memory_without_a_ring() {
    let mut segment = Segment::create(BYTES_MAX).unwrap();
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
    let limit = libc::rlimit { rlim_cur: 64 << 10, rlim_max: 64 << 10 };
    // SAFETY: reads one rlimit.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
    assert_eq!(result, 0);
    let mut segment = Segment::create(BYTES_MAX).unwrap();
    assert!(
        matches!(segment.begin_ring(64 << 10), Err(BeginError::TooLarge)),
        "one page above the limit"
    );
    assert!(segment.begin_ring(60 << 10).is_ok());
}
