//! A chunk of a response body on its way through the protocol to the socket.

use std::rc::Rc;

use bytes::{Buf, Bytes};

use crate::connection::Connection;
use crate::outgoing::Hold;

/// The owner of the memory that the bytes of a chunk are in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ChunkMemory {
    /// Memory of the chunk itself.
    Own,
    /// Memory of a cached file, which exists anyway.
    Shared,
}

/// Where a chunk stands in its body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ChunkPosition {
    /// Other chunks follow, or may follow.
    Inner,
    /// The last chunk.
    Last,
}

/// Bytes of a response body, counted until the protocol has moved them to the socket.
pub struct Chunk {
    bytes: Bytes,
    /// `None` if nobody needs to know: a whole body in shared memory, in HTTP/1.1.
    counted: Option<Counted>,
}

/// The count of a chunk. Dropping this ends it.
struct Counted {
    connection: Rc<Connection>,
    hold: Hold,
}

impl Chunk {
    pub(crate) fn new(bytes: Bytes, hold: Option<Hold>, connection: &Rc<Connection>) -> Chunk {
        let counted = hold.map(|hold| Counted { connection: Rc::clone(connection), hold });
        Chunk { bytes, counted }
    }
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(Counted { connection, hold }) = &self.counted {
            connection.outgoing.count_moved(hold, count);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.connection.outgoing.release(&self.hold);
    }
}
