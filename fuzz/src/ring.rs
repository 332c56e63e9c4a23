//! The ring of a memory buffer: a script that writes anything into the shared pages, and the server's reader.
//!
//! Properties: the reader does what a model does that knows only the head counter as it stands in the page and the server's own
//! counters; it never reads outside the data area, never has more in flight than that holds, and stays with the first lie. A part
//! of a plain buffer is given out if and only if it lies within the buffer.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use rustix::fs::{FallocateFlags, fallocate};
use sluice_membuf::layout::{CONTROL_BYTES, RING_BYTES_MIN};
use sluice_membuf::{RingFault, RingReader, Segment};

use crate::input::Input;

/// Offset of the head counter in the control page.
const HEAD: u64 = 64;

/// The largest buffer of an input: four pages more than the smallest ring.
const BYTES_MAX: u64 = RING_BYTES_MIN + 4 * 4096;

/// Steps of one input: more make an input slower, not deeper.
const STEPS_MAX: usize = 64;

thread_local! {
    /// Used again by every input, as by every request of a script process.
    static SEGMENT: RefCell<Segment> = RefCell::new(Segment::create(BYTES_MAX).expect("a memfd"));
}

/// Input: the size in pages, then steps, each a byte and its parameters.
pub fn check(bytes: &[u8]) {
    SEGMENT.with_borrow_mut(|segment| {
        let mut input = Input::new(bytes);
        let capacity = RING_BYTES_MIN + 4096 * u64::from(input.byte() % 4);
        let script = File::from(segment.fd().try_clone_to_owned().expect("a descriptor"));
        let reader = segment.begin_ring(capacity).expect("the ring before was dropped");
        let mut exchange = Exchange {
            script,
            model: Model::new(reader.capacity()),
            reader,
            chunks: Vec::new(),
        };
        for _ in 0..STEPS_MAX {
            if input.is_empty() {
                break;
            }
            exchange.step(&mut input);
            exchange.check();
        }
        exchange.chunks.clear();
        exchange.model.tail = exchange.model.taken;
        exchange.check();
        drop(exchange);
        check_plain(segment, input.long(), input.long());
    });
}

/// Both ends of a ring in use.
struct Exchange {
    script: File,
    reader: RingReader,
    model: Model,
    /// In flight, with the counter behind each.
    chunks: Vec<(u64, Bytes)>,
}

impl Exchange {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 10 {
            // Likely heads, small steps, absurd heads.
            0 => self.poke(HEAD, self.model.tail.wrapping_add(u64::from(input.short()))),
            1 => self.poke(HEAD, self.model.seen.wrapping_add(u64::from(input.byte()))),
            2 => self.poke(HEAD, input.long()),
            3 => self.poke(8 * (u64::from(input.short()) % 512), input.long()),
            4 => self.poke(CONTROL_BYTES as u64 + u64::from(input.short()), input.long()),
            5 => self.punch(u64::from(input.byte()) << 8, u64::from(input.byte()) << 8),
            6 => self.take(usize::from(input.short())),
            7 => self.take(usize::MAX),
            8 => self.drop_chunk(usize::from(input.byte())),
            _ => self.sleep_or_close(input.byte()),
        }
    }

    fn poke(&self, offset: u64, value: u64) {
        // The data area ends within the file's pages; beyond them the file would only grow.
        if offset + 8 <= CONTROL_BYTES as u64 + self.model.capacity {
            self.script
                .write_all_at(&value.to_ne_bytes(), offset)
                .expect("shared memory");
        }
    }

    fn punch(&self, offset: u64, bytes: u64) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.script, flags, offset, bytes + 1).expect("a hole");
    }

    fn head(&self) -> u64 {
        let mut head = [0; 8];
        self.script.read_exact_at(&mut head, HEAD).expect("the control page");
        u64::from_ne_bytes(head)
    }

    fn take(&mut self, bytes_max: usize) {
        let expected = self.model.take(self.head(), bytes_max as u64);
        let taken = self.reader.take(bytes_max);
        let (position, bytes) = match expected {
            Err(fault) => return assert_eq!(taken, Err(fault)),
            Ok(None) => return assert_eq!(taken, Ok(None)),
            Ok(Some(span)) => span,
        };
        let chunk = taken.expect("head can be true").expect("bytes were committed");
        let mut data = vec![0; bytes];
        self.script
            .read_exact_at(&mut data, CONTROL_BYTES as u64 + position)
            .expect("the data area");
        assert_eq!(chunk, data, "{bytes} bytes at {position}");
        self.chunks.push((self.model.taken, chunk));
    }

    fn drop_chunk(&mut self, number: usize) {
        if self.chunks.is_empty() {
            return;
        }
        drop(self.chunks.swap_remove(number % self.chunks.len()));
        // Everything before the oldest chunk in flight is free.
        let starts = self.chunks.iter().map(|(end, chunk)| end - chunk.len() as u64);
        self.model.tail = starts.min().unwrap_or(self.model.taken);
    }

    fn sleep_or_close(&mut self, choice: u8) {
        if choice == 0xff {
            self.reader.close();
        } else {
            assert_eq!(self.reader.prepare_sleep(), self.head() == self.model.taken);
        }
    }

    fn check(&self) {
        let (reader, model) = (&self.reader, &self.model);
        assert_eq!(reader.sent_bytes(), model.tail);
        assert_eq!(reader.in_flight_bytes(), model.taken - model.tail);
        assert!(reader.in_flight_bytes() <= model.capacity);
        let is_drained = self.head() == model.taken && model.tail == model.taken;
        assert_eq!(reader.is_drained(), is_drained);
    }
}

/// A model of what the reader must make of a head counter.
struct Model {
    capacity: u64,
    seen: u64,
    taken: u64,
    tail: u64,
    fault: Option<RingFault>,
}

impl Model {
    fn new(capacity: u64) -> Model {
        Model { capacity, seen: 0, taken: 0, tail: 0, fault: None }
    }

    /// Where the next chunk lies in the data area, and how long it is.
    fn take(&mut self, head: u64, bytes_max: u64) -> Result<Option<(u64, usize)>, RingFault> {
        let (seen, tail, capacity) = (self.seen, self.tail, self.capacity);
        if self.fault.is_none() && head < seen {
            self.fault = Some(RingFault::HeadWentBack { head, seen });
        } else if self.fault.is_none() && u128::from(head) > u128::from(tail) + u128::from(capacity) {
            self.fault = Some(RingFault::HeadBeyondRoom { head, tail, capacity });
        }
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        self.seen = head;
        let position = self.taken % capacity;
        let bytes = (head - self.taken).min(capacity - position).min(bytes_max.max(1));
        self.taken += bytes;
        let length = usize::try_from(bytes).expect("a chunk lies within the data area");
        Ok((bytes > 0).then_some((position, length)))
    }
}

fn check_plain(segment: &mut Segment, offset: u64, bytes: u64) {
    let buffer = segment.begin_plain(RING_BYTES_MIN).expect("the ring was dropped");
    let is_within = u128::from(offset) + u128::from(bytes) <= u128::from(buffer.capacity());
    match buffer.slice(offset, bytes, || {}) {
        Ok(part) => assert!(is_within && part.len() as u64 == bytes),
        Err(fault) => {
            assert!(!is_within);
            assert_eq!(
                (fault.offset, fault.bytes, fault.capacity),
                (offset, bytes, buffer.capacity())
            );
        }
    }
}
