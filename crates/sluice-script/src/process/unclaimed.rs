//! Script processes without a reaper: their end.

use std::os::fd::{AsFd, OwnedFd};

use sluice_launch::{RemoteProcess, RemoteStarted, Signal};

use crate::process::{PipeOwner, PipeThreads, Work};

/// A process that was started and that nobody has taken yet. Its drop ends it.
pub(crate) struct Unclaimed<E: Send + 'static>(Option<(RemoteStarted, E)>, PipeThreads);

impl<E: Send + 'static> Unclaimed<E> {
    /// `threads` close its pipes if nobody takes it.
    pub(crate) fn new(started: RemoteStarted, ended: E, threads: PipeThreads) -> Unclaimed<E> {
        Unclaimed(Some((started, ended)), threads)
    }

    pub(crate) fn claim(mut self) -> (RemoteStarted, E) {
        self.0.take().expect("claimed once, by value")
    }
}

impl<E: Send + 'static> Drop for Unclaimed<E> {
    fn drop(&mut self) {
        if let Some((started, ended)) = self.0.take() {
            let owner = PipeOwner::ending(user_of(&started.stderr));
            let RemoteStarted {
                process,
                stdin,
                mailbox,
                stderr,
                cgiplusin,
                read_ends: (cgiplusin_read, stdin_read),
                requests,
            } = started;
            end_unclaimed(process, ended);
            let ends = [mailbox, stderr, cgiplusin, cgiplusin_read].into_iter();
            let requests = requests.into_iter().flat_map(<[OwnedFd; 2]>::from);
            for end in ends.chain(stdin).chain(stdin_read).chain(requests) {
                self.1.perform(&owner, "channels", Work::Close(end));
            }
        }
    }
}

/// The number of the user to whom the launcher has given a pipe. fstat(2) takes no lock of it.
pub(crate) fn user_of(pipe: &OwnedFd) -> u32 {
    rustix::fs::fstat(pipe.as_fd()).map_or(0, |about| about.st_uid)
}

/// Kills a process that has no reaper and never gets one. `ended` is dropped when the process is reaped, because the process counts
/// until its end.
pub(crate) fn end_unclaimed<E: Send + 'static>(mut process: RemoteProcess, ended: E) {
    process.signal(Signal::Kill);
    process.on_end(move |_| drop(ended));
}
