//! The launcher, as the server sees it: a socket to it, and a thread that reads what it says.
//!
//! Starts, signals and questions are sent by the thread that has them, and never block it: without room in the socket they are queued, and the
//! reader sends them. The launcher may die, and be replaced (`connect`): the processes that it has started have died with it, starts in
//! progress fail, and new ones wait a while for the next launcher.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use crate::end::pidfd::Signal;
use crate::start::launch_error::Stage;
use crate::start::outcome::{End, LAUNCHER_TIMEOUT, StartError};
use crate::start::program::Program;
use crate::wire::codec::{decode, encode};
use crate::wire::message::{PlainRequest, Reply, pack_launch};
use crate::wire::message_socket::{MESSAGE_BYTES_MAX, Wait, launcher_sockets, receive, send};
use crate::wire::probe::{Probe, ProcessAnswer, ProcessQuestion};
use crate::wire::program_wire::descriptors_of;
use crate::wire::service::{Service, ServiceSettings};
use crate::wire::waiting::{Awaited, await_messages};

/// How long a question about a process waits for its answer: the launcher may search all processes for a second.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

type Done = Box<dyn FnOnce(Result<RemoteStarted, StartError>) + Send>;
type OnEnd = Box<dyn FnOnce(End) + Send>;
type Calls = Vec<Box<dyn FnOnce() + Send>>;

/// A script process whose program runs, and the server's ends of its channels, all non-blocking and close-on-exec.
#[derive(Debug)]
pub struct RemoteStarted {
    /// The process.
    pub process: RemoteProcess,
    /// The write end of descriptor 0 for [`crate::Stdin::Pipe`], otherwise `None`.
    pub stdin: Option<OwnedFd>,
    /// The read end of descriptor 1.
    pub mailbox: OwnedFd,
    /// The read end of descriptor 2.
    pub stderr: OwnedFd,
    /// The write end of descriptor 3, CGIPLUSIN.
    pub cgiplusin: OwnedFd,
    /// Reading ends of pipes; see [`crate::Started`].
    pub read_ends: (OwnedFd, Option<OwnedFd>),
    /// Both ends of descriptor 5; see [`crate::Started`].
    pub requests: Option<(OwnedFd, OwnedFd)>,
}

/// A launcher in another process, or in threads of this one.
///
/// Dropping it closes the socket, and the launcher ends every process that is left.
pub struct RemoteLauncher {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
    local: Option<JoinHandle<()>>,
}

/// A process that a launcher has started. Dropping it kills the process, unless its end is awaited.
#[derive(Debug)]
pub struct RemoteProcess {
    probe: Probe,
    is_awaited: bool,
}

/// The state of a launcher for its processes and its reader.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Wakes the reader: an eventfd.
    wake: OwnedFd,
}

#[derive(Default)]
struct State {
    socket: Option<Arc<OwnedFd>>,
    /// The socket to the next launcher.
    next: Option<OwnedFd>,
    /// Messages that wait for room in the socket, or for a launcher.
    queue: VecDeque<Queued>,
    processes: HashMap<u64, Entry>,
    questions: HashMap<u64, SyncSender<ProcessAnswer>>,
    number: u64,
    is_closed: bool,
}

enum Entry {
    Starting(Done),
    Running(Option<OnEnd>),
    /// The process has ended, and nobody has asked for that yet.
    Ended(End),
}

struct Queued {
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
    /// The number of the process that it starts.
    start: Option<u64>,
    since: Instant,
}

impl RemoteLauncher {
    /// A launcher at the other end of a socket.
    ///
    /// # Errors
    /// The system has no more threads or descriptors.
    pub fn start(socket: OwnedFd) -> io::Result<RemoteLauncher> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State { socket: Some(Arc::new(socket)), ..State::default() }),
            wake,
        });
        let own = Arc::clone(&shared);
        let reader = thread::Builder::new()
            .name("launcher-link".into())
            .spawn(move || own.read())?;
        Ok(RemoteLauncher { shared, reader: Some(reader), local: None })
    }

    /// A launcher in threads of this process.
    ///
    /// # Errors
    /// The system has no more threads or descriptors.
    pub fn start_here(settings: ServiceSettings) -> io::Result<RemoteLauncher> {
        let (near, far) = launcher_sockets()?;
        let service = Service::prepare(far, settings)?;
        let local = thread::Builder::new().name("launcher".into()).spawn(move || {
            // It fails only for messages that this process does not send.
            let _ = service.run();
        })?;
        let mut launcher = RemoteLauncher::start(near)?;
        launcher.local = Some(local);
        Ok(launcher)
    }

    /// Uses another launcher, because the one before has ended.
    pub fn connect(&self, socket: OwnedFd) {
        self.shared.lock().next = Some(socket);
        self.shared.wake();
    }

    /// Has a program started. `done` is called with the process or the error, on another thread; it should only pass the result on. `mark`
    /// is a text in the environment of the program, which no other process has: at least 16 letters, digits, `$` and `-`.
    ///
    /// Never blocks. The number of starts in progress has no limit of its own: every start is for a slot of a process pool, and those are limited.
    pub fn launch(
        &self,
        program: Program,
        mark: &str,
        done: impl FnOnce(Result<RemoteStarted, StartError>) + Send + 'static,
    ) {
        let mut state = self.shared.lock();
        let number = state.next_number();
        let (packed, fds) = match pack_launch(number, &program, mark) {
            Ok(packed) => packed,
            Err(error) => {
                drop(state);
                return done(Err(StartError::unsent(&error)));
            }
        };
        state.processes.insert(number, Entry::Starting(Box::new(done)));
        let mut borrowed = fds;
        borrowed.extend(packed.file.as_ref().map(AsFd::as_fd));
        if state.send_now(&packed.bytes, &borrowed) {
            return;
        }
        drop(borrowed);
        state.queue.push_back(Queued {
            bytes: packed.bytes,
            fds: descriptors_of(program).into_iter().chain(packed.file).collect(),
            start: Some(number),
            since: Instant::now(),
        });
        drop(state);
        self.shared.wake();
    }
}

impl Drop for RemoteLauncher {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.wake();
        let threads = [self.reader.take(), self.local.take()];
        for thread in threads.into_iter().flatten() {
            // If dropped by a callback: a thread cannot join itself.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

impl fmt::Debug for RemoteLauncher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        out.debug_struct("RemoteLauncher")
            .field("is_connected", &state.socket.is_some())
            .field("processes", &state.processes.len())
            .finish_non_exhaustive()
    }
}

impl RemoteProcess {
    /// The process id, also that of its session and process group. It may be another process's once this one has ended: for messages and `/proc` only.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.probe.pid
    }

    /// Has a signal sent to the process and its group, unless it has ended.
    pub fn signal(&self, signal: Signal) {
        if let Some(launcher) = &self.probe.launcher {
            launcher.send(encode(&PlainRequest::Signal(self.probe.number, signal)));
        }
    }

    /// Questions about it.
    #[must_use]
    pub fn probe(&self) -> Probe {
        self.probe.clone()
    }

    /// Calls `on_end`, on another thread, when it has been reaped and all that it has started has ended, or at once if it has. A later call replaces it.
    pub fn on_end(&mut self, on_end: impl FnOnce(End) + Send + 'static) {
        self.is_awaited = true;
        let Some(launcher) = &self.probe.launcher else { return };
        let mut state = launcher.lock();
        match state.processes.remove(&self.probe.number) {
            Some(Entry::Ended(end)) => {
                drop(state);
                on_end(end);
            }
            Some(_) => drop(
                state
                    .processes
                    .insert(self.probe.number, Entry::Running(Some(Box::new(on_end)))),
            ),
            None => {}
        }
    }
}

impl Drop for RemoteProcess {
    fn drop(&mut self) {
        if !self.is_awaited {
            self.signal(Signal::Kill);
            self.on_end(|_| {});
        }
    }
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Sends a message unless others wait. False if there is no room, or no launcher.
    fn send_now(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
        let Some(socket) = self.socket.as_ref().filter(|_| self.queue.is_empty()) else {
            return false;
        };
        send(socket.as_fd(), bytes, fds, Wait::No).is_ok()
    }

    /// Sends what waits, as long as there is room. Returns what the rest waits for, and the calls that report the starts which the system does
    /// not let pass. Other messages, such as signals, are tried again later.
    fn flush(&mut self) -> (Awaited, Calls) {
        let mut calls: Calls = Vec::new();
        let Some(socket) = self.socket.clone() else {
            return (Awaited::Time, calls);
        };
        while let Some(first) = self.queue.front() {
            let fds: Vec<_> = first.fds.iter().map(AsFd::as_fd).collect();
            match send(socket.as_fd(), &first.bytes, &fds, Wait::No) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return (Awaited::Room, calls),
                // The other end is gone, or the system is short of something (EMSGSIZE, ETOOMANYREFS, ENOBUFS).
                Err(error) => {
                    let start = first.start.filter(|_| error.raw_os_error() != Some(libc::EPIPE));
                    let Some(number) = start else {
                        return (Awaited::Time, calls);
                    };
                    if let Some(Entry::Starting(done)) = self.processes.remove(&number) {
                        calls.push(Box::new(move || done(Err(StartError::unsent(&error)))));
                    }
                }
            }
            self.queue.pop_front();
        }
        (Awaited::Nothing, calls)
    }

    /// Drops the launcher, which is gone. Returns the calls that report this to those who wait.
    fn lose(&mut self) -> Calls {
        self.socket = None;
        self.questions.clear();
        // Only starts make sense for another launcher.
        self.queue.retain(|queued| queued.start.is_some());
        let unsent: Vec<u64> = self.queue.iter().filter_map(|queued| queued.start).collect();
        let numbers: Vec<u64> = self.processes.keys().copied().collect();
        let mut calls: Calls = Vec::new();
        for number in numbers.into_iter().filter(|number| !unsent.contains(number)) {
            match self.processes.remove(&number) {
                Some(Entry::Starting(done)) => calls.push(Box::new(move || done(Err(StartError::Lost)))),
                Some(Entry::Running(Some(on_end))) => calls.push(Box::new(move || on_end(End::killed()))),
                Some(Entry::Running(None)) => drop(self.processes.insert(number, Entry::Ended(End::killed()))),
                Some(ended) => drop(self.processes.insert(number, ended)),
                None => {}
            }
        }
        calls
    }

    /// The starts that have waited too long for a launcher.
    fn expired(&mut self) -> Vec<Done> {
        let mut expired = Vec::new();
        let is_old = |queued: &Queued| queued.since.elapsed() >= LAUNCHER_TIMEOUT;
        while self.queue.front().is_some_and(is_old)
            && let Some(queued) = self.queue.pop_front()
        {
            let entry = queued.start.and_then(|number| self.processes.remove(&number));
            if let Some(Entry::Starting(done)) = entry {
                expired.push(done);
            }
        }
        expired
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // It fails only if the reader has not seen so many wake-ups.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Sends a message that needs a launcher; without one it is dropped, because its process has gone.
    fn send(&self, bytes: Vec<u8>) {
        let mut state = self.lock();
        if state.socket.is_none() || state.send_now(&bytes, &[]) {
            return;
        }
        state.queue.push_back(Queued {
            bytes,
            fds: Vec::new(),
            start: None,
            since: Instant::now(),
        });
        drop(state);
        self.wake();
    }

    pub(crate) fn ask(&self, process: u64, about: ProcessQuestion) -> Option<ProcessAnswer> {
        let (sender, answer) = sync_channel(1);
        let number = {
            let mut state = self.lock();
            let number = state.next_number();
            state.questions.insert(number, sender);
            number
        };
        self.send(encode(&PlainRequest::Ask(process, number, about)));
        let answer = answer.recv_timeout(ANSWER_TIMEOUT).ok();
        self.lock().questions.remove(&number);
        answer
    }

    fn read(self: &Arc<Shared>) {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        while let Some((socket, awaited)) = self.turn() {
            let is_readable = await_messages(socket.as_deref().map(AsFd::as_fd), &self.wake, awaited);
            if let Some(socket) = socket.filter(|_| is_readable)
                && !self.receive(&socket, &mut buffer)
            {
                let calls = self.lock().lose();
                calls.into_iter().for_each(|call| call());
            }
        }
    }

    /// Works between two waits. Returns the socket, and what messages wait for. `None` at the end.
    fn turn(&self) -> Option<(Option<Arc<OwnedFd>>, Awaited)> {
        let mut state = self.lock();
        if state.is_closed {
            let (processes, questions) = (
                std::mem::take(&mut state.processes),
                std::mem::take(&mut state.questions),
            );
            state.queue.clear();
            state.socket = None;
            drop(state);
            drop((processes, questions));
            return None;
        }
        // The end of the one before is read first, and with it what it has still said.
        if state.socket.is_none()
            && let Some(next) = state.next.take()
        {
            state.socket = Some(Arc::new(next));
        }
        let (mut awaited, mut calls) = state.flush();
        if state.socket.is_none() {
            awaited = Awaited::Time;
            for done in state.expired() {
                calls.push(Box::new(move || done(Err(StartError::NoLauncher))));
            }
        }
        if !calls.is_empty() {
            drop(state);
            calls.into_iter().for_each(|call| call());
            state = self.lock();
        }
        if state.queue.is_empty() {
            awaited = Awaited::Nothing;
        }
        Some((state.socket.clone(), awaited))
    }

    /// Handles the messages that have arrived. False if the launcher is gone.
    fn receive(self: &Arc<Shared>, socket: &OwnedFd, buffer: &mut [u8]) -> bool {
        loop {
            let arrived = match receive(socket.as_fd(), buffer) {
                Ok(Some(arrived)) => arrived,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(None) | Err(_) => return false,
            };
            // Without the last one, the standard input, a script would take the end of the pipe for that of its request's body.
            let fds = arrived.fds.into_iter().filter(|_| !arrived.are_fds_missing).collect();
            match decode(&buffer[..arrived.bytes]) {
                Ok(reply) => self.handle(reply, fds),
                // It is of another version: as if it were gone.
                Err(_) => return false,
            }
        }
    }

    fn handle(self: &Arc<Shared>, reply: Reply, fds: Vec<OwnedFd>) {
        match reply {
            Reply::Started { number, pid } => self.on_started(number, pid, fds),
            Reply::NotStarted { number, error } => {
                let entry = self.lock().processes.remove(&number);
                if let Some(Entry::Starting(done)) = entry {
                    done(Err(error));
                }
            }
            Reply::Ended { number, end } => {
                let mut state = self.lock();
                match state.processes.remove(&number) {
                    Some(Entry::Running(Some(on_end))) => {
                        drop(state);
                        on_end(end);
                    }
                    Some(Entry::Running(None)) => drop(state.processes.insert(number, Entry::Ended(end))),
                    _ => {}
                }
            }
            Reply::Answered { question, answer } => self.answer(question, answer),
        }
    }

    fn on_started(self: &Arc<Shared>, number: u64, pid: i32, fds: Vec<OwnedFd>) {
        let mut fds = fds.into_iter();
        let entry = self.lock().processes.insert(number, Entry::Running(None));
        let process = RemoteProcess {
            probe: Probe { launcher: Some(Arc::clone(self)), number, pid },
            is_awaited: false,
        };
        let Some(Entry::Starting(done)) = entry else { return };
        match (fds.next(), fds.next(), fds.next(), fds.next()) {
            (Some(mailbox), Some(stderr), Some(cgiplusin), Some(read)) => done(Ok(RemoteStarted {
                process,
                stdin: fds.next(),
                mailbox,
                stderr,
                cgiplusin,
                read_ends: (read, fds.next()),
                requests: fds.next().zip(fds.next()),
            })),
            // There were no descriptors left in this process to receive them.
            _ => done(Err(StartError::failed(Stage::Channels, libc::EMFILE))),
        }
    }

    fn answer(&self, question: u64, answer: ProcessAnswer) {
        let asker = self.lock().questions.remove(&question);
        if let Some(asker) = asker {
            // There is room for one.
            let _ = asker.try_send(answer);
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Shared")
    }
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
