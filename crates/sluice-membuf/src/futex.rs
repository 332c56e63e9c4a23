//! The futex call, on words that two processes share.

use std::time::Duration;

use crate::sync::AtomicU32;

/// Wakes one process that sleeps on `word`. Shared (not `FUTEX_PRIVATE_FLAG`): the sleeper is another process.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE reads no memory through the pointer but to identify the page that it lies in; the reference
    // keeps that mapped. A failure (the page could not be brought back after a hole was punched) leaves a sleeper of a
    // script that did so to itself.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1);
    }
}

/// Sleeps until woken, as long as `word` is `expected`, at most `timeout`. May return for no reason (futex(2)).
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: the word is mapped while the reference lives, and `timeout` lives over the call. Every way of returning
    // (woken, value differs, signal, time out) is handled alike by the caller's loop.
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
