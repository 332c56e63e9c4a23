//! The socket option by which a socket takes no descriptors: the sender's call fails (SO_PASSRIGHTS, Linux 6.16).

use std::os::fd::{AsFd, AsRawFd};

/// SO_PASSRIGHTS of the kernel's asm-generic/socket.h, which these architectures use.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
const PASSRIGHTS: Option<libc::c_int> = Some(83);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const PASSRIGHTS: Option<libc::c_int> = None;

/// Whether descriptors can arrive on an AF_UNIX socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// The kernel refuses them: the sender gets EPERM, and plain read(2) and close(2) of the socket are safe.
    Refused,
    /// They can arrive, because the kernel is older than Linux 6.16: use [`crate::receive`] and [`crate::close_socket_elsewhere`].
    Possible,
}

/// Has the kernel refuse descriptors that others send to this socket. Call it before the other side can send: what has been sent stays in the
/// queue. The sockets that a listening socket accepts are like it, from the moment of their connect(2) on.
pub fn refuse_descriptors(socket: impl AsFd) -> Passing {
    let off: libc::c_int = 0;
    let Some(option) = PASSRIGHTS else {
        return Passing::Possible;
    };
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the value is as long as its length says, and is only read.
    let done = unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, option, (&raw const off).cast(), INT_BYTES) };
    match done {
        0 => Passing::Refused,
        _ => Passing::Possible,
    }
}

/// Whether descriptors can arrive on a socket whose option another process may have set.
pub fn passing(socket: impl AsFd) -> Passing {
    let Some(option) = PASSRIGHTS else {
        return Passing::Possible;
    };
    let socket = socket.as_fd().as_raw_fd();
    let (mut value, mut bytes): (libc::c_int, _) = (0, INT_BYTES);
    let target = (&raw mut value).cast();
    // SAFETY: the value has room for an int, as its length says.
    let done = unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, option, target, &raw mut bytes) };
    match (done, value) {
        (0, 0) => Passing::Refused,
        _ => Passing::Possible,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it is 4")]
const INT_BYTES: libc::socklen_t = size_of::<libc::c_int>() as libc::socklen_t;

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::fd::AsFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;
    use crate::wire::message_socket::{Wait, send};

    #[test]
    fn a_sender_of_descriptors_is_refused_where_the_kernel_can() {
        let (near, far) = UnixStream::pair().unwrap();
        assert_eq!(passing(&near), Passing::Possible);
        let (_reader, writer) = io::pipe().unwrap();
        let is_refused = refuse_descriptors(&near) == Passing::Refused;
        assert_eq!(passing(&near) == Passing::Refused, is_refused);
        let sent = send(far.as_fd(), b"a", &[writer.as_fd()], Wait::No);
        match is_refused {
            true => assert_eq!(sent.unwrap_err().raw_os_error(), Some(libc::EPERM)),
            false => sent.unwrap(),
        }
        send(far.as_fd(), b"b", &[], Wait::No).unwrap();
    }

    #[test]
    fn accepted_sockets_refuse_what_their_listener_refuses() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let refused = refuse_descriptors(&listener);
        let client = UnixStream::connect(&path).unwrap();
        // Before it is accepted.
        let (_reader, writer) = io::pipe().unwrap();
        let sent = send(client.as_fd(), b"a", &[writer.as_fd()], Wait::No);
        assert_eq!(sent.is_err(), refused == Passing::Refused);
        let (accepted, _) = listener.accept().unwrap();
        assert_eq!(passing(&accepted), refused);
    }
}
