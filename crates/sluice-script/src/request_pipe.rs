//! The writing end of CGIPLUSIN: requests and the answers to callouts.
//!
//! What does not fit the pipe waits here, bounded: a script that asks and never reads its answers is at fault. Nearly
//! everything fits, so the pipe enters the event loop only when something did not.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

use tokio::net::unix::pipe;

/// Answers that a script has not read, bytes, beyond what the pipe holds.
const UNREAD_BYTES_MAX: usize = 256 << 10;

/// The writing end of CGIPLUSIN.
pub(crate) struct RequestPipe {
    pipe: Pipe,
    waiting: Vec<u8>,
    /// Of `waiting`, what has been written.
    written: usize,
    /// Bytes written since `begin`.
    delivered: u64,
}

/// A pipe that does not block.
enum Pipe {
    /// It has always taken what it was given.
    Apart(OwnedFd),
    /// It was full once.
    InLoop(pipe::Sender),
    /// It cannot enter the event loop; between two states, too.
    Broken,
}

impl RequestPipe {
    pub(crate) fn new(pipe: OwnedFd) -> RequestPipe {
        RequestPipe {
            pipe: Pipe::Apart(pipe),
            waiting: Vec::new(),
            written: 0,
            delivered: 0,
        }
    }

    /// Leaves the event loop of a worker for that of another.
    pub(crate) fn rebind(self) -> io::Result<RequestPipe> {
        let pipe = match self.pipe {
            Pipe::InLoop(sender) => Pipe::Apart(sender.into_nonblocking_fd()?),
            pipe => pipe,
        };
        Ok(RequestPipe { pipe, ..self })
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
                    if ready!(self.pipe.poll_room(context)).is_err() {
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
        self.pipe
            .as_fd()
            .is_some_and(|pipe| rustix::io::ioctl_fionread(pipe).is_ok_and(|unread| unread >= self.delivered))
    }
}

impl Pipe {
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Pipe::Apart(pipe) => Some(pipe.as_fd()),
            Pipe::InLoop(pipe) => Some(pipe.as_fd()),
            Pipe::Broken => None,
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Pipe::Apart(pipe) => Ok(rustix::io::write(pipe, bytes)?),
            Pipe::InLoop(pipe) => pipe.try_write(bytes),
            Pipe::Broken => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    /// Waits until the pipe, which was full, has room.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        *self = match std::mem::replace(self, Pipe::Broken) {
            Pipe::Apart(pipe) => Pipe::InLoop(pipe::Sender::from_owned_fd_unchecked(pipe)?),
            pipe => pipe,
        };
        match self {
            Pipe::InLoop(pipe) => pipe.poll_write_ready(context),
            _ => Poll::Ready(Err(ErrorKind::BrokenPipe.into())),
        }
    }
}
