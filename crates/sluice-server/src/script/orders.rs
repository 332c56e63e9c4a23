//! The writing end of CGIPLUSIN: requests and the answers to callouts.
//!
//! What does not fit the pipe waits here, bounded: a script that asks and never reads its answers is at fault.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};

use tokio::net::unix::pipe;

/// Answers that a script has not read, bytes, beyond what the pipe holds.
const UNREAD_BYTES_MAX: usize = 256 << 10;

/// The writing end of CGIPLUSIN.
pub(crate) struct Orders {
    pipe: pipe::Sender,
    waiting: Vec<u8>,
    /// Of `waiting`, what has been written.
    written: usize,
    /// Bytes written since `begin`.
    delivered: u64,
}

impl Orders {
    pub(crate) fn new(pipe: OwnedFd) -> io::Result<Orders> {
        Ok(Orders {
            pipe: pipe::Sender::from_owned_fd(pipe)?,
            waiting: Vec::new(),
            written: 0,
            delivered: 0,
        })
    }

    /// Moves to the event loop of the calling worker.
    pub(crate) fn rebind(self) -> io::Result<Orders> {
        Orders::new(self.pipe.into_nonblocking_fd()?)
    }

    /// Where a request is put together before `poll_flush`; empty between exchanges.
    pub(crate) fn begin(&mut self) -> &mut Vec<u8> {
        self.waiting.clear();
        self.written = 0;
        self.delivered = 0;
        &mut self.waiting
    }

    /// Adds an answer. Fails when the script leaves too many unread.
    pub(crate) fn add(&mut self, answer: &[u8]) -> io::Result<()> {
        if self.waiting.len() - self.written + answer.len() > UNREAD_BYTES_MAX {
            return Err(io::Error::other(
                "it does not read the answers to its callouts (CGIPLUSIN)",
            ));
        }
        self.waiting.extend_from_slice(answer);
        Ok(())
    }

    /// Writes what waits. A script that closed its end loses what it did not want; that is no error here, its end shows on
    /// the mailbox.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.written < self.waiting.len() {
            match self.pipe.try_write(&self.waiting[self.written..]) {
                Ok(length) => {
                    self.written += length;
                    self.delivered += length as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if ready!(self.pipe.poll_write_ready(context)).is_err() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.waiting.clear();
        self.written = 0;
        Poll::Ready(())
    }

    /// Nothing that was written since `begin` has been read: all of it is still in the pipe, or none was taken.
    pub(crate) fn is_unread(&self) -> bool {
        rustix::io::ioctl_fionread(self.pipe.as_fd()).is_ok_and(|unread| unread >= self.delivered)
    }
}
