//! The arithmetic of the ring: the position of the next chunk, the free room, and the validation of the peer's counter.
//!
//! Pure functions of counters. A counter is the number of bytes since BUFFER-BEGIN and never wraps; a position is a
//! counter modulo the capacity. A 64-bit counter does not overflow: at 100 GB/s that takes five years of one response.

use thiserror::Error;

/// An impossible counter in the control page: the script's fault. The exchange must be aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RingFault {
    /// The counter of committed bytes decreased.
    #[error("the script's head counter in the memory buffer went back from {seen} to {head}")]
    HeadWentBack {
        /// The counter's value, bytes.
        head: u64,
        /// The previous value, bytes.
        seen: u64,
    },
    /// The counter of committed bytes exceeds the room that the script had.
    #[error(
        "the script's head counter in the memory buffer is {head}, which is more than {capacity} bytes \
         (the size of the buffer) past the {tail} bytes freed"
    )]
    HeadBeyondRoom {
        /// The counter's value, bytes.
        head: u64,
        /// Bytes freed by the server.
        tail: u64,
        /// Bytes in the data area.
        capacity: u64,
    },
}

/// A contiguous part of the data area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Offset in the data area, less than the capacity.
    pub(crate) position: u64,
    /// Length in bytes; `position + bytes` is at most the capacity.
    pub(crate) bytes: u64,
}

/// The server's position in the ring, in its private memory: the script cannot change it.
#[derive(Debug)]
pub(crate) struct ReadCursor {
    capacity: u64,
    seen: u64,
    taken: u64,
    fault: Option<RingFault>,
}

impl ReadCursor {
    pub(crate) fn new(capacity: u64) -> ReadCursor {
        ReadCursor { capacity, seen: 0, taken: 0, fault: None }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes taken since BEGIN.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Accepts the script's counter `head` if it is possible, given that `tail` bytes have been freed.
    /// An impossible counter is the script's fault; every later call returns the first error.
    pub(crate) fn observe(&mut self, head: u64, tail: u64) -> Result<(), RingFault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let result = if head < self.seen {
            Err(RingFault::HeadWentBack { head, seen: self.seen })
        } else if head - tail > self.capacity {
            Err(RingFault::HeadBeyondRoom { head, tail, capacity: self.capacity })
        } else {
            self.seen = head;
            Ok(())
        };
        self.fault = result.err();
        result
    }

    /// Moves over the next chunk and returns it: at most `bytes_max` bytes (0 counts as 1), up to the end of the data area.
    pub(crate) fn advance(&mut self, bytes_max: u64) -> Option<Span> {
        let position = self.taken % self.capacity;
        let contiguous = (self.seen - self.taken).min(self.capacity - position);
        let bytes = contiguous.min(bytes_max.max(1));
        self.taken += bytes;
        (bytes > 0).then_some(Span { position, bytes })
    }
}

/// The script's position in the ring.
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

    /// The contiguous room after head when `tail` bytes have been freed; `None` if that value of tail is impossible.
    pub(crate) fn room(&self, tail: u64) -> Option<Span> {
        let held = self.head.checked_sub(tail)?;
        let free = self.capacity.checked_sub(held)?;
        let position = self.head % self.capacity;
        Some(Span {
            position,
            bytes: free.min(self.capacity - position),
        })
    }

    /// The value of tail to wait for when the ring is full: a quarter is free then, so one wake-up serves many writes.
    pub(crate) fn wake_at(&self) -> u64 {
        (self.head + (self.capacity / 4).max(1)).saturating_sub(self.capacity)
    }

    pub(crate) fn advance(&mut self, bytes: u64) -> u64 {
        self.head += bytes;
        self.head
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn chunk_ends_at_the_end_of_the_data_area() {
        let mut cursor = ReadCursor::new(100);
        cursor.observe(90, 0).unwrap();
        assert_eq!(cursor.advance(1000), Some(Span { position: 0, bytes: 90 }));
        cursor.observe(150, 60).unwrap();
        assert_eq!(cursor.advance(1000), Some(Span { position: 90, bytes: 10 }));
        assert_eq!(cursor.advance(30), Some(Span { position: 0, bytes: 30 }));
        assert_eq!(
            cursor.advance(0),
            Some(Span { position: 30, bytes: 1 }),
            "a chunk is never empty"
        );
        assert_eq!(cursor.advance(1000), Some(Span { position: 31, bytes: 19 }));
        assert_eq!(cursor.advance(1000), None);
    }

    #[test]
    fn room_is_the_freed_bytes_up_to_the_end_of_the_data_area() {
        let mut cursor = WriteCursor::new(100);
        assert_eq!(cursor.room(0), Some(Span { position: 0, bytes: 100 }));
        cursor.advance(100);
        assert_eq!(cursor.room(0), Some(Span { position: 0, bytes: 0 }));
        assert_eq!(cursor.wake_at(), 25);
        assert_eq!(cursor.room(25), Some(Span { position: 0, bytes: 25 }));
        cursor.advance(20);
        assert_eq!(
            cursor.room(110),
            Some(Span { position: 20, bytes: 80 }),
            "not past the end"
        );
    }

    #[test]
    fn impossible_tail_is_rejected() {
        let mut cursor = WriteCursor::new(100);
        cursor.advance(100);
        cursor.advance(50);
        assert_eq!(cursor.room(151), None, "more freed than written");
        assert_eq!(cursor.room(49), None, "more in flight than the capacity");
    }
}
