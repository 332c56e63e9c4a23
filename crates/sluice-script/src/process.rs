//! A script process: start it, watch it, stop it.
//!
//! Here: one task a process, on the worker that started it. It alone reads the process's errors, hears of its end, sends
//! signals, and reaps it. Everybody else holds a `Process` and gives it orders. Not here: what is said on the channels
//! (`relay`), and when a process is wanted (`pool`).
//!
//! ```text
//!            stop, or the time given by finish is over        kill grace is over
//!   living ───────────────────────────────────────▶ SIGTERM ───────────────────▶ SIGKILL
//!      └──────────────────────────── exits ───────────┴──────────────────────────────┴──▶ group killed, reaped, announced
//! ```
//! Signals go to the whole process group. What is left of the group when its leader ends is killed: a script leaves
//! nothing behind unless it takes a session of its own (setsid(2)), as daemons do.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use sluice_gateway::Sentinels;
use sluice_http::fault::{Activity, Fault, ServerFault};
use sluice_http::request_id::UniqueId;
use sluice_launch::{Exit, Program, Signal, Started};
use sluice_membuf::Segment;
use sluice_settings as settings;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::mailbox::Mailbox;
use crate::process_fault::{ProcessState, launch_fault};
use crate::pump::Input;
use crate::request_pipe::RequestPipe;
use crate::scripts::Scripts;
use crate::stderr::Errors;

/// A script process, as everybody but its watcher sees it.
pub(crate) struct Process {
    pub pid: i32,
    pub sentinels: Sentinels,
    /// SCRIPT_FILENAME, for messages.
    pub script: String,
    pub site: String,
    kill_grace: Duration,
    order: watch::Sender<Order>,
    state: Mutex<State>,
}

/// What a process was told.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Live,
    /// Its work is done; it may take until then to end by itself.
    FinishBy(Instant),
    /// End now.
    Stop,
}

#[derive(Default)]
struct State {
    exit: Option<Exit>,
    waiter: Option<Waker>,
    last_error: String,
    exchange: Option<UniqueId>,
    input: Option<Input>,
}

/// The server's ends of a process's descriptors.
pub(crate) struct Channels {
    /// The request body; none when stdin is a file or /dev/null.
    pub input: Option<Input>,
    pub mailbox: Mailbox,
    pub cgiplusin: RequestPipe,
    pub segment: Segment,
}

/// Starts a process and the task that watches it. `ended` is called there, after the process is reaped; where it is dropped
/// instead, there is no process (any more) that anybody has used.
///
/// Dropping the future at any point leaves no process behind.
pub(crate) async fn start(
    scripts: &Rc<Scripts>,
    spec: ProcessSpec,
    program: Program,
    segment: Segment,
    ended: impl FnOnce(Exit) + Send + 'static,
) -> Result<(Arc<Process>, Channels), Fault> {
    let kind = spec.mailbox;
    let (announce, started) = oneshot::channel();
    scripts.launcher().launch(program, move |result| {
        // Fails when nobody waits any more; then the process is ended by the drop.
        let _ = announce.send(result.map(|started| Unclaimed::new(started, ended)));
    });
    let (started, ended) = started
        .await
        .map_err(|_| ServerFault::LauncherEnded)?
        .map_err(|error| launch_fault(&spec.script, error))?
        .claim();
    let unusable = |error: io::Error| ServerFault::io(Activity::Channels(spec.script.as_str().into()), error);
    let (order, orders) = watch::channel(Order::Live);
    let process = Arc::new(Process {
        pid: started.pid,
        sentinels: spec.sentinels,
        script: spec.script.clone(),
        site: spec.site,
        kill_grace: spec.kill_grace,
        order,
        state: Mutex::default(),
    });
    // Without its watcher nobody would end it.
    let kill = |_: &io::Error| {
        let _ = sluice_launch::kill_group(started.pid, Signal::Kill);
    };
    let pidfd = awaitable(started.pidfd).inspect_err(kill).map_err(unusable)?;
    let errors = Errors::new(started.stderr, Arc::clone(&process))
        .inspect_err(kill)
        .map_err(unusable)?;
    tracing::debug!(pid = process.pid, script = process.script, "script process started");
    scripts.track(&process, watch(Arc::clone(&process), pidfd, errors, orders, ended));
    let channels = (|| {
        Ok(Channels {
            input: started.stdin.map(Input::new).transpose()?,
            mailbox: Mailbox::new(started.mailbox, kind, spec.record_bytes_max)?,
            cgiplusin: RequestPipe::new(started.cgiplusin),
            segment,
        })
    })();
    let channels = channels.inspect_err(|_| process.stop()).map_err(unusable)?;
    Ok((process, channels))
}

impl Channels {
    /// Moves to the event loop of the calling worker.
    pub(crate) fn rebind(self) -> io::Result<Channels> {
        Ok(Channels {
            input: self.input.map(Input::rebind).transpose()?,
            mailbox: self.mailbox.rebind()?,
            cgiplusin: self.cgiplusin.rebind()?,
            segment: self.segment,
        })
    }
}

/// What the server must know of a process before it exists.
pub(crate) struct ProcessSpec {
    pub sentinels: Sentinels,
    pub script: String,
    pub site: String,
    pub mailbox: settings::Mailbox,
    pub record_bytes_max: usize,
    pub kill_grace: Duration,
}

impl Process {
    /// RequestPipe the end: SIGTERM now, SIGKILL after the grace.
    pub(crate) fn stop(&self) {
        self.order.send_replace(Order::Stop);
    }

    /// The same, and keeps its standard input open until it has ended.
    pub(crate) fn stop_holding(&self, input: Option<Input>) {
        let mut state = self.lock();
        if state.exit.is_none() {
            state.input = input;
        }
        drop(state);
        self.stop();
    }

    /// Its work is done; it has so long to end by itself before it is stopped.
    pub(crate) fn finish(&self, within: Duration) {
        let by = Instant::now() + within;
        self.order.send_if_modified(|order| {
            let is_new = *order == Order::Live;
            if is_new {
                *order = Order::FinishBy(by);
            }
            is_new
        });
    }

    /// Whose work it does now; its error lines carry this id.
    pub(crate) fn begin_exchange(&self, id: UniqueId) {
        self.lock().exchange = Some(id);
    }

    /// Its work for that exchange is over.
    pub(crate) fn end_exchange(&self) {
        let mut state = self.lock();
        state.exchange = None;
        state.waiter = None;
    }

    pub(crate) fn exchange(&self) -> Option<UniqueId> {
        self.lock().exchange
    }

    /// How it ended, if it has.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.lock().exit
    }

    /// How it ended, once it has and its last error lines have been read. One waiter at a time: whoever holds its channels.
    pub(crate) fn poll_exit(&self, context: &mut Context<'_>) -> Poll<Exit> {
        let mut state = self.lock();
        if let Some(exit) = state.exit {
            return Poll::Ready(exit);
        }
        if !state
            .waiter
            .as_ref()
            .is_some_and(|waker| waker.will_wake(context.waker()))
        {
            state.waiter = Some(context.waker().clone());
        }
        Poll::Pending
    }

    pub(crate) fn note_error(&self, line: &str) {
        self.lock().last_error = line.to_owned();
    }

    /// What is known of it now, for the log line of a failed exchange.
    pub(crate) fn describe(&self) -> ProcessState {
        let state = self.lock();
        ProcessState {
            script: self.script.as_str().into(),
            pid: self.pid,
            exit: state.exit,
            last_error: state.last_error.as_str().into(),
        }
    }

    fn announce(&self, exit: Exit) {
        let mut state = self.lock();
        state.exit = Some(exit);
        state.input = None;
        if let Some(waiter) = state.waiter.take() {
            waiter.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pidfd in the worker's event loop.
#[expect(
    deprecated,
    reason = "its replacement is unsafe because a type may give away its descriptor; OwnedFd cannot"
)]
fn awaitable(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(pidfd, Interest::READABLE)
}

/// The watcher: see the drawing above.
async fn watch(
    process: Arc<Process>,
    pidfd: AsyncFd<OwnedFd>,
    mut errors: Errors,
    mut orders: watch::Receiver<Order>,
    ended: impl FnOnce(Exit),
) {
    let mut next = Escalation::None;
    loop {
        tokio::select! {
            biased;
            _ = pidfd.readable() => break,
            Ok(()) = orders.changed() => next = match *orders.borrow_and_update() {
                Order::Live => next,
                Order::FinishBy(time) => next.or_term(time),
                Order::Stop => terminate(&process, next),
            },
            () = next.due() => next = match next {
                Escalation::Term(_) => terminate(&process, next),
                Escalation::Kill(_) | Escalation::None => {
                    let _ = sluice_launch::kill_group(process.pid, Signal::Kill);
                    Escalation::None
                }
            },
            () = errors.read() => {}
        }
    }
    // While the leader is not reaped its number cannot be given to another group: kill what is left of it first.
    let _ = sluice_launch::kill_group(process.pid, Signal::Kill);
    let exit = match sluice_launch::reap(pidfd.as_fd()) {
        Ok(Some(exit)) => exit,
        other => {
            tracing::error!(pid = process.pid, "script process cannot be reaped: {other:?}");
            Exit::Code(255)
        }
    };
    errors.finish();
    tracing::debug!(
        pid = process.pid,
        script = process.script,
        "script process ended: {exit}"
    );
    process.announce(exit);
    ended(exit);
}

/// The next signal, and when.
#[derive(Clone, Copy)]
enum Escalation {
    None,
    Term(Instant),
    Kill(Instant),
}

impl Escalation {
    async fn due(&self) {
        match self {
            Escalation::None => std::future::pending().await,
            Escalation::Term(time) | Escalation::Kill(time) => tokio::time::sleep_until(*time).await,
        }
    }

    fn or_term(self, time: Instant) -> Escalation {
        match self {
            Escalation::None => Escalation::Term(time),
            other => other,
        }
    }
}

fn terminate(process: &Process, now: Escalation) -> Escalation {
    if let Escalation::Kill(_) = now {
        return now;
    }
    let _ = sluice_launch::kill_group(process.pid, Signal::Terminate);
    Escalation::Kill(Instant::now() + process.kill_grace)
}

/// A process that was started and that nobody has taken yet; dropped, it is killed and reaped, and only then is `ended`
/// dropped: until then it is there.
struct Unclaimed<E: Send + 'static>(Option<(Started, E)>);

impl<E: Send + 'static> Unclaimed<E> {
    fn new(started: Started, ended: E) -> Unclaimed<E> {
        Unclaimed(Some((started, ended)))
    }

    fn claim(mut self) -> (Started, E) {
        self.0.take().expect("claimed once, by value")
    }
}

impl<E: Send + 'static> Drop for Unclaimed<E> {
    fn drop(&mut self) {
        if let Some((started, ended)) = self.0.take() {
            let _ = sluice_launch::kill_group(started.pid, Signal::Kill);
            // SIGKILL takes effect at once, but for a process that waits for a disk: not for the event loop to wait for.
            let _ = std::thread::Builder::new().name("reaper".into()).spawn(move || {
                let mut endpoints = [PollFd::new(&started.pidfd, PollFlags::IN)];
                let _ = poll(&mut endpoints, None);
                let _ = sluice_launch::reap(started.pidfd.as_fd());
                drop(ended);
            });
        }
    }
}
