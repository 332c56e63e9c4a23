//! The exchanges of a connection: how many it had, and the state of the one in progress.

use std::cell::Cell;

use sluice_http::received::Received;

/// The exchanges of a connection.
#[derive(Default)]
pub struct Exchanges {
    /// Exchanges that have begun; wraps around.
    pub(crate) begun: Cell<u32>,
    /// Exchanges in progress; more than one only in HTTP/2.
    pub(crate) open: Cell<u32>,
    /// Exchanges in progress that wait for the server (a script, for example), not for the client to take the response.
    pub(crate) waiting_on_server: Cell<u32>,
    /// Bytes read since the last exchange began. If not zero between exchanges, part of a head has arrived.
    pub(crate) head_bytes: Cell<u32>,
    pub(crate) received: Cell<Received>,
    /// When the connection became idle, as a number among all connections of the worker.
    pub(crate) idle_since: Cell<u64>,
    /// Bytes of a response may wait to be sent, or the connection is being closed: it cannot make room any sooner.
    pub(crate) has_unsent: Cell<bool>,
    /// The client has announced that it will close, and its last request is complete: no more bytes will arrive.
    pub expects_no_more: Cell<bool>,
    /// The response in progress is chunked; in HTTP/1.1 only.
    pub is_chunked: Cell<bool>,
}

impl Exchanges {
    /// Counts an exchange whose head is complete, and which waits for the server. Returns its number.
    pub(crate) fn begin(&self) -> u32 {
        self.open.update(|open| open + 1);
        self.begun.update(|begun| begun.wrapping_add(1));
        self.head_bytes.set(0);
        self.is_chunked.set(false);
        self.has_unsent.set(true);
        self.waiting_on_server.update(|waiting| waiting + 1);
        self.begun.get()
    }

    /// Notes that an exchange is over, which waits for the client. The next byte belongs to a head, unless others are in progress.
    pub(crate) fn end(&self) {
        self.open.update(|open| open - 1);
        self.head_bytes.set(0);
    }

    pub(crate) fn wait_for_server(&self) -> bool {
        self.waiting_on_server.get() > 0
    }

    pub(crate) fn count_read(&self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.head_bytes.set(self.head_bytes.get().saturating_add(bytes));
        if bytes > 0 {
            self.received.set(Received {
                bytes: self.received.get().bytes.wrapping_add(bytes),
                last: bytes,
            });
        }
    }

    /// Whether an exchange is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        self.open.get() > 0
    }

    /// Whether no response is in progress, and the last one was sent. A connection that has sent nothing yet is idle, too.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_busy() && !self.has_unsent.get()
    }

    /// Whether an exchange has ended, and no byte has arrived since.
    pub(crate) fn is_between(&self) -> bool {
        self.begun.get() > 0 && !self.is_busy() && !self.has_part_of_head()
    }

    /// Whether some bytes of a head have arrived, but not all.
    pub(crate) fn has_part_of_head(&self) -> bool {
        self.head_bytes.get() > 0
    }
}
