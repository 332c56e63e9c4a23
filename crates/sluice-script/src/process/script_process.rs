//! A script process: its start, its reaper, its end.
//!
//! Here: one task for each process, on the worker that started it. That reaper alone reads the process's standard error, waits for its end,
//! sends signals, and reaps it. Everybody else holds a `Process` and sends commands to the reaper.
//!
//! ```text
//!            stop, or the time of finish is over              kill grace is over
//!   running ──────────────────────────────────────▶ SIGTERM ───────────────────▶ SIGKILL
//!      └──────────────────────────── exits ───────────┴──────────────────────────────┴──▶ session ended, reaped, announced
//! ```
//! Signals go to the whole process group. All that a process has started is killed when it ends, also daemons: it is in its cgroup,
//! or else in its session, or known by its environment (`sluice_launch`).
//!
//! A process that even SIGKILL does not end (it waits for a disk, or runs as another user) is awaited further, but gives up its place in the pool.

mod reaper;
mod view;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluice_gateway::Sentinels;
use sluice_http::fault::{Activity, Fault, ServerFault};
use sluice_http::request_id::UniqueId;
use sluice_launch::{End, Exit, LookupShare, Probe, Program, Usage, look_elsewhere};
use sluice_membuf::Segment;
use sluice_settings as settings;
use sluice_settings::ScriptLimits;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::process::{
    Blocked, BufferMemory, EndCause, EndedProcess, Input, Mailbox, PipeEnd, PipeOwner, PipeWriter, ProcessState,
    Processes, Reason, RequestChannel, RequestPipe, RequestSocket, ScriptEvents, ScriptLog, Side, StartNote, Unclaimed,
    end_text, launch_fault, limit_reached, linker_advice_at_end, shebang, time_text, user_of,
};
use reaper::{Reaper, UnreadErrors, reap};
pub(crate) use view::{LineSource, ProcessView};

/// Lines of standard error that are kept for log and error page.
const ERROR_LINES_MAX: usize = 10;

/// Lines of standard error that wait to be noted for WATCH; further ones are not.
const WATCHED_LINES_MAX: usize = 100;

/// Characters that are kept of each of these lines.
const ERROR_LINE_CHARACTERS_MAX: usize = 500;

/// A script process, as all but its reaper see it.
pub(crate) struct Process {
    pub pid: i32,
    pub user: u32,
    pub probe: Probe,
    pub spec: ProcessSpec,
    started: Instant,
    commands: watch::Sender<Command>,
    /// The standard error, which the reaper reads.
    pub errors: UnreadErrors,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Command {
    Run,
    /// Stop the process if it has not ended by itself by then: its work is done.
    FinishBy(Instant),
    Stop,
}

#[derive(Default)]
struct State {
    exit: Option<Exit>,
    /// The resources that it has used; set with `exit`.
    usage: Usage,
    /// The limit that has ended it, if one has; set with `exit`.
    limit: Option<Box<str>>,
    waiter: Option<Waker>,
    /// How often its standard error was read to the end on request.
    errors_read: u64,
    /// The last lines of its standard error since the exchange began.
    error_lines: VecDeque<Box<str>>,
    /// Lines that are not noted yet. `None` if nobody watches the exchange.
    watched_lines: Option<Vec<Box<str>>>,
    exchange: Option<UniqueId>,
    /// The script that an engine runs in it.
    script: Option<Box<str>>,
    /// The last exchange and its script, for lines of standard error that are read when it is over.
    ended: Option<(UniqueId, Option<Box<str>>)>,
    is_ended_by_server: bool,
    /// Why it ends, once that is known.
    end_cause: Option<EndCause>,
    uses: u64,
    /// The script may finish, but nobody waits for its reply.
    is_draining: bool,
    /// A line of the log has its exit status.
    is_exit_described: bool,
    /// Held open until its end.
    input: Option<Input>,
}

/// The server's ends of a process's descriptors.
pub(crate) struct Channels {
    /// The pipe for the request body. `None` if standard input is a file or /dev/null.
    pub input: Option<Input>,
    pub mailbox: Mailbox,
    pub cgiplusin: RequestChannel,
    /// `None` if the route allows no memory buffer, and while a thread prepares one.
    pub segment: Option<BufferMemory>,
}

/// Starts a process and its reaper, which calls `ended` after it has reaped the process; `ended` is dropped if no process was started, or it ended
/// unused. Dropping the future at any point leaves no process behind. The fault is the script's (it cannot be executed) or the server's.
pub(crate) async fn start(
    processes: &Rc<Processes>,
    spec: ProcessSpec,
    program: Program,
    segment: Option<Segment>,
    events: &ScriptEvents,
    ended: impl FnOnce(EndedProcess) + Send + 'static,
) -> Result<(Arc<Process>, Box<Channels>), Fault> {
    let note = StartNote::begin(events, &program);
    let mark = spec.sentinels.end().to_owned();
    let (announce, started) = oneshot::channel();
    let (run_as, pipes) = (program.run_as.clone(), processes.pipes.clone());
    if pipes.refuses(&run_as) {
        return Err(ServerFault::PipesLocked.into());
    }
    let buffers = &processes.buffers;
    if buffers.refuses(&run_as) {
        return Err(ServerFault::BuffersLocked.into());
    }
    let threads = pipes.clone();
    processes.launcher.launch(program, &mark, move |result| {
        // Fails if the request has gone; then the drop of the result ends the process.
        let _ = announce.send(result.map(|started| (Unclaimed::new(started, ended, threads), note.end())));
    });
    let (unclaimed, note) = match started.await.map_err(|_| ServerFault::LauncherEnded)? {
        Ok(started) => started,
        Err(error) => {
            let problem = match &spec.interpreter {
                Some(interpreter) if error.is_script_fault() && is_missing(interpreter).await => {
                    return Err(ServerFault::Missing(interpreter.as_path().into()).into());
                }
                None if error.is_script_fault() => shebang::diagnose(spec.program.as_str().into()).await,
                _ => None,
            };
            let fault = launch_fault(&spec.program, &error, problem.as_ref());
            events.process(|| format!("not started: {fault}"));
            return Err(fault);
        }
    };
    let (started, ended) = unclaimed.claim();
    let (commands, received) = watch::channel(Command::Run);
    let user = user_of(&started.stderr);
    pipes.note_user(&run_as, user);
    buffers.note_user(&run_as, user);
    let process = Arc::new(Process::new(started.process.probe(), user, spec, commands));
    events.process(|| format!("pid {} started {note}", process.pid));
    let unusable = |error: io::Error| ServerFault::io(Activity::Channels(process.spec.program.as_str().into()), error);
    let weak = Arc::downgrade(&process);
    let end = move |blocked, waited| end_locking(&weak, blocked, waited);
    let owner = PipeOwner::new(run_as, user, end);
    let reading = |fd, channel| PipeEnd::new(fd, Side::Reading, channel, &owner, &pipes);
    let writer = |write, read, channel| {
        let write = PipeEnd::new(write, Side::Writing, channel, &owner, &pipes);
        PipeWriter::new(write, reading(read, channel))
    };
    let (cgiplusin_read, stdin_read) = started.read_ends;
    let cgiplusin = writer(started.cgiplusin, cgiplusin_read, "CGIPLUSIN");
    let requests = started.requests;
    let requests = requests.map(|(own, script)| RequestSocket::new(own, reading(script, "socket of requests")));
    let input = started.stdin.zip(stdin_read);
    let input = input.map(|(write, read)| writer(write, read, "standard input"));
    let stderr = reading(started.stderr, "standard error");
    let reaper = Reaper::register(started.process, stderr, &process, ended);
    let reaper = reaper.map_err(unusable)?;
    processes.track(&process, reap(Arc::clone(&process), reaper, received));
    let mailbox = match process.spec.mailbox {
        settings::Mailbox::Pipe => Mailbox::of_pipe(reading(started.mailbox, "standard output")),
        kind => Mailbox::new(started.mailbox, kind, process.spec.record_bytes_max, user),
    };
    let mailbox = mailbox.inspect_err(|_| process.stop(EndCause::Unusable));
    let channels = Box::new(Channels {
        input: input.map(Input::new),
        mailbox: mailbox.map_err(unusable)?,
        cgiplusin: RequestChannel::new(RequestPipe::new(cgiplusin), requests),
        segment: segment.map(|segment| BufferMemory::new(segment, &owner, buffers)),
    });
    Ok((process, channels))
}

/// Ends a process that keeps one of its pipes, or its memory buffer, locked. If it has ended already, another process has the lock.
fn end_locking(process: &Weak<Process>, blocked: Blocked, waited: Duration) {
    let Some(process) = process.upgrade() else { return };
    let Blocked { verb, channel, why, .. } = blocked;
    let (Process { spec, pid, .. }, script, seconds) = (&*process, process.script(), waited.as_secs());
    tracing::warn!(
        target: "script",
        site = spec.site,
        script = &*script,
        pid,
        "the server cannot {verb} its {channel} for more than {seconds} s, because {why}; it is stopped"
    );
    process.stop(blocked.cause);
}

impl Channels {
    /// Moves the channels to the event loop of the calling worker.
    pub(crate) fn rebind(&mut self) -> io::Result<()> {
        if let Some(input) = &mut self.input {
            input.pipe.rebind();
        }
        self.cgiplusin.rebind();
        self.mailbox.rebind()
    }
}

/// The properties of a process that do not come from its start.
pub(crate) struct ProcessSpec {
    pub sentinels: Sentinels,
    /// The file that is started, for messages: the script, or the engine that runs it.
    pub program: String,
    /// The program that runs the script, if its route names one: the `#!` line of the script has no meaning then.
    pub interpreter: Option<PathBuf>,
    pub site: String,
    /// The bound on its log lines.
    pub log: Arc<ScriptLog>,
    pub mailbox: settings::Mailbox,
    /// Bytes in the largest record.
    pub record_bytes_max: usize,
    pub kill_grace: Duration,
    /// Limits on what the process may use and reach; `None`: the same as the server.
    pub confinement: Option<Arc<ScriptLimits>>,
}

impl Process {
    fn new(probe: Probe, user: u32, spec: ProcessSpec, commands: watch::Sender<Command>) -> Process {
        Process {
            pid: probe.pid(),
            user,
            probe,
            spec,
            started: Instant::now(),
            commands,
            errors: UnreadErrors::new(),
            state: Mutex::default(),
        }
    }

    /// Stops it: SIGTERM now, SIGKILL after the grace.
    pub(crate) fn stop(&self, cause: EndCause) {
        let mut state = self.lock();
        state.is_ended_by_server = true;
        state.end_cause.get_or_insert(cause);
        drop(state);
        self.commands.send_replace(Command::Stop);
    }

    /// Stops it, and keeps its standard input open until it has ended.
    pub(crate) fn stop_holding(&self, input: Option<Input>, cause: EndCause) {
        let mut state = self.lock();
        if state.exit.is_none() {
            state.input = input;
        }
        drop(state);
        self.stop(cause);
    }

    /// Stops the process, whose work is done, unless it ends by itself in this time.
    pub(crate) fn finish(&self, within: Duration) {
        self.lock().end_cause.get_or_insert(EndCause::Served);
        self.order_end(within);
    }

    /// Stops the process, which is not needed any more and has been asked to end, unless it does in this time.
    pub(crate) fn retire(&self, within: Duration, reason: Reason) {
        let mut state = self.lock();
        state.is_ended_by_server = true;
        state.end_cause.get_or_insert(EndCause::Retired(reason));
        drop(state);
        self.order_end(within);
    }

    fn order_end(&self, within: Duration) {
        let by = Instant::now() + within;
        self.commands.send_if_modified(|command| {
            let is_new = *command == Command::Run;
            if is_new {
                *command = Command::FinishBy(by);
            }
            is_new
        });
    }

    /// Notes the exchange that the process works for; its error lines are logged with the id. Earlier lines are forgotten: they may name other
    /// clients, and do not explain a fault in this exchange. `script` is the file that an engine runs.
    pub(crate) fn begin_exchange(&self, id: UniqueId, script: Option<&Path>) {
        let mut state = self.lock();
        state.script = script.map(|script| script.to_string_lossy().into());
        state.exchange = Some(id);
        state.ended = None;
        state.error_lines.clear();
        state.uses += 1;
        state.is_draining = false;
        state.watched_lines = None;
    }

    pub(crate) fn end_exchange(&self) {
        let mut state = self.lock();
        let script = state.script.take();
        state.ended = state.exchange.take().map(|id| (id, script));
        state.waiter = None;
    }

    /// Notes that nobody waits for its reply any more.
    pub(crate) fn note_draining(&self) {
        self.lock().is_draining = true;
    }

    /// The file of the script that it runs, for messages; that of an engine between two exchanges.
    pub(crate) fn script(&self) -> Cow<'_, str> {
        match &self.lock().script {
            Some(script) => Cow::Owned(script.to_string()),
            None => Cow::Borrowed(&self.spec.program),
        }
    }

    /// The script and exchange of a line that it has written: between exchanges the last ones, because a line before the end of a reply may be read late.
    pub(crate) fn source_of_lines(&self) -> LineSource {
        let state = self.lock();
        let current = (&state.script, state.exchange);
        let (script, exchange) = state.ended.as_ref().map_or(current, |(id, script)| (script, Some(*id)));
        LineSource {
            is_run_by_engine: script.is_some(),
            script: script.as_deref().unwrap_or(&self.spec.program).to_owned(),
            exchange,
        }
    }

    pub(crate) fn exit(&self) -> Option<Exit> {
        self.lock().exit
    }

    /// Waits for its exit status; its last error lines have been read then. One waiter at a time: the holder of its channels.
    pub(crate) fn poll_exit(&self, context: &mut Context<'_>) -> Poll<Exit> {
        let mut state = self.lock();
        if let Some(exit) = state.exit {
            return Poll::Ready(exit);
        }
        match &mut state.waiter {
            Some(waiter) => waiter.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Waits until the reaper has read what it has written to its standard error so far.
    pub(crate) async fn read_errors(&self) {
        let number = self.errors.request();
        std::future::poll_fn(|context| self.poll_errors(number, context)).await;
    }

    /// Waits until this request of `errors` is done. One waiter at a time, as for `poll_exit`.
    pub(crate) fn poll_errors(&self, number: u64, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.exit.is_some() || state.errors_read >= number {
            return Poll::Ready(());
        }
        state.waiter = Some(context.waker().clone());
        Poll::Pending
    }

    /// The log has its failure: the exit status of a process of one request adds nothing.
    pub(crate) fn note_failure(&self) {
        self.lock().is_exit_described = true;
    }

    fn announce_errors(&self, number: u64) {
        let mut state = self.lock();
        state.errors_read = number;
        if let Some(waiter) = state.waiter.take() {
            waiter.wake();
        }
    }

    /// Remembers a line of its standard error, for `describe`.
    pub(crate) fn note_error(&self, line: &str) {
        let end = line.char_indices().nth(ERROR_LINE_CHARACTERS_MAX);
        let line = end.map_or(line, |(at, _)| &line[..at]);
        let mut state = self.lock();
        if state.error_lines.len() == ERROR_LINES_MAX {
            state.error_lines.pop_front();
        }
        state.error_lines.push_back(line.into());
        if let Some(lines) = &mut state.watched_lines
            && lines.len() < WATCHED_LINES_MAX
        {
            lines.push(line.into());
            if let Some(waiter) = &state.waiter {
                waiter.wake_by_ref();
            }
        }
    }

    /// The present state of the process, for the log line of a failed exchange.
    pub(crate) fn describe(&self) -> ProcessState {
        let mut state = self.lock();
        state.is_exit_described |= state.exit.is_some();
        ProcessState {
            script: state.script.as_deref().unwrap_or(&self.spec.program).into(),
            pid: self.pid,
            exit: state.exit,
            limit: state.limit.clone(),
            error_lines: state.error_lines.iter().cloned().collect(),
        }
    }

    /// How it has ended, and what it has used, once it is reaped.
    pub(crate) fn end_text(&self) -> Option<String> {
        let state = self.lock();
        // The peak of its memory is not known: the kernel counts that of the server, from which it was forked, too (getrusage(2), `ru_maxrss`).
        let (exit, Usage { user, system, .. }) = (state.exit?, state.usage);
        let limit: String = state.limit.iter().map(|limit| format!(" because it {limit}")).collect();
        Some(format!(
            "pid {} has ended: {exit}{limit}; it ran for {}, processor time {} user and {} system",
            self.pid,
            time_text(self.age()),
            time_text(user),
            time_text(system)
        ))
    }

    fn announce(&self, end: &End) {
        let (exit, usage) = (end.exit, end.usage);
        let confinement = self.spec.confinement.as_deref();
        let limit = confinement
            .filter(|_| !end.is_lost)
            .and_then(|limits| limit_reached(limits, end));
        let mut state = self.lock();
        // SIGKILL may be the server's.
        let is_known = !state.is_ended_by_server || exit.signal_name() != Some("SIGKILL");
        state.limit = limit.filter(|_| is_known).map(Into::into);
        state.exit = Some(exit);
        state.usage = usage;
        state.input = None;
        if let Some(waiter) = state.waiter.take() {
            waiter.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether there is no such interpreter. Its owner may keep this from being answered: then it counts as there.
async fn is_missing(interpreter: &Path) -> bool {
    const TIMEOUT: Duration = Duration::from_secs(2);
    if !interpreter.is_absolute() {
        return false;
    }
    let interpreter = interpreter.to_owned();
    let look = look_elsewhere(LookupShare::of_path(&interpreter), move || !interpreter.exists());
    look.within(tokio::time::sleep(TIMEOUT)).await == Ok(true)
}

impl Drop for Process {
    /// Logs the exit status of a process that has failed by itself, unless the fault of an exchange has named it.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let is_expected = state.is_ended_by_server || state.is_exit_described;
        let Some(exit) = state.exit.filter(|exit| !is_expected && *exit != Exit::Code(0)) else {
            return;
        };
        let mut text = end_text(exit, state.limit.as_deref());
        let advice = linker_advice_at_end(state.exit, state.error_lines.back().map(|line| &**line));
        text.extend(advice.iter().flat_map(|advice| [": ", advice.as_str()]));
        if !self.spec.log.admits(text.len(), std::time::Instant::now()) {
            return;
        }
        let (pid, ProcessSpec { site, program, .. }) = (self.pid, &self.spec);
        let script = state.script.as_deref().unwrap_or(program);
        match state.exchange {
            Some(id) => tracing::warn!(target: "script", site, script, pid, %id, "end of the process: {text}"),
            None => tracing::warn!(target: "script", site, script, pid, "end of the process: {text}"),
        }
    }
}

#[cfg(test)]
#[path = "script_process_tests.rs"]
mod tests;
