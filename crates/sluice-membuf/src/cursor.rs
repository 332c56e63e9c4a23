//! The arithmetic of the ring: where the next piece lies, how much room there is, and whether the peer's counter can
//! be true.
//!
//! Pure: counters in, positions out. Counters are bytes since BEGIN, free-running; a position is a counter modulo the
//! capacity. A 64-bit counter does not overflow: at 100 GB/s that takes five years of one response.

use std::fmt;

/// A lie in the control page, told by the script: its fault, the exchange is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RingFault {
    /// The counter of committed bytes went back.
    HeadWentBack {
        /// What the page says, in bytes.
        head: u64,
        /// What it said before, in bytes.
        seen: u64,
    },
    /// More bytes are said to be committed than there was room for.
    HeadPastRoom {
        /// What the page says, in bytes.
        head: u64,
        /// Bytes that had been freed.
        tail: u64,
        /// Bytes in the data area.
        capacity: u64,
    },
}

impl fmt::Display for RingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RingFault::HeadWentBack { head, seen } => {
                write!(
                    f,
                    "the script's head counter in the memory buffer went back from {seen} to {head}"
                )
            }
            RingFault::HeadPastRoom { head, tail, capacity } => write!(
                f,
                "the script's head counter in the memory buffer is {head}, which is more than {capacity} bytes \
                 (the size of the buffer) past the {tail} bytes freed"
            ),
        }
    }
}

impl std::error::Error for RingFault {}

/// A contiguous part of the data area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Offset in the data area, less than the capacity.
    pub(crate) position: u64,
    /// Bytes; `position + bytes` does not pass the capacity.
    pub(crate) bytes: u64,
}

/// The server's place in the ring. Private to it: the script cannot reach these numbers.
#[derive(Debug)]
pub(crate) struct ReadCursor {
    capacity: u64,
    seen: u64,
    taken: u64,
    fault: Option<RingFault>,
}

impl ReadCursor {
    pub(crate) fn new(capacity: u64) -> ReadCursor {
        ReadCursor {
            capacity,
            seen: 0,
            taken: 0,
            fault: None,
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes taken since BEGIN.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Believes `head` if it can be true, given that `tail` bytes have been freed. The first lie stands for good.
    pub(crate) fn observe(&mut self, head: u64, tail: u64) -> Result<(), RingFault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let verdict = if head < self.seen {
            Err(RingFault::HeadWentBack { head, seen: self.seen })
        } else if head - tail > self.capacity {
            Err(RingFault::HeadPastRoom {
                head,
                tail,
                capacity: self.capacity,
            })
        } else {
            self.seen = head;
            Ok(())
        };
        self.fault = verdict.err();
        verdict
    }

    /// The next piece of at most `bytes_max` bytes (0 counts as 1), up to the end of the data area.
    pub(crate) fn advance(&mut self, bytes_max: u64) -> Option<Span> {
        let position = self.taken % self.capacity;
        let contiguous = (self.seen - self.taken).min(self.capacity - position);
        let bytes = contiguous.min(bytes_max.max(1));
        self.taken += bytes;
        (bytes > 0).then_some(Span { position, bytes })
    }
}

/// The script's place in the ring.
#[derive(Debug)]
pub(crate) struct WriteCursor {
    capacity: u64,
    head: u64,
}

impl WriteCursor {
    pub(crate) fn new(capacity: u64) -> WriteCursor {
        WriteCursor { capacity, head: 0 }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes committed since BEGIN.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// The contiguous room behind head when `tail` bytes have been freed; `None` when that cannot be true.
    pub(crate) fn room(&self, tail: u64) -> Option<Span> {
        let held = self.head.checked_sub(tail)?;
        let free = self.capacity.checked_sub(held)?;
        let position = self.head % self.capacity;
        Some(Span {
            position,
            bytes: free.min(self.capacity - position),
        })
    }

    /// The value of tail to wait for when the ring is full: a quarter free, so that one wake-up serves many writes.
    pub(crate) fn wake_at(&self) -> u64 {
        (self.head + (self.capacity / 4).max(1)).saturating_sub(self.capacity)
    }

    /// Moves head over `bytes` that were written and returns it.
    pub(crate) fn advance(&mut self, bytes: u64) -> u64 {
        self.head += bytes;
        self.head
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn piece_ends_with_the_data_area_and_the_next_begins_at_its_start() {
        let mut cursor = ReadCursor::new(100);
        cursor.observe(90, 0).unwrap();
        assert_eq!(cursor.advance(1000), Some(Span { position: 0, bytes: 90 }));
        cursor.observe(150, 60).unwrap();
        assert_eq!(
            cursor.advance(1000),
            Some(Span {
                position: 90,
                bytes: 10
            })
        );
        assert_eq!(cursor.advance(30), Some(Span { position: 0, bytes: 30 }));
        assert_eq!(
            cursor.advance(0),
            Some(Span { position: 30, bytes: 1 }),
            "a piece is never empty"
        );
        assert_eq!(
            cursor.advance(1000),
            Some(Span {
                position: 31,
                bytes: 19
            })
        );
        assert_eq!(cursor.advance(1000), None);
    }

    #[test]
    fn room_is_what_is_freed_up_to_the_end_of_the_data_area() {
        let mut cursor = WriteCursor::new(100);
        assert_eq!(
            cursor.room(0),
            Some(Span {
                position: 0,
                bytes: 100
            })
        );
        cursor.advance(100);
        assert_eq!(cursor.room(0), Some(Span { position: 0, bytes: 0 }));
        assert_eq!(cursor.wake_at(), 25);
        assert_eq!(cursor.room(25), Some(Span { position: 0, bytes: 25 }));
        cursor.advance(20);
        assert_eq!(
            cursor.room(110),
            Some(Span {
                position: 20,
                bytes: 80
            }),
            "not past the end"
        );
    }

    #[test]
    fn tail_that_cannot_be_true_leaves_no_room() {
        let mut cursor = WriteCursor::new(100);
        cursor.advance(100);
        cursor.advance(50);
        assert_eq!(cursor.room(151), None, "more freed than written");
        assert_eq!(cursor.room(49), None, "more held than there is");
    }
}
