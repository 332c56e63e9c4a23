//! The launcher processes: one for each server process, which starts its scripts.
//!
//! ```text
//! supervisor ── link ──▶ launcher ◀── socket ──▶ server process
//! ```
//! A launcher ends when the socket to its server process is closed, after all script processes of that server. One that ends otherwise, or whose server
//! process goes on, is replaced, with growing delays, and its server process gets another socket; what it has left behind are children of the supervisor
//! then, and are killed. One that answers no questions, because somebody has stopped it, is killed.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use sluice_launch::launcher_sockets;
use sluice_server::LauncherPlan;
use sluice_settings::ScriptUserSettings;

use super::Supervisor;
use super::children::{Ended, describe};
use super::life::{State, delay_after, in_milliseconds};
use super::process::{OWN_PROGRAM, ServerProcess, start_process};
use crate::launcher_role::LAUNCHER_NAME;
use crate::link::message::{ToLauncher, ToServer};

/// A launcher that has lived so long does not count as a failed attempt.
const STABLE: Duration = Duration::from_secs(10);

/// How long a launcher may take to end after its server process.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server process may go on after its launcher has ended as it should, until another launcher is started.
const SERVER_END: Duration = Duration::from_secs(2);

/// Questions without an answer after which a launcher is killed. They are counted, rather than the time, because the supervisor may have been
/// stopped as well.
const UNANSWERED_MAX: u32 = 4;

pub(super) struct Launcher {
    pub(super) server: i32,
    /// `None` until the next one is due.
    pub(super) process: Option<ServerProcess>,
    started: Instant,
    /// Deaths in a row.
    deaths: u32,
    due: Option<Instant>,
    unanswered: u32,
}

impl Launcher {
    /// A process that works for this server process; `None`: one is to be started now.
    pub(super) fn new(server: i32, process: Option<ServerProcess>) -> Launcher {
        let now = Instant::now();
        Launcher {
            server,
            due: process.is_none().then_some(now),
            process,
            started: now,
            deaths: 0,
            unanswered: 0,
        }
    }
}

/// A launcher process whose server process has ended.
pub(super) struct Ending {
    pub(super) process: ServerProcess,
    /// When it is killed.
    until: Instant,
}

impl Ending {
    pub(super) fn new(process: ServerProcess) -> Ending {
        Ending { process, until: Instant::now() + END_TIMEOUT }
    }
}

impl Supervisor<'_> {
    /// Starts a launcher process by this plan. Also returns the server's end of the socket to it.
    pub(super) async fn start_launcher(&mut self, plan: &LauncherPlan) -> io::Result<(ServerProcess, OwnedFd)> {
        let (near, far) = launcher_sockets()?;
        let process = start_process(&mut self.children, OWN_PROGRAM.as_ref(), LAUNCHER_NAME, None)?;
        let sent = process.send(&ToLauncher::Start(plan.clone()), &[far.as_fd()]).await;
        if let Err(error) = sent {
            process.kill();
            return Err(error);
        }
        Ok((process, near))
    }

    /// When a launcher is due next, or must have ended.
    pub(super) fn launchers_due(&self) -> Option<Instant> {
        let due = self.launchers.iter().filter_map(|launcher| launcher.due);
        let has_any = self.launchers.iter().any(|launcher| launcher.process.is_some());
        due.chain(self.ending.iter().map(|ending| ending.until))
            .chain(has_any.then_some(self.question_due))
            .min()
    }

    /// Starts the launchers that are due, and kills those that do not end or do not answer.
    pub(super) async fn on_launchers_due(&mut self) {
        let now = Instant::now();
        let due = self
            .launchers
            .iter()
            .filter(|launcher| launcher.due.is_some_and(|due| due <= now));
        for server in due.map(|launcher| launcher.server).collect::<Vec<_>>() {
            self.restart_launcher(server).await;
        }
        for ending in self.ending.iter_mut().filter(|ending| ending.until <= now) {
            tracing::error!("launcher process {} does not end: it is killed", ending.process.pid);
            ending.process.kill();
            ending.until = now + END_TIMEOUT;
        }
        if self.question_due <= now {
            self.ask_launchers().await;
        }
    }

    /// Asks every launcher whether it is there, and kills those that have not answered for a while.
    async fn ask_launchers(&mut self) {
        let timeout = self.launcher_plan.answer_timeout;
        for launcher in &mut self.launchers {
            let Some(process) = &mut launcher.process else { continue };
            if process.has_answered().await {
                launcher.unanswered = 0;
            }
            if launcher.unanswered >= UNANSWERED_MAX {
                tracing::error!(
                    "launcher process {} has not answered for {} s: it is killed",
                    process.pid,
                    timeout.as_secs()
                );
                process.kill();
                continue;
            }
            launcher.unanswered += 1;
            process.send_or_log(&ToLauncher::Ask, &[]).await;
        }
        self.question_due = Instant::now() + timeout / UNANSWERED_MAX;
    }

    async fn restart_launcher(&mut self, server: i32) {
        let plan = self.launcher_plan.clone();
        let started = self.start_launcher(&plan).await;
        let Some(index) = self.launchers.iter().position(|launcher| launcher.server == server) else {
            return;
        };
        match started {
            Ok((process, socket)) => {
                tracing::info!("launcher process {} starts scripts", process.pid);
                let launcher = &mut self.launchers[index];
                (launcher.process, launcher.started, launcher.due) = (Some(process), Instant::now(), None);
                launcher.unanswered = 0;
                self.give_launcher(server, socket).await;
            }
            Err(error) => {
                tracing::error!("the launcher cannot be started: {error}");
                self.delay_launcher(index);
            }
        }
    }

    pub(super) fn launcher_processes(&self) -> impl Iterator<Item = &ServerProcess> {
        let launchers = self.launchers.iter().filter_map(|launcher| launcher.process.as_ref());
        launchers.chain(self.ending.iter().map(|ending| &ending.process))
    }

    /// Kills all launchers. Their scripts die with them, and what these have started is killed next.
    pub(super) fn kill_launchers(&self) {
        self.launcher_processes().for_each(ServerProcess::kill);
    }

    /// Has the server process's launcher permit the users of scripts. It has done so on return, because the server process may start their scripts at once.
    pub(super) async fn use_script_users(&mut self, users: ScriptUserSettings) {
        let server = self.server_pid();
        let of_server = |launcher: &&mut Launcher| launcher.server == server && launcher.process.is_some();
        let Some(launcher) = self.launchers.iter_mut().find(of_server) else {
            return;
        };
        let Some(process) = &mut launcher.process else { return };
        match process.send(&ToLauncher::Users(users), &[]).await {
            Ok(()) => {
                process.await_users().await;
                launcher.unanswered = 0;
            }
            // Its end is noticed elsewhere, and the next one begins with those of the plan.
            Err(error) => tracing::debug!("launcher process {}: {error}", process.pid),
        }
    }

    /// Has the launcher find out again where the directories of the scripts are, and the server process open them.
    pub(super) async fn follow_directories(&mut self) {
        // The settings that are tried now have been sent to the launcher, too.
        if self.pending.is_empty() {
            self.use_script_users(self.launcher_plan.users.clone()).await;
        }
        self.send(&ToServer::Directories).await;
    }

    async fn give_launcher(&self, server: i32, socket: OwnedFd) {
        let candidate = self.candidate.iter().map(|candidate| &candidate.process);
        let mut processes = self.server.iter().chain(&self.retired).chain(candidate);
        if let Some(process) = processes.find(|process| process.pid == server) {
            process.send_or_log(&ToServer::Launcher, &[socket.as_fd()]).await;
        }
    }

    /// Has another launcher started, at once or after a delay that grows with each death in a row.
    pub(super) fn delay_launcher(&mut self, index: usize) {
        let launcher = &mut self.launchers[index];
        if launcher.started.elapsed() >= STABLE {
            launcher.deaths = 0;
        }
        let delay = delay_after(launcher.deaths);
        launcher.deaths += 1;
        launcher.due = Some(Instant::now() + delay);
        tracing::warn!("a launcher is started again{}", in_milliseconds(delay));
    }

    /// A server process has ended: its launcher ends.
    pub(super) fn end_launcher_of(&mut self, server: i32) {
        for launcher in self.launchers.extract_if(.., |launcher| launcher.server == server) {
            self.ending.extend(launcher.process.map(Ending::new));
        }
    }

    pub(super) fn on_launcher_end(&mut self, ended: &Ended) {
        let endings = self.ending.len();
        self.ending.retain(|ending| ending.process.pid != ended.pid);
        let is_ending = self.ending.len() < endings;
        let is_of = |launcher: &Launcher| {
            launcher
                .process
                .as_ref()
                .is_some_and(|process| process.pid == ended.pid)
        };
        let index = self.launchers.iter().position(is_of);
        if is_ending || index.is_some() {
            // Its scripts are children of this process now, as far as they are alive.
            self.is_cleaning = self.children.kill_leftovers() > 0;
        }
        let Some(index) = index else { return };
        self.launchers[index].process = None;
        if ended.status.exit_status() == Some(0) {
            self.await_server_of(index, ended.pid);
            return;
        }
        tracing::error!("launcher process {} {}", ended.pid, describe(ended.status));
        self.delay_launcher(index);
    }

    /// A launcher has ended because its server process has closed the socket: either the server process ends, or it could not read from the socket.
    /// In the second case another launcher is due, after the time that an end takes.
    fn await_server_of(&mut self, index: usize, pid: i32) {
        let server = self.server_pid();
        let launcher = &mut self.launchers[index];
        launcher.due = Some(Instant::now() + SERVER_END.max(delay_after(launcher.deaths)));
        launcher.deaths += 1;
        if launcher.server == server && !matches!(self.life.state(), State::Draining { .. }) {
            tracing::warn!("launcher process {pid} has ended, because server process {server} has closed their socket");
        }
    }
}
