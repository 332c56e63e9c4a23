//! A script process: its start, its watcher, its end.
//!
//! Here: one task for each process, on the worker that started it. That watcher alone reads the process's standard error, waits
//! for its end, sends signals, and reaps it. Everybody else holds a `Process` and sends commands to the watcher. Not here: what
//! the channels carry (`relay`), and when a process is needed (`pool`).
//!
//! ```text
//!            stop, or the time of finish is over              kill grace is over
//!   running ──────────────────────────────────────▶ SIGTERM ───────────────────▶ SIGKILL
//!      └──────────────────────────── exits ───────────┴──────────────────────────────┴──▶ group killed, reaped, announced
//! ```
//! Signals go to the whole process group. Processes of the group that are left when its leader ends are killed: a script leaves
//! none behind unless it creates a session of its own (setsid(2)), as daemons do.

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
use crate::stderr::StderrReader;

/// A script process, as all but its watcher see it.
pub(crate) struct Process {
    pub pid: i32,
    pub sentinels: Sentinels,
    /// SCRIPT_FILENAME, for messages.
    pub script: String,
    pub site: String,
    kill_grace: Duration,
    commands: watch::Sender<Command>,
    state: Mutex<State>,
}

/// A command to the watcher.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Command {
    /// Let the process run.
    Run,
    /// Its work is done: stop it if it has not ended by itself by then.
    FinishBy(Instant),
    /// Stop it now.
    Stop,
}

#[derive(Default)]
struct State {
    /// Set once it is reaped.
    exit: Option<Exit>,
    waiter: Option<Waker>,
    last_error: String,
    /// The exchange that it works for.
    exchange: Option<UniqueId>,
    /// Held open until its end.
    input: Option<Input>,
}

/// The server's ends of a process's descriptors.
pub(crate) struct Channels {
    /// For the request body. `None` if standard input is a file or /dev/null.
    pub input: Option<Input>,
    pub mailbox: Mailbox,
    pub cgiplusin: RequestPipe,
    pub segment: Segment,
}

/// Starts a process and its watcher. The watcher calls `ended` after it has reaped the process; if no process was started, or
/// it ended unused, `ended` is dropped instead.
///
/// Dropping the future at any point leaves no process behind. The fault is the script's (it cannot be executed) or the
/// server's.
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
        // Fails if the request has gone; then the drop of the result ends the process.
        let _ = announce.send(result.map(|started| Unclaimed::new(started, ended)));
    });
    let (started, ended) = started
        .await
        .map_err(|_| ServerFault::LauncherEnded)?
        .map_err(|error| launch_fault(&spec.script, error))?
        .claim();
    let unusable = |error: io::Error| ServerFault::io(Activity::Channels(spec.script.as_str().into()), error);
    let (commands, received) = watch::channel(Command::Run);
    let process = Arc::new(Process {
        pid: started.pid,
        sentinels: spec.sentinels,
        script: spec.script.clone(),
        site: spec.site,
        kill_grace: spec.kill_grace,
        commands,
        state: Mutex::default(),
    });
    // Nobody ends a process without a watcher.
    let kill = |_: &io::Error| {
        let _ = sluice_launch::kill_group(started.pid, Signal::Kill);
    };
    let pidfd = awaitable(started.pidfd).inspect_err(kill).map_err(unusable)?;
    let errors = StderrReader::new(started.stderr, Arc::clone(&process))
        .inspect_err(kill)
        .map_err(unusable)?;
    tracing::debug!(pid = process.pid, script = process.script, "script process started");
    scripts.track(&process, watch(Arc::clone(&process), pidfd, errors, received, ended));
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
    /// Moves the channels to the event loop of the calling worker.
    pub(crate) fn rebind(self) -> io::Result<Channels> {
        Ok(Channels {
            input: self.input.map(Input::rebind).transpose()?,
            mailbox: self.mailbox.rebind()?,
            cgiplusin: self.cgiplusin.rebind()?,
            segment: self.segment,
        })
    }
}

/// The properties of a process that do not come from its start.
pub(crate) struct ProcessSpec {
    pub sentinels: Sentinels,
    pub script: String,
    pub site: String,
    pub mailbox: settings::Mailbox,
    pub record_bytes_max: usize,
    pub kill_grace: Duration,
}

impl Process {
    /// Stops it: SIGTERM now, SIGKILL after the grace.
    pub(crate) fn stop(&self) {
        self.commands.send_replace(Command::Stop);
    }

    /// Stops it, and keeps its standard input open until it has ended.
    pub(crate) fn stop_holding(&self, input: Option<Input>) {
        let mut state = self.lock();
        if state.exit.is_none() {
            state.input = input;
        }
        drop(state);
        self.stop();
    }

    /// Its work is done: it is stopped unless it ends by itself in this time.
    pub(crate) fn finish(&self, within: Duration) {
        let by = Instant::now() + within;
        self.commands.send_if_modified(|command| {
            let is_new = *command == Command::Run;
            if is_new {
                *command = Command::FinishBy(by);
            }
            is_new
        });
    }

    /// It works for this exchange now; its error lines are logged with the id.
    pub(crate) fn begin_exchange(&self, id: UniqueId) {
        self.lock().exchange = Some(id);
    }

    /// Its work for the exchange is over.
    pub(crate) fn end_exchange(&self) {
        let mut state = self.lock();
        state.exchange = None;
        state.waiter = None;
    }

    /// The exchange that it works for, if any.
    pub(crate) fn exchange(&self) -> Option<UniqueId> {
        self.lock().exchange
    }

    /// Its exit status, once it is reaped.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.lock().exit
    }

    /// Waits for its exit status; its last error lines have been read then. One waiter at a time: the holder of its channels.
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

    /// Remembers its last error line, for `describe`.
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

/// The watcher: the drawing above.
async fn watch(
    process: Arc<Process>,
    pidfd: AsyncFd<OwnedFd>,
    mut errors: StderrReader,
    mut commands: watch::Receiver<Command>,
    ended: impl FnOnce(Exit),
) {
    let mut next = Escalation::None;
    loop {
        tokio::select! {
            biased;
            _ = pidfd.readable() => break,
            Ok(()) = commands.changed() => next = match *commands.borrow_and_update() {
                Command::Run => next,
                Command::FinishBy(time) => next.or_term(time),
                Command::Stop => terminate(&process, next),
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
    // Kill the rest of the group first: until the leader is reaped, its number cannot become that of another group.
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

/// A process that was started and that nobody has taken yet. Its drop kills and reaps it, and drops `ended` only then, because
/// the process counts until its end.
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
            // SIGKILL takes effect at once, except for a process that waits for a disk: the event loop must not wait for that.
            let _ = std::thread::Builder::new().name("reaper".into()).spawn(move || {
                let mut descriptors = [PollFd::new(&started.pidfd, PollFlags::IN)];
                let _ = poll(&mut descriptors, None);
                let _ = sluice_launch::reap(started.pidfd.as_fd());
                drop(ended);
            });
        }
    }
}
