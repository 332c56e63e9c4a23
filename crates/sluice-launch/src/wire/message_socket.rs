//! Messages with descriptors over a SOCK_SEQPACKET socket (unix(7)): one system call each.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg, socketpair,
};

use crate::foreign;
use crate::foreign::elsewhere::UNKNOWN_USER;

pub(crate) const FDS_MAX: usize = 8;

/// Bytes of a message. Larger programs are passed in a memory file.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) bytes: usize,
    pub(crate) fds: Vec<OwnedFd>,
    /// Some of its descriptors did not arrive, because this process has no room for more.
    pub(crate) are_fds_missing: bool,
}

/// A pair of connected sockets, which are closed by execve(2).
///
/// # Errors
/// There are no descriptors left.
pub fn launcher_sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    Ok(socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Yes,
    No,
}

/// Sends a message with at most `FDS_MAX` descriptors. Fails with `WouldBlock` if there is no room now, with `EPIPE` if the other side is gone.
pub(crate) fn send(socket: BorrowedFd<'_>, message: &[u8], fds: &[BorrowedFd<'_>], wait: Wait) -> io::Result<()> {
    debug_assert!(message.len() <= MESSAGE_BYTES_MAX, "checked by callers");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = match wait {
        Wait::Yes => SendFlags::NOSIGNAL,
        Wait::No => SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    };
    retry_on_intr(|| sendmsg(socket, &[IoSlice::new(message)], &mut control, flags))?;
    Ok(())
}

/// Receives a message without waiting. `None` at the end.
///
/// # Errors
/// `WouldBlock`: no message is there. `InvalidData`: it is larger than the buffer, or has too many descriptors, which another thread closes: that may wait.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<Arrived>> {
    let received = foreign::received::receive(socket, buffer, UNKNOWN_USER)?;
    if received.is_cut || received.descriptors.len() > FDS_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok((received.bytes > 0).then(|| Arrived {
        bytes: received.bytes,
        are_fds_missing: received.descriptors.are_missing(),
        fds: received.descriptors.into_expected(),
    }))
}
