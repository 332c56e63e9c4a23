//! The launcher's side of its socket: starts programs for one server, watches their processes, and ends them.
//!
//! ```text
//! link thread ── epoll ─┬─ the socket: messages of the server
//!      │                └─ a pidfd of each script process
//!      ├──▶ launcher threads: start a program, then send Started themselves
//!      └──▶ threads for ends that take longer: descendants, temporary files
//! ```
//! The server is not trusted: an invalid message ends the service, and with it all script processes of that server. So does the end of the server.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::{Shutdown, shutdown};
use thiserror::Error;

use crate::end::orphans::{has_orphans, reap_orphans};
use crate::end::pidfd::Signal;
use crate::end::session::Survivors;
use crate::foreign::user_threads::{Bounds, UserThreads};
use crate::policy::code_variables::remove_code_variables;
use crate::policy::run_as::{RunAs, UserPolicy};
use crate::policy::share::Share;
use crate::start::launch_error::Stage;
use crate::start::launcher::{CHECK_INTERVAL, Launcher, LauncherHealth, LauncherSettings, LostStart, Starter};
use crate::start::outcome::{End, LateCause, LateStart, StartError};
use crate::start::passed_files;
use crate::start::program::Program;
use crate::start::start_queue::Label;
use crate::users::own_user::own_uid;
use crate::wire::codec::{Malformed, encode};
use crate::wire::message::{Reply, Request, number_of_launch};
use crate::wire::message_socket::{MESSAGE_BYTES_MAX, Wait, receive, send};
use crate::wire::pending_starts::PendingStarts;
use crate::wire::probe::ProcessAnswer;
use crate::wire::process_resources::Belongings;
use crate::wire::traced::Traced;

/// Messages that are handled before the ends of processes are checked again.
const MESSAGES_IN_A_TURN: usize = 64;

/// Questions that are answered at once; further ones are answered with what is known without looking: nothing.
const QUESTIONS_MAX: usize = 64;

/// The threads for ends that take longer. A user has 64 of them: an end takes ten seconds at most, unless a process of the user has the kernel wait.
/// Those that wait are as many as there are processes and questions.
const ENDS: Bounds = Bounds {
    name: "launcher-end",
    at_once: 64,
    waiting_max: usize::MAX,
    threads_max: 1024,
    of_holder_max: 64,
    kept: 0,
};

/// How often orphans are reaped while there may be any.
const REAP_INTERVAL: Duration = Duration::from_secs(1);

/// How long the processes of a server that is gone may take until their end: SIGKILL takes effect at once, except for one that waits for a disk.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of the socket among the events.
const SOCKET: u64 = u64::MAX;

/// The settings of a launcher that serves a server.
pub struct ServiceSettings {
    /// The threads of the launcher, its cgroups and temporary files.
    pub launcher: LauncherSettings,
    /// Decides the users of programs.
    pub policy: Arc<dyn UserPolicy>,
    /// The user of the server process, whose files its scripts get as their own.
    pub server_uid: u32,
    /// Script processes at once; further ones are refused. The bound on a server that is out of control: any other has lower limits of its own.
    pub scripts_max: usize,
}

/// Why a service has ended before its server.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct ServiceError(String);

/// A launcher that serves one server.
pub struct Service {
    shared: Arc<Shared>,
    launcher: Launcher,
}

struct Shared {
    socket: OwnedFd,
    epoll: OwnedFd,
    policy: Arc<dyn UserPolicy>,
    server_uid: u32,
    scripts_max: usize,
    start_timeout: Duration,
    pending: Arc<PendingStarts>,
    scripts: Mutex<HashMap<u64, Script>>,
    gone: Condvar,
    ends: UserThreads,
    traced: Traced,
    questions: AtomicUsize,
    /// The server is gone: nothing is started any more.
    is_closing: AtomicBool,
}

enum Script {
    Starting,
    Running(Belongings),
    /// The process has exited; its descendants are being ended.
    Ending,
}

impl Service {
    /// Starts the threads of the launcher, and takes the socket to its server.
    ///
    /// # Errors
    /// The system has no more threads, memory or descriptors.
    pub fn prepare(socket: OwnedFd, settings: ServiceSettings) -> io::Result<Service> {
        let start_timeout = settings.launcher.start_timeout;
        let launcher = Launcher::start_with(settings.launcher)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &socket, EventData::new_u64(SOCKET), EventFlags::IN)?;
        Ok(Service {
            shared: Arc::new(Shared {
                socket,
                epoll,
                policy: settings.policy,
                server_uid: settings.server_uid,
                scripts_max: settings.scripts_max,
                start_timeout,
                pending: Arc::default(),
                scripts: Mutex::default(),
                gone: Condvar::new(),
                ends: UserThreads::new(ENDS),
                traced: Traced::default(),
                questions: AtomicUsize::new(0),
                is_closing: AtomicBool::new(false),
            }),
            launcher,
        })
    }

    /// Says later whether starts go on, for a thread that does not have the service.
    #[must_use]
    pub fn health(&self) -> LauncherHealth {
        self.launcher.health()
    }

    /// Serves until the server is gone, then ends all of its script processes.
    ///
    /// # Errors
    /// The server has sent an invalid message. Its script processes have ended then, too.
    pub fn run(self) -> Result<(), ServiceError> {
        let served = self.serve();
        self.shared.close();
        // Those whose start had begun end when they have started.
        self.launcher.hurry();
        drop(self.launcher);
        self.shared.await_all();
        served
    }

    fn serve(&self) -> Result<(), ServiceError> {
        const EVENTS: usize = 64;
        let mut events = Vec::with_capacity(EVENTS);
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let (mut reaped, mut checked) = (Instant::now(), Instant::now());
        loop {
            let timeout = if self.shared.pending.has_any() {
                Some(CHECK_INTERVAL)
            } else if self.shared.lock().is_empty() && !self.shared.traced.has_any() && !has_orphans() {
                None
            } else {
                Some(REAP_INTERVAL)
            };
            let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
            events.clear();
            // A signal interrupts it at most.
            let _ = epoll::wait(&self.shared.epoll, spare_capacity(&mut events), timeout.as_ref());
            for event in &events {
                match event.data.u64() {
                    SOCKET => {
                        if !self.receive(&mut buffer)? {
                            return Ok(());
                        }
                    }
                    number => self.shared.on_exit(number),
                }
            }
            if self.shared.pending.has_any() && checked.elapsed() >= CHECK_INTERVAL {
                for lost in self.launcher.check() {
                    self.shared.lose(&lost);
                }
                checked = Instant::now();
            }
            if reaped.elapsed() >= REAP_INTERVAL {
                reap_orphans();
                self.shared.traced.reap();
                self.shared.ends.advance();
                reaped = Instant::now();
            }
        }
    }

    /// Handles the messages that have arrived. False if the server is gone.
    fn receive(&self, buffer: &mut [u8]) -> Result<bool, ServiceError> {
        for _ in 0..MESSAGES_IN_A_TURN {
            let arrived = match receive(self.shared.socket.as_fd(), buffer) {
                Ok(Some(arrived)) => arrived,
                Ok(None) => return Ok(false),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => return Ok(true),
                    io::ErrorKind::ConnectionReset => return Ok(false),
                    _ => return Err(ServiceError(format!("the socket to the server: {error}"))),
                },
            };
            if arrived.are_fds_missing {
                self.refuse_without_fds(&buffer[..arrived.bytes])?;
                continue;
            }
            let request = Request::read(&buffer[..arrived.bytes], arrived.fds)?;
            self.handle(request)?;
        }
        Ok(true)
    }

    /// Refuses a start whose descriptors found no room in this process.
    fn refuse_without_fds(&self, message: &[u8]) -> Result<(), ServiceError> {
        let number = number_of_launch(message)?;
        self.shared
            .refuse(number, StartError::failed(Stage::Channels, libc::EMFILE));
        Ok(())
    }

    fn handle(&self, request: Request) -> Result<(), ServiceError> {
        match request {
            Request::Launch { number, program, mark } => self.launch(number, *program, mark)?,
            // One that has ended meanwhile needs no signal.
            Request::Signal { number, signal } => self.shared.signal(number, signal),
            Request::Ask { number, question, about } => self.shared.answer(number, move |pid| Reply::Answered {
                question,
                answer: ProcessAnswer::of(pid, about),
            }),
        }
        Ok(())
    }

    fn launch(&self, number: u64, program: Program, mark: String) -> Result<(), ServiceError> {
        let mut scripts = self.shared.lock();
        if number == SOCKET || scripts.contains_key(&number) {
            return Err(ServiceError(format!("the server uses number {number} twice")));
        }
        let pending = self.shared.pending.add(&program);
        if scripts.len() >= self.shared.scripts_max || pending.is_too_much() {
            drop(scripts);
            self.shared
                .refuse(number, StartError::failed(Stage::Clone, libc::EAGAIN));
            return Ok(());
        }
        scripts.insert(number, Script::Starting);
        drop(scripts);
        let share = self.shared.policy.share(&program.run_as);
        let job = StartJob { shared: Arc::clone(&self.shared), number };
        self.launcher.enqueue(Label { number, share }, move |starter| {
            job.shared.start(starter, number, program, &mark);
            drop(pending);
        });
        Ok(())
    }
}

/// A start that was queued. A panic of it is reported to the server, which would wait for its answer forever.
struct StartJob {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for StartJob {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let error = StartError::failed(Stage::Clone, libc::ECANCELED);
            self.shared.report_not_started(self.number, error);
        }
    }
}

impl Shared {
    /// Starts a program; on a launcher thread.
    fn start(self: &Arc<Shared>, starter: &mut Starter, number: u64, mut program: Program, mark: &str) {
        if self.is_closing() {
            return self.forget(number);
        }
        let began = Instant::now();
        let decided = self.policy.decide(&program.wished()).and_then(|decided| {
            if decided.credentials.is_some() {
                passed_files::check(&program, self.server_uid)?;
            }
            Ok(decided)
        });
        let mut uid = own_uid();
        let started = decided.map_err(StartError::Refused).and_then(|decided| {
            uid = decided.credentials.as_ref().map_or_else(own_uid, |user| user.uid);
            if let Some(unreaped) = self.traced.too_many_of(uid) {
                return Err(self.late(&Share::User(uid), LateCause::Traced { unreaped }));
            }
            program.credentials = decided.credentials;
            if let Some(variables) = &decided.variables {
                let is_owner = matches!(program.run_as, RunAs::Owner(_));
                remove_code_variables(&mut program.environment, variables, is_owner);
            }
            starter.start(program).map_err(|error| match error.stage {
                Stage::Deadline => self.late(&Share::User(uid), LateCause::Killed),
                _ => StartError::Failed(error),
            })
        });
        match started {
            Ok(started) => self.add(number, Belongings::of(started, uid, mark, began)),
            Err(error) => self.report_not_started(number, error),
        }
    }

    /// A start has no place, or cannot be ended: its failure is reported by the link thread, and whatever its thread says later is ignored.
    fn lose(&self, lost: &LostStart) {
        self.report_not_started(lost.label.number, self.late(&lost.label.share, lost.why));
    }

    fn late(&self, share: &Share, cause: LateCause) -> StartError {
        StartError::Late(LateStart {
            user: share.to_string(),
            timeout: self.start_timeout,
            cause,
        })
    }

    /// Reports a start that has failed, unless that was reported before.
    fn report_not_started(&self, number: u64, error: StartError) {
        if matches!(self.lock().get(&number), Some(Script::Starting)) {
            self.forget(number);
            self.refuse(number, error);
        }
    }

    fn refuse(&self, number: u64, error: StartError) {
        self.send(&Reply::NotStarted { number, error }, &[]);
    }

    /// Reports a process, and watches it from then on, so that its end is reported after its start.
    fn add(self: &Arc<Shared>, number: u64, (belongings, ends): (Belongings, Vec<OwnedFd>)) {
        let pid = belongings.pid;
        let pidfd = Arc::clone(&belongings.pidfd);
        {
            let mut scripts = self.lock();
            if !scripts.contains_key(&number) {
                // It was given up.
                drop(scripts);
                belongings.signal(Signal::Kill);
                let until = Instant::now() + END_TIMEOUT;
                let shared = Arc::clone(self);
                return self.later(belongings.uid, move || {
                    drop(belongings.end_now(Some(until), &shared.traced));
                });
            }
            if self.is_closing() {
                belongings.signal(Signal::Kill);
            }
            // From here on signals reach it.
            scripts.insert(number, Script::Running(belongings));
        }
        let fds: Vec<BorrowedFd<'_>> = ends.iter().map(AsFd::as_fd).collect();
        self.send(&Reply::Started { number, pid }, &fds);
        let once = EventFlags::IN | EventFlags::ONESHOT;
        if epoll::add(&self.epoll, pidfd, EventData::new_u64(number), once).is_err() {
            // Without memory for that a thread waits for it.
            self.end_unwatched(number);
        }
    }

    /// A process has exited: what it has left behind is ended, and it is reaped.
    fn on_exit(self: &Arc<Shared>, number: u64) {
        let Some(belongings) = self.take_running(number) else {
            return;
        };
        if belongings.end_group() {
            let shared = Arc::clone(self);
            self.later(belongings.uid, move || {
                let left = belongings.end_descendants();
                shared.finish(number, belongings, left);
            });
            return;
        }
        let end = belongings.reap(Ok(()), &self.traced);
        self.conclude(number, end);
        if belongings.is_slow_to_drop() {
            self.later(belongings.uid, move || drop(belongings));
        }
    }

    /// Kills a process that cannot be watched.
    fn end_unwatched(self: &Arc<Shared>, number: u64) {
        let Some(belongings) = self.take_running(number) else {
            return;
        };
        let shared = Arc::clone(self);
        self.later(belongings.uid, move || shared.end_now(number, belongings, None));
    }

    /// Kills a process with all that it has started, and waits for it until this moment.
    fn end_now(&self, number: u64, belongings: Belongings, until: Option<Instant>) {
        match belongings.end_now(until, &self.traced) {
            Some(end) => {
                // Before its end is known: the next process may need the room.
                drop(belongings);
                self.conclude(number, end);
            }
            // The launcher's end is not delayed by that.
            None => self.forget(number),
        }
    }

    fn finish(&self, number: u64, belongings: Belongings, left: Result<(), Survivors>) {
        let end = belongings.reap(left, &self.traced);
        // Before its end is known: the next process may need the room.
        drop(belongings);
        self.conclude(number, end);
    }

    fn conclude(&self, number: u64, end: End) {
        self.send(&Reply::Ended { number, end }, &[]);
        self.forget(number);
    }

    fn signal(&self, number: u64, signal: Signal) {
        if let Some(Script::Running(belongings)) = self.lock().get(&number) {
            belongings.signal(signal);
        }
    }

    /// Answers a question about a process, which may take long.
    fn answer(self: &Arc<Shared>, number: u64, answer: impl FnOnce(Option<i32>) -> Reply + Send + 'static) {
        let (pid, uid) = match self.lock().get(&number) {
            Some(Script::Running(belongings)) => (Some(belongings.pid), belongings.uid),
            _ => return self.send(&answer(None), &[]),
        };
        // A server that is out of control could ask without end.
        if self.questions.fetch_add(1, Ordering::Relaxed) >= QUESTIONS_MAX {
            self.questions.fetch_sub(1, Ordering::Relaxed);
            return self.send(&answer(None), &[]);
        }
        let shared = Arc::clone(self);
        self.later(uid, move || {
            shared.send(&answer(pid), &[]);
            shared.questions.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// Does what may take long, because of the processes of a user, on a thread of that user's share.
    fn later(&self, uid: u32, work: impl FnOnce() + Send + 'static) {
        let begun = self.ends.begin(u64::from(uid), Box::new(work));
        debug_assert!(begun.is_ok(), "they are as many as processes and questions");
    }

    /// Sends a message. Waits while the server does not read.
    fn send(&self, reply: &Reply, fds: &[BorrowedFd<'_>]) {
        // Fails if the server is gone, which the link thread notices.
        let _ = send(self.socket.as_fd(), &encode(reply), fds, Wait::Yes);
    }

    /// Takes a running process out of the table. Only its number stays there.
    fn take_running(&self, number: u64) -> Option<Belongings> {
        let mut scripts = self.lock();
        let script = scripts.get_mut(&number)?;
        match std::mem::replace(script, Script::Ending) {
            Script::Running(belongings) => Some(belongings),
            other => {
                *script = other;
                None
            }
        }
    }

    fn forget(&self, number: u64) {
        self.lock().remove(&number);
        // Only `await_all` waits, and a notification is a system call.
        if self.is_closing() {
            self.gone.notify_all();
        }
    }

    /// Starts nothing any more, and kills what runs.
    fn close(&self) {
        // Wakes those who wait for the server to read.
        let _ = shutdown(&self.socket, Shutdown::Both);
        let scripts = self.lock();
        self.is_closing.store(true, Ordering::Relaxed);
        for script in scripts.values() {
            if let Script::Running(belongings) = script {
                belongings.signal(Signal::Kill);
            }
        }
    }

    /// Ends every process with all that it has started. No thread starts any more.
    fn await_all(self: &Arc<Shared>) {
        let until = Instant::now() + END_TIMEOUT;
        // Those that hang, whose threads were left to themselves.
        self.lock().retain(|_, script| !matches!(script, Script::Starting));
        let running: Vec<u64> = self.lock().keys().copied().collect();
        for number in running {
            if let Some(belongings) = self.take_running(number) {
                self.end_now(number, belongings, Some(until));
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        let scripts = self.lock();
        let _ = self
            .gone
            .wait_timeout_while(scripts, left, |scripts| !scripts.is_empty());
        reap_orphans();
    }

    fn is_closing(&self) -> bool {
        // Relaxed: it is set while the table is locked, and every insertion of a running process checks it under the lock.
        self.is_closing.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Script>> {
        self.scripts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Malformed> for ServiceError {
    fn from(Malformed(part): Malformed) -> ServiceError {
        ServiceError(format!("a message of the server is malformed: {part}"))
    }
}

#[cfg(test)]
#[path = "service_tests.rs"]
pub(super) mod tests;

#[cfg(test)]
#[path = "service_start_tests.rs"]
mod start_tests;
