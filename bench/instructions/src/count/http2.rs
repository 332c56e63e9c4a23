//! A client of HTTP/2 (RFC 9113) that asks for the same file again and again.
//!
//! Here: a connection in cleartext with prior knowledge, and the frames of its requests. Heads of replies are not decoded, except for the status 200,
//! which is one byte (RFC 7541, appendix A). Not here: HTTP/1.1 and TLS (client.rs).

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::count::Failure;
use crate::count::client::Target;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACKNOWLEDGE: u8 = 1;
const END_HEADERS: u8 = 4;

/// `:status: 200` from the static table.
const STATUS_200: u8 = 0x88;
/// Room for bodies of all requests of a connection: the largest window, less the one that it begins with.
const WINDOW: u32 = (1 << 31) - 1 - 65_535;

/// `SETTINGS_MAX_CONCURRENT_STREAMS`.
const STREAMS_MAX: u16 = 3;

/// A connection.
pub(crate) struct Http2 {
    socket: TcpStream,
    block: Vec<u8>,
    in_flight: u32,
    /// Requests that the server accepts at once; its first frame says it.
    streams_max: u32,
    next_stream: u32,
}

impl Http2 {
    pub(crate) fn connect(mut socket: TcpStream, target: &Target) -> Result<Http2, Failure> {
        let mut start = PREFACE.to_vec();
        frame(&mut start, SETTINGS, 0, 0, &[]);
        frame(&mut start, WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes());
        socket.write_all(&start)?;
        let mut connection = Http2 {
            socket,
            block: header_block(&target.path)?,
            in_flight: target.in_flight,
            streams_max: 0,
            next_stream: 1,
        };
        while connection.streams_max == 0 {
            connection.read_reply_end()?;
        }
        Ok(connection)
    }

    /// Sends the requests that are in flight at once, and reads the replies. A server that accepts fewer gets the others when it has answered.
    pub(crate) fn exchange(&mut self) -> Result<(), Failure> {
        let (mut to_send, mut open) = (self.in_flight, 0);
        while to_send > 0 || open > 0 {
            let mut requests = Vec::new();
            while to_send > 0 && open < self.streams_max {
                frame(
                    &mut requests,
                    HEADERS,
                    END_STREAM | END_HEADERS,
                    self.next_stream,
                    &self.block,
                );
                self.next_stream += 2;
                to_send -= 1;
                open += 1;
            }
            self.socket.write_all(&requests)?;
            if self.read_reply_end()? {
                open -= 1;
            }
        }
        Ok(())
    }

    /// Reads a frame; returns whether it ends a reply.
    fn read_reply_end(&mut self) -> Result<bool, Failure> {
        let (kind, flags, payload) = self.read_frame()?;
        match kind {
            HEADERS if payload.first() != Some(&STATUS_200) => return Err("a status other than 200".into()),
            SETTINGS if flags & ACKNOWLEDGE == 0 => {
                self.streams_max = streams_max(&payload);
                let mut answer = Vec::new();
                frame(&mut answer, SETTINGS, ACKNOWLEDGE, 0, &[]);
                self.socket.write_all(&answer)?;
            }
            RESET | GO_AWAY => return Err(format!("the server refuses: frame {kind}, {payload:?}").into()),
            _ => {}
        }
        Ok(matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0)
    }

    fn read_frame(&mut self) -> Result<(u8, u8, Vec<u8>), Failure> {
        let mut head = [0; 9];
        self.socket.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length)?];
        self.socket.read_exact(&mut payload)?;
        Ok((head[3], head[4], payload))
    }
}

/// The number in the server's settings; without it there is no limit.
fn streams_max(settings: &[u8]) -> u32 {
    let mut pairs = settings.chunks_exact(6);
    let found = pairs.find(|pair| pair[..2] == STREAMS_MAX.to_be_bytes());
    found.map_or(u32::MAX, |pair| {
        u32::from_be_bytes([pair[2], pair[3], pair[4], pair[5]]).max(1)
    })
}

fn frame(into: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    // Nothing that is sent is longer than a header block, which has one byte for its path.
    let length = u8::try_from(payload.len()).unwrap_or(u8::MAX);
    into.extend_from_slice(&[0, 0, length, kind, flags]);
    into.extend_from_slice(&stream.to_be_bytes());
    into.extend_from_slice(payload);
}

/// `:method: GET`, `:scheme: http`, `:path`, `:authority`, `user-agent` and `accept`, without the table of the connection.
fn header_block(path: &str) -> Result<Vec<u8>, Failure> {
    // Names by their index in the static table, values literally.
    let mut block = vec![0x82, 0x86];
    for (name, value) in [
        (&[0x04][..], path),
        (&[0x01], "127.0.0.1"),
        (&[0x0f, 58 - 15], "instructions"),
        (&[0x0f, 19 - 15], "*/*"),
    ] {
        block.extend_from_slice(name);
        if value.len() > 100 {
            return Err("the path is too long".into());
        }
        block.push(u8::try_from(value.len())?);
        block.extend_from_slice(value.as_bytes());
    }
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::{header_block, streams_max};

    #[test]
    fn the_number_of_streams_is_found_among_other_settings() {
        assert_eq!(streams_max(&[0, 1, 0, 0, 16, 0, 0, 3, 0, 0, 0, 8]), 8);
        assert_eq!(streams_max(&[0, 1, 0, 0, 16, 0]), u32::MAX);
    }

    #[test]
    fn a_path_that_one_byte_cannot_measure_is_refused() {
        assert!(header_block(&"x".repeat(101)).is_err());
        assert!(header_block("/0k.txt").is_ok_and(|block| block.starts_with(&[0x82, 0x86, 0x04, 7])));
    }
}
