//! The processes of a script's session: ending those that it leaves behind, and whether it has any.
//!
//! A script process leads a session (setsid(2)) and cannot leave it. Its descendants may leave its process group (timeout(1), `set -m` of a shell), but
//! not its session, unless they start one of their own, as daemons do; those are known by a mark in their environment, and by one of their limits
//! (`rlimit_mark`) if they have cleared it or do not let it be read. A session's number is that of its leader. The kernel does not reuse a number while
//! its process is an unreaped zombie, nor while a session of that number has a member. So its processes are killed while its leader is a zombie.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::end::families::families;
use crate::end::pidfd::{Signal, await_exit, kill, open};
use crate::end::search::{Family, Member, Pass};
use crate::end::{orphan_user, orphans};

/// The time after which the end of a session is given up: SIGKILL takes effect at once, except for a process that waits for a disk.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The time after which an empty search is accepted although processes exited during it, as those of other scripts always do on a busy machine.
const SEARCH_TIMEOUT: Duration = Duration::from_millis(200);

/// How long a round waits for the processes that it has killed. Others may have been started meanwhile.
const ROUND_TIMEOUT: Duration = Duration::from_millis(50);

/// The time between two searches if nothing was killed.
const PAUSE: Duration = Duration::from_millis(1);

/// How long the processes that a script has left behind may go on after SIGTERM, so that they can remove what they have made.
const TERM_TIMEOUT: Duration = Duration::from_millis(100);

/// More processes than this get no SIGTERM: a script that starts so many could start more meanwhile.
const TERM_PROCESSES_MAX: usize = 16;

/// Processes that a script has left behind and that cannot be ended.
#[derive(Debug)]
pub struct Survivors {
    /// Their process ids.
    pub pids: Vec<i32>,
}

impl fmt::Display for Survivors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 8;
        out.write_str("processes that it started cannot be ended:")?;
        for pid in self.pids.iter().take(SHOWN_MAX) {
            write!(out, " {pid}")?;
        }
        match self.pids.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(out, " and {more} more"),
        }
    }
}

/// Ends every process of the session that `leader` (`Started::pid`) leads, except the leader itself, and every process in other sessions
/// that has `mark` in its environment or the sign of its descendants (`rlimit_mark`), by SIGTERM and SIGKILL, and waits for their end. The leader must have exited and must not be reaped yet. No other
/// script may have the mark in its environment; an empty one marks nothing.
///
/// Reads the process table and waits: not for an event loop. Returns within three seconds, or seven if somebody hinders it (`search`).
///
/// # Errors
/// Some cannot be ended: they wait for a disk, or run as a user whom the server may not signal.
pub fn end_session(leader: i32, mark: &str) -> Result<(), Survivors> {
    let family = Family { session: leader, mark: Arc::from(mark) };
    let began = Instant::now();
    let mut zombies = HashSet::new();
    terminate_members(Pass::of(&family, &mut zombies).members);
    loop {
        let pass = Pass::of(&family, &mut zombies);
        let waited = began.elapsed();
        if pass.members.is_empty() && (pass.is_conclusive || waited >= SEARCH_TIMEOUT) {
            return Ok(());
        }
        if waited >= END_TIMEOUT {
            let pids = pass.members.iter().map(|member| member.pid).collect();
            return Err(Survivors { pids });
        }
        let pidfds: Vec<OwnedFd> = pass.members.into_iter().filter_map(|member| member.pidfd).collect();
        for pidfd in &pidfds {
            // Fails for a process that the server may not signal; it is a survivor then.
            let _ = kill(pidfd.as_fd(), Signal::Kill);
        }
        if pidfds.is_empty() {
            // None was found, or there is no descriptor left.
            std::thread::sleep(PAUSE);
        }
        wait_for_exits(&pidfds, ROUND_TIMEOUT);
    }
}

fn terminate_members(members: Vec<Member>) {
    if members.len() > TERM_PROCESSES_MAX {
        return;
    }
    let mut pidfds: Vec<OwnedFd> = members.into_iter().filter_map(|member| member.pidfd).collect();
    pidfds.retain(|pidfd| kill(pidfd.as_fd(), Signal::Terminate).is_ok());
    wait_for_exits(&pidfds, TERM_TIMEOUT);
}

/// Sends SIGTERM to processes, if they are few, and waits until they have exited, no longer than `TERM_TIMEOUT`. `is_member` checks
/// again whether a number still belongs to a process of the session: it may have passed to another one.
pub(crate) fn terminate(pids: &[i32], is_member: impl Fn(i32) -> bool) {
    if pids.len() > TERM_PROCESSES_MAX {
        return;
    }
    let open = |pid: &i32| Some((*pid, open(*pid).ok()?));
    let mut pidfds = Vec::new();
    for (pid, pidfd) in pids.iter().filter_map(open) {
        if is_member(pid) && kill(pidfd.as_fd(), Signal::Terminate).is_ok() {
            pidfds.push(pidfd);
        }
    }
    wait_for_exits(&pidfds, TERM_TIMEOUT);
}

/// Whether another process can do the work of a script process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Company {
    /// No other process can.
    Alone,
    /// A process of its session that has not exited can, or one that holds its standard output open, such as a daemon that it started.
    Helped,
    /// Unknown for now: the kernel does not say, another search is under way, or there are too many processes. Treated as `Helped`, and asked again.
    Unknown,
}

/// Whether another process can do the work of a script process. Its own threads do not count.
///
/// Reads the descriptors of the processes that it has started. Only if these give no answer, reads those of every process that the server may
/// read, for no longer than a second of the processor's time, and for one script at a time: not for an event loop.
#[must_use]
pub fn company(leader: i32) -> Company {
    let Ok(output) = fs::read_link(format!("/proc/{leader}/fd/1")) else {
        return Company::Unknown;
    };
    // A process that a script starts is below it, or an orphan of the server, as long as that is the subreaper.
    let is_helped = || started_by(leader).any(|pid| is_helper(pid, leader, &output));
    if is_helped() {
        return Company::Helped;
    }
    // A descriptor can be passed to any process (SCM_RIGHTS of unix(7)).
    let found = match SEARCHING.try_lock() {
        Ok(_searching) => search_all(leader, &output, SEARCH_ALL_PROCESSOR_TIME),
        Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => Company::Unknown,
    };
    // Again: a process that hands its work to a child and exits meanwhile may hide both from one search.
    match found {
        Company::Alone if is_helped() => Company::Helped,
        found => found,
    }
}

/// Held while all processes are searched.
static SEARCHING: Mutex<()> = Mutex::new(());

/// The time that a search of all processes may use. On a busy machine it takes several times as long.
const SEARCH_ALL_PROCESSOR_TIME: Duration = Duration::from_secs(1);

/// The processes below a script process, and the orphans of all scripts with those below them.
fn started_by(leader: i32) -> impl Iterator<Item = i32> {
    let listed = orphans::list().ok().flatten();
    let mut orphans = listed.map_or_else(Vec::new, |orphans| orphans.pids);
    orphans.retain(|orphan| !families().is_given_up(*orphan));
    orphan_user::retain_own(&mut orphans, leader);
    let mut unvisited: Vec<i32> = children(leader).into_iter().chain(orphans).collect();
    std::iter::from_fn(move || {
        let pid = unvisited.pop()?;
        unvisited.extend(children(pid));
        Some(pid)
    })
}

/// The processor time of this thread so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The clock has no negative times.
    Duration::try_from(time).unwrap_or_default()
}

fn search_all(leader: i32, output: &Path, budget: Duration) -> Company {
    let begin = processor_time();
    // A launcher in the server holds the other end of the output, if it is a socket.
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    for pid in all_processes() {
        if pid != leader && pid != own && is_helper(pid, leader, output) {
            return Company::Helped;
        }
        if processor_time() - begin >= budget {
            return Company::Unknown;
        }
    }
    Company::Alone
}

/// Whether a process is of the session of `leader`, or has its output open.
fn is_helper(pid: i32, leader: i32, output: &Path) -> bool {
    match Stat::read(pid) {
        None => false,
        Some(stat) if stat.is_kernel_thread => false,
        Some(stat) if stat.is_zombie && !has_threads(pid) => false,
        Some(stat) => stat.session == leader || has_open(pid, output),
    }
}

/// Whether a process is ending: its descriptors may be closed already, and its exit status will be known soon. False for one of which a
/// thread goes on; true for one that has been reaped already. Reads a file of /proc.
pub(crate) fn is_exiting(pid: i32) -> bool {
    Stat::read(pid).is_none_or(|stat| (stat.is_zombie || stat.is_exiting) && !has_threads(pid))
}

/// Whether a process has a file open for writing: the server has the other end of a pipe open, which has the same name. False for a process whose descriptors the server may not read.
fn has_open(pid: i32, name: &Path) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.map(|descriptor| descriptor.path()).any(|path| {
        // The mode of the link says how it is open (proc(5)).
        let is_writable = || fs::symlink_metadata(&path).is_ok_and(|about| about.permissions().mode() & 0o200 != 0);
        fs::read_link(&path).is_ok_and(|link| link == name) && is_writable()
    })
}

/// Whether a process whose main thread has exited has others (pthread_exit(3)).
pub(super) fn has_threads(pid: i32) -> bool {
    fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() > 1)
}

/// The children of a process, as far as they are known: those that appear or end meanwhile may be missing.
pub(super) fn children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists = threads.filter_map(|thread| fs::read(thread.path().join("children")).ok());
    lists.flat_map(|list| orphans::parse(&list)).collect()
}

pub(super) fn all_processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn wait_for_exits(pidfds: &[OwnedFd], timeout: Duration) {
    let until = Instant::now() + timeout;
    for pidfd in pidfds {
        let _ = await_exit(pidfd.as_fd(), Some(until));
    }
}

/// The fields of /proc/PID/stat that a search needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) session: i32,
    pub(super) is_zombie: bool,
    /// The main thread is in exit(2), or a signal ends it.
    is_exiting: bool,
    is_kernel_thread: bool,
}

impl Stat {
    pub(super) fn read(pid: i32) -> Option<Stat> {
        Stat::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses `PID (NAME) STATE PARENT GROUP SESSION TERMINAL ITS-GROUP FLAGS …`, where the name may hold anything (proc_pid_stat(5)).
    fn parse(line: &[u8]) -> Option<Stat> {
        let name_end = line.iter().rposition(|byte| *byte == b')')?;
        let fields = std::str::from_utf8(&line[name_end + 1..]).ok()?;
        let mut fields = fields.split_ascii_whitespace();
        /// PF_EXITING of include/linux/sched.h.
        const EXITING: u32 = 4;
        /// PF_KTHREAD.
        const KERNEL_THREAD: u32 = 0x20_0000;
        let state = fields.next()?;
        let session = fields.nth(2)?.parse().ok()?;
        let flags: u32 = fields.nth(2)?.parse().ok()?;
        Some(Stat {
            session,
            is_zombie: matches!(state, "Z" | "X"),
            is_exiting: flags & EXITING != 0,
            is_kernel_thread: flags & KERNEL_THREAD != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_parentheses_does_not_hide_the_session() {
        let stat =
            |line: &str| Stat::parse(line.as_bytes()).map(|stat| (stat.session, stat.is_zombie, stat.is_exiting));
        assert_eq!(stat("7 (sh) S 1 7 9 0 -1 4194560"), Some((9, false, false)));
        assert_eq!(stat("7 (sh) R 1 7 9 0 -1 4194564 1"), Some((9, false, true)));
        assert_eq!(stat("7 (a) S 1 2 3 (b) Z 1 7 8 0 -1 4"), Some((8, true, true)));
        assert_eq!(stat("7 (sh) S 1 7 9 0"), None);
        assert_eq!(stat(""), None);
    }

    /// A process whose standard output is a pipe, and what it has written up to the first newline.
    fn start(command: &str) -> (std::process::Child, i32) {
        use std::io::{BufRead, BufReader};
        let mut shell = std::process::Command::new("sh");
        let shell = shell.args(["-c", command]).stdin(std::process::Stdio::null());
        let mut child = shell.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        child.stdout = Some(output.into_inner());
        let pid = i32::try_from(child.id()).unwrap();
        (child, pid)
    }

    /// Asks until it is this: another test may search, or start a process that has all descriptors until it executes its program.
    fn becomes(pid: i32, wanted: Company) -> bool {
        let deadline = Instant::now() + Duration::from_secs(30);
        std::iter::repeat_with(|| company(pid)).any(|found| found == wanted || Instant::now() >= deadline)
            && Instant::now() < deadline
    }

    #[test]
    fn a_process_is_alone_unless_another_has_its_output() {
        let (mut alone, pid) = start("echo; exec sleep 100");
        assert!(becomes(pid, Company::Alone));
        let (mut helped, helped_pid) = start("echo; sleep 100 & wait");
        assert!(becomes(helped_pid, Company::Helped));
        // One that is not below it.
        let output = fs::OpenOptions::new()
            .write(true)
            .open(format!("/proc/{pid}/fd/1"))
            .unwrap();
        let mut stranger = std::process::Command::new("sleep");
        let mut stranger = stranger.arg("100").stdout(output).spawn().unwrap();
        assert!(becomes(pid, Company::Helped));
        let search = search_all(
            pid,
            &fs::read_link(format!("/proc/{pid}/fd/1")).unwrap(),
            Duration::ZERO,
        );
        assert_ne!(search, Company::Alone, "it took too long");
        for grandchild in children(helped_pid) {
            kill(open(grandchild).unwrap().as_fd(), Signal::Kill).unwrap();
        }
        for child in [&mut alone, &mut helped, &mut stranger] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(company(pid), Company::Unknown, "it has gone");
    }

    #[test]
    fn survivors_are_named_up_to_a_number() {
        let shown = |pids: Vec<i32>| Survivors { pids }.to_string();
        assert_eq!(shown(vec![7, 9]), "processes that it started cannot be ended: 7 9");
        assert!(shown((1..=10).collect()).ends_with(" 8 and 2 more"));
    }
}
