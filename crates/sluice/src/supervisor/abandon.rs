//! Processes that hang in the kernel: SIGKILL has no effect on them while a call of theirs waits for a disk, a network or another process, which
//! may be for ever. They are abandoned, and others do their work.
//!
//! Such a process keeps its descriptors: the sockets that it shares with the supervisor serve its successor as well, and its own connections
//! stay open. The launcher of a server process that is abandoned is asked to end, because the socket between them does not close.

use std::collections::HashSet;
use std::fs::read_to_string;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use sluice_launch::{Answer, LookupShare, look_elsewhere};

use super::Supervisor;
use super::life::{HANGS_AFTER, LifeEvent};
use super::process::ServerProcess;
use crate::link::message::{ToLauncher, ToServer};

/// How often it is looked whether a process is dying.
const INTERVAL: Duration = Duration::from_secs(5);

/// The same, while one is.
const INTERVAL_WHILE_DYING: Duration = Duration::from_secs(1);

const HANGS: &str = "was killed and does not end: it hangs in the kernel, and is abandoned";

/// The bit of SIGKILL among pending signals (proc_pid_status(5)).
const SIGKILL_BIT: u64 = 1 << 8;

/// The processes that are dying, as a thread has found it.
pub(super) type Look = Answer<HashSet<i32>>;

/// Waits for what the thread finds. It may wait for as long as somebody holds `/proc`; then it is not asked for more.
pub(super) async fn found(look: &mut Option<Look>) -> HashSet<i32> {
    let Some(answer) = look else {
        return std::future::pending().await;
    };
    let dying = answer.await.unwrap_or_default();
    *look = None;
    dying
}

impl Supervisor<'_> {
    /// Has a thread look which processes are dying, unless it has not answered yet: /proc is a directory that any user can hold, and so are those in it.
    pub(super) fn look_at_processes(&mut self) {
        self.check_due = Instant::now() + INTERVAL;
        if self.look.is_none() {
            let processes = self.server.iter().chain(&self.retired).chain(self.launcher_processes());
            let pids: Vec<i32> = processes.map(|process| process.pid).collect();
            let look = move || pids.into_iter().filter(|pid| is_dying(*pid)).collect();
            self.look = Some(look_elsewhere(LookupShare::PROCESSES, look));
        }
    }

    /// Looks for processes that were killed and do not end.
    pub(super) async fn check_processes(&mut self, dying: &HashSet<i32>) {
        let now = Instant::now();
        let mut is_any_dying = false;
        let mut hangs = |process: &mut ServerProcess| {
            let hangs = process.hangs(dying.contains(&process.pid), now);
            is_any_dying |= process.is_dying();
            hangs
        };
        let retired: Vec<_> = self.retired.extract_if(.., &mut hangs).collect();
        self.ending.retain_mut(|ending| {
            let hangs = hangs(&mut ending.process);
            if hangs {
                tracing::error!("launcher process {} {HANGS}", ending.process.pid);
            }
            !hangs
        });
        let mut launchers = Vec::new();
        for (index, launcher) in self.launchers.iter_mut().enumerate() {
            if let Some(process) = launcher.process.take_if(&mut hangs) {
                tracing::error!("launcher process {} {HANGS}", process.pid);
                launchers.push(index);
            }
        }
        if let Some(server) = &mut self.server {
            hangs(server);
        }
        launchers.into_iter().for_each(|index| self.delay_launcher(index));
        for process in retired {
            tracing::error!("server process {} {HANGS}", process.pid);
            self.leave_behind(process.pid).await;
        }
        self.check_due = now
            + match is_any_dying {
                true => INTERVAL_WHILE_DYING,
                false => INTERVAL,
            };
        if self.server.as_ref().is_some_and(ServerProcess::is_dying) {
            self.on(LifeEvent::Dying).await;
        }
    }

    /// Has the server process take commands on another control socket, if the file of this one is gone. A candidate has been given this one.
    pub(super) async fn restore_control(&mut self) {
        if let Some(control) = self.control.as_mut().filter(|_| self.candidate.is_none())
            && control.restore().await
            && let Some(server) = &self.server
        {
            server.send_or_log(&ToServer::Control, &[control.socket.as_fd()]).await;
        }
    }

    /// Goes on without the server process, as if it had ended.
    pub(super) async fn abandon_server(&mut self) -> Option<LifeEvent> {
        let server = self.server.take()?;
        self.leave_behind(server.pid).await;
        self.conclude_server(server.pid, HANGS);
        Some(LifeEvent::Died)
    }

    /// Has the scripts of a server process ended that is given up. What only one server process may have stays with it.
    async fn leave_behind(&mut self, server: i32) {
        let mut launchers = self.launchers.iter().filter(|launcher| launcher.server == server);
        if let Some(process) = launchers.find_map(|launcher| launcher.process.as_ref()) {
            // It is killed when it does not end.
            process.send_or_log(&ToLauncher::End, &[]).await;
        }
        self.end_launcher_of(server);
        self.abandoned.push(server);
    }

    /// Forgets a process that has ended, if it was one that has been abandoned.
    pub(super) fn forget_abandoned(&mut self, pid: i32) {
        let abandoned = self.abandoned.len();
        self.abandoned.retain(|other| *other != pid);
        if self.abandoned.len() < abandoned {
            tracing::info!("server process {pid}, which was abandoned, has ended");
        }
    }
}

impl ServerProcess {
    /// Whether it has been dying for so long that it hangs.
    fn hangs(&mut self, is_dying: bool, now: Instant) -> bool {
        self.dying_since = match is_dying {
            true => self.dying_since.or(Some(now)),
            false => None,
        };
        self.dying_since
            .is_some_and(|since| now.saturating_duration_since(since) >= HANGS_AFTER)
    }

    /// Whether it was killed and had not ended when `hangs` was asked.
    fn is_dying(&self) -> bool {
        self.dying_since.is_some()
    }
}

/// Whether a child was killed and has not ended; waits for whoever holds its directory: its first thread has, or a thread has not obeyed SIGKILL yet.
fn is_dying(pid: i32) -> bool {
    let status = read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status_is_of_dying(&status)
}

fn status_is_of_dying(status: &str) -> bool {
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    };
    let is_zombie = field("State").is_some_and(|state| state.trim_start().starts_with('Z'));
    let is_killed = |name| {
        let pending = field(name).and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
        pending.is_some_and(|signals| signals & SIGKILL_BIT != 0)
    };
    // A large one takes its time.
    let dumps_core = field("CoreDumping").is_some_and(|text| text.trim() == "1");
    !dumps_core && (is_zombie || is_killed("SigPnd") || is_killed("ShdPnd"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zombies_and_killed_processes_are_dying_until_their_core_is_dumped() {
        let status = |state: &str, pending: &str, dumping: &str| {
            format!(
                "Name:\tsluice\nState:\t{state}\nCoreDumping:\t{dumping}\nSigPnd:\t{pending}\nShdPnd:\t0000000000000000\n"
            )
        };
        let none = "0000000000000000";
        for (text, expected) in [
            (status("S (sleeping)", none, "0"), false),
            (status("D (disk sleep)", none, "0"), false),
            (status("Z (zombie)", none, "0"), true),
            (status("D (disk sleep)", "0000000000000100", "0"), true),
            (status("D (disk sleep)", "0000000000000100", "1"), false),
            (status("S (sleeping)", "0000000000004000", "0"), false),
            (String::new(), false),
        ] {
            assert_eq!(status_is_of_dying(&text), expected, "{text}");
        }
    }
}
