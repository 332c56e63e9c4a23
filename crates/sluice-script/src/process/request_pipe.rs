//! The writing end of CGIPLUSIN: requests, and the answers to callouts.
//!
//! Bytes that do not fit the pipe wait here, up to a limit: it is a fault of the script to send callouts and not to read the answers.

use std::io;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};

use crate::process::PipeWriter;

/// Bytes of unread answers beyond the pipe's capacity.
const UNREAD_BYTES_MAX: usize = 256 << 10;

/// How much of its request a script has read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Something: all of it, where it comes by the pipe.
    Begun,
    /// Unknown: a thread is writing the last bytes.
    BeingWritten,
    /// Not all of it, and perhaps nothing.
    NotAll,
}

pub(crate) struct RequestPipe {
    pipe: PipeWriter,
    waiting: Vec<u8>,
    /// Bytes of `waiting` that have been passed on.
    written: usize,
    /// Bytes passed on since `begin`.
    delivered: u64,
    /// Bytes that the script had not read when a thread was asked last, if one was since `begin`.
    unread: Option<u64>,
}

/// The methods have the meaning of those of `RequestChannel`.
impl RequestPipe {
    pub(crate) fn new(pipe: PipeWriter) -> RequestPipe {
        RequestPipe {
            pipe,
            waiting: Vec::new(),
            written: 0,
            delivered: 0,
            unread: None,
        }
    }

    pub(crate) fn rebind(&mut self) {
        self.pipe.rebind();
    }

    pub(crate) fn begin(&mut self) -> &mut Vec<u8> {
        self.waiting.clear();
        self.written = 0;
        self.delivered = 0;
        self.unread = None;
        self.pipe.forget_count();
        &mut self.waiting
    }

    pub(crate) fn add(&mut self, answer: &[u8]) -> io::Result<()> {
        if self.waiting.len() - self.written + answer.len() > UNREAD_BYTES_MAX {
            return Err(io::Error::other(
                "it does not read the answers to its callouts (CGIPLUSIN)",
            ));
        }
        self.waiting.extend_from_slice(answer);
        Ok(())
    }

    pub(crate) fn flush(&mut self, context: &mut Context<'_>) {
        while self.written < self.waiting.len() {
            match self.pipe.try_write(&self.waiting[self.written..]) {
                Ok(length) => {
                    self.written += length;
                    self.delivered += length as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Poll::Ready(Ok(())) = self.pipe.poll_room(context) {
                        continue;
                    }
                    return;
                }
                Err(_) => break,
            }
        }
        self.waiting.clear();
        self.written = 0;
        let _ = self.pipe.drive(context);
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    pub(crate) fn poll_is_unread(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        self.pipe.poll_unread(context).map(|unread| {
            self.unread = Some(unread);
            self.is_unread()
        })
    }

    pub(crate) fn is_unread(&self) -> bool {
        let unread = self.unread.unwrap_or(self.delivered);
        unread >= self.delivered && (self.delivered == 0 || !self.pipe.is_all_read())
    }

    /// How much of the request the script has read, as far as poll(2) says it. One system call at most.
    pub(crate) fn reading(&self) -> Reading {
        match () {
            () if !self.waiting.is_empty() => Reading::NotAll,
            () if self.pipe.is_writing_last() => Reading::BeingWritten,
            () if self.pipe.is_all_read() => Reading::Begun,
            () => Reading::NotAll,
        }
    }

    pub(crate) fn is_all_read(&self) -> bool {
        self.waiting.is_empty() && self.pipe.is_all_read()
    }

    /// Takes out all that the script has not read. Fails if the script keeps the pipe locked.
    pub(crate) async fn take_all(&mut self) -> io::Result<()> {
        self.pipe.empty().await.map(drop)
    }

    pub(crate) async fn take_back(&mut self) -> bool {
        self.waiting.clear();
        self.written = 0;
        if !self.is_unread() {
            return false;
        }
        let taken = self.pipe.empty().await.inspect_err(|error| {
            tracing::error!("the request cannot be taken out of the pipe of its process: {error}");
        });
        taken.is_ok_and(|taken| taken >= self.delivered)
    }
}
