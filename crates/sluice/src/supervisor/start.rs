//! The start of a supervisor, and of each server process.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Instant;

use sluice_net::listener::Bound;
use sluice_report::command::History;
use sluice_server::LauncherPlan;
use sluice_settings::{ServerLog, Settings};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Supervisor;
use super::activation::Activated;
use super::children::{Children, SERVER_NAME, kill};
use super::files::ServerUser;
use super::launchers::Launcher;
use super::life::{Life, LifeEvent};
use super::notify::Notifier;
use super::process::{OWN_PROGRAM, start_process};
use super::reload;
use super::sockets::Sockets;
use super::takeover::Estate;
use crate::control::socket::BoundControl;
use crate::link::message::{Start, ToServer};
use crate::server_log::Logger;
use crate::signals::Signals;
use crate::users;

/// The sockets that systemd has passed. To be taken before anything else is opened.
pub(crate) struct Passed(Result<Activated, String>);

impl Passed {
    /// Takes them.
    pub(crate) fn take() -> Passed {
        Passed(Activated::take_passed())
    }
}

/// Runs the server of a configuration in a process of its own until a signal ends it. The error is one line for the administrator, or one
/// for each mistake of the configuration.
pub(crate) fn run(file: PathBuf, allow_root: bool, passed: Passed, logger: &Logger) -> Result<(), String> {
    let result = start(file, allow_root, passed, logger);
    result.inspect_err(|reason| Notifier::of_environment().failed(reason))
}

fn start(file: PathBuf, allow_root: bool, passed: Passed, logger: &Logger) -> Result<(), String> {
    runtime()?.block_on(async {
        // Before the first child, so that no signal is lost.
        let (signals, child) = listen()?;
        let (settings, bundle, certificates) = reload::read_at_start(&file)?;
        use_log(&settings.server_log, logger)?;
        let user = ServerUser::of(&settings);
        // Before the log has the reason of a failure.
        user.iter().for_each(|user| user.make_files(&settings));
        let permitted = users::check(&settings, allow_root);
        permitted.inspect_err(|_| use_log_file(&settings.server_log, logger))?;
        let bound = bind(&settings, passed);
        let (sockets, activated, control) = bound.inspect_err(|_| use_log_file(&settings.server_log, logger))?;
        let mut supervisor = Supervisor {
            program: program()?,
            file,
            life: Life::begin(Instant::now()),
            children: Children::new(&[]),
            sockets,
            activated,
            notifier: Notifier::of_environment(),
            control,
            bundle,
            certificates,
            user,
            server: None,
            candidate: None,
            retired: Vec::new(),
            abandoned: Vec::new(),
            check_due: Instant::now(),
            pending: None,
            causes: Vec::new(),
            upgrade: None,
            history: History {
                pid: std::process::id(),
                ..History::default()
            },
            launcher_plan: LauncherPlan::of(&settings),
            launchers: Vec::new(),
            question_due: Instant::now(),
            ending: Vec::new(),
            is_cleaning: false,
            failure: None,
            end: None,
            logger,
        };
        drop(settings);
        if supervisor.start_server().await.is_some() {
            return Err(supervisor
                .failure
                .unwrap_or_else(|| "the server process cannot be started".to_owned()));
        }
        supervisor.supervise(signals, child).await
    })
}

/// Binds the addresses and the control socket.
fn bind(settings: &Settings, passed: Passed) -> Result<(Sockets, Activated, Option<BoundControl>), String> {
    let mut activated = passed.0?;
    let mut sockets = Sockets::default();
    let plan = sockets.plan(settings, &mut activated)?;
    sockets.apply(plan);
    activated.check_used()?;
    Ok((sockets, activated, BoundControl::bind(&settings.control)?))
}

/// Has the reason of a failed start written to the file of the log, if it can be opened.
fn use_log_file(settings: &ServerLog, logger: &Logger) {
    if let Ok(change) = logger.prepare(settings) {
        logger.apply(change);
    }
}

/// Goes on with the server of the program that this one has replaced (`sluice upgrade`), and replaces its server process, too.
pub(crate) fn take_over(file: PathBuf, logger: &Logger) -> Result<(), String> {
    runtime()?.block_on(async {
        let (signals, child) = listen()?;
        let estate = Estate::take().await?;
        let mut own: Vec<_> = estate.retired.iter().map(|process| process.pid).collect();
        own.push(estate.server.pid);
        let launchers = estate.launchers.iter().filter_map(|launcher| launcher.process.as_ref());
        own.extend(launchers.map(|process| process.pid));
        let mut life = Life::take_over(Instant::now());
        if !estate.reloads.is_empty() {
            // It waits for the end of the upgrade.
            life.on(LifeEvent::Reload, Instant::now());
        }
        // Those in force, in case that this program cannot use the present ones.
        let settings = reload::settings_of(&file, &estate.bundle).ok();
        let mut supervisor = Supervisor {
            program: program()?,
            life,
            children: Children::new(&own),
            sockets: Sockets::of(estate.bound),
            activated: Activated::default(),
            notifier: Notifier::of_environment(),
            control: estate.control,
            user: settings.as_ref().and_then(ServerUser::of),
            bundle: estate.bundle,
            file,
            certificates: settings
                .as_ref()
                .map(crate::certificates::Certificates::of)
                .unwrap_or_default(),
            server: Some(estate.server),
            candidate: None,
            retired: estate.retired,
            abandoned: Vec::new(),
            check_due: Instant::now(),
            pending: None,
            causes: estate.reloads,
            upgrade: Some(estate.cause),
            history: estate.history,
            launcher_plan: estate.launcher_plan,
            launchers: estate.launchers,
            question_due: Instant::now(),
            ending: Vec::new(),
            is_cleaning: false,
            failure: None,
            end: None,
            logger,
        };
        supervisor.start_candidate().await;
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

fn runtime() -> Result<Runtime, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("event loop: {error}"))
}

/// The path of this program. A newer one may be there later.
fn program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("the path of this program: {error}"))
}

/// Has the log its level and format. The file of the log is that of the server process; this one writes to standard error.
pub(super) fn use_log(settings: &ServerLog, logger: &Logger) -> Result<(), String> {
    let change = logger.prepare(&ServerLog {
        file: None,
        ..settings.clone()
    });
    logger.apply(change?);
    Ok(())
}

impl Supervisor<'_> {
    /// Starts a server process with the settings in force. Returns its death if that fails.
    pub(super) async fn start_server(&mut self) -> Option<LifeEvent> {
        let start = self.start_message(self.sockets.bound().iter().map(|bound| bound.sockets().len()).collect());
        let plan = self.launcher_plan.clone();
        let (launcher, socket) = match self.start_launcher(&plan).await {
            Ok(started) => started,
            Err(error) => return Some(self.fail_to_start("the launcher", &error)),
        };
        let fds: Vec<_> = self.sockets.bound().iter().flat_map(Bound::sockets).collect();
        let mut given = vec![self.bundle.as_fd(), socket.as_fd()];
        given.extend(self.control.as_ref().map(|control| control.socket.as_fd()));
        given.extend(fds.iter().map(|fd| fd.as_fd()));
        match start_process(
            &mut self.children,
            OWN_PROGRAM.as_ref(),
            SERVER_NAME,
            self.user.as_ref(),
        ) {
            Ok(process) => {
                self.launchers.push(Launcher::new(process.pid, Some(launcher)));
                if let Err(error) = process.send(&ToServer::Start(start), &given).await {
                    kill(process.pid);
                    self.failure = Some(format!("the server process: {error}"));
                }
                self.server = Some(process);
                None
            }
            // The launcher ends, because its socket is closed.
            Err(error) => Some(self.fail_to_start("the server process", &error)),
        }
    }

    fn fail_to_start(&mut self, what: &str, error: &std::io::Error) -> LifeEvent {
        tracing::error!("{what} cannot be started: {error}");
        self.failure = Some(format!("{what} cannot be started: {error}"));
        LifeEvent::Died
    }

    /// How a server process begins; `sockets` are the numbers of sockets of each address.
    pub(super) fn start_message(&self, sockets: Vec<usize>) -> Start {
        let interval = self.notifier.alive_interval();
        Start {
            file: self.file.clone(),
            sockets,
            replaces: !self.retired.is_empty() || !self.abandoned.is_empty(),
            is_candidate: false,
            has_control: self.control.is_some(),
            supervisor: self.history.clone(),
            alive_interval_ms: interval.and_then(|interval| u64::try_from(interval.as_millis()).ok()),
            left: None,
        }
    }
}
