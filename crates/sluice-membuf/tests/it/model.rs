//! Any sequence of writes, takes and drops, compared with a model of plain queues.

use std::collections::VecDeque;

use bytes::Bytes;
use proptest::prelude::*;
use sluice_membuf::{RingReader, RingWriter};

use crate::{Mailbox, pattern, ring};

#[derive(Debug, Clone)]
enum Step {
    /// Writes at most this many bytes into the free room.
    Write(usize),
    /// Takes a chunk of at most this many bytes.
    Take(usize),
    /// Drops the chunk in flight with this number, modulo their count.
    Drop(usize),
    /// Asks for a doorbell.
    Sleep,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..6000_usize).prop_map(Step::Write),
        3 => (0..5000_usize).prop_map(Step::Take),
        3 => any::<usize>().prop_map(Step::Drop),
        1 => Just(Step::Sleep),
    ]
}

/// The expected state of the ring.
#[derive(Default)]
struct Model {
    capacity: u64,
    /// Bytes committed and not yet taken.
    committed: VecDeque<u8>,
    head: u64,
    taken: u64,
    /// Chunks taken and not yet freed: end, and whether it was dropped.
    in_flight: VecDeque<(u64, bool)>,
    tail: u64,
    is_asleep: bool,
}

impl Model {
    fn room(&self) -> u64 {
        (self.capacity - (self.head - self.tail)).min(self.capacity - self.head % self.capacity)
    }

    fn drop_chunk(&mut self, end: u64) {
        let entry = self.in_flight.iter_mut().find(|entry| entry.0 == end).unwrap();
        entry.1 = true;
        while let Some((end, true)) = self.in_flight.front() {
            self.tail = *end;
            self.in_flight.pop_front();
        }
    }
}

struct Sides {
    reader: RingReader,
    writer: RingWriter,
    mailbox: Mailbox,
    chunks: Vec<(u64, Bytes)>,
}

impl Sides {
    fn write(&mut self, model: &mut Model, bytes_max: usize) {
        if model.room() == 0 {
            return;
        }
        let room = self.writer.reserve(bytes_max).unwrap();
        assert_eq!(
            room.len() as u64,
            model.room().min(bytes_max as u64),
            "all freed bytes are room"
        );
        let bytes = pattern(model.head, room.len());
        room.copy_from_slice(&bytes);
        self.writer.commit(bytes.len()).unwrap();
        model.head += bytes.len() as u64;
        model.committed.extend(bytes);
        assert_eq!(
            self.mailbox.drain(),
            usize::from(model.is_asleep),
            "one doorbell per request"
        );
        model.is_asleep = false;
    }

    fn take(&mut self, model: &mut Model, bytes_max: usize) {
        model.is_asleep = false;
        let chunk = self.reader.take(bytes_max).unwrap();
        let contiguous = model.capacity - model.taken % model.capacity;
        let expected = (model.committed.len() as u64)
            .min(contiguous)
            .min(bytes_max.max(1) as u64);
        assert_eq!(chunk.as_ref().map_or(0, Bytes::len) as u64, expected);
        let Some(chunk) = chunk else { return };
        assert!(
            chunk
                .iter()
                .eq(model.committed.drain(..chunk.len()).collect::<Vec<_>>().iter())
        );
        model.taken += expected;
        model.in_flight.push_back((model.taken, false));
        self.chunks.push((model.taken, chunk));
    }

    fn drop_chunk(&mut self, model: &mut Model, number: usize) {
        if self.chunks.is_empty() {
            return;
        }
        let (end, chunk) = self.chunks.swap_remove(number % self.chunks.len());
        let start = end - chunk.len() as u64;
        assert_eq!(
            &chunk[..],
            &pattern(start, chunk.len())[..],
            "chunks in flight are not overwritten"
        );
        drop(chunk);
        model.drop_chunk(end);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ring_behaves_like_plain_queues(steps in prop::collection::vec(step(), 1..120), pages in 1..4_u64) {
        let (_segment, reader, writer, mailbox) = ring(pages * 4096);
        let mut model = Model { capacity: reader.capacity(), ..Model::default() };
        let mut sides = Sides { reader, writer, mailbox, chunks: Vec::new() };
        for step in steps {
            match step {
                Step::Write(bytes_max) => sides.write(&mut model, bytes_max),
                Step::Take(bytes_max) => sides.take(&mut model, bytes_max),
                Step::Drop(number) => sides.drop_chunk(&mut model, number),
                Step::Sleep => {
                    model.is_asleep = sides.reader.prepare_sleep();
                    prop_assert_eq!(model.is_asleep, model.committed.is_empty());
                }
            }
            prop_assert_eq!(sides.reader.sent_bytes(), model.tail);
            prop_assert_eq!(sides.reader.in_flight_bytes(), model.taken - model.tail);
            prop_assert_eq!(sides.reader.is_drained(), model.tail == model.head);
        }
    }
}
