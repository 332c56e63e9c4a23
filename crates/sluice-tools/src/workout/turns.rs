//! A stream whose reads take turns with the other tasks of their event loop.
//!
//! hyper and TLS go on as long as there are bytes, and a server can send bytes without end that make no reply: interim responses, the
//! leading zeros of a chunk size. Without turns the time limit and the signals would wait for it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use sluice_http::tasks::yield_now;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes read in a turn; the last read may exceed it by its buffer, below 500 KB. hyper parses leading zeros byte by byte, some tens of ns each.
const TURN_BYTES: usize = 256 << 10;

/// A stream that yields when it has read `TURN_BYTES` without waiting.
pub(super) struct InTurns<S> {
    stream: S,
    /// Bytes read since the last wait.
    read: usize,
}

impl<S> InTurns<S> {
    pub(super) fn new(stream: S) -> InTurns<S> {
        InTurns { stream, read: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for InTurns<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read >= TURN_BYTES {
            self.read = 0;
            yield_now(context);
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.read = match read {
            Poll::Pending => 0,
            Poll::Ready(_) => self.read + buffer.filled().len() - before,
        };
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for InTurns<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        chunks: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, chunks)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
