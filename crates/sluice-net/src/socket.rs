//! A client's socket: read and written directly, and registered with the event loop only when it must first wait.
//!
//! A connection whose request has already arrived, and which is answered and closed, never enters the event loop: two system calls and a wake-up less.

use std::future::poll_fn;
use std::io::{self, IoSlice, Read};
use std::mem::{self, MaybeUninit};
use std::net::{SocketAddr, TcpStream as StdStream};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::sendfile;
use rustix::io::writev;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, send, sendmsg};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::half_close::ClientEnd;
use crate::unix_peer::UnixPeer;

/// Bytes read at once before the socket is in the event loop: most heads are smaller.
const FIRST_READ_BYTES: usize = 2048;

/// How long the client may take to close its side after the last byte. A close with unread bytes would reset the connection, and could lose the response.
const LINGER: Duration = Duration::from_secs(1);

/// The same for a client that goes on sending (RFC 9112 §9.6), at `LINGER_RATE` or faster.
const LINGER_MAX: Duration = Duration::from_secs(30);

/// How long it may send nothing meanwhile.
const LINGER_SILENCE: Duration = Duration::from_secs(5);

/// Bytes per second.
const LINGER_RATE: u64 = 4 << 10;

/// Bytes read and discarded meanwhile, at most.
const LINGER_BYTES_MAX: u64 = 1 << 30;

/// Bytes discarded at once, at most.
const LINGER_READ_BYTES: usize = 16 << 10;

/// A client's TCP or unix socket. Apart from addresses, std and tokio call nothing on a `TcpStream` that a unix socket
/// does not support. Only TCP has a reset: on a unix socket the client just sees the end.
pub(crate) struct Socket {
    state: State,
    /// Bytes that the kernel has taken to send; wraps around.
    sent: u32,
    is_unix: bool,
    /// The client of a unix socket on which descriptors can arrive.
    peer: Option<Box<UnixPeer>>,
}

enum State {
    /// Not in the event loop.
    Direct {
        socket: StdStream,
        /// The last read emptied the receive buffer: the next one would only return `EAGAIN`.
        is_drained: bool,
    },
    Registered(TcpStream),
    /// The socket could not be registered with the event loop.
    Lost,
}

impl Socket {
    /// Wraps an accepted socket of TCP, which must not block.
    pub(crate) fn new(socket: StdStream) -> Socket {
        let is_drained = false;
        Socket {
            state: State::Direct { socket, is_drained },
            sent: 0,
            is_unix: false,
            peer: None,
        }
    }

    /// Wraps an accepted unix socket, which must not block, and on which descriptors can arrive if there is a `peer`.
    pub(crate) fn with_peer(socket: StdStream, peer: Option<UnixPeer>) -> Socket {
        let mut socket = Socket::new(socket);
        socket.is_unix = true;
        socket.peer = peer.map(Box::new);
        socket
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        let address = SockRef::from(&self.fd()?).local_addr()?;
        address
            .as_socket()
            .ok_or_else(|| io::Error::other("no internet address"))
    }

    /// The socket in the event loop; registers it if necessary.
    fn registered(&mut self) -> io::Result<&mut TcpStream> {
        if let State::Direct { .. } = self.state
            && let State::Direct { socket, .. } = mem::replace(&mut self.state, State::Lost)
        {
            self.state = State::Registered(TcpStream::from_std(socket)?);
        }
        match &mut self.state {
            State::Registered(socket) => Ok(socket),
            _ => Err(lost()),
        }
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        match &self.state {
            State::Direct { socket, .. } => Ok(socket.as_fd()),
            State::Registered(socket) => Ok(socket.as_fd()),
            State::Lost => Err(lost()),
        }
    }

    pub(crate) fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let State::Direct { socket, is_drained } = &mut self.state
            && !*is_drained
        {
            let mut bytes = [0; FIRST_READ_BYTES];
            let room = buffer.remaining().min(bytes.len());
            let read = match &self.peer {
                None => socket.read(&mut bytes[..room]),
                Some(peer) => peer.receive(socket.as_fd(), &mut bytes[..room]),
            };
            match read {
                Err(error) if is_temporary(&error) => {}
                read => {
                    return Poll::Ready(read.map(|length| {
                        *is_drained = 0 < length && length < room;
                        buffer.put_slice(&bytes[..length]);
                    }));
                }
            }
        }
        match self.peer.is_some() {
            false => AsyncRead::poll_read(Pin::new(self.registered()?), context, buffer),
            true => self.poll_receive(context, buffer),
        }
    }

    /// Reads as `poll_read` does, with room for descriptors.
    #[cold]
    fn poll_receive(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.registered()?;
        let (State::Registered(socket), Some(peer)) = (&self.state, &self.peer) else {
            return Poll::Ready(Err(lost()));
        };
        loop {
            ready!(socket.poll_read_ready(context))?;
            let bytes = buffer.initialize_unfilled();
            match socket.try_io(Interest::READABLE, || peer.receive(socket.as_fd(), bytes)) {
                Err(error) if is_temporary(&error) => {}
                read => return Poll::Ready(read.map(|length| buffer.advance(length))),
            }
        }
    }

    pub(crate) fn poll_write_vectored(
        &mut self,
        context: &mut Context<'_>,
        chunks: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match chunks {
            // The kernel needs less time for send(2) than for writev(2).
            [chunk] => self.poll_write_by(context, |socket| Ok(send(socket, chunk, SendFlags::NOSIGNAL)?)),
            _ => self.poll_write_by(context, |socket| Ok(writev(socket, chunks)?)),
        }
    }

    /// Writes chunks that others follow: a partial packet waits a moment for more (tcp(7), TCP_CORK).
    pub(crate) fn poll_write_more(
        &mut self,
        context: &mut Context<'_>,
        chunks: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_by(context, |socket| {
            let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
            Ok(sendmsg(socket, chunks, &mut SendAncillaryBuffer::default(), flags)?)
        })
    }

    /// Whether `poll_send_file` waits for nobody. On a unix socket it takes a lock of the client's socket (before Linux 6.5), which the client may hold.
    pub(crate) fn sends_files(&self) -> bool {
        !self.is_unix
    }

    /// Writes a part of a file. Its contents must not change, because the kernel may read them after this returns.
    pub(crate) fn poll_send_file(
        &mut self,
        context: &mut Context<'_>,
        file: BorrowedFd<'_>,
        part: Range<u64>,
    ) -> Poll<io::Result<usize>> {
        let bytes = usize::try_from(part.end - part.start).unwrap_or(usize::MAX);
        self.poll_write_by(context, |socket| {
            Ok(sendfile(socket, file, Some(&mut part.start.clone()), bytes)?)
        })
    }

    /// Writes with the caller's system call: at once, because there is nearly always room, or else when there is.
    fn poll_write_by(
        &mut self,
        context: &mut Context<'_>,
        write: impl Fn(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let written = match write(self.fd()?) {
            Err(error) if is_temporary(&error) => ready!(self.poll_write_later(context, write)),
            written => written,
        };
        if let Ok(bytes) = written {
            self.sent = self.sent.wrapping_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
        Poll::Ready(written)
    }

    fn poll_write_later(
        &mut self,
        context: &mut Context<'_>,
        write: impl Fn(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let socket = self.registered()?;
        loop {
            ready!(socket.poll_write_ready(context))?;
            match socket.try_io(Interest::WRITABLE, || write(socket.as_fd())) {
                Err(error) if is_temporary(&error) => {}
                written => return Poll::Ready(written),
            }
        }
    }

    /// Bytes that the kernel has taken to send; wraps around.
    pub(crate) fn sent(&self) -> u32 {
        self.sent
    }

    /// Bytes that the kernel has taken to send, and that the client has not acknowledged.
    pub(crate) fn unacknowledged(&self) -> u32 {
        let bytes = self.fd().and_then(sluice_membuf::unacknowledged_bytes);
        bytes.unwrap_or(0)
    }

    /// Ready when there are bytes to read, or the client has closed.
    pub(crate) fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.registered() {
            Ok(socket) => socket.poll_read_ready(context).map(|_| ()),
            Err(_) => Poll::Ready(()),
        }
    }

    /// Peeks at the next bytes. 0 if the client has closed.
    pub(crate) fn poll_peek(&mut self, context: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        self.registered()?.poll_peek(context, &mut ReadBuf::new(bytes))
    }

    /// Which sides of the connection the client has closed, even if bytes that it sent before are still unread.
    pub(crate) fn client_end(&self) -> ClientEnd {
        let Ok(socket) = self.fd() else {
            return ClientEnd::Gone;
        };
        let mut sides = [PollFd::new(&socket, PollFlags::RDHUP)];
        if poll(&mut sides, Some(&Timespec::default())).is_err() {
            return ClientEnd::Open;
        }
        match sides[0].revents() {
            events if events.intersects(PollFlags::HUP | PollFlags::ERR) => ClientEnd::Gone,
            events if events.contains(PollFlags::RDHUP) => ClientEnd::HalfClosed,
            _ => ClientEnd::Open,
        }
    }

    /// Whether received bytes are still unread.
    pub(crate) fn has_unread(&self) -> bool {
        let peeked = self
            .fd()
            .map(|socket| rustix::net::recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT));
        matches!(peeked, Ok(Ok((1.., _))))
    }

    /// Ends writing and waits for the client to close its side, so that the bytes sent arrive.
    pub(crate) async fn linger(&mut self) {
        if self.end_writing().is_err() {
            return;
        }
        let (begun, mut discarded) = (Instant::now(), 0);
        while let Some(time) = linger_time(discarded) {
            let read = poll_fn(|context| self.poll_discard(context));
            let until = (begun + time).min(Instant::now() + LINGER_SILENCE);
            match tokio::time::timeout_at(until, read).await {
                Ok(Ok(length @ 1..)) => discarded += length as u64,
                _ => break,
            }
        }
    }

    /// Discards received bytes. 0 if the client has closed its side.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut unread = [const { MaybeUninit::uninit() }; LINGER_READ_BYTES];
        let mut buffer = ReadBuf::uninit(&mut unread);
        ready!(self.poll_read(context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Shuts down the sending side.
    pub(crate) fn end_writing(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(self.fd()?, Shutdown::Write)?)
    }

    /// Turns the coming close into a reset.
    pub(crate) fn reset_at_close(&self) -> io::Result<()> {
        SockRef::from(&self.fd()?).set_linger(Some(Duration::ZERO))
    }
}

/// A socket on which descriptors can arrive is closed elsewhere, with those in its queue.
impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(peer) = self.peer.take() {
            let socket = match mem::replace(&mut self.state, State::Lost) {
                State::Direct { socket, .. } => Some(socket),
                State::Registered(socket) => socket.into_std().ok(),
                State::Lost => None,
            };
            if let Some(socket) = socket {
                peer.close(OwnedFd::from(socket));
            }
        }
    }
}

/// For rustls, which reads and writes through these traits.
impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Socket::poll_read(self.get_mut(), context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Socket::poll_write_vectored(self.get_mut(), context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        chunks: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Socket::poll_write_vectored(self.get_mut(), context, chunks)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.end_writing())
    }
}

/// How long a closing connection stays after so many bytes were discarded. `None` if they are too many.
fn linger_time(discarded: u64) -> Option<Duration> {
    let earned = Duration::from_secs(discarded / LINGER_RATE);
    (discarded < LINGER_BYTES_MAX).then(|| LINGER_MAX.min(LINGER + earned))
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn lost() -> io::Error {
    io::Error::other("the socket could not be registered with the event loop")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_goes_on_sending_has_time_but_one_that_drips_has_not() {
        let seconds = |discarded| linger_time(discarded).map(|time| time.as_secs());
        assert_eq!([seconds(0), seconds(100)], [Some(1); 2]);
        assert_eq!(seconds(64 << 10), Some(17));
        // A full megabyte was the end before.
        assert_eq!([seconds(1 << 20), seconds((1 << 30) - 1)], [Some(30); 2]);
        assert_eq!(seconds(1 << 30), None);
    }
}
