//! The code that the child runs between the clone and its exec.
//!
//! The child shares the server's memory (CLONE_VM), so nothing is copied however large the server is. The launcher thread that cloned it is suspended
//! until the child has executed its program or exited (CLONE_VFORK); the server's other threads keep running. Rules that follow for the child's code:
//! - Any of those threads may hold a lock: no allocation, no lock, nothing of the C library but `syscall`.
//! - `syscall` sets errno, which the child shares with its launcher thread; that is suspended, and reads errno only when there is no child.
//! - No panic: no indexing, no arithmetic, no formatting.
//! - A signal handler of the server must not run in the child: launcher threads block all signals, until every disposition is the default.
//! - Changes to memory persist in the server: the child writes nothing but the reason of a failure.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;

use crate::confine::attributes;
use crate::confine::file_rules::{self, PreparedRules};
use crate::confine::limits::Limit;
use crate::confine::network;
use crate::confine::priority::Priority;
use crate::confine::privileges;
use crate::confine::root_and_tmp::{self, PrivateTmp};
use crate::end::pidfd::{self, Signal};
use crate::end::rlimit_mark;
use crate::start::clone::{Cloner, SIGNAL_MAX, SignalSet, Undone};
use crate::start::launch_error::{LaunchError, Stage};
use crate::start::watched_start::WatchedStart;
use crate::syscall::checked;
use crate::users::credentials::Credentials;

/// Everything that the child needs, prepared before the clone.
pub(crate) struct Plan<'a> {
    /// NUL-terminated, as are the texts in the two lists; each list ends in a null pointer.
    pub(crate) path: *const c_char,
    pub(crate) arguments: &'a [*const c_char],
    pub(crate) environment: &'a [*const c_char],
    pub(crate) directory: *const c_char,
    /// The descriptors that become 0 to 4, or 5; their numbers are above 5.
    pub(crate) fds: &'a [RawFd],
    /// The lowest number above all of them.
    pub(crate) fds_end: c_int,
    pub(crate) limits: &'a [Limit],
    /// The cgroup in which it is created, and the file by which it moves there if the system call could not do it.
    pub(crate) cgroup: Option<(BorrowedFd<'a>, &'a CStr)>,
    pub(crate) private_tmp: Option<PrivateTmp<'a>>,
    pub(crate) chroot: Option<&'a CStr>,
    pub(crate) umask: u32,
    pub(crate) priority: Priority,
    pub(crate) file_rules: Option<&'a PreparedRules<'a>>,
    pub(crate) credentials: Option<&'a Credentials>,
    /// Whether a program with another user could still get capabilities from a file, because those of root keep theirs.
    pub(crate) empties_bounding_set: bool,
    pub(crate) is_offline: bool,
    /// Steps that the child must do itself; set when it is cloned.
    pub(crate) undone: Cell<Undone>,
    /// The process id of the launcher, which is the parent: that of the server, if the launcher is in threads of it.
    pub(crate) server: libc::pid_t,
    /// Written by the child; read by the parent after the child has left this memory.
    pub(crate) failure: UnsafeCell<Option<LaunchError>>,
}

/// Starts a process; returns its pid and pidfd when its program runs.
///
/// The caller must be a launcher thread with all signals blocked, and the pointers in `plan` must be valid.
pub(crate) fn start(
    plan: &Plan<'_>,
    cloner: &mut Cloner,
    watched: &WatchedStart,
) -> Result<(i32, OwnedFd), LaunchError> {
    watched.begin();
    // SAFETY: `child` takes a plan, and never returns. This thread is suspended until the child has left this memory,
    // so `plan` and everything it points to outlive their use.
    let cloned = unsafe {
        let cgroup = plan.cgroup.map(|(directory, _)| directory);
        cloner.clone(child, cgroup, watched.pidfd(), |undone| {
            plan.undone.set(undone);
            ptr::from_ref(plan).cast_mut().cast()
        })
    };
    let is_killed = watched.end();
    let (pid, pidfd) = cloned.map_err(|error| {
        let errno = error.raw_os_error().unwrap_or(0);
        // Only with CLONE_INTO_CGROUP (clone(2)); ENOENT and ENODEV if the cgroup was removed.
        let is_of_cgroup = plan.cgroup.is_some()
            && matches!(
                errno,
                libc::EACCES | libc::EBUSY | libc::EOPNOTSUPP | libc::ENOENT | libc::ENODEV | libc::EBADF
            );
        let stage = if is_of_cgroup { Stage::Cgroup } else { Stage::Clone };
        LaunchError { stage, errno }
    })?;
    if is_killed {
        // Its program may have begun at the last moment, and have started others.
        let _ = pidfd::kill_group(pid, Signal::Kill);
        pidfd::reap_failed(pidfd.as_fd());
        return Err(LaunchError { stage: Stage::Deadline, errno: libc::ETIMEDOUT });
    }
    // SAFETY: the child that wrote it has left this memory.
    match unsafe { plan.failure.get().read_volatile() } {
        None => Ok((pid, pidfd)),
        Some(failure) => {
            pidfd::reap_failed(pidfd.as_fd());
            Err(failure)
        }
    }
}

/// The child's first function: executes the program, or stores the error and exits.
extern "C" fn child(plan: *mut c_void) -> c_int {
    const EXIT_CODE: c_int = 127;
    // SAFETY: `start` passes its plan, and is suspended while this runs.
    let plan = unsafe { &*plan.cast_const().cast::<Plan<'_>>() };
    let failure = become_program(plan);
    // SAFETY: the parent reads it only after this process has exited.
    unsafe { plan.failure.get().write_volatile(Some(failure)) };
    loop {
        // SAFETY: takes a number, and does not return. The C library's `exit` would run the server's exit handlers.
        unsafe { libc::syscall(libc::SYS_exit_group, EXIT_CODE) };
    }
}

/// Prepares the process and executes the program; returns only with an error.
///
/// The order of the steps matters:
/// 1. A table of descriptors of its own, before any is closed. Signals, before anything may take long.
/// 2. Resource limits, while a server that is root may raise them. The cgroup, before anything is started or mounted.
/// 3. Mounts, then the root, while the process may make them.
/// 4. Priorities. The rules for files: their paths are opened below the new root, by the server's user.
/// 5. `no_new_privs`, which no program can undo and which the next two require. Below another root, too: a set-user-ID program there would
///    believe the files of that root. And before a change of user: otherwise whoever controls the server could have any program started, and
///    so use set-user-ID programs. Then the rules for files are in force, and the filters of system calls, which permit the steps that follow.
/// 6. The user, as late as possible: from here on the process has the privileges of the script, and whoever has that user may stop or kill it.
///    A thread of the launcher waits for its exec, so what can be done before is done before (`watched_start` ends what is stopped here).
/// 7. The working directory: the user must be able to enter it, because what is below it can be reached without the directories above.
/// 8. The parent-death signal, which a change of user clears.
fn become_program(plan: &Plan<'_>) -> LaunchError {
    let failed = |stage| move |errno| LaunchError { stage, errno };
    let prepare = || {
        leave_descriptor_table(plan).map_err(failed(Stage::Descriptors))?;
        reset_dispositions(plan.undone.get().signals);
        unblock_signals();
        create_session().map_err(failed(Stage::Session))?;
        move_descriptors(plan).map_err(failed(Stage::Descriptors))?;
        for limit in plan.limits {
            limit.set().map_err(failed(Stage::Limits))?;
        }
        rlimit_mark::set(plan.server).map_err(failed(Stage::Limits))?;
        join_cgroup(plan).map_err(failed(Stage::Cgroup))?;
        if let Some(private_tmp) = &plan.private_tmp {
            private_tmp.mount().map_err(failed(Stage::PrivateTmp))?;
        }
        if let Some(directory) = plan.chroot {
            root_and_tmp::change_root(directory).map_err(failed(Stage::Chroot))?;
        }
        plan.priority.set().map_err(failed(Stage::Priority))?;
        let file_rules = plan.file_rules.map(PreparedRules::create).transpose();
        let file_rules = file_rules.map_err(failed(Stage::FileRules))?;
        if plan.empties_bounding_set {
            privileges::empty_bounding_set().map_err(failed(Stage::Privileges))?;
        }
        if plan.is_offline || file_rules.is_some() || plan.chroot.is_some() || plan.credentials.is_some() {
            forbid_privileges().map_err(failed(Stage::Privileges))?;
        }
        if let Some(ruleset) = file_rules {
            file_rules::restrict(ruleset).map_err(failed(Stage::FileRules))?;
        }
        if plan.file_rules.is_some_and(PreparedRules::forbids_changes) {
            attributes::forbid().map_err(failed(Stage::FileRules))?;
        }
        if plan.is_offline {
            network::forbid().map_err(failed(Stage::Network))?;
        }
        set_umask(plan);
        if let Some(credentials) = plan.credentials {
            credentials.assume().map_err(failed(Stage::Credentials))?;
        }
        enter_directory(plan).map_err(failed(Stage::Directory))?;
        set_parent_death_signal(plan).map_err(failed(Stage::ParentDeathSignal))?;
        execute(plan).map_err(failed(Stage::Exec))
    };
    match prepare() {
        Err(failure) => failure,
        // execve does not return unless it fails.
        Ok(()) => failed(Stage::Exec)(libc::ENOEXEC),
    }
}

/// Creates a descriptor table for the child, without the numbers above the reserved ones (`reserved_fds` says why).
///
/// Before that, closing a descriptor would close it in the server.
fn leave_descriptor_table(plan: &Plan<'_>) -> Result<(), i32> {
    // SAFETY: takes numbers only; with UNSHARE it does not close them in the server's table.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            plan.fds_end,
            c_int::MAX,
            libc::CLOSE_RANGE_UNSHARE,
        )
    };
    checked(done).map(drop)
}

/// Sets the disposition of every signal to the default, as programs expect.
///
/// An ignored signal would stay ignored in the program (execve(2)). Rust's runtime ignores SIGPIPE, so a script would
/// never notice that its reader is gone. A handler would run here, in the server's memory.
fn reset_dispositions(signals: SignalSet) {
    // struct kernel_sigaction: the handler first (SIG_DFL is 0), then flags, restorer and mask, at most 4 words.
    const DEFAULT: [u64; 4] = [0; 4];
    const OLD: usize = 0;
    for signal in 1..=SIGNAL_MAX {
        if !signals.has(signal) {
            continue;
        }
        // It fails only for SIGKILL and SIGSTOP, whose disposition is always the default.
        // SAFETY: the kernel reads a sigaction of its own layout, and writes nothing to a null pointer.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, DEFAULT.as_ptr(), OLD, size_of::<u64>()) };
    }
}

/// Unblocks all signals, after `reset_dispositions` has removed the handlers.
fn unblock_signals() {
    const NONE: [u64; 1] = [0];
    const OLD: usize = 0;
    // SAFETY: the kernel reads a signal set of the given size, and writes nothing to a null pointer.
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

/// Makes the child the leader of a new session and of its process group (setsid(2)).
///
/// A group can be signalled as a whole. A leader cannot change its group, no process can enter a group of another session, and descendants that leave
/// the group are found by their session (`session`). It has no terminal, so a script cannot write to that of the server.
fn create_session() -> Result<(), i32> {
    // SAFETY: takes nothing.
    checked(unsafe { libc::syscall(libc::SYS_setsid) }).map(drop)
}

/// Duplicates the descriptors to 0 to 4, or 5, without close-on-exec, and closes all others.
fn move_descriptors(plan: &Plan<'_>) -> Result<(), i32> {
    const FLAGS: c_int = 0;
    let mut next: c_int = 0;
    for &fd in plan.fds {
        // SAFETY: takes numbers only; the table is the child's own.
        checked(unsafe { libc::syscall(libc::SYS_dup3, fd, next, FLAGS) })?;
        next += 1;
    }
    // SAFETY: takes numbers only; the table is the child's own.
    let done = unsafe { libc::syscall(libc::SYS_close_range, next, c_int::MAX, FLAGS) };
    checked(done).map(drop)
}

/// Moves the child to its cgroup, unless it was created there.
fn join_cgroup(plan: &Plan<'_>) -> Result<(), i32> {
    let Some((_, members)) = plan.cgroup.filter(|_| plan.undone.get().is_outside_cgroup) else {
        return Ok(());
    };
    const FLAGS: c_int = libc::O_WRONLY | libc::O_CLOEXEC;
    const SELF: &CStr = c"0";
    // SAFETY: the path is NUL-terminated.
    let opened = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, members.as_ptr(), FLAGS) };
    let file = checked(opened)?;
    // SAFETY: the text has one byte at least; the descriptor is the child's own.
    let written = unsafe { libc::syscall(libc::SYS_write, file, SELF.as_ptr(), 1_usize) };
    let done = checked(written).map(drop);
    // SAFETY: takes a number; nothing else uses this descriptor of the child.
    unsafe { libc::syscall(libc::SYS_close, file) };
    done
}

/// Set-user-ID programs have no effect for this process and all that it starts (PR_SET_NO_NEW_PRIVS, prctl(2)).
fn forbid_privileges() -> Result<(), i32> {
    const ON: c_int = 1;
    const UNUSED: c_int = 0;
    // SAFETY: takes numbers only.
    let done = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, ON, UNUSED, UNUSED, UNUSED) };
    checked(done).map(drop)
}

fn set_umask(plan: &Plan<'_>) {
    // SAFETY: takes a number, and cannot fail. The umask is the child's own (no CLONE_FS).
    unsafe { libc::syscall(libc::SYS_umask, plan.umask) };
}

fn enter_directory(plan: &Plan<'_>) -> Result<(), i32> {
    // SAFETY: the path is NUL-terminated. The working directory is the child's own, too.
    checked(unsafe { libc::syscall(libc::SYS_chdir, plan.directory) }).map(drop)
}

/// Requests SIGKILL for the script when its launcher thread ends, which is when the server ends (PR_SET_PDEATHSIG, prctl(2)).
///
/// Called after the change of user, which would clear the setting. Executing a set-user-ID program also clears it.
fn set_parent_death_signal(plan: &Plan<'_>) -> Result<(), i32> {
    // SAFETY: takes numbers only.
    checked(unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // If the server was gone before the call, no signal comes; then another process is the parent by now.
    // SAFETY: takes nothing.
    let parent = unsafe { libc::syscall(libc::SYS_getppid) };
    if parent != c_long::from(plan.server) {
        return Err(libc::ESRCH);
    }
    Ok(())
}

fn execute(plan: &Plan<'_>) -> Result<(), i32> {
    // SAFETY: the path is NUL-terminated; the lists hold pointers to NUL-terminated texts and end in a null pointer.
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
