//! The mailbox: what a script writes to its standard output, read without waiting for more than is there.
//!
//! Here: the two kinds, a pipe (bytes) and a SOCK_SEQPACKET socket (records), and how much is read at a time: little for a
//! script that says little, up to `READ_BYTES_MAX` for one that keeps the mailbox full, whose pipe is then also made
//! larger. Not here: what the bytes mean (`relay`).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use sluice_settings as settings;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// The first reads, bytes: most replies fit.
const READ_BYTES_MIN: usize = 16 << 10;

/// The largest read, bytes. Larger ones gain nothing: the second level cache is about as large.
const READ_BYTES_MAX: usize = 256 << 10;

/// A pipe's size as the system makes it, bytes (pipe(7)).
const PIPE_BYTES: usize = 64 << 10;

/// The size, bytes, of the pipe of a process whose replies do not fit that: so that 64 KiB and their head leave the script in
/// one write and are here in one read. It keeps it; 512 such pipes are all that an ordinary user may have
/// (pipe-user-pages-soft).
const PIPE_BYTES_ROOMY: usize = 128 << 10;

/// A pipe's size while a script says much, bytes: pipe-max-size, which needs no privilege. Not for longer than it does: 64
/// of them are all that an ordinary user may have, and further pipes would be tiny.
const PIPE_BYTES_LARGE: usize = 1 << 20;

/// What a script says in one reply until it says much, bytes.
const MUCH_BYTES: usize = 256 << 10;

/// The reading end of a mailbox.
pub(crate) enum Mailbox {
    Stream(Stream),
    Record(Records),
}

impl Mailbox {
    pub(crate) fn new(descriptor: OwnedFd, kind: settings::Mailbox, record_bytes_max: usize) -> io::Result<Mailbox> {
        Ok(match kind {
            settings::Mailbox::Stream => Mailbox::Stream(Stream {
                pipe: pipe::Receiver::from_owned_fd_unchecked(descriptor)?,
                buffer: BytesMut::new(),
                read_bytes: READ_BYTES_MIN,
                reply_bytes: 0,
                pipe_bytes: PIPE_BYTES,
            }),
            settings::Mailbox::Record => Mailbox::Record(Records {
                socket: UnixStream::from_std(descriptor.into())?,
                record_bytes_max,
            }),
        })
    }

    /// The next bytes, or the next record; `None` at end-of-file.
    pub(crate) fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        match self {
            Mailbox::Stream(stream) => stream.poll_read(context),
            Mailbox::Record(records) => records.poll_read(context),
        }
    }

    /// What is there at this moment, whatever the event loop has heard of it: `WouldBlock` if nothing is.
    ///
    /// `poll_read` goes by the event loop's last word, which may be older than what another thread has told, such as the
    /// process's end.
    pub(crate) fn read_now(&mut self) -> io::Result<Option<Bytes>> {
        match self {
            Mailbox::Stream(stream) => {
                let mut bytes = Vec::with_capacity(READ_BYTES_MIN);
                let length = rustix::io::read(stream.pipe.as_fd(), spare_capacity(&mut bytes))?;
                Ok((length > 0).then(|| bytes.into()))
            }
            Mailbox::Record(records) => records.receive(),
        }
    }

    /// What has come since the last reply, as far as the event loop has heard; cheap where it has heard of nothing.
    pub(crate) fn read_early(&mut self) -> io::Result<Option<Bytes>> {
        match self {
            Mailbox::Stream(stream) => {
                let mut bytes = [0; 64];
                let length = stream.pipe.try_read(&mut bytes)?;
                Ok((length > 0).then(|| Bytes::copy_from_slice(&bytes[..length])))
            }
            Mailbox::Record(records) => records.socket.try_io(Interest::READABLE, || records.receive()),
        }
    }

    /// The reply is over: what was held for it is given back.
    pub(crate) fn rest(&mut self) {
        if let Mailbox::Stream(stream) = self {
            stream.rest();
        }
    }

    /// Moves to the event loop of the calling worker.
    pub(crate) fn rebind(self) -> io::Result<Mailbox> {
        Ok(match self {
            Mailbox::Stream(stream) => Mailbox::Stream(Stream {
                pipe: pipe::Receiver::from_owned_fd_unchecked(stream.pipe.into_nonblocking_fd()?)?,
                ..stream
            }),
            Mailbox::Record(records) => Mailbox::Record(Records {
                socket: UnixStream::from_std(records.socket.into_std()?)?,
                ..records
            }),
        })
    }
}

/// A pipe.
pub(crate) struct Stream {
    pipe: pipe::Receiver,
    buffer: BytesMut,
    read_bytes: usize,
    /// Read since the last rest.
    reply_bytes: usize,
    pipe_bytes: usize,
}

impl Stream {
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            // What earlier reads left of the buffer is used up before a new one is made.
            if self.buffer.capacity() < self.read_bytes.min(READ_BYTES_MIN) / 2 {
                self.buffer = BytesMut::with_capacity(self.read_bytes);
            }
            let room = self.buffer.capacity();
            match self.pipe.try_read_buf(&mut self.buffer) {
                Ok(0) => return Poll::Ready(Ok(None)),
                Ok(length) => {
                    self.reply_bytes += length;
                    if length == room {
                        self.grow();
                    } else {
                        self.note_drained();
                    }
                    self.widen();
                    return Poll::Ready(Ok(Some(self.buffer.split().freeze())));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.pipe.poll_read_ready(context))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// The read took all there was: so that no further read is needed to find that out (epoll(7), edge-triggered).
    fn note_drained(&self) {
        let _ = self
            .pipe
            .try_io(|| Err::<(), _>(io::Error::from(io::ErrorKind::WouldBlock)));
    }

    /// The read took all it could: there is more to come.
    fn grow(&mut self) {
        self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_MAX);
    }

    /// Makes the pipe as large as what the script says deserves.
    fn widen(&mut self) {
        let wanted = match self.reply_bytes {
            MUCH_BYTES.. => PIPE_BYTES_LARGE,
            PIPE_BYTES.. => PIPE_BYTES_ROOMY,
            _ => PIPE_BYTES,
        };
        if wanted > self.pipe_bytes {
            self.resize(wanted);
        }
    }

    fn resize(&mut self, bytes: usize) {
        self.pipe_bytes = bytes;
        // Refused when there are too many: then it stays as it is.
        let _ = rustix::pipe::fcntl_setpipe_size(self.pipe.as_fd(), bytes);
    }

    fn rest(&mut self) {
        self.reply_bytes = 0;
        self.buffer = BytesMut::new();
        self.read_bytes = self.read_bytes.min(PIPE_BYTES_ROOMY);
        if self.pipe_bytes > PIPE_BYTES_ROOMY {
            self.resize(PIPE_BYTES_ROOMY);
        }
    }
}

/// A socket that keeps the boundaries of writes.
pub(crate) struct Records {
    /// Of another type than its name says: what is used of it, its place in the event loop, is the same for both.
    socket: UnixStream,
    record_bytes_max: usize,
}

impl Records {
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            ready!(self.socket.poll_read_ready(context))?;
            match self.socket.try_io(Interest::READABLE, || self.receive()) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                received => return Poll::Ready(received),
            }
        }
    }

    fn receive(&self) -> io::Result<Option<Bytes>> {
        let mut record = Vec::with_capacity(self.record_bytes_max);
        match rustix::net::recv(&self.socket, spare_capacity(&mut record), RecvFlags::TRUNC) {
            Ok((kept, sent)) if kept < sent => {
                let text = format!("a record of {sent} bytes, the largest is {kept}");
                Err(io::Error::new(io::ErrorKind::InvalidData, text))
            }
            // An empty record and the end look alike (recv(2)).
            Ok((0, _)) => Ok(self.is_open().then(Bytes::new)),
            Ok(_) => Ok(Some(record.into())),
            // A script that ends with its input unread resets the socket: for us that is the end as well.
            Err(Errno::CONNRESET) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The script still holds its end.
    fn is_open(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut ends = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = poll(&mut ends, Some(&now));
        !ends[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP)
    }
}
