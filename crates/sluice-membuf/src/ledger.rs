//! The server's ledger of the chunks in flight: which were taken, which are freed, and how far tail may move.
//!
//! Chunks are taken in order and dropped in any order, by any thread. Tail moves over the longest freed prefix only, because a counter cannot represent
//! a gap. Each entry is at least one byte, so the capacity limits the number of entries; in practice the caller's number of chunks does.

use std::collections::VecDeque;

use crate::cursor::{ReadCursor, RingFault, Span};
use crate::layout::ControlPage;
use crate::sync::{Mutex, lock};

pub(crate) struct Ledger(Mutex<InFlight>);

/// A taken chunk: its span, and its number in the order of taking.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) span: Span,
    pub(crate) number: u64,
}

impl Ledger {
    pub(crate) fn new() -> Ledger {
        Ledger(Mutex::new(InFlight::default()))
    }

    /// Takes the next chunk of at most `bytes_max` bytes; `None` if there is nothing new. An impossible counter is the script's fault.
    pub(crate) fn take(
        &self,
        page: &ControlPage,
        cursor: &mut ReadCursor,
        bytes_max: u64,
    ) -> Result<Option<Taken>, RingFault> {
        // Head is read before tail: the script may have used room that was freed a moment ago, and with an older tail its valid head would look
        // impossible. It is the server's own tail, because the script can overwrite the one in the page.
        let head = page.committed();
        let mut in_flight = lock(&self.0);
        cursor.observe(head, in_flight.tail)?;
        Ok(cursor
            .advance(bytes_max)
            .map(|span| Taken { span, number: in_flight.add(cursor.taken()) }))
    }

    /// Frees chunk `number`. `true`: the script waits for the room and must be woken.
    #[must_use]
    pub(crate) fn free(&self, page: &ControlPage, number: u64) -> bool {
        let mut in_flight = lock(&self.0);
        // Published under the lock, so that two threads that free at the same time cannot move tail backwards.
        in_flight.free(number).is_some_and(|tail| page.publish_tail(tail))
    }

    pub(crate) fn tail(&self) -> u64 {
        lock(&self.0).tail
    }
}

#[derive(Debug, Default)]
struct InFlight {
    /// The chunks, from the oldest unfreed one on.
    chunks: VecDeque<Entry>,
    /// The number of the first of them.
    first: u64,
    /// Bytes freed since BUFFER-BEGIN.
    tail: u64,
}

#[derive(Debug)]
struct Entry {
    /// The counter at the chunk's end, bytes since BUFFER-BEGIN.
    end: u64,
    is_freed: bool,
}

impl InFlight {
    fn add(&mut self, end: u64) -> u64 {
        self.chunks.push_back(Entry { end, is_freed: false });
        self.first + self.chunks.len() as u64 - 1
    }

    /// Marks chunk `number` as freed; returns the new tail if it moves.
    fn free(&mut self, number: u64) -> Option<u64> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.chunks.get_mut(index)?.is_freed = true;
        if index > 0 {
            return None;
        }
        while let Some(Entry { end, is_freed: true }) = self.chunks.front() {
            self.tail = *end;
            self.first += 1;
            self.chunks.pop_front();
        }
        Some(self.tail)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn tail_moves_over_the_longest_freed_prefix() {
        let mut in_flight = InFlight::default();
        let numbers = [10, 25, 30, 70].map(|end| in_flight.add(end));
        assert_eq!(in_flight.free(numbers[1]), None, "the first is in the way");
        assert_eq!(in_flight.free(numbers[3]), None);
        assert_eq!(in_flight.free(numbers[0]), Some(25), "over the second, up to the third");
        assert_eq!(in_flight.free(numbers[2]), Some(70));
        assert_eq!(in_flight.add(71), 4, "numbers continue");
        assert_eq!(in_flight.free(4), Some(71));
    }

    #[test]
    fn unknown_chunk_frees_nothing() {
        let mut in_flight = InFlight::default();
        let number = in_flight.add(10);
        assert_eq!(in_flight.free(number + 1), None);
        assert_eq!(in_flight.free(number), Some(10));
        assert_eq!(in_flight.free(number), None, "freed once");
    }
}
