//! A connection: the state that its exchanges, its protocol and its socket share.
//!
//! A few cells per accepted socket, used only on its worker's thread.

mod exchanges;
mod peer;
mod watched;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use sluice_http::endpoints::Endpoints;
use sluice_http::received::{Received, Receiver};
use sluice_membuf::SealedMemfd;
use sluice_watch::Item;

use crate::close_reason::CloseReason;
use crate::outgoing::Outgoing;
use crate::send_budget::SendBudget;
use crate::slot_events::SlotEvents;

pub use exchanges::Exchanges;
pub use peer::Peer;
pub(crate) use watched::Watched;

/// The state of an accepted connection.
pub struct Connection {
    /// The client.
    pub peer: Peer,
    /// The exchanges.
    pub exchanges: Exchanges,
    pub(crate) outgoing: Outgoing,
    pub(crate) watched: Watched,
    /// The memory in which the current body lies, if it is sealed.
    sealed: Cell<Option<Arc<SealedMemfd>>>,
    task: Cell<Option<Waker>>,
    /// The tick of the worker at which to wake it.
    wake_tick: Cell<u32>,
    slot_events: Rc<SlotEvents>,
    close_request: Cell<Option<CloseRequest>>,
    close_reason: Cell<Option<CloseReason>>,
    /// Whether the socket is to be reset instead of closed.
    pub(crate) is_aborted: Cell<bool>,
}

/// A request of the worker that a connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseRequest {
    /// Close if idle, because another connection needs the slot.
    MakeRoom,
    /// End at once, because the response bytes use too much memory.
    FreeMemory,
    /// End at once, because the administrator has ended the exchange.
    End,
}

impl Connection {
    pub(crate) fn new(endpoints: Endpoints, budget: &Rc<SendBudget>, slot_events: &Rc<SlotEvents>) -> Connection {
        Connection {
            peer: Peer::new(endpoints),
            exchanges: Exchanges {
                idle_since: Cell::new(slot_events.next_number()),
                ..Exchanges::default()
            },
            outgoing: Outgoing::new(Rc::clone(budget)),
            watched: Watched::default(),
            sealed: Cell::new(None),
            task: Cell::new(None),
            wake_tick: Cell::new(u32::MAX),
            slot_events: Rc::clone(slot_events),
            close_request: Cell::new(None),
            close_reason: Cell::new(None),
            is_aborted: Cell::new(false),
        }
    }

    #[cfg(test)]
    pub(crate) fn alone() -> Rc<Connection> {
        let budget = Rc::new(SendBudget::new(1 << 20));
        Rc::new(Connection::new(Endpoints::UNIX, &budget, &Rc::default()))
    }

    pub(crate) fn carries_watch(&self) -> bool {
        self.watched.carries_events(|| self.outgoing.has_chunks())
    }

    /// Notes that no watch can match the exchange that has begun. No effect in HTTP/2, where the bytes of exchanges are mixed.
    pub fn skip_octets(&self) {
        self.watched.skips_octets.set(!self.outgoing.is_http2.get());
    }

    /// Notes why it is closed, unless a reason is known already.
    pub(crate) fn close_because(&self, reason: CloseReason) {
        if self.close_reason.get().is_none() {
            self.close_reason.set(Some(reason));
        }
    }

    pub(crate) fn close_reason(&self) -> CloseReason {
        self.close_reason.get().unwrap_or_default()
    }

    /// Has the task that is polled here woken at a tick of its worker.
    pub(crate) fn wake_at(&self, tick: u32, task: &Waker) {
        self.wake_tick.set(tick);
        let waker = self.task.take().filter(|kept| kept.will_wake(task));
        self.task.set(Some(waker.unwrap_or_else(|| task.clone())));
    }

    /// Wakes the task if its tick has come. `u32::MAX` wakes it in any case.
    pub(crate) fn wake_if_due(&self, tick: u32) {
        if self.wake_tick.get() <= tick
            && let Some(task) = self.task.take()
        {
            task.wake_by_ref();
            self.task.set(Some(task));
        }
    }

    pub(crate) fn count_read(&self, bytes: usize) {
        let exchanges = &self.exchanges;
        // The client is about to make a request. In HTTP/2 it may as well be a PING, which must not count as use.
        if !exchanges.has_part_of_head() && !self.outgoing.is_http2.get() && exchanges.is_idle() {
            exchanges.idle_since.set(self.slot_events.next_number());
        }
        exchanges.count_read(bytes);
    }

    /// Requests that the connection closes; its task is woken.
    pub(crate) fn request_close(&self, request: CloseRequest) {
        self.close_request.set(Some(request));
        self.wake_if_due(u32::MAX);
    }

    /// The request to close that the connection must obey now. One to make room is withdrawn if the connection is in use again.
    pub(crate) fn due_close_request(&self) -> Option<CloseRequest> {
        let request = self.close_request.get()?;
        match request {
            CloseRequest::MakeRoom if !self.exchanges.is_idle() => {
                self.close_request.set(None);
                self.slot_events.notify();
                return None;
            }
            CloseRequest::MakeRoom => self.close_because(CloseReason::MakesRoom),
            CloseRequest::FreeMemory => {
                self.close_because(CloseReason::FreesMemory);
                self.abort();
            }
            CloseRequest::End => {
                self.close_because(CloseReason::RequestEnded);
                self.abort();
            }
        }
        Some(request)
    }

    pub(crate) fn makes_room(&self) -> bool {
        self.close_request.get() == Some(CloseRequest::MakeRoom)
    }

    /// Notes that the bytes of the next body lie in this memory, from which the kernel can send them without a copy.
    pub fn send_from(&self, sealed: Arc<SealedMemfd>) {
        self.sealed.set(Some(sealed));
    }

    /// Lends the memory in which the bytes to send may lie.
    pub(crate) fn with_sealed<T>(&self, use_it: impl FnOnce(Option<&Arc<SealedMemfd>>) -> T) -> T {
        let sealed = self.sealed.take();
        let used = use_it(sealed.as_ref());
        self.sealed.set(sealed);
        used
    }

    /// Notes that everything has been sent.
    pub(crate) fn flushed(&self) {
        if self.watched.is_watched() {
            self.note_flushed();
        }
        let exchanges = &self.exchanges;
        if exchanges.is_busy() {
            return;
        }
        self.sealed.set(None);
        if !self.outgoing.has_chunks() && exchanges.has_unsent.get() {
            exchanges.has_unsent.set(false);
            exchanges.idle_since.set(self.slot_events.next_number());
            self.slot_events.notify_if_wanted();
        }
    }

    /// Tells those who watch that the responses of the exchanges that have ended were sent.
    #[cold]
    fn note_flushed(&self) {
        if self.outgoing.has_chunks() {
            return;
        }
        let tracer = self.watched.tracer();
        tracer.sent();
        if !self.exchanges.is_busy() && self.exchanges.has_unsent.get() {
            tracer.forget_bytes();
            if self.outgoing.is_http2.get() {
                self.note_kept();
            }
        }
    }

    /// Notes an event of the connection for those who watch.
    pub(crate) fn note(&self, text: impl FnOnce() -> String) {
        self.watched.tracer().note(Item::Connection, "net", text);
    }

    /// Notes that it waits for its next request.
    pub(crate) fn note_kept(&self) {
        let exchanges = self.exchanges.begun.get();
        self.note(|| format!("kept after request {exchanges}: waits for the next one"));
    }

    /// Aborts a response that ends with the connection by a reset: after an orderly close the truncated response would look complete (RFC 9112 §8).
    pub fn abort(&self) {
        self.is_aborted.set(true);
    }
}

impl Receiver for Connection {
    fn received(&self) -> Received {
        self.exchanges.received.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_an_idle_connection_is_small() {
        // Ten thousand of them are 3 MB.
        assert!(size_of::<Connection>() <= 320, "{} bytes", size_of::<Connection>());
    }
}
