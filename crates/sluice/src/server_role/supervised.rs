//! The server role under a supervisor: how it begins, and what it asks for.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use sluice_net::listener::Bound;
use sluice_server::Server;
use sluice_server::commands::CommandAnswer;
use sluice_settings::Settings;
use sluice_settings::source::{Bundle, Source};
use tokio::sync::oneshot;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::report::Report;
use super::{End, Role, allow_core_dumps, runtime};
use crate::control::Answer;
use crate::control::socket::Control;
use crate::link::channel::{Channel, Received};
use crate::link::message::{Ask, Cause, FromServer, History, Refused, Start, ToServer, VERSION};
use crate::server_log::Logger;
use crate::signals::Signals;

/// A message of the supervisor, with its descriptors.
pub(super) type Message = Received<ToServer>;

/// Questions to the supervisor that wait for their answer; further ones are refused.
const QUESTIONS_MAX: usize = 64;

/// Runs a server process until its supervisor, or a signal, ends it. It tells the supervisor why it cannot start; an error is one that it
/// cannot tell.
pub(crate) fn run_supervised(logger: &Logger) -> Result<ExitCode, String> {
    runtime()?.block_on(async {
        // Before the server, so that no signal is lost while it starts.
        let signals = Signals::listen().map_err(|error| format!("signals: {error}"))?;
        let channel = Channel::of_stdin();
        let mut channel = channel
            .map_err(|error| format!("this is started by `sluice run`, not by hand: standard input: {error}"))?;
        let received = channel.next().await;
        let received = received.map_err(|error| format!("this is started by `sluice run`, not by hand: {error}"))?;
        let Some(Received {
            message: ToServer::Start(start),
            fds,
        }) = received
        else {
            return Err("the supervisor did not say how to start".to_owned());
        };
        match begin(&start, fds, logger) {
            Ok((server, settings, control)) => {
                let started = channel.send(&FromServer::Started, &[]).await;
                started.map_err(|error| format!("the supervisor: {error}"))?;
                let link = Link::new(channel, start);
                if let Some(end) = &link.start.supervisor.last_end {
                    tracing::warn!("this server process replaces one that {end}");
                }
                let served = Role::new(server, settings, Some(link), logger).serve(signals, control);
                served.await.map(|()| ExitCode::SUCCESS)
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
        let mut channel = Channel::of_stdin().map_err(|error| format!("standard input: {error}"))?;
        let received = channel.next().await.map_err(|error| error.to_string())?;
        let Some(Received {
            message: ToServer::Start(start),
            ..
        }) = received
        else {
            return Err("the supervisor did not say how to start".to_owned());
        };
        let result = start.left.as_deref().map_or(Ok(()), check_left).and_then(|()| {
            let settings = sluice_config::load_to_run(&start.file, |_| {}).map_err(|errors| errors.to_string())?;
            sluice_server::check(&settings).map_err(|error| error.to_string())
        });
        let answer = match result {
            Ok(()) => FromServer::Tried { version: VERSION },
            Err(message) => FromServer::Failed(message),
        };
        let sent = channel.send(&answer, &[]).await;
        sent.map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
    })
}

/// Starts the server on the sockets of the supervisor.
fn begin(start: &Start, fds: Vec<OwnedFd>, logger: &Logger) -> Result<(Server, Settings, Option<Control>), String> {
    let mut taken = Taken::new(fds);
    let source = Source::given(read_bundle(&taken.one()?)?);
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
    let server = Server::start_on(&settings, bound, launcher).map_err(|error| error.to_string())?;
    let control = control.map(|socket| Control::on(socket, server.watches()));
    Ok((server, settings, control.transpose()?))
}

/// The files of the configuration, from a memory file of the supervisor.
pub(crate) fn read_bundle(memfd: &OwnedFd) -> Result<Bundle, String> {
    let read = || -> io::Result<Vec<u8>> {
        let file = File::from(memfd.try_clone()?);
        let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?];
        // Server processes share the position of the file, so it is not used.
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error| format!("the files of the configuration: {error}"))?;
    Bundle::decode(&bytes).map_err(|error| error.to_string())
}

/// Descriptors that came with a message, in their order.
pub(super) struct Taken(std::vec::IntoIter<OwnedFd>);

impl Taken {
    pub(super) fn new(fds: Vec<OwnedFd>) -> Taken {
        Taken(fds.into_iter())
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

/// Who waits for the result of a command.
pub(super) enum Asker {
    /// A peer of the control socket.
    Control(oneshot::Sender<Answer>),
    /// A page of the reports.
    Page(oneshot::Sender<CommandAnswer>),
    /// A signal.
    Nobody,
}

impl Asker {
    /// Answers. Who asked may have gone.
    pub(super) fn answer(self, answer: Answer) {
        match self {
            Asker::Control(sender) => drop(sender.send(answer)),
            Asker::Page(sender) => drop(sender.send(CommandAnswer {
                ok: answer.ok,
                messages: answer.messages,
            })),
            Asker::Nobody => {}
        }
    }
}

/// Everybody who wanted one change.
pub(super) struct Askers {
    name: String,
    user: Option<u32>,
    askers: Vec<Asker>,
}

impl Askers {
    /// The report about the change, which has the name of the first one.
    pub(super) fn report(&self) -> Report {
        Report::new(self.name.clone(), self.user)
    }

    pub(super) fn answer(self, answer: &Answer) {
        for asker in self.askers {
            asker.answer(Answer {
                ok: answer.ok,
                messages: answer.messages.clone(),
                ..Answer::default()
            });
        }
    }
}

/// What a server process hears of its supervisor.
pub(super) enum Heard {
    Message(Message),
    /// It is to hear that the workers answer.
    AliveDue,
    /// It has ended.
    Gone,
}

/// The supervisor, as its server process sees it.
pub(super) struct Link {
    channel: Channel,
    start: Start,
    next_number: u64,
    /// Questions without an answer, by their numbers.
    questions: HashMap<u64, (Report, Asker)>,
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
            questions: HashMap::new(),
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

    /// What happens next. Waits forever without a supervisor.
    pub(super) async fn next(link: Option<&mut Link>) -> Heard {
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
                Ok(Some(message)) => Heard::Message(message),
                Ok(None) => Heard::Gone,
                Err(error) => {
                    tracing::error!("supervisor: {error}");
                    Heard::Gone
                }
            },
            () = alive_due => Heard::AliveDue,
        }
    }

    pub(super) async fn send(&mut self, message: &FromServer) {
        if let Err(error) = self.channel.send(message, &[]).await {
            // Its end is noticed by `next`.
            tracing::debug!("supervisor: {error}");
        }
    }

    /// Asks the supervisor; the answer comes later.
    pub(super) async fn ask(&mut self, what: Ask, mut report: Report, asker: Asker) -> Option<End> {
        if self.questions.len() >= QUESTIONS_MAX {
            report.fail("too many commands wait for their result");
            asker.answer(report.answer);
            return None;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.questions.insert(number, (report, asker));
        self.send(&FromServer::Ask { number, what }).await;
        None
    }

    /// Asks the supervisor to end the server, which it says then.
    pub(super) async fn ask_drain(&mut self) -> Option<End> {
        let number = self.next_number;
        self.next_number += 1;
        self.send(&FromServer::Ask {
            number,
            what: Ask::Drain,
        })
        .await;
        None
    }

    /// Answers the questions that wait: this process ends, and the supervisor answers it no more.
    pub(super) fn give_up_questions(&mut self) {
        for (_, (mut report, asker)) in self.questions.drain() {
            report.fail(
                "this server process ends: nothing came of it; if another one has taken over, give the command again",
            );
            asker.answer(report.answer);
        }
    }

    /// Those who have caused a change.
    pub(super) fn askers_of(&mut self, causes: &[Cause]) -> Askers {
        let mut askers = Askers {
            name: "reload".to_owned(),
            user: None,
            askers: Vec::new(),
        };
        // The last name that is set is that of the first cause.
        for cause in causes.iter().rev() {
            match cause {
                Cause::Signal(name) => (askers.name, askers.user) = (name.clone(), None),
                Cause::Asked(number) => {
                    if let Some((report, asker)) = self.questions.remove(number) {
                        (askers.name, askers.user) = (report.name, report.user);
                        askers.askers.push(asker);
                    }
                }
            }
        }
        askers
    }

    /// Logs and answers what the supervisor says about a change that it did not make, or has made.
    pub(super) fn conclude(&mut self, result: &Refused) {
        let askers = self.askers_of(&result.causes);
        let mut report = askers.report();
        match result.is_done {
            true => result.lines.iter().for_each(|line| report.info(line)),
            false => report.fail(&result.lines.join("\n")),
        }
        askers.answer(&report.answer);
    }
}

#[cfg(test)]
mod tests {
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
        assert!(Taken::new(Vec::new()).one().unwrap_err().contains("too few"));
        assert!(Taken::new(Vec::new()).several(0).unwrap().is_empty());
    }
}
