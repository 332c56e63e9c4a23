//! The byte stream of a connection, which measures how long it waits for the client to take what it is sent.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use sluice_http::tasks::yield_now;
use sluice_membuf::SealedMemfd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::Connection;
use crate::fairness::ByteTurn;
use crate::half_close::{HalfClose, Step};
use crate::send_allowance::ClientWait;
use crate::transport::Transport;
use crate::watched_bytes::WatchedBytes;

/// How long the client may take to make room for `close_notify`.
const CLOSE_NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);

/// The first bytes of every response of HTTP/1 (RFC 9112 §4).
pub(crate) const STATUS_LINE: &[u8] = b"HTTP/1.";

/// The interim response to `Expect: 100-continue`, as hyper writes it.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Bytes that are read or written at once at most while WATCH scans them.
const WATCHED_BYTES_MAX: usize = 32 << 10;

/// Copying fewer bytes than this is faster than a system call of their own.
const SEND_FILE_BYTES_MIN: usize = 8 << 10;

/// The handle that hyper has; `HttpConnection` has the other one.
pub(crate) struct SharedStream {
    pub stream: Rc<RefCell<ClientStream>>,
    /// Whether `poll_shutdown` ends the server's side, as a tunnel needs it. Otherwise `ClientStream::close` does: it may reset it.
    pub ends_sending: bool,
}

pub(crate) struct ClientStream {
    pub(crate) transport: Transport,
    connection: Rc<Connection>,
    /// The time since which a write waits for the client to make room.
    waiting_since: Option<Instant>,
    /// How long earlier writes have waited since the last call of `client_wait`.
    waited: Duration,
    /// Bytes that the client had taken at that call; wraps around.
    taken: u32,
    /// Bytes that were read and not used: they are read again before those of the transport.
    unread: Bytes,
    /// The parser of HTTP/1 has read nothing yet.
    is_parser_new: bool,
    turn: ByteTurn,
    /// The number of the connection's exchanges when bytes were last written.
    written_in: u32,
    /// Bytes of `STATUS_LINE` that were sent as probes, before hyper writes them.
    status_line_sent: usize,
    /// The last byte sent is a leading zero of the size of a chunk that has not been written.
    ends_with_zero: bool,
    /// Whether nothing was sent since the last complete flush.
    is_flushed: bool,
    pub(crate) client: ClientSide,
    /// The state of watching the bytes; made with the first bytes that are watched.
    pub(crate) watched_bytes: Option<Box<WatchedBytes>>,
}

/// The state of the client, as reading and writing have shown it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientSide {
    Open,
    /// The client sends no more.
    Closed,
    Reset,
}

impl ClientStream {
    pub(crate) fn new(transport: Transport, connection: Rc<Connection>) -> ClientStream {
        ClientStream {
            transport,
            connection,
            waiting_since: None,
            waited: Duration::ZERO,
            taken: 0,
            unread: Bytes::new(),
            is_parser_new: false,
            turn: ByteTurn::http1(),
            written_in: 0,
            status_line_sent: 0,
            ends_with_zero: false,
            is_flushed: true,
            client: ClientSide::Open,
            watched_bytes: None,
        }
    }

    /// Prepares for a new parser of HTTP/1, which has read nothing.
    pub(crate) fn begin_http1(&mut self) {
        self.is_parser_new = true;
    }

    pub(crate) fn begin_http2(&mut self) {
        self.turn = ByteTurn::http2();
    }

    /// The connection's task is polled again: it may read and write more.
    pub(crate) fn begin_turn(&mut self) {
        self.turn.begin();
    }

    /// Checks whether the client of an exchange has left, and sends it a byte if that is needed to find out.
    pub(crate) fn check_client(&mut self, half_close: &mut HalfClose, timeout: Duration, now: Instant) -> Step {
        let socket = self.transport.socket();
        let step = half_close.check(socket.client_end(), socket.sent(), self.can_probe(), timeout, now);
        if step == Step::Probe {
            self.send_probe();
        }
        step
    }

    /// Whether a byte can be sent to find out whether the client is there.
    fn can_probe(&self) -> bool {
        let has_bytes = match self.has_begun_response() {
            false => self.status_line_sent < STATUS_LINE.len(),
            true => self.connection.exchanges.is_chunked.get(),
        };
        // The close of a unix socket is seen at once.
        has_bytes && !self.is_sending() && !self.connection.peer.endpoints().is_unix
    }

    /// Whether bytes of the final response were written since the exchange began. hyper keeps none in its buffers unless the socket takes none.
    fn has_begun_response(&self) -> bool {
        self.written_in == self.connection.exchanges.begun.get()
    }

    /// Sends the next byte of `STATUS_LINE`, or a leading zero of the next chunk's size. There is room: nothing else waits.
    fn send_probe(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let is_within_body = self.has_begun_response();
        let byte = match is_within_body {
            true => b"0",
            false => &STATUS_LINE[self.status_line_sent..=self.status_line_sent],
        };
        let written = self.transport.poll_write_vectored(&mut context, &[IoSlice::new(byte)]);
        if let Poll::Ready(Ok(1..)) = written {
            self.count_sent(&[IoSlice::new(byte)], 1);
            self.ends_with_zero = is_within_body;
            self.status_line_sent += usize::from(!is_within_body);
        }
        let _ = self.transport.poll_flush(&mut context);
    }

    /// Whether bytes wait for the client to take them.
    pub(crate) fn is_sending(&self) -> bool {
        self.waiting_since.is_some()
    }

    /// How long writes have waited for the client since the last call, and the bytes that it has taken meanwhile. `None` if no write has waited.
    ///
    /// Bytes count once they are acknowledged: the kernel reports room in large steps, too rare for a slow client.
    pub(crate) fn client_wait(&mut self, now: Instant) -> Option<ClientWait> {
        let mut waited = std::mem::take(&mut self.waited);
        if let Some(since) = self.waiting_since.as_mut() {
            waited += now.saturating_duration_since(*since);
            *since = now.max(*since);
        }
        if waited.is_zero() {
            return None;
        }
        let socket = self.transport.socket();
        let taken = socket.sent().wrapping_sub(socket.unacknowledged());
        let newly = taken.wrapping_sub(self.taken).cast_signed();
        self.taken = taken;
        Some(ClientWait {
            waited,
            // A unix socket's queue is counted with overhead, so a larger queue can look like fewer bytes taken.
            taken: u32::try_from(newly).unwrap_or(0),
        })
    }

    /// Puts back bytes that were read last, to be read again.
    pub(crate) fn unread(&mut self, bytes: Bytes) {
        // Empty `Bytes` would keep the buffer alive in which they lie.
        if !bytes.is_empty() {
            self.unread = bytes;
        }
    }

    /// Ready when there are bytes to read, or the client has closed.
    pub(crate) fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.unread.is_empty() {
            return Poll::Ready(());
        }
        self.transport.socket_mut().poll_readable(context)
    }

    /// Sends a whole response after hyper has given up.
    pub(crate) async fn send(&mut self, mut response: &[u8]) -> io::Result<()> {
        while !response.is_empty() {
            let sent = poll_fn(|context| self.poll_write_chunks(context, &[IoSlice::new(response)])).await?;
            response = &response[sent..];
        }
        poll_fn(|context| self.poll_flushed(context)).await
    }

    /// Closes the connection. Unless it is aborted, the bytes sent arrive even if the client was still sending.
    pub(crate) async fn close(mut self) {
        // After a zero without its chunk, an orderly close could look like the end of the body.
        if self.connection.is_aborted.get() || self.ends_with_zero {
            let _ = self.transport.socket().reset_at_close();
            return;
        }
        if self.connection.makes_room() {
            // Another connection waits for the slot. There is room for a few bytes, because nothing was under way.
            let _ = self
                .transport
                .poll_close_notify(&mut Context::from_waker(Waker::noop()));
            return;
        }
        let close_notify = poll_fn(|context| self.transport.poll_close_notify(context));
        if tokio::time::timeout(CLOSE_NOTIFY_TIMEOUT, close_notify).await.is_err() {
            return;
        }
        let socket = self.transport.socket();
        if self.connection.exchanges.expects_no_more.get() && !socket.has_unread() {
            return;
        }
        self.transport.socket_mut().linger().await;
    }

    /// Encrypts the chunks as records, which the next write or flush sends. The caller limits their number.
    pub(crate) fn encrypt_chunks(&mut self, chunks: &[IoSlice<'_>]) -> io::Result<()> {
        self.transport.encrypt_chunks(chunks)?;
        self.count_sent(chunks, chunks.iter().map(|chunk| chunk.len()).sum());
        Ok(())
    }

    /// Notes that so many bytes of the chunks were sent, or will be by the next flush.
    fn count_sent(&mut self, chunks: &[IoSlice<'_>], count: usize) {
        let was_flushed = std::mem::take(&mut self.is_flushed);
        if self.connection.watched.is_watched() {
            self.watched_bytes
                .get_or_insert_default()
                .note_sent(&self.connection, chunks, count, was_flushed);
        }
    }

    #[cold]
    fn note_read(&mut self, read: &Poll<io::Result<()>>, bytes: &[u8]) {
        let is_first = self.connection.exchanges.received.get().bytes == 0;
        self.watched_bytes.get_or_insert_default().note_read(
            &self.connection,
            read,
            bytes,
            is_first || self.is_parser_new,
        );
    }

    fn poll_watch_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.watched_bytes {
            Some(watched_bytes) if self.connection.watched.is_watched() => {
                watched_bytes.poll_pause(&self.connection, context)
            }
            _ => Poll::Ready(()),
        }
    }

    /// Reads as `poll_read_next` does, but no more than is left of the turn. Then other connections have theirs.
    fn poll_read_in_turn(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let buffer_room = match self.connection.watched.is_watched() {
            true => buffer.remaining().min(WATCHED_BYTES_MAX),
            false => buffer.remaining(),
        };
        match self.turn.room(buffer_room) {
            0 => {
                yield_now(context);
                Poll::Pending
            }
            room if room < buffer.remaining() => {
                let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
                let read = self.poll_read_next(context, &mut part);
                let bytes = part.filled().len();
                buffer.advance(bytes);
                read
            }
            _ => self.poll_read_next(context, buffer),
        }
    }

    fn poll_read_next(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            ready!(self.poll_watch_pause(context));
            let before = buffer.filled().len();
            let read = self.transport.poll_read(context, buffer);
            if self.connection.watched.is_watched() {
                self.note_read(&read, &buffer.filled()[before..]);
            }
            return read;
        }
        let bytes = self.unread.len().min(buffer.remaining());
        buffer.put_slice(&self.unread.split_to(bytes));
        if self.unread.is_empty() {
            self.unread = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }

    /// Writes as `poll_write_chunks` does, unless the turn is over. Then other connections have theirs.
    fn poll_write_in_turn(&mut self, context: &mut Context<'_>, chunks: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if !self.turn.may_write() {
            yield_now(context);
            return Poll::Pending;
        }
        let written = self.poll_write_chunks(context, chunks);
        if let Poll::Ready(Ok(bytes)) = written {
            self.turn.count_written(bytes);
        }
        written
    }

    /// Writes as much of the chunks as fits; in clear text those in sealed memory without a copy.
    fn poll_write_chunks(&mut self, context: &mut Context<'_>, chunks: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.status_line_sent > 0 {
            return self.poll_write_status_line(context, chunks);
        }
        ready!(self.poll_watch_pause(context));
        if self.connection.watched.is_watched()
            && let Some(first) = first_bytes(chunks, WATCHED_BYTES_MAX)
        {
            return self.poll_write_counted(context, &first);
        }
        self.poll_write_counted(context, chunks)
    }

    /// Writes as much of the chunks as fits, and counts it.
    fn poll_write_counted(&mut self, context: &mut Context<'_>, chunks: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let connection = Rc::clone(&self.connection);
        if !is_interim(chunks) {
            self.written_in = connection.exchanges.begun.get();
        }
        self.ends_with_zero = false;
        let written = connection.with_sealed(|sealed| self.poll_write_some(context, chunks, sealed));
        match &written {
            Poll::Ready(Ok(count)) => self.count_sent(chunks, *count),
            Poll::Ready(Err(error)) => self.note_error(error),
            Poll::Pending => {}
        }
        written
    }

    fn note_error(&mut self, error: &io::Error) {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        self.client = match error.kind() {
            BrokenPipe | ConnectionAborted | ConnectionReset => ClientSide::Reset,
            // TLS without close_notify.
            UnexpectedEof => ClientSide::Closed,
            _ => self.client,
        };
    }

    /// Writes a status line without the bytes of it that were sent before.
    fn poll_write_status_line(&mut self, context: &mut Context<'_>, chunks: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let sent = std::mem::take(&mut self.status_line_sent);
        let Some((first, others)) = chunks.split_first() else {
            return Poll::Ready(Ok(0));
        };
        let Some(rest) = first.strip_prefix(&STATUS_LINE[..sent]) else {
            return Poll::Ready(Err(io::Error::other(
                "a response that does not begin with a status line",
            )));
        };
        let rest: Vec<_> = [IoSlice::new(rest)].into_iter().chain(others.iter().copied()).collect();
        let written = self.poll_write_chunks(context, &rest);
        if written.is_pending() {
            self.status_line_sent = sent;
        }
        written.map_ok(|bytes| bytes + sent)
    }

    fn poll_write_some(
        &mut self,
        context: &mut Context<'_>,
        chunks: &[IoSlice<'_>],
        sealed: Option<&Arc<SealedMemfd>>,
    ) -> Poll<io::Result<usize>> {
        if let (Some(sealed), Transport::Clear(socket)) = (sealed, &self.transport)
            && socket.sends_files()
            && let Some(SplitAtSealed { before, part }) = split_at_sealed(chunks, sealed)
        {
            return self.poll_measured(context, |transport, context| match before {
                [] => transport.socket_mut().poll_send_file(context, sealed.as_fd(), part),
                // The bytes before it wait for it and leave in the same packet (MSG_MORE).
                _ => transport.socket_mut().poll_write_more(context, before),
            });
        }
        self.poll_measured(context, |transport, context| {
            transport.poll_write_vectored(context, chunks)
        })
    }

    fn poll_flushed(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_measured(context, Transport::poll_flush)
    }

    /// Calls `write`, and measures how long it waits for the client.
    fn poll_measured<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(&mut Transport, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let written = write(&mut self.transport, context);
        if written.is_pending() {
            self.waiting_since.get_or_insert_with(Instant::now);
        } else if let Some(since) = self.waiting_since.take() {
            self.waited += since.elapsed();
        }
        written
    }
}

impl AsyncRead for SharedStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut stream = self.stream.borrow_mut();
        let before = buffer.filled().len();
        let read = stream.poll_read_in_turn(context, buffer);
        let bytes = buffer.filled().len() - before;
        stream.turn.count_read(bytes);
        stream.is_parser_new &= bytes == 0;
        match &read {
            Poll::Ready(Ok(())) if bytes == 0 => stream.client = ClientSide::Closed,
            Poll::Ready(Err(error)) => stream.note_error(error),
            _ => {}
        }
        stream.connection.count_read(bytes);
        read
    }
}

/// The first so many bytes of the chunks. `None` if they have no more.
fn first_bytes<'a>(chunks: &'a [IoSlice<'_>], bytes_max: usize) -> Option<Vec<IoSlice<'a>>> {
    let bytes: usize = chunks.iter().map(|chunk| chunk.len()).sum();
    let mut left = bytes_max;
    let first = chunks.iter().map(|chunk| {
        let taken = left.min(chunk.len());
        left -= taken;
        IoSlice::new(&chunk[..taken])
    });
    (bytes > bytes_max).then(|| first.collect())
}

/// Whether the bytes end with the interim response that hyper writes, and probes may have sent its beginning.
fn is_interim(chunks: &[IoSlice<'_>]) -> bool {
    matches!(chunks, [chunk] if !chunk.is_empty() && CONTINUE.ends_with(chunk))
}

/// A chunk that can be sent without a copy.
struct SplitAtSealed<'a, 'b> {
    /// The chunks before it.
    before: &'a [IoSlice<'b>],
    /// Where it lies in the sealed memory.
    part: Range<u64>,
}

/// Finds the first chunk that lies in sealed memory and is large enough for a system call of its own.
fn split_at_sealed<'a, 'b>(chunks: &'a [IoSlice<'b>], sealed: &SealedMemfd) -> Option<SplitAtSealed<'a, 'b>> {
    chunks.iter().enumerate().find_map(|(index, chunk)| {
        let offset = sealed.offset_of(chunk).filter(|_| chunk.len() >= SEND_FILE_BYTES_MIN)?;
        Some(SplitAtSealed {
            before: &chunks[..index],
            part: offset..offset + chunk.len() as u64,
        })
    })
}

impl AsyncWrite for SharedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream
            .borrow_mut()
            .poll_write_in_turn(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        chunks: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream.borrow_mut().poll_write_in_turn(context, chunks)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// hyper flushes when it has written everything.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut stream = self.stream.borrow_mut();
        ready!(stream.poll_flushed(context))?;
        stream.is_flushed = true;
        stream.connection.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.ends_sending {
            return Poll::Ready(Ok(()));
        }
        ready!(self.as_mut().poll_flush(context))?;
        let mut stream = self.stream.borrow_mut();
        ready!(stream.transport.poll_close_notify(context))?;
        Poll::Ready(stream.transport.socket().end_writing())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpStream;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::socket::Socket;

    /// A stream to a client on the same machine, and that client.
    fn pair() -> (ClientStream, UnixStream) {
        let (server, client) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let socket = Socket::new(TcpStream::from(OwnedFd::from(server)));
        (ClientStream::new(Transport::Clear(socket), Connection::alone()), client)
    }

    #[test]
    fn a_client_that_takes_all_at_once_gets_so_much_in_a_turn() {
        let (mut stream, mut client) = pair();
        let mut context = Context::from_waker(Waker::noop());
        let bytes = [0; 64 << 10];
        for _ in 0..2 {
            stream.begin_turn();
            let mut written = 0;
            while let Poll::Ready(count) = stream.poll_write_in_turn(&mut context, &[IoSlice::new(&bytes)]) {
                let count = count.unwrap();
                written += count;
                client.read_exact(&mut vec![0; count]).unwrap();
                assert!(written <= 2 << 20, "the turn has no end");
            }
            assert!(written >= 1 << 20, "{written}");
        }
    }

    #[test]
    fn the_first_bytes_of_chunks_are_those_of_the_chunks() {
        let chunks = [
            IoSlice::new(b"abc"),
            IoSlice::new(b""),
            IoSlice::new(b"defg"),
            IoSlice::new(b"h"),
        ];
        for bytes_max in 0..8 {
            let first = first_bytes(&chunks, bytes_max).unwrap();
            let joined: Vec<u8> = first.iter().flat_map(|chunk| chunk.iter().copied()).collect();
            assert_eq!(joined, b"abcdefgh"[..bytes_max]);
        }
        assert!(first_bytes(&chunks, 8).is_none());
    }
}
