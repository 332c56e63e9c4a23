//! The regions behind the buffer: announced while free, sent without a copy, independent of buffers, and released.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

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
    let one = segment.output(first, 0, 3).unwrap().unwrap();
    let second = segment.free_region().unwrap();
    assert_eq!(second.offset, first.offset + REGION_BYTES);
    script.write_all_at(b"two", second.offset).unwrap();
    let two = segment.output(second, 0, 3).unwrap().unwrap();
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
    for (offset, bytes) in [
        (0, REGION_BYTES + 1),
        (0, u64::MAX),
        (1, REGION_BYTES),
        (u64::MAX, 1),
        (u64::MAX, u64::MAX),
    ] {
        assert!(segment.output(region, offset, bytes).unwrap().is_none());
    }
    assert_eq!(segment.free_region(), Some(region));
    let all = segment.output(region, 0, REGION_BYTES).unwrap().unwrap();
    assert!(all.iter().all(|byte| *byte == 0), "what was never written");
    let none = Segment::create(0).unwrap();
    assert!(none.free_region().is_none() && none.output(region, 0, 1).unwrap().is_none());
}

#[test]
fn a_part_is_free_when_its_last_clone_is_dropped() {
    let segment = Segment::create(BYTES_MAX).unwrap();
    let script = script_file(&segment);
    let region = segment.free_region().unwrap();
    script.write_all_at(b"onetwo", region.offset + 100).unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let context = &Context::from_waker(&waker);
    let is_free = |offset, bytes| segment.poll_output_freed(region, offset, bytes, context).is_ready();
    let one = segment.output(region, 100, 3).unwrap().unwrap();
    let two = segment.output(region, 103, 3).unwrap().unwrap();
    assert_eq!((&one[..], &two[..]), (&b"one"[..], &b"two"[..]));
    assert!(is_free(0, 100) && is_free(106, REGION_BYTES - 106) && is_free(103, 0));
    assert!(!is_free(0, 101) && !is_free(102, 1) && !is_free(105, 100) && !is_free(0, REGION_BYTES));
    let clone = one.clone();
    drop(one);
    assert!(!is_free(100, 3) && wakes.0.load(Ordering::Relaxed) == 0);
    drop(clone);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "the task is woken");
    assert!(is_free(0, 103) && !is_free(0, 104));
    drop(two);
    assert!(wakes.0.load(Ordering::Relaxed) == 2 && is_free(0, REGION_BYTES));
    assert_eq!(segment.free_region(), Some(region));
}

#[test]
fn parts_in_flight_are_bounded() {
    let segment = Segment::create(BYTES_MAX).unwrap();
    let region = segment.free_region().unwrap();
    let part = || segment.output(region, 7, 1).unwrap();
    let mut parts: Vec<_> = std::iter::from_fn(part).take(1000).collect();
    assert_eq!(parts.len(), 64);
    parts.pop();
    assert!(part().is_some());
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn buffers_and_regions_do_not_affect_each_other() {
    let mut segment = Segment::create(BYTES_MAX).unwrap();
    let script = script_file(&segment);
    let region = segment.free_region().unwrap();
    let sevens = vec![7; usize::try_from(REGION_BYTES).unwrap()];
    script.write_all_at(&sevens, region.offset).unwrap();
    let output = segment.output(region, 0, REGION_BYTES).unwrap().unwrap();
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
        let output = segment.output(region, 0, 40_000).unwrap().unwrap();
        let output = Some(output).filter(|_| !is_sent);
        drop(segment);
        assert_eq!(script.metadata().unwrap().blocks() == 0, is_sent);
        drop(output);
    }
}
