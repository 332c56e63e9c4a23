//! The header of the PROXY protocol: the first bytes of a connection in, the client's address out.
//!
//! Properties: what is accepted does not depend on how the bytes arrive; exactly the header is consumed, never a byte that follows it;
//! a header that was written for two addresses, in either version, is read back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sluice_net::proxy_protocol::{HeaderError, Source, Wanted, parse, wanted};

use crate::input::Input;

/// Bytes of the longest header: the head of version 2, and what may follow it.
const HEADER_BYTES_MAX: usize = 16 + (16 << 10);

/// Input: a byte for the length of chunks, the connection's first bytes; these also give the addresses of the round trip.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let length = usize::from(input.byte()).max(1);
    check_addresses(input.clone());
    let stream = input.rest();
    for length in [length, 1] {
        let split = read(stream, length);
        // A malformed header may be refused sooner, or with another message, if less of it is known.
        let accepted = |(result, consumed)| Result::ok(result).map(|source| (source, consumed));
        assert_eq!(
            accepted(split),
            accepted(read(stream, usize::MAX)),
            "in chunks of {length} bytes"
        );
    }
    let (result, consumed) = read(stream, usize::MAX);
    assert!(consumed <= HEADER_BYTES_MAX);
    let header = &stream[..consumed];
    match result {
        Ok(source) => {
            if header.starts_with(b"PROXY ") {
                let newline = header.iter().position(|byte| *byte == b'\n');
                assert_eq!(newline, Some(consumed - 1), "exactly the line");
                assert!(consumed <= 107 && header.ends_with(b"\r\n"));
            } else {
                let rest = u16::from_be_bytes([header[14], header[15]]);
                assert_eq!(consumed, 16 + usize::from(rest), "exactly the header");
            }
            check_source(&source);
        }
        Err(refusal) => assert!(!refusal.to_string().chars().any(char::is_control)),
    }
}

fn check_source(source: &Source) {
    if let Source::Proxied { client, server } = source {
        for address in [client, server] {
            assert_eq!(address.ip(), address.ip().to_canonical());
        }
    }
}

/// Reads as from a socket that has at most so many bytes at a time: the result, and how many bytes were consumed.
fn read(stream: &[u8], chunk_bytes: usize) -> (Result<Source, HeaderError>, usize) {
    let mut consumed = 0;
    loop {
        let there = &stream[consumed..];
        let there = &there[..there.len().min(chunk_bytes)];
        let count = match wanted(&stream[..consumed]) {
            Ok(Wanted::Nothing) => return (parse(&stream[..consumed]), consumed),
            Ok(Wanted::Bytes(count)) => count.min(there.len()),
            Ok(Wanted::Line(most)) => {
                let there = &there[..there.len().min(most)];
                let end = there.iter().position(|byte| *byte == b'\n');
                end.map_or(there.len(), |end| end + 1)
            }
            Err(refusal) => return (Err(refusal), consumed),
        };
        if count == 0 {
            return (Err(HeaderError::Truncated), consumed);
        }
        consumed += count;
    }
}

fn check_addresses(mut input: Input<'_>) {
    let v4 = [address_v4(&mut input), address_v4(&mut input)];
    let v6 = [address_v6(&mut input), address_v6(&mut input)];
    let noise = input.rest();
    for [client, server] in [v4, v6] {
        let family = if client.is_ipv4() { "TCP4" } else { "TCP6" };
        let line = format!(
            "PROXY {family} {} {} {} {}\r\n",
            client.ip(),
            server.ip(),
            client.port(),
            server.port()
        );
        let binary = version_2(client, server, &noise[..noise.len().min(1000)]);
        for header in [line.into_bytes(), binary] {
            let stream = [&header[..], noise].concat();
            let (source, consumed) = read(&stream, usize::MAX);
            let canonical = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
            let expected = Source::Proxied {
                client: canonical(client),
                server: canonical(server),
            };
            assert_eq!(source.expect("a header"), expected);
            assert_eq!(consumed, header.len(), "what follows is not touched");
        }
    }
}

fn address_v4(input: &mut Input<'_>) -> SocketAddr {
    let address = Ipv4Addr::from_bits(u32::from(input.short()) << 16 | u32::from(input.short()));
    SocketAddr::new(address.into(), input.short())
}

fn address_v6(input: &mut Input<'_>) -> SocketAddr {
    let address = Ipv6Addr::from_bits(u128::from(input.long()) << 64 | u128::from(input.long()));
    SocketAddr::new(address.into(), input.short())
}

fn version_2(client: SocketAddr, server: SocketAddr, more: &[u8]) -> Vec<u8> {
    let octets = |address: SocketAddr| match address.ip() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let ports = [client.port().to_be_bytes(), server.port().to_be_bytes()].concat();
    let rest = [octets(client), octets(server), ports, more.to_vec()].concat();
    let family = if client.is_ipv4() { 0x11 } else { 0x21 };
    let length = u16::try_from(rest.len()).expect("some thousand bytes at most");
    let head = [b"\r\n\r\n\0\r\nQUIT\n\x21", &[family][..], &length.to_be_bytes()].concat();
    [head, rest].concat()
}
