//! Script processes without a watcher: their end.
//!
//! Here: a process that nobody has taken, because its request has gone, and one whose descriptors the event loop refuses. Not here:
//! processes with a watcher (`process`).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use sluice_launch::Started;

use crate::belongings::Belongings;

/// A process that was started and that nobody has taken yet. Its drop ends it.
pub(crate) struct Unclaimed<E: Send + 'static>(Option<(Started, Belongings, E)>);

impl<E: Send + 'static> Unclaimed<E> {
    /// `mark` is a text in the environment of the process, which no other process has.
    pub(crate) fn new(mut started: Started, mark: &str, ended: E) -> Unclaimed<E> {
        let belongings = Belongings::of(&mut started, mark);
        Unclaimed(Some((started, belongings, ended)))
    }

    pub(crate) fn claim(mut self) -> (Started, Belongings, E) {
        self.0.take().expect("claimed once, by value")
    }
}

impl<E: Send + 'static> Drop for Unclaimed<E> {
    fn drop(&mut self) {
        if let Some((Started { pidfd, .. }, belongings, ended)) = self.0.take() {
            Unwatched {
                pidfd,
                belongings,
                ended,
            }
            .end();
        }
    }
}

/// A process that has no watcher and never gets one.
pub(crate) struct Unwatched<E> {
    pub pidfd: OwnedFd,
    pub belongings: Belongings,
    /// Dropped when the process is reaped, because the process counts until its end.
    pub ended: E,
}

impl<E: Send + 'static> Unwatched<E> {
    /// Kills and reaps it, in a thread of its own: SIGKILL takes effect at once, except for a process that waits for a disk,
    /// and the event loop must not wait for that.
    pub(crate) fn end(self) {
        self.belongings.kill_group();
        let shared = Arc::new(Mutex::new(Some(self)));
        let own = Arc::clone(&shared);
        let spawned = std::thread::Builder::new()
            .name("reaper".into())
            .spawn(move || reap(&own));
        if spawned.is_err() {
            // No more threads: the rare wait on the event loop is better than a zombie.
            reap(&shared);
        }
    }
}

fn reap<E: Send>(unwatched: &Mutex<Option<Unwatched<E>>>) {
    let taken = unwatched.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(Unwatched {
        pidfd,
        belongings,
        ended,
    }) = taken
    else {
        return;
    };
    let mut descriptors = [PollFd::new(&pidfd, PollFlags::IN)];
    let _ = poll(&mut descriptors, None);
    if belongings.end_group() {
        let _ = belongings.end_descendants();
    }
    let _ = sluice_launch::reap(pidfd.as_fd());
    drop(ended);
}
