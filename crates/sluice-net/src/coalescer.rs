//! The write coalescer of HTTP/2: frames that hyper writes and flushes one by one leave in as few writes as possible.
//!
//! A frame of 16 KiB by itself would cost a system call, and over TLS two records, the second of nine bytes. In clear text frames are copied together;
//! over TLS they are encrypted at once, which copies them anyway, and only the rest that does not fill a record waits.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::Connection;
use crate::stream::{ClientStream, SharedStream};
use crate::tls::RECORD_BYTES;

/// The number of waiting bytes from which a write drains the coalescer first.
const FULL_BYTES: usize = 128 << 10;

/// A write of more than this reserves the full memory at once; smaller ones let it grow.
const SMALL_BYTES: usize = 8 << 10;

pub(crate) struct WriteCoalescer {
    connection: Rc<Connection>,
    stream: SharedStream,
    is_tls: bool,
    waiting: Vec<u8>,
    /// The number of waiting bytes that have been sent.
    sent: usize,
    /// Bytes encrypted since the last complete drain.
    encrypted: usize,
}

pub(crate) struct CoalescedStream(pub Rc<RefCell<WriteCoalescer>>);

impl WriteCoalescer {
    pub(crate) fn new(stream: Rc<RefCell<ClientStream>>, connection: Rc<Connection>) -> WriteCoalescer {
        let is_tls = stream.borrow_mut().transport.prepare_encrypt();
        WriteCoalescer {
            connection,
            stream: SharedStream { stream, ends_sending: false },
            is_tls,
            waiting: Vec::new(),
            sent: 0,
            encrypted: 0,
        }
    }

    /// Sends all waiting bytes. An error is the client's or the network's fault.
    pub(crate) fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let drained = self.poll_send(context);
        self.count();
        drained
    }

    fn count(&self) {
        let bytes = self.waiting.len() - self.sent + self.encrypted;
        self.connection.outgoing.set_coalesced(bytes);
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
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

    /// Frees the memory while no exchange is under way.
    pub(crate) fn free_memory(&mut self) {
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

    /// Encrypts the waiting bytes and these chunks as whole records; the rest waits.
    fn encrypt(&mut self, chunks: &[IoSlice<'_>], bytes: usize) -> io::Result<()> {
        let whole = (self.waiting.len() + bytes) / RECORD_BYTES * RECORD_BYTES;
        if whole < RECORD_BYTES {
            chunks.iter().for_each(|chunk| self.waiting.extend_from_slice(chunk));
            return Ok(());
        }
        // Less than a record waits, so all of it is encrypted.
        let mut left = whole - self.waiting.len();
        let mut rest = Vec::new();
        let mut records = Vec::with_capacity(1 + chunks.len());
        records.push(IoSlice::new(&self.waiting));
        for chunk in chunks {
            let (now, later) = chunk.split_at(left.min(chunk.len()));
            left -= now.len();
            records.push(IoSlice::new(now));
            rest.extend_from_slice(later);
        }
        self.stream.stream.borrow_mut().encrypt_chunks(&records)?;
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
        let mut coalescer = self.0.borrow_mut();
        let bytes = chunks.iter().map(|chunk| chunk.len()).sum();
        if coalescer.waiting.len() + coalescer.encrypted >= FULL_BYTES {
            ready!(coalescer.poll_drain(context))?;
        }
        if coalescer.is_tls {
            coalescer.encrypt(chunks, bytes)?;
        } else {
            coalescer.copy(chunks, bytes);
        }
        Poll::Ready(Ok(bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing, because hyper flushes each frame of a body: the frames wait for `poll_drain`.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Does nothing: `ClientStream::close` closes the socket, because it knows whether to reset it or to linger.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
