//! The server role under a supervisor: how it begins, and what it asks for.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use sluice_launch::deadline;
use sluice_net::listener::Bound;
use sluice_report::command::{Command, CommandResult, History};
use sluice_server::Server;
use sluice_settings::Settings;
use sluice_settings::source::{Bundle, Source};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::report::Report;
use super::{Role, allow_core_dumps, run_to_end, runtime};
use crate::control::socket::Control;
use crate::link::channel::{Channel, Received, UNSAID};
use crate::link::memory_file;
use crate::link::message::{Cause, FromServer, Start, ToServer, VERSION};
use crate::served_directories::ServedDirectories;
use crate::server_log::Logger;
use crate::signals::Signals;

pub(super) type Message = Received<ToServer>;

/// Lines for the supervisor about what a server process goes on without, at most.
const LACKS_MAX: usize = 50;

/// Commands to the supervisor that wait for their result; further ones are refused.
const COMMANDS_MAX: usize = 64;

/// Runs a server process until its supervisor, or a signal, ends it. It tells the supervisor why it cannot start; an error is one that it cannot tell.
pub(crate) fn run_supervised(logger: &Logger) -> Result<ExitCode, String> {
    run_to_end(async {
        // Before the server, so that no signal is lost while it starts.
        let signals = Signals::listen().map_err(|error| format!("signals: {error}"))?;
        let (channel, Received { message, fds }) = Channel::begin().await?;
        let ToServer::Start(start) = message else {
            return Err(UNSAID.to_owned());
        };
        // A directory whose file system does not answer is opened later.
        match deadline::with_deadline(|| begin(&start, fds, logger)) {
            Ok(StartedServer { server, settings, control, missing, directories }) => {
                logger.add_written(start.lines.clone());
                let lacks = first_lines(missing.iter().cloned().chain(server.faults()).collect());
                let started = channel.send(&FromServer::Started { lacks }, &[]).await;
                started.map_err(|error| format!("the supervisor: {error}"))?;
                let link = Link::new(channel, start);
                if let Some(end) = &link.start.supervisor.last_end {
                    tracing::warn!("this server process replaces one that {end}");
                }
                let mut role = Role::new(server, settings, Some(link), logger);
                (role.lacks, role.directories) = (missing, directories);
                role.serve(signals, control).await.map(|()| ExitCode::SUCCESS)
            }
            Err(message) => {
                logger.record_failure(&message);
                let said = channel.send(&FromServer::Failed(message.clone()), &[]).await;
                said.map_err(|error| format!("the supervisor: {error}"))?;
                Ok(ExitCode::FAILURE)
            }
        }
    })
}

/// Checks, for the supervisor of another version of the program, whether this one can take over: the versions of the messages must be the
/// same, it must be able to read what it would take over (`check_left`), and the configuration must be valid for it.
pub(crate) fn run_trial(check_left: fn(&str) -> Result<(), String>) -> Result<ExitCode, String> {
    runtime()?.block_on(async {
        let (channel, Received { message, .. }) = Channel::begin().await?;
        let ToServer::Start(start) = message else {
            return Err(UNSAID.to_owned());
        };
        let result = start.left.as_deref().map_or(Ok(()), check_left).and_then(|()| {
            deadline::with_deadline(|| {
                // As the server process that would replace the one that serves.
                let source = Source::DISK.tolerant();
                let settings = sluice_config::load_from(&start.file, &source, |_| {});
                let settings = settings.map_err(|errors| errors.to_string())?;
                sluice_server::check(&settings).map_err(|error| error.to_string())
            })
        });
        let answer = match result {
            Ok(()) => FromServer::Tried { version: VERSION },
            Err(message) => FromServer::Failed(message),
        };
        let sent = channel.send(&answer, &[]).await;
        sent.map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
    })
}

/// A server that has started.
struct StartedServer {
    server: Server,
    settings: Settings,
    control: Option<Control>,
    /// A line about each directory, program and engine that does not exist.
    missing: Vec<String>,
    directories: ServedDirectories,
}

fn begin(start: &Start, fds: Vec<OwnedFd>, logger: &Logger) -> Result<StartedServer, String> {
    let mut taken = PassedFds::new(fds);
    let bundle = read_bundle(&taken.one()?)?;
    deadline::expect_silence(&bundle.silent());
    let source = Source::given(bundle).tolerant();
    let mut missing = Vec::new();
    let settings = sluice_config::load_from(&start.file, &source, |line| missing.push(line.to_owned()));
    let settings = settings.map_err(|errors| errors.to_string())?;
    logger.apply(logger.prepare(&settings.server_log)?);
    missing.iter().for_each(|line| tracing::warn!("{line}"));
    allow_core_dumps(&settings)?;
    let launcher = taken.one()?;
    let control = start.has_control.then(|| taken.one()).transpose()?;
    let mut bound = Vec::new();
    for (listen, count) in settings.listen.iter().zip(&start.sockets) {
        let sockets = Bound::of_sockets(&listen.address, taken.several(*count)?);
        bound.push(sockets.map_err(|error| format!("listen on {}: {error}", listen.address))?);
    }
    // Before the threads of the server, and with the launcher in another process, which needs these calls.
    if let Err(error) = sluice_launch::refuse_needless_calls() {
        tracing::warn!("the server process keeps system calls that it does not need: {error}");
    }
    let directories = ServedDirectories::of(&settings);
    let server = Server::start_on(&settings, bound, launcher).map_err(|error| error.to_string())?;
    server.faults().iter().for_each(|line| tracing::error!("{line}"));
    let control = control.map(|socket| Control::on(socket, server.watches()));
    Ok(StartedServer {
        server,
        settings,
        control: control.transpose()?,
        missing,
        directories,
    })
}

/// The first of many lines, and their number: whoever gives a command reads no more.
fn first_lines(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(LACKS_MAX);
    if more > 0 {
        lines.truncate(LACKS_MAX);
        lines.push(format!("… and {more} more, in the server log"));
    }
    lines
}

/// The files of the configuration, from a memory file of the supervisor.
pub(crate) fn read_bundle(memfd: &OwnedFd) -> Result<Bundle, String> {
    let bytes = memory_file::read(memfd).map_err(|error| format!("the files of the configuration: {error}"))?;
    Bundle::decode(&bytes).map_err(|error| error.to_string())
}

/// Descriptors that came with a message, in their order.
pub(super) struct PassedFds(std::vec::IntoIter<OwnedFd>);

impl PassedFds {
    pub(super) fn new(fds: Vec<OwnedFd>) -> PassedFds {
        PassedFds(fds.into_iter())
    }

    pub(super) fn one(&mut self) -> Result<OwnedFd, String> {
        self.0
            .next()
            .ok_or_else(|| "the supervisor has sent too few descriptors".to_owned())
    }

    pub(super) fn several(&mut self, count: usize) -> Result<Vec<OwnedFd>, String> {
        (0..count).map(|_| self.one()).collect()
    }
}

pub(super) enum SupervisorEvent {
    Message(Message),
    /// A report is due that the workers answer.
    AliveDue,
    Gone,
}

/// The supervisor, as its server process sees it.
pub(super) struct Link {
    channel: Channel,
    start: Start,
    next_number: u64,
    /// Commands without a result, by their numbers.
    commands: HashMap<u64, Report>,
    alive: Option<Interval>,
}

impl Link {
    fn new(channel: Channel, start: Start) -> Link {
        let alive = start.alive_interval_ms.filter(|milliseconds| *milliseconds > 0);
        let alive = alive.map(|milliseconds| {
            let mut alive = interval(Duration::from_millis(milliseconds));
            alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
            alive
        });
        Link {
            channel,
            start,
            next_number: 0,
            commands: HashMap::new(),
            alive,
        }
    }

    /// The configuration file, as the administrator named it.
    pub(super) fn file(&self) -> &Path {
        &self.start.file
    }

    /// Whether another server process has not ended yet.
    pub(super) fn replaces(&self) -> bool {
        self.start.replaces
    }

    pub(super) fn history(&self) -> &History {
        &self.start.supervisor
    }

    /// Waits for the next event of the supervisor; without a supervisor, forever.
    pub(super) async fn next(link: Option<&mut Link>) -> SupervisorEvent {
        let Some(Link { channel, alive, .. }) = link else {
            return std::future::pending().await;
        };
        let alive_due = async {
            match alive {
                Some(alive) => drop(alive.tick().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            message = channel.next() => match message {
                Ok(Some(message)) => SupervisorEvent::Message(message),
                Ok(None) => SupervisorEvent::Gone,
                Err(error) => {
                    tracing::error!("supervisor: {error}");
                    SupervisorEvent::Gone
                }
            },
            () = alive_due => SupervisorEvent::AliveDue,
        }
    }

    pub(super) async fn send(&mut self, message: &FromServer) {
        if let Err(error) = self.channel.send(message, &[]).await {
            // Its end is noticed by `next`.
            tracing::debug!("supervisor: {error}");
        }
    }

    /// Gives the supervisor a command; the result comes later.
    pub(super) async fn give(&mut self, command: Command, mut report: Report) {
        if self.commands.len() >= COMMANDS_MAX {
            report.fail("too many commands wait for their result");
            return report.finish();
        }
        let number = self.next_number();
        self.commands.insert(number, report);
        self.send(&FromServer::Command { number, command }).await;
    }

    /// Has the supervisor end the server, which it says then. Nobody waits for a result.
    pub(super) async fn drain(&mut self) {
        let number = self.next_number();
        let command = Command::Drain;
        self.send(&FromServer::Command { number, command }).await;
    }

    fn next_number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// Finishes the commands that wait: this process ends, and the supervisor says their result no more.
    pub(super) fn give_up_commands(&mut self) {
        for (_, mut report) in self.commands.drain() {
            report.fail(
                "this server process ends: nothing came of it; if another one has taken over, give the command again",
            );
            report.finish();
        }
    }

    /// The report on a change, with the name of the first of these causes.
    pub(super) fn report_of(&mut self, causes: &[Cause]) -> Report {
        let mut report = Report::of_signal("reload");
        for cause in causes.iter().rev() {
            match cause {
                Cause::Signal(name) => report.join(Report::of_signal(name)),
                Cause::Asked(number) => {
                    if let Some(earlier) = self.commands.remove(number) {
                        report.join(earlier);
                    }
                }
            }
        }
        report
    }

    /// Logs and answers the result of a command that the supervisor has carried out or refused. Returns a line for `status` if it was refused.
    pub(super) fn conclude(&mut self, causes: &[Cause], result: &CommandResult) -> Option<String> {
        let mut report = self.report_of(causes);
        match result.ok {
            true => result.messages.iter().for_each(|line| report.info(line)),
            false => report.fail(&result.messages.join("\n")),
        }
        let refusal = report.refusal();
        report.finish();
        refusal
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn bytes_that_are_no_bundle_are_refused_in_one_line() {
        let file = tempfile::tempfile().expect("a temporary file");
        file.write_all_at(b"sluice bundle 0\n", 0).expect("room");
        let message = read_bundle(&file.into()).err().expect("no bundle");
        assert!(message.contains("a form that this program does not know"), "{message}");
    }

    #[test]
    fn missing_descriptors_are_reported() {
        assert!(PassedFds::new(Vec::new()).one().unwrap_err().contains("too few"));
        assert!(PassedFds::new(Vec::new()).several(0).unwrap().is_empty());
    }
}
