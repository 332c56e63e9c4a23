//! The PROXY protocol, versions 1 and 2: a proxy sends a header with the client's address before the client's bytes.
//!
//! Exactly the header is read: TLS or HTTP follows, as on any connection. Where the protocol is configured, the header is required, and accepted only
//! from declared proxies: guessing would let any client choose its address (haproxy.org/download/3.0/doc/proxy-protocol.txt, §2, §5).

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use sluice_http::endpoints::{Endpoints, NamedBy};
use sluice_settings::Peers;
use sluice_settings::limits::Limits;
use sluice_watch::Item;
use thiserror::Error;
use tokio::io::ReadBuf;
use tokio::time::timeout;

use crate::close_reason::CloseReason;
use crate::connection::Connection;
use crate::socket::Socket;
use crate::worker_net::WorkerNet;

/// The first bytes of version 1.
const V1: &[u8] = b"PROXY ";

/// The signature of version 2.
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes of the shortest line, `PROXY UNKNOWN`, and of the longest, with CRLF (§2.1).
const V1_BYTES: std::ops::RangeInclusive<usize> = 15..=107;

/// Bytes of the fixed part: signature, version and command, family, length (§2.2).
const V2_HEAD_BYTES: usize = 16;

/// Bytes after the fixed part, at most: addresses have up to 216, a client certificate after them some thousands.
const V2_REST_BYTES_MAX: usize = 16 << 10;

/// Reads the header and sets the endpoints of the connection. False if it must be closed, which is logged then.
pub(crate) async fn receive(
    net: &WorkerNet,
    limits: &Limits,
    connection: &Connection,
    socket: &mut Socket,
    proxies: &Peers,
) -> bool {
    let endpoints = connection.peer.endpoints();
    let refusal = if proxies.contains(&endpoints) {
        match timeout(limits.head_timeout, read(socket)).await {
            Ok(Ok(source)) => {
                connection.peer.endpoints.set(source.endpoints(endpoints));
                return true;
            }
            Ok(Err(refusal)) => refusal.to_string(),
            Err(_) => format!("no header of the PROXY protocol within {:?}", limits.head_timeout),
        }
    } else {
        "not from a proxy that proxy_protocol names".to_owned()
    };
    if net.log.admits_refusal(limits.log_lines_max) {
        let peer = if endpoints.is_unix {
            "a unix socket".to_owned()
        } else {
            endpoints.client.to_string()
        };
        tracing::warn!("connection from {peer} closed: {refusal}");
    }
    connection.close_because(CloseReason::ProxyHeader);
    connection.watched.tracer().note(Item::Connection, "proxy", || refusal);
    false
}

/// The source of a connection, as its header names it.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    /// A client of the proxy.
    Proxied {
        /// The client's address, in canonical form.
        client: SocketAddr,
        /// The address that the client connected to, in canonical form.
        server: SocketAddr,
    },
    /// The proxy itself: a health check, for example.
    Local,
    /// A client of the proxy, without an address.
    Unknown,
}

impl Source {
    /// The endpoints of a connection with a header; `own` are those of its socket.
    fn endpoints(self, own: Endpoints) -> Endpoints {
        let (client, server, is_unix, named_by) = match self {
            Source::Proxied { client, server } => (client, server, false, NamedBy::Proxy),
            Source::Local => (own.client, own.server, own.is_unix, NamedBy::Proxy),
            Source::Unknown => (own.client, own.server, own.is_unix, NamedBy::Nobody),
        };
        Endpoints { client, server, is_unix, named_by }
    }
}

/// The reason why a header is refused.
#[derive(Debug, Error)]
pub enum HeaderError {
    /// The connection does not begin with a header.
    #[error("it does not begin with a header of the PROXY protocol")]
    Absent,
    /// The header is malformed.
    #[error("header of the PROXY protocol: {0}")]
    Malformed(&'static str),
    /// The connection ended within the header.
    #[error("it ended within the header of the PROXY protocol")]
    Truncated,
    /// Reading the socket failed.
    #[error("header of the PROXY protocol: {0}")]
    Socket(io::Error),
}

async fn read(socket: &mut Socket) -> Result<Source, HeaderError> {
    let mut header = Vec::with_capacity(*V1_BYTES.end());
    loop {
        let wanted = match wanted(&header)? {
            Wanted::Nothing => return parse(&header),
            Wanted::Bytes(count) => count,
            Wanted::Line(count) => bytes_of_line(socket, count).await?,
        };
        let before = header.len();
        header.resize(before + wanted, 0);
        let mut room = ReadBuf::new(&mut header[before..]);
        poll_fn(|context| socket.poll_read(context, &mut room))
            .await
            .map_err(HeaderError::Socket)?;
        let length = room.filled().len();
        if length == 0 {
            return Err(HeaderError::Truncated);
        }
        header.truncate(before + length);
    }
}

/// Peeks how many of the next bytes belong to a line: those through its newline, or all if there is none.
async fn bytes_of_line(socket: &mut Socket, bytes_max: usize) -> Result<usize, HeaderError> {
    let mut bytes = vec![0; bytes_max];
    let peeked = poll_fn(|context| socket.poll_peek(context, &mut bytes)).await;
    match peeked.map_err(HeaderError::Socket)? {
        0 => Err(HeaderError::Truncated),
        available => {
            let end = bytes[..available].iter().position(|byte| *byte == b'\n');
            Ok(end.map_or(available, |end| end + 1))
        }
    }
}

/// The part of a header that is still to be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The header is complete.
    Nothing,
    /// This many bytes, all of which belong to the header.
    Bytes(usize),
    /// The rest of a line, of at most this many bytes.
    Line(usize),
}

/// Says what to read after the first bytes of a header. An error is the proxy's fault.
pub fn wanted(header: &[u8]) -> Result<Wanted, HeaderError> {
    let may_be = |start: &[u8]| header.iter().zip(start).all(|(byte, expected)| byte == expected);
    if may_be(V2) {
        let length = match header.get(..V2_HEAD_BYTES) {
            // In both versions a header has at least the bytes of the shortest line.
            None if header.is_empty() => return Ok(Wanted::Bytes(*V1_BYTES.start())),
            None => V2_HEAD_BYTES,
            Some(head) => V2_HEAD_BYTES + rest_bytes(head)?,
        };
        Ok(match length - header.len() {
            0 => Wanted::Nothing,
            more => Wanted::Bytes(more),
        })
    } else if may_be(V1) {
        match header.len() {
            _ if header.ends_with(b"\n") => Ok(Wanted::Nothing),
            length if length < *V1_BYTES.start() => Ok(Wanted::Bytes(V1_BYTES.start() - length)),
            length if length < *V1_BYTES.end() => Ok(Wanted::Line(V1_BYTES.end() - length)),
            _ => Err(HeaderError::Malformed("the line is too long")),
        }
    } else {
        Err(HeaderError::Absent)
    }
}

/// The number of bytes that follow the fixed part of version 2.
fn rest_bytes(head: &[u8]) -> Result<usize, HeaderError> {
    let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if length > V2_REST_BYTES_MAX {
        return Err(HeaderError::Malformed("too long"));
    }
    Ok(length)
}

/// Parses a complete header. An error is the proxy's fault.
pub fn parse(header: &[u8]) -> Result<Source, HeaderError> {
    if header.starts_with(V2) {
        parse_v2(header)
    } else {
        parse_v1(header)
    }
}

/// `PROXY TCP4 192.0.2.7 198.51.100.1 4711 443` (§2.1).
fn parse_v1(line: &[u8]) -> Result<Source, HeaderError> {
    let line = line
        .strip_suffix(b"\r\n")
        .ok_or(HeaderError::Malformed("the line ends without CR"))?;
    let text = std::str::from_utf8(line).map_err(|_| HeaderError::Malformed("the line is not UTF-8"))?;
    let words: Vec<&str> = text.split(' ').collect();
    match words[..] {
        [_, "UNKNOWN", ..] => Ok(Source::Unknown),
        [_, "TCP4", client, server, from, to] => endpoints_v1::<Ipv4Addr>([client, server], [from, to]),
        [_, "TCP6", client, server, from, to] => endpoints_v1::<Ipv6Addr>([client, server], [from, to]),
        _ => Err(HeaderError::Malformed(
            "unknown protocol, or not two addresses and ports",
        )),
    }
}

fn endpoints_v1<A: FromStr + Into<IpAddr>>(addresses: [&str; 2], ports: [&str; 2]) -> Result<Source, HeaderError> {
    let endpoint = |index: usize| {
        let address = addresses[index]
            .parse::<A>()
            .map_err(|_| HeaderError::Malformed("invalid address"))?;
        let digits = ports[index];
        // Only digits, without leading zeros (§2.1).
        let is_number =
            digits.bytes().all(|digit| digit.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
        let port = digits
            .parse()
            .ok()
            .filter(|_| is_number)
            .ok_or(HeaderError::Malformed("invalid port"))?;
        Ok(SocketAddr::new(address.into().to_canonical(), port))
    };
    Ok(Source::Proxied { client: endpoint(0)?, server: endpoint(1)? })
}

/// Binary: addresses, and then additional values (TLVs), which are ignored (§2.2).
fn parse_v2(header: &[u8]) -> Result<Source, HeaderError> {
    let (head, rest) = header.split_at_checked(V2_HEAD_BYTES).ok_or(HeaderError::Truncated)?;
    match head[12] {
        // LOCAL: the proxy has connected for itself, for example for a health check.
        0x20 => return Ok(Source::Local),
        0x21 => {}
        _ => return Err(HeaderError::Malformed("unknown version or command")),
    }
    if head[13] & 0xf > 2 {
        return Err(HeaderError::Malformed("unknown protocol"));
    }
    let short = HeaderError::Malformed("shorter than its addresses");
    match head[13] >> 4 {
        // Unspecified, or the client of a unix socket of the proxy.
        0x0 | 0x3 => Ok(Source::Unknown),
        0x1 => endpoints_v2::<4>(rest).ok_or(short),
        0x2 => endpoints_v2::<16>(rest).ok_or(short),
        _ => Err(HeaderError::Malformed("unknown address family")),
    }
}

/// Two addresses of `N` bytes each, then their ports.
fn endpoints_v2<const N: usize>(rest: &[u8]) -> Option<Source>
where
    IpAddr: From<[u8; N]>,
{
    let endpoint = |index: usize| {
        let address: [u8; N] = rest.get(index * N..(index + 1) * N)?.try_into().ok()?;
        let port = rest.get(2 * N + 2 * index..2 * N + 2 * index + 2)?;
        let port = u16::from_be_bytes([port[0], port[1]]);
        Some(SocketAddr::new(IpAddr::from(address).to_canonical(), port))
    };
    Some(Source::Proxied { client: endpoint(0)?, server: endpoint(1)? })
}

#[cfg(test)]
mod tests;
