//! The server as a whole, as every worker sees it: for the reports, which any worker may be asked for.
//!
//! Here: the sums over the workers, the last minute, questions to the workers, and what all reports share. Nothing here is used by
//! a request for anything else. Not here: the pages (`reports`), the threads (`server`).

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use aws_lc_rs::hmac;
use sluice_access::control::AccessControl;
use sluice_log::LogSource;
use sluice_report::access::AccessReport;
use sluice_report::command::{Command, CommandResult};
use sluice_report::configuration::Configuration;
use sluice_report::overview::Minute;
use sluice_report::traffic::Traffic;
use sluice_script::report::Retired;
use sluice_script::resources::Resources;
use sluice_settings::Settings;
use sluice_watch::Hub;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::activity::{Recorder, Sums};
use crate::commands::{self, CommandRequest};
use crate::context::Context;
use crate::dispatch::Config;
use crate::status::{self, Processes, Status, WorkerCounts};

/// Live pages at once; further ones get 503.
const LIVE_MAX: usize = 64;

/// How long a worker may take to answer a question. One that is busy for longer is left out of a report.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Questions that wait for a worker at once; further ones are not answered.
const QUESTIONS_MAX: usize = 64;

/// The seconds of the last minute, and one before it.
const SECONDS: usize = 61;

/// A question to a worker: runs on its thread, between two events.
pub(crate) type WorkerQuestion = Box<dyn FnOnce(&Rc<Context>) + Send>;

/// The parts of the server that it is made of.
pub(crate) struct Parts {
    pub access: Arc<AccessControl>,
    pub addresses: ArcSwap<Vec<String>>,
    pub connections_max: usize,
    pub counts: Box<[Arc<WorkerCounts>]>,
    pub resources: Arc<Resources>,
    pub config: Arc<ArcSwap<Config>>,
    pub commands: mpsc::Sender<CommandRequest>,
    /// The active watches, and what must not be shown.
    pub watches: Arc<Hub>,
    /// Retires the processes of the scripts that a path in a URL leads to. What a path leads to is decided by the stages of an exchange, which
    /// use what is here.
    pub retire_path: fn(&Config, &str) -> Retired,
}

/// The server as a whole.
pub(crate) struct Overall {
    started: SystemTime,
    /// The main configuration file.
    configuration_file: Option<String>,
    parts: Parts,
    questions: Box<[mpsc::Sender<WorkerQuestion>]>,
    /// The sums at each of the last seconds, the oldest first.
    seconds: Mutex<VecDeque<Second>>,
    /// The exchanges at the last reset of the statistics, with its time.
    at_reset: Mutex<Option<Traffic>>,
    /// Where the program leaves a rating of the machine.
    rating_file: OnceLock<PathBuf>,
    /// The configuration as the program has described it.
    configuration: ArcSwap<Configuration>,
    /// The key of the tokens of visitors.
    token_key: hmac::Key,
    live: Arc<Semaphore>,
    /// What has happened in each minute.
    activity: Arc<Recorder>,
    /// Where the lines of the server log are, once the program has said so.
    server_log: ArcSwapOption<LogSource>,
}

/// The sums of the workers at one second.
#[derive(Clone, Copy, Default)]
struct Second {
    requests: u64,
    server_errors: u64,
    body_bytes: u64,
}

impl Overall {
    /// The server of these parts, and the receiving end of the questions to each worker.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn new(
        settings: &Settings,
        parts: Parts,
    ) -> Result<(Overall, Vec<mpsc::Receiver<WorkerQuestion>>), String> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &aws_lc_rs::rand::SystemRandom::new());
        let (questions, receivers) = parts.counts.iter().map(|_| mpsc::channel(QUESTIONS_MAX)).unzip();
        let overall = Overall {
            started: SystemTime::now(),
            configuration_file: settings.config_files.first().map(|file| shown(file)),
            parts,
            questions: Vec::into_boxed_slice(questions),
            seconds: Mutex::default(),
            at_reset: Mutex::default(),
            rating_file: OnceLock::new(),
            configuration: ArcSwap::default(),
            token_key: key.map_err(|_| "no random bytes for the tokens of the reports".to_owned())?,
            live: Arc::new(Semaphore::new(LIVE_MAX)),
            activity: Arc::new(Recorder::new()),
            server_log: ArcSwapOption::empty(),
        };
        Ok((overall, receivers))
    }

    /// What the server has done since its start, and what it holds now. Counts the entries of the cache, which may take some milliseconds.
    pub(crate) fn status(&self) -> Status {
        let parts = &self.parts;
        let (connections, requests) = status::sum(&parts.counts, parts.connections_max);
        let cache = parts
            .config
            .load()
            .cache
            .as_ref()
            .map(|cache| status::cache_status(&cache.counters()));
        Status {
            started: status::unix_seconds(self.started),
            workers: parts.counts.len(),
            addresses: Vec::clone(&parts.addresses.load()),
            connections,
            requests,
            processes: Processes {
                running: parts.resources.processes_running(),
                max: parts.resources.processes_max(),
            },
            cache,
            traffic: self.traffic(),
        }
    }

    /// The state of access control.
    pub(crate) fn access(&self) -> AccessReport {
        let limits = Arc::clone(&self.parts.config.load().limit_tables);
        AccessReport {
            failures: self.parts.access.failures(),
            throttles: limits.throttle_reports(),
            rates: limits.rate_reports(),
        }
    }

    /// The exchanges that have ended since the start.
    fn traffic(&self) -> Traffic {
        status::traffic(&self.parts.counts, status::unix_seconds(self.started))
    }

    /// The exchanges that have ended since the statistics were reset.
    pub(crate) fn traffic_since_reset(&self) -> Traffic {
        let traffic = self.traffic();
        match &*self.at_reset.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(earlier) => traffic.since(earlier, earlier.since),
            None => traffic,
        }
    }

    /// Begins to count the statistics again. Counters go on, so that those of `metrics` never fall.
    pub(crate) fn reset_statistics(&self, now: SystemTime) {
        let mut traffic = self.traffic();
        traffic.since = status::unix_seconds(now);
        *self.at_reset.lock().unwrap_or_else(PoisonError::into_inner) = Some(traffic);
    }

    /// The parts of the server.
    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The time since its start.
    pub(crate) fn uptime(&self, now: SystemTime) -> Duration {
        now.duration_since(self.started).unwrap_or_default()
    }

    /// The main configuration file. `None` if the command line says everything.
    pub(crate) fn configuration_file(&self) -> Option<String> {
        self.configuration_file.clone()
    }

    /// The configuration in force, as the program has described it.
    pub(crate) fn configuration(&self) -> Arc<Configuration> {
        self.configuration.load_full()
    }

    /// Where the program leaves a rating of the machine. `None` if it has not said.
    pub(crate) fn rating_file(&self) -> Option<&Path> {
        self.rating_file.get().map(PathBuf::as_path)
    }

    /// Notes where the program leaves a rating of the machine. The first one counts.
    pub(crate) fn set_rating_file(&self, file: PathBuf) {
        let _ = self.rating_file.set(file);
    }

    /// Notes the addresses that the server listens on.
    pub(crate) fn set_addresses(&self, addresses: Vec<String>) {
        self.parts.addresses.store(Arc::new(addresses));
    }

    /// Notes the configuration in force.
    pub(crate) fn set_configuration(&self, configuration: Configuration) {
        self.configuration.store(Arc::new(configuration));
    }

    /// Notes what has happened by now. The first worker calls this once a second.
    pub(crate) fn note_second(&self) {
        let (connections, requests) = status::sum(&self.parts.counts, self.parts.connections_max);
        self.activity.note(requests.in_progress, connections.open);
        let mut seconds = self.seconds();
        if seconds.len() == SECONDS {
            seconds.pop_front();
        }
        seconds.push_back(Second {
            requests: requests.total,
            server_errors: requests.by_class[4],
            body_bytes: requests.body_bytes,
        });
    }

    /// What has happened in each minute.
    pub(crate) fn activity(&self) -> &Arc<Recorder> {
        &self.activity
    }

    /// The sums from which the minutes are recorded.
    pub(crate) fn activity_sums(&self) -> Sums {
        let (_, requests) = status::sum(&self.parts.counts, self.parts.connections_max);
        Sums {
            requests: requests.total.saturating_sub(requests.in_progress),
            received_bytes: status::received_bytes(&self.parts.counts),
            sent_bytes: requests.body_bytes,
            by_class: requests.by_class,
            client_left: requests.client_left,
        }
    }

    /// Where the lines of the server log are. `None` if the program has not said so.
    pub(crate) fn server_log(&self) -> Option<Arc<LogSource>> {
        self.server_log.load_full()
    }

    /// Notes where the lines of the server log are.
    pub(crate) fn set_server_log(&self, source: Arc<LogSource>) {
        self.server_log.store(Some(source));
    }

    /// What has happened in each second of the last minute.
    pub(crate) fn minute(&self) -> Minute {
        let seconds = self.seconds();
        let each = |of: fn(&Second) -> u64| -> Vec<u64> {
            let pairs = seconds.iter().zip(seconds.iter().skip(1));
            pairs
                .map(|(before, after)| of(after).saturating_sub(of(before)))
                .collect()
        };
        Minute {
            requests: each(|second| second.requests),
            server_errors: each(|second| second.server_errors),
            body_bytes: each(|second| second.body_bytes),
        }
    }

    fn seconds(&self) -> MutexGuard<'_, VecDeque<Second>> {
        self.seconds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks every worker, and waits for the answers without blocking the event loop. `None` for a worker that does not answer in time.
    pub(crate) async fn ask_workers<T: Send + 'static>(
        &self,
        question: impl Fn(&Rc<Context>) -> T + Clone + Send + 'static,
    ) -> Vec<Option<T>> {
        let ask = |worker: &mpsc::Sender<WorkerQuestion>| {
            let (answer, answered) = oneshot::channel();
            let question = question.clone();
            let asked = worker.try_send(Box::new(move |context| drop(answer.send(question(context)))));
            asked.is_ok().then_some(answered)
        };
        let asked: Vec<_> = self.questions.iter().map(ask).collect();
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let mut answers = Vec::new();
        for answered in asked {
            answers.push(match answered {
                Some(answered) => timeout_at(deadline, answered).await.ok().and_then(Result::ok),
                None => None,
            });
        }
        answers
    }

    /// Gives the program a command, and waits until it is carried out.
    pub(crate) async fn command(&self, command: Command, by: String) -> CommandResult {
        commands::give(&self.parts.commands, command, by).await
    }

    /// The key of the tokens of visitors.
    pub(crate) fn token_key(&self) -> &hmac::Key {
        &self.token_key
    }

    /// The right to one live page. `None` if there are as many as there may be.
    pub(crate) fn live_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.live).try_acquire_owned().ok()
    }
}

/// Answers the questions to a worker, until the server ends.
pub(crate) async fn answer(context: Rc<Context>, mut questions: mpsc::Receiver<WorkerQuestion>) {
    while let Some(question) = questions.recv().await {
        question(&context);
    }
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}
