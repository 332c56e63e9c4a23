//! One exchange in progress on a connection: whether it waits for the client or the server, and how its response body becomes chunks.

use std::ops::Deref;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::chunk::{Chunk, ChunkMemory, ChunkPosition};
use crate::connection::{CloseRequest, Connection};
use crate::outgoing::OutgoingBody;

/// An exchange in progress on a connection. Dropping this ends it.
pub struct ActiveExchange {
    connection: Rc<Connection>,
    body: OutgoingBody,
    is_waiting_on_server: bool,
    carries_watch: bool,
}

impl ActiveExchange {
    /// Begins an exchange when its head is complete: bytes read from now on belong to its body or to the next head.
    pub fn begin(connection: &Rc<Connection>) -> ActiveExchange {
        let number = connection.exchanges.begin();
        ActiveExchange {
            connection: Rc::clone(connection),
            body: OutgoingBody::of_exchange(number),
            is_waiting_on_server: true,
            carries_watch: false,
        }
    }

    /// Has the connection note no events until the exchange ends, because it carries those of a watch: each would cause others.
    pub fn carry_watch(&mut self) {
        if !std::mem::replace(&mut self.carries_watch, true) {
            self.connection.watched.begin_carrying();
        }
    }

    /// A handle by which the exchange can be aborted while its response is sent.
    pub fn handle(&self) -> ExchangeHandle {
        ExchangeHandle {
            connection: Rc::clone(&self.connection),
            number: self.body.exchange,
        }
    }

    /// Notes that the exchange waits for the server: the client's time limit does not run.
    pub fn wait_on_server(&mut self) {
        if !self.is_waiting_on_server {
            self.is_waiting_on_server = true;
            self.connection
                .exchanges
                .waiting_on_server
                .update(|waiting| waiting + 1);
            self.body.set_waits_for_client(false);
        }
    }

    /// Notes that the exchange waits for the client to take the response.
    pub fn wait_on_client(&mut self) {
        if self.is_waiting_on_server {
            self.is_waiting_on_server = false;
            self.connection
                .exchanges
                .waiting_on_server
                .update(|waiting| waiting - 1);
            self.body.set_waits_for_client(true);
        }
    }

    /// Waits until the connection may have another chunk of the body in memory, and says of how many bytes.
    pub fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<usize> {
        let room = self.body.poll_room(&self.connection.outgoing, context);
        if room.is_pending() {
            self.wait_on_client();
        }
        room
    }

    /// Hands a chunk out to the protocol. It `is_last` if the body ends with it.
    pub fn hand_out(&mut self, bytes: Bytes, memory: ChunkMemory, position: ChunkPosition) -> Chunk {
        let outgoing = &self.connection.outgoing;
        if position != ChunkPosition::Last {
            self.body.begin_delivery(outgoing);
        }
        let own = if memory == ChunkMemory::Own { bytes.len() } else { 0 };
        let hold = self.body.hold(outgoing, own);
        Chunk::new(bytes, hold, &self.connection)
    }
}

impl Deref for ActiveExchange {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for ActiveExchange {
    fn drop(&mut self) {
        self.wait_on_client();
        if self.carries_watch {
            self.connection.watched.end_carrying();
        }
        self.body.end(&self.connection.outgoing);
        self.connection.exchanges.end();
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
    pub fn listener(&self) -> usize {
        self.connection.peer.listener()
    }

    /// Aborts the response that is being sent, if it is not over: resets its stream in HTTP/2, its connection in HTTP/1.
    pub fn abort(&self) {
        let connection = &self.connection;
        if connection.outgoing.is_http2.get() {
            connection.outgoing.abort_delivery(self.number);
        } else if connection.exchanges.is_busy() && connection.exchanges.begun.get() == self.number {
            connection.request_close(CloseRequest::End);
        }
    }
}
