//! A connection whose protocol is known: what `http1` and `http2` work with.

use std::cell::RefCell;
use std::error::Error;
use std::rc::Rc;

use crate::close_reason::CloseReason;
use crate::connection_events;
use crate::service::Service;
use crate::slots::Slot;
use crate::stream::{ClientSide, ClientStream};
use crate::worker_net::WorkerNet;

/// A connection that speaks HTTP. The order of the fields has the socket closed before its slot becomes free.
pub(crate) struct HttpConnection<S> {
    pub net: Rc<WorkerNet>,
    pub service: Rc<S>,
    pub stream: Rc<RefCell<ClientStream>>,
    pub slot: Slot,
}

impl<S: Service> HttpConnection<S> {
    /// Has it looked up who watches the connection, if a watch has come or gone. To be called before bytes are read or written.
    pub(crate) fn join_watches(&self) {
        if self.slot.watched.generation.get() != self.net.watches().generation() {
            self.look_up_watches();
        }
    }

    /// Why the connection ends with this error, which is noted if it is not the client's leave.
    pub(crate) fn reason_of_error(&self, error: &dyn Error) -> CloseReason {
        match self.stream.borrow().client {
            ClientSide::Closed => CloseReason::ClientClosed,
            ClientSide::Reset => CloseReason::ClientReset,
            ClientSide::Open => {
                connection_events::note_error(&self.slot, error);
                CloseReason::Error
            }
        }
    }

    /// Ends a connection whose client does not take what it is sent.
    pub(crate) fn end_slow(&self) {
        self.net.log.slow(&self.slot);
        self.slot.close_because(CloseReason::TooSlow);
        self.slot.abort();
    }

    #[cold]
    fn look_up_watches(&self) {
        let connection = &self.slot;
        let was_watched = connection.watched.is_watched();
        connection
            .peer
            .is_proxy
            .set(self.service.is_trusted_proxy(&connection.peer.endpoints()));
        self.net.tracer(connection);
        if !was_watched || !connection.watched.is_watched() {
            // It has missed bytes.
            self.stream.borrow_mut().watched_bytes = None;
            connection_events::note_joined(connection);
        }
    }
}
