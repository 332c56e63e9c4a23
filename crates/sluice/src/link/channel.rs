//! The channel between supervisor and server process: messages with descriptors, over a pair of SOCK_SEQPACKET sockets.
//!
//! A message is JSON. It may need several records: each begins with `+` (more follow) or `.` (the last one). Descriptors go with the first
//! ones (SCM_RIGHTS, unix(7)). The child gets its end as standard input, the only descriptor that a program can take over without further
//! agreement. Here: sending and receiving. Not here: what is said (`message`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Bytes of a message in one record.
const RECORD_BYTES: usize = 32 << 10;

/// Descriptors with one record; the kernel allows 253.
const RECORD_FDS: usize = 64;

/// Bytes of a message at most. Those of the server process are not trusted.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

const MORE: u8 = b'+';
const LAST: u8 = b'.';

/// One end of a channel.
pub(crate) struct Channel {
    // The socket is SOCK_SEQPACKET; only readiness and its descriptor are used of this type.
    socket: UnixStream,
    /// The part of the next message that has arrived.
    text: Vec<u8>,
    fds: Vec<OwnedFd>,
    /// Some of its descriptors found no room in this process.
    are_fds_missing: bool,
}

/// A message that has arrived.
pub(crate) struct Received<T> {
    pub(crate) message: T,
    /// Empty if this process had no room for all of them.
    pub(crate) fds: Vec<OwnedFd>,
}

/// Both ends, which do not block and are closed by execve(2).
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

impl Channel {
    /// The channel over an end; call it within an event loop.
    pub(crate) fn new(end: OwnedFd) -> io::Result<Channel> {
        Ok(Channel {
            socket: UnixStream::from_std(StdStream::from(end))?,
            text: Vec::new(),
            fds: Vec::new(),
            are_fds_missing: false,
        })
    }

    /// The channel over standard input, which becomes /dev/null.
    pub(crate) fn of_stdin() -> io::Result<Channel> {
        let end = io::stdin().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
        rustix::io::ioctl_fionbio(&end, true)?;
        Channel::new(end)
    }

    /// The descriptor, for another process that goes on with the channel.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a message. Waits while the other side does not read.
    pub(crate) async fn send(&self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        for record in records(&text, fds) {
            loop {
                self.socket.writable().await?;
                let sent = self
                    .socket
                    .try_io(Interest::WRITABLE, || send_record(self.socket.as_fd(), &record));
                match sent {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    sent => break sent?,
                }
            }
        }
        Ok(())
    }

    /// The next message. `None` if the other side is gone. May be cancelled: what has arrived is kept.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<Received<T>>> {
        loop {
            self.socket.readable().await?;
            let (text, fds, are_missing) = (&mut self.text, &mut self.fds, &mut self.are_fds_missing);
            let socket = &self.socket;
            let received = socket.try_io(Interest::READABLE, || {
                receive_record(socket.as_fd(), text, fds, are_missing)
            });
            match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The other side has ended without reading everything.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
                Ok(None) => return Ok(None),
                Ok(Some(MORE)) if self.text.len() <= MESSAGE_BYTES_MAX => {}
                Ok(Some(LAST)) => {
                    let (text, mut fds) = (std::mem::take(&mut self.text), std::mem::take(&mut self.fds));
                    if std::mem::take(&mut self.are_fds_missing) {
                        fds.clear();
                    }
                    let message = serde_json::from_slice(&text)?;
                    return Ok(Some(Received { message, fds }));
                }
                Ok(Some(_)) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }
}

/// Sends a whole message at once, for a process that goes on with this socket later.
///
/// # Errors
/// It does not fit the socket's buffer.
pub(crate) fn send_now(socket: BorrowedFd<'_>, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    records(&text, fds)
        .iter()
        .try_for_each(|record| send_record(socket, record))
}

/// A part of a message.
struct Record<'a> {
    kind: [u8; 1],
    text: &'a [u8],
    fds: &'a [BorrowedFd<'a>],
}

fn records<'a>(text: &'a [u8], fds: &'a [BorrowedFd<'a>]) -> Vec<Record<'a>> {
    let count = text
        .len()
        .div_ceil(RECORD_BYTES)
        .max(fds.len().div_ceil(RECORD_FDS))
        .max(1);
    let (mut texts, mut fds) = (text.chunks(RECORD_BYTES), fds.chunks(RECORD_FDS));
    let record = |index| Record {
        kind: [if index + 1 == count { LAST } else { MORE }],
        text: texts.next().unwrap_or_default(),
        fds: fds.next().unwrap_or_default(),
    };
    (0..count).map(record).collect()
}

fn send_record(socket: BorrowedFd<'_>, record: &Record<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RECORD_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !record.fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(record.fds)) {
        return Err(io::Error::other("too many descriptors"));
    }
    let parts = [IoSlice::new(&record.kind), IoSlice::new(record.text)];
    sendmsg(
        socket,
        &parts,
        &mut ancillary,
        SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Appends a record to what has arrived. Returns its kind; `None` at the end.
fn receive_record(
    socket: BorrowedFd<'_>,
    text: &mut Vec<u8>,
    fds: &mut Vec<OwnedFd>,
    are_fds_missing: &mut bool,
) -> io::Result<Option<u8>> {
    let mut record = vec![0; 1 + RECORD_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RECORD_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut record)], &mut ancillary, flags)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // The receiver has no descriptor left. The message is refused by whoever needs them, and no more than that.
    *are_fds_missing |= received.flags.contains(ReturnFlags::CTRUNC);
    match record[..received.bytes].split_first() {
        None => Ok(None),
        Some((kind, part)) => {
            text.extend_from_slice(part);
            Ok(Some(*kind))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("an event loop").block_on(work)
    }

    #[test]
    fn large_messages_and_many_descriptors_arrive_whole() {
        block_on(async {
            let (near, far) = pair().expect("sockets");
            let (near, mut far) = (
                Channel::new(near).expect("a channel"),
                Channel::new(far).expect("a channel"),
            );
            let (mut reader, writer) = io::pipe().expect("a pipe");
            let text = "x".repeat(RECORD_BYTES * 20);
            let fds = vec![writer.as_fd(); RECORD_FDS * 2 + 1];
            let (sent, received) = tokio::join!(near.send(&text, &fds), far.next::<String>());
            sent.expect("a reader");
            let received = received.expect("a message").expect("no end");
            assert_eq!((received.message, received.fds.len()), (text, fds.len()));
            drop(fds);
            drop(writer);
            std::fs::File::from(received.fds.into_iter().next().expect("a descriptor"))
                .write_all(b"a")
                .expect("a pipe");
            let mut read = String::new();
            reader.read_to_string(&mut read).expect("a pipe whose writers are gone");
            assert_eq!(read, "a");
            drop(near);
            assert!(far.next::<String>().await.expect("an end").is_none());
        });
    }

    #[test]
    fn other_records_are_refused() {
        block_on(async {
            for (record, is_refused) in [(&b".\"a\""[..], false), (b"?\"a\"", true), (b".{", true)] {
                let (near, far) = pair().expect("sockets");
                let mut far = Channel::new(far).expect("a channel");
                rustix::io::write(&near, record).expect("room for a record");
                assert_eq!(far.next::<String>().await.is_err(), is_refused, "{record:?}");
            }
        });
    }
}
