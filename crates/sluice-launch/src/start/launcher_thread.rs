//! A thread that starts programs: what its children must not inherit from it.

use std::ptr;

/// Blocks signals and drops ambient capabilities on this thread, because its children must not inherit them.
pub(crate) fn isolate_thread() {
    // A signal that arrives between the clone and the child's reset of dispositions would run the server's handler in
    // the child. They are blocked permanently, not around each clone: other threads receive the process's signals. The
    // C library leaves out the two that it needs itself. SIGCHLD without a handler stays unblocked: the kernel then
    // discards it, but a blocked one interrupts another thread at the end of each script (`sig_ignored` in kernel/signal.c).
    // SAFETY: a signal set is plain data; both calls write and read this one only.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        if has_default_effect(libc::SIGCHLD) {
            libc::sigdelset(&raw mut all, libc::SIGCHLD);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut());
    }
    // Ambient capabilities, such as the right to bind port 80 that a service manager gave the server, pass to every
    // executed program (capabilities(7)). A kernel without them returns an error, which needs no handling.
    // SAFETY: takes numbers only, and concerns this thread only.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
}

fn has_default_effect(signal: libc::c_int) -> bool {
    // SAFETY: an action is plain data, which the kernel writes.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_DFL
    }
}
