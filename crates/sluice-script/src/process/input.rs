//! The server's end of a script's standard input.
//!
//! Here: writing to it, taking out what a script has left unread, and its end within a body. Not here: the bytes (`pump`).
//!
//! A kept process has one pipe for the bodies of all its requests, so it reads no end-of-file after one. An engine of this server learns by
//! an end-of-file within a body that the client has left: it raises an error in the script instead of taking a part of the body for all of it.
//! The pipe has no writing end then. A reading end of the server keeps it, by which a new writing end is opened for the next request (proc(5)).
//! Other programs may not know what it means, so their processes are stopped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};

use rustix::fs::OFlags;
use tokio::net::unix::pipe;

use crate::process::unread::{open_again, take_unread};

/// The server's end of a script's standard input.
pub(crate) struct Input {
    end: End,
    /// The process knows what an end-of-file within a body means.
    can_be_cut: bool,
}

enum End {
    Writing(pipe::Sender),
    /// A body was truncated: this reading end keeps the pipe.
    Reading(OwnedFd),
}

impl Input {
    /// Registers the pipe with the calling worker's event loop.
    pub(crate) fn new(pipe: OwnedFd) -> io::Result<Input> {
        Ok(Input {
            end: End::Writing(pipe::Sender::from_owned_fd_unchecked(pipe)?),
            can_be_cut: false,
        })
    }

    /// The input of a process that recognizes an end-of-file within a body.
    pub(crate) fn that_can_be_cut(self) -> Input {
        Input {
            can_be_cut: true,
            ..self
        }
    }

    /// Whether the process recognizes an end-of-file within a body.
    pub(crate) fn can_be_cut(&self) -> bool {
        self.can_be_cut
    }

    /// Moves to the event loop of the calling worker.
    pub(crate) fn rebind(self) -> io::Result<Input> {
        let end = match self.end {
            End::Writing(sender) => Input::new(sender.into_nonblocking_fd()?)?.end,
            reading @ End::Reading(_) => reading,
        };
        Ok(Input { end, ..self })
    }

    /// The pipe.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.end {
            End::Writing(sender) => sender.as_fd(),
            End::Reading(reader) => reader.as_fd(),
        }
    }

    /// Writes what there is room for.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.end {
            End::Writing(sender) => sender.try_write(bytes),
            End::Reading(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Ready when there may be room.
    pub(crate) fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.end {
            End::Writing(sender) => sender.poll_write_ready(context),
            End::Reading(_) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// The script reads an end-of-file after the bytes that are in the pipe, if it knows what that means.
    pub(crate) fn end_early(&mut self) {
        if !self.can_be_cut {
            return;
        }
        // Without a reading end the process could get no further body. It is stopped later, because its reply does not end.
        match open_again(self.as_fd(), OFlags::RDONLY) {
            Ok(reader) => self.end = End::Reading(reader),
            Err(error) => tracing::error!("the body of a request cannot be ended for its script: {error}"),
        }
    }

    /// Discards the bytes that the script left unread, so that its next request does not begin with them; a truncated body can be followed by another one.
    pub(crate) fn restore(&mut self) -> io::Result<()> {
        take_unread(self.as_fd())?;
        if let End::Reading(reader) = &self.end {
            let writer = open_again(reader.as_fd(), OFlags::WRONLY)?;
            self.end = End::Writing(pipe::Sender::from_owned_fd_unchecked(writer)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes to a pipe that has room.
    async fn write(input: &Input, bytes: &[u8]) -> io::Result<usize> {
        std::future::poll_fn(|context| input.poll_write_ready(context)).await?;
        input.try_write(bytes)
    }

    #[tokio::test]
    async fn a_cut_pipe_is_at_its_end_until_it_is_restored() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let mut input = Input::new(writer).expect("a pipe").that_can_be_cut();
        assert_eq!(write(&input, b"half").await.expect("room"), 4);
        input.end_early();
        assert!(write(&input, b"more").await.is_err());
        let mut read = [0; 16];
        assert_eq!(rustix::io::read(&reader, &mut read).expect("bytes"), 4);
        assert_eq!(rustix::io::read(&reader, &mut read).expect("an end"), 0);
        input.restore().expect("a pipe");
        assert_eq!(write(&input, b"next").await.expect("room"), 4);
        assert_eq!(rustix::io::read(&reader, &mut read).expect("bytes"), 4);
        assert_eq!(&read[..4], b"next");
    }

    #[tokio::test]
    async fn what_is_left_of_a_cut_body_is_discarded() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let mut input = Input::new(writer).expect("a pipe").that_can_be_cut();
        assert_eq!(write(&input, b"unread").await.expect("room"), 6);
        input.end_early();
        input.restore().expect("a pipe");
        assert_eq!(rustix::io::ioctl_fionread(&reader).expect("a pipe"), 0);
    }

    #[tokio::test]
    async fn the_pipe_of_another_program_is_not_cut() {
        let (_reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let mut input = Input::new(writer).expect("a pipe");
        input.end_early();
        assert_eq!(write(&input, b"more").await.expect("room"), 4);
    }
}
