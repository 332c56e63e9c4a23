//! The socket on which a script may get its requests in place of CGIPLUSIN: descriptor 5 of a process that is kept.
//!
//! The two sides of a socket have no lock in common that a script could hold (as that of a pipe), so the event loop writes to it, and asks
//! it, itself: a request needs no change of thread. A script cannot open it by a name. Only `empty` reads at the script's end, whose lock
//! the script can hold, and has a thread do so.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::process::{PipeEnd, has_room};

const TAKEN_BYTES: usize = 64 << 10;

/// How long taking out may keep its thread.
const EMPTYING_MAX: Duration = Duration::from_secs(3);

pub(crate) struct RequestSocket {
    /// The server's end, which only sends.
    own: OwnedFd,
    /// The script's end, to learn what it has read.
    script: PipeEnd,
    /// A duplicate of the server's end for the event loop, once the socket was full.
    room: Option<UnixStream>,
}

impl RequestSocket {
    pub(crate) fn new(own: OwnedFd, script: PipeEnd) -> RequestSocket {
        RequestSocket { own, script, room: None }
    }

    /// Leaves the event loop of its worker.
    pub(crate) fn rebind(&mut self) {
        self.room = None;
    }

    /// The script's end, to tell the socket from others.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.script.as_fd()
    }

    /// Writes as many bytes as there is room for. `WouldBlock`: none. Other errors: the script has ended, or has closed its end.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match send(&self.own, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent?),
            }
        }
    }

    /// Ready when there is room.
    pub(crate) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let room = match self.room.take() {
            Some(room) => self.room.insert(room),
            None => self.room.insert(UnixStream::from_std(self.own.try_clone()?.into())?),
        };
        loop {
            ready!(room.poll_write_ready(context))?;
            match room.try_io(Interest::WRITABLE, || has_room(&self.own)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                found => return Poll::Ready(found),
            }
        }
    }

    /// Bytes that the script has not read. One system call, which takes no lock that a script can hold.
    pub(crate) fn unread(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.script).unwrap_or(0)
    }

    /// Takes out what the script has not read, and returns how many bytes there were. Fails if the script keeps its end locked.
    pub(crate) async fn empty(&self) -> io::Result<u64> {
        if self.unread() == 0 {
            return Ok(0);
        }
        let script = self.script.duplicate()?;
        timeout(EMPTYING_MAX, self.script.empty_by(move || take_out(&script))).await?
    }
}

/// Reads all bytes that are there; on a thread. Each goes either to the script or to this function, so a count that is complete shows that the script has read none.
fn take_out(script: &OwnedFd) -> io::Result<u64> {
    let (mut unread, mut taken) = (vec![0; TAKEN_BYTES], 0);
    loop {
        match recv(script, &mut unread[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) | Err(Errno::AGAIN) => return Ok(taken),
            Ok((length, _)) => taken += length as u64,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::process::PipeOwner;
    use crate::process::pipe_end::Side;
    use crate::process::pipe_threads::PipeThreads;

    /// A socket, and the script's own descriptor of its end.
    fn socket() -> (RequestSocket, OwnedFd) {
        let (own, script) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
        rustix::io::ioctl_fionbio(&own, true).expect("a socket");
        let kept = script.try_clone().expect("a descriptor");
        let end = PipeEnd::new(
            kept,
            Side::Reading,
            "requests",
            &PipeOwner::ending(0),
            &PipeThreads::new(),
        );
        (RequestSocket::new(own, end), script)
    }

    #[tokio::test]
    async fn what_the_script_has_not_read_is_counted_and_taken_out() {
        let (socket, script) = socket();
        assert_eq!(socket.empty().await.expect("an empty socket"), 0);
        assert_eq!(socket.try_write(b"0123456789").expect("room"), 10);
        assert_eq!(socket.unread(), 10);
        let mut read = [0; 4];
        rustix::io::read(&script, &mut read).expect("bytes");
        assert_eq!(socket.unread(), 6);
        assert_eq!(socket.empty().await.expect("the rest"), 6);
        assert_eq!(socket.unread(), 0);
    }

    #[tokio::test]
    async fn bytes_that_have_found_it_full_follow_when_the_script_reads() {
        const BYTES: usize = 3_000_000;
        let (mut socket, script) = socket();
        let script = std::thread::spawn(move || {
            let (mut read, mut length) = ([0; 3000], 0);
            while length < BYTES {
                length += rustix::io::read(&script, &mut read).expect("bytes");
            }
        });
        let (part, mut written) = (vec![1; 100_000], 0);
        while written < BYTES {
            match socket.try_write(&part[..part.len().min(BYTES - written)]) {
                Ok(length) => written += length,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    poll_fn(|context| socket.poll_room(context)).await.expect("room");
                }
            }
        }
        script.join().expect("no panic");
    }

    #[tokio::test]
    async fn the_end_of_the_script_is_an_error_and_no_signal() {
        let (RequestSocket { own, script, .. }, other) = socket();
        drop((script, other));
        let (unused, end) = std::io::pipe().expect("a pipe");
        drop(end);
        let unused = PipeEnd::new(
            unused.into(),
            Side::Reading,
            "requests",
            &PipeOwner::ending(0),
            &PipeThreads::new(),
        );
        // The last close may be a moment later, by a thread.
        let socket = RequestSocket::new(own, unused);
        poll_fn(|context| match socket.try_write(b"request") {
            Ok(_) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
                Poll::Ready(())
            }
        })
        .await;
    }
}
