//! An HTTP/1.1 client that sends raw bytes, one at a time if need be, and checks the framing of each response.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::DEADLINE;
use crate::response::{Ending, Framing, Head, Response};

/// A connection to the server.
pub struct Client {
    stream: TcpStream,
    /// Bytes read but not yet parsed.
    buffer: Vec<u8>,
    /// How the connection ended; `None` while it is open.
    ended: Option<Ending>,
}

impl Client {
    /// Connects to the server.
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect_timeout(&address, DEADLINE).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Client { stream, buffer: Vec::new(), ended: None }
    }

    /// Sends bytes; fails the test if the server has closed.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Client {
        self.stream
            .write_all(bytes.as_ref())
            .expect("the server accepts the bytes");
        self
    }

    /// Sends bytes to a server that may close before reading all of them; false if it has.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends a `GET` request for `path` with a Host field.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> &mut Client {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"))
    }

    /// The sending half, for a thread that sends while this one reads.
    pub fn sender(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }

    /// Closes the sending side: the server reads end-of-file.
    pub fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// The response to a GET or POST.
    #[track_caller]
    pub fn response(&mut self) -> Response {
        self.response_to("GET")
    }

    /// The response to a request with this method: a response to HEAD has no body.
    #[track_caller]
    pub fn response_to(&mut self, method: &str) -> Response {
        let head = self.head();
        let (body, ending) = self.body(head.framing(method));
        Response::new(head, body, ending)
    }

    /// The next response head, including interim ones (100). What follows it stays in the buffer.
    #[track_caller]
    pub fn head(&mut self) -> Head {
        let text = self.take_through(b"\r\n\r\n");
        let text = String::from_utf8_lossy(&text);
        Head::parse(text.trim_end_matches("\r\n\r\n"))
    }

    /// Reads until `wanted` arrives; returns it and everything before it.
    #[track_caller]
    pub fn take_through(&mut self, wanted: &[u8]) -> Vec<u8> {
        let mut from = 0;
        loop {
            let found = self.buffer[from..]
                .windows(wanted.len())
                .position(|window| window == wanted);
            if let Some(at) = found {
                return self.buffer.drain(..from + at + wanted.len()).collect();
            }
            from = self.buffer.len().saturating_sub(wanted.len() - 1);
            assert!(
                self.read_more(),
                "the connection ended ({:?}) before {:?}, after {:?}",
                self.ended,
                String::from_utf8_lossy(wanted),
                String::from_utf8_lossy(&self.buffer)
            );
        }
    }

    /// The next chunk of a chunked body; the last chunk is empty.
    #[track_caller]
    pub fn chunk(&mut self) -> Vec<u8> {
        let (chunk, ending) = self.try_chunk();
        assert_eq!(ending, Ending::Complete, "the body was truncated");
        chunk
    }

    /// A body with this framing, and how it ended.
    #[track_caller]
    pub fn body(&mut self, framing: Framing) -> (Vec<u8>, Ending) {
        match framing {
            Framing::Length(length) => {
                let ending = self.fill_buffer(length);
                let length = length.min(self.buffer.len());
                (self.buffer.drain(..length).collect(), ending)
            }
            Framing::Close => {
                while self.read_more() {}
                (
                    std::mem::take(&mut self.buffer),
                    self.ended.unwrap_or(Ending::Truncated),
                )
            }
            Framing::Chunked => {
                let mut body = Vec::new();
                loop {
                    let (chunk, ending) = self.try_chunk();
                    body.extend_from_slice(&chunk);
                    if ending == Ending::Truncated || chunk.is_empty() {
                        return (body, ending);
                    }
                }
            }
        }
    }

    #[track_caller]
    fn try_chunk(&mut self) -> (Vec<u8>, Ending) {
        while !self.buffer.windows(2).any(|window| window == b"\r\n") {
            if !self.read_more() {
                return (Vec::new(), Ending::Truncated);
            }
        }
        let line = self.take_through(b"\r\n");
        let digits = std::str::from_utf8(&line[..line.len() - 2]).unwrap_or("-");
        let Ok(length) = usize::from_str_radix(digits, 16) else {
            panic!("{digits:?} is not a chunk length")
        };
        let ending = self.fill_buffer(length + 2);
        if ending == Ending::Complete {
            assert_eq!(&self.buffer[length..length + 2], b"\r\n", "a chunk ends with CRLF");
        }
        let mut chunk: Vec<u8> = self.buffer.drain(..self.buffer.len().min(length + 2)).collect();
        chunk.truncate(length);
        (chunk, ending)
    }

    /// Asserts that the server closes the connection in an orderly way without sending another byte.
    #[track_caller]
    pub fn assert_closed(&mut self) {
        while self.read_more() {}
        assert_eq!(
            String::from_utf8_lossy(&self.buffer),
            "",
            "bytes after the last response"
        );
        assert_eq!(self.ended, Some(Ending::Complete), "the connection was reset");
    }

    /// Everything up to the end of the connection, and whether it was closed in an orderly way.
    pub fn rest(&mut self) -> (Vec<u8>, Ending) {
        self.body(Framing::Close)
    }

    /// True if no byte arrives within this time and the connection stays open. Only for what must *not* happen; keep it short.
    pub fn is_silent_for(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while self.buffer.is_empty() && self.ended.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            self.stream.set_read_timeout(Some(left)).unwrap();
            match self.stream.peek(&mut [0]) {
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                _ => return false,
            }
        }
        false
    }

    /// The client's address, as the server sees it.
    pub fn address(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    fn fill_buffer(&mut self, length: usize) -> Ending {
        while self.buffer.len() < length {
            if !self.read_more() {
                return Ending::Truncated;
            }
        }
        Ending::Complete
    }

    /// Reads what is available, or waits for it; false at the end. Fails the test if nothing arrives before the deadline.
    #[track_caller]
    fn read_more(&mut self) -> bool {
        if self.ended.is_some() {
            return false;
        }
        let begin = Instant::now();
        self.stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut bytes = [0; 64 << 10];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.ended = Some(Ending::Complete),
            Ok(length) => self.buffer.extend_from_slice(&bytes[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let so_far = String::from_utf8_lossy(&self.buffer);
                panic!("no bytes for {:?}; received so far: {so_far:?}", begin.elapsed())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.ended = Some(Ending::Truncated),
        }
        self.ended.is_none()
    }
}
