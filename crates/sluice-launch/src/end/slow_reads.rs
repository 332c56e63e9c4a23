//! Threads that read about processes below /proc, and that may be lost.
//!
//! Any user can open /proc/PID of any process, and so hold the lock of that directory (getdents64(2) into memory that does not answer, while something
//! else waits to create a file there). Whoever looks up a file in it then waits, uninterruptibly and without bound. So a thread of its own reads about an
//! orphan, and what takes too long is given up.

use std::sync::LazyLock;
use std::sync::mpsc;
use std::time::Duration;

use crate::foreign::user_threads::{Bounds, UserThreads};

/// So many as there are ends of one user at once: each end has at most one of them, beside those that are lost.
const READS: Bounds = Bounds {
    name: "launcher-proc",
    at_once: 64,
    waiting_max: usize::MAX,
    threads_max: 1024,
    of_holder_max: 64,
    kept: 0,
};

/// The time that reading about an orphan, and all processes below it, may take. Usually it takes some tens of microseconds for each process.
pub(super) const TIMEOUT: Duration = Duration::from_secs(1);

static THREADS: LazyLock<UserThreads> = LazyLock::new(|| UserThreads::new(READS));

/// Does something on one of the threads, in the share of a user.
pub(super) fn begin(share: u64, read: impl FnOnce() + Send + 'static) {
    let begun = THREADS.begin(share, Box::new(read));
    debug_assert!(begun.is_ok(), "as many as there are may wait");
}

/// Reads something on one of the threads. `None` if the read takes longer than `TIMEOUT`.
pub(super) fn within_timeout<T: Send + 'static>(share: u64, read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, result) = mpsc::channel();
    // Nobody waits any more if it took too long.
    begin(share, move || drop(sender.send(read())));
    result.recv_timeout(TIMEOUT).ok()
}
