//! Frames of HTTP/2, gathered: what the library writes and flushes one by one leaves in as few writes as may be.
//!
//! Here: the bytes between the library and the socket. A frame of 16 KiB by itself would be a system call, and over TLS two
//! records, the second of nine bytes. In clear text frames are copied together; over TLS they are encrypted as they come,
//! which copies them anyway, and only what does not fill a record waits. Not here: when a turn is over, and with it the
//! gathering (`http2`).

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::{ClientStream, Shared};

/// With so many bytes gathered they are sent though the turn is not over.
const FULL_BYTES: usize = 128 << 10;

/// Room that is taken at once when more than this is gathered; below it grows as it must.
const SMALL_BYTES: usize = 8 << 10;

/// Plaintext of the largest record of TLS (RFC 8446 §5.1).
const RECORD_BYTES: usize = 16 << 10;

/// The bytes that wait for the end of a turn, and the socket that they are for.
pub(crate) struct WriteCoalescer {
    stream: Shared,
    is_secure: bool,
    waiting: Vec<u8>,
    /// So many of them have been sent.
    sent: usize,
    /// Bytes that have been encrypted since all was sent.
    encrypted: usize,
}

/// A client's socket as the library has it.
pub(crate) struct CoalescedStream(pub Rc<RefCell<WriteCoalescer>>);

impl WriteCoalescer {
    pub(crate) fn new(stream: Rc<RefCell<ClientStream>>) -> WriteCoalescer {
        let is_secure = stream.borrow_mut().gathers_records();
        WriteCoalescer {
            stream: Shared(stream),
            is_secure,
            waiting: Vec::new(),
            sent: 0,
            encrypted: 0,
        }
    }

    /// Sends all that waits. An error is the client's, or the network's.
    pub(crate) fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut stream = Pin::new(&mut self.stream);
        while self.sent < self.waiting.len() {
            match ready!(stream.as_mut().poll_write(context, &self.waiting[self.sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                bytes => self.sent += bytes,
            }
        }
        self.sent = 0;
        self.waiting.clear();
        ready!(stream.poll_flush(context))?;
        self.encrypted = 0;
        Poll::Ready(Ok(()))
    }

    /// Nothing is under way: gives back the room.
    pub(crate) fn rest(&mut self) {
        if self.waiting.is_empty() {
            self.waiting = Vec::new();
        }
    }

    fn copy(&mut self, chunks: &[IoSlice<'_>], bytes: usize) {
        if bytes > SMALL_BYTES {
            let room = FULL_BYTES.saturating_sub(self.waiting.len());
            self.waiting.reserve_exact(room.max(bytes));
        }
        chunks.iter().for_each(|chunk| self.waiting.extend_from_slice(chunk));
    }

    /// Encrypts as many whole records as what waits and these chunks make; the rest waits.
    fn encrypt(&mut self, chunks: &[IoSlice<'_>], bytes: usize) -> io::Result<()> {
        let whole = (self.waiting.len() + bytes) / RECORD_BYTES * RECORD_BYTES;
        if whole < RECORD_BYTES {
            chunks.iter().for_each(|chunk| self.waiting.extend_from_slice(chunk));
            return Ok(());
        }
        // What waits is less than a record, so all of it goes.
        let mut left = whole - self.waiting.len();
        let mut rest = Vec::new();
        let mut gathered = Vec::with_capacity(1 + chunks.len());
        gathered.push(IoSlice::new(&self.waiting));
        for chunk in chunks {
            let (now, later) = chunk.split_at(left.min(chunk.len()));
            left -= now.len();
            gathered.push(IoSlice::new(now));
            rest.extend_from_slice(later);
        }
        self.stream.0.borrow_mut().encrypt_pieces(&gathered)?;
        self.waiting = rest;
        self.encrypted += whole;
        Ok(())
    }
}

impl AsyncRead for CoalescedStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.borrow_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for CoalescedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        chunks: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut gather = self.0.borrow_mut();
        let bytes = chunks.iter().map(|chunk| chunk.len()).sum();
        if gather.waiting.len() + gather.encrypted >= FULL_BYTES {
            ready!(gather.poll_drain(context))?;
        }
        if gather.is_secure {
            gather.encrypt(chunks, bytes)?;
        } else {
            gather.copy(chunks, bytes);
        }
        Poll::Ready(Ok(bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The library flushes each frame of a body: what it has flushed waits all the same.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// The library must not close: `ClientStream::close` does, with what it knows.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
