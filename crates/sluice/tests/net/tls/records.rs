//! The sizes of the records that carry a long response.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConnection, StreamOwned};

use super::setup;
use sluice_testing::{Authority, DEADLINE};

/// Plaintext bytes of a full record (sluice-net, `RECORD_BYTES`).
const FULL: usize = 16 * 1024 - 64;

/// The content type of application data (RFC 8446 §5.1).
const APPLICATION_DATA: u8 = 23;

/// A socket that keeps what was read.
struct Recorder {
    socket: TcpStream,
    read: Vec<u8>,
}

impl Read for Recorder {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.socket.read(room)?;
        self.read.extend_from_slice(&room[..count]);
        Ok(count)
    }
}

impl Write for Recorder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl Recorder {
    /// The lengths of the records of application data, with what encryption adds.
    fn record_lengths(&self) -> Vec<usize> {
        let mut rest = self.read.as_slice();
        let mut lengths = Vec::new();
        while let [content_type, _, _, high, low, after @ ..] = rest {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if *content_type == APPLICATION_DATA {
                lengths.push(length);
            }
            rest = &after[length..];
        }
        lengths
    }
}

#[test]
fn long_responses_fill_records_that_are_a_little_shorter_than_allowed() {
    let authority = Authority::new();
    let content: String = (0..200_000).map(|line| format!("{line:07}\n")).collect();
    let server = setup(&authority).file("long.txt", &content).start();
    // What encryption adds: a tag and the content type; in TLS 1.2 a tag and a number (RFC 8446 §5.2, RFC 5288 §3).
    for (version, added) in [(&TLS13, 16 + 1), (&TLS12, 16 + 8)] {
        let connection = ClientConnection::new(
            Arc::new(authority.client(&[version])),
            ServerName::try_from("localhost").unwrap(),
        );
        let socket = TcpStream::connect_timeout(&server.tls_address(), DEADLINE).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let recorder = Recorder { socket, read: Vec::new() };
        let mut stream = StreamOwned::new(connection.unwrap(), recorder);
        stream
            .write_all(b"GET /long.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(body == content, "{version:?}: {} bytes", body.len());
        let lengths = stream.sock.record_lengths();
        let full = lengths.iter().filter(|&&length| length == FULL + added).count();
        assert!(
            lengths.iter().all(|&length| length <= FULL + added),
            "{version:?}: {lengths:?}"
        );
        assert!(full >= content.len() / FULL / 2, "{version:?}: {lengths:?}");
    }
}
