//! The life of one connection: which protocol it speaks, and how it is closed.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use sluice_settings::limits::Limits;
use tokio::time::timeout;

use crate::client_certificates::{self, ShownCertificate};
use crate::close_reason::CloseReason;
use crate::connection::Connection;
use crate::connection_events::{self, Handshake};
use crate::half_close::ClientEnd;
use crate::http_connection::HttpConnection;
use crate::http1::run_http1;
use crate::http2::run_http2;
use crate::listener_protocol::ListenerProtocol;
use crate::proxy_protocol;
use crate::service::{HeadRefusal, Service};
use crate::slots::Slot;
use crate::socket::Socket;
use crate::stream::ClientStream;
use crate::tls::ListenerTls;
use crate::tls_info;
use crate::transport::Transport;
use crate::worker_net::WorkerNet;

/// How long a client may take to read the response to a refused head.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);

/// The first bytes of HTTP/2 with prior knowledge (RFC 9113 §3.4); no method of HTTP/1.1 begins with them.
const PREFACE: &[u8] = b"PRI";

/// How often a client is asked again that has sent only the beginning of `PREFACE`: rare, and no event reports it.
const PEEK_INTERVAL: Duration = Duration::from_millis(20);

/// A connection whose protocol is not known yet.
struct Accepted<S> {
    net: Rc<WorkerNet>,
    service: Rc<S>,
    slot: Slot,
}

impl<S: Service> Accepted<S> {
    fn limits(&self) -> Limits {
        self.service.limits()
    }

    fn speaks(self, transport: Transport, is_http2: bool) -> Stage<S> {
        let Accepted { net, service, slot } = self;
        let stream = ClientStream::new(transport, Rc::clone(&slot));
        let http = HttpConnection {
            net,
            service,
            stream: Rc::new(RefCell::new(stream)),
            slot,
        };
        match is_http2 {
            true => Stage::Http2(http),
            false => Stage::Http1(http),
        }
    }
}

/// Serves one connection from its acceptance to its close, then frees its slot. `listener` is its listener's number.
pub(crate) fn serve_connection<S: Service>(
    net: Rc<WorkerNet>,
    service: Rc<S>,
    socket: Socket,
    slot: Slot,
    listener: usize,
) -> impl Future<Output = ()> {
    let connection = Rc::clone(&slot);
    // Outside the async block, and in one variable: the future stores all its variables for its whole life.
    let mut stage = begin(Accepted { net, service, slot }, socket, listener);
    async move {
        while let Stage::Opening(opening) = &mut stage {
            stage = poll_fn(|context| {
                connection.wake_at(u32::MAX, context.waker());
                match connection.due_close_request() {
                    Some(_) => Poll::Ready(Stage::Closed),
                    None => opening.as_mut().poll(context),
                }
            })
            .await;
        }
        let refusal = match &stage {
            Stage::Http1(http) => run_http1(http).await,
            Stage::Http2(http) => {
                Box::pin(run_http2(http)).await;
                None
            }
            Stage::Opening(_) | Stage::Closed => None,
        };
        connection_events::note_closing(&connection);
        if let Stage::Http1(http) | Stage::Http2(http) = mem::replace(&mut stage, Stage::Closed) {
            // Boxed, so that the memory for closing is not part of every open connection.
            Box::pin(close(http, refusal)).await;
        }
        connection_events::note_closed(&connection);
    }
}

enum Stage<S> {
    /// Reads the header of the PROXY protocol, the TLS handshake, or the first bytes. Boxed, to free the memory then.
    Opening(Pin<Box<dyn Future<Output = Stage<S>>>>),
    Http1(HttpConnection<S>),
    Http2(HttpConnection<S>),
    Closed,
}

fn begin<S: Service>(accepted: Accepted<S>, mut socket: Socket, listener: usize) -> Stage<S> {
    let mut protocol = accepted.net.listener_protocol(listener);
    accepted.slot.peer.listener.set(listener);
    accepted.slot.peer.https_port.set(protocol.redirect_to_https);
    match protocol.proxy_protocol.take() {
        None => begin_http(accepted, socket, protocol),
        Some(proxies) => Stage::Opening(Box::pin(async move {
            let Accepted { net, slot, service } = &accepted;
            let limits = accepted.limits();
            let proxy = slot.peer.endpoints();
            if proxy_protocol::receive(net, &limits, slot, &mut socket, &proxies).await {
                if slot.watched.is_watched() {
                    slot.peer.is_proxy.set(service.is_trusted_proxy(&slot.peer.endpoints()));
                    connection_events::note_proxy_header(net, slot, &proxy);
                }
                begin_http(accepted, socket, protocol)
            } else {
                Stage::Closed
            }
        })),
    }
}

fn begin_http<S: Service>(accepted: Accepted<S>, mut socket: Socket, protocol: ListenerProtocol) -> Stage<S> {
    match protocol.tls {
        Some(tls) => Stage::Opening(Box::pin(async move {
            let limits = accepted.limits();
            let Some(transport) = handshake(&accepted.net, &limits, &accepted.slot, socket, tls).await else {
                return Stage::Closed;
            };
            let is_http2 = transport.is_http2();
            accepted.speaks(transport, is_http2)
        })),
        None if protocol.http2 => Stage::Opening(Box::pin(async move {
            let limit = accepted.limits().head_timeout;
            let Some(is_http2) = peek_version(limit, &mut socket).await else {
                accepted.slot.close_because(CloseReason::NothingSent);
                return Stage::Closed;
            };
            accepted.speaks(Transport::Clear(socket), is_http2)
        })),
        None => accepted.speaks(Transport::Clear(socket), false),
    }
}

/// Performs the TLS handshake. `None` if it fails or takes too long: the client's fault.
async fn handshake(
    net: &WorkerNet,
    limits: &Limits,
    connection: &Connection,
    mut socket: Socket,
    tls: Arc<ListenerTls>,
) -> Option<Transport> {
    let (client, limit) = (connection.peer.endpoints().client, limits.head_timeout);
    let watched = Handshake::begin(connection);
    let handshake = async {
        let mut first = [0];
        match poll_fn(|context| socket.poll_peek(context, &mut first)).await {
            Ok(1..) if is_http_in_clear(first[0]) => {
                answer_http_in_clear(socket).await;
                Err(io::Error::other("HTTP in clear text"))
            }
            Ok(_) => encrypt(connection, socket, &tls).await,
            Err(error) => Err(error),
        }
    };
    match timeout(limit, handshake).await {
        Ok(Ok(transport)) => {
            watched.note_done(connection, &transport);
            return Some(transport);
        }
        Ok(Err(error)) => {
            log_failure(net, limits, client, &error);
            watched.note_failed(&error);
        }
        Err(_) => {
            tracing::debug!("connection from {client}: no TLS handshake within {limit:?}");
            watched.note_timed_out(limit);
        }
    }
    connection.close_because(CloseReason::Handshake);
    None
}

fn log_failure(net: &WorkerNet, limits: &Limits, client: SocketAddr, error: &io::Error) {
    match tls_info::client_certificate_error(error) {
        // Logged at `info`, because such failures are rare and the client learns only that it was refused.
        Some(reason) if net.log.admits_refusal(limits.log_lines_max) => {
            let fix = client_certificates::fix(reason);
            tracing::info!("connection from {client}: client certificate: {error}{fix}");
        }
        _ => tracing::debug!("connection from {client}: TLS handshake: {error}"),
    }
}

/// Performs the TLS handshake, and notes its result in the connection.
async fn encrypt(connection: &Connection, socket: Socket, tls: &ListenerTls) -> io::Result<Transport> {
    let (transport, config) = Transport::encrypt(socket, tls).await?;
    if let (Some(state), Some(authorities)) = (transport.tls(), &config.authorities) {
        let shown = ShownCertificate::of(state, authorities)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        // The handshake is done once.
        let _ = connection.peer.certificate.set(Box::new(shown));
    }
    if let Some(state) = transport.tls() {
        let _ = connection.peer.tls_info.set(Rc::new(tls_info::describe(state)));
    }
    Ok(transport)
}

/// Whether a connection begins with a method of HTTP instead of a TLS record.
fn is_http_in_clear(first: u8) -> bool {
    first.is_ascii_uppercase()
}

/// Sends a page that a browser can show if its user left out https://.
async fn answer_http_in_clear(mut socket: Socket) {
    const TEXT: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n\
        This port speaks https: write https:// in the address.\n";
    let chunks = [io::IoSlice::new(TEXT)];
    // One write suffices: the text is small, and the send buffer is empty.
    let _ = poll_fn(|context| socket.poll_write_vectored(context, &chunks)).await;
    socket.linger().await;
}

/// Finds out in clear text whether a client begins with HTTP/2. `None` if it sends nothing in time, or closes.
async fn peek_version(limit: Duration, socket: &mut Socket) -> Option<bool> {
    timeout(limit, peek_preface(socket)).await.ok().flatten()
}

/// Finds that out without a time limit. Waits while all bytes may belong to `PREFACE`, as those of POST do.
async fn peek_preface(socket: &mut Socket) -> Option<bool> {
    let mut first = [0; PREFACE.len()];
    loop {
        let peeked = poll_fn(|context| socket.poll_peek(context, &mut first)).await.ok()?;
        match first.get(..peeked)? {
            [] => return None,
            PREFACE => return Some(true),
            begun if PREFACE.starts_with(begun) && socket.client_end() == ClientEnd::Open => {
                tokio::time::sleep(PEEK_INTERVAL).await;
            }
            _ => return Some(false),
        }
    }
}

/// Sends the response to a refused head, if there is one, and closes the connection.
async fn close<S: Service>(http: HttpConnection<S>, refusal: Option<HeadRefusal>) {
    let HttpConnection { service, stream, slot, .. } = http;
    let Ok(stream) = Rc::try_unwrap(stream) else {
        return tracing::error!(
            "connection from {}: its socket is still in use",
            slot.peer.endpoints().client
        );
    };
    slot.exchanges.has_unsent.set(true);
    let mut stream = stream.into_inner();
    if let Some(response) = refusal.and_then(|refusal| service.refuse(slot.peer.endpoints(), &refusal)) {
        let _ = timeout(REFUSAL_TIMEOUT, stream.send(&response)).await;
    }
    stream.close().await;
    drop(slot);
}
