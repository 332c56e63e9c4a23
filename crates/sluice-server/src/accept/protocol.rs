//! The protocol of a connection: which one it is, and how the connection ends.
//!
//! Here: one connection from its acceptance to its close. Not here: what is said on it (`http1`, `http2`).

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::time::timeout;

use crate::accept::http1::Refusal;
use crate::accept::places::Place;
use crate::accept::socket::Socket;
use crate::accept::stream::ClientStream;
use crate::accept::transport::Transport;
use crate::accept::{http1, http2};
use crate::connection::Connection;
use crate::worker::Worker;

/// The first bytes of HTTP/2 with prior knowledge (RFC 9113 §3.4); no method of HTTP/1.1 begins so.
const PREFACE: &[u8] = b"PRI";

/// Serves one connection, accepted on the listener of this index, to its end; its place is free again after that.
pub(crate) fn serve(worker: Rc<Worker>, socket: Socket, place: Place, listener: usize) -> impl Future<Output = ()> {
    // Begun outside: what an async function is given it carries all its life.
    let beginning = begin(&worker, &place, socket, listener);
    async move {
        let Some((stream, is_http2)) = open(&worker, &place, beginning).await else {
            return;
        };
        let refusal = if is_http2 {
            Box::pin(http2::talk(&worker, &place, &stream)).await;
            None
        } else {
            http1::talk(&worker, &place, &stream).await
        };
        // Boxed, as above.
        Box::pin(end(&worker, &place, stream, refusal)).await;
        drop(place);
    }
}

async fn open(
    worker: &Worker,
    connection: &Rc<Connection>,
    beginning: Beginning,
) -> Option<(Rc<RefCell<ClientStream>>, bool)> {
    let (transport, is_http2) = match beginning {
        Beginning::Done(transport) => (transport, false),
        Beginning::Awaited(beginning) => beginning.await?,
    };
    let send_timeout = worker.config().limits.send_timeout;
    let stream = ClientStream::new(transport, Rc::clone(connection), send_timeout);
    Some((Rc::new(RefCell::new(stream)), is_http2))
}

/// What carries a connection, and whether it is HTTP/2 that it carries.
type Begun = (Transport, bool);

/// A connection on its way to its first byte of HTTP.
enum Beginning {
    /// Clear text, HTTP/1.1.
    Done(Transport),
    /// A handshake, or the first bytes. Whether it is HTTP/2; none when it does not come to that. Boxed: a connection is not
    /// to carry all its life what it needs at its beginning.
    Awaited(Pin<Box<dyn Future<Output = Option<Begun>>>>),
}

fn begin(worker: &Rc<Worker>, connection: &Rc<Connection>, mut socket: Socket, listener: usize) -> Beginning {
    let speech = worker.speech(listener);
    connection.redirect_to_https(speech.redirect_to_https);
    let (worker, connection) = (Rc::clone(worker), Rc::clone(connection));
    match speech.tls {
        Some(tls) => Beginning::Awaited(Box::pin(async move {
            let transport = handshake(&worker, &connection, socket, tls).await?;
            let is_http2 = transport.is_http2();
            Some((transport, is_http2))
        })),
        None if speech.http2 => Beginning::Awaited(Box::pin(async move {
            let is_http2 = speaks_http2(&worker, &mut socket).await?;
            Some((Transport::Clear(socket), is_http2))
        })),
        None => Beginning::Done(Transport::Clear(socket)),
    }
}

/// TLS, as far as the first byte of what it carries. None when it does not come to that: the client's fault.
async fn handshake(
    worker: &Worker,
    connection: &Connection,
    mut socket: Socket,
    config: Arc<ServerConfig>,
) -> Option<Transport> {
    let limit = worker.config().limits.head_timeout;
    let client = connection.ends.client;
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
            if let Some(security) = transport.security() {
                connection.secure(security);
            }
            Some(transport)
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
    let pieces = [io::IoSlice::new(TEXT)];
    // It is small and the first thing sent: if it does not go at once, nobody reads it.
    let _ = poll_fn(|context| socket.poll_write_vectored(context, &pieces)).await;
    socket.linger().await;
}

/// Whether HTTP/2 is what a client begins with, in clear text. None when it says nothing in time, or leaves.
async fn speaks_http2(worker: &Worker, socket: &mut Socket) -> Option<bool> {
    let limit = worker.config().limits.head_timeout;
    let mut first = [0; PREFACE.len()];
    let peeked = timeout(limit, poll_fn(|context| socket.poll_peek(context, &mut first))).await;
    match peeked {
        Ok(Ok(1..)) => Some(first == PREFACE),
        _ => None,
    }
}

/// Closes the connection, after a last word where one is due.
async fn end(
    worker: &Rc<Worker>,
    connection: &Connection,
    stream: Rc<RefCell<ClientStream>>,
    refusal: Option<Refusal>,
) {
    let Ok(stream) = Rc::try_unwrap(stream) else {
        return tracing::error!("connection from {}: its socket is still in use", connection.ends.client);
    };
    let mut stream = stream.into_inner();
    if let Some(refusal) = refusal {
        http1::refuse(worker, connection, &mut stream, &refusal).await;
    }
    stream.close().await;
}
