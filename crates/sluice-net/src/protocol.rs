//! The protocol of a connection: which one it is, and how the connection endpoints.
//!
//! Here: one connection from its acceptance to its close. Not here: what is said on it (`http1`, `http2`).

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use sluice_settings::limits::Limits;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::front::Front;
use crate::http1::Refusal;
use crate::service::Service;
use crate::slots::Slot;
use crate::socket::Socket;
use crate::stream::ClientStream;
use crate::tls::ListenerProtocol;
use crate::transport::Transport;
use crate::{http1, http2, proxy_protocol, tls_info};

/// How long a client that is refused may take to read why.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// The first bytes of HTTP/2 with prior knowledge (RFC 9113 §3.4); no method of HTTP/1.1 begins so.
const PREFACE: &[u8] = b"PRI";

/// A connection that speaks HTTP. Fields are dropped in this order: the slot is free when the socket is closed.
pub(crate) struct Client<S> {
    pub front: Rc<Front>,
    pub service: Rc<S>,
    pub stream: Rc<RefCell<ClientStream>>,
    pub slot: Slot,
}

impl<S: Service> Client<S> {
    fn new(accepted: Accepted<S>, transport: Transport) -> Client<S> {
        let Accepted { front, service, slot } = accepted;
        let send_timeout = service.limits().send_timeout;
        let stream = ClientStream::new(transport, Rc::clone(&slot), send_timeout);
        Client {
            front,
            service,
            stream: Rc::new(RefCell::new(stream)),
            slot,
        }
    }
}

/// A connection whose protocol is not known yet.
struct Accepted<S> {
    front: Rc<Front>,
    service: Rc<S>,
    slot: Slot,
}

impl<S: Service> Accepted<S> {
    fn limits(&self) -> Limits {
        self.service.limits()
    }
}

/// Serves one connection, accepted on the listener of this index, to its end; its slot is free again after that.
pub(crate) fn serve<S: Service>(
    front: Rc<Front>,
    service: Rc<S>,
    socket: Socket,
    slot: Slot,
    listener: usize,
) -> impl Future<Output = ()> {
    // Here and not below, and in one slot all the time: what an async block is given it carries all its life.
    let mut stage = begin(Accepted { front, service, slot }, socket, listener);
    async move {
        while let Stage::Beginning(beginning) = &mut stage {
            stage = beginning.as_mut().await;
        }
        let refusal = match &stage {
            Stage::Http1(client) => http1::run(client).await,
            Stage::Http2(client) => {
                Box::pin(http2::run(client)).await;
                None
            }
            Stage::Beginning(_) | Stage::Over => None,
        };
        if let Stage::Http1(client) | Stage::Http2(client) = mem::replace(&mut stage, Stage::Over) {
            // Boxed: a connection is not to carry all its life what it needs at its end.
            Box::pin(end(client, refusal)).await;
        }
    }
}

/// How far a connection has come.
enum Stage<S> {
    /// A header of the PROXY protocol, a handshake, or the first bytes. Boxed: a connection is not to carry all its life what it
    /// needs at its beginning.
    Beginning(Pin<Box<dyn Future<Output = Stage<S>>>>),
    Http1(Client<S>),
    Http2(Client<S>),
    Over,
}

impl<S> Stage<S> {
    fn http(client: Client<S>, is_http2: bool) -> Stage<S> {
        if is_http2 {
            Stage::Http2(client)
        } else {
            Stage::Http1(client)
        }
    }
}

fn begin<S: Service>(accepted: Accepted<S>, mut socket: Socket, listener: usize) -> Stage<S> {
    let mut protocol = accepted.front.protocol(listener);
    accepted.slot.redirect_to_https(protocol.redirect_to_https);
    match protocol.proxy_protocol.take() {
        None => begin_protocol(accepted, socket, protocol),
        Some(proxies) => Stage::Beginning(Box::pin(async move {
            let Accepted { front, slot, .. } = &accepted;
            let limit = accepted.limits().head_timeout;
            if proxy_protocol::receive(front, limit, slot, &mut socket, &proxies).await {
                begin_protocol(accepted, socket, protocol)
            } else {
                Stage::Over
            }
        })),
    }
}

fn begin_protocol<S: Service>(accepted: Accepted<S>, mut socket: Socket, protocol: ListenerProtocol) -> Stage<S> {
    match protocol.tls {
        Some(tls) => Stage::Beginning(Box::pin(async move {
            let limit = accepted.limits().head_timeout;
            let Some(transport) = handshake(limit, &accepted.slot, socket, tls).await else {
                return Stage::Over;
            };
            let is_http2 = transport.is_http2();
            Stage::http(Client::new(accepted, transport), is_http2)
        })),
        None if protocol.http2 => Stage::Beginning(Box::pin(async move {
            let limit = accepted.limits().head_timeout;
            let Some(is_http2) = speaks_http2(limit, &mut socket).await else {
                return Stage::Over;
            };
            Stage::http(Client::new(accepted, Transport::Clear(socket)), is_http2)
        })),
        None => Stage::Http1(Client::new(accepted, Transport::Clear(socket))),
    }
}

/// TLS, as far as the first byte of what it carries. None when it does not come to that: the client's fault.
async fn handshake(
    limit: Duration,
    connection: &Connection,
    mut socket: Socket,
    config: Arc<ServerConfig>,
) -> Option<Transport> {
    let client = connection.endpoints().client;
    let handshake = async {
        let mut first = [0];
        match poll_fn(|context| socket.poll_peek(context, &mut first)).await {
            Ok(1..) if is_in_clear(first[0]) => {
                tell_of_https(socket).await;
                Err(io::Error::other("HTTP in clear text"))
            }
            Ok(_) => Transport::encrypt(socket, config).await,
            Err(error) => Err(error),
        }
    };
    match timeout(limit, handshake).await {
        Ok(Ok(transport)) => {
            if let Some(tls_info) = transport.tls_info() {
                connection.secure(tls_info);
            }
            Some(transport)
        }
        // As rare as those who know of the address, and the client is told no more than that it is refused.
        Ok(Err(error)) if tls_info::is_of_client_certificate(&error) => {
            tracing::info!("connection from {client}: client certificate: {error}");
            None
        }
        Ok(Err(error)) => {
            tracing::debug!("connection from {client}: handshake: {error}");
            None
        }
        Err(_) => {
            tracing::debug!("connection from {client}: no handshake within {limit:?}");
            None
        }
    }
}

/// Whether a connection begins with a method of HTTP, and not with a record of TLS.
fn is_in_clear(first: u8) -> bool {
    first.is_ascii_uppercase()
}

/// A browser that was given an address without https:// is to say so, not to show nothing.
async fn tell_of_https(mut socket: Socket) {
    const TEXT: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n\
        This port speaks https: write https:// in the address.\n";
    let chunks = [io::IoSlice::new(TEXT)];
    // It is small and the first thing sent: if it does not go at once, nobody reads it.
    let _ = poll_fn(|context| socket.poll_write_vectored(context, &chunks)).await;
    socket.linger().await;
}

/// Whether HTTP/2 is what a client begins with, in clear text. None when it says nothing in time, or leaves.
async fn speaks_http2(limit: Duration, socket: &mut Socket) -> Option<bool> {
    let mut first = [0; PREFACE.len()];
    let peeked = timeout(limit, poll_fn(|context| socket.poll_peek(context, &mut first))).await;
    match peeked {
        Ok(Ok(1..)) => Some(first == PREFACE),
        _ => None,
    }
}

/// Closes the connection, after a last word where one is due.
async fn end<S: Service>(client: Client<S>, refusal: Option<Refusal>) {
    let Client {
        service, stream, slot, ..
    } = client;
    let Ok(stream) = Rc::try_unwrap(stream) else {
        return tracing::error!(
            "connection from {}: its socket is still in use",
            slot.endpoints().client
        );
    };
    let mut stream = stream.into_inner();
    if let Some(page) = refusal.and_then(|refusal| service.refuse(slot.endpoints(), &refusal)) {
        let _ = timeout(PAGE_TIMEOUT, stream.send(&page)).await;
    }
    stream.close().await;
    drop(slot);
}
