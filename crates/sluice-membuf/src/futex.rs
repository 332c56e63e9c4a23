//! futex(2) on words that two processes share.

use std::time::Duration;

use rustix::thread::futex::{self, Flags, Timespec};

use crate::sync::AtomicU32;

/// Wakes one sleeper on `word`. Without `FUTEX_PRIVATE_FLAG`, because the sleeper is in another process.
pub(crate) fn wake(word: &AtomicU32) {
    // If it fails (because the page could not be restored after the script punched a hole), only that script keeps sleeping.
    let _ = futex::wake(word, Flags::empty(), 1);
}

/// Sleeps until woken, but only if `word` is `expected`, and at most `timeout`. May return spuriously (futex(2)).
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout = Timespec::try_from(timeout).ok();
    // The caller's loop handles every kind of return alike (woken, different value, signal, time-out).
    let _ = futex::wait(word, Flags::empty(), expected, timeout.as_ref());
}
