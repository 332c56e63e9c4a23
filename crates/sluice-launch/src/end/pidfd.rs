//! Detecting, reaping and forcing the end of a process.
//!
//! A pidfd becomes readable when its process has exited: an event loop waits for that, then calls [`reap`]. The public functions never block.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

/// How a process ended (wait(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// The process exited with this code, 0 to 255.
    Code(i32),
    /// The process was killed by this signal.
    Signal(i32),
}

/// The resources that a process has used until its end, with those of its children that it has waited for (getrusage(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time of its own code.
    pub user: Duration,
    /// Processor time of the kernel on its behalf.
    pub system: Duration,
    /// The most memory that it had at once, bytes (`ru_maxrss`).
    pub memory_bytes_max: u64,
}

/// A signal that ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Signal {
    /// SIGTERM: a request, which the program may delay or ignore.
    Terminate,
    /// SIGKILL, which the program cannot catch.
    Kill,
}

/// Reaps a child of this process (waitid(2)); `None` while it runs.
///
/// After that its pid may belong to another process: [`kill_group`] says what must be done before.
///
/// # Errors
/// `ECHILD` if it has been reaped already, or if the server ignores SIGCHLD (wait(2)): the server's fault.
pub fn reap(pidfd: BorrowedFd<'_>) -> io::Result<Option<Exit>> {
    Ok(reap_with_usage(pidfd)?.map(|(exit, _)| exit))
}

/// Reaps a child as [`reap`] does, and returns the resources that it has used.
///
/// # Errors
/// The same as for [`reap`].
pub fn reap_with_usage(pidfd: BorrowedFd<'_>) -> io::Result<Option<(Exit, Usage)>> {
    wait(pidfd, libc::WEXITED | libc::WNOHANG)
}

/// Whether the process has exited, reaped or not. Does not reap it.
///
/// # Errors
/// The kernel is short of memory (poll(2)).
pub fn has_exited(pidfd: BorrowedFd<'_>) -> io::Result<bool> {
    await_exit(pidfd, Some(Instant::now()))
}

/// Waits until the process has exited, reaped or not. False if it has not until this moment.
pub(crate) fn await_exit(pidfd: BorrowedFd<'_>, until: Option<Instant>) -> io::Result<bool> {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], left.as_ref()) {
            Err(Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

/// Sends a signal to every process of the group that `pid` leads (`Started::pid`): the script and its own children.
///
/// The order matters: signal the group *before* the leader is reaped, then [`reap`]. While the leader runs or is an unreaped zombie, the kernel does
/// not reuse its number, neither for a process nor for a group, so the signal can reach only this script. Once the leader is reaped and the group is
/// empty, the number may belong to an unrelated process. So at the end of every script process, even one that exited by itself (its children may still
/// run): wait until the pidfd is readable, `kill_group(pid, Signal::Kill)`, `reap(pidfd)`.
///
/// A process that has left the group is not reached: [`crate::ScriptCgroup::end`] reaches it, and [`crate::end_session`] finds it.
///
/// # Errors
/// `ESRCH`: no such group (reaped too early), the caller's fault. `EPERM`: every member runs as a user whom the server
/// may not signal. `EINVAL`: `pid` is 1 or less, the caller's fault: these values have other meanings in kill(2).
pub fn kill_group(pid: i32, signal: Signal) -> io::Result<()> {
    if pid <= 1 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: takes numbers only; -pid cannot overflow and is below -1.
    if unsafe { libc::kill(-pid, signal.number()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sends a signal to the process of a pidfd alone. Never reaches another process, even if this one has been reaped.
///
/// # Errors
/// `ESRCH`: it has been reaped. `EPERM`: it runs as a user whom the server may not signal.
pub fn kill(pidfd: BorrowedFd<'_>, signal: Signal) -> io::Result<()> {
    send(pidfd, signal.number())
}

fn send(pidfd: BorrowedFd<'_>, signal: libc::c_int) -> io::Result<()> {
    const INFO: usize = 0;
    const FLAGS: libc::c_uint = 0;
    // SAFETY: takes numbers and a null pointer, which stands for the information that kill(2) sends.
    let done = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, INFO, FLAGS) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Opens a process by its number. Waits for nothing.
pub(crate) fn open(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Whether a process has not been reaped, so that its number is still its own.
pub(crate) fn is_unreaped(pidfd: BorrowedFd<'_>) -> bool {
    const NO_SIGNAL: libc::c_int = 0;
    match send(pidfd, NO_SIGNAL) {
        // EPERM: it is there.
        Err(error) => error.raw_os_error() != Some(libc::ESRCH),
        Ok(()) => true,
    }
}

/// The real user of a process (PIDFD_GET_INFO, Linux 6.13). Waits for nothing, other than a file of /proc. `None` if the kernel does not say.
pub(crate) fn user_of(pidfd: BorrowedFd<'_>) -> Option<u32> {
    // SAFETY: numbers, for which all zeros is a valid value.
    let mut info: libc::pidfd_info = unsafe { std::mem::zeroed() };
    let users = u64::from(libc::PIDFD_INFO_CREDS);
    info.mask = users;
    // SAFETY: `info` is valid for the kernel to read and write; its size is part of the number of the call.
    let done = unsafe { libc::ioctl(pidfd.as_raw_fd(), libc::PIDFD_GET_INFO, &raw mut info) };
    (done == 0 && info.mask & users != 0).then_some(info.ruid)
}

/// Reaps a child whose start failed. Waits for its exit, which follows at once.
pub(crate) fn reap_failed(pidfd: BorrowedFd<'_>) {
    // Other errors mean that there is nothing to reap.
    while let Err(error) = wait(pidfd, libc::WEXITED) {
        if error.kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

fn wait(pidfd: BorrowedFd<'_>, options: libc::c_int) -> io::Result<Option<(Exit, Usage)>> {
    // SAFETY: siginfo_t is plain data for which all zeros is a valid value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: so is rusage.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `info` and `used` are valid for the kernel to write. The function of the C library has no `used` (waitid(2)).
    let done = unsafe {
        libc::syscall(
            libc::SYS_waitid,
            libc::P_PIDFD,
            pidfd.as_raw_fd(),
            &raw mut info,
            options,
            &raw mut used,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: waitid has filled in the fields of a SIGCHLD, or left the zeros (WNOHANG and nothing to reap).
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    let exit = match (pid, info.si_code) {
        (0, _) => return Ok(None),
        (_, libc::CLD_EXITED) => Exit::Code(status),
        _ => Exit::Signal(status),
    };
    let usage = Usage {
        user: time_of(used.ru_utime),
        system: time_of(used.ru_stime),
        memory_bytes_max: u64::try_from(used.ru_maxrss).unwrap_or(0) * 1024,
    };
    Ok(Some((exit, usage)))
}

fn time_of(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

impl Signal {
    fn number(self) -> libc::c_int {
        match self {
            Signal::Terminate => libc::SIGTERM,
            Signal::Kill => libc::SIGKILL,
        }
    }
}

impl Exit {
    /// The name of the signal that has ended it, such as `SIGKILL`. `None` if it has exited, and for signals that end no programs in practice.
    #[must_use]
    pub fn signal_name(self) -> Option<&'static str> {
        match self {
            Exit::Code(_) => None,
            Exit::Signal(signal) => signal_name(signal),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Exit::Code(code) => write!(out, "exit code {code}"),
            Exit::Signal(signal) => match signal_name(signal) {
                Some(name) => write!(out, "ended by signal {signal} ({name})"),
                None => write!(out, "ended by signal {signal}"),
            },
        }
    }
}

/// The name of a signal; `None` for those that end no programs in practice.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_is_displayed_with_code_or_signal() {
        assert_eq!(Exit::Code(3).to_string(), "exit code 3");
        assert_eq!(Exit::Signal(9).to_string(), "ended by signal 9 (SIGKILL)");
        assert_eq!(Exit::Signal(40).to_string(), "ended by signal 40");
    }

    #[test]
    fn pids_with_a_special_meaning_are_refused() {
        for pid in [i32::MIN, -1, 0, 1] {
            let error = kill_group(pid, Signal::Terminate).expect_err("refused");
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        }
    }
}
