//! A client that sends what it is told, byte by byte if need be, and reads responses without trusting them.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::DEADLINE;
use super::response::{Ending, Framing, Head, Response};

/// A connection to the server.
pub(crate) struct Client {
    stream: TcpStream,
    /// Read and not yet looked at.
    buffer: Vec<u8>,
    /// How reading ended, once it has.
    ended: Option<Ending>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect_timeout(&address, DEADLINE).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Client {
            stream,
            buffer: Vec::new(),
            ended: None,
        }
    }

    /// Sends bytes; fails the test if the server has closed.
    #[track_caller]
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Client {
        self.stream
            .write_all(bytes.as_ref())
            .expect("the server takes what it is sent");
        self
    }

    /// Sends bytes to a server that may close before it has them all; false if it has.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends `GET path` with Host.
    #[track_caller]
    pub(crate) fn get(&mut self, path: &str) -> &mut Client {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"))
    }

    /// The sending side, for a thread that sends while this one reads.
    pub(crate) fn sender(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }

    /// Closes the sending side: the server reads end-of-file.
    pub(crate) fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// The response to a GET or POST.
    #[track_caller]
    pub(crate) fn response(&mut self) -> Response {
        self.response_to("GET")
    }

    /// The response to a request by this method: that to HEAD has no body.
    #[track_caller]
    pub(crate) fn response_to(&mut self, method: &str) -> Response {
        let head = self.head();
        let (body, ending) = self.body(head.framing(method));
        Response::new(head, body, ending)
    }

    /// The next head, an interim one (100) too; what follows it stays.
    #[track_caller]
    pub(crate) fn head(&mut self) -> Head {
        let text = self.take_through(b"\r\n\r\n");
        let text = String::from_utf8_lossy(&text);
        Head::parse(text.trim_end_matches("\r\n\r\n"))
    }

    /// Reads on until the raw bytes read since the last call hold these; returns them and what came before.
    #[track_caller]
    pub(crate) fn take_through(&mut self, wanted: &[u8]) -> Vec<u8> {
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

    /// The next chunk of a chunked body; empty is the last one.
    #[track_caller]
    pub(crate) fn chunk(&mut self) -> Vec<u8> {
        let (chunk, ending) = self.try_chunk();
        assert_eq!(ending, Ending::Complete, "the body was cut");
        chunk
    }

    /// A body of which the head told this.
    #[track_caller]
    pub(crate) fn body(&mut self, framing: Framing) -> (Vec<u8>, Ending) {
        match framing {
            Framing::Length(length) => {
                let ending = self.read_until_holding(length);
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
            panic!("{digits:?} is no length of a chunk")
        };
        let ending = self.read_until_holding(length + 2);
        if ending == Ending::Complete {
            assert_eq!(&self.buffer[length..length + 2], b"\r\n", "a chunk ends with CRLF");
        }
        let mut chunk: Vec<u8> = self.buffer.drain(..self.buffer.len().min(length + 2)).collect();
        chunk.truncate(length);
        (chunk, ending)
    }

    /// The server closes in good order without another byte.
    #[track_caller]
    pub(crate) fn assert_closed(&mut self) {
        while self.read_more() {}
        assert_eq!(
            String::from_utf8_lossy(&self.buffer),
            "",
            "bytes after the last response"
        );
        assert_eq!(self.ended, Some(Ending::Complete), "the connection was reset");
    }

    /// Everything up to the end, and whether that was an orderly one.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, Ending) {
        self.body(Framing::Close)
    }

    /// No byte comes within this time, and the connection stays open. For what must *not* happen; keep it short.
    pub(crate) fn is_silent_for(&mut self, time: Duration) -> bool {
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

    /// This side's address, as the server sees it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    fn read_until_holding(&mut self, length: usize) -> Ending {
        while self.buffer.len() < length {
            if !self.read_more() {
                return Ending::Truncated;
            }
        }
        Ending::Complete
    }

    /// Reads what is there, or waits for it; false at the end. Silence past the deadline fails the test.
    #[track_caller]
    fn read_more(&mut self) -> bool {
        if self.ended.is_some() {
            return false;
        }
        let begin = Instant::now();
        self.stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut piece = [0; 64 << 10];
        match self.stream.read(&mut piece) {
            Ok(0) => self.ended = Some(Ending::Complete),
            Ok(length) => self.buffer.extend_from_slice(&piece[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let so_far = String::from_utf8_lossy(&self.buffer);
                panic!("nothing came for {:?}; what had come is {so_far:?}", begin.elapsed())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.ended = Some(Ending::Truncated),
        }
        self.ended.is_none()
    }
}
