//! A connection: what its exchanges, the bytes below and the protocol between them must know of each other.
//!
//! Here: a few shared cells, one value per accepted socket, on its worker's thread. Not here: the socket
//! (`accept::stream`) and the protocol (`accept::protocol`).

use std::cell::Cell;
use std::net::SocketAddr;

/// The two ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub client: SocketAddr,
    pub server: SocketAddr,
}

/// What is known of an accepted socket.
pub(crate) struct Connection {
    pub ends: Ends,
    /// Bytes read since the last exchange began: of a head that is still incomplete when this is not zero.
    head_bytes: Cell<u64>,
    /// An exchange is under way.
    is_busy: Cell<bool>,
    /// The socket must be reset at its end.
    is_cut: Cell<bool>,
}

impl Connection {
    pub(crate) fn new(ends: Ends) -> Connection {
        Connection {
            ends,
            head_bytes: Cell::new(0),
            is_busy: Cell::new(false),
            is_cut: Cell::new(false),
        }
    }

    /// Bytes came in.
    pub(crate) fn count_read(&self, bytes: usize) {
        self.head_bytes.set(self.head_bytes.get() + bytes as u64);
    }

    /// A head is complete; what is read from here on belongs to its body or to the next head.
    pub(crate) fn begin_exchange(&self) {
        self.is_busy.set(true);
        self.head_bytes.set(0);
    }

    /// An exchange is over: the next byte begins a head.
    pub(crate) fn end_exchange(&self) {
        self.is_busy.set(false);
        self.head_bytes.set(0);
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.get()
    }

    /// Bytes of a head are here, but not all of it.
    pub(crate) fn has_part_of_head(&self) -> bool {
        self.head_bytes.get() > 0
    }

    /// A response that ends with the connection ends before it is complete. The socket must then be reset, not closed: an
    /// orderly end would make half of it look whole (RFC 9112 §8).
    pub(crate) fn cut(&self) {
        self.is_cut.set(true);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.get()
    }
}
