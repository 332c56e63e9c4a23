//! Any sequence of writes, takes and drops against a model made of plain queues.

use std::collections::VecDeque;

use bytes::Bytes;
use proptest::prelude::*;
use sluice_membuf::{RingReader, RingWriter};

use crate::{Mailbox, pattern, ring};

#[derive(Debug, Clone)]
enum Step {
    /// Fill at most so many bytes of the room there is.
    Write(usize),
    /// Take a piece of at most so many bytes.
    Take(usize),
    /// Drop the piece in flight with this number, modulo their count.
    Drop(usize),
    /// Ask for a doorbell.
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

/// What the ring must look like.
#[derive(Default)]
struct Model {
    capacity: u64,
    /// Committed and not yet taken.
    committed: VecDeque<u8>,
    head: u64,
    taken: u64,
    /// Taken and not yet passed by tail: end, and whether it was dropped.
    books: VecDeque<(u64, bool)>,
    tail: u64,
    is_asleep: bool,
}

impl Model {
    fn room(&self) -> u64 {
        (self.capacity - (self.head - self.tail)).min(self.capacity - self.head % self.capacity)
    }

    fn drop_piece(&mut self, end: u64) {
        let entry = self.books.iter_mut().find(|entry| entry.0 == end).unwrap();
        entry.1 = true;
        while let Some((end, true)) = self.books.front() {
            self.tail = *end;
            self.books.pop_front();
        }
    }
}

struct Ends {
    reader: RingReader,
    writer: RingWriter,
    mailbox: Mailbox,
    pieces: Vec<(u64, Bytes)>,
}

impl Ends {
    fn write(&mut self, model: &mut Model, bytes_max: usize) {
        if model.room() == 0 {
            return;
        }
        let room = self.writer.reserve(bytes_max).unwrap();
        assert_eq!(
            room.len() as u64,
            model.room().min(bytes_max as u64),
            "all that was freed is room"
        );
        let bytes = pattern(model.head, room.len());
        room.copy_from_slice(&bytes);
        self.writer.commit(bytes.len()).unwrap();
        model.head += bytes.len() as u64;
        model.committed.extend(bytes);
        assert_eq!(
            self.mailbox.drain(),
            usize::from(model.is_asleep),
            "the doorbell is rung once, when asked for"
        );
        model.is_asleep = false;
    }

    fn take(&mut self, model: &mut Model, bytes_max: usize) {
        model.is_asleep = false;
        let piece = self.reader.take(bytes_max).unwrap();
        let contiguous = model.capacity - model.taken % model.capacity;
        let expected = (model.committed.len() as u64)
            .min(contiguous)
            .min(bytes_max.max(1) as u64);
        assert_eq!(piece.as_ref().map_or(0, Bytes::len) as u64, expected);
        let Some(piece) = piece else { return };
        assert!(
            piece
                .iter()
                .eq(model.committed.drain(..piece.len()).collect::<Vec<_>>().iter())
        );
        model.taken += expected;
        model.books.push_back((model.taken, false));
        self.pieces.push((model.taken, piece));
    }

    fn drop_piece(&mut self, model: &mut Model, number: usize) {
        if self.pieces.is_empty() {
            return;
        }
        let (end, piece) = self.pieces.swap_remove(number % self.pieces.len());
        let start = end - piece.len() as u64;
        assert_eq!(
            &piece[..],
            &pattern(start, piece.len())[..],
            "what is in flight is not overwritten"
        );
        drop(piece);
        model.drop_piece(end);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ring_does_what_plain_queues_do(steps in prop::collection::vec(step(), 1..120), pages in 1..4_u64) {
        let (_segment, reader, writer, mailbox) = ring(pages * 4096);
        let mut model = Model { capacity: reader.capacity(), ..Model::default() };
        let mut ends = Ends { reader, writer, mailbox, pieces: Vec::new() };
        for step in steps {
            match step {
                Step::Write(bytes_max) => ends.write(&mut model, bytes_max),
                Step::Take(bytes_max) => ends.take(&mut model, bytes_max),
                Step::Drop(number) => ends.drop_piece(&mut model, number),
                Step::Sleep => {
                    model.is_asleep = ends.reader.prepare_sleep();
                    prop_assert_eq!(model.is_asleep, model.committed.is_empty());
                }
            }
            prop_assert_eq!(ends.reader.sent_bytes(), model.tail);
            prop_assert_eq!(ends.reader.in_flight_bytes(), model.taken - model.tail);
            prop_assert_eq!(ends.reader.is_drained(), model.tail == model.head);
        }
    }
}
