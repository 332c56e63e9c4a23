//! Options of sockets that std has no function for (socket(7)). Not here: when they are set (`refuse`, `received`, `elsewhere`).

use std::os::fd::{AsRawFd, BorrowedFd};

/// The value of SO_LINGER for a close that does not wait.
pub(crate) const NO_LINGER: libc::linger = libc::linger {
    l_onoff: 0,
    l_linger: 0,
};

/// A value that the kernel reads as plain data.
pub(crate) trait OptionValue: Copy {}

impl OptionValue for libc::c_int {}
impl OptionValue for libc::linger {}

/// Sets an option of level SOL_SOCKET. False if this is no socket, or the kernel does not know the option.
pub(crate) fn set_option<T: OptionValue>(socket: BorrowedFd<'_>, option: libc::c_int, value: T) -> bool {
    let Ok(bytes) = libc::socklen_t::try_from(size_of::<T>()) else {
        return false;
    };
    // SAFETY: the value is as long as its length says, and is only read.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            bytes,
        )
    };
    done == 0
}

/// The value of an option of level SOL_SOCKET. `None` if this is no socket, or the kernel does not know the option.
pub(crate) fn int_option(socket: BorrowedFd<'_>, option: libc::c_int) -> Option<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut bytes = libc::socklen_t::try_from(size_of_val(&value)).ok()?;
    // SAFETY: the value has room for an int, as its length says.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut value).cast(),
            &raw mut bytes,
        )
    };
    (done == 0).then_some(value)
}
