//! A connection: the state that its exchanges, its protocol and its socket share.
//!
//! Here: a few cells per accepted socket, used only on its worker's thread. Not here: the socket (`stream`) and the
//! protocols (`http1`, `http2`).

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use sluice_http::endpoints::{Endpoints, TlsInfo};
use sluice_http::received::{Received, Receiver};
use sluice_membuf::SealedMemfd;
use sluice_watch::{Item, Subject};

use crate::client_certificates::ShownCertificate;
use crate::close_reason::CloseReason;
use crate::outgoing::{Outgoing, OutgoingBody};
use crate::send_budget::SendBudget;
use crate::slot_events::SlotEvents;

/// The state of an accepted connection.
pub struct Connection {
    endpoints: Cell<Endpoints>,
    /// Empty in clear text, and until the handshake is done.
    tls_info: OnceCell<Rc<TlsInfo>>,
    /// The number of its listener.
    listener: Cell<usize>,
    /// Empty if the handshake did not ask for a certificate.
    certificate: OnceCell<Box<ShownCertificate>>,
    /// The port to which every request is redirected, if any.
    https_port: Cell<Option<u16>>,
    /// Exchanges under way that wait for the server (a script, for example), not for the client to take the response.
    waiting_on_server: Cell<u32>,
    /// Response bytes that the protocol has.
    outgoing: Outgoing,
    /// Bytes read since the last exchange began. If not zero between exchanges, part of a head has arrived.
    head_bytes: Cell<u32>,
    received: Cell<Received>,
    /// Exchanges begun; wraps around.
    exchanges: Cell<u32>,
    /// Exchanges under way; more than one only in HTTP/2.
    open: Cell<u32>,
    /// The client has announced that it will close, and its last request is complete.
    expects_no_more: Cell<bool>,
    /// Whether the socket is to be reset instead of closed.
    is_aborted: Cell<bool>,
    /// The response under way is chunked; in HTTP/1.1 only.
    is_chunked: Cell<bool>,
    /// The memory in which the current body lies, if it is sealed.
    sealed: Cell<Option<Arc<SealedMemfd>>>,
    wake_up: WakeUp,
    slot_events: Rc<SlotEvents>,
    /// When the connection became idle, as a number among all connections of the worker.
    idle_since: Cell<u64>,
    /// Bytes of a response may wait to be sent.
    has_unsent: Cell<bool>,
    demand: Cell<Option<Demand>>,
    /// With what it notes events for WATCH.
    subject: RefCell<Subject>,
    /// The generation of the list of watches when the subject was looked up.
    watch_generation: Cell<u32>,
    /// Its client is a proxy: which clients its requests come from is known only by these.
    is_of_proxy: Cell<bool>,
    /// Somebody may want to be shown the bytes of the exchange under way.
    are_octets_wanted: Cell<bool>,
    close_reason: Cell<Option<CloseReason>>,
    /// Exchanges under way that carry the events of a watch: it notes none meanwhile, because each would cause others.
    carried_watches: Cell<u32>,
    /// The last events of such an exchange may wait to be sent.
    has_unsent_watch: Cell<bool>,
}

/// What the worker wants of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// To close if it is idle, because another connection needs its slot.
    MakeRoom,
    /// To end at once, because its response bytes use too much memory.
    FreeMemory,
    /// To end at once, because the administrator has ended its exchange.
    End,
}

/// The task of a connection, and the tick of its worker at which to wake it.
struct WakeUp {
    tick: Cell<u32>,
    task: Cell<Option<Waker>>,
}

impl Connection {
    pub(crate) fn new(endpoints: Endpoints, budget: &Rc<SendBudget>, slot_events: &Rc<SlotEvents>) -> Connection {
        Connection {
            endpoints: Cell::new(endpoints),
            tls_info: OnceCell::new(),
            listener: Cell::new(0),
            certificate: OnceCell::new(),
            https_port: Cell::new(None),
            waiting_on_server: Cell::new(0),
            outgoing: Outgoing::new(Rc::clone(budget)),
            head_bytes: Cell::new(0),
            received: Cell::default(),
            exchanges: Cell::new(0),
            open: Cell::new(0),
            expects_no_more: Cell::new(false),
            is_aborted: Cell::new(false),
            is_chunked: Cell::new(false),
            sealed: Cell::new(None),
            wake_up: WakeUp {
                tick: Cell::new(u32::MAX),
                task: Cell::new(None),
            },
            slot_events: Rc::clone(slot_events),
            idle_since: Cell::new(slot_events.next_number()),
            has_unsent: Cell::new(false),
            demand: Cell::new(None),
            subject: RefCell::new(Subject::NONE),
            watch_generation: Cell::new(0),
            is_of_proxy: Cell::new(false),
            are_octets_wanted: Cell::new(true),
            close_reason: Cell::new(None),
            carried_watches: Cell::new(0),
            has_unsent_watch: Cell::new(false),
        }
    }

    /// Whether it carries the events of a watch.
    pub(crate) fn carries_watch(&self) -> bool {
        if self.carried_watches.get() == 0 && self.has_unsent_watch.get() {
            self.has_unsent_watch.set(self.outgoing.has_chunks());
        }
        self.carried_watches.get() > 0 || self.has_unsent_watch.get()
    }

    /// With what it notes events for WATCH: nothing if nobody watched when it was last looked up (`Front::subject`).
    pub fn subject(&self) -> Subject {
        self.subject.borrow().clone()
    }

    /// Whether somebody watches it.
    pub(crate) fn is_watched(&self) -> bool {
        !self.subject.borrow().is_none()
    }

    /// The generation of the list of watches when the subject was looked up.
    pub(crate) fn watch_generation(&self) -> u32 {
        self.watch_generation.get()
    }

    pub(crate) fn set_subject(&self, subject: Subject, generation: u32) {
        self.subject.replace(subject);
        self.watch_generation.set(generation);
    }

    /// Notes whether the client is a proxy whose requests name their clients.
    pub(crate) fn set_of_proxy(&self, is_of_proxy: bool) {
        self.is_of_proxy.set(is_of_proxy);
    }

    pub(crate) fn is_of_proxy(&self) -> bool {
        self.is_of_proxy.get()
    }

    /// Notes that nobody wants to be shown the bytes of the exchange that has begun, because no watch can match it. In HTTP/2 the bytes
    /// of several exchanges are mixed, so there this has no effect.
    pub fn skip_octets(&self) {
        self.are_octets_wanted.set(self.outgoing.is_http2());
    }

    /// Notes that the next bytes may be those of an exchange that somebody watches.
    pub(crate) fn want_octets(&self) {
        self.are_octets_wanted.set(true);
    }

    pub(crate) fn are_octets_wanted(&self) -> bool {
        self.are_octets_wanted.get()
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

    /// A connection of no worker.
    #[cfg(test)]
    pub(crate) fn alone() -> Rc<Connection> {
        let budget = Rc::new(SendBudget::new(1 << 20));
        Rc::new(Connection::new(Endpoints::UNIX, &budget, &Rc::default()))
    }

    /// The two ends of the connection: those of the socket, or those that a proxy has named (PROXY protocol).
    pub fn endpoints(&self) -> Endpoints {
        self.endpoints.get()
    }

    pub(crate) fn set_endpoints(&self, endpoints: Endpoints) {
        self.endpoints.set(endpoints);
    }

    /// Stores the result of the handshake; call it once.
    pub(crate) fn set_tls_info(&self, tls_info: TlsInfo) {
        let _ = self.tls_info.set(Rc::new(tls_info));
    }

    /// The result of the TLS handshake. `None` in clear text.
    pub fn tls_info(&self) -> Option<&Rc<TlsInfo>> {
        self.tls_info.get()
    }

    /// Stores what the client has shown of its certificate; call it once.
    pub(crate) fn set_certificate(&self, certificate: ShownCertificate) {
        let _ = self.certificate.set(Box::new(certificate));
    }

    /// What the client has shown of its certificate. `None` if the handshake did not ask for it.
    pub(crate) fn certificate(&self) -> Option<&ShownCertificate> {
        self.certificate.get().map(|certificate| &**certificate)
    }

    pub(crate) fn set_listener(&self, listener: usize) {
        self.listener.set(listener);
    }

    /// The number of the listener that accepted the connection, in the order of the listeners.
    pub fn listener(&self) -> usize {
        self.listener.get()
    }

    pub(crate) fn set_https_port(&self, port: Option<u16>) {
        self.https_port.set(port);
    }

    /// The port of the same host to which requests are redirected instead of being served; `None` if they are served.
    pub fn https_port(&self) -> Option<u16> {
        self.https_port.get()
    }

    /// Has the task that is polled here woken at a tick of its worker.
    pub(crate) fn wake_at(&self, tick: u32, task: &Waker) {
        let WakeUp { tick: due, task: kept } = &self.wake_up;
        due.set(tick);
        let waker = kept.take().filter(|kept| kept.will_wake(task));
        kept.set(Some(waker.unwrap_or_else(|| task.clone())));
    }

    /// Wakes the task if its tick has come. `u32::MAX` wakes it in any case.
    pub(crate) fn wake_if_due(&self, tick: u32) {
        let WakeUp { tick: due, task: kept } = &self.wake_up;
        if due.get() <= tick
            && let Some(task) = kept.take()
        {
            task.wake_by_ref();
            kept.set(Some(task));
        }
    }

    pub(crate) fn count_read(&self, bytes: usize) {
        // The client is about to make a request. In HTTP/2 it may as well be a PING, which must not count as use.
        if self.head_bytes.get() == 0 && !self.outgoing.is_http2() && self.is_idle() {
            self.idle_since.set(self.slot_events.next_number());
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.head_bytes.set(self.head_bytes.get().saturating_add(bytes));
        if bytes > 0 {
            self.received.set(Received {
                bytes: self.received.get().bytes.wrapping_add(bytes),
                last: bytes,
            });
        }
    }

    /// Response bytes that the protocol has.
    pub(crate) fn outgoing(&self) -> &Outgoing {
        &self.outgoing
    }

    /// Whether no response is under way, and the last one was sent. A connection that has sent nothing yet is idle, too.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_busy() && !self.has_unsent.get()
    }

    /// Notes that the connection is being closed: it is not idle, and cannot make room any sooner.
    pub(crate) fn begin_close(&self) {
        self.has_unsent.set(true);
    }

    /// When the connection became idle; lower numbers were earlier.
    pub(crate) fn idle_since(&self) -> u64 {
        self.idle_since.get()
    }

    /// Demands something of the connection, whose task is woken.
    pub(crate) fn demand(&self, demand: Demand) {
        self.demand.set(Some(demand));
        self.wake_if_due(u32::MAX);
    }

    /// The demand that the connection must obey now. One to make room is withdrawn if the connection is in use again.
    pub(crate) fn due_demand(&self) -> Option<Demand> {
        let demand = self.demand.get()?;
        match demand {
            Demand::MakeRoom if !self.is_idle() => {
                self.demand.set(None);
                self.slot_events.notify();
                return None;
            }
            Demand::MakeRoom => self.close_because(CloseReason::MakesRoom),
            Demand::FreeMemory => {
                self.close_because(CloseReason::FreesMemory);
                self.abort();
            }
            Demand::End => {
                self.close_because(CloseReason::RequestEnded);
                self.abort();
            }
        }
        Some(demand)
    }

    /// Whether the connection closes for another one.
    pub(crate) fn makes_room(&self) -> bool {
        self.demand.get() == Some(Demand::MakeRoom)
    }

    /// Whether an exchange waits for the server.
    pub(crate) fn waits_for_server(&self) -> bool {
        self.waiting_on_server.get() > 0
    }

    /// Whether bytes of a response wait to be sent, or the connection is being closed.
    pub(crate) fn has_unsent(&self) -> bool {
        self.has_unsent.get()
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.open.get() > 0
    }

    pub(crate) fn exchanges(&self) -> u32 {
        self.exchanges.get()
    }

    /// Whether an exchange has ended, and no byte has arrived since.
    pub(crate) fn is_between_exchanges(&self) -> bool {
        self.exchanges.get() > 0 && !self.is_busy() && !self.has_part_of_head()
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
        if self.is_watched() {
            self.note_flushed();
        }
        if self.is_busy() {
            return;
        }
        self.sealed.set(None);
        if !self.outgoing.has_chunks() && self.has_unsent.replace(false) {
            self.idle_since.set(self.slot_events.next_number());
            self.slot_events.notify_if_wanted();
        }
    }

    /// Tells those who watch that the responses of the exchanges that have ended were sent.
    #[cold]
    fn note_flushed(&self) {
        if self.outgoing.has_chunks() {
            return;
        }
        let subject = self.subject();
        subject.sent();
        if !self.is_busy() && self.has_unsent.get() {
            subject.forget_bytes();
            if self.outgoing.is_http2() {
                self.note_kept();
            }
        }
    }

    /// Notes that it waits for its next request.
    pub(crate) fn note_kept(&self) {
        let exchanges = self.exchanges();
        self.subject().note(Item::Connection, "net", || {
            format!("kept after request {exchanges}: waits for the next one")
        });
    }

    /// Aborts a response that is delimited by the end of the connection: the socket is reset instead of closed, because
    /// after an orderly close the truncated response would look complete (RFC 9112 §8).
    pub fn abort(&self) {
        self.is_aborted.set(true);
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.is_aborted.get()
    }
}

impl Receiver for Connection {
    fn received(&self) -> Received {
        self.received.get()
    }
}

/// An exchange under way on a connection. Dropping this ends it.
pub struct UnderWay {
    pub(crate) connection: Rc<Connection>,
    /// The body of its response.
    pub(crate) body: OutgoingBody,
    is_waiting_on_server: bool,
    /// Its response is the events of a watch.
    carries_watch: bool,
}

impl UnderWay {
    /// Begins an exchange when its head is complete: bytes read from now on belong to its body or to the next head. It
    /// waits for the server first.
    pub fn begin(connection: &Rc<Connection>) -> UnderWay {
        connection.open.set(connection.open.get() + 1);
        connection.exchanges.set(connection.exchanges.get().wrapping_add(1));
        connection.head_bytes.set(0);
        connection.is_chunked.set(false);
        connection.has_unsent.set(true);
        connection.waiting_on_server.set(connection.waiting_on_server.get() + 1);
        UnderWay {
            connection: Rc::clone(connection),
            body: OutgoingBody::of_exchange(connection.exchanges()),
            is_waiting_on_server: true,
            carries_watch: false,
        }
    }

    /// Has the connection note no events until the exchange ends, because it carries those of a watch: each would cause others.
    pub fn carry_watch(&mut self) {
        if !std::mem::replace(&mut self.carries_watch, true) {
            let connection = &self.connection;
            connection.carried_watches.update(|count| count + 1);
            connection.subject.replace(Subject::NONE);
        }
    }

    /// A handle by which the exchange can be aborted while its response is sent.
    pub fn handle(&self) -> ExchangeHandle {
        ExchangeHandle {
            connection: Rc::clone(&self.connection),
            number: self.body.exchange(),
        }
    }

    /// Notes that the exchange waits for the server: the client's time limit does not run.
    pub fn wait_on_server(&mut self) {
        if !self.is_waiting_on_server {
            self.is_waiting_on_server = true;
            let waiting = &self.connection.waiting_on_server;
            waiting.set(waiting.get() + 1);
            self.body.set_waits_for_client(false);
        }
    }

    /// Notes that the exchange waits for the client to take the response.
    pub fn wait_on_client(&mut self) {
        if self.is_waiting_on_server {
            self.is_waiting_on_server = false;
            let waiting = &self.connection.waiting_on_server;
            waiting.set(waiting.get() - 1);
            self.body.set_waits_for_client(true);
        }
    }
}

impl Deref for UnderWay {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for UnderWay {
    /// The next byte belongs to a head, unless other exchanges are under way.
    fn drop(&mut self) {
        self.wait_on_client();
        if self.carries_watch {
            let connection = &self.connection;
            connection.carried_watches.update(|count| count - 1);
            connection.has_unsent_watch.set(true);
            // Who watches is looked up again.
            connection.watch_generation.set(0);
        }
        self.body.end(self.connection.outgoing());
        self.connection.open.set(self.connection.open.get() - 1);
        self.connection.head_bytes.set(0);
    }
}

/// A handle on an exchange, which may be over.
#[derive(Clone)]
pub struct ExchangeHandle {
    connection: Rc<Connection>,
    number: u32,
}

impl ExchangeHandle {
    /// The number of the listener that accepted its connection.
    #[must_use]
    pub fn listener(&self) -> usize {
        self.connection.listener()
    }

    /// Aborts the response that is being sent: its stream is reset in HTTP/2, its connection in HTTP/1. No effect on an exchange that is
    /// over.
    pub fn abort(&self) {
        let connection = &self.connection;
        if connection.outgoing.is_http2() {
            connection.outgoing.abort_delivery(self.number);
        } else if connection.is_busy() && connection.exchanges() == self.number {
            connection.demand(Demand::End);
        }
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
