//! Receiving from an AF_UNIX socket whose peer is not trusted, on a kernel that passes descriptors along.
//!
//! The call has room for as many descriptors as the kernel passes at once, and for each other control message that the socket may have on, so
//! the kernel discards none, which would close them on the calling thread.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use rustix::net::sockopt::{set_socket_passcred, socket_type};
use rustix::net::{Shutdown, SocketType, shutdown};

use crate::foreign::elsewhere::{close_elsewhere, close_foreign, do_elsewhere};

/// Room for 253 descriptors (SCM_MAX_FD, 1032 bytes with their header), credentials (32), a pidfd (24), and a security context of some hundred bytes.
const CONTROL_BYTES: usize = 2048;

/// SCM_PIDFD: a descriptor of the sender, if the socket has SO_PASSPIDFD.
const PIDFD: libc::c_int = 4;

/// Control messages, with the alignment of their headers.
#[repr(C, align(8))]
struct Control([MaybeUninit<u8>; CONTROL_BYTES]);

/// The result of a call that has received something.
#[derive(Debug)]
pub struct Received {
    /// Bytes in the buffer.
    pub bytes: usize,
    /// The record had more bytes than the buffer; the rest is lost (SOCK_SEQPACKET).
    pub is_cut: bool,
    /// The credentials of the sender came along (SO_PASSCRED). On a SOCK_SEQPACKET socket a record without a byte has them, and the end has not.
    pub has_credentials: bool,
    /// The descriptors that came along.
    pub descriptors: ForeignDescriptors,
}

/// Descriptors from a process that is not trusted. Dropping them closes them on another thread.
#[derive(Debug)]
pub struct ForeignDescriptors {
    descriptors: Vec<OwnedFd>,
    user: u32,
    /// Some found no room in this process, or in the message's control data.
    are_missing: bool,
}

impl ForeignDescriptors {
    /// Their number, without those that found no room.
    #[must_use]
    pub fn len(&self) -> usize {
        self.descriptors.len()
    }

    /// Whether the sender has sent none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.descriptors.is_empty() && !self.are_missing
    }

    /// Whether some found no room in this process.
    #[must_use]
    pub fn are_missing(&self) -> bool {
        self.are_missing
    }

    /// The descriptors, for a caller that expects some; their close may wait.
    #[must_use]
    pub fn into_expected(mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.descriptors)
    }
}

impl Drop for ForeignDescriptors {
    fn drop(&mut self) {
        close_elsewhere(self.user, std::mem::take(&mut self.descriptors));
    }
}

/// Receives from a socket whose other end is a process of `user`, without waiting.
///
/// # Errors
/// `WouldBlock`: nothing is there now. Others are those of recv(2).
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8], user: u32) -> io::Result<Received> {
    // SAFETY: bytes may be seen as bytes that need no value, and only initialized ones are written.
    let buffer = unsafe { &mut *(ptr::from_mut(buffer) as *mut [MaybeUninit<u8>]) };
    receive_uninit(socket, buffer, user)
}

/// Receives as [`receive`] does, into memory without a value; the first `bytes` of it have one afterwards.
fn receive_uninit(socket: BorrowedFd<'_>, buffer: &mut [MaybeUninit<u8>], user: u32) -> io::Result<Received> {
    let mut control = Control([MaybeUninit::uninit(); CONTROL_BYTES]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: msghdr is plain data for which all zeros is a valid value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the header points to memory that is valid during the call, with its lengths.
    let bytes = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let Ok(bytes) = usize::try_from(bytes) else {
        return Err(io::Error::last_os_error());
    };
    let (descriptors, has_credentials) = read_control(&header);
    Ok(Received {
        bytes,
        is_cut: header.msg_flags & libc::MSG_TRUNC != 0,
        has_credentials,
        descriptors: ForeignDescriptors {
            descriptors,
            user,
            are_missing: header.msg_flags & libc::MSG_CTRUNC != 0,
        },
    })
}

/// The descriptors that came along, and whether credentials did.
fn read_control(header: &libc::msghdr) -> (Vec<OwnedFd>, bool) {
    let (mut descriptors, mut has_credentials) = (Vec::new(), false);
    // SAFETY: the kernel has filled in the buffer and its length; CMSG_FIRSTHDR and CMSG_NXTHDR stay within.
    unsafe {
        let mut entry = libc::CMSG_FIRSTHDR(header);
        while let Some(found) = entry.as_ref() {
            match (found.cmsg_level, found.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_RIGHTS | PIDFD) => {
                    let mut data = libc::CMSG_DATA(entry).cast::<RawFd>();
                    // The length is a usize with glibc, a u32 with musl.
                    let bytes = u64::try_from(found.cmsg_len).unwrap_or(0);
                    let bytes = bytes.saturating_sub(u64::from(libc::CMSG_LEN(0)));
                    for _ in 0..bytes / size_of::<RawFd>() as u64 {
                        // The kernel has just installed it; nothing else owns it. Without a pidfd the kernel writes an error number.
                        if let number @ 0.. = data.read_unaligned() {
                            descriptors.push(OwnedFd::from_raw_fd(number));
                        }
                        data = data.add(1);
                    }
                }
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => has_credentials = true,
                _ => {}
            }
            entry = libc::CMSG_NXTHDR(header, entry);
        }
    }
    (descriptors, has_credentials)
}

/// Closes a socket whose other end is a process of `user`, with the descriptors in its queue, on another thread. The other side can send nothing more.
pub fn close_socket_elsewhere(user: u32, socket: OwnedFd) {
    // What cannot be shut down has no queue, or its peer is gone.
    let _ = shutdown(&socket, Shutdown::Read);
    do_elsewhere(user, move || {
        drain(socket.as_fd(), user);
        close_foreign(socket);
    });
}

/// Receives and closes the descriptors in the queue of a socket that takes nothing more.
fn drain(socket: BorrowedFd<'_>, user: u32) {
    // A record without a byte then differs from the end. The end of a stream has credentials, too.
    let _ = set_socket_passcred(socket, true);
    let is_stream = socket_type(socket) != Ok(SocketType::SEQPACKET);
    let mut unread = [MaybeUninit::uninit(); 16 << 10];
    loop {
        match receive_uninit(socket, &mut unread, user) {
            Ok(received) => {
                let is_end = received.bytes == 0 && (is_stream || !received.has_credentials);
                received.descriptors.into_expected().into_iter().for_each(close_foreign);
                if is_end {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, PipeWriter, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::wire::message_socket::{Wait, launcher_sockets, send};

    const USER: u32 = 4_100_000_001;

    /// The wait that a lingering socket would cause.
    const LINGER: Duration = Duration::from_secs(40);

    /// A socket whose last close waits, and its peer, which reads nothing.
    fn lingering() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        while near.write(&[0; 64 << 10]).is_ok() {}
        rustix::net::sockopt::set_socket_linger(&near, Some(LINGER)).unwrap();
        (near, far)
    }

    /// Waits until all descriptors of the writing end are closed.
    fn await_close(mut reader: PipeReader) {
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }

    fn pipe() -> (PipeReader, PipeWriter) {
        io::pipe().unwrap()
    }

    #[test]
    fn descriptors_that_come_along_are_counted_and_closed_elsewhere() {
        let (near, far) = UnixStream::pair().unwrap();
        let (reader, writer) = pipe();
        let (lingers, peer) = lingering();
        send(far.as_fd(), b"ab", &[lingers.as_fd(), writer.as_fd()], Wait::No).unwrap();
        drop((lingers, writer));
        let begun = Instant::now();
        let mut buffer = [0; 8];
        let received = receive(near.as_fd(), &mut buffer, USER).unwrap();
        assert_eq!((received.bytes, received.descriptors.len()), (2, 2));
        assert_eq!(&buffer[..2], b"ab");
        drop(received);
        await_close(reader);
        assert!(begun.elapsed() < Duration::from_secs(20), "it lingered");
        drop(peer);
        let error = receive(near.as_fd(), &mut buffer, USER).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_socket_with_unread_descriptors_is_closed_elsewhere() {
        let (near, far) = UnixStream::pair().unwrap();
        let (reader, writer) = pipe();
        let (lingers, _peer) = lingering();
        send(far.as_fd(), b"a", &[lingers.as_fd()], Wait::No).unwrap();
        send(far.as_fd(), b"b", &[writer.as_fd()], Wait::No).unwrap();
        drop((lingers, writer));
        let begun = Instant::now();
        close_socket_elsewhere(USER + 1, near.into());
        let error = send(far.as_fd(), b"c", &[], Wait::No).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPIPE));
        await_close(reader);
        // The socket itself is closed afterwards.
        assert_eq!((&far).read(&mut [0]).unwrap(), 0);
        assert!(begun.elapsed() < Duration::from_secs(20), "it lingered");
    }

    #[test]
    fn a_record_without_a_byte_does_not_end_the_draining() {
        let (near, far) = launcher_sockets().unwrap();
        let (reader, writer) = pipe();
        send(far.as_fd(), b"", &[], Wait::No).unwrap();
        send(far.as_fd(), b"", &[writer.as_fd()], Wait::No).unwrap();
        drop(writer);
        close_socket_elsewhere(USER + 2, near);
        await_close(reader);
        assert_eq!(rustix::io::read(&far, &mut [0]).unwrap(), 0);
    }

    #[test]
    fn as_many_descriptors_as_the_kernel_passes_find_room_beside_credentials() {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
        let (near, far) = UnixStream::pair().unwrap();
        rustix::net::sockopt::set_socket_passcred(&near, true).unwrap();
        let (reader, writer) = pipe();
        let all = vec![writer.as_fd(); 253];
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&all)));
        let parts = [io::IoSlice::new(b"a")];
        rustix::net::sendmsg(&far, &parts, &mut ancillary, SendFlags::empty()).unwrap();
        drop(writer);
        let received = receive(near.as_fd(), &mut [0; 8], USER + 3).unwrap();
        assert!(received.has_credentials);
        assert_eq!(received.descriptors.len(), 253);
        assert!(!received.descriptors.are_missing());
        assert!(!received.descriptors.is_empty());
        drop(received);
        await_close(reader);
    }
}
