//! The server's own process: what it inherits, and what other processes may do to it.

use std::io;
use std::ptr;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::end::orphans;
use crate::users::own_user::own_uid;

/// Prepares the calling process to be a server. Called once, first in `main`, before any other thread is started.
///
/// - SIGXFSZ is ignored: a write past RLIMIT_FSIZE fails with EFBIG instead of ending the server.
/// - SIGCHLD has its default effect, even if the parent of the server ignored it: otherwise the kernel reaps script
///   processes itself (wait(2)), and their numbers could pass to other processes before the server has signalled them.
/// - No signal is blocked, even if the parent of the server blocked it (SIGTERM would have no effect).
/// - Other processes of the same user, such as scripts, can neither read the server's memory and descriptors nor trace it
///   (PR_SET_DUMPABLE in prctl(2)). There are no core dumps either; see [`allow_core_dumps`].
/// - Processes that lose their parent, and whose ancestor is a script, become children of the server: see [`crate::end_session`].
///
/// Signals that are ignored here have their default effect in scripts (`child`).
///
/// # Errors
/// The system refuses one of these; the server can run without, but is not protected.
pub fn prepare_process() -> io::Result<()> {
    for (signal, disposition) in [(libc::SIGXFSZ, libc::SIG_IGN), (libc::SIGCHLD, libc::SIG_DFL)] {
        // SAFETY: neither disposition is a handler.
        if unsafe { libc::signal(signal, disposition) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: a signal set is plain data; both calls write and read this one only.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
    set_dumpable(false)?;
    orphans::become_subreaper()
}

/// Permits core dumps and debuggers of the same user. Scripts of that user can then read the server's memory, keys included.
///
/// # Errors
/// The system refuses it.
pub fn allow_core_dumps() -> io::Result<()> {
    set_dumpable(true)
}

fn set_dumpable(is_dumpable: bool) -> io::Result<()> {
    Ok(set_dumpable_behavior(match is_dumpable {
        true => DumpableBehavior::Dumpable,
        false => DumpableBehavior::NotDumpable,
    })?)
}

/// The signals by which an administrator gives commands.
const COMMANDS: [libc::c_int; 3] = [libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// These signals are ignored, also in the program that this process executes next: by default they would end it before it handles them.
/// Dropping this restores what was before.
pub struct IgnoredSignals([libc::sigaction; COMMANDS.len()]);

impl IgnoredSignals {
    /// Ignores them.
    #[must_use]
    pub fn ignore() -> IgnoredSignals {
        IgnoredSignals(COMMANDS.map(|signal| {
            // SAFETY: an action is plain data; the calls write and read this one only, and fail only for numbers that are no signals.
            unsafe {
                let mut before: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, ptr::null(), &raw mut before);
                libc::signal(signal, libc::SIG_IGN);
                before
            }
        }))
    }
}

impl Drop for IgnoredSignals {
    fn drop(&mut self) {
        for (signal, before) in COMMANDS.into_iter().zip(&self.0) {
            // SAFETY: the action was in effect before, so its handler, if it is one, is sound.
            unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
        }
    }
}

/// Whether the process runs as root (its effective user).
pub fn is_root() -> bool {
    own_uid() == 0
}
