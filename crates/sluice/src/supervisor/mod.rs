//! The supervisor of `sluice run`: reads the configuration, binds the sockets, and keeps a server process running.
//!
//! ```text
//! supervisor  configuration, keys, listening sockets, control socket; signals; restarts. Parses no request
//!     │ link: bundle of files, sockets, commands
//!     ▼
//! server process  everything that clients send (server_role)
//! ```
//! When a server process dies, its scripts are killed (`children`), and another one gets the same sockets and files; clients wait in the sockets' queues.

mod abandon;
mod activation;
mod children;
mod files;
mod launchers;
mod life;
mod notify;
mod process;
mod reading;
mod reload;
mod sockets;
mod start;
mod takeover;
mod upgrade;

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use sluice_report::command::{Command, History};
use sluice_server::LauncherPlan;
use tokio::signal::unix::Signal;
use tokio::time::timeout_at;

use crate::certificates::{Certificates, ReadFiles};
use crate::control::socket::BoundControl;
use crate::link::channel::{Received, send_now};
use crate::link::message::{Cause, FromServer, ToServer, VERSION};
use crate::log_files;
use crate::server_log::Logger;
use crate::signals::{Event as SignalEvent, Signals, until};

use abandon::Look;
use children::{Children, Ended, describe};
use files::ServerUser;
use launchers::{Ending, Launcher};
use life::{Action, Life, LifeEvent, State, in_milliseconds};
use notify::Notifier;
use process::ServerProcess;
use reading::{Purpose, Reading};
use sockets::Sockets;
use upgrade::Candidate;

use reload::settings_of;

pub(crate) use children::{READER_NAME, SERVER_NAME};
pub(crate) use files::in_directory_of_root;
pub(crate) use start::{Passed, run, run_reader, take_over};
pub(crate) use takeover::{SUPERVISOR_NAME, check_left};
pub(crate) use upgrade::TRIAL_NAME;

/// Reloads that are asked for while another one is under way: one more is made for all of them, and so many are named.
const CAUSES_MAX: usize = 64;

/// How long the last messages of a dead server process are waited for: they are in the channel already.
const LAST_WORDS: Duration = Duration::from_secs(1);

struct Supervisor<'a> {
    /// The configuration file, as the administrator named it.
    file: PathBuf,
    /// The program, by the path that it was started from.
    program: PathBuf,
    life: Life,
    children: Children,
    sockets: Sockets,
    notifier: Notifier,
    control: Option<BoundControl>,
    /// The files of the settings in force, for the next server process.
    bundle: OwnedFd,
    certificates: Certificates,
    /// The user of the server process; `None`: the same as the supervisor's.
    user: Option<ServerUser>,
    server: Option<ServerProcess>,
    /// A server process that is to replace it, or a program that is only tried.
    candidate: Option<Candidate>,
    /// Server processes that were replaced, or that could not replace another one, and end.
    retired: Vec<ServerProcess>,
    /// Server processes that hang in the kernel, and that nobody waits for.
    abandoned: Vec<i32>,
    /// Files of certificates that cannot be used: the bundle has their old content.
    kept_files: Vec<PathBuf>,
    /// When it is looked next whether one hangs.
    check_due: Instant,
    look: Option<Look>,
    reading: Option<Reading>,
    /// Settings, or certificates, that the server process tries.
    pending: reload::Pending,
    /// The commands and signals that asked for the next reload.
    causes: Vec<Cause>,
    upgrade: Option<Cause>,
    history: History,
    launcher_plan: LauncherPlan,
    launchers: Vec<Launcher>,
    /// When the launchers are asked next whether they answer.
    question_due: Instant,
    /// Launchers of server processes that have ended.
    ending: Vec<Ending>,
    /// Whether processes of a dead launcher or server process may be left.
    is_cleaning: bool,
    /// Why the first server process could not start.
    failure: Option<String>,
    end: Option<Result<(), String>>,
    logger: &'a Logger,
}

enum Event {
    Signal(SignalEvent),
    Child,
    Lines,
    Server(Option<Received<FromServer>>),
    Candidate(Option<Received<FromServer>>),
    Certificates(ReadFiles),
    Due,
    AnswerDue,
    LauncherDue,
    CheckDue,
    Looked(HashSet<i32>),
    TooLate,
    Read(Option<Received<Vec<PathBuf>>>),
    ReadTooLate,
}

impl Supervisor<'_> {
    async fn supervise(mut self, mut signals: Signals, mut child: Signal) -> Result<(), String> {
        loop {
            // Those that were replaced may still have exchanges.
            if self.retired.is_empty()
                && self.ending.is_empty()
                && let Some(end) = self.end.take()
            {
                return end;
            }
            self.pass_lines();
            match self.happens(&mut signals, &mut child).await {
                Event::Signal(event) => self.on_signal(event).await,
                Event::Child => self.on_children().await,
                Event::Server(Some(received)) => self.on_server(received.message).await,
                Event::Candidate(Some(received)) => self.on_candidate(received.message).await,
                // Passed above; or the end of a process follows.
                Event::Lines | Event::Server(None) | Event::Candidate(None) | Event::Read(None) => {}
                Event::Certificates(read) => self.renew_certificates(read).await,
                Event::Due => self.on(LifeEvent::Due).await,
                Event::AnswerDue => self.on(LifeEvent::Silent).await,
                Event::LauncherDue => self.on_launchers_due().await,
                Event::CheckDue => self.look_at_processes(),
                Event::Looked(dying) => {
                    self.check_processes(&dying).await;
                    self.restore_control().await;
                }
                Event::TooLate => self.give_up_candidate("it does not answer").await,
                Event::Read(Some(silent)) => self.on_read(&silent.message).await,
                Event::ReadTooLate => self.give_up_reading().await,
            }
        }
    }

    async fn happens(&mut self, signals: &mut Signals, child: &mut Signal) -> Event {
        let due = match self.life.state() {
            State::BackingOff { until } => Some(until),
            _ => None,
        };
        let (answer_due, launcher_due) = (self.life.answer_due(), self.launchers_due());
        let limit = self.candidate.as_ref().map(|candidate| candidate.until);
        let (server, candidate) = (self.server.as_mut(), self.candidate.as_mut());
        let is_serving = server.is_some() && self.pending.is_empty() && self.life.state() == State::Serving;
        let read_by = self.reading.as_ref().map(|reading| reading.until);
        tokio::select! {
            event = signals.next() => Event::Signal(event),
            _ = child.recv() => Event::Child,
            () = self.logger.outbox().added() => Event::Lines,
            received = next_of(server) => Event::Server(received),
            received = next_of(candidate.map(|candidate| &mut candidate.process)) => Event::Candidate(received),
            read = self.certificates.changed(), if is_serving => Event::Certificates(read),
            () = until(due) => Event::Due,
            () = until(answer_due) => Event::AnswerDue,
            () = until(launcher_due) => Event::LauncherDue,
            () = until(Some(self.check_due)) => Event::CheckDue,
            dying = abandon::found(&mut self.look) => Event::Looked(dying),
            () = until(limit) => Event::TooLate,
            silent = next_of(self.reading.as_mut().map(|reading| &mut reading.process)) => Event::Read(silent),
            () = until(read_by) => Event::ReadTooLate,
        }
    }

    /// Has `life` decide, and carries that out.
    async fn on(&mut self, event: LifeEvent) {
        let mut event = Some(event);
        while let Some(happened) = event {
            event = match self.life.on(happened, Instant::now()) {
                Some(action) => self.carry_out(action).await,
                None => None,
            };
        }
    }

    /// Carries out an action. Returns what happens by that.
    async fn carry_out(&mut self, action: Action) -> Option<LifeEvent> {
        match action {
            Action::Start => return self.start_server().await,
            Action::Wait(delay) => self.announce_restart(delay),
            Action::Reload => return self.begin_reload().await,
            Action::Upgrade => return self.try_program().await,
            Action::RefuseUpgrade => {
                let text = "the server is starting, ending, or changing already: try again";
                self.conclude_upgrade(Err(text.to_owned())).await;
            }
            Action::Drain => {
                self.notifier.stopping();
                // Their files are removed before another server can start, and no connection waits for an answer that cannot come.
                self.control = None;
                self.sockets.close();
                // The server process may still conclude what it was asked before.
                self.pending = reload::Pending::default();
                self.forget_reading(&[Purpose::Reload, Purpose::Candidate]);
                self.drop_candidate();
                self.send(&ToServer::Drain { is_replaced: false }).await;
            }
            Action::End => {
                tracing::info!("ending at once; another signal kills the server process");
                self.send(&ToServer::End).await;
                self.end_retired().await;
            }
            Action::Kill => {
                if let Some(server) = &self.server {
                    tracing::warn!("server process {} is killed", server.pid);
                    server.kill();
                }
                self.kill_launchers();
            }
            Action::KillSilent => self.kill_silent(),
            Action::ForgetReload => return Some(self.forget_reload()),
            Action::Abandon => return self.abandon_server().await,
            Action::Exit => {
                // There was no server process that could have been drained.
                self.notifier.stopping();
                self.forget_reading(&[Purpose::Reload, Purpose::Candidate]);
                self.control = None;
                self.sockets.close();
                let failure = self.failure.take();
                self.end.get_or_insert(failure.map_or(Ok(()), Err));
            }
        }
        None
    }

    async fn on_signal(&mut self, event: SignalEvent) {
        match event {
            SignalEvent::End if self.end.is_some() => {
                self.end_retired().await;
                self.kill_launchers();
            }
            SignalEvent::End => self.on(LifeEvent::Drain).await,
            SignalEvent::Signal(name, command) => self.obey(command, Cause::Signal(name.to_owned())).await,
        }
    }

    /// Carries out a command of a signal or of the server process.
    async fn obey(&mut self, command: Command, cause: Cause) {
        match command {
            Command::Reload => self.want_reload(cause).await,
            Command::ReopenLogs => self.reopen_logs(cause).await,
            // A second one is no wish to end at once, as a second signal is.
            Command::Drain if matches!(self.life.state(), State::Draining { .. }) => {}
            Command::Drain => self.on(LifeEvent::Drain).await,
            Command::Upgrade => {
                let earlier = self.upgrade.replace(cause);
                self.on(LifeEvent::Upgrade).await;
                // A refusal has been said to the later one.
                self.upgrade = self.upgrade.take().or(earlier);
            }
            Command::Purge if matches!(cause, Cause::Signal(_)) => self.send(&ToServer::Purge).await,
            // The server process carries these out itself.
            Command::Purge
            | Command::Status
            | Command::Top
            | Command::Connections
            | Command::Retire { .. }
            | Command::End { .. } => {}
        }
    }

    async fn reopen_logs(&mut self, cause: Cause) {
        self.make_files().await;
        self.send(&ToServer::ReopenLogs(cause)).await;
    }

    /// Makes the files of the settings in force that the server process cannot make: a program such as logrotate may have renamed them.
    pub(super) async fn make_files(&self) {
        let Some(user) = &self.user else { return };
        let (file, bundle) = (self.file.clone(), self.bundle.try_clone());
        let read = move || settings_of(&file, &bundle.map_err(|error| error.to_string())?);
        match log_files::do_elsewhere(read).await {
            Some(Ok(settings)) => ServerUser::make_files_elsewhere(Some(user), &settings).await,
            Some(Err(error)) => tracing::error!("files of logs: {error}"),
            None => tracing::error!("files of logs: the configuration is not answered for"),
        }
    }

    async fn end_retired(&self) {
        for process in &self.retired {
            process.send_or_log(&ToServer::End, &[]).await;
        }
    }

    async fn want_reload(&mut self, cause: Cause) {
        // A server process that is out of control could ask without end.
        if self.causes.len() < CAUSES_MAX {
            self.causes.push(cause);
        }
        self.on(LifeEvent::Reload).await;
    }

    async fn on_server(&mut self, message: FromServer) {
        match message {
            FromServer::Started { .. } if self.life.state() != State::Starting => {}
            FromServer::Started { .. } => {
                self.logger.outbox().forget();
                let event = self.life.on(LifeEvent::Started, Instant::now());
                self.notifier.ready(&self.status());
                if self.history.restarts > 0 {
                    tracing::info!("server process {} serves", self.server_pid());
                }
                self.renew_kept_files();
                if let Some(action) = event
                    && let Some(next) = self.carry_out(action).await
                {
                    self.on(next).await;
                }
            }
            FromServer::Failed(message) => self.failure = Some(message),
            FromServer::Reloaded { is_done } => {
                self.conclude_reload(is_done).await;
                self.on(LifeEvent::ReloadOver).await;
            }
            FromServer::NewCertificates { kept } => self.conclude_certificates(kept.as_deref()),
            FromServer::Command { number, command } => self.obey(command, Cause::Asked(number)).await,
            FromServer::Alive => self.notifier.alive(),
            FromServer::HasLines => self.logger.outbox().forget(),
            FromServer::DirectoriesMoved => self.follow_directories().await,
            FromServer::Tried { .. } => {}
        }
    }

    async fn on_candidate(&mut self, message: FromServer) {
        let candidate = self.candidate.as_ref();
        let is_trial = candidate.is_some_and(|candidate| candidate.prepared.is_none());
        match message {
            FromServer::Tried { version: VERSION } if is_trial => self.replace_program().await,
            FromServer::Tried { version } if is_trial => {
                let text = format!(
                    "it has version {version} of the messages between processes, this one {VERSION}: restart the server"
                );
                self.give_up_candidate(&text).await;
            }
            FromServer::Started { lacks } if !is_trial => self.use_candidate(lacks).await,
            FromServer::Failed(message) => {
                if let Some(candidate) = &mut self.candidate {
                    candidate.failure = Some(message);
                }
                self.give_up_candidate("").await;
            }
            _ => {}
        }
    }

    async fn on_children(&mut self) {
        for ended in self.children.reap() {
            self.on_end(&ended).await;
        }
        if self.is_cleaning {
            self.is_cleaning = self.children.kill_leftovers() > 0;
        }
    }

    async fn on_end(&mut self, ended: &Ended) {
        self.end_launcher_of(ended.pid);
        self.on_launcher_end(ended);
        self.on_reader_end(ended).await;
        if self.server.as_ref().is_some_and(|server| server.pid == ended.pid) {
            self.on_server_end(ended).await;
        } else if let Some(candidate) = self.candidate.as_mut()
            && candidate.process.pid == ended.pid
        {
            if candidate.failure.is_none() {
                candidate.failure = last_failure(&mut candidate.process).await;
            }
            self.give_up_candidate(&format!("it {}", describe(ended.status))).await;
        }
        let earlier = self.retired.len() + self.abandoned.len();
        self.retired.retain(|process| process.pid != ended.pid);
        self.forget_abandoned(ended.pid);
        if self.retired.is_empty() && self.abandoned.is_empty() && earlier > 0 {
            self.send(&ToServer::Alone).await;
        }
    }

    async fn on_server_end(&mut self, ended: &Ended) {
        let Some(mut server) = self.server.take() else { return };
        self.failure = last_failure(&mut server).await.or(self.failure.take());
        match self.life.state() {
            State::Draining { .. } if ended.status.exit_status() == Some(0) => self.forget_plans(),
            _ => self.conclude_server(ended.pid, &describe(ended.status)),
        }
        self.on(LifeEvent::Died).await;
    }

    /// Forgets what the server process was to do, because it has ended.
    fn forget_plans(&mut self) {
        self.is_cleaning = self.children.kill_leftovers() > 0;
        self.pending = reload::Pending::default();
        self.upgrade = None;
        self.forget_reading(&[Purpose::Candidate]);
        self.forget_askers();
        self.drop_candidate();
    }

    /// Reports the end of a server process that was not asked to end, or that has not ended as it was asked; `how` says how it has ended.
    fn conclude_server(&mut self, pid: i32, how: &str) {
        self.forget_plans();
        match self.life.state() {
            State::Draining { .. } => {
                tracing::error!("server process {pid} {how} while it was to end");
                self.failure = Some(format!("the server process {how} while it was to end"));
            }
            State::Starting if !self.life.has_served() => {
                let failure = || format!("the server process {how} while it started");
                self.failure.get_or_insert_with(failure);
            }
            _ => {
                let because = self.failure.take().map(|failure| format!(": {failure}"));
                tracing::error!("server process {pid} {how}{}", because.unwrap_or_default());
                self.history.restarts += 1;
                self.history.last_end = Some(how.to_owned());
                self.notifier
                    .status(&format!("The server process {how}, and is started again"));
            }
        }
    }

    fn announce_restart(&self, delay: Duration) {
        let (when, restarts) = (in_milliseconds(delay), self.history.restarts);
        tracing::warn!("a server process is started again{when} (restart {restarts})");
    }

    /// Passes on what was logged. Waits for nothing: what a server process does not read is tried again later.
    fn pass_lines(&self) {
        let outbox = self.logger.outbox();
        if let Some(server) = self.server.as_ref().filter(|_| self.life.state() != State::Starting)
            && let Some(lines) = outbox.next()
            && send_now(server.channel.as_fd(), &ToServer::Lines(lines), &[]).is_err()
        {
            outbox.keep();
        }
    }

    async fn send(&self, message: &ToServer) {
        if let Some(server) = &self.server {
            server.send_or_log(message, &[]).await;
        }
    }

    fn server_pid(&self) -> i32 {
        self.server.as_ref().map_or(0, |server| server.pid)
    }

    /// The line for `systemctl status`.
    fn status(&self) -> String {
        let bound = self.sockets.bound().iter();
        let listening: Vec<_> = bound.map(|bound| bound.address.to_string()).collect();
        format!(
            "Serving {} (server process {})",
            listening.join(", "),
            self.server_pid()
        )
    }
}

/// The next message of a process. `None` at its end, once.
async fn next_of<T: DeserializeOwned>(process: Option<&mut ServerProcess>) -> Option<Received<T>> {
    let Some(process) = process.filter(|process| !process.is_closed) else {
        return std::future::pending().await;
    };
    let received = process.channel.next().await;
    if let Err(error) = &received {
        // It can be given no commands any more.
        tracing::error!("process {}: {error}: it is killed", process.pid);
        process.kill();
    }
    let received = received.unwrap_or(None);
    process.is_closed = received.is_none();
    received
}

/// Why a process that has ended could not start, if it has said so.
async fn last_failure(process: &mut ServerProcess) -> Option<String> {
    let mut failure = None;
    let deadline = tokio::time::Instant::now() + LAST_WORDS;
    while !process.is_closed
        && let Ok(Some(received)) = timeout_at(deadline, next_of(Some(process))).await
    {
        if let FromServer::Failed(message) = received.message {
            failure = Some(message);
        }
    }
    failure
}
