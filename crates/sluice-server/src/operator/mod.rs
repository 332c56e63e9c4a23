//! The operator's side of a server: its activity, for reports, and orders: retire a script, end a request.

pub(crate) mod late_watch;
mod process_usage;
pub(crate) mod reports;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use http::Version;
use sluice_files::foreign::{self, Answers};
use sluice_http::path_text::path_of;
use sluice_launch::NoAnswer;
use sluice_report::connections::{ConnectionList, Count};
use sluice_report::requests::{ActiveRequest, RequestList, State};
use sluice_report::scripts::{ProcessReport, Scripts};
pub use sluice_script::report::Retired;
use sluice_watch::Stage;
use sluice_watch::mask::Masks;

use crate::context::Context;
use crate::dispatch::found_script;
use crate::in_progress::RequestView;
use crate::state::ServerState;

/// Requests in a report: the oldest.
const REQUESTS_MAX: usize = 5000;

/// Bytes of a target or host that a report shows: a client may send 64 KiB, and there may be thousands.
const TEXT_BYTES_MAX: usize = 1000;

/// Connections that a report describes one by one: the oldest; and clients.
const CONNECTIONS_MAX: usize = 20;

/// A way to ask what runs, and to give orders. Clones ask the same server.
#[derive(Clone)]
pub struct Operator {
    state: Arc<ServerState>,
}

/// Why an order has had no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderError {
    /// No request in progress has this id.
    NoRequest(String),
    /// No script has this path or file, or it has no processes. With the scripts that have some.
    NoScript(String, Vec<String>),
    /// The file system of this script does not answer.
    Unanswered(String),
    /// A mistake of the server.
    Panicked,
}

impl fmt::Display for OrderError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OrderError::NoRequest(id) => write!(
                out,
                "no request in progress has the id {id:?}: it may be over (`sluice top` shows those in progress)"
            ),
            OrderError::NoScript(name, known) => {
                write!(
                    out,
                    "no processes of a script {name:?}: name its file, its path in the URL, or an engine, as php"
                )?;
                if known.is_empty() {
                    return out.write_str("; no script has processes now");
                }
                write!(out, "; these have processes: {}", known.join(", "))
            }
            OrderError::Unanswered(name) => write!(
                out,
                "the file system of script {name:?} does not answer, or a process holds its directory: name its file"
            ),
            OrderError::Panicked => out.write_str("the order has failed by a mistake of the server: see its log"),
        }
    }
}

impl std::error::Error for OrderError {}

impl Operator {
    pub(crate) fn new(state: &Arc<ServerState>) -> Operator {
        Operator { state: Arc::clone(state) }
    }

    /// Whether every worker answers within two seconds.
    pub async fn do_workers_answer(&self) -> bool {
        self.state.questions.ask(|_| ()).await.iter().all(Option::is_some)
    }

    /// The requests in progress, the oldest first.
    pub async fn requests(&self) -> RequestList {
        let questions = &self.state.questions;
        let ask = |worker: &Context| (worker.in_progress.count(), worker.in_progress.views());
        let answers = questions.ask(ask).await;
        let now = Instant::now();
        let mut report = RequestList::default();
        let mut views = Vec::new();
        for (worker, answer) in answers.into_iter().enumerate() {
            match answer {
                Some((count, of_worker)) => {
                    report.total += count;
                    views.extend(of_worker.into_iter().map(|view| (worker, view)));
                }
                None => report.silent_workers += 1,
            }
        }
        views.sort_by_key(|(_, view)| view.request.started);
        views.truncate(REQUESTS_MAX);
        let masks = self.masks();
        let described = views.iter().map(|(worker, view)| request(view, *worker, now, &masks));
        report.requests = described.collect();
        let scripts = self.scripts_of_processes();
        for request in &mut report.requests {
            request.script = request.pid.and_then(|pid| scripts.get(&pid).cloned());
        }
        report
    }

    /// The script processes, with their requests and what they use of the machine.
    pub async fn scripts(&self) -> Scripts {
        let requests = self.requests().await;
        self.scripts_with(&requests).await
    }

    /// The script processes as `scripts` reports them, with these requests.
    pub async fn scripts_with(&self, requests: &RequestList) -> Scripts {
        let by_id: HashMap<&str, &ActiveRequest> = requests.requests.iter().map(|one| (one.id.as_str(), one)).collect();
        let mut scripts = self.state.resources.report();
        let usage = process_usage::of(self.state.resources.probes()).await;
        for process in scripts.pools.iter_mut().flat_map(|pool| &mut pool.processes) {
            process.usage = process.pid.and_then(|pid| usage.get(&pid).copied());
            describe_request(process, &by_id);
        }
        scripts
    }

    /// The connections of clients.
    pub async fn connections(&self) -> ConnectionList {
        let answers = self.state.questions.ask(|worker| worker.front.connections()).await;
        let (sums, _) = self.state.statistics.sums();
        let mut report = ConnectionList {
            max: sums.max,
            accepted: sums.accepted,
            ..ConnectionList::default()
        };
        let (mut states, mut protocols, mut tls, mut clients) = Default::default();
        for answer in answers {
            let Some(worker) = answer else {
                report.silent_workers += 1;
                continue;
            };
            report.open += worker.open;
            add(&mut states, worker.states);
            add(&mut protocols, worker.protocols);
            add(&mut tls, worker.tls);
            add(&mut clients, worker.clients);
            report.oldest.extend(worker.oldest);
        }
        report.oldest.sort_by_key(|connection| Reverse(connection.age_ms));
        report.oldest.truncate(CONNECTIONS_MAX);
        report.states = counts(states, usize::MAX);
        report.protocols = counts(protocols, usize::MAX);
        report.tls = counts(tls, usize::MAX);
        report.clients = counts(clients, CONNECTIONS_MAX);
        report
    }

    /// Retires the processes of a script, which is named by its file or by its path in a URL, or those of an engine (`php`): idle ones end at once, busy
    /// ones after their exchange. Not to be called in an event loop, because it waits a few seconds for a file system that may not answer.
    ///
    /// # Errors
    /// It has no processes.
    pub fn retire(&self, script: &str) -> Result<Retired, OrderError> {
        let config = self.state.config.load();
        let by_name = self.state.resources.retire(&path_of(script));
        let (by_path, left) = foreign::here(Answers::default(), || found_script::retire(&config, script));
        let script_path = script.to_owned();
        let by_thread =
            left.map(|share| foreign::await_elsewhere(share, move || found_script::retire(&config, &script_path)));
        let by_thread = by_thread.transpose().map_err(|why| match why {
            NoAnswer::Silent => OrderError::Unanswered(script.to_owned()),
            NoAnswer::Panicked => OrderError::Panicked,
        });
        let known = by_path.and(by_name);
        let retired = match by_thread {
            // Those of the file have been retired, whatever its path says.
            Err(_) if known.idle + known.busy > 0 => known,
            by_thread => known.and(by_thread?.unwrap_or_default()),
        };
        if retired.idle + retired.busy > 0 {
            return Ok(retired);
        }
        let pools = self.state.resources.report().pools.into_iter();
        let with_processes = pools.filter(|pool| !pool.processes.is_empty());
        let known = with_processes.map(|pool| pool.script).collect();
        Err(OrderError::NoScript(script.to_owned(), known))
    }

    /// Ends a request in progress: its script process is stopped, and its client gets 503, or an aborted response if the head was sent.
    ///
    /// # Errors
    /// There is no such request.
    pub async fn end(&self, id: &str) -> Result<ActiveRequest, OrderError> {
        let wanted = id.to_owned();
        let ask = move |worker: &Context| worker.in_progress.end_exchange(&wanted);
        let mut answers = self.state.questions.ask(ask).await.into_iter().enumerate();
        let found = answers.find_map(|(worker, answer)| Some((worker, answer??)));
        let (worker, view) = found.ok_or_else(|| OrderError::NoRequest(id.to_owned()))?;
        Ok(request(&view, worker, Instant::now(), &self.masks()))
    }

    fn masks(&self) -> Masks {
        self.state.watches.masks()
    }

    fn scripts_of_processes(&self) -> HashMap<i32, String> {
        let mut scripts = HashMap::new();
        for pool in self.state.resources.report().pools {
            for process in pool.processes {
                let script = process.script.unwrap_or_else(|| pool.script.clone());
                scripts.extend(process.pid.map(|pid| (pid, script)));
            }
        }
        scripts
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Operator").finish_non_exhaustive()
    }
}

fn describe_request(process: &mut ProcessReport, by_id: &HashMap<&str, &ActiveRequest>) {
    let Some(of_process) = &mut process.request else { return };
    // Otherwise the exchange is over, and the script may finish.
    if let Some(request) = by_id.get(of_process.id.as_str()) {
        of_process.method.clone_from(&request.method);
        of_process.target = Some(request.target.clone());
        of_process.client = Some(request.client.clone());
        of_process.age_ms = Some(request.age_ms);
    }
}

fn request(view: &RequestView, worker: usize, now: Instant, masks: &Masks) -> ActiveRequest {
    let request = &view.request;
    let authority = request.uri.authority().map(|authority| authority.as_str().to_owned());
    let host = request.host.as_ref();
    let host = host.map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned());
    let protocol = match request.version {
        Version::HTTP_09 => "HTTP/0.9",
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2",
        _ => "HTTP/1.1",
    };
    let target = request.uri.path_and_query().map_or("*", |target| target.as_str());
    let age = now.saturating_duration_since(request.started);
    ActiveRequest {
        id: request.id.to_string(),
        state: state_of(view.stage),
        age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
        client: request.client.to_string(),
        user: view.user.as_deref().map(str::to_owned),
        method: request.method.to_string(),
        host: shortened(&authority.or(host).unwrap_or_default()).into_owned(),
        target: masks.text(&shortened(target)),
        protocol: format!("{protocol}{}", if request.is_https { ", https" } else { "" }),
        handler: view.handler.unwrap_or("-").to_owned(),
        received_bytes: view.received_bytes,
        sent_bytes: view.sent_bytes,
        pid: view.pid,
        script: None,
        worker,
    }
}

/// A text of a client that is not too long for a list of thousands.
fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let mut ends = (0..=TEXT_BYTES_MAX).rev();
    let end = ends.find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    Cow::Owned(format!("{}…", &text[..end]))
}

pub(crate) fn state_of(stage: Stage) -> State {
    match stage {
        Stage::Deciding | Stage::Checking | Stage::Responding => State::Deciding,
        Stage::Password | Stage::Delaying => State::Password,
        Stage::Agent => State::Agent,
        Stage::Throttle => State::Throttle,
        Stage::Preparing => State::Preparing,
        Stage::ReadingBody => State::Body,
        Stage::AwaitingProcess => State::Waiting,
        Stage::StartingProcess => State::Starting,
        Stage::Running | Stage::Replying => State::Script,
        Stage::Producing => State::Producing,
        Stage::Sending | Stage::Sent | Stage::Aborted | Stage::Ended => State::Sending,
    }
}

fn add(sums: &mut HashMap<String, usize>, counts: impl IntoIterator<Item = (impl ToString, usize)>) {
    for (name, count) in counts {
        *sums.entry(name.to_string()).or_default() += count;
    }
}

/// The largest counts, the largest first.
fn counts(sums: HashMap<String, usize>, most: usize) -> Vec<Count> {
    let mut counts: Vec<_> = sums.into_iter().map(|(name, count)| Count { name, count }).collect();
    counts.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.name.cmp(&other.name)));
    counts.truncate(most);
    counts
}

/// The message that a request was ended.
#[must_use]
pub fn ended_text(request: &ActiveRequest) -> String {
    let process = request.pid.map(|pid| format!("; script process {pid} is stopped"));
    format!(
        "request {} is ended: {} {} of {}{}",
        request.id,
        request.method,
        request.target,
        request.client,
        process.unwrap_or_default()
    )
}
