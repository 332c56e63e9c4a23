//! The client: sends one request, or some at once, and reads the whole reply.
//!
//! It runs in a thread of its own, which is not traced, so it may block. Not here: the frames of HTTP/2 (http2.rs), what the server does (tracees.rs).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::count::Failure;
use crate::count::http2::Http2;

/// Longest wait for a byte: a server that is stepped needs some seconds for a large reply.
pub(crate) const WAIT: Duration = Duration::from_secs(60);
/// Longest head of a reply, bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// How the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// HTTP/1.1 on one connection.
    Http1,
    /// HTTP/1.1, a connection for each request.
    Close,
    /// HTTP/2 in cleartext, with prior knowledge.
    Http2,
    /// HTTP/1.1 over TLS 1.3 on one connection.
    Tls,
}

/// Where the requests go.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
    /// Requests of HTTP/2 that are sent at once.
    pub(crate) in_flight: u32,
    /// The server's certificate, for TLS.
    pub(crate) certificate: Option<std::path::PathBuf>,
}

/// A client with its connection.
pub(crate) enum Client {
    Kept(Box<dyn Stream>, Target),
    Close(Target),
    Http2(Box<Http2>),
}

/// A connection for bytes: a socket, or TLS on one.
pub(crate) trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

impl Client {
    pub(crate) fn connect(target: &Target) -> Result<Client, Failure> {
        Ok(match target.kind {
            Kind::Http1 => Client::Kept(Box::new(socket(target.address)?), target.clone()),
            Kind::Close => Client::Close(target.clone()),
            Kind::Http2 => Client::Http2(Box::new(Http2::connect(socket(target.address)?, target)?)),
            Kind::Tls => {
                let certificate = target
                    .certificate
                    .as_deref()
                    .ok_or("TLS needs the certificate of the server")?;
                let connection = ClientConnection::new(trusting(certificate)?, ServerName::from(target.address.ip()))?;
                Client::Kept(
                    Box::new(StreamOwned::new(connection, socket(target.address)?)),
                    target.clone(),
                )
            }
        })
    }

    /// Sends the requests that are in flight at once, and reads their replies.
    pub(crate) fn exchange(&mut self) -> Result<(), Failure> {
        match self {
            Client::Kept(stream, target) => exchange(stream, target, ""),
            Client::Close(target) => exchange(&mut socket(target.address)?, target, "Connection: close\r\n"),
            Client::Http2(connection) => connection.exchange(),
        }
    }
}

fn socket(address: SocketAddr) -> Result<TcpStream, Failure> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(WAIT))?;
    Ok(socket)
}

/// Settings of TLS that leave the server no choice, so that all servers do the same work.
fn trusting(certificate: &Path) -> Result<Arc<ClientConfig>, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate)?)?;
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites = vec![rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
    provider.kx_groups = vec![rustls::crypto::aws_lc_rs::kx_group::X25519];
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec!["http/1.1".into()];
    Ok(Arc::new(config))
}

fn exchange(stream: &mut (impl Stream + ?Sized), target: &Target, field: &str) -> Result<(), Failure> {
    let path = &target.path;
    // Without the port, whose length varies.
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: instructions\r\nAccept: */*\r\n{field}\r\n");
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    read_reply(stream)
}

/// Reads a reply up to its end: by its length, by its last chunk, or by the end of the connection.
fn read_reply(stream: &mut (impl Stream + ?Sized)) -> Result<(), Failure> {
    let mut reply = Vec::new();
    let mut part = vec![0; 64 * 1024];
    let body = loop {
        if let Some(at) = reply.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        let count = stream.read(&mut part)?;
        if count == 0 || reply.len() > HEAD_BYTES_MAX {
            return Err("a reply without a head".into());
        }
        reply.extend_from_slice(&part[..count]);
    };
    let head = String::from_utf8_lossy(&reply[..body]).to_ascii_lowercase();
    if !head.starts_with("http/1.1 200") {
        return Err(format!("not 200 but: {}", head.lines().next().unwrap_or_default()).into());
    }
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    let length: Option<usize> = field("content-length: ").map(str::parse).transpose()?;
    let is_chunked = field("transfer-encoding: ").is_some();
    loop {
        let is_whole = match length {
            Some(length) => reply.len() >= body + length,
            None => is_chunked && reply.ends_with(b"0\r\n\r\n"),
        };
        if is_whole {
            return Ok(());
        }
        let count = stream.read(&mut part)?;
        if count == 0 {
            return if length.is_some() || is_chunked {
                Err("a reply has no end".into())
            } else {
                Ok(())
            };
        }
        reply.extend_from_slice(&part[..count]);
    }
}
