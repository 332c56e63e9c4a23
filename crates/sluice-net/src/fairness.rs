//! The turn of a connection: how much it does before the other connections of its worker have theirs.
//!
//! hyper goes on as long as there are bytes to parse, and a client can send bytes without end that make no request and no body: chunk sizes with
//! leading zeros, frames without data. It also goes on as long as a client takes the bytes of a response as fast as they are written.

use crate::connection::Connection;

/// Bytes that an HTTP/1.1 connection may read in a turn. The last read may exceed it by hyper's buffer, some 256 KiB, which grows
/// only for a client that fills it. hyper parses the framing of chunks byte by byte, at some tens of nanoseconds each.
const HTTP1_BYTES: usize = 64 << 10;

/// Bytes that an HTTP/2 connection reads in a turn, at most. h2 ends a connection of which too many small DATA frames wait to
/// be taken: with a window of 1 MiB 2,056 frames of one byte, which have 10 bytes each. Bodies are taken between turns.
const HTTP2_BYTES: usize = 16 << 10;

/// Bytes that a connection writes in a turn; the last write may exceed it. A chunk of a large file has as many, which take a third of a millisecond.
const WRITTEN_BYTES: usize = 1 << 20;

/// Exchanges after which a turn is over: hyper begins 16, and its task is polled many times before those of other connections.
const EXCHANGES_MAX: u32 = 8;

/// The bytes that a connection may still read and write in its turn.
pub(crate) struct ByteTurn {
    /// Bytes to read in each turn.
    read_max: usize,
    /// Whether the last read of a turn fills the buffer: a part of it would have to be zeroed first, which is dear for large uploads.
    fills_buffer: bool,
    left: usize,
    written: usize,
}

impl ByteTurn {
    pub(crate) fn http1() -> ByteTurn {
        ByteTurn {
            read_max: HTTP1_BYTES,
            fills_buffer: true,
            left: HTTP1_BYTES,
            written: 0,
        }
    }

    pub(crate) fn http2() -> ByteTurn {
        ByteTurn {
            read_max: HTTP2_BYTES,
            fills_buffer: false,
            left: HTTP2_BYTES,
            written: 0,
        }
    }

    pub(crate) fn begin(&mut self) {
        (self.left, self.written) = (self.read_max, 0);
    }

    /// How many bytes may be read at once into a buffer with this room; 0 if there are no more to read.
    pub(crate) fn room(&self, buffer: usize) -> usize {
        match self.left {
            0 => 0,
            _ if self.fills_buffer => buffer,
            left => left.min(buffer),
        }
    }

    pub(crate) fn count_read(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    pub(crate) fn may_write(&self) -> bool {
        self.written < WRITTEN_BYTES
    }

    pub(crate) fn count_written(&mut self, bytes: usize) {
        self.written = self.written.saturating_add(bytes);
    }
}

/// The exchanges of a connection at the beginning of its turn.
pub(crate) struct ExchangeTurn(u32);

impl ExchangeTurn {
    pub(crate) fn new(connection: &Connection) -> ExchangeTurn {
        ExchangeTurn(connection.exchanges.begun.get())
    }

    /// Whether the connection has used up its turn; begins the next one.
    pub(crate) fn is_over(&mut self, connection: &Connection) -> bool {
        let exchanges = connection.exchanges.begun.get();
        exchanges.wrapping_sub(std::mem::replace(&mut self.0, exchanges)) >= EXCHANGES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::active_exchange::ActiveExchange;

    #[test]
    fn a_turn_ends_after_its_bytes_and_begins_again() {
        let mut http2 = ByteTurn::http2();
        assert_eq!(http2.room(1000), 1000);
        http2.count_read(HTTP2_BYTES - 10);
        assert_eq!(http2.room(1000), 10);
        http2.count_read(10);
        assert_eq!(http2.room(1000), 0);
        http2.begin();
        assert_eq!(http2.room(1 << 20), HTTP2_BYTES);
        let mut http1 = ByteTurn::http1();
        http1.count_read(HTTP1_BYTES - 1);
        assert_eq!(http1.room(1 << 18), 1 << 18);
        http1.count_read(1 << 18);
        assert_eq!(http1.room(1), 0);
    }

    #[test]
    fn a_turn_ends_after_the_write_that_completes_its_bytes() {
        let mut turn = ByteTurn::http1();
        turn.count_written(WRITTEN_BYTES - 1);
        assert!(turn.may_write());
        turn.count_written(1 << 22);
        assert!(!turn.may_write());
        turn.begin();
        assert!(turn.may_write());
    }

    #[test]
    fn a_turn_ends_after_its_exchanges() {
        let connection = Connection::alone();
        let mut turn = ExchangeTurn::new(&connection);
        for _ in 1..EXCHANGES_MAX {
            drop(ActiveExchange::begin(&connection));
        }
        assert!(!turn.is_over(&connection));
        for _ in 0..EXCHANGES_MAX {
            drop(ActiveExchange::begin(&connection));
        }
        assert!(turn.is_over(&connection));
        assert!(!turn.is_over(&connection));
    }
}
