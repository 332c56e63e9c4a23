//! The server's end of a socket on which a script writes: only received from, and without the descriptors that a script may send along (SCM_RIGHTS).
//!
//! The last close(2) of a descriptor may wait for as long as its sender wishes (SO_LINGER, a locked pipe), and read(2) closes those that come along. A
//! kernel that can refuse them does (Linux 6.16); otherwise they are received, closed elsewhere, and a fault of the script.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};

use bytes::{BufMut, BytesMut};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags};
use sluice_launch::{Passing, close_socket_elsewhere, passing, receive};
use tokio::io::Interest;
use tokio::net::UnixStream;

pub(crate) struct ScriptSocket {
    /// A SOCK_SEQPACKET socket has the type of a stream socket: only its registration with the event loop is used, which is the same. `None` once it is being closed.
    socket: Option<UnixStream>,
    /// The number of the script's user, if the kernel cannot refuse descriptors.
    sender: Option<u32>,
}

pub(crate) struct Record {
    /// The length; that of its first part, if the kernel says no more, and the rest is lost.
    pub length: usize,
    /// The record was longer than the room.
    pub is_truncated: bool,
    /// The end, and no record without a byte.
    pub is_end: bool,
}

impl ScriptSocket {
    /// Registers a socket of a script of this user with the calling worker's event loop.
    pub(crate) fn new(socket: OwnedFd, user: u32) -> io::Result<ScriptSocket> {
        let sender = (passing(&socket) == Passing::Possible).then_some(user);
        Ok(ScriptSocket {
            socket: Some(UnixStream::from_std(socket.into())?),
            sender,
        })
    }

    /// Moves to the event loop of the calling worker.
    pub(crate) fn rebind(&mut self) -> io::Result<()> {
        let socket = self.socket.take().map(UnixStream::into_std).transpose()?;
        self.socket = socket.map(UnixStream::from_std).transpose()?;
        Ok(())
    }

    fn socket(&self) -> &UnixStream {
        self.socket.as_ref().expect("it is taken by drop and rebind alone")
    }

    pub(crate) fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_read_ready(context)
    }

    /// Notes that nothing is left to be read, so that no further read is needed to find that out (epoll(7), edge-triggered).
    pub(crate) fn note_drained(&self) {
        let empty = || Err::<(), _>(io::Error::from(io::ErrorKind::WouldBlock));
        let _ = self.socket().try_io(Interest::READABLE, empty);
    }

    /// Reads at most `room` bytes, if the event loop has not found the socket empty; 0 at the end.
    pub(crate) fn try_read_buf(&self, buffer: &mut BytesMut, room: usize) -> io::Result<usize> {
        let Some(sender) = self.sender else {
            return self.socket().try_read_buf(&mut buffer.limit(room));
        };
        let before = buffer.len();
        buffer.resize(before + room, 0);
        let read = self.socket().try_io(Interest::READABLE, || {
            receive_bytes(self.as_fd(), &mut buffer[before..], sender)
        });
        buffer.truncate(before + read.as_ref().unwrap_or(&0));
        read
    }

    /// Reads what is there now; 0 at the end. Always asks the kernel.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.sender {
            None => Ok(rustix::net::recv(self, bytes, RecvFlags::empty())?.0),
            Some(sender) => receive_bytes(self.as_fd(), bytes, sender),
        }
    }

    /// Receives a record, if the event loop has not found the socket empty.
    pub(crate) fn try_receive(&self, room: &mut [u8]) -> io::Result<Record> {
        self.socket().try_io(Interest::READABLE, || self.receive(room))
    }

    /// Receives the record that is there now. Always asks the kernel. The socket has SO_PASSCRED: each record comes with the credentials of its sender, and the end without.
    pub(crate) fn receive(&self, room: &mut [u8]) -> io::Result<Record> {
        if let Some(sender) = self.sender {
            let received = receive(self.as_fd(), room, sender)?;
            return match received.descriptors.is_empty() {
                true => Ok(Record {
                    length: received.bytes,
                    is_truncated: received.is_cut,
                    is_end: received.bytes == 0 && !received.has_credentials,
                }),
                false => Err(sent_descriptors()),
            };
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut credentials = RecvAncillaryBuffer::new(&mut space);
        let room_bytes = room.len();
        let parts = &mut [IoSliceMut::new(room)];
        let received = rustix::net::recvmsg(self, parts, &mut credentials, RecvFlags::TRUNC)?;
        Ok(Record {
            length: received.bytes,
            is_truncated: received.bytes > room_bytes,
            is_end: received.bytes == 0 && credentials.drain().next().is_none(),
        })
    }

    /// The first bytes of what is there now, which stays there.
    pub(crate) fn peek(&self, bytes: &mut [u8]) -> Result<usize, Errno> {
        Ok(rustix::net::recv(self, bytes, RecvFlags::PEEK)?.0)
    }
}

impl AsFd for ScriptSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

impl Drop for ScriptSocket {
    fn drop(&mut self) {
        let socket = self.socket.take().map(UnixStream::into_std);
        if let (Some(user), Some(Ok(socket))) = (self.sender, socket) {
            close_socket_elsewhere(user, socket.into());
        }
    }
}

fn receive_bytes(socket: BorrowedFd<'_>, bytes: &mut [u8], sender: u32) -> io::Result<usize> {
    let received = receive(socket, bytes, sender)?;
    match received.descriptors.is_empty() {
        true => Ok(received.bytes),
        false => Err(sent_descriptors()),
    }
}

fn sent_descriptors() -> io::Error {
    let text = "it has sent descriptors along (SCM_RIGHTS), which the server does not take";
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use rustix::net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
        socketpair,
    };

    use super::*;

    /// A socket that the kernel passes descriptors on, and the script's end of it.
    fn socket(kind: SocketType) -> (ScriptSocket, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (own, script) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        let socket = ScriptSocket::new(own, 4_100_000_002).unwrap();
        assert!(socket.sender.is_some());
        (socket, script)
    }

    fn send_with_descriptor(script: &OwnedFd, bytes: &[u8]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let (reader, _writer) = std::io::pipe().unwrap();
        let descriptors = [reader.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(script, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).unwrap();
    }

    #[tokio::test]
    async fn descriptors_on_a_stream_are_a_fault_and_bytes_without_them_are_none() {
        let (mut socket, script) = socket(SocketType::STREAM);
        rustix::io::write(&script, b"bytes").unwrap();
        let mut buffer = BytesMut::new();
        std::future::poll_fn(|context| socket.poll_read_ready(context))
            .await
            .unwrap();
        assert_eq!(socket.try_read_buf(&mut buffer, 100).unwrap(), 5);
        assert_eq!(buffer, "bytes");
        send_with_descriptor(&script, b"more");
        let error = socket.read(&mut [0; 64]).unwrap_err();
        assert!(error.to_string().contains("sent descriptors along"), "{error}");
        socket.rebind().unwrap();
        drop(script);
        assert_eq!(socket.read(&mut [0; 64]).unwrap(), 0);
    }

    #[tokio::test]
    async fn descriptors_with_a_record_are_a_fault_and_empty_records_are_none() {
        let (socket, script) = socket(SocketType::SEQPACKET);
        rustix::net::sockopt::set_socket_passcred(&socket, true).unwrap();
        rustix::io::write(&script, b"").unwrap();
        rustix::io::write(&script, b"longer than the room").unwrap();
        send_with_descriptor(&script, b"more");
        let empty = socket.receive(&mut [0; 8]).unwrap();
        assert!(empty.length == 0 && !empty.is_end);
        let long = socket.receive(&mut [0; 8]).unwrap();
        assert!(long.length == 8 && long.is_truncated);
        assert!(socket.receive(&mut [0; 8]).is_err());
        drop(script);
        assert!(socket.receive(&mut [0; 8]).unwrap().is_end);
    }
}
