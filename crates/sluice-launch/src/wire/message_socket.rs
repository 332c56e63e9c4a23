//! Messages with descriptors over a SOCK_SEQPACKET socket (unix(7)): one system call each.
//!
//! Not here: what they mean (`message`).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use crate::foreign;
use crate::foreign::elsewhere::UNKNOWN_USER;

/// Descriptors with one message.
pub(crate) const FDS_MAX: usize = 8;

/// Bytes of a message. Larger programs are passed in a memory file.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Room for the descriptors of a message that is sent, with the alignment of its header.
#[repr(C, align(8))]
struct Control([MaybeUninit<u8>; CONTROL_BYTES]);

const CONTROL_BYTES: usize = 64;

/// A message that has arrived.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// The length in the buffer.
    pub(crate) bytes: usize,
    pub(crate) fds: Vec<OwnedFd>,
    /// Descriptors are missing: this process has no room for more.
    pub(crate) are_fds_missing: bool,
}

/// A pair of connected sockets, which are closed by execve(2).
///
/// # Errors
/// There are no descriptors left.
pub fn launcher_sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the array has room for the two descriptors that socketpair writes.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created both; nothing else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Whether a call waits for the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Yes,
    No,
}

impl Wait {
    fn flag(self) -> libc::c_int {
        match self {
            Wait::Yes => 0,
            Wait::No => libc::MSG_DONTWAIT,
        }
    }
}

/// Sends a message with at most `FDS_MAX` descriptors.
///
/// # Errors
/// `WouldBlock`: there is no room now. `EPIPE`: the other side is gone.
pub(crate) fn send(socket: BorrowedFd<'_>, message: &[u8], fds: &[BorrowedFd<'_>], wait: Wait) -> io::Result<()> {
    debug_assert!(
        fds.len() <= FDS_MAX && message.len() <= MESSAGE_BYTES_MAX,
        "checked by callers"
    );
    let mut control = Control([MaybeUninit::uninit(); CONTROL_BYTES]);
    let mut part = libc::iovec {
        iov_base: message.as_ptr().cast_mut().cast(),
        iov_len: message.len(),
    };
    // SAFETY: msghdr is plain data for which all zeros is a valid value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    if !fds.is_empty() {
        let numbers: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let bytes = u32::try_from(size_of_val(numbers.as_slice())).map_err(io::Error::other)?;
        header.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: computes a length.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as _;
        // SAFETY: the buffer has room for a header and `FDS_MAX` numbers, and is aligned for the header.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(bytes) as _;
            ptr::copy_nonoverlapping(numbers.as_ptr().cast(), libc::CMSG_DATA(first), bytes as usize);
        }
    }
    loop {
        // SAFETY: the header points to memory that is valid during the call, which reads it only.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, wait.flag() | libc::MSG_NOSIGNAL) };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Receives a message without waiting. `None` at the end.
///
/// # Errors
/// `WouldBlock`: no message has arrived. `InvalidData`: the message is larger than the buffer, or has too many descriptors; another thread closes
/// them, because that may wait.
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
