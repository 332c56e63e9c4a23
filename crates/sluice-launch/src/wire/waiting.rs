//! The waits of the two sides for events of several descriptors.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The event that messages wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    Nothing,
    Room,
    /// Another launcher, or that the system has more memory.
    Time,
}

/// Waits for the socket and for wake-ups, and for what messages wait for. True if the socket can be read.
pub(crate) fn await_messages(socket: Option<BorrowedFd<'_>>, wake: &OwnedFd, awaited: Awaited) -> bool {
    const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    let writing = match awaited {
        Awaited::Room => PollFlags::OUT,
        Awaited::Nothing | Awaited::Time => PollFlags::empty(),
    };
    let mut requests = vec![PollFd::new(wake, PollFlags::IN)];
    requests.extend(socket.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN | writing)));
    let timeout = (awaited == Awaited::Time).then_some(&TICK);
    if !poll(&mut requests, timeout).is_ok_and(|ready| ready > 0) {
        return false;
    }
    if !requests[0].revents().is_empty() {
        // It fails only if there was no wake-up.
        let _ = rustix::io::read(wake.as_fd(), &mut [0; size_of::<u64>()]);
    }
    requests
        .get(1)
        .is_some_and(|socket| socket.revents().intersects(!PollFlags::OUT))
}
