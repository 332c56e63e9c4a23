//! The mailbox: the server's end of a script's standard output, read without blocking.
//!
//! It is a SOCK_STREAM socket (bytes), a SOCK_SEQPACKET socket (records), or a pipe for scripts that need one, which threads read (`pipe_reader`).
//! Little is read at a time for short replies, up to `CHUNK_BYTES_MAX` for a script that keeps the mailbox full.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_passcred;
use sluice_settings as settings;
use tokio::time::timeout;

use crate::process::{PipeEnd, PipeReader, Record, ScriptSocket};

/// Size of the first reads, bytes: most replies fit.
const READ_BYTES_MIN: usize = 16 << 10;

/// Bytes of a read of a pipe: what it can hold.
const PIPE_BYTES: usize = 64 << 10;

/// Largest chunk, bytes, because few large sends cost less than many, here and in the client.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// How many times larger than the largest chunk to come the memory of the last one may be, so that it is used again.
const LARGER_MAX: usize = 4;

/// How long a newline may take that is taken out of a pipe.
const LATE_NEWLINE_MAX: Duration = Duration::from_secs(2);

/// After a chunk that fills less than this part of its room, that of a long reply is halved.
const LITTLE_SHARE: usize = 8;

/// Largest chunk, bytes, that a reply begins with.
const ROOMY_BYTES: usize = 128 << 10;

/// Room for records that is allocated at a time, bytes. Short records share it.
const RECORD_BUFFER_BYTES: usize = 128 << 10;

pub(crate) enum Mailbox {
    Stream(Stream),
    Record(Records),
    /// A pipe, for a script that opens it by a name.
    Pipe(PipeReader),
}

impl Mailbox {
    /// Registers the socket of a script of this user with the calling worker's event loop.
    pub(crate) fn new(
        descriptor: OwnedFd,
        kind: settings::Mailbox,
        record_bytes_max: usize,
        user: u32,
    ) -> io::Result<Mailbox> {
        Ok(match kind {
            settings::Mailbox::Stream | settings::Mailbox::Pipe => Mailbox::Stream(Stream {
                socket: ScriptSocket::new(descriptor, user)?,
                buffer: BytesMut::new(),
                buffer_bytes: 0,
                chunk_bytes: READ_BYTES_MIN,
                chunk_bytes_max: CHUNK_BYTES_MAX,
            }),
            settings::Mailbox::Record => {
                // Each record then comes with the credentials of its sender, the end without: otherwise an empty record and the end look alike (recv(2)).
                set_socket_passcred(&descriptor, true)?;
                Mailbox::Record(Records {
                    socket: ScriptSocket::new(descriptor, user)?,
                    record_bytes_max,
                    buffer: BytesMut::new(),
                })
            }
        })
    }

    pub(crate) fn of_pipe(end: PipeEnd) -> io::Result<Mailbox> {
        Ok(Mailbox::Pipe(PipeReader::new(end, PIPE_BYTES)?))
    }

    /// The next bytes, or the next record; `None` at end-of-file.
    pub(crate) fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        match self {
            Mailbox::Stream(stream) => stream.poll_read(context),
            Mailbox::Record(records) => records.poll_read(context),
            Mailbox::Pipe(pipe) => pipe.poll_read(context).map(|bytes| Ok(bytes.map(Bytes::from))),
        }
    }

    /// Whether a thread has to read it first, or does: `poll_read` says when it has.
    pub(crate) fn needs_thread(&self) -> bool {
        matches!(self, Mailbox::Pipe(pipe) if pipe.shared().has_bytes())
    }

    /// The bytes or the record that are there at this moment; `WouldBlock` if there are none. `poll_read` relies on the event loop's last readiness event, which may be older than what the caller already knows, such as
    /// the end of the process.
    pub(crate) fn read_now(&mut self) -> io::Result<Option<Bytes>> {
        match self {
            Mailbox::Stream(stream) => {
                let mut bytes = vec![0; READ_BYTES_MIN];
                let length = stream.socket.read(&mut bytes)?;
                bytes.truncate(length);
                Ok((length > 0).then(|| bytes.into()))
            }
            Mailbox::Record(records) => records.receive(),
            Mailbox::Pipe(pipe) => match pipe.shared().has_ended() {
                true => Ok(None),
                false => Err(io::ErrorKind::WouldBlock.into()),
            },
        }
    }

    /// Has a thread take out the newline that may follow the end sentinel, if the mailbox is a pipe and has something: `silence` then tells the rest.
    pub(crate) async fn take_late_newline(&mut self) {
        if let Mailbox::Pipe(pipe) = self
            && pipe.shared().has_bytes()
        {
            // A script that keeps the pipe locked is ended.
            let _ = timeout(LATE_NEWLINE_MAX, poll_fn(|context| pipe.poll_late_newline(context))).await;
        }
    }

    /// Whether anything has arrived between two replies. Always asks the kernel: what the event loop knows is as old as its last turn.
    pub(crate) fn silence(&self) -> Silence {
        if let Mailbox::Pipe(pipe) = self {
            return match pipe.shared() {
                shared if shared.has_bytes() => Silence::Broken,
                shared if shared.has_ended() => Silence::Closed,
                _ => Silence::Kept,
            };
        }
        let mut bytes = [0; 64];
        match self.read_into(&mut bytes) {
            // The newline that may follow the sentinel.
            Ok(1) if bytes[0] == b'\n' => Silence::of(self.read_into(&mut bytes)),
            read => Silence::of(read),
        }
    }

    /// Whether nothing is there at this moment. Always asks the kernel.
    pub(crate) fn is_empty(&self) -> bool {
        let fd = match self {
            Mailbox::Stream(stream) => stream.socket.as_fd(),
            Mailbox::Record(records) => records.socket.as_fd(),
            Mailbox::Pipe(pipe) => return !pipe.shared().has_bytes(),
        };
        rustix::io::ioctl_fionread(fd).is_ok_and(|unread| unread == 0)
    }

    /// Whether another record is there at this moment, which stays there; a newline, which may follow the end sentinel, does not
    /// count. Always false for a stream, which is read as far as it goes.
    pub(crate) fn has_next_record(&self) -> bool {
        let Mailbox::Record(records) = self else { return false };
        let mut bytes = [0; 2];
        match records.socket.peek(&mut bytes) {
            Ok(length) => length > 0 && bytes[..length] != *b"\n",
            Err(_) => false,
        }
    }

    /// The first bytes that are there at this moment, or of the record that is; the rest of a record is lost.
    fn read_into(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Mailbox::Stream(stream) => stream.socket.read(bytes),
            Mailbox::Record(records) => records.socket.read(bytes),
            Mailbox::Pipe(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Sets the largest number of bytes of the chunks to come; a record is read as a whole.
    pub(crate) fn limit_reads(&mut self, bytes_max: usize) {
        if let Mailbox::Stream(stream) = self {
            stream.chunk_bytes_max = bytes_max.max(READ_BYTES_MIN);
        }
    }

    /// A reply begins. If that is expected to be a short one, it uses the room that the one before has left in `spare`.
    pub(crate) fn begin_reply(&mut self, spare: &Cell<BytesMut>) {
        if let Mailbox::Stream(stream) = self
            && stream.chunk_bytes == READ_BYTES_MIN
        {
            (stream.buffer, stream.buffer_bytes) = (spare.take(), 0);
        }
    }

    /// The reply is complete: releases its memory. What a short one has left is put into `spare`, for the next one of any process.
    pub(crate) fn end_reply(&mut self, spare: &Cell<BytesMut>) {
        match self {
            Mailbox::Stream(stream) => stream.end_reply(spare),
            Mailbox::Record(records) => records.buffer = BytesMut::new(),
            Mailbox::Pipe(_) => {}
        }
    }

    pub(crate) fn rebind(&mut self) -> io::Result<()> {
        match self {
            Mailbox::Stream(stream) => stream.socket.rebind(),
            Mailbox::Record(records) => records.socket.rebind(),
            Mailbox::Pipe(pipe) => pipe.rebind(),
        }
    }
}

/// The state of a mailbox between two replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    Kept,
    Broken,
    Closed,
}

impl Silence {
    fn of(read: io::Result<usize>) -> Silence {
        match read {
            Ok(1..) => Silence::Broken,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Silence::Kept,
            // An empty record looks like the end here, and neither can be used.
            Ok(0) | Err(_) => Silence::Closed,
        }
    }
}

pub(crate) struct Stream {
    socket: ScriptSocket,
    buffer: BytesMut,
    /// Size of the memory that `buffer` is a part of, bytes, where it is larger than that of short replies. The smallest chunk keeps all of it.
    buffer_bytes: usize,
    /// Room of the next chunk, bytes.
    chunk_bytes: usize,
    /// Largest chunk, as the client of the present reply allows.
    chunk_bytes_max: usize,
}

impl Stream {
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            let room = self.make_room();
            match self.read(room) {
                Ok(0) => return Poll::Ready(Ok(None)),
                Ok(length) => {
                    let chunk = self.buffer.split().freeze();
                    self.adapt(length, room);
                    return Poll::Ready(Ok(Some(chunk)));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.socket.poll_read_ready(context))?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// The room for the next chunk, bytes: in the memory of the last one, if that was sent, because the processor's cache has it;
    /// otherwise in the rest of it, before other memory is allocated.
    fn make_room(&mut self) -> usize {
        let wanted = self.chunk_bytes.min(self.chunk_bytes_max);
        if self.buffer_bytes > wanted * LARGER_MAX {
            // The client may have little memory now.
            self.drop_buffer();
        }
        let has_room = self.buffer.try_reclaim(wanted);
        if !has_room && self.buffer.capacity() < READ_BYTES_MIN / 2 {
            self.buffer = BytesMut::with_capacity(wanted);
            self.buffer_bytes = wanted;
        }
        self.buffer.capacity().min(wanted)
    }

    /// Reads what is there now, at most `room` bytes; 0 at end-of-file.
    fn read(&mut self, room: usize) -> io::Result<usize> {
        let length = self.socket.try_read_buf(&mut self.buffer, room)?;
        if length < room {
            self.socket.note_drained();
        }
        Ok(length)
    }

    /// Chooses the room of the next chunk after one of `length` bytes in `room`.
    fn adapt(&mut self, length: usize, room: usize) {
        if self.chunk_bytes > self.chunk_bytes_max {
            // The client says how much is read, not the script.
            return;
        }
        if length == room {
            // More bytes are waiting.
            self.chunk_bytes = (self.chunk_bytes * 2).min(CHUNK_BYTES_MAX);
        } else if length < self.chunk_bytes / LITTLE_SHARE && self.chunk_bytes > ROOMY_BYTES {
            self.chunk_bytes /= 2;
            self.drop_buffer();
        }
    }

    fn drop_buffer(&mut self) {
        (self.buffer, self.buffer_bytes) = (BytesMut::new(), 0);
    }

    fn end_reply(&mut self, spare: &Cell<BytesMut>) {
        let room = std::mem::take(&mut self.buffer);
        self.buffer_bytes = 0;
        if self.chunk_bytes == READ_BYTES_MIN {
            spare.set(room);
        }
        self.chunk_bytes = self.chunk_bytes.min(ROOMY_BYTES);
        self.chunk_bytes_max = CHUNK_BYTES_MAX;
    }
}

/// A socket that keeps the boundaries of writes.
pub(crate) struct Records {
    socket: ScriptSocket,
    record_bytes_max: usize,
    /// Room for the next records; those that were received share it, because most are short.
    buffer: BytesMut,
}

impl Records {
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            ready!(self.socket.poll_read_ready(context))?;
            match self.receive_by(ScriptSocket::try_receive) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                received => return Poll::Ready(received),
            }
        }
    }

    fn receive(&mut self) -> io::Result<Option<Bytes>> {
        self.receive_by(ScriptSocket::receive)
    }

    /// One record; `None` at end-of-file.
    fn receive_by(
        &mut self,
        receive: impl Fn(&ScriptSocket, &mut [u8]) -> io::Result<Record>,
    ) -> io::Result<Option<Bytes>> {
        if self.buffer.len() < self.record_bytes_max {
            self.buffer = BytesMut::zeroed(self.record_bytes_max.max(RECORD_BUFFER_BYTES));
        }
        let record = match receive(&self.socket, &mut self.buffer[..self.record_bytes_max]) {
            // A script that ends with its input unread resets the socket: that is its end, too.
            Err(error) if error.raw_os_error() == Some(Errno::CONNRESET.raw_os_error()) => return Ok(None),
            received => received?,
        };
        if record.is_truncated {
            return Err(too_large(record.length, self.record_bytes_max));
        }
        Ok((!record.is_end).then(|| self.buffer.split_to(record.length).freeze()))
    }
}

fn too_large(bytes: usize, bytes_max: usize) -> io::Error {
    let text = format!(
        "a record of {bytes} bytes, the largest is {bytes_max} (record_size of the route, WWW_GATEWAY_MRS): \
         write less at once, or set mailbox = \"stream\""
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
#[path = "mailbox_tests.rs"]
mod tests;
