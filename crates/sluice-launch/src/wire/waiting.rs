//! The waits of a launcher: for the exit of a process, and for events of several descriptors.
//!
//! Not here: what is waited for (`service`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Instant;

/// Waits until a process has exited. False if it has not until this moment.
pub(crate) fn await_exit(pidfd: BorrowedFd<'_>, until: Option<Instant>) -> bool {
    loop {
        let timeout = match until {
            None => -1,
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now()).as_millis();
                libc::c_int::try_from(left).unwrap_or(libc::c_int::MAX)
            }
        };
        let mut request = libc::pollfd {
            fd: pidfd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid pollfd, which the kernel writes.
        match unsafe { libc::poll(&raw mut request, 1, timeout) } {
            0 => return false,
            ready if ready > 0 => return true,
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return false,
        }
    }
}

/// Has an epoll report these events of a descriptor, under a number.
pub(crate) fn watch(epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>, number: u64, events: libc::c_int) -> io::Result<()> {
    let mut event = libc::epoll_event {
        events: events.cast_unsigned(),
        u64: number,
    };
    // SAFETY: takes numbers, and an event that the kernel reads.
    let done = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The event that messages wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// There are none.
    Nothing,
    /// Room in the socket.
    Room,
    /// Another launcher, or that the system has more memory.
    Time,
}

/// Waits for the socket and for wake-ups, and for what messages wait for. True if the socket can be read.
pub(crate) fn await_messages(socket: Option<RawFd>, wake: RawFd, awaited: Awaited) -> bool {
    const TICK_MILLIS: libc::c_int = 200;
    let event = |fd, events| libc::pollfd { fd, events, revents: 0 };
    let writing = if awaited == Awaited::Room { libc::POLLOUT } else { 0 };
    // A negative number is left out (poll(2)).
    let mut requests = [
        event(socket.unwrap_or(-1), libc::POLLIN | writing),
        event(wake, libc::POLLIN),
    ];
    let timeout = if awaited == Awaited::Time { TICK_MILLIS } else { -1 };
    // SAFETY: two valid entries, which the kernel writes.
    let ready = unsafe { libc::poll(requests.as_mut_ptr(), 2, timeout) };
    if ready <= 0 {
        return false;
    }
    if requests[1].revents != 0 {
        let mut count = 0_u64;
        // SAFETY: the kernel writes eight bytes.
        unsafe { libc::read(wake, (&raw mut count).cast(), size_of::<u64>()) };
    }
    requests[0].revents & !libc::POLLOUT != 0
}
