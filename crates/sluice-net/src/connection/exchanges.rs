//! The exchanges of a connection: how many it had, and the state of the one in progress.
//!
//! Here: counts and marks, from the first byte of a head to the last of a response. Not here: the bytes of responses (`outgoing`), and
//! one exchange as such (`active_exchange`).

use std::cell::Cell;

use sluice_http::received::Received;

/// The exchanges of a connection.
pub struct Exchanges {
    /// Exchanges that have begun; wraps around.
    begun: Cell<u32>,
    /// Exchanges in progress; more than one only in HTTP/2.
    open: Cell<u32>,
    /// Exchanges in progress that wait for the server (a script, for example), not for the client to take the response.
    waiting_on_server: Cell<u32>,
    /// Bytes read since the last exchange began. If not zero between exchanges, part of a head has arrived.
    head_bytes: Cell<u32>,
    received: Cell<Received>,
    /// When the connection became idle, as a number among all connections of the worker.
    idle_since: Cell<u64>,
    /// Bytes of a response may wait to be sent.
    has_unsent: Cell<bool>,
    /// The client has announced that it will close, and its last request is complete.
    expects_no_more: Cell<bool>,
    /// The response in progress is chunked; in HTTP/1.1 only.
    is_chunked: Cell<bool>,
}

impl Exchanges {
    /// The exchanges of a connection that is idle since its begin, which has this number.
    pub(crate) fn none(idle_since: u64) -> Exchanges {
        Exchanges {
            begun: Cell::new(0),
            open: Cell::new(0),
            waiting_on_server: Cell::new(0),
            head_bytes: Cell::new(0),
            received: Cell::default(),
            idle_since: Cell::new(idle_since),
            has_unsent: Cell::new(false),
            expects_no_more: Cell::new(false),
            is_chunked: Cell::new(false),
        }
    }

    /// Counts an exchange whose head is complete: bytes read from now on belong to its body or to the next head. It waits for the
    /// server first. Returns its number.
    pub(crate) fn begin(&self) -> u32 {
        self.open.update(|open| open + 1);
        self.begun.update(|begun| begun.wrapping_add(1));
        self.head_bytes.set(0);
        self.is_chunked.set(false);
        self.has_unsent.set(true);
        self.begin_wait_on_server();
        self.begun()
    }

    /// Notes that an exchange is over, which waits for the client. The next byte belongs to a head, unless others are in progress.
    pub(crate) fn end(&self) {
        self.open.update(|open| open - 1);
        self.head_bytes.set(0);
    }

    pub(crate) fn begin_wait_on_server(&self) {
        self.waiting_on_server.update(|waiting| waiting + 1);
    }

    pub(crate) fn end_wait_on_server(&self) {
        self.waiting_on_server.update(|waiting| waiting - 1);
    }

    /// Whether an exchange waits for the server.
    pub(crate) fn wait_for_server(&self) -> bool {
        self.waiting_on_server.get() > 0
    }

    /// Counts bytes that were read.
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

    pub(crate) fn received(&self) -> Received {
        self.received.get()
    }

    /// The number of exchanges begun; wraps around.
    pub(crate) fn begun(&self) -> u32 {
        self.begun.get()
    }

    /// Whether an exchange is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        self.open.get() > 0
    }

    /// Whether no response is in progress, and the last one was sent. A connection that has sent nothing yet is idle, too.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_busy() && !self.has_unsent.get()
    }

    /// When the connection became idle; lower numbers were earlier.
    pub(crate) fn idle_since(&self) -> u64 {
        self.idle_since.get()
    }

    pub(crate) fn set_idle_since(&self, number: u64) {
        self.idle_since.set(number);
    }

    /// Whether bytes of a response wait to be sent, or the connection is being closed.
    pub(crate) fn has_unsent(&self) -> bool {
        self.has_unsent.get()
    }

    pub(crate) fn set_unsent(&self, has_unsent: bool) {
        self.has_unsent.set(has_unsent);
    }

    /// Whether an exchange has ended, and no byte has arrived since.
    pub(crate) fn is_between(&self) -> bool {
        self.begun() > 0 && !self.is_busy() && !self.has_part_of_head()
    }

    /// Whether some bytes of a head have arrived, but not all.
    pub(crate) fn has_part_of_head(&self) -> bool {
        self.head_bytes.get() > 0
    }

    /// Notes that the current request is complete and that the client will close after the response: no more bytes will
    /// arrive.
    pub fn expect_no_more(&self) {
        self.expects_no_more.set(true);
    }

    pub(crate) fn expects_no_more(&self) -> bool {
        self.expects_no_more.get()
    }

    /// Notes that the response of HTTP/1.1 that begins now is chunked.
    pub fn begin_chunked(&self) {
        self.is_chunked.set(true);
    }

    pub(crate) fn is_chunked(&self) -> bool {
        self.is_chunked.get()
    }
}
