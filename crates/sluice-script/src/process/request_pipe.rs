//! The writing end of CGIPLUSIN: requests, and the answers to callouts.
//!
//! Bytes that do not fit the pipe wait here, up to a limit: it is a fault of the script to send callouts and not to read the
//! answers. Nearly everything fits, so the pipe is registered with the event loop only when it was full once.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

use tokio::net::unix::pipe;

use crate::process::unread::take_unread;

/// Bytes of unread answers beyond the pipe's capacity.
const UNREAD_BYTES_MAX: usize = 256 << 10;

/// The writing end of CGIPLUSIN.
pub(crate) struct RequestPipe {
    pipe: Pipe,
    waiting: Vec<u8>,
    /// Bytes of `waiting` that have been written.
    written: usize,
    /// Bytes written since `begin`.
    delivered: u64,
}

/// A pipe that does not block.
enum Pipe {
    /// The pipe has never been full.
    Unregistered(OwnedFd),
    /// The pipe was full once, and is registered with the event loop.
    Registered(pipe::Sender),
    /// The pipe cannot be registered. Also the state between the other two.
    Broken,
}

impl RequestPipe {
    /// Creates the end of a pipe to which nothing was written.
    pub(crate) fn new(pipe: OwnedFd) -> RequestPipe {
        RequestPipe {
            pipe: Pipe::Unregistered(pipe),
            waiting: Vec::new(),
            written: 0,
            delivered: 0,
        }
    }

    /// Leaves the event loop of its worker, so that another can use it.
    pub(crate) fn rebind(self) -> io::Result<RequestPipe> {
        let pipe = match self.pipe {
            Pipe::Registered(sender) => Pipe::Unregistered(sender.into_nonblocking_fd()?),
            pipe => pipe,
        };
        Ok(RequestPipe { pipe, ..self })
    }

    /// The buffer for a new request, which `poll_flush` writes. It is empty between exchanges.
    pub(crate) fn begin(&mut self) -> &mut Vec<u8> {
        self.waiting.clear();
        self.written = 0;
        self.delivered = 0;
        &mut self.waiting
    }

    /// Adds an answer. Fails if the script leaves too many unread.
    pub(crate) fn add(&mut self, answer: &[u8]) -> io::Result<()> {
        if self.waiting.len() - self.written + answer.len() > UNREAD_BYTES_MAX {
            return Err(io::Error::other(
                "it does not read the answers to its callouts (CGIPLUSIN)",
            ));
        }
        self.waiting.extend_from_slice(answer);
        Ok(())
    }

    /// Writes the bytes that wait. If the script has closed its end they are lost; that is no error here, because the mailbox shows
    /// the end of a script.
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

    /// The pipe. `None` if it cannot be used.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_fd()
    }

    /// Whether the script has read nothing since `begin`: all written bytes are still in the pipe. One system call.
    pub(crate) fn is_unread(&self) -> bool {
        self.pipe
            .as_fd()
            .is_some_and(|pipe| rustix::io::ioctl_fionread(pipe).is_ok_and(|unread| unread >= self.delivered))
    }

    /// Whether the script has read all that was written since `begin`, and nothing waits to be written. One system call.
    pub(crate) fn is_all_read(&self) -> bool {
        let unread = self.pipe.as_fd().map(rustix::io::ioctl_fionread);
        self.waiting.is_empty() && matches!(unread, Some(Ok(0)))
    }

    /// Takes the request out of the pipe again, so that the script can no longer read it. False if it has read any of it: then
    /// the request must not be repeated.
    pub(crate) fn take_back(&mut self) -> bool {
        self.waiting.clear();
        self.written = 0;
        let Some(pipe) = self.pipe.as_fd().filter(|_| self.is_unread()) else {
            return false;
        };
        take_unread(pipe)
            .inspect_err(|error| tracing::error!("the request cannot be taken out of the pipe of its process: {error}"))
            .is_ok_and(|taken| taken >= self.delivered)
    }
}

impl Pipe {
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Pipe::Unregistered(pipe) => Some(pipe.as_fd()),
            Pipe::Registered(pipe) => Some(pipe.as_fd()),
            Pipe::Broken => None,
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Pipe::Unregistered(pipe) => Ok(rustix::io::write(pipe, bytes)?),
            Pipe::Registered(pipe) => pipe.try_write(bytes),
            Pipe::Broken => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    /// Waits for room in the pipe, which was full.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        *self = match std::mem::replace(self, Pipe::Broken) {
            Pipe::Unregistered(pipe) => Pipe::Registered(pipe::Sender::from_owned_fd_unchecked(pipe)?),
            pipe => pipe,
        };
        match self {
            Pipe::Registered(pipe) => pipe.poll_write_ready(context),
            _ => Poll::Ready(Err(ErrorKind::BrokenPipe.into())),
        }
    }
}
