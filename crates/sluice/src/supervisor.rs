//! The supervisor: starts the server, and handles signals and commands until the server has ended.
//!
//! | signal | command | effect |
//! |---|---|---|
//! | SIGHUP | `reload` | the configuration is read again; an invalid one is reported and changes nothing. Script processes that are kept are ended, also without a configuration file |
//! | SIGUSR1 | `log reopen` | the access logs and the server log are reopened |
//! | SIGUSR2 | `purge` | the file cache is emptied, and its counters are logged |
//! | SIGTERM, SIGINT | `drain` | no new connections; exchanges in progress may end within `drain_timeout`; a second signal aborts them |
//! | | `status`, `top` | the state is reported, and the requests in progress |
//! | | `retire` | the processes of a script end, busy ones after their reply |
//! | | `end` | a request in progress is ended, with its script process |
//!
//! Not here: how commands arrive (`control`).

use std::io;
use std::path::{Path, PathBuf};

use sluice_report::scripts::Scripts;
use sluice_server::Server;
use sluice_server::commands::{CommandAnswer, CommandRequest};
use sluice_server::inspector::{self, Inspector};
use sluice_settings::Settings;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::certificates::Certificates;
use crate::control::socket::{Control, Request};
use crate::control::{Answer, Command, State, place};
use crate::server_log::Logger;
use crate::{certificates, config};

/// The origin of the settings, which SIGHUP reads again.
pub(crate) enum Origin {
    Arguments,
    File(PathBuf),
}

/// Runs a server with these settings until a signal ends it; the log has its settings already. The error is one line for the
/// administrator.
pub(crate) fn run(settings: Settings, origin: Origin, logger: &Logger) -> Result<(), String> {
    if settings.core_dumps {
        sluice_server::allow_core_dumps().map_err(|error| format!("core_dumps: {error}"))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("event loop: {error}"))?;
    runtime.block_on(supervise(settings, origin, logger))
}

async fn supervise(started: Settings, origin: Origin, logger: &Logger) -> Result<(), String> {
    // Before the server, so that no signal is lost while it starts.
    let mut signals = Signals::listen().map_err(|error| format!("signals: {error}"))?;
    let server = Server::start(&started).map_err(|error| error.to_string())?;
    let mut control = Control::listen(&started.control, server.watches())?;
    let mut of_pages = server.take_commands();
    server.set_rating_file(place::rating_file());
    if let Some(directory) = place::state_directory(&started.state_directory) {
        server.keep_activity(&directory);
    }
    server.show_server_log(logger.source(&started.server_log));
    server.describe(config::report(&listened(&started, &server)));
    let mut supervisor = Supervisor::new(server, started, origin, logger);
    announce(&supervisor.started, &supervisor.server);
    logger.started();
    loop {
        tokio::select! {
            event = signals.next() => match event {
                Event::End => break,
                Event::Signal(name, command) => drop(supervisor.carry_out(Report::new(name.to_owned(), None), &command)),
            },
            request = Control::next(control.as_mut()) => {
                let is_drain = request.command == Command::Drain;
                supervisor.answer(request);
                if is_drain {
                    break;
                }
            }
            request = next_of_pages(of_pages.as_mut()) => {
                let CommandRequest { command, by, answer } = request;
                let command = Command::of_pages(command);
                let report = Report::new(format!("{} by {by}", command.name()), None);
                let Answer { ok, messages, .. } = supervisor.carry_out(report, &command);
                drop(answer.send(CommandAnswer { ok, messages }));
                if command == Command::Drain {
                    break;
                }
            }
            () = supervisor.certificates.changed() => supervisor.reload_certificates(),
        }
    }
    // Its file is removed before another server can start.
    drop(control);
    supervisor.drain(signals).await
}

/// The next command of the pages of the reports.
async fn next_of_pages(commands: Option<&mut mpsc::Receiver<CommandRequest>>) -> CommandRequest {
    if let Some(commands) = commands
        && let Some(request) = commands.recv().await
    {
        return request;
    }
    std::future::pending().await
}

/// A server with what it was started from.
struct Supervisor<'a> {
    server: Server,
    /// The settings of the start, which hold for what a reload does not change.
    started: Settings,
    /// The settings in force.
    settings: Settings,
    certificates: Certificates,
    origin: Origin,
    logger: &'a Logger,
}

impl<'a> Supervisor<'a> {
    fn new(server: Server, mut started: Settings, origin: Origin, logger: &'a Logger) -> Supervisor<'a> {
        certificates::forget_keys(&mut started);
        Supervisor {
            settings: started.clone(),
            certificates: Certificates::of(&started),
            server,
            started,
            origin,
            logger,
        }
    }

    /// Carries out a command that came over the control socket. What the workers must be asked for is answered by a task, because they
    /// may be busy.
    fn answer(&mut self, request: Request) {
        let Request { command, user, answer } = request;
        let report = Report::new(format!("sluice {}", command.name()), Some(user));
        let answered = match &command {
            Command::Status | Command::Top | Command::Connections | Command::End { .. } => {
                let (inspector, state) = (self.server.inspector(), self.state());
                tokio::spawn(async move {
                    let answered = inspect(&inspector, report, &command, state).await;
                    // The client that asked may have gone.
                    drop(answer.send(answered));
                });
                return;
            }
            _ => self.carry_out(report, &command),
        };
        drop(answer.send(answered));
    }

    /// Carries out a command, and logs what happens.
    fn carry_out(&mut self, mut report: Report, command: &Command) -> Answer {
        match command {
            // Answered by `inspect`.
            Command::Status | Command::Top | Command::Connections | Command::End { .. } => {}
            Command::Retire { script } => match self.server.inspector().retire(script) {
                Ok(retired) => report.info(&retired.describe(script)),
                Err(error) => report.fail(&error.to_string()),
            },
            Command::Reload => self.reload(&mut report),
            Command::ReopenLogs => {
                self.server.reopen_logs();
                self.logger.reopen();
                report.info("the logs are opened again");
            }
            Command::Purge => match self.server.purge_cache() {
                Some(counters) => report.info(&format!("cache purged: {counters}")),
                None => report.warn("there is no cache to purge"),
            },
            Command::Drain => report.info("the server ends after the exchanges in progress"),
        }
        report.answer
    }

    fn state(&self) -> State {
        State {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            configuration: match &self.origin {
                // A relative path would mean another file to who asks.
                Origin::File(file) => {
                    let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
                    Some(file.display().to_string())
                }
                Origin::Arguments => None,
            },
            status: self.server.status(),
            scripts: Scripts::default(),
        }
    }

    /// Reads the configuration again, if there is one; otherwise only the script processes are replaced.
    fn reload(&mut self, report: &mut Report) {
        let Origin::File(file) = &self.origin else {
            // A module that a script has loaded may have changed, which no check of the script's file finds.
            match self.server.restart_scripts(&self.started) {
                Ok(()) => report.info("idle script processes have ended, busy ones end after their reply"),
                Err(error) => report.fail(&format!("{error}; nothing has changed")),
            }
            return;
        };
        let Some(read) = apply(file, &self.server, self.logger, report) else {
            return;
        };
        for pending in needing_restart(&self.started, &read, self.server.connections_max()) {
            report.warn(&format!(
                "{pending}: this change takes effect when the server is restarted"
            ));
        }
        self.certificates = Certificates::of(&read);
        self.server.describe(config::report(&read));
        self.server.show_server_log(self.logger.source(&read.server_log));
        self.settings = read;
    }

    fn reload_certificates(&self) {
        match self.server.reload_certificates(&self.settings) {
            Ok(()) => tracing::info!("certificates have changed: the new ones are in force"),
            Err(error) => tracing::error!("certificates have changed: {error}; the old ones stay in effect"),
        }
    }

    /// Ends the server after its exchanges, or at once after a second signal.
    async fn drain(self, mut signals: Signals) -> Result<(), String> {
        let server = self.server;
        tracing::info!("draining: no new connections; a second signal ends the server at once");
        if let Some(counters) = server.cache_counters() {
            tracing::info!("cache: {counters}");
        }
        let order = server.drain();
        let mut joined = tokio::task::spawn_blocking(move || server.join());
        loop {
            tokio::select! {
                result = &mut joined => return result.map_err(|error| format!("server: {error}")),
                event = signals.next() => if let Event::End = event {
                    tracing::info!("ending at once");
                    order.end();
                }
            }
        }
    }
}

/// Asks the workers for an answer, or to end a request.
async fn inspect(inspector: &Inspector, mut report: Report, command: &Command, mut state: State) -> Answer {
    match command {
        Command::Connections => report.answer.connections = Some(inspector.connections().await),
        Command::End { id } => match inspector.end(id).await {
            Ok(request) => report.info(&inspector::ended_text(&request)),
            Err(error) => report.fail(&error.to_string()),
        },
        _ => {
            let requests = inspector.requests().await;
            state.scripts = inspector.scripts_with(&requests).await;
            report.answer.requests = (*command == Command::Top).then_some(requests);
            report.answer.state = Some(state);
        }
    }
    report.answer
}

/// What a command does, for the log and for who has given it.
struct Report {
    /// `SIGHUP`, `sluice reload`, or `reload by user ann from 192.0.2.1`.
    name: String,
    /// The user of the control socket.
    user: Option<u32>,
    answer: Answer,
}

impl Report {
    fn new(name: String, user: Option<u32>) -> Report {
        Report {
            name,
            user,
            answer: Answer {
                ok: true,
                ..Answer::default()
            },
        }
    }

    fn info(&mut self, text: &str) {
        tracing::info!(user = self.user, "{}: {text}", self.name);
        self.answer.messages.push(text.to_owned());
    }

    fn warn(&mut self, text: &str) {
        tracing::warn!(user = self.user, "{}: {text}", self.name);
        self.answer.messages.push(text.to_owned());
    }

    /// The command has no effect for this reason.
    fn fail(&mut self, text: &str) {
        self.answer.ok = false;
        for line in text.lines() {
            tracing::error!(user = self.user, "{}: {line}", self.name);
            self.answer.messages.push(line.to_owned());
        }
    }
}

/// The settings with the addresses that the server listens on, whose ports the system may have chosen.
fn listened(settings: &Settings, server: &Server) -> Settings {
    let mut settings = settings.clone();
    for (listen, address) in settings.listen.iter_mut().zip(server.addresses()) {
        listen.address = address.clone();
    }
    settings
}

/// Logs in three lines what runs, where it listens, and what it serves; at level debug each route.
fn announce(settings: &Settings, server: &Server) {
    let settings = listened(settings, server);
    let (version, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
    tracing::info!(
        workers = settings.workers,
        pid,
        "sluice {version}, {}",
        config::sources(&settings)
    );
    tracing::info!("listening on {}", config::addresses(&settings));
    tracing::info!("serving {}", config::contents(&settings));
    for line in config::describe(&settings).lines() {
        tracing::debug!("{line}");
    }
    warn(&settings);
    if sluice_server::is_root() {
        tracing::warn!(
            "running as root, so scripts run as root too: use an ordinary user if others can reach this server"
        );
    }
}

fn warn(settings: &Settings) {
    for warning in config::warnings(settings) {
        tracing::warn!("{warning}");
    }
}

/// Reads a configuration and has the server use it. `None` if it cannot be used: then nothing has changed.
fn apply(file: &Path, server: &Server, logger: &Logger, report: &mut Report) -> Option<Settings> {
    let settings = match config::load_to_run(file, |missing| report.warn(missing)) {
        Ok(settings) => settings,
        Err(errors) => {
            report.fail(&format!("{errors}\nthe configuration is invalid, nothing has changed"));
            return None;
        }
    };
    let counters = server.cache_counters();
    // The log's file is opened first, because that may fail, and used last.
    let reloaded = logger.prepare(&settings.server_log).and_then(|change| {
        server.reload(&settings).map_err(|error| error.to_string())?;
        Ok(change)
    });
    match reloaded {
        Ok(change) => {
            logger.apply(change);
            logger.started();
            if let Some(counters) = counters {
                tracing::info!("cache of the old configuration: {counters}");
            }
            config::warnings(&settings)
                .iter()
                .for_each(|warning| report.warn(warning));
            report.info(&format!("{} is in force", file.display()));
            Some(settings)
        }
        Err(error) => {
            report.fail(&format!("{error}; nothing has changed"));
            None
        }
    }
}

/// The changes that need a restart, because sockets and threads are made at the start. `connections_max` is the bound in force, which
/// may be less than the configured one.
fn needing_restart(started: &Settings, read: &Settings, connections_max: usize) -> Vec<String> {
    let mut pending = Vec::new();
    for wanted in &read.listen {
        match started.listen.iter().find(|had| had.address == wanted.address) {
            None => pending.push(format!("{} is not listened on yet", wanted.address)),
            Some(had) if had.socket_mode != wanted.socket_mode => {
                pending.push(format!("{} keeps its mode", wanted.address));
            }
            Some(_) => {}
        }
    }
    for had in &started.listen {
        if read.listen.iter().all(|wanted| wanted.address != had.address) {
            pending.push(format!("{} is still listened on", had.address));
        }
    }
    if started.workers != read.workers {
        pending.push(format!("there are still {} workers", started.workers));
    }
    if started.limits.connections_max != read.limits.connections_max {
        pending.push(format!("connections is still {connections_max}"));
    }
    if started.control != read.control {
        pending.push("control is unchanged".to_owned());
    }
    if started.state_directory != read.state_directory {
        pending.push("state_directory is unchanged".to_owned());
    }
    if started.core_dumps != read.core_dumps {
        pending.push(format!("core_dumps is still {}", started.core_dumps));
    }
    if started.limits.client_connections_max != read.limits.client_connections_max {
        let most = started.limits.client_connections_max;
        pending.push(format!("connections_per_client is still {most}"));
    }
    if started.limits.has_cgroups != read.limits.has_cgroups {
        pending.push(format!("cgroups is still {}", started.limits.has_cgroups));
    }
    if started.limits.send_memory_bytes_max != read.limits.send_memory_bytes_max {
        let bytes = started.limits.send_memory_bytes_max;
        pending.push(format!("send_memory is still {bytes} bytes"));
    }
    if started.dns != read.dns {
        pending.push("dns_lookup, dns_timeout and dns_server are unchanged".to_owned());
    }
    pending
}

enum Event {
    /// A signal, and the command that does the same.
    Signal(&'static str, Command),
    End,
}

struct Signals {
    hangup: Signal,
    user1: Signal,
    user2: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> io::Result<Signals> {
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> Event {
        tokio::select! {
            _ = self.hangup.recv() => Event::Signal("SIGHUP", Command::Reload),
            _ = self.user1.recv() => Event::Signal("SIGUSR1", Command::ReopenLogs),
            _ = self.user2.recv() => Event::Signal("SIGUSR2", Command::Purge),
            _ = self.terminate.recv() => Event::End,
            _ = self.interrupt.recv() => Event::End,
        }
    }
}
