//! A hostile script can only end its own exchange.
//!
//! The hostile script writes to the memfd with pwrite(2), which needs no mapping, and punches holes with fallocate(2).
#![allow(unsafe_code)] // fallocate(2)

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use sluice_membuf::{RingFault, RingReader, Segment};

use crate::{BYTES_MAX, DEADLINE, FILE_BYTES, Numbers, pattern, ring};

const HEAD: u64 = 64;
const WAKE_AT: u64 = 72;
const WRITER_WAITS: u64 = 80;
const TAIL: u64 = 128;
const CAPACITY: u64 = 8192;

/// The memfd as the script has it: descriptor 4.
fn script_file(segment: &Segment) -> File {
    File::from(segment.fd().try_clone_to_owned().unwrap())
}

fn poke(file: &File, offset: u64, value: u64) {
    file.write_all_at(&value.to_ne_bytes(), offset).unwrap();
}

fn punch(file: &File, offset: i64, bytes: i64) {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: changes the file only; mappings of it read as zeros afterwards.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, bytes) };
    assert_eq!(result, 0);
}

#[test]
fn impossible_head_is_a_lasting_fault() {
    // Values of head after 5000 bytes were committed, 3000 taken and 1000 of those freed.
    let table = [
        (4999, "went back from 5000 to 4999"),
        (3000, "went back from 5000 to 3000"),
        (0, "went back from 5000 to 0"),
        (
            1000 + CAPACITY + 1,
            "is 9193, which is more than 8192 bytes (the size of the buffer) past the 1000 bytes freed",
        ),
        (u64::MAX, "is 18446744073709551615, which is more than 8192"),
        (u64::MAX / 2 + 1, "is 9223372036854775808, which is more than 8192"),
    ];
    for (head, message) in table {
        let (segment, mut reader, mut writer, _mailbox) = ring(CAPACITY);
        writer.write(&pattern(0, 5000)).unwrap();
        drop(reader.take(1000).unwrap());
        let in_flight = reader.take(2000).unwrap().unwrap();
        assert!(reader.take(1).unwrap().is_some());
        let script = script_file(&segment);
        poke(&script, HEAD, head);
        assert!(!reader.prepare_sleep(), "the fault must be taken first");
        let fault = reader.take(100).unwrap_err();
        assert!(fault.to_string().contains(message), "{fault} does not say {message:?}");
        poke(&script, HEAD, 5000);
        assert_eq!(reader.take(100).unwrap_err(), fault, "the fault is permanent");
        assert_eq!(in_flight, pattern(1000, 2000), "chunks in flight remain valid");
    }
}

#[test]
fn largest_possible_head_is_accepted() {
    let (segment, mut reader, mut writer, _mailbox) = ring(CAPACITY);
    writer.write(&pattern(0, 1000)).unwrap();
    drop(reader.take(1000).unwrap());
    poke(&script_file(&segment), HEAD, 1000 + CAPACITY);
    let first = reader.take(usize::MAX).unwrap().unwrap();
    let second = reader.take(usize::MAX).unwrap().unwrap();
    assert_eq!(
        (first.len(), second.len()),
        (7192, 1000),
        "to the end of the data area, then the rest from its start"
    );
    assert!(reader.take(usize::MAX).unwrap().is_none());
}

#[test]
fn server_ignores_writes_to_its_own_fields() {
    let (segment, mut reader, mut writer, _mailbox) = ring(CAPACITY);
    let script = script_file(&segment);
    writer.write(&pattern(0, 8192)).unwrap();
    for offset in [0, 8, 16, WAKE_AT, WRITER_WAITS, TAIL, 136, 4088] {
        poke(&script, offset, u64::MAX);
    }
    let chunk = reader.take(usize::MAX).unwrap().unwrap();
    assert_eq!(chunk, pattern(0, 8192));
    drop(chunk);
    assert!(reader.is_drained());
    assert_eq!(reader.sent_bytes(), 8192);
    let mut tail = [0; 8];
    script.read_exact_at(&mut tail, TAIL).unwrap();
    assert_eq!(u64::from_ne_bytes(tail), 8192, "the server overwrites the false tail");
}

#[test]
fn holes_read_as_zeros() {
    let (segment, mut reader, mut writer, _mailbox) = ring(CAPACITY);
    writer.write(&[7; 8192]).unwrap();
    let chunk = reader.take(usize::MAX).unwrap().unwrap();
    punch(&script_file(&segment), 0, 4096 + 8192);
    assert!(chunk.iter().all(|byte| *byte == 0));
    assert_eq!(
        reader.take(1).unwrap_err(),
        RingFault::HeadWentBack { head: 0, seen: 8192 }
    );
}

#[test]
fn script_can_neither_shrink_nor_seal_the_memory() {
    let mut segment = Segment::create(BYTES_MAX).unwrap();
    let _reader = segment.begin_ring(CAPACITY).unwrap();
    let script = script_file(&segment);
    assert!(script.set_len(4096).is_err(), "sealed against shrinking");
    for seal in [libc::F_SEAL_GROW, libc::F_SEAL_FUTURE_WRITE, libc::F_SEAL_WRITE] {
        // SAFETY: takes an integer.
        let result = unsafe { libc::fcntl(script.as_raw_fd(), libc::F_ADD_SEALS, seal) };
        assert_eq!(result, -1);
    }
}

#[test]
fn script_can_allocate_no_more_than_the_largest_buffer() {
    let mut segment = Segment::create(BYTES_MAX).unwrap();
    let script = script_file(&segment);
    for _ in 0..2 {
        assert!(script.set_len(1 << 30).is_err(), "sealed against growing");
        assert!(script.write_all_at(b"x", FILE_BYTES).is_err());
        script.write_all_at(b"x", BYTES_MAX + 4095).unwrap();
        // The same when a buffer has begun.
        drop(segment.begin_ring(CAPACITY).unwrap());
    }
}

#[test]
fn random_writes_cause_only_faults() {
    let mut segment = Segment::create(BYTES_MAX).unwrap();
    drop(segment.begin_ring(CAPACITY).unwrap());
    let is_over = Arc::new(AtomicBool::new(false));
    let scribbler = {
        let (script, is_over) = (script_file(&segment), Arc::clone(&is_over));
        thread::spawn(move || scribble(&script, &is_over))
    };
    let deadline = Instant::now() + DEADLINE;
    let mut faults = 0;
    while faults < 200 {
        assert!(Instant::now() < deadline, "the scribbler thread does not run");
        let reader = segment.begin_ring(CAPACITY).unwrap();
        faults += usize::from(takes_until_fault(reader));
    }
    is_over.store(true, Ordering::Relaxed);
    scribbler.join().unwrap();
}

/// Takes and drops chunks for a while and reads each byte; returns whether it got a fault.
fn takes_until_fault(mut reader: RingReader) -> bool {
    let mut in_flight = Vec::new();
    for step in 0..200 {
        match reader.take(step * 61) {
            Ok(Some(chunk)) => in_flight.push(chunk),
            Ok(None) => {
                reader.prepare_sleep();
                thread::yield_now();
            }
            Err(_) => return true,
        }
        assert!(reader.in_flight_bytes() <= CAPACITY);
        if step % 5 == 0 {
            let touched: u64 = in_flight.drain(..).flatten().map(u64::from).sum();
            assert!(touched <= CAPACITY * 255);
        }
    }
    false
}

/// Writes everywhere until `is_over`: plausible heads, impossible ones, other fields, data, holes.
fn scribble(script: &File, is_over: &AtomicBool) {
    let mut numbers = Numbers(4);
    while !is_over.load(Ordering::Relaxed) {
        match numbers.below(8) {
            0..4 => poke(script, HEAD, numbers.next() % (3 * CAPACITY)),
            4 => poke(script, HEAD, numbers.next().wrapping_mul(numbers.next())),
            5 => poke(script, 8 * (numbers.next() % 512), numbers.next()),
            6 => poke(script, 4096 + numbers.next() % 8000, numbers.next()),
            _ => punch(script, 0, 4096 + 8192),
        }
    }
}
