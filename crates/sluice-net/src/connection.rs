//! A connection: what its exchanges, the bytes below and the protocol between them must know of each other.
//!
//! Here: a few shared cells, one value per accepted socket, on its worker's thread. Not here: the socket
//! (`accept::stream`) and the protocol (`accept::protocol`).

use std::cell::{Cell, OnceCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use sluice_http::endpoints::{Endpoints, TlsInfo};
use sluice_membuf::SealedMemfd;

/// What is known of an accepted socket.
pub struct Connection {
    endpoints: Cell<Endpoints>,
    /// None in clear text, and until the handshake is done.
    tls_info: OnceCell<Rc<TlsInfo>>,
    /// The port by which every request is to come again over TLS.
    redirect_to_https: Cell<Option<u16>>,
    /// Exchanges that wait for the server: for a script, say, and not for the client to take what it is sent.
    waiting_on_server: Cell<u32>,
    /// Chunks of bodies that there was room for; the count may wrap.
    chunks: Cell<u32>,
    /// Bytes read since the last exchange began: of a head that is still incomplete when this is not zero.
    head_bytes: Cell<u32>,
    /// Exchanges that have begun; the count may wrap.
    exchanges: Cell<u32>,
    /// Exchanges that are under way; more than one only in HTTP/2.
    open: Cell<u32>,
    /// The client has said that its request is the last, and that request is whole.
    expects_no_more: Cell<bool>,
    /// The socket must be reset at its end.
    is_cut: Cell<bool>,
    /// What the body under way lies in, where it is sealed memory.
    sealed: Cell<Option<Arc<SealedMemfd>>>,
    /// The worker's tick at which the connection's task wants to be called.
    call_at: Cell<u32>,
    /// The connection's task.
    task: Cell<Option<Waker>>,
}

impl Connection {
    pub(crate) fn new(endpoints: Endpoints) -> Connection {
        Connection {
            endpoints: Cell::new(endpoints),
            tls_info: OnceCell::new(),
            redirect_to_https: Cell::new(None),
            waiting_on_server: Cell::new(0),
            chunks: Cell::new(0),
            head_bytes: Cell::new(0),
            exchanges: Cell::new(0),
            open: Cell::new(0),
            expects_no_more: Cell::new(false),
            is_cut: Cell::new(false),
            sealed: Cell::new(None),
            call_at: Cell::new(u32::MAX),
            task: Cell::new(None),
        }
    }

    pub fn endpoints(&self) -> Endpoints {
        self.endpoints.get()
    }

    /// A proxy has said whose connection it is.
    pub(crate) fn set_endpoints(&self, endpoints: Endpoints) {
        self.endpoints.set(endpoints);
    }

    /// The handshake is done.
    pub(crate) fn secure(&self, tls_info: TlsInfo) {
        // Once a connection.
        let _ = self.tls_info.set(Rc::new(tls_info));
    }

    pub fn tls_info(&self) -> Option<&Rc<TlsInfo>> {
        self.tls_info.get()
    }

    /// Requests are not served, but sent to this port of the same host.
    pub(crate) fn redirect_to_https(&self, port: Option<u16>) {
        self.redirect_to_https.set(port);
    }

    pub fn https_port(&self) -> Option<u16> {
        self.redirect_to_https.get()
    }

    /// The task that is polled here wants to be called at a tick of its worker.
    pub(crate) fn call_at(&self, tick: u32, task: &Waker) {
        self.call_at.set(tick);
        let kept = self.task.take().filter(|kept| kept.will_wake(task));
        self.task.set(Some(kept.unwrap_or_else(|| task.clone())));
    }

    /// The worker's tick has come: calls the task if it wanted that. `u32::MAX` calls all.
    pub(crate) fn call(&self, tick: u32) {
        if self.call_at.get() <= tick
            && let Some(task) = self.task.take()
        {
            task.wake_by_ref();
            self.task.set(Some(task));
        }
    }

    /// Bytes came in.
    pub(crate) fn count_read(&self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.head_bytes.set(self.head_bytes.get().saturating_add(bytes));
    }

    /// There was room for a chunk of a body.
    pub fn count_chunk(&self) {
        self.chunks.set(self.chunks.get().wrapping_add(1));
    }

    pub(crate) fn chunks(&self) -> u32 {
        self.chunks.get()
    }

    /// Exchanges are under way, and every one of them waits for the client.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.is_busy() && self.waiting_on_server.get() == 0
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.open.get() > 0
    }

    pub(crate) fn exchanges(&self) -> u32 {
        self.exchanges.get()
    }

    /// An exchange has ended, and not a byte came after it.
    pub(crate) fn is_between_exchanges(&self) -> bool {
        self.exchanges.get() > 0 && !self.is_busy() && !self.has_part_of_head()
    }

    /// Bytes of a head are here, but not all of it.
    pub(crate) fn has_part_of_head(&self) -> bool {
        self.head_bytes.get() > 0
    }

    /// The request under way is whole, and its sender will close when it has the response: no byte of its is to come.
    pub fn expect_no_more(&self) {
        self.expects_no_more.set(true);
    }

    pub(crate) fn expects_no_more(&self) -> bool {
        self.expects_no_more.get()
    }

    /// A body is to come whose bytes lie in this memory: the kernel can send from there without a copy.
    pub fn send_from(&self, sealed: Arc<SealedMemfd>) {
        self.sealed.set(Some(sealed));
    }

    /// Lends out the memory that bytes to be sent may lie in.
    pub(crate) fn with_sealed<T>(&self, use_it: impl FnOnce(Option<&Arc<SealedMemfd>>) -> T) -> T {
        let sealed = self.sealed.take();
        let used = use_it(sealed.as_ref());
        self.sealed.set(sealed);
        used
    }

    /// All that was to be sent is sent.
    pub(crate) fn flushed(&self) {
        if !self.is_busy() {
            self.sealed.set(None);
        }
    }

    /// A response that ends with the connection ends before it is complete. The socket must then be reset, not closed: an
    /// orderly end would make half of it look whole (RFC 9112 §8).
    pub fn cut(&self) {
        self.is_cut.set(true);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.get()
    }
}

/// An exchange under way on a connection, which is told of its end when this is dropped.
pub struct UnderWay {
    connection: Rc<Connection>,
    is_waiting_on_server: bool,
}

impl UnderWay {
    /// A head is complete; what is read from here on belongs to its body or to the next head.
    pub fn begin(connection: &Rc<Connection>) -> UnderWay {
        connection.open.set(connection.open.get() + 1);
        connection.exchanges.set(connection.exchanges.get().wrapping_add(1));
        connection.head_bytes.set(0);
        connection.waiting_on_server.set(connection.waiting_on_server.get() + 1);
        UnderWay {
            connection: Rc::clone(connection),
            is_waiting_on_server: true,
        }
    }

    /// Whether it waits for the server, or for the client.
    pub fn set_waiting_on_server(&mut self, is_waiting_on_server: bool) {
        let waiting_on_server = self.connection.waiting_on_server.get();
        match (self.is_waiting_on_server, is_waiting_on_server) {
            (false, true) => self.connection.waiting_on_server.set(waiting_on_server + 1),
            (true, false) => self.connection.waiting_on_server.set(waiting_on_server - 1),
            _ => {}
        }
        self.is_waiting_on_server = is_waiting_on_server;
    }
}

impl Deref for UnderWay {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for UnderWay {
    /// The next byte begins a head, unless others are under way.
    fn drop(&mut self) {
        self.set_waiting_on_server(false);
        self.connection.open.set(self.connection.open.get() - 1);
        self.connection.head_bytes.set(0);
    }
}
