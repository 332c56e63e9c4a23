//! A run: the first reply of each path, then the requests of all connections until their number or time is reached.
//!
//! ```text
//! main thread: first replies ─▶ starts the threads ─▶ waits for their end or for Ctrl-C ─▶ adds up the tallies
//! thread 1 … n: an event loop; for each connection a task:
//!               next request ─▶ open if needed ─▶ send ─▶ read and compare ─▶ count ─▶ next request
//! ```
//! Requests under way when the time is over are finished; on Ctrl-C they are abandoned and not counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use sluice_settings::notation;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::client::{Address, Connection, Endpoint, Failure, Protocol};
use super::plan::Plan;
use super::reference::{Check, Reference};
use super::tally::Tally;

/// Failures to connect in a row after which a connection is given up. The waits double from `FIRST_WAIT`, so a server has two seconds to restart.
const CONNECT_FAILURES_MAX: u32 = 12;

const FIRST_WAIT: Duration = Duration::from_millis(1);

pub(crate) struct Measured {
    pub(super) plan: Plan,
    pub(super) address: Address,
    pub(super) references: Vec<Reference>,
    pub(super) tally: Tally,
    /// From the first request after the first replies to the last reply.
    pub(super) elapsed: Duration,
    /// Ended by Ctrl-C or SIGTERM.
    pub(crate) is_interrupted: bool,
}

impl Measured {
    /// Whether something was measured, and every reply was complete and the same as the first one.
    pub(crate) fn is_clean(&self) -> bool {
        let tally = &self.tally;
        tally.latencies.count() > 0 && tally.differences.total() + tally.failures.total() + tally.given_up == 0
    }

    /// Complete replies in a second.
    pub(crate) fn rate(&self) -> f64 {
        // 2^53 replies would take centuries.
        #[allow(clippy::cast_precision_loss)]
        let replies = self.tally.latencies.count() as f64;
        replies / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

struct Shared {
    plan: Plan,
    endpoint: Endpoint,
    references: Vec<Reference>,
    next: AtomicU64,
    begin: Instant,
}

impl Shared {
    /// The number of the next request, or `None` if there have been enough.
    fn next(&self) -> Option<u64> {
        // Relaxed: only the number matters, nothing else is published with it.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let options = &self.plan.options;
        let is_over = match options.duration {
            None => number >= options.requests,
            // At least one for each connection, however slowly the threads have started.
            Some(time) => number >= options.connections as u64 && self.begin.elapsed() >= time,
        };
        (!is_over).then_some(number)
    }
}

/// Runs a plan.
///
/// # Errors
/// One line: the server cannot be reached, or the first request of a path failed.
pub(crate) fn measure(plan: Plan) -> Result<Measured, String> {
    runtime()?.block_on(async {
        let mut signals = Signals::listen()?;
        let (endpoint, references) = tokio::select! {
            prepared = prepare(&plan) => prepared?,
            () = signals.next() => return Err("interrupted before the first replies had arrived".to_owned()),
        };
        let shared = Arc::new(Shared {
            plan,
            endpoint,
            references,
            next: AtomicU64::new(0),
            begin: Instant::now(),
        });
        run(shared, &mut signals).await
    })
}

fn runtime() -> Result<Runtime, String> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("event loop: {error}"))
}

struct Signals([Signal; 2]);

impl Signals {
    fn listen() -> Result<Signals, String> {
        let listen = |kind| signal(kind).map_err(|error| format!("signals: {error}"));
        Ok(Signals([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
        ]))
    }

    async fn next(&mut self) {
        let [interrupt, terminate] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

/// Finds the server, and gets the first reply for each path.
async fn prepare(plan: &Plan) -> Result<(Endpoint, Vec<Reference>), String> {
    let (endpoint, connection) = connect(plan).await?;
    let mut connection = Some(connection);
    let mut references = Vec::new();
    for (index, path) in plan.target.paths.iter().enumerate() {
        let url = format!("{}{path}", plan.target);
        let first = first_reply(plan, &endpoint, &mut connection, index);
        let reference = within(plan.options.timeout, first)
            .await
            .map_err(|failure| format!("{url}: {failure}{}", hint(plan, &failure)))?;
        if reference.status.as_u16() >= 400 && !plan.options.any_status {
            return Err(format!(
                "{url}: the server answers {}: \"{}\"; --any-status measures this page",
                reference.status,
                reference.beginning()
            ));
        }
        references.push(reference);
    }
    Ok((endpoint, references))
}

/// Waits for a reply for this long.
async fn within<T>(limit: Duration, reply: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let reply = tokio::time::timeout(limit, reply).await;
    reply.unwrap_or(Err(Failure::TimedOut(limit)))
}

/// A possible cause or remedy of a first reply that has failed; empty if none is known.
fn hint(plan: &Plan, failure: &Failure) -> &'static str {
    let is_in_clear = plan.tls.is_none() && plan.protocol == Protocol::Http2;
    match failure {
        Failure::Malformed(_) | Failure::NoReply if is_in_clear => ": it may not expect HTTP/2 in clear text",
        Failure::TimedOut(_) => "; --timeout allows more",
        _ => "",
    }
}

/// Opens the first connection, to the first address of the host that answers.
async fn connect(plan: &Plan) -> Result<(Endpoint, Connection), String> {
    let target = &plan.target;
    let addresses: Vec<Address> = match &plan.options.unix {
        Some(path) => vec![Address::Unix(path.clone())],
        None => tokio::net::lookup_host((target.host.as_str(), target.port))
            .await
            .map_err(|error| format!("{target}: {} has no address: {}", target.host, notation::reason(&error)))?
            .map(Address::Tcp)
            .collect(),
    };
    let mut last = format!("{target}: {} has no address", target.host);
    for address in addresses {
        let endpoint = Endpoint {
            address,
            tls: plan.tls.clone(),
            protocol: plan.protocol,
        };
        match within(plan.options.timeout, endpoint.open()).await {
            Ok(connection) => return Ok((endpoint, connection)),
            Err(Failure::Connect(reason)) => {
                last = format!(
                    "{target}: cannot connect to {}: {reason}: is the server running, and at this address?",
                    endpoint.address
                );
            }
            Err(Failure::TimedOut(_)) => last = format!("{target}: {} does not answer", endpoint.address),
            Err(failure) => return Err(format!("{target}: {failure}")),
        }
    }
    Err(last)
}

async fn first_reply(
    plan: &Plan,
    endpoint: &Endpoint,
    connection: &mut Option<Connection>,
    path: usize,
) -> Result<Reference, Failure> {
    let is_ready = match connection {
        Some(connection) => connection.is_ready().await,
        None => false,
    };
    if !is_ready {
        *connection = Some(endpoint.open().await?);
    }
    let connection = connection.as_mut().expect("it has just been opened");
    let response = connection.send(plan.requests[path].clone()).await?;
    let mut reference = Reference::new(response.status(), plan.target.paths.len());
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::of_body(&error))?;
        if let Some(chunk) = frame.data_ref() {
            reference.push(chunk);
        }
    }
    Ok(reference)
}

async fn run(shared: Arc<Shared>, signals: &mut Signals) -> Result<Measured, String> {
    let (plan, options) = (&shared.plan, &shared.plan.options);
    let (stop, stopped) = watch::channel(false);
    let (done, mut ended) = mpsc::channel(options.threads);
    for index in 0..options.threads {
        let connections = (options.connections + index) / options.threads;
        let (shared, done, stopped) = (Arc::clone(&shared), done.clone(), stopped.clone());
        std::thread::Builder::new()
            .name(format!("workout-{index}"))
            .spawn(move || {
                // The receiver waits until every sender is gone.
                let _ = done.blocking_send(run_thread(&shared, connections, stopped));
            })
            .map_err(|error| format!("threads: {error}"))?;
    }
    drop(done);
    let mut tally = Tally::new(plan.target.paths.len());
    let mut is_interrupted = false;
    loop {
        tokio::select! {
            of_thread = ended.recv() => match of_thread {
                None => break,
                Some(of_thread) => tally.add(&of_thread?),
            },
            () = signals.next() => {
                is_interrupted = true;
                stop.send_replace(true);
            }
        }
    }
    Ok(Measured {
        plan: plan.clone(),
        address: shared.endpoint.address.clone(),
        references: shared.references.clone(),
        elapsed: tally.end.map_or(Duration::ZERO, |end| end - shared.begin),
        tally,
        is_interrupted,
    })
}

/// Runs some of the connections in an event loop of this thread.
fn run_thread(shared: &Arc<Shared>, connections: usize, mut stopped: watch::Receiver<bool>) -> Result<Tally, String> {
    let tally = Arc::new(Mutex::new(Tally::new(shared.plan.target.paths.len())));
    runtime()?.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..connections {
            let task = Task {
                shared: Arc::clone(shared),
                tally: Arc::clone(&tally),
                connection: None,
            };
            tasks.spawn(task.run());
        }
        tokio::select! {
            () = async { while tasks.join_next().await.is_some() {} } => {}
            _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
        }
    });
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner).clone();
    tally.end = Some(Instant::now());
    tally.processor.extend(processor_time());
    Ok(tally)
}

/// The processor time of this thread (sched(7): the first number of `schedstat` is nanoseconds on a processor).
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// A connection and its requests, one after the other.
struct Task {
    shared: Arc<Shared>,
    tally: Arc<Mutex<Tally>>,
    connection: Option<Connection>,
}

enum Outcome {
    /// The reply is complete; how it differs from the first one.
    Complete {
        difference: Option<String>,
        bytes: u64,
    },
    Broken {
        bytes: u64,
    },
}

impl Task {
    async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut connect_failures = 0;
        while let Some(number) = shared.next() {
            // At most `PATHS_MAX` paths, so the remainder is a small number.
            let path = usize::try_from(number % shared.plan.target.paths.len() as u64).unwrap_or_default();
            let begin = Instant::now();
            let exchange = self.exchange(&shared, number, path);
            let outcome = within(shared.plan.options.timeout, exchange).await;
            connect_failures = match outcome {
                Err(Failure::Connect(_)) => connect_failures + 1,
                _ => 0,
            };
            self.count(path, begin.elapsed(), outcome);
            if connect_failures >= CONNECT_FAILURES_MAX {
                self.with_tally(|tally| tally.given_up += 1);
                return;
            }
            if connect_failures > 0 {
                tokio::time::sleep(FIRST_WAIT * (1 << (connect_failures - 1))).await;
            }
        }
    }

    fn count(&mut self, path: usize, latency: Duration, outcome: Result<Outcome, Failure>) {
        if outcome.is_err() {
            self.connection = None;
        }
        let shown = |text: String| format!("{}: {text}", self.shared.plan.target.paths[path]);
        self.with_tally(|tally| match outcome {
            Ok(Outcome::Complete { difference, bytes }) => {
                tally.reply(path, latency);
                tally.bytes += bytes;
                if let Some(difference) = difference {
                    tally.differences.count(shown(difference));
                }
            }
            Ok(Outcome::Broken { bytes }) => {
                tally.broken += 1;
                tally.bytes += bytes;
            }
            Err(failure) => tally.failures.count(shown(failure.to_string())),
        });
    }

    fn with_tally(&self, change: impl FnOnce(&mut Tally)) {
        change(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Sends a request and reads its reply. A connection that the server has closed between two requests is opened again.
    async fn exchange(&mut self, shared: &Shared, number: u64, path: usize) -> Result<Outcome, Failure> {
        let mut is_kept = false;
        if let Some(connection) = &mut self.connection {
            is_kept = connection.is_ready().await;
        }
        if !is_kept {
            self.open(shared).await?;
        }
        let connection = self.connection.as_mut().ok_or(Failure::NotSent)?;
        let request = &shared.plan.requests[path];
        let response = match connection.send(request.clone()).await {
            // The server closed it at that moment: the request has not left.
            Err(Failure::NotSent) if is_kept => {
                self.open(shared).await?;
                let connection = self.connection.as_mut().ok_or(Failure::NotSent)?;
                connection.send(request.clone()).await?
            }
            sent => sent?,
        };
        let outcome = read(shared, number, path, response).await?;
        if shared.plan.options.no_keep_alive || matches!(outcome, Outcome::Broken { .. }) {
            self.connection = None;
        }
        Ok(outcome)
    }

    async fn open(&mut self, shared: &Shared) -> Result<(), Failure> {
        // Dropped first: the server may allow only so many connections of one client.
        self.connection = None;
        self.connection = Some(shared.endpoint.open().await?);
        self.with_tally(|tally| tally.opened += 1);
        Ok(())
    }
}

/// Reads a reply and compares it with the first one.
async fn read(
    shared: &Shared,
    number: u64,
    path: usize,
    response: http::Response<hyper::body::Incoming>,
) -> Result<Outcome, Failure> {
    let options = &shared.plan.options;
    let is_broken = options
        .break_every
        .is_some_and(|every| (number + 1).is_multiple_of(every));
    let status = response.status();
    let mut check = Check::new(&shared.references[path], options.compare);
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::of_body(&error))?;
        if let Some(chunk) = frame.data_ref() {
            check.push(chunk);
        }
        if is_broken {
            break;
        }
    }
    let bytes = check.bytes();
    Ok(match is_broken {
        true => Outcome::Broken { bytes },
        false => Outcome::Complete { difference: check.finish(status), bytes },
    })
}
