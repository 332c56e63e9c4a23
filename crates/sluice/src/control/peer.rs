//! The reading end of a connection to the control socket: descriptors that the peer sends along are closed on another thread.
//!
//! From Linux 6.16 on the socket takes none, because its listener refuses them (`sluice_net::unix`).

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use sluice_launch::{Passing, close_socket_elsewhere, passing, receive};
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::unix::OwnedReadHalf;

pub(super) struct PeerReader {
    half: OwnedReadHalf,
    /// The user of the peer, if descriptors can arrive.
    sender: Option<u32>,
}

impl PeerReader {
    pub(super) fn new(half: OwnedReadHalf, user: u32) -> PeerReader {
        let passing = passing(half.as_ref());
        PeerReader {
            half,
            sender: (passing == Passing::Possible).then_some(user),
        }
    }
}

impl AsyncRead for PeerReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(user) = self.sender else {
            return Pin::new(&mut self.half).poll_read(context, buffer);
        };
        let stream = self.half.as_ref();
        loop {
            ready!(stream.poll_read_ready(context))?;
            let room = buffer.initialize_unfilled();
            match stream.try_io(Interest::READABLE, || receive(stream.as_fd(), room, user)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(received) if received.descriptors.is_empty() => {
                    buffer.advance(received.bytes);
                    return Poll::Ready(Ok(()));
                }
                Ok(_) => return Poll::Ready(Err(io::Error::other("the peer has sent descriptors along"))),
            }
        }
    }
}

/// Closes elsewhere, too, what the peer has sent and nobody has read: the copy of the socket lives until then.
impl Drop for PeerReader {
    fn drop(&mut self) {
        if let Some(user) = self.sender
            && let Ok(copy) = self.half.as_ref().as_fd().try_clone_to_owned()
        {
            close_socket_elsewhere(user, copy);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;

    use super::*;

    /// Sends a byte with the writing end of a pipe.
    fn send(peer: &UnixStream, writer: &io::PipeWriter) {
        let fds = [writer.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(peer, &[io::IoSlice::new(b"a")], &mut ancillary, SendFlags::empty()).expect("room for a byte");
    }

    #[test]
    fn descriptors_of_a_peer_are_closed_read_or_not() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("an event loop").block_on(async {
            for is_read in [true, false] {
                let (near, far) = UnixStream::pair().expect("sockets");
                let (half, _writer) = near.into_split();
                let mut reader = PeerReader::new(half, u32::MAX);
                let (mut pipe, writer) = io::pipe().expect("a pipe");
                send(&far, &writer);
                drop(writer);
                if is_read {
                    assert!(reader.read_u8().await.is_err());
                }
                drop(reader);
                assert_eq!(pipe.read(&mut [0]).expect("a pipe"), 0);
            }
        });
    }
}
