//! The server role: starts the server, and handles signals and commands until the server has ended.
//!
//! | signal | command | effect |
//! |---|---|---|
//! | SIGHUP | `reload` | the configuration is read again; an invalid one is reported and changes nothing. Script processes that are kept are ended, also without a configuration file |
//! | SIGUSR1 | `log reopen` | the access logs and the server log are reopened |
//! | SIGUSR2 | `purge` | the file cache is emptied, and its counters are logged |
//! | SIGTERM, SIGINT | `drain` | no new connections; exchanges in progress may end within `drain_timeout`; a second signal aborts them |
//! | | `upgrade` | another program goes on (`supervisor`) |
//! | | `status`, `top` | the state is reported, and the requests in progress |
//! | | `retire` | the processes of a script end, busy ones after their reply |
//! | | `end` | a request in progress is ended, with its script process |
//!
//! `sluice serve` and `sluice demo` are one process, whose whole life is `run`. `sluice run` has the server in a process of its own (`run_supervised`): its
//! supervisor gets the signals, reads the configuration, binds the sockets, and does for the role what that cannot do itself.

mod lacks;
mod reload;
mod renewal;
mod reopen;
mod report;
mod supervised;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sluice_launch::deadline;
use sluice_report::command::{Command, ServerReport};
use sluice_report::scripts::Scripts;
use sluice_server::Server;
use sluice_server::commands::CommandRequest;
use sluice_server::operator::{self, Operator};
use sluice_settings::Settings;
use sluice_tools::control::place;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::certificates;
use crate::control::socket::Control;
use crate::link::message::{FromServer, ToServer};
use crate::served_directories::ServedDirectories;
use crate::server_log::Logger;
use crate::signals::{Event, Signals, until};

use lacks::Lacks;
use report::{Report, announce, listened};
use supervised::{Link, PassedFds, SupervisorEvent};

pub(crate) use supervised::{read_bundle, run_supervised, run_trial};

/// The last reload or upgrade, as a subject of faults.
const CHANGE: &str = "change";

/// How long the workers may take to end when the server ends at once. One that waits for a file system that answers nothing takes longer.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// How long calls on other threads may take when everything else has ended.
const LEFT_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a server in this process until a signal ends it; the log has its settings already. The error is one line for the administrator.
pub(crate) fn run(settings: Settings, logger: &Logger) -> Result<(), String> {
    allow_core_dumps(&settings)?;
    run_to_end(async {
        // Before the server, so that no signal is lost while it starts.
        let signals = Signals::listen().map_err(|error| format!("signals: {error}"))?;
        // A file system of the configuration may not answer.
        let (server, control) = deadline::with_deadline(|| {
            let server = Server::start(&settings).map_err(|error| error.to_string())?;
            let control = Control::listen(&settings.control, server.watches())?;
            Ok::<_, String>((server, control))
        })?;
        Role::new(server, settings, None, logger).serve(signals, control).await
    })
}

fn allow_core_dumps(settings: &Settings) -> Result<(), String> {
    match settings.core_dumps {
        true => sluice_launch::allow_core_dumps().map_err(|error| format!("core_dumps: {error}")),
        false => Ok(()),
    }
}

/// Runs the server's own event loop. Calls on other threads that hang in the kernel are left to it.
fn run_to_end<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = runtime()?;
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(LEFT_TIMEOUT);
    result
}

fn runtime() -> Result<Runtime, String> {
    const FOREVER: Duration = Duration::from_secs(1 << 32);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_keep_alive(FOREVER)
        .build()
        .map_err(|error| format!("event loop: {error}"))?;
    // The thread that awaits the workers at the end: the system may refuse one then (RLIMIT_NPROC).
    drop(runtime.spawn_blocking(|| ()));
    Ok(runtime)
}

/// How often the certificates that expire soon are logged.
const CERTIFICATES_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

struct Role<'a> {
    server: Server,
    /// The settings of the start, which hold for what a reload does not change.
    started: Settings,
    settings: Settings,
    /// The directories, programs and engines that were missing when the settings in force were read, a line for each.
    lacks: Vec<String>,
    /// The directories whose paths are checked. Without a supervisor there are none.
    directories: ServedDirectories,
    /// Paths that lead elsewhere now, until their directories are opened again.
    moved: Vec<PathBuf>,
    /// The supervisor. `None` if there is only this process.
    link: Option<Link>,
    control: Option<Control>,
    logger: &'a Logger,
}

enum End {
    /// After the exchanges in progress.
    Drain { is_replaced: bool },
    /// At once, because the supervisor says so.
    AtOnce,
    /// At once, because the supervisor is gone.
    Alone,
}

impl<'a> Role<'a> {
    fn new(server: Server, mut started: Settings, link: Option<Link>, logger: &'a Logger) -> Role<'a> {
        certificates::forget_keys(&mut started);
        Role {
            settings: started.clone(),
            lacks: Vec::new(),
            directories: ServedDirectories::default(),
            moved: Vec::new(),
            server,
            started,
            link,
            control: None,
            logger,
        }
    }

    async fn serve(mut self, mut signals: Signals, control: Option<Control>) -> Result<(), String> {
        self.control = control;
        let mut of_pages = self.server.take_commands();
        self.server.set_rating_file(place::rating_file());
        if !self.link.as_ref().is_some_and(Link::replaces) {
            self.keep_activity();
        }
        self.server
            .show_server_log(self.logger.source(&self.started.server_log));
        // Warnings ask for files.
        deadline::with_deadline(|| {
            deadline::expect_silence(&self.started.source.silent());
            self.server
                .describe(sluice_config::report(&listened(&self.started, &self.server)));
            announce(&self.started, &self.server, self.pid());
        });
        self.logger.started();
        let mut certificates_due = tokio::time::interval(CERTIFICATES_INTERVAL);
        let end = loop {
            let end = tokio::select! {
                event = signals.next() => match event {
                    Event::End => Some(End::Drain { is_replaced: false }),
                    Event::Signal(name, command) => self.carry_out(command, Report::of_signal(name)).await,
                },
                request = Control::next(self.control.as_mut()) => self.answer(request).await,
                request = next_of_pages(of_pages.as_mut()) => self.answer(request).await,
                heard = Link::next(self.link.as_mut()) => match heard {
                    SupervisorEvent::Message(message) => self.obey(message).await,
                    SupervisorEvent::AliveDue => {
                        self.say_alive().await;
                        None
                    }
                    SupervisorEvent::Gone => Some(End::Alone),
                },
                (moved, faults) = self.directories.changed() => {
                    self.note_directories(moved, faults).await;
                    None
                }
                _ = certificates_due.tick() => {
                    self.server.warn_of_certificates();
                    None
                }
            };
            if let Some(end) = end {
                break end;
            }
        };
        // Its file is removed before another server can start.
        self.control = None;
        self.drain(signals, end).await
    }

    /// Carries out a command of the control socket or of the reports. A task answers what the workers must be asked for, because they may be busy.
    async fn answer(&mut self, request: CommandRequest) -> Option<End> {
        let (command, report) = Report::of_request(request);
        if let Command::Status | Command::Top | Command::Connections | Command::End { .. } = command {
            let (operator, state) = (self.server.operator(), self.state());
            let lacks = self
                .link
                .as_ref()
                .filter(|_| command == Command::Status)
                .map(|link| Lacks {
                    file: link.file().to_owned(),
                    source: self.settings.source.clone(),
                    lines: self.lacks.clone(),
                });
            tokio::spawn(async move { inspect(&operator, report, &command, state, lacks).await });
            return None;
        }
        self.carry_out(command, report).await
    }

    /// Carries out a command, logs what happens, and sends the result.
    async fn carry_out(&mut self, command: Command, mut report: Report) -> Option<End> {
        // A supervisor reads the configuration, has the program, and may have to make the files of logs.
        if let (Command::Reload | Command::Upgrade | Command::ReopenLogs, Some(link)) = (&command, &mut self.link) {
            link.give(command, report).await;
            return None;
        }
        match command {
            // Answered by `inspect`.
            Command::Status | Command::Top | Command::Connections | Command::End { .. } => {}
            Command::Retire { script } => match self.server.operator().retire(&script) {
                Ok(retired) => report.info(&retired.describe(&script)),
                Err(error) => report.fail(&error.to_string()),
            },
            Command::Reload => self.restart_scripts(&mut report),
            Command::Upgrade => {
                report.fail("only `sluice run` can be upgraded while it runs: end this server and start it again");
            }
            Command::ReopenLogs => self.reopen_logs(&mut report).await,
            Command::Purge => match self.server.purge_cache() {
                Some(counters) => report.info(&format!("cache purged: {counters}")),
                None => report.warn("there is no cache to purge"),
            },
            Command::Drain => {
                report.info("the server ends after the exchanges in progress");
                report.finish();
                // A supervisor closes its sockets first, and then says so.
                let Some(link) = &mut self.link else {
                    return Some(End::Drain { is_replaced: false });
                };
                link.drain().await;
                return None;
            }
        }
        report.finish();
        None
    }

    async fn obey(&mut self, message: supervised::Message) -> Option<End> {
        let supervised::Message { message, fds } = message;
        match message {
            ToServer::Reload(reload) => self.reload_with(reload, fds).await,
            ToServer::Result { causes, result } => {
                let refusal = self.link.as_mut().and_then(|link| link.conclude(&causes, &result));
                self.server.note_faults(CHANGE, refusal.into_iter().collect());
            }
            ToServer::Launcher => self.use_launcher(fds),
            ToServer::Control => {
                let socket = PassedFds::new(fds).one();
                match socket.and_then(|socket| Control::on(socket, self.server.watches())) {
                    Ok(control) => self.control = Some(control),
                    Err(error) => tracing::error!("{error}"),
                }
            }
            ToServer::Remove(addresses) => {
                tracing::info!("no longer listening on {}", addresses.join("  "));
                addresses.iter().for_each(|address| self.server.remove_address(address));
            }
            ToServer::Alone => self.keep_activity(),
            ToServer::Certificates { unread } => self.use_certificates(&unread, fds).await,
            ToServer::ReopenLogs(cause) => {
                let report = self.link.as_mut().map(|link| link.report_of(&[cause]));
                if let Some(mut report) = report {
                    self.reopen_logs(&mut report).await;
                    report.finish();
                }
            }
            ToServer::Directories => self.open_directories(),
            ToServer::Lines(lines) => {
                self.logger.add_written(lines);
                self.send(&FromServer::HasLines).await;
            }
            ToServer::Purge => return self.carry_out(Command::Purge, Report::of_signal("SIGUSR2")).await,
            ToServer::Drain { is_replaced } => return Some(End::Drain { is_replaced }),
            ToServer::End => return Some(End::AtOnce),
            ToServer::Start(_) => tracing::error!("the supervisor has said twice how to start"),
        }
        None
    }

    async fn note_directories(&mut self, moved: Vec<PathBuf>, faults: Vec<String>) {
        faults.iter().for_each(|fault| tracing::error!("{fault}"));
        self.server.note_faults("permissions", faults);
        if moved.is_empty() {
            return;
        }
        for path in &moved {
            tracing::info!("{} is another directory now", path.display());
        }
        self.moved.extend(moved);
        self.send(&FromServer::DirectoriesMoved).await;
    }

    /// Opens the directories of the settings in force again. Script processes are replaced whose files may have moved.
    fn open_directories(&mut self) {
        let moved = std::mem::take(&mut self.moved);
        let opened = deadline::with_deadline(|| self.server.follow_directories(&self.settings, &moved));
        let opened =
            opened.map_err(|error| format!("the directories of the configuration: {error}; those of before stay open"));
        self.server
            .note_faults("directories", opened.as_ref().err().cloned().into_iter().collect());
        match opened {
            Ok(()) => {
                tracing::info!(
                    "the directories of the configuration are open again, and script processes that used those of before are replaced"
                );
            }
            Err(error) => {
                tracing::error!("{error}");
                self.moved = moved;
            }
        }
    }

    fn use_launcher(&self, mut fds: Vec<OwnedFd>) {
        match fds.pop() {
            Some(socket) => self.server.launcher().connect(socket),
            None => tracing::error!("the supervisor has sent no socket to the launcher"),
        }
    }

    /// Has the activity kept in its file, which one server process may have.
    fn keep_activity(&self) {
        if let Some(directory) = place::state_directory(&self.started.state_directory) {
            self.server.keep_activity(&directory);
        }
    }

    /// The process that gets signals.
    fn pid(&self) -> u32 {
        let supervisor = self.link.as_ref().map(|link| link.history().pid);
        supervisor.unwrap_or_else(std::process::id)
    }

    fn state(&self) -> ServerReport {
        ServerReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: self.pid(),
            server_pid: std::process::id(),
            supervisor: self.link.as_ref().map(|link| link.history().clone()),
            configuration: self.link.as_ref().map(|link| {
                // A relative path would mean another file to who asks.
                let file = std::path::absolute(link.file()).unwrap_or_else(|_| PathBuf::from(link.file()));
                file.display().to_string()
            }),
            status: self.server.status(),
            scripts: Scripts::default(),
        }
    }

    /// Replaces the script processes: there is no configuration to read again.
    fn restart_scripts(&self, report: &mut Report) {
        // A module that a script has loaded may have changed, which no check of the script's file finds.
        match deadline::with_deadline(|| self.server.restart_scripts(&self.started)) {
            Ok(()) => report.info("idle script processes have ended, busy ones end after their reply"),
            Err(error) => report.fail(&format!("{error}; nothing has changed")),
        }
    }

    /// Ends the server after its exchanges, or at once after a second signal or order.
    async fn drain(self, mut signals: Signals, end: End) -> Result<(), String> {
        let Role { server, mut link, .. } = self;
        let order = match end {
            End::Drain { is_replaced: true } => server.drain_replaced(),
            _ => server.drain(),
        };
        match end {
            End::Drain { is_replaced: false } => {
                tracing::info!("draining: no new connections; a second signal ends the server at once");
            }
            End::Drain { is_replaced: true } => tracing::info!("draining: another server process has taken over"),
            End::AtOnce => tracing::info!("ending at once"),
            End::Alone => tracing::error!("the supervisor has ended: the server ends at once"),
        }
        let is_at_once = matches!(end, End::AtOnce | End::Alone);
        if is_at_once {
            order.end();
        }
        link.take_if(|_| matches!(end, End::Alone));
        if let Some(counters) = server.cache_counters() {
            tracing::info!("cache: {counters}");
        }
        // The supervisor has answered what it could answer before it said this.
        link.iter_mut().for_each(Link::give_up_commands);
        let launcher = server.launcher();
        let mut joined = tokio::task::spawn_blocking(move || server.join());
        let mut ends_by = is_at_once.then(|| Instant::now() + END_TIMEOUT);
        loop {
            let is_end = tokio::select! {
                result = &mut joined => return result.map_err(|error| format!("server: {error}")),
                () = until(ends_by) => return Err("a worker does not end: it hangs in the kernel, and is left to it".to_owned()),
                event = signals.next() => matches!(event, Event::End),
                heard = Link::next(link.as_mut()) => match heard {
                    SupervisorEvent::Message(mut message) => {
                        if let (ToServer::Launcher, Some(socket)) = (&message.message, message.fds.pop()) {
                            launcher.connect(socket);
                        }
                        matches!(message.message, ToServer::End)
                    }
                    SupervisorEvent::AliveDue => false,
                    SupervisorEvent::Gone => {
                        link = None;
                        true
                    }
                },
            };
            if is_end {
                tracing::info!("ending at once");
                order.end();
                ends_by.get_or_insert_with(|| Instant::now() + END_TIMEOUT);
            }
        }
    }
}

async fn next_of_pages(commands: Option<&mut mpsc::Receiver<CommandRequest>>) -> CommandRequest {
    if let Some(commands) = commands
        && let Some(request) = commands.recv().await
    {
        return request;
    }
    std::future::pending().await
}

/// Asks the workers for an answer, or to end a request.
async fn inspect(
    operator: &Operator,
    mut report: Report,
    command: &Command,
    mut state: ServerReport,
    lacks: Option<Lacks>,
) {
    match command {
        Command::Connections => report.result.connections = Some(operator.connections().await),
        Command::End { id } => match operator.end(id).await {
            Ok(request) => report.info(&operator::ended_text(&request)),
            Err(error) => report.fail(&error.to_string()),
        },
        _ => {
            let requests = operator.requests().await;
            state.scripts = operator.scripts_with(&requests).await;
            report.result.requests = (*command == Command::Top).then_some(requests);
            if let Some(lacks) = lacks {
                state.status.faults.extend(lacks.now().await);
            }
            report.result.state = Some(state);
        }
    }
    report.finish();
}
