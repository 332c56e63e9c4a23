//! The bytes of a connection: a socket that does not wait for ever for a client to take what it is sent.
//!
//! Here: the time limit of writing, what the connection must know of its bytes (`connection`), and how it is closed. Not
//! here: the protocol.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use sluice_membuf::SealedMemfd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::connection::Connection;
use crate::transport::Transport;

/// How long the client may take to make room for the last message of TLS.
const FAREWELL: Duration = Duration::from_secs(1);

/// Less than this is copied sooner than it is sent by a system call of its own.
const SEND_FILE_BYTES_MIN: usize = 8 << 10;

/// A client's socket as hyper has it; `protocol` has the other handle.
pub(crate) struct Shared(pub Rc<RefCell<ClientStream>>);

/// A client's socket.
pub(crate) struct ClientStream {
    transport: Transport,
    connection: Rc<Connection>,
    send_timeout: Duration,
    /// Armed while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Bytes of the client that were read and not used: they come before those of the transport.
    given_back: Bytes,
}

impl ClientStream {
    pub(crate) fn new(transport: Transport, connection: Rc<Connection>, send_timeout: Duration) -> ClientStream {
        ClientStream {
            transport,
            connection,
            send_timeout,
            stalled: None,
            given_back: Bytes::new(),
        }
    }

    /// The client has closed its side, whether or not all that it sent before has been read.
    pub(crate) fn has_left(&self) -> bool {
        self.transport.socket().has_left()
    }

    /// Bytes wait for the client to take them.
    pub(crate) fn is_sending(&self) -> bool {
        self.stalled.is_some()
    }

    /// Bytes that the kernel has taken to send, less those that have come, in a number that wraps around.
    pub(crate) fn balance(&self) -> u32 {
        let socket = self.transport.socket();
        socket.sent().wrapping_sub(socket.received())
    }

    /// Takes back what was read last and is to be read again.
    pub(crate) fn give_back(&mut self, bytes: Bytes) {
        // Empty bytes would keep the buffer that they lie in.
        if !bytes.is_empty() {
            self.given_back = bytes;
        }
    }

    /// Ready when there is something to read, or the client has closed.
    pub(crate) fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.given_back.is_empty() {
            return Poll::Ready(());
        }
        self.transport.socket_mut().poll_readable(context)
    }

    /// Sends a whole response to a client that hyper has given up.
    pub(crate) async fn send(&mut self, mut response: &[u8]) -> io::Result<()> {
        while !response.is_empty() {
            let sent = poll_fn(|context| self.poll_write_pieces(context, &[IoSlice::new(response)])).await?;
            response = &response[sent..];
        }
        poll_fn(|context| self.poll_flushed(context)).await
    }

    /// Closes in good order: what was sent arrives even if the client was still sending.
    pub(crate) async fn close(mut self) {
        if self.connection.is_cut() {
            let _ = self.transport.socket().reset_at_close();
            return;
        }
        let farewell = poll_fn(|context| self.transport.poll_farewell(context));
        if tokio::time::timeout(FAREWELL, farewell).await.is_err() {
            return;
        }
        let socket = self.transport.socket();
        if self.connection.expects_no_more() && !socket.has_unread() {
            return;
        }
        self.transport.socket_mut().linger().await;
    }

    /// Prepares for `encrypt_pieces`; false in clear text, where there is none.
    pub(crate) fn gathers_records(&mut self) -> bool {
        self.transport.gathers_records()
    }

    /// Encrypts the chunks, as records that are sent by the next write or flush: the caller bounds their number.
    pub(crate) fn encrypt_pieces(&mut self, chunks: &[IoSlice<'_>]) -> io::Result<()> {
        self.transport.encrypt_pieces(chunks)
    }

    fn poll_read_next(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.given_back.is_empty() {
            return self.transport.poll_read(context, buffer);
        }
        let bytes = self.given_back.len().min(buffer.remaining());
        buffer.put_slice(&self.given_back.split_to(bytes));
        if self.given_back.is_empty() {
            self.given_back = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }

    /// Writes what it can of the chunks; in clear text those in sealed memory without a copy.
    fn poll_write_pieces(&mut self, context: &mut Context<'_>, chunks: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let connection = Rc::clone(&self.connection);
        connection.with_sealed(|sealed| self.poll_write_some(context, chunks, sealed))
    }

    fn poll_write_some(
        &mut self,
        context: &mut Context<'_>,
        chunks: &[IoSlice<'_>],
        sealed: Option<&Arc<SealedMemfd>>,
    ) -> Poll<io::Result<usize>> {
        if let (Some(sealed), Transport::Clear(_)) = (sealed, &self.transport)
            && let Some((before, part)) = split_at_sealed(chunks, sealed)
        {
            return self.poll_in_time(context, |transport, context| match before {
                [] => transport.socket_mut().poll_send_file(context, sealed.as_fd(), part),
                // What is before it waits for it, and leaves with it (MSG_MORE).
                _ => transport.socket_mut().poll_write_more(context, before),
            });
        }
        self.poll_in_time(context, |transport, context| {
            transport.poll_write_vectored(context, chunks)
        })
    }

    fn poll_flushed(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_in_time(context, Transport::poll_flush)
    }

    /// Writes, unless the client has taken nothing for too long.
    fn poll_in_time<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(&mut Transport, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let before = self.transport.socket().sent();
        let written = write(&mut self.transport, context);
        // What goes into the buffers of TLS has not gone to the client, and of what waits there a part may have.
        let sent = self.transport.socket().sent().wrapping_sub(before);
        if written.is_ready() || sent > 0 {
            self.stalled = None;
        }
        if written.is_ready() {
            return written;
        }
        let timeout = self.send_timeout;
        let timer = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + timeout)));
        timer.as_mut().poll(context).map(|()| {
            self.connection.cut();
            let text = format!("the client took no byte for {timeout:?}");
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }
}

impl AsyncRead for Shared {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut stream = self.0.borrow_mut();
        let before = buffer.filled().len();
        let read = stream.poll_read_next(context, buffer);
        stream.connection.count_read(buffer.filled().len() - before);
        read
    }
}

/// The chunks before the first one that lies in sealed memory and is worth a system call of its own, and where it lies there.
fn split_at_sealed<'a, 'b>(chunks: &'a [IoSlice<'b>], sealed: &SealedMemfd) -> Option<(&'a [IoSlice<'b>], Range<u64>)> {
    chunks.iter().enumerate().find_map(|(index, chunk)| {
        let offset = sealed.offset_of(chunk).filter(|_| chunk.len() >= SEND_FILE_BYTES_MIN)?;
        Some((&chunks[..index], offset..offset + chunk.len() as u64))
    })
}

impl AsyncWrite for Shared {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write_pieces(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        chunks: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write_pieces(context, chunks)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// hyper says so when it has handed over all that there was.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut stream = self.0.borrow_mut();
        ready!(stream.poll_flushed(context))?;
        stream.connection.flushed();
        Poll::Ready(Ok(()))
    }

    /// hyper must not close: `close` does, with what it knows.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
