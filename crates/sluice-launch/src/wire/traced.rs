//! Script processes that have exited and cannot be reaped yet, because another process traces them.
//!
//! Whoever has the user of a process may trace it (ptrace(2)). The exit of a traced process is reported to its tracer first, and its parent can reap it
//! only when the tracer has waited for it or has ended. Until then it is a zombie, which counts for `pids.max` and RLIMIT_NPROC.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::end::pidfd::reap;
use crate::wire::process_resources::Belongings;

/// The processes of one user; with so many, no other one is started.
const OF_USER_MAX: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Traced(Mutex<Vec<Zombie>>);

#[derive(Debug)]
struct Zombie {
    uid: u32,
    pidfd: Arc<OwnedFd>,
}

impl Traced {
    /// Keeps a process until it can be reaped. Returns the problem for the log, if it is the first one of its user.
    pub(crate) fn keep(&self, process: &Belongings) -> Option<String> {
        let mut zombies = self.lock();
        let is_first = !zombies.iter().any(|zombie| zombie.uid == process.uid);
        zombies.push(Zombie {
            uid: process.uid,
            pidfd: Arc::clone(&process.pidfd),
        });
        is_first.then(|| {
            format!(
                "it has exited, but a process that traces it (ptrace) has not waited for it, so it cannot be reaped; at {OF_USER_MAX} of them no other \
                 process of user {} starts",
                process.uid
            )
        })
    }

    /// Reaps those that can be reaped now. Does not block. Called once a second while there are any.
    pub(crate) fn reap(&self) {
        // waitid(2) fails if the process has been reaped already: it is forgotten, too.
        self.lock()
            .retain(|zombie| matches!(reap(zombie.pidfd.as_fd()), Ok(None)));
    }

    pub(crate) fn has_any(&self) -> bool {
        !self.lock().is_empty()
    }

    /// How many of them this user has, if they are too many for another process.
    pub(crate) fn too_many_of(&self, uid: u32) -> Option<u32> {
        let count = self.lock().iter().filter(|zombie| zombie.uid == uid).count();
        (count >= OF_USER_MAX).then(|| u32::try_from(count).unwrap_or(u32::MAX))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Zombie>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
