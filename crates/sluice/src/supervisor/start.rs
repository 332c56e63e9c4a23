//! The start of a supervisor, and of each server process.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use sluice_launch::deadline;
use sluice_net::listener::Bound;
use sluice_report::command::History;
use sluice_server::LauncherPlan;
use sluice_settings::source::Source;
use sluice_settings::{ServerLog, Settings};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Supervisor;
use super::activation::Activated;
use super::children::{Children, SERVER_NAME};
use super::files::ServerUser;
use super::launchers::Launcher;
use super::life::{ANSWER_TIMEOUT, Life, LifeEvent};
use super::notify::Notifier;
use super::process::{OWN_PROGRAM, ServerProcess, start_process};
use super::reading::{Purpose, Reading};
use super::reload;
use super::sockets::Sockets;
use super::takeover::Estate;
use crate::certificates::Certificates;
use crate::control::socket::BoundControl;
use crate::link::channel::{Channel, Received};
use crate::link::message::{Start, ToServer};
use crate::server_log::Logger;
use crate::signals::{Signals, event_loop};
use crate::users;

/// Paths that a reading process names. More would lie together with these.
const PATHS_MAX: usize = 1000;

/// The sockets that systemd has passed. To be taken before anything else is opened.
pub(crate) struct Passed(Result<Activated, String>);

impl Passed {
    pub(crate) fn take() -> Passed {
        Passed(Activated::take_passed())
    }
}

/// Runs a configuration's server in a process of its own until a signal ends it. The error is one line, or one for each mistake of the configuration.
pub(crate) fn run(file: PathBuf, allow_root: bool, passed: Passed, logger: &Logger) -> Result<(), String> {
    let result = start(file, allow_root, passed, logger);
    result.inspect_err(|reason| Notifier::of_environment().failed(reason))
}

fn start(file: PathBuf, allow_root: bool, passed: Passed, logger: &Logger) -> Result<(), String> {
    event_loop()?.block_on(async {
        // Before the first child, so that no signal is lost.
        let (signals, mut child) = listen()?;
        let mut children = Children::new(&[]);
        let silent = Reading::before_start(&mut children, &mut child, &file).await?;
        let (settings, bundle, certificates) =
            reload::with_deadline(&silent, || reload::read(&file, &Source::recording().tolerant()))?;
        use_log(&settings.server_log, logger)?;
        let user = ServerUser::of(&settings);
        // Before the log has the reason of a failure.
        ServerUser::make_files_elsewhere(user.as_ref(), &settings).await;
        let permitted = users::check(&settings, allow_root);
        permitted.inspect_err(|_| use_log_file(&settings.server_log, logger))?;
        let bound = deadline::with_deadline(|| bind(&settings, passed));
        let (sockets, control) = bound.inspect_err(|_| use_log_file(&settings.server_log, logger))?;
        let estate = Estate {
            server: None,
            retired: Vec::new(),
            launcher_plan: LauncherPlan::of(&settings),
            launchers: Vec::new(),
            bundle,
            control,
            sockets,
            history: History { pid: std::process::id(), ..History::default() },
            upgrade: None,
            causes: Vec::new(),
            ending: Vec::new(),
            abandoned: Vec::new(),
            kept_files: Vec::new(),
        };
        let life = Life::begin(Instant::now());
        let mut supervisor = Supervisor::new(estate, file, life, children, user, certificates, logger)?;
        drop(settings);
        if supervisor.start_server().await.is_some() {
            return Err(supervisor
                .failure
                .unwrap_or_else(|| "the server process cannot be started".to_owned()));
        }
        supervisor.supervise(signals, child).await
    })
}

/// Reads the configuration that the supervisor names, and says which paths were not answered for.
pub(crate) fn run_reader() -> Result<ExitCode, String> {
    event_loop()?.block_on(async {
        let (channel, Received { message: file, .. }) = Channel::begin::<PathBuf>().await?;
        let silent = deadline::with_deadline(|| {
            // The supervisor says what is wrong with it.
            drop(reload::read(&file, &Source::recording()));
            deadline::silent_paths()
        });
        let named = silent.get(..PATHS_MAX).unwrap_or(&silent);
        let sent = channel.send(&named, &[]).await;
        sent.map(|()| ExitCode::SUCCESS)
            .map_err(|error| format!("reader: {error}"))
    })
}

fn bind(settings: &Settings, passed: Passed) -> Result<(Sockets, Option<BoundControl>), String> {
    let mut activated = passed.0?;
    let mut sockets = Sockets::default();
    let plan = sockets.plan(settings, &mut activated)?;
    sockets.apply(plan);
    activated.check_used()?;
    Ok((sockets, BoundControl::bind(&settings.control)?))
}

/// Has the reason of a failed start written to the file of the log, if it can be opened.
fn use_log_file(settings: &ServerLog, logger: &Logger) {
    if let Ok(change) = logger.prepare(settings) {
        logger.apply(change);
    }
}

/// Goes on with the server of the program that this one has replaced (`sluice upgrade`), and replaces its server process, too.
pub(crate) fn take_over(file: PathBuf, logger: &Logger) -> Result<(), String> {
    event_loop()?.block_on(async {
        let (signals, child) = listen()?;
        let estate = Estate::take().await?;
        let launchers = estate.launchers.iter().filter_map(|launcher| launcher.process.as_ref());
        let ending = estate.ending.iter().map(|ending| &ending.process);
        let processes = estate
            .server
            .iter()
            .chain(&estate.retired)
            .chain(launchers)
            .chain(ending);
        let mut own: Vec<_> = processes.map(|process| process.pid).collect();
        own.extend(&estate.abandoned);
        let children = Children::new(&own);
        let mut life = Life::take_over(Instant::now());
        if !estate.causes.is_empty() {
            // It waits for the end of the upgrade.
            life.on(LifeEvent::Reload, Instant::now());
        }
        // Those in force, in case that this program cannot use the present ones.
        let (settings, certificates) = reload::settings_and_certificates_of(&file, &estate.bundle);
        let user = settings.as_ref().and_then(ServerUser::of);
        let mut supervisor = Supervisor::new(estate, file, life, children, user, certificates, logger)?;
        if let Some(event) = supervisor.begin_reading(Purpose::Candidate).await {
            supervisor.on(event).await;
        }
        // One that has ended between the two programs has sent its signal to neither.
        supervisor.on_children().await;
        supervisor.supervise(signals, child).await
    })
}

/// The signals of the administrator, and SIGCHLD.
fn listen() -> Result<(Signals, Signal), String> {
    let listen = || Ok((Signals::listen()?, signal(SignalKind::child())?));
    listen().map_err(|error: std::io::Error| format!("signals: {error}"))
}

/// Has the log its level and format. The file of the log is that of the server process; this one writes to standard error.
pub(super) fn use_log(settings: &ServerLog, logger: &Logger) -> Result<(), String> {
    let change = logger.prepare(&ServerLog { file: None, ..settings.clone() });
    logger.apply(change?);
    Ok(())
}

impl<'a> Supervisor<'a> {
    fn new(
        estate: Estate,
        file: PathBuf,
        life: Life,
        children: Children,
        user: Option<ServerUser>,
        certificates: Certificates,
        logger: &'a Logger,
    ) -> Result<Supervisor<'a>, String> {
        Ok(Supervisor {
            // A newer one may be there later.
            program: std::env::current_exe().map_err(|error| format!("the path of this program: {error}"))?,
            file,
            life,
            children,
            sockets: estate.sockets,
            notifier: Notifier::of_environment(),
            control: estate.control,
            bundle: estate.bundle,
            certificates,
            user,
            server: estate.server,
            candidate: None,
            retired: estate.retired,
            abandoned: estate.abandoned,
            kept_files: estate.kept_files,
            check_due: Instant::now(),
            look: None,
            reading: None,
            pending: reload::Pending::default(),
            causes: estate.causes,
            upgrade: estate.upgrade,
            history: estate.history,
            launcher_plan: estate.launcher_plan,
            launchers: estate.launchers,
            question_due: Instant::now(),
            ending: estate.ending,
            is_cleaning: false,
            failure: None,
            end: None,
            logger,
        })
    }
}

impl Supervisor<'_> {
    /// Starts a server process with the settings in force. Returns its death if that fails.
    pub(super) async fn start_server(&mut self) -> Option<LifeEvent> {
        let (plan, user) = (self.launcher_plan.clone(), self.user.clone());
        let (process, socket) = match self.start_with_launcher(&plan, user.as_ref()).await {
            Ok(started) => started,
            Err(text) => {
                tracing::error!("{text}");
                self.failure = Some(text);
                return Some(LifeEvent::Died);
            }
        };
        let bound: Vec<_> = self.sockets.bound().iter().collect();
        let start = ToServer::Start(Start {
            lines: self.logger.outbox().all(),
            ..self.start_message(&bound)
        });
        if let Err(error) = process.send(&start, &self.given(&self.bundle, &socket, &bound)).await {
            process.kill();
            self.failure = Some(format!("the server process: {error}"));
        }
        self.server = Some(process);
        None
    }

    /// Starts a server process and its launcher. Also returns the server's end of the socket between them.
    pub(super) async fn start_with_launcher(
        &mut self,
        plan: &LauncherPlan,
        user: Option<&ServerUser>,
    ) -> Result<(ServerProcess, OwnedFd), String> {
        let launcher = self.start_launcher(plan).await;
        let (launcher, socket) = launcher.map_err(|error| format!("the launcher cannot be started: {error}"))?;
        // If that fails, the launcher ends, because its socket is closed.
        let process = start_process(&mut self.children, OWN_PROGRAM.as_ref(), SERVER_NAME, user)
            .map_err(|error| format!("the server process cannot be started: {error}"))?;
        self.launchers.push(Launcher::new(process.pid, Some(launcher)));
        Ok((process, socket))
    }

    /// The descriptors that a server process begins with, in the order of `ToServer::Start`.
    pub(super) fn given<'a>(
        &'a self,
        bundle: &'a OwnedFd,
        launcher: &'a OwnedFd,
        bound: &[&'a Bound],
    ) -> Vec<BorrowedFd<'a>> {
        let control = self.control.as_ref().map(|control| &control.socket);
        let sockets = bound.iter().flat_map(|bound| &bound.sockets).map(AsFd::as_fd);
        let first = [bundle, launcher].into_iter().chain(control);
        first.map(AsFd::as_fd).chain(sockets).collect()
    }

    /// Kills the server process, which does not start.
    pub(super) fn kill_silent(&mut self) {
        let Some(server) = &self.server else { return };
        let limit = ANSWER_TIMEOUT.as_secs();
        tracing::error!(
            "server process {} has not started within {limit} s: it is killed",
            server.pid
        );
        server.kill();
        self.failure = Some(format!("the server process has not started within {limit} s"));
    }

    /// How a server process begins on the sockets of these addresses.
    pub(super) fn start_message(&self, bound: &[&Bound]) -> Start {
        let interval = self.notifier.alive_interval();
        Start {
            file: self.file.clone(),
            sockets: bound.iter().map(|bound| bound.sockets.len()).collect(),
            replaces: !self.retired.is_empty() || !self.abandoned.is_empty(),
            has_control: self.control.is_some(),
            supervisor: self.history.clone(),
            alive_interval_ms: interval.and_then(|interval| u64::try_from(interval.as_millis()).ok()),
            lines: String::new(),
            left: None,
        }
    }
}
