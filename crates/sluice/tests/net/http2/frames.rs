//! Frames of HTTP/2 as a client sends and reads them, byte by byte (RFC 9113).

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use sluice_testing::{DEADLINE, Server};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types (RFC 9113 §6).
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const CONTINUATION: u8 = 9;
pub(super) const DATA: u8 = 0;

/// Flags of HEADERS (§6.2).
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// Error codes (§7).
pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const CANCEL: u32 = 8;
pub(super) const ENHANCE_YOUR_CALM: u32 = 11;

/// A connection after the preface, of which nothing has been read.
pub(super) fn connect(server: &Server) -> TcpStream {
    connect_with(server, &[])
}

/// Connects as `connect` does, with these settings of the client (§6.5.1).
pub(super) fn connect_with(server: &Server, settings: &[u8]) -> TcpStream {
    let address = &server.addresses()[1];
    let mut stream = TcpStream::connect(address.trim_start_matches("http://").trim_end_matches('/')).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream
        .write_all(&[PREFACE, &frame(SETTINGS, 0, 0, settings)].concat())
        .unwrap();
    stream
}

/// A connection that has sent the first byte of the preface in a packet of its own; the rest is returned.
pub(super) fn connect_in_two_packets(server: &Server) -> (TcpStream, Vec<u8>) {
    let address = &server.addresses()[1];
    let mut stream = TcpStream::connect(address.trim_start_matches("http://").trim_end_matches('/')).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let (first, rest) = PREFACE.split_at(1);
    stream.write_all(first).unwrap();
    (stream, [rest, &frame(SETTINGS, 0, 0, &[])].concat())
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// HEADERS of a complete request: GET, http, the path, and the host `t` (RFC 7541 §6).
pub(super) fn get(stream: u32, path: &str) -> Vec<u8> {
    let length = u8::try_from(path.len()).unwrap();
    let block = [&[0x82, 0x86, 0x04, length], path.as_bytes(), b"\x01\x01t"].concat();
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block)
}

/// A received frame: type, stream, payload.
pub(super) type Frame = (u8, u32, Vec<u8>);

/// The complete frames at the start of these bytes.
pub(super) fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let Some((payload, rest)) = rest.split_at_checked(length) else {
            break;
        };
        frames.push((head[3], stream, payload.to_vec()));
        bytes = rest;
    }
    frames
}

/// The 32-bit number at an offset of a payload.
pub(super) fn number(payload: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(payload[at..at + 4].try_into().unwrap())
}

/// Reads until a frame arrives that is the wanted one.
#[track_caller]
pub(super) fn wait_for(stream: &mut TcpStream, is_wanted: impl Fn(&Frame) -> bool) -> Frame {
    let mut received = Vec::new();
    loop {
        if let Some(frame) = frames(&received).into_iter().find(&is_wanted) {
            return frame;
        }
        let mut bytes = [0; 4096];
        let length = stream.read(&mut bytes).unwrap();
        assert_ne!(length, 0, "the server has closed: {:?}", frames(&received));
        received.extend_from_slice(&bytes[..length]);
    }
}

/// All frames until the server closes the connection.
#[track_caller]
pub(super) fn rest(stream: &mut TcpStream) -> Vec<Frame> {
    let mut received = Vec::new();
    let end = stream.read_to_end(&mut received).map_err(|error| error.kind());
    assert!(matches!(end, Ok(_) | Err(ErrorKind::ConnectionReset)), "{end:?}");
    frames(&received)
}

/// The error codes of all GOAWAY frames.
pub(super) fn goaway_codes(frames: &[Frame]) -> Vec<u32> {
    let goaway_codes = frames.iter().filter(|frame| frame.0 == GOAWAY);
    goaway_codes.map(|frame| number(&frame.2, 4)).collect()
}
