//! The PROXY protocol, versions 1 and 2: a proxy that passes bytes on says before them whose they are.
//!
//! Not a byte more is read than the header has: what follows is TLS or HTTP as on any connection. On an address where it is spoken
//! it must come, and only from declared proxies: guessing would let everybody choose an address (the specification,
//! haproxy.org/download/3.0/doc/proxy-protocol.txt, §2, §5). Not here: what proxies say within HTTP (`forwarded`).

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use sluice_http::endpoints::Endpoints;
use sluice_settings::Peers;
use tokio::io::ReadBuf;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::front::Front;
use crate::socket::Socket;

/// How version 1 begins.
const V1: &[u8] = b"PROXY ";

/// How version 2 begins.
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes of the shortest line, `PROXY UNKNOWN`, and of the longest, with its end (§2.1).
const V1_BYTES: std::ops::RangeInclusive<usize> = 15..=107;

/// The signature, version and command, family, length (§2.2).
const V2_HEAD_BYTES: usize = 16;

/// Bytes after that, at most: addresses have 36 or 216, and a certificate of the client, which may come with them, some thousands.
const V2_REST_BYTES_MAX: usize = 16 << 10;

/// One line in so many seconds tells of connections that are refused.
const COMPLAIN_EVERY: u32 = 10;

/// Reads the header, and tells the connection whose it is. False when it must be closed, which is in the log then.
pub(crate) async fn receive(
    front: &Front,
    limit: Duration,
    connection: &Connection,
    socket: &mut Socket,
    proxies: &Peers,
) -> bool {
    let endpoints = connection.endpoints();
    let refusal = if proxies.contains(&endpoints) {
        match timeout(limit, read(socket)).await {
            Ok(Ok(Source::Told { client, server })) => {
                connection.set_endpoints(Endpoints {
                    client,
                    server,
                    is_unix: false,
                });
                return true;
            }
            Ok(Ok(Source::Itself)) => return true,
            Ok(Err(refusal)) => refusal.to_string(),
            Err(_) => format!("no header of the PROXY protocol within {limit:?}"),
        }
    } else {
        "not from a proxy that proxy_protocol names".to_owned()
    };
    front.complaints.tell(front.tick(), |others| {
        let peer = if endpoints.is_unix {
            "a unix socket".to_owned()
        } else {
            endpoints.client.to_string()
        };
        match others {
            0 => tracing::warn!("connection from {peer} closed: {refusal}"),
            _ => tracing::warn!("connection from {peer} closed: {refusal}; so were {others} before it"),
        }
    });
    false
}

/// Complaints about connections, of which anybody could cause any number: few of them are told, the others counted.
#[derive(Default)]
pub(crate) struct Complaints {
    /// The worker's tick of the last one that was told.
    told: Cell<Option<u32>>,
    untold: Cell<u32>,
}

impl Complaints {
    /// Tells a complaint, with the number of those since the last one that was told; or only counts it.
    fn tell(&self, tick: u32, tell: impl FnOnce(u32)) {
        if self
            .told
            .get()
            .is_some_and(|told| tick < told.saturating_add(COMPLAIN_EVERY))
        {
            self.untold.set(self.untold.get().saturating_add(1));
        } else {
            self.told.set(Some(tick));
            tell(self.untold.replace(0));
        }
    }
}

/// Whose connection it is.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    /// That of this client, which has connected to this server.
    Told {
        /// The client's address.
        client: SocketAddr,
        /// The address that the client connected to.
        server: SocketAddr,
    },
    /// The proxy's own, or that of somebody without an address.
    Itself,
}

/// Why a header is none.
#[derive(Debug)]
pub enum Refusal {
    /// The connection does not begin with a header.
    Absent,
    /// What is wrong with the header.
    Bad(&'static str),
    /// The connection ended within the header.
    Left,
    /// The header could not be read.
    Socket(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Absent => out.write_str("it does not begin with a header of the PROXY protocol"),
            Refusal::Bad(what) => write!(out, "header of the PROXY protocol: {what}"),
            Refusal::Left => out.write_str("it ended within the header of the PROXY protocol"),
            Refusal::Socket(error) => write!(out, "header of the PROXY protocol: {error}"),
        }
    }
}

/// Reads the header, and not a byte that follows it.
async fn read(socket: &mut Socket) -> Result<Source, Refusal> {
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
            .map_err(Refusal::Socket)?;
        let length = room.filled().len();
        if length == 0 {
            return Err(Refusal::Left);
        }
        header.truncate(before + length);
    }
}

/// Looks how many of the next bytes belong to a line: those through its end, or all that are there.
async fn bytes_of_line(socket: &mut Socket, most: usize) -> Result<usize, Refusal> {
    let mut bytes = vec![0; most];
    let peeked = poll_fn(|context| socket.poll_peek(context, &mut bytes)).await;
    match peeked.map_err(Refusal::Socket)? {
        0 => Err(Refusal::Left),
        there => {
            let end = bytes[..there].iter().position(|byte| *byte == b'\n');
            Ok(end.map_or(there, |end| end + 1))
        }
    }
}

/// What is still to be read of a header.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The header is complete.
    Nothing,
    /// So many bytes, all of which belong to it.
    Bytes(usize),
    /// The rest of a line, which has at most so many.
    Line(usize),
}

/// How much must be read next, behind the bytes of a header that were read already: never more than belongs to the header.
///
/// # Errors
/// The bytes are not the beginning of a header.
pub fn wanted(header: &[u8]) -> Result<Wanted, Refusal> {
    let begins = |with: &[u8]| header.iter().zip(with).all(|(one, other)| one == other);
    if begins(V2) {
        let length = match header.get(..V2_HEAD_BYTES) {
            // No header of either version is shorter than the shortest line.
            None if header.is_empty() => return Ok(Wanted::Bytes(*V1_BYTES.start())),
            None => V2_HEAD_BYTES,
            Some(head) => V2_HEAD_BYTES + rest_bytes(head)?,
        };
        Ok(match length - header.len() {
            0 => Wanted::Nothing,
            more => Wanted::Bytes(more),
        })
    } else if begins(V1) {
        match header.len() {
            _ if header.ends_with(b"\n") => Ok(Wanted::Nothing),
            length if length < *V1_BYTES.start() => Ok(Wanted::Bytes(V1_BYTES.start() - length)),
            length if length < *V1_BYTES.end() => Ok(Wanted::Line(V1_BYTES.end() - length)),
            _ => Err(Refusal::Bad("its line is too long")),
        }
    } else {
        Err(Refusal::Absent)
    }
}

/// Bytes that follow the head of version 2.
fn rest_bytes(head: &[u8]) -> Result<usize, Refusal> {
    let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if length > V2_REST_BYTES_MAX {
        return Err(Refusal::Bad("it is too long"));
    }
    Ok(length)
}

/// Reads a complete header, as [`wanted`] knows it.
///
/// # Errors
/// What is wrong with the header; the connection is to be closed.
pub fn parse(header: &[u8]) -> Result<Source, Refusal> {
    if header.starts_with(V2) {
        parse_v2(header)
    } else {
        parse_v1(header)
    }
}

/// `PROXY TCP4 192.0.2.7 198.51.100.1 4711 443` (§2.1).
fn parse_v1(line: &[u8]) -> Result<Source, Refusal> {
    let line = line
        .strip_suffix(b"\r\n")
        .ok_or(Refusal::Bad("its line ends without CR"))?;
    let text = std::str::from_utf8(line).map_err(|_| Refusal::Bad("it is no text"))?;
    let words: Vec<&str> = text.split(' ').collect();
    match words[..] {
        [_, "UNKNOWN", ..] => Ok(Source::Itself),
        [_, "TCP4", client, server, from, to] => ends_v1::<Ipv4Addr>([client, server], [from, to]),
        [_, "TCP6", client, server, from, to] => ends_v1::<Ipv6Addr>([client, server], [from, to]),
        _ => Err(Refusal::Bad(
            "it names no protocol that there is, or not two addresses and ports",
        )),
    }
}

fn ends_v1<A: FromStr + Into<IpAddr>>(addresses: [&str; 2], ports: [&str; 2]) -> Result<Source, Refusal> {
    let end = |index: usize| {
        let address = addresses[index].parse::<A>().map_err(|_| Refusal::Bad("no address"))?;
        let digits = ports[index];
        // Without leading zeros (§2.1), signs, or anything else that a number may have elsewhere.
        let is_number =
            digits.bytes().all(|digit| digit.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
        let port = digits
            .parse()
            .ok()
            .filter(|_| is_number)
            .ok_or(Refusal::Bad("no port"))?;
        Ok(SocketAddr::new(address.into().to_canonical(), port))
    };
    Ok(Source::Told {
        client: end(0)?,
        server: end(1)?,
    })
}

/// Binary, with addresses and then what else the proxy wants to tell, which is passed over (§2.2).
fn parse_v2(header: &[u8]) -> Result<Source, Refusal> {
    let (head, rest) = header.split_at_checked(V2_HEAD_BYTES).ok_or(Refusal::Left)?;
    match head[12] {
        // LOCAL: the proxy has connected of its own accord, to see whether the server is well.
        0x20 => return Ok(Source::Itself),
        0x21 => {}
        _ => return Err(Refusal::Bad("it has a version or command that there is not")),
    }
    if head[13] & 0xf > 2 {
        return Err(Refusal::Bad("it has a protocol that there is not"));
    }
    let short = Refusal::Bad("it is shorter than its addresses");
    match head[13] >> 4 {
        // Nobody's, or the client of a unix socket of the proxy.
        0x0 | 0x3 => Ok(Source::Itself),
        0x1 => ends_v2::<4>(rest).ok_or(short),
        0x2 => ends_v2::<16>(rest).ok_or(short),
        _ => Err(Refusal::Bad("it has a family of addresses that there is not")),
    }
}

/// Two addresses of so many bytes, then their ports.
fn ends_v2<const N: usize>(rest: &[u8]) -> Option<Source>
where
    IpAddr: From<[u8; N]>,
{
    let end = |index: usize| {
        let address: [u8; N] = rest.get(index * N..(index + 1) * N)?.try_into().ok()?;
        let port = rest.get(2 * N + 2 * index..2 * N + 2 * index + 2)?;
        let port = u16::from_be_bytes([port[0], port[1]]);
        Some(SocketAddr::new(IpAddr::from(address).to_canonical(), port))
    };
    Some(Source::Told {
        client: end(0)?,
        server: end(1)?,
    })
}

#[cfg(test)]
mod tests;
