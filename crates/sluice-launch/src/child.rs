//! What the child does until its program runs.
//!
//! The child has the server's memory (CLONE_VM), so nothing is copied however large the server is, and the launcher
//! thread that made it stands still until the child has executed its program or is gone (CLONE_VFORK). The server's
//! other threads run on meanwhile. What follows for the code of the child:
//! - a lock may be held by any of those threads: no allocation, no lock, nothing of the C library but `syscall`;
//! - `syscall` sets errno, which the child shares with its launcher thread: that thread stands still, and looks at
//!   errno only when there is no child;
//! - no panic: no index, no arithmetic, no formatting;
//! - a handler of the server must not run in the child: signals are blocked (launcher threads block them all) until
//!   every disposition is the default;
//! - what it changes in memory stays: it writes nothing but the reason of a failure.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_char, c_int, c_long, c_void};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::ptr;

use crate::clone::{Cloner, SIGNAL_MAX, SignalSet};
use crate::credentials::Credentials;
use crate::limits::Limit;
use crate::message::{LaunchError, Stage};
use crate::pidfd;
use crate::slots::SCRIPT_DESCRIPTORS;

/// The mask for files that a script creates.
const UMASK: c_int = 0o022;

/// All that the child needs, laid out before there is one.
pub(crate) struct Plan<'a> {
    /// NUL-terminated, as are the texts behind the two lists, which end in a null pointer.
    pub(crate) path: *const c_char,
    pub(crate) arguments: &'a [*const c_char],
    pub(crate) environment: &'a [*const c_char],
    pub(crate) directory: *const c_char,
    /// What becomes descriptor 0, 1, 2, 3 and 4: numbers above 4.
    pub(crate) slots: [RawFd; 5],
    /// The least number above all slots.
    pub(crate) beyond_slots: c_int,
    pub(crate) limits: &'a [Limit],
    pub(crate) credentials: Option<&'a Credentials>,
    /// Those whose disposition may not be the default; known when the child is cloned.
    pub(crate) signals_to_reset: Cell<SignalSet>,
    /// The process that the launcher runs in.
    pub(crate) server: libc::pid_t,
    /// Written by the child, read by the parent once the child has let go of its memory.
    pub(crate) failure: UnsafeCell<Option<LaunchError>>,
}

/// Starts a process; when this returns, its program runs.
///
/// The caller is a launcher thread with all signals blocked, and the pointers in `plan` are good.
pub(crate) fn start(plan: &Plan<'_>, cloner: &mut Cloner) -> Result<(i32, OwnedFd), LaunchError> {
    // SAFETY: `child` takes a plan, and never returns. This thread stands still until it has left this memory, so that
    // `plan` and all it points to outlive its use.
    let cloned = unsafe {
        cloner.clone(child, |signals_to_reset| {
            plan.signals_to_reset.set(signals_to_reset);
            ptr::from_ref(plan).cast_mut().cast()
        })
    };
    let (pid, pidfd) = cloned.map_err(|error| LaunchError {
        stage: Stage::Clone,
        errno: error.raw_os_error().unwrap_or(0),
    })?;
    // SAFETY: the child that wrote it has left this memory.
    match unsafe { plan.failure.get().read_volatile() } {
        None => Ok((pid, pidfd)),
        Some(failure) => {
            pidfd::reap_failed(pidfd.as_fd());
            Err(failure)
        }
    }
}

/// The child's first function. Becomes the program, or says why not and exits.
extern "C" fn child(plan: *mut c_void) -> c_int {
    const EXIT_CODE: c_int = 127;
    // SAFETY: `start` passes its plan, and stands still while this runs.
    let plan = unsafe { &*plan.cast_const().cast::<Plan<'_>>() };
    let failure = become_program(plan);
    // SAFETY: the parent reads it only once this process is gone.
    unsafe { plan.failure.get().write_volatile(Some(failure)) };
    loop {
        // SAFETY: takes a number, and does not return. The C library's `exit` would run the server's exit handlers.
        unsafe { libc::syscall(libc::SYS_exit_group, EXIT_CODE) };
    }
}

/// Comes back only with a failure.
fn become_program(plan: &Plan<'_>) -> LaunchError {
    let failed = |stage| move |errno| LaunchError { stage, errno };
    let prepare = || {
        leave_descriptor_table(plan).map_err(failed(Stage::Descriptors))?;
        reset_dispositions(plan.signals_to_reset.get());
        unblock_signals();
        lead_group().map_err(failed(Stage::Group))?;
        place_descriptors(plan).map_err(failed(Stage::Descriptors))?;
        enter_directory(plan).map_err(failed(Stage::Directory))?;
        for limit in plan.limits {
            limit.set().map_err(failed(Stage::Limits))?;
        }
        if let Some(credentials) = plan.credentials {
            credentials.assume().map_err(failed(Stage::Credentials))?;
        }
        tether(plan).map_err(failed(Stage::ParentDeathSignal))?;
        execute(plan).map_err(failed(Stage::Exec))
    };
    match prepare() {
        Err(failure) => failure,
        // execve does not return unless it fails.
        Ok(()) => failed(Stage::Exec)(libc::ENOEXEC),
    }
}

/// Gets a descriptor table of its own, with the numbers up to the last slot only: see `slots`.
///
/// Before that, to close anything would close it in the server.
fn leave_descriptor_table(plan: &Plan<'_>) -> Result<(), i32> {
    // SAFETY: takes numbers only; with UNSHARE it is not the server's table that loses the numbers.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            plan.beyond_slots,
            c_int::MAX,
            libc::CLOSE_RANGE_UNSHARE,
        )
    };
    checked(done).map(drop)
}

/// Every disposition the default, as a program expects to find them.
///
/// An ignored signal would stay ignored in the program (execve(2)), and Rust's runtime ignores SIGPIPE: a script would
/// never notice that its reader is gone. A handler would run here, in the server's memory.
fn reset_dispositions(signals: SignalSet) {
    // struct kernel_sigaction: the handler first (SIG_DFL is 0), then flags, restorer and mask, at most 4 words.
    const DEFAULT: [u64; 4] = [0; 4];
    const OLD: usize = 0;
    for signal in 1..=SIGNAL_MAX {
        if !signals.has(signal) {
            continue;
        }
        // It refuses SIGKILL and SIGSTOP, whose disposition is always the default; nothing else can go wrong.
        // SAFETY: the kernel reads a sigaction of its own layout, and writes none to a null pointer.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, DEFAULT.as_ptr(), OLD, size_of::<u64>()) };
    }
}

/// No signal blocked, now that none has a handler.
fn unblock_signals() {
    const NONE: [u64; 1] = [0];
    const OLD: usize = 0;
    // SAFETY: the kernel reads a signal set of the size given, and writes none to a null pointer.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            NONE.as_ptr(),
            OLD,
            size_of::<u64>(),
        )
    };
}

fn lead_group() -> Result<(), i32> {
    const MYSELF: libc::pid_t = 0;
    // SAFETY: takes numbers only.
    checked(unsafe { libc::syscall(libc::SYS_setpgid, MYSELF, MYSELF) }).map(drop)
}

/// The slots to their places 0 to 4, where they survive the exec; everything else closed.
fn place_descriptors(plan: &Plan<'_>) -> Result<(), i32> {
    const FLAGS: c_int = 0;
    for (place, slot) in (0..).zip(plan.slots) {
        let place: c_int = place;
        // SAFETY: takes numbers only; the table is the child's own.
        checked(unsafe { libc::syscall(libc::SYS_dup3, slot, place, FLAGS) })?;
    }
    let first = c_int::from(SCRIPT_DESCRIPTORS);
    // SAFETY: takes numbers only; the table is the child's own.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, c_int::MAX, FLAGS) };
    checked(done).map(drop)
}

fn enter_directory(plan: &Plan<'_>) -> Result<(), i32> {
    // SAFETY: a NUL-terminated text. The working directory is the child's own (no CLONE_FS).
    checked(unsafe { libc::syscall(libc::SYS_chdir, plan.directory) })?;
    // SAFETY: takes a number, and cannot fail. The mask too is the child's own.
    unsafe { libc::syscall(libc::SYS_umask, UMASK) };
    Ok(())
}

/// SIGKILL for the script when the launcher thread that made it ends, which is when the server does.
///
/// After the change of user, which would undo it (prctl(2)); so does executing a set-id program.
fn tether(plan: &Plan<'_>) -> Result<(), i32> {
    // SAFETY: takes numbers only.
    checked(unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // A server that was gone before that sends no signal: another process is the parent by now.
    // SAFETY: takes nothing.
    let parent = unsafe { libc::syscall(libc::SYS_getppid) };
    if parent != c_long::from(plan.server) {
        return Err(libc::ESRCH);
    }
    Ok(())
}

fn execute(plan: &Plan<'_>) -> Result<(), i32> {
    // SAFETY: NUL-terminated texts, and lists of such that end in a null pointer.
    let done = unsafe {
        libc::syscall(
            libc::SYS_execve,
            plan.path,
            plan.arguments.as_ptr(),
            plan.environment.as_ptr(),
        )
    };
    checked(done).map(drop)
}

/// The error number of a raw system call that failed. Safe in the child.
pub(crate) fn checked(done: c_long) -> Result<c_long, i32> {
    if done < 0 {
        // SAFETY: the address of this thread's errno; in the child, of the launcher thread's, which stands still.
        return Err(unsafe { *libc::__errno_location() });
    }
    Ok(done)
}
