//! The channel between supervisor and server process: messages with descriptors, over a pair of SOCK_SEQPACKET sockets.
//!
//! A message is JSON. It may need several records: each begins with `+` (more follow) or `.` (the last one). Descriptors go with the first
//! ones (SCM_RIGHTS, unix(7)). The child gets its end as standard input, the only descriptor that a program can take over without further
//! agreement. Only the supervisor sends any; it takes none, because their close could wait for another process.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sluice_launch::{ForeignDescriptors, UNKNOWN_USER, receive, refuse_descriptors};
use tokio::io::Interest;
use tokio::net::UnixStream;

const RECORD_BYTES: usize = 32 << 10;

/// Descriptors with one record; the kernel allows 253.
const RECORD_FDS: usize = 64;

/// Bytes of a message to the supervisor at most, whose sender is not trusted.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Bytes of a message of the supervisor at most. The plan of a launcher has each directory of scripts.
const PLAN_BYTES_MAX: usize = 256 << 20;

pub(crate) const UNSAID: &str = "the supervisor did not say how to start";

const MORE: u8 = b'+';
const LAST: u8 = b'.';

pub(crate) struct Channel {
    // The socket is SOCK_SEQPACKET; only readiness and its descriptor are used of this type.
    socket: UnixStream,
    /// The part of the next message that has arrived.
    text: Vec<u8>,
    fds: Vec<OwnedFd>,
    /// Some of its descriptors found no room in this process.
    are_fds_missing: bool,
    other: OtherSide,
}

/// The process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherSide {
    /// The supervisor, whose messages may have descriptors.
    Supervisor,
    /// A process that parses what others send: its messages have none.
    Untrusted,
}

impl OtherSide {
    fn message_bytes_max(self) -> usize {
        match self {
            OtherSide::Supervisor => PLAN_BYTES_MAX,
            OtherSide::Untrusted => MESSAGE_BYTES_MAX,
        }
    }
}

pub(crate) struct Received<T> {
    pub(crate) message: T,
    /// Empty if this process had no room for all of them.
    pub(crate) fds: Vec<OwnedFd>,
}

/// Both ends, which do not block and are closed by execve(2): that of the supervisor, which takes no descriptors, and the other one.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    refuse_descriptors(&near);
    Ok((near, far))
}

impl Channel {
    /// The channel over the supervisor's end, to a process that is not trusted; call it within an event loop.
    pub(crate) fn to_untrusted(end: OwnedFd) -> io::Result<Channel> {
        Channel::new(end, OtherSide::Untrusted)
    }

    fn new(end: OwnedFd, other: OtherSide) -> io::Result<Channel> {
        Ok(Channel {
            other,
            socket: UnixStream::from_std(StdStream::from(end))?,
            text: Vec::new(),
            fds: Vec::new(),
            are_fds_missing: false,
        })
    }

    /// The channel of a process that the supervisor has started, and the first message, its role. Fails without a channel: the process was started by hand.
    pub(crate) async fn begin<T: DeserializeOwned>() -> Result<(Channel, Received<T>), String> {
        let by_hand = |error| format!("this is started by `sluice run`, not by hand: standard input: {error}");
        let mut channel = Channel::of_stdin().map_err(by_hand)?;
        let received = channel.next().await.map_err(by_hand)?;
        Ok((channel, received.ok_or(UNSAID)?))
    }

    /// The channel over standard input, which becomes /dev/null.
    pub(crate) fn of_stdin() -> io::Result<Channel> {
        let end = io::stdin().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
        rustix::io::ioctl_fionbio(&end, true)?;
        Channel::new(end, OtherSide::Supervisor)
    }

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
            let received = match self.socket.try_io(Interest::READABLE, || self.receive_record()) {
                Ok(Some(record)) => self.add(record).map(Some),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The other side has ended without reading everything.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
                Ok(None) => return Ok(None),
                Ok(Some(MORE)) if self.text.len() <= self.other.message_bytes_max() => {}
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

struct Arrived {
    /// The kind, and the text.
    bytes: Vec<u8>,
    descriptors: ForeignDescriptors,
}

impl Channel {
    /// Receives a record. `None` at the end.
    fn receive_record(&self) -> io::Result<Option<Arrived>> {
        let mut bytes = vec![0; 1 + RECORD_BYTES];
        let received = receive(self.socket.as_fd(), &mut bytes, UNKNOWN_USER)?;
        if received.is_cut {
            return Err(io::ErrorKind::InvalidData.into());
        }
        bytes.truncate(received.bytes);
        Ok((received.bytes > 0).then_some(Arrived { bytes, descriptors: received.descriptors }))
    }

    /// Appends a record to what has arrived. Returns its kind.
    fn add(&mut self, record: Arrived) -> io::Result<u8> {
        if self.other == OtherSide::Untrusted && !record.descriptors.is_empty() {
            // They are closed on another thread.
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it has sent descriptors that nobody expects",
            ));
        }
        let Some((kind, part)) = record.bytes.split_first() else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        self.text.extend_from_slice(part);
        // The receiver has no descriptor left. The message is refused by whoever needs them, and no more than that.
        self.are_fds_missing |= record.descriptors.are_missing();
        self.fds.extend(record.descriptors.into_expected());
        Ok(*kind)
    }
}

/// Sends a whole message at once, for a process that goes on with this socket later. Fails if it does not fit the socket's buffer.
pub(crate) fn send_now(socket: BorrowedFd<'_>, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    records(&text, fds)
        .iter()
        .try_for_each(|record| send_record(socket, record))
}

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
                Channel::to_untrusted(near).expect("a channel"),
                Channel::new(far, OtherSide::Supervisor).expect("a channel"),
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
                let mut far = Channel::new(far, OtherSide::Supervisor).expect("a channel");
                rustix::io::write(&near, record).expect("room for a record");
                assert_eq!(far.next::<String>().await.is_err(), is_refused, "{record:?}");
            }
        });
    }

    #[test]
    fn a_message_to_the_supervisor_is_bounded_and_one_of_it_may_be_larger() {
        block_on(async {
            let text = "x".repeat(MESSAGE_BYTES_MAX + 2 * RECORD_BYTES);
            for is_to_supervisor in [true, false] {
                let (near, far) = pair().expect("sockets");
                let near = Channel::to_untrusted(near).expect("a channel");
                let far = Channel::new(far, OtherSide::Supervisor).expect("a channel");
                let (sender, mut receiver) = if is_to_supervisor { (far, near) } else { (near, far) };
                let sending = async {
                    // It fails when the receiver has refused it.
                    let _ = sender.send(&text, &[]).await;
                };
                let receiving = async {
                    let received = receiver
                        .next::<String>()
                        .await
                        .map(|received| received.map(|it| it.message));
                    drop(receiver);
                    received
                };
                let ((), received) = tokio::join!(sending, receiving);
                match is_to_supervisor {
                    true => assert_eq!(received.unwrap_err().kind(), io::ErrorKind::InvalidData),
                    false => assert!(received.expect("a message").is_some_and(|arrived| arrived == text)),
                }
            }
        });
    }

    #[test]
    fn the_supervisor_takes_no_descriptors_of_others() {
        block_on(async {
            let (near, far) = pair().expect("sockets");
            let is_refused = sluice_launch::passing(&near) == sluice_launch::Passing::Refused;
            let mut near = Channel::to_untrusted(near).expect("a channel");
            let far = Channel::new(far, OtherSide::Supervisor).expect("a channel");
            let (_reader, writer) = io::pipe().expect("a pipe");
            let sent = far.send(&"a", &[writer.as_fd()]).await;
            match is_refused {
                true => assert!(sent.is_err()),
                false => assert!(near.next::<String>().await.is_err()),
            }
        });
    }

    #[test]
    fn on_older_kernels_descriptors_of_others_end_the_channel_and_are_closed_before_they_pile_up() {
        block_on(async {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let sockets = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
            let (near, far) = sockets.expect("sockets");
            let (mut reader, writer) = io::pipe().expect("a pipe");
            let fds = [writer.as_fd()];
            let record = Record { kind: [MORE], text: b"a", fds: &fds };
            send_record(far.as_fd(), &record).expect("room for a record");
            let mut near = Channel::to_untrusted(near).expect("a channel");
            assert!(near.next::<String>().await.is_err());
            assert!(near.fds.is_empty());
            drop(writer);
            let mut rest = String::new();
            reader.read_to_string(&mut rest).expect("a pipe whose writers are gone");
        });
    }
}
