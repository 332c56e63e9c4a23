//! One connection of the client: TCP or a unix socket, TLS if wanted, and a request on it.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig};
use sluice_settings::notation;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::turns::InTurns;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    /// The name in TLS (RFC 7301).
    pub(super) fn alpn(self) -> &'static [u8] {
        match self {
            Protocol::Http1 => b"http/1.1",
            Protocol::Http2 => b"h2",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Protocol::Http1 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2",
        })
    }
}

#[derive(Clone, Debug)]
pub(super) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(out),
            Address::Unix(path) => path.display().fmt(out),
        }
    }
}

/// The client's settings for TLS, and the name of the server.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    pub(super) client: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

/// A request that got no reply, or only a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// No connection; the reason of the system.
    Connect(String),
    /// No agreement on TLS, with a hint.
    Tls(String),
    NotSent,
    NoReply,
    Truncated,
    /// No complete reply within this time.
    TimedOut(Duration),
    /// The reply violates HTTP, or the server has refused the request as a violation.
    Malformed(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Connect(reason) => write!(out, "cannot connect: {reason}"),
            Failure::Tls(reason) => write!(out, "TLS: {reason}"),
            Failure::NotSent => out.write_str("the server closed the connection before the request was sent"),
            Failure::NoReply => out.write_str("the server closed the connection before its reply"),
            Failure::Truncated => out.write_str("the server closed the connection in the middle of its reply"),
            Failure::TimedOut(time) => {
                write!(out, "no complete reply within {}", notation::format_duration(*time))
            }
            Failure::Malformed(reason) => write!(out, "not a valid reply: {reason}"),
        }
    }
}

impl Failure {
    /// The failure of a request whose reply has not begun.
    fn of_request(error: &hyper::Error) -> Failure {
        if error.is_canceled() {
            return Failure::NotSent;
        }
        match error.is_incomplete_message() || error.is_closed() || is_reset(error) {
            true => Failure::NoReply,
            false => Failure::Malformed(with_cause(error)),
        }
    }

    /// The failure of a reply whose head has arrived.
    pub(super) fn of_body(error: &hyper::Error) -> Failure {
        match error.is_incomplete_message() || error.is_closed() || error.is_body_write_aborted() || is_reset(error) {
            true => Failure::Truncated,
            false => Failure::Malformed(with_cause(error)),
        }
    }
}

fn causes(error: &hyper::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

/// Whether the system reported that the server has left.
fn is_reset(error: &hyper::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    let of_system = causes(error).find_map(|cause| cause.downcast_ref::<io::Error>());
    of_system.is_some_and(|error| matches!(error.kind(), ConnectionReset | BrokenPipe | UnexpectedEof))
}

fn with_cause(error: &hyper::Error) -> String {
    causes(error).fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) address: Address,
    pub(super) tls: Option<Tls>,
    pub(super) protocol: Protocol,
}

impl Endpoint {
    /// Opens a connection; a task of the current event loop carries its bytes.
    pub(super) async fn open(&self) -> Result<Connection, Failure> {
        let failed = |error: io::Error| Failure::Connect(notation::reason(&error));
        match &self.address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await.map_err(failed)?;
                // Otherwise a request in two segments waits for the acknowledgement of the first one.
                stream.set_nodelay(true).map_err(failed)?;
                self.secure(stream).await
            }
            Address::Unix(path) => self.secure(UnixStream::connect(path).await.map_err(failed)?).await,
        }
    }

    async fn secure<S>(&self, stream: S) -> Result<Connection, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = InTurns::new(stream);
        let Some(tls) = &self.tls else {
            return self.handshake(stream).await;
        };
        let connector = TlsConnector::from(Arc::clone(&tls.client));
        let stream = connector
            .connect(tls.name.clone(), stream)
            .await
            .map_err(|error| Failure::Tls(tls_reason(&error)))?;
        if self.protocol == Protocol::Http2 && stream.get_ref().1.alpn_protocol() != Some(self.protocol.alpn()) {
            return Err(Failure::Tls("the server does not offer HTTP/2 here".to_owned()));
        }
        self.handshake(stream).await
    }

    async fn handshake<S>(&self, stream: S) -> Result<Connection, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let io = TokioIo::new(stream);
        let failed = |error: hyper::Error| Failure::of_request(&error);
        match self.protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(io).await.map_err(failed)?;
                tokio::spawn(connection);
                Ok(Connection::Http1(sender))
            }
            Protocol::Http2 => {
                let executor = TokioExecutor::new();
                let (sender, connection) = http2::handshake(executor, io).await.map_err(failed)?;
                tokio::spawn(connection);
                Ok(Connection::Http2(sender))
            }
        }
    }
}

/// An open connection. Dropping it closes it.
pub(super) enum Connection {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    /// Whether another request can be sent. Waits until the reply before it has been read.
    pub(super) async fn is_ready(&mut self) -> bool {
        match self {
            Connection::Http1(sender) => sender.ready().await.is_ok(),
            Connection::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    /// Sends a request and waits for the head of its reply.
    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failure> {
        let sent = match self {
            Connection::Http1(sender) => sender.send_request(request).await,
            Connection::Http2(sender) => sender.send_request(request).await,
        };
        sent.map_err(|error| Failure::of_request(&error))
    }
}

/// Why the handshake failed, with what to do about it.
fn tls_reason(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(cause @ rustls::Error::InvalidCertificate(_)) => {
            format!("{cause}: name its authority with --ca FILE, or accept any certificate with --insecure")
        }
        Some(cause @ rustls::Error::InvalidMessage(_)) => {
            format!("{cause}: if the server does not expect TLS on this port, write http://")
        }
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
            "the server does not offer this version of HTTP here".to_owned()
        }
        Some(cause) => cause.to_string(),
        None => notation::reason(error),
    }
}
