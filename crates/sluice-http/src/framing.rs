//! The framing of a chunked request body: the bytes that its client sends beside the data.
//!
//! hyper does not bound them: leading zeros and blanks of a chunk size may go on without end, and each byte may be a chunk with an extension.

use std::rc::Rc;

use crate::received::{Received, Receiver};

/// Bytes of framing that each chunk may have: `1`, an extension of a few bytes, and two line ends.
const CHUNK_FRAMING_BYTES: u64 = 16;

/// Further bytes of framing for each byte of data.
const FRAMING_PER_BYTE: u64 = 2;

/// Bytes of framing beyond these two that a body may have: Go's net/http has the same rule with 16 KiB.
const EXCESS_BYTES_MAX: u64 = 64 << 10;

pub(crate) struct Framing {
    connection: Rc<dyn Receiver>,
    /// The connection's count when it was last read.
    seen: Received,
    /// Bytes received that are not covered by data. Those of the last read may be data that hyper has not parsed yet.
    excess: u64,
}

impl Framing {
    pub(crate) fn new(connection: Rc<dyn Receiver>) -> Framing {
        Framing { seen: connection.received(), connection, excess: 0 }
    }

    /// Counts data, which covers its own bytes and some of the framing.
    pub(crate) fn cover(&mut self, data: usize) {
        self.count();
        let covered = CHUNK_FRAMING_BYTES + (1 + FRAMING_PER_BYTE) * data as u64;
        self.excess = self.excess.saturating_sub(covered);
    }

    /// Whether there is more framing than the data explains.
    pub(crate) fn is_excessive(&mut self) -> bool {
        self.count();
        self.excess > EXCESS_BYTES_MAX + u64::from(self.seen.last)
    }

    fn count(&mut self) {
        let received = self.connection.received();
        let seen = std::mem::replace(&mut self.seen, received);
        let newly = received.bytes.wrapping_sub(seen.bytes);
        self.excess += u64::from(newly);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Counter(Cell<Received>);

    impl Receiver for Counter {
        fn received(&self) -> Received {
            self.0.get()
        }
    }

    impl Counter {
        fn receive(&self, last: u32) {
            let bytes = self.0.get().bytes.wrapping_add(last);
            self.0.set(Received { bytes, last });
        }
    }

    fn framing(bytes: u32) -> (Rc<Counter>, Framing) {
        let counter = Rc::new(Counter(Cell::new(Received { bytes, last: 0 })));
        let framing = Framing::new(Rc::clone(&counter) as Rc<dyn Receiver>);
        (counter, framing)
    }

    #[test]
    fn chunks_of_single_bytes_are_never_excessive_however_much_is_read_at_once() {
        let (counter, mut framing) = framing(u32::MAX - 100);
        for at_once in [600, 6_000_000, 60_000] {
            counter.receive(at_once);
            for _ in 0..at_once / 6 {
                assert!(!framing.is_excessive());
                framing.cover(1);
            }
        }
    }

    #[test]
    fn framing_without_data_is_excessive_whatever_data_came_before() {
        let (counter, mut framing) = framing(0);
        for _ in 0..100 {
            counter.receive(100_000);
            framing.cover(99_990);
        }
        counter.receive(64 << 10);
        assert!(!framing.is_excessive());
        counter.receive(1);
        assert!(!framing.is_excessive());
        counter.receive(1);
        assert!(framing.is_excessive());
    }

    #[test]
    fn chunks_that_are_mostly_extension_are_excessive() {
        let (counter, mut framing) = framing(0);
        let chunks = (0..10_000).take_while(|_| {
            counter.receive(219);
            framing.cover(1);
            !framing.is_excessive()
        });
        assert_eq!(chunks.count(), 328);
    }
}
