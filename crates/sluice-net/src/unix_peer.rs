//! The client of a unix socket on a kernel that passes descriptors along: what it sends besides bytes is never closed on the event loop.
//!
//! Linux 6.16 and later refuse descriptors instead (`sluice_launch::refuse_descriptors`); then, and on TCP, a connection has no `UnixPeer`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::net::sockopt::socket_peercred;
use sluice_launch::{Passing, UNKNOWN_USER, close_socket_elsewhere, passing, receive};

use crate::connection_log::ConnectionLog;

pub(crate) struct UnixPeer {
    user: u32,
    log: Rc<ConnectionLog>,
}

impl UnixPeer {
    /// The client of an accepted unix socket. `None` if the kernel refuses its descriptors: the socket got that from its listener at the moment
    /// of its connection, perhaps before this server had the listener.
    pub(crate) fn of(socket: impl AsFd, log: &Rc<ConnectionLog>) -> Option<UnixPeer> {
        match passing(&socket) {
            Passing::Refused => None,
            Passing::Possible => Some(UnixPeer { user: user_of(socket), log: Rc::clone(log) }),
        }
    }

    /// Receives bytes without waiting. An error is one of recv(2), or `InvalidData`: descriptors came along.
    pub(crate) fn receive(&self, socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
        let received = receive(socket, bytes, self.user)?;
        if received.descriptors.is_empty() {
            return Ok(received.bytes);
        }
        self.log.sent_descriptors(self.user);
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "its client has sent descriptors along",
        ))
    }

    /// Closes the socket, with what is in its queue.
    pub(crate) fn close(&self, socket: OwnedFd) {
        close_socket_elsewhere(self.user, socket);
    }
}

/// Closes a listening unix socket. On an older kernel the connections in its queue may have descriptors in theirs.
pub(crate) fn close_listener(socket: OwnedFd) {
    match passing(&socket) {
        Passing::Refused => drop(socket),
        Passing::Possible => sluice_launch::close_elsewhere(UNKNOWN_USER, [socket]),
    }
}

fn user_of(socket: impl AsFd) -> u32 {
    socket_peercred(socket).map_or(UNKNOWN_USER, |client| client.uid.as_raw())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::task::{Context, Waker};

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use tokio::io::ReadBuf;

    use super::*;
    use crate::socket::Socket;

    /// Both ends of a connection on which descriptors pass, as the server's socket and the client's.
    fn connected() -> (Socket, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let peer = UnixPeer::of(&near, &Rc::default());
        assert!(peer.is_some(), "passing is the kernel's default");
        (Socket::with_peer(OwnedFd::from(near).into(), peer), far)
    }

    /// Sends bytes with the writing end of a pipe.
    fn send(client: &UnixStream, bytes: &[u8], descriptor: impl AsFd) {
        let descriptors = [descriptor.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(client, &[io::IoSlice::new(bytes)], &mut ancillary, SendFlags::empty()).unwrap();
    }

    fn await_close(mut pipe: io::PipeReader) {
        assert_eq!(pipe.read(&mut [0]).unwrap(), 0);
    }

    async fn read(socket: &mut Socket) -> io::Result<Vec<u8>> {
        let mut bytes = [0; 64];
        let mut buffer = ReadBuf::new(&mut bytes);
        poll_fn(|context| socket.poll_read(context, &mut buffer)).await?;
        Ok(buffer.filled().to_vec())
    }

    #[tokio::test]
    async fn bytes_are_read_until_descriptors_come_along_which_are_closed() {
        // In the first read, and in one that the event loop has reported.
        for is_registered in [false, true] {
            let (mut socket, mut client) = connected();
            if is_registered {
                let mut context = Context::from_waker(Waker::noop());
                assert!(
                    socket
                        .poll_read(&mut context, &mut ReadBuf::new(&mut [0; 8]))
                        .is_pending()
                );
            }
            client.write_all(b"GET").unwrap();
            assert_eq!(read(&mut socket).await.unwrap(), b"GET");
            let (reader, writer) = io::pipe().unwrap();
            send(&client, b" /", &writer);
            drop(writer);
            assert_eq!(read(&mut socket).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
            await_close(reader);
        }
    }

    #[tokio::test]
    async fn descriptors_that_are_unread_at_the_close_are_closed_elsewhere() {
        let (socket, client) = connected();
        let (reader, writer) = io::pipe().unwrap();
        send(&client, b"a", &writer);
        drop(writer);
        drop(socket);
        await_close(reader);
        assert_eq!((&client).read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn the_end_of_a_socket_that_is_closed_elsewhere_arrives() {
        let (socket, mut client) = connected();
        drop(socket);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
}
