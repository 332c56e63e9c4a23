//! Requests that are answered without their bodies: the client may send the rest, within bounds, before its stream is reset.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::cut_uploads::post;
use super::frames::{DATA, END_STREAM, HEADERS, RST_STREAM, connect, frame, frames, get, number};
use sluice_testing::{Server, Setup, request, run, top, wait_until};

/// WINDOW_UPDATE (RFC 9113 §6.9).
const WINDOW_UPDATE: u8 = 8;

/// Bytes that a client may send of one body before they are read, if it has not acknowledged the server's SETTINGS (§6.9.2).
const STREAM_WINDOW: usize = 65_535;

/// Bytes of a body that the server discards.
const DISCARDED: usize = 1 << 20;

/// A client that keeps the frames that it has received.
struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    /// Sends the head of a request with a body on stream 1.
    fn post(server: &Server, path: &str, length: Option<usize>) -> Client {
        let mut stream = connect(server);
        let length = length.map(|length| length.to_string());
        stream.write_all(&post(1, path, length.as_deref())).unwrap();
        Client { stream, received: Vec::new() }
    }

    /// Whether a frame of this type has arrived on a stream.
    fn has(&self, kind: u8, stream: u32) -> bool {
        let frames = frames(&self.received);
        frames.iter().any(|frame| (frame.0, frame.1) == (kind, stream))
    }

    fn read(&mut self) {
        let mut bytes = [0; 4096];
        let count = self.stream.read(&mut bytes).unwrap();
        assert_ne!(count, 0, "the server has closed");
        self.received.extend_from_slice(&bytes[..count]);
    }

    fn wait_for(&mut self, kind: u8, stream: u32) {
        while !self.has(kind, stream) {
            self.read();
        }
    }

    /// Sends a body on stream 1 as far as its window allows, until it is complete or the stream is reset. Returns the bytes sent.
    fn upload(&mut self, length: usize) -> usize {
        let mut sent = 0;
        while !self.has(RST_STREAM, 1) {
            let seen = frames(&self.received);
            let updates = seen.iter().filter(|frame| (frame.0, frame.1) == (WINDOW_UPDATE, 1));
            let window = STREAM_WINDOW + updates.map(|frame| number(&frame.2, 0) as usize).sum::<usize>();
            while sent < length.min(window) {
                let part = (16 << 10).min(length.min(window) - sent);
                sent += part;
                let flags = if sent == length { END_STREAM } else { 0 };
                self.stream
                    .write_all(&frame(DATA, flags, 1, &vec![b'x'; part]))
                    .unwrap();
            }
            if sent == length {
                break;
            }
            self.read();
        }
        sent
    }

    /// Checks that the stream is reset before its body of this length is complete: the server discards so much of one that belongs to a complete response.
    fn assert_reset_before_its_end(&mut self, length: usize) {
        let sent = self.upload(length);
        self.wait_for(RST_STREAM, 1);
        assert!(sent < length, "{sent}");
    }

    /// Checks that another request of the connection is answered.
    fn ask_for_file(&mut self) {
        self.stream.write_all(&get(3, "/a.txt")).unwrap();
        self.wait_for(DATA, 3);
    }
}

fn setup() -> Setup {
    Setup::new()
        .file("a.txt", "a")
        .limits("body_size = \"600k\"")
        .script("unread", "printf 'Content-Type: text/plain\\n\\nall'")
        .script_route("/stream/*", "directory = \"htdocs/cgi-bin\", request_body = \"stream\"")
        .listeners("[[listen]]\naddress = \"127.0.0.1:0\"\nhttp2 = \"on\"")
}

#[test]
fn a_body_that_nobody_reads_may_be_sent_to_its_end_after_the_response() {
    let server = setup().start();
    // Refused for the path, for the announced length, and not refused at all.
    for (path, length) in [
        ("/missing", 500_000),
        ("/missing", 700_000),
        ("/cgi-bin/unread", 500_000),
    ] {
        let mut client = Client::post(&server, path, Some(length));
        client.wait_for(HEADERS, 1);
        let sent = client.upload(length);
        client.ask_for_file();
        assert_eq!((sent, client.has(RST_STREAM, 1)), (length, false), "{path}, {length}");
    }
}

#[test]
fn a_body_that_nobody_reads_is_bounded_also_after_its_limit() {
    let server = setup().start();
    // Refused at its head, and where it passes `body_size`.
    for (path, passed) in [("/missing", 0), ("/stream/unread", 0), ("/cgi-bin/unread", 600 << 10)] {
        let mut client = Client::post(&server, path, None);
        let sent = client.upload(usize::MAX);
        // Of a streamed body some is on its way to the script.
        let bounds = passed + DISCARDED..=passed + DISCARDED + 6 * STREAM_WINDOW;
        assert!(bounds.contains(&sent), "{path}: {sent}");
        let seen = frames(&client.received);
        let reset = seen.iter().find(|frame| (frame.0, frame.1) == (RST_STREAM, 1));
        assert_eq!(reset.map(|frame| number(&frame.2, 0)), Some(0), "{path}: NO_ERROR");
        client.ask_for_file();
    }
}

#[test]
fn a_stream_that_is_ended_is_reset_although_its_body_was_not_read() {
    let script = "printf 'Content-Type: text/plain\\n\\nbegun\\n'; exec sleep 1000";
    let server = setup().script("endless", script).start();
    let mut client = Client::post(&server, "/stream/endless", Some(500_000));
    client.wait_for(DATA, 1);
    assert!(wait_until(|| request(&top(&server), "/stream/endless").is_some()));
    let shown = top(&server);
    let id = request(&shown, "/stream/endless").unwrap()["id"].as_str().unwrap();
    let ran = run(server.setup().directory(), &["end", id]);
    assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
    client.assert_reset_before_its_end(500_000);
}

#[test]
fn a_stream_whose_client_takes_too_little_is_reset_although_its_body_was_not_read() {
    let script = "printf 'Content-Type: text/plain\\n\\n'; exec yes";
    let server = setup()
        .limits("send_timeout = \"300ms\"")
        .script("endless", script)
        .start();
    let mut client = Client::post(&server, "/stream/endless", Some(500_000));
    client.wait_for(DATA, 1);
    server.log_line("the client took less than send_timeout and send_rate allow");
    client.assert_reset_before_its_end(500_000);
}
