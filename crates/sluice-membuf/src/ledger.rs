//! The server's books on the pieces in flight: which were taken, which are freed, how far tail may go.
//!
//! Pieces are taken in order and dropped in any order, by any thread; tail moves over the longest freed prefix only,
//! because a counter cannot say that there is a hole. At most one entry a taken byte, so the capacity bounds the books;
//! what bounds them in practice is how many pieces the caller holds at once.

use std::collections::VecDeque;

use crate::cursor::{ReadCursor, RingFault, Span};
use crate::layout::ControlPage;
use crate::sync::{Mutex, lock};

/// Pieces in flight and the server's own tail counter.
pub(crate) struct Ledger(Mutex<Books>);

/// A piece: where it lies and its number in the order of taking.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) span: Span,
    pub(crate) number: u64,
}

impl Ledger {
    pub(crate) fn new() -> Ledger {
        Ledger(Mutex::new(Books::default()))
    }

    /// Takes the next piece of at most `bytes_max` bytes, if the script has committed one.
    pub(crate) fn take(
        &self,
        page: &ControlPage,
        cursor: &mut ReadCursor,
        bytes_max: u64,
    ) -> Result<Option<Taken>, RingFault> {
        // Head before tail: the script may have used room that was freed a moment ago, and a tail read first would make
        // its true head look like a lie. The server's own tail: the one in the page can be overwritten.
        let head = page.committed();
        let mut books = lock(&self.0);
        cursor.observe(head, books.tail)?;
        Ok(cursor.advance(bytes_max).map(|span| Taken {
            span,
            number: books.enter(cursor.taken()),
        }))
    }

    /// Frees piece `number`. `true`: the script waits for the room and has to be woken.
    #[must_use]
    pub(crate) fn free(&self, page: &ControlPage, number: u64) -> bool {
        let mut books = lock(&self.0);
        // Published under the lock, so that two threads that free at once cannot make tail go back.
        books.free(number).is_some_and(|tail| page.publish_tail(tail))
    }

    /// Bytes freed since BEGIN.
    pub(crate) fn tail(&self) -> u64 {
        lock(&self.0).tail
    }
}

#[derive(Debug, Default)]
struct Books {
    /// The pieces from the oldest that is not freed on.
    pieces: VecDeque<Entry>,
    /// The number of the first of them.
    first: u64,
    tail: u64,
}

#[derive(Debug)]
struct Entry {
    end: u64,
    is_freed: bool,
}

impl Books {
    fn enter(&mut self, end: u64) -> u64 {
        self.pieces.push_back(Entry { end, is_freed: false });
        self.first + self.pieces.len() as u64 - 1
    }

    /// Marks `number` as freed; the new tail if it moves.
    fn free(&mut self, number: u64) -> Option<u64> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.pieces.get_mut(index)?.is_freed = true;
        if index > 0 {
            return None;
        }
        while let Some(Entry { end, is_freed: true }) = self.pieces.front() {
            self.tail = *end;
            self.first += 1;
            self.pieces.pop_front();
        }
        Some(self.tail)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn tail_moves_over_the_longest_freed_prefix() {
        let mut books = Books::default();
        let numbers = [10, 25, 30, 70].map(|end| books.enter(end));
        assert_eq!(books.free(numbers[1]), None, "the first is in the way");
        assert_eq!(books.free(numbers[3]), None);
        assert_eq!(books.free(numbers[0]), Some(25), "over the second, up to the third");
        assert_eq!(books.free(numbers[2]), Some(70));
        assert_eq!(books.enter(71), 4, "numbers go on");
        assert_eq!(books.free(4), Some(71));
    }

    #[test]
    fn piece_that_is_not_in_the_books_frees_nothing() {
        let mut books = Books::default();
        let number = books.enter(10);
        assert_eq!(books.free(number + 1), None);
        assert_eq!(books.free(number), Some(10));
        assert_eq!(books.free(number), None, "freed once");
    }
}
