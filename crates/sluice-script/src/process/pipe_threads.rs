//! The threads that touch the pipes of script processes: no others of the server read, write, ask and close them. `buffer_memory` has such threads, too.
//!
//! A script can hold the lock of a pipe for as long as it likes: by splice(2) from a socket that is silent, by write(2) from the memory of a file system
//! that does not answer. Everybody else who uses the pipe, or closes it, waits then, and no signal ends that. poll(2) and epoll(7) take no lock, so the event
//! loops ask these whether a pipe is readable, and leave the rest to these threads.
//!
//! ```text
//!   worker ── a job: read, write, ask, close ──▶ queue ──▶ thread ──▶ the pipe
//!      ▲                                                      │
//!      └────────────── wakes the task that waits ─────────────┘
//! ```
//! A thread that does not come back is left to its pipe, and another is started for the other jobs. A job that takes too long ends its
//! script process. Jobs of one user run `RUNNING_OF_USER_MAX` at once, further ones wait; a user whose jobs all hang gets no new process.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sluice_launch::{FileStamp, RunAs, UNKNOWN_USER};

use crate::process::EndCause;

/// Threads that are kept.
const THREADS: usize = 2;

/// Threads at once, most of which hang: those of so many users as there can hardly be.
const THREADS_MAX: usize = 512;

/// Jobs of one user that run at once.
pub(crate) const RUNNING_OF_USER_MAX: usize = 8;

/// A job that takes longer does not count among those for which the others wait: another thread takes those.
const SLOW: Duration = Duration::from_millis(5);

/// The differences between the threads for pipes and those for memory.
struct Kind {
    /// Why a job does not come to its end, and the cause of the end of its script process then.
    why: &'static str,
    cause: EndCause,
    /// A job may take long, and those behind it need not wait for the next turn.
    is_long: bool,
    name: &'static str,
    /// Threads that are busy shortly, before others wait for them.
    threads: usize,
    /// A job that takes longer ends its script process.
    hung: Duration,
    locked: &'static str,
}

static PIPES: Kind = Kind {
    why: "a system call of the script keeps this pipe locked (splice(2), sendfile(2), or a read or write of memory that does not answer)",
    cause: EndCause::LocksPipe,
    is_long: false,
    name: "script-pipes",
    // Each job takes some microseconds.
    threads: THREADS,
    hung: Duration::from_secs(1),
    locked: "pipes are free that its scripts keep locked (splice(2) and its like)",
};

static BUFFERS: Kind = Kind {
    why: "a process that has its descriptor keeps this memory locked (a write to it from memory that does not answer)",
    cause: EndCause::LocksBuffer,
    is_long: true,
    name: "script-buffers",
    // An allocation takes milliseconds, and several processors share them.
    threads: 16,
    // The system may have to free memory first.
    hung: Duration::from_secs(3),
    locked: "memory buffers are free that are kept locked (a write from memory that does not answer)",
};

/// Time for each byte that is allocated, before a job counts as hung: ten times what it takes.
const NANOSECONDS_OF_BYTE: u64 = 4;

/// Descriptors that wait to be closed at the next turn of a thread, before one is woken for them.
const CLOSINGS_MAX: usize = 16;

const STACK_BYTES: usize = 256 << 10;

/// The threads, for everybody who holds a pipe.
#[derive(Clone)]
pub(crate) struct PipeThreads(Arc<Shared>);

struct Shared {
    kind: &'static Kind,
    state: Mutex<State>,
    work: Condvar,
    hung: AtomicUsize,
    /// Users in `State::waited`.
    waited: AtomicUsize,
    /// The numbers of the users of settings, by the last process of each; not those of owners.
    users: Mutex<Vec<(RunAs, u32)>>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    running: Vec<Running>,
    threads: usize,
    idle: usize,
    number: u64,
    /// Users who get no new process.
    refused: Vec<u32>,
    /// Users of scripts that have kept the event loop waiting, and when that was.
    waited: Vec<(u32, Instant)>,
    is_closed: bool,
}

struct Job {
    owner: Arc<PipeOwner>,
    channel: &'static str,
    work: Work,
}

pub(crate) enum Work {
    Transfer(Arc<dyn Transfer>),
    /// Something rare: a pipe is emptied, or up to so many bytes of memory are allocated or released.
    Call {
        verb: &'static str,
        bytes: u64,
        call: Box<dyn FnOnce() + Send>,
    },
    Close(OwnedFd),
}

pub(crate) trait Transfer: Send + Sync {
    /// Reads or writes it; on a thread.
    fn transfer(&self);

    fn verb(&self) -> &'static str;
}

struct Running {
    number: u64,
    since: Instant,
    /// If it takes longer, it ends its script process.
    time_limit: Duration,
    owner: Arc<PipeOwner>,
    blocked: Blocked,
    is_hung: bool,
}

impl PipeThreads {
    /// The threads of a server for pipes; none is started before there is a job.
    pub(crate) fn new() -> PipeThreads {
        PipeThreads::of(&PIPES)
    }

    pub(crate) fn for_buffers() -> PipeThreads {
        PipeThreads::of(&BUFFERS)
    }

    fn of(kind: &'static Kind) -> PipeThreads {
        PipeThreads(Arc::new(Shared {
            kind,
            state: Mutex::default(),
            work: Condvar::new(),
            hung: AtomicUsize::new(0),
            waited: AtomicUsize::new(0),
            users: Mutex::default(),
        }))
    }

    /// Has a job done soon.
    pub(crate) fn perform(&self, owner: &Arc<PipeOwner>, channel: &'static str, work: Work) {
        let mut state = self.0.lock();
        state.add(owner, channel, work);
        self.0.see_to_threads(state);
    }

    /// Closes a descriptor at the next turn of a thread, which may be a second later.
    pub(crate) fn close_later(&self, owner: &Arc<PipeOwner>, channel: &'static str, end: OwnedFd) {
        let mut state = self.0.lock();
        state.add(owner, channel, Work::Close(end));
        if state.jobs.len() >= CLOSINGS_MAX {
            self.0.see_to_threads(state);
        }
    }

    /// Ends script processes whose pipes have kept a thread for too long, and has another thread do what waits. Each worker calls this once a second.
    pub(crate) fn advance(&self) {
        let mut state = self.0.lock();
        if state.jobs.is_empty() && state.running.is_empty() {
            return;
        }
        let (now, mut hung) = (Instant::now(), Vec::new());
        for running in &mut state.running {
            if !running.is_hung && now.duration_since(running.since) >= running.time_limit {
                running.is_hung = true;
                hung.push((Arc::clone(&running.owner), running.blocked, running.time_limit));
            }
        }
        self.0.hung.fetch_add(hung.len(), Ordering::Relaxed);
        let refused = state.newly_refused();
        self.0.see_to_threads(state);
        for (owner, blocked, time_limit) in hung {
            (owner.end)(blocked, time_limit);
        }
        for owner in refused {
            tracing::error!(
                "scripts of {} get no new process until some of the {RUNNING_OF_USER_MAX} {}",
                owner.user(),
                self.0.kind.locked
            );
        }
    }

    /// Notes the number of the user of a process: another setting may have the same one.
    pub(crate) fn note_user(&self, run_as: &RunAs, uid: u32) {
        if matches!(run_as, RunAs::Owner(_)) || uid == UNKNOWN_USER {
            return;
        }
        let mut users = self.0.users.lock().unwrap_or_else(PoisonError::into_inner);
        match users.iter_mut().find(|(known, _)| known == run_as) {
            Some((_, known)) => *known = uid,
            None => users.push((run_as.clone(), uid)),
        }
    }

    /// The number of the user of a setting, if it has had a process.
    fn noted_user(&self, run_as: &RunAs) -> Option<u32> {
        let users = self.0.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.iter().find(|(known, _)| known == run_as).map(|(_, uid)| *uid)
    }

    /// Whether this user gets no process now, because too many jobs on pipes of its scripts hang.
    pub(crate) fn refuses(&self, run_as: &RunAs) -> bool {
        // Relaxed: it says only whether to look.
        if self.0.hung.load(Ordering::Relaxed) < RUNNING_OF_USER_MAX {
            return false;
        }
        // Outside of the lock. An owner is known if the kernel need not ask for the script, which was found a moment ago.
        let owner = match run_as {
            RunAs::Owner(file) => FileStamp::cached(Path::new(OsStr::from_bytes(file.to_bytes())))
                .flatten()
                .map(|stamp| stamp.owner()),
            RunAs::Usual | RunAs::User(_) => self.noted_user(run_as),
        };
        let state = self.0.lock();
        let is_refused = |uid: &u32| state.refused.contains(uid);
        let has_user = |running: &&Running| running.owner.runs_as(run_as);
        let mut running = state.running.iter().filter(has_user);
        owner.is_some_and(|uid| is_refused(&uid)) || running.any(|running| is_refused(&running.owner.uid))
    }

    /// Whether too many jobs for the user of a process hang.
    pub(crate) fn refuses_owner(&self, owner: &PipeOwner) -> bool {
        // Relaxed: it says only whether to look.
        self.0.hung.load(Ordering::Relaxed) >= RUNNING_OF_USER_MAX && self.0.lock().refused.contains(&owner.uid)
    }

    /// A script of this owner's user has kept the event loop waiting.
    pub(crate) fn note_wait(&self, owner: &PipeOwner) {
        let mut state = self.0.lock();
        state.waited.retain(|(uid, _)| *uid != owner.uid);
        state.waited.push((owner.uid, Instant::now()));
        self.0.waited.store(state.waited.len(), Ordering::Relaxed);
    }

    /// Whether a script of this owner's user has kept the event loop waiting within `time`.
    pub(crate) fn has_waited(&self, owner: &PipeOwner, time: Duration) -> bool {
        // Relaxed: it says only whether to look.
        if self.0.waited.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut state = self.0.lock();
        state.waited.retain(|(_, at)| at.elapsed() < time);
        self.0.waited.store(state.waited.len(), Ordering::Relaxed);
        state.waited.iter().any(|(uid, _)| *uid == owner.uid)
    }

    /// How long an allocation of `bytes` bytes may take before it counts as hung.
    pub(crate) fn time_limit(&self, bytes: u64) -> Duration {
        self.0.kind.hung + time_of(bytes)
    }

    /// Ends the threads once there is nothing more to do.
    pub(crate) fn close_all(&self) {
        self.0.lock().is_closed = true;
        self.0.work.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a thread for what waits, or starts one, if all others are busy for long.
    fn see_to_threads(self: &Arc<Shared>, mut state: MutexGuard<'_, State>) {
        if state.jobs.is_empty() {
            return;
        }
        if state.idle > 0 {
            drop(state);
            self.work.notify_one();
            return;
        }
        let is_one_coming = state.threads > state.running.len();
        if is_one_coming || state.threads >= THREADS_MAX || state.busy_shortly() >= self.kind.threads {
            return;
        }
        state.threads += 1;
        drop(state);
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().name(self.kind.name.into());
        if let Err(error) = thread.stack_size(STACK_BYTES).spawn(move || shared.run()) {
            // The next turn tries again.
            self.lock().threads -= 1;
            tracing::error!("no thread {}: {error}", self.kind.name);
        }
    }

    /// A thread: does jobs until it is one too many.
    fn run(self: &Arc<Shared>) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.take() {
                let number = state.begin(&job, self.kind);
                match self.kind.is_long {
                    true => self.see_to_threads(state),
                    false => drop(state),
                }
                job.work.run();
                state = self.lock();
                if state.end(number) {
                    self.hung.fetch_sub(1, Ordering::Relaxed);
                }
            } else if state.is_closed || state.idle >= THREADS {
                state.threads -= 1;
                return;
            } else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

impl State {
    /// The next job whose user has not too many already.
    fn take(&mut self) -> Option<Job> {
        if self.running.len() < RUNNING_OF_USER_MAX {
            return self.jobs.pop_front();
        }
        let may_run = |job: &Job| self.running_of(job.owner.uid) < RUNNING_OF_USER_MAX;
        let at = self.jobs.iter().position(may_run)?;
        self.jobs.remove(at)
    }

    fn running_of(&self, uid: u32) -> usize {
        self.running.iter().filter(|running| running.owner.uid == uid).count()
    }

    fn begin(&mut self, job: &Job, kind: &Kind) -> u64 {
        self.number += 1;
        self.running.push(Running {
            number: self.number,
            since: Instant::now(),
            time_limit: kind.hung + job.work.duration(),
            owner: Arc::clone(&job.owner),
            blocked: Blocked {
                verb: job.work.verb(),
                channel: job.channel,
                why: kind.why,
                cause: kind.cause,
            },
            is_hung: false,
        });
        self.number
    }

    fn end(&mut self, number: u64) -> bool {
        let at = self.running.iter().position(|running| running.number == number);
        let ended = at.map(|at| self.running.swap_remove(at));
        let is_hung = ended.is_some_and(|running| running.is_hung);
        if is_hung {
            let hung = self.full_users();
            self.refused.retain(|uid| hung.contains(uid));
        }
        is_hung
    }

    /// Users all of whose jobs hang.
    fn full_users(&self) -> Vec<u32> {
        let hung = self.running.iter().filter(|running| running.is_hung);
        let mut hung: Vec<u32> = hung.map(|running| running.owner.uid).collect();
        hung.sort_unstable();
        let of_users = hung.chunk_by(|one, other| one == other);
        let full = of_users.filter(|jobs| jobs.len() >= RUNNING_OF_USER_MAX);
        full.map(|jobs| jobs[0]).collect()
    }

    /// Refuses processes to users all of whose jobs hang. Returns one of the processes of each that was not refused before.
    fn newly_refused(&mut self) -> Vec<Arc<PipeOwner>> {
        let mut owners = Vec::new();
        for uid in self.full_users() {
            if !self.refused.contains(&uid) {
                self.refused.push(uid);
                let running = self.running.iter().find(|running| running.owner.uid == uid);
                owners.extend(running.map(|running| Arc::clone(&running.owner)));
            }
        }
        owners
    }

    /// Threads that will be free soon.
    fn busy_shortly(&self) -> usize {
        let now = Instant::now();
        let is_short = |running: &&Running| now.duration_since(running.since) < SLOW;
        self.running.iter().filter(is_short).count()
    }

    fn add(&mut self, owner: &Arc<PipeOwner>, channel: &'static str, work: Work) {
        let owner = Arc::clone(owner);
        self.jobs.push_back(Job { owner, channel, work });
    }
}

impl Work {
    fn run(self) {
        match self {
            Work::Transfer(pipe) => pipe.transfer(),
            Work::Call { call, .. } => call(),
            Work::Close(end) => drop(end),
        }
    }

    fn verb(&self) -> &'static str {
        match self {
            Work::Transfer(pipe) => pipe.verb(),
            Work::Call { verb, .. } => verb,
            Work::Close(_) => "close",
        }
    }

    fn duration(&self) -> Duration {
        match self {
            Work::Call { bytes, .. } => time_of(*bytes),
            Work::Transfer(_) | Work::Close(_) => Duration::ZERO,
        }
    }
}

/// The time that is granted for an allocation by its size.
fn time_of(bytes: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(NANOSECONDS_OF_BYTE))
}

impl fmt::Debug for PipeThreads {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0.kind.name)
    }
}

/// The script process that a pipe belongs to.
pub(crate) struct PipeOwner {
    /// The number of its user.
    pub uid: u32,
    /// `None` for a process that ends already, whose settings are not known any more.
    run_as: Option<RunAs>,
    end: Box<EndProcess>,
}

/// Ends a process that keeps a pipe locked, with a line in the log.
type EndProcess = dyn Fn(Blocked, Duration) + Send + Sync;

/// A job that does not come to its end, and what follows from that.
#[derive(Clone, Copy)]
pub(crate) struct Blocked {
    pub verb: &'static str,
    pub channel: &'static str,
    pub why: &'static str,
    pub cause: EndCause,
}

impl PipeOwner {
    /// The owner of the pipes of a process that runs as this user. `end` ends it, if it keeps one of them locked.
    pub(crate) fn new(
        run_as: RunAs,
        uid: u32,
        end: impl Fn(Blocked, Duration) + Send + Sync + 'static,
    ) -> Arc<PipeOwner> {
        Arc::new(PipeOwner { uid, run_as: Some(run_as), end: Box::new(end) })
    }

    /// A process that ends already.
    pub(crate) fn ending(uid: u32) -> Arc<PipeOwner> {
        Arc::new(PipeOwner { uid, run_as: None, end: Box::new(|_, _| {}) })
    }

    pub(crate) fn runs_as(&self, run_as: &RunAs) -> bool {
        self.run_as.as_ref() == Some(run_as)
    }

    pub(crate) fn user(&self) -> impl fmt::Display + use<> {
        match &self.run_as {
            Some(RunAs::User(name)) => format!("user {name}"),
            _ => format!("the user with number {}", self.uid),
        }
    }
}

impl fmt::Debug for PipeOwner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a process of {}", self.user())
    }
}

#[cfg(test)]
#[path = "pipe_threads_tests.rs"]
pub(crate) mod tests;
