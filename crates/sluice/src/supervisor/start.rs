//! The start of a supervisor, and of each server process.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use sluice_launch::deadline;
use sluice_report::command::History;
use sluice_server::LauncherPlan;
use sluice_settings::{ServerLog, Settings};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Supervisor;
use super::activation::Activated;
use super::children::{Children, SERVER_NAME};
use super::files::ServerUser;
use super::launchers::Launcher;
use super::life::{ANSWER_TIMEOUT, Life, LifeEvent};
use super::notify::Notifier;
use super::process::{OWN_PROGRAM, start_process};
use super::reading::{Purpose, Reading};
use super::reload;
use super::sockets::Sockets;
use super::takeover::Estate;
use crate::control::socket::BoundControl;
use crate::link::channel::{Channel, Received};
use crate::link::message::{Start, ToServer};
use crate::server_log::Logger;
use crate::signals::Signals;
use crate::users;

/// Paths that a reading process names. More would lie together with these.
const PATHS_MAX: usize = 1000;

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
        let mut children = Children::new(&[]);
        let silent = Reading::before_start(&mut children, &file).await?;
        let (settings, bundle, certificates) = deadline::with_deadline(|| {
            deadline::assume_silence(&silent);
            reload::read_at_start(&file)
        })?;
        use_log(&settings.server_log, logger)?;
        let user = ServerUser::of(&settings);
        // Before the log has the reason of a failure.
        if let Some(user) = user.clone() {
            let settings = settings.clone();
            user.do_elsewhere(move |user| user.make_files(&settings)).await;
        }
        let permitted = users::check(&settings, allow_root);
        permitted.inspect_err(|_| use_log_file(&settings.server_log, logger))?;
        let bound = deadline::with_deadline(|| bind(&settings, passed));
        let (sockets, control) = bound.inspect_err(|_| use_log_file(&settings.server_log, logger))?;
        let mut supervisor = Supervisor {
            program: program()?,
            file,
            life: Life::begin(Instant::now()),
            children,
            sockets,
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
            look: None,
            reading: None,
            pending: reload::Pending::default(),
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

/// Reads the configuration that the supervisor names, and says which paths were not answered for.
///
/// # Errors
/// One line: this process was not started by a supervisor.
pub(crate) fn run_reader() -> Result<ExitCode, String> {
    runtime()?.block_on(async {
        let by_hand = |error| format!("this is started by `sluice run`, not by hand: standard input: {error}");
        let mut channel = Channel::of_stdin().map_err(by_hand)?;
        let received = channel.next::<PathBuf>().await.map_err(by_hand)?;
        let Some(Received { message: file, .. }) = received else {
            return Err("reader: the supervisor did not say what to read".to_owned());
        };
        let silent = deadline::with_deadline(|| {
            // The supervisor says what is wrong with it.
            drop(reload::read(&file));
            deadline::silent_paths()
        });
        let named = silent.get(..PATHS_MAX).unwrap_or(&silent);
        let sent = channel.send(&named, &[]).await;
        sent.map(|()| ExitCode::SUCCESS)
            .map_err(|error| format!("reader: {error}"))
    })
}

/// Binds the addresses and the control socket.
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
    runtime()?.block_on(async {
        let (signals, child) = listen()?;
        let estate = Estate::take().await?;
        let mut own: Vec<_> = estate.retired.iter().map(|process| process.pid).collect();
        own.push(estate.server.pid);
        let launchers = estate.launchers.iter().filter_map(|launcher| launcher.process.as_ref());
        own.extend(launchers.map(|process| process.pid));
        own.extend(estate.ending.iter().map(|ending| ending.process.pid));
        own.extend(&estate.abandoned);
        let mut life = Life::take_over(Instant::now());
        if !estate.reloads.is_empty() {
            // It waits for the end of the upgrade.
            life.on(LifeEvent::Reload, Instant::now());
        }
        // Those in force, in case that this program cannot use the present ones.
        let (settings, certificates) = reload::settings_and_certificates_of(&file, &estate.bundle);
        let mut supervisor = Supervisor {
            program: program()?,
            life,
            children: Children::new(&own),
            sockets: Sockets::of(estate.bound),
            notifier: Notifier::of_environment(),
            control: estate.control,
            user: settings.as_ref().and_then(ServerUser::of),
            bundle: estate.bundle,
            file,
            certificates,
            server: Some(estate.server),
            candidate: None,
            retired: estate.retired,
            abandoned: estate.abandoned,
            check_due: Instant::now(),
            look: None,
            reading: None,
            pending: reload::Pending::default(),
            causes: estate.reloads,
            upgrade: Some(estate.cause),
            history: estate.history,
            launcher_plan: estate.launcher_plan,
            launchers: estate.launchers,
            question_due: Instant::now(),
            ending: estate.ending,
            is_cleaning: false,
            failure: None,
            end: None,
            logger,
        };
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
        let start = self.start_message(self.sockets.bound().iter().map(|bound| bound.sockets.len()).collect());
        let plan = self.launcher_plan.clone();
        let (launcher, socket) = match self.start_launcher(&plan).await {
            Ok(started) => started,
            Err(error) => return Some(self.fail_to_start("the launcher", &error)),
        };
        let fds: Vec<_> = self.sockets.bound().iter().flat_map(|bound| &bound.sockets).collect();
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
                    process.kill();
                    self.failure = Some(format!("the server process: {error}"));
                }
                self.server = Some(process);
                None
            }
            // The launcher ends, because its socket is closed.
            Err(error) => Some(self.fail_to_start("the server process", &error)),
        }
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
