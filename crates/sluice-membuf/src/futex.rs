//! futex(2) on words that two processes share.

use std::time::Duration;

use crate::sync::AtomicU32;

/// Wakes one sleeper on `word`. Without `FUTEX_PRIVATE_FLAG`, because the sleeper is in another process.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE uses the pointer only to identify the page, which the reference keeps mapped. If it fails
    // (because the page could not be restored after the script punched a hole), only that script keeps sleeping.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1);
    }
}

/// Sleeps until woken, but only if `word` is `expected`, and at most `timeout`. May return spuriously (futex(2)).
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(i32::MAX.into()),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: the word is mapped while the reference lives, and `timeout` outlives the call. The caller's loop handles
    // every kind of return alike (woken, different value, signal, time-out).
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &raw const timeout,
        );
    }
}
