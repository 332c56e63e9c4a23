//! The watch over a start between its clone and its exec: another thread of the launcher can end it.
//!
//! A launcher thread that starts a program sleeps in the kernel until the child has executed it (CLONE_VFORK). Whoever has the user of the child may
//! stop it meanwhile (SIGSTOP), and execve(2) itself waits while somebody has a lease on the file (fcntl(2), F_SETLEASE), so the thread could sleep
//! for ever. The kernel writes the pidfd of the child before the child runs (CLONE_PIDFD), so another thread can kill it.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::end::pidfd::{Signal, kill};

/// A clone that fails returns at once, and its descriptor is closed again. One that has lasted for so long has its child.
const SETTLED: Duration = Duration::from_millis(50);

const NONE: i32 = -1;

/// The start in progress of one launcher thread.
#[derive(Debug)]
pub(crate) struct WatchedStart {
    /// Written by the kernel.
    pidfd: AtomicI32,
    clone: Mutex<CloneState>,
}

#[derive(Debug, Default)]
struct CloneState {
    /// When the clone in progress began. The pidfd stays open until `end` has reset it.
    since: Option<Instant>,
    is_killed: bool,
}

impl WatchedStart {
    pub(crate) fn new() -> WatchedStart {
        WatchedStart {
            pidfd: AtomicI32::new(NONE),
            clone: Mutex::default(),
        }
    }

    /// The watch begins, before the clone.
    pub(crate) fn begin(&self) {
        *self.lock() = CloneState { since: Some(Instant::now()), is_killed: false };
    }

    pub(crate) fn pidfd(&self) -> &AtomicI32 {
        &self.pidfd
    }

    /// The watch ends, after the clone has returned and before the pidfd is closed. Returns whether it has killed the child.
    pub(crate) fn end(&self) -> bool {
        let mut clone = self.lock();
        clone.since = None;
        self.pidfd.store(NONE, Ordering::Relaxed);
        clone.is_killed
    }

    /// Kills the child, if there is one before its exec.
    pub(crate) fn kill(&self) {
        let mut clone = self.lock();
        if clone.since.is_none_or(|since| since.elapsed() < SETTLED) {
            return;
        }
        let pidfd = self.pidfd.load(Ordering::Relaxed);
        if pidfd == NONE {
            return;
        }
        // SAFETY: the thread that owns it closes it after `end`, which waits for this lock.
        let pidfd = unsafe { BorrowedFd::borrow_raw(pidfd) };
        clone.is_killed |= kill(pidfd, Signal::Kill).is_ok();
    }

    fn lock(&self) -> MutexGuard<'_, CloneState> {
        self.clone.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
