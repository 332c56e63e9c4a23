//! The threads that start script processes, fed by one queue.
//!
//! A start blocks its thread until the program runs (`child`). An event loop must not block for that: it queues the program and gets a callback.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_char;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::confine::cgroup::Cgroups;
use crate::confine::confinement::UMASK;
use crate::confine::privileges::has_bounding_set;
use crate::confine::temporary::TemporaryDirectories;
use crate::policy::share::Share;
use crate::start::channels::{self, Channels};
use crate::start::child::{self, Plan};
use crate::start::clone::{Cloner, SignalSet, Undone};
use crate::start::environment::{environment_pointers, owner_variables};
use crate::start::launch_error::{LaunchError, Stage};
use crate::start::launcher_thread::isolate_thread;
use crate::start::outcome::LateCause;
use crate::start::prepared::{Means, Prepared};
use crate::start::program::{Program, Started};
use crate::start::reserved_fds::ReservedFds;
use crate::start::start_queue::{Label, SLOW_AFTER, StartQueue};
use crate::start::watched_start::WatchedStart;
use crate::users::own_user::own_uid;

/// Whether programs with another user could get capabilities; otherwise the launcher has given them up before its first start.
static HAS_BOUNDING_SET: LazyLock<bool> = LazyLock::new(has_bounding_set);

/// The time in which a start must reach its exec: a usual one takes a millisecond, and a second on a machine that swaps. One that takes longer is stopped by
/// somebody (SIGSTOP), waits for a lease that somebody has on its file (45 s by default, proc_sys_fs(5)), or for a file system that does not answer.
pub const START_TIMEOUT: Duration = Duration::from_secs(5);

/// The time between two checks of starts in progress.
pub(crate) const CHECK_INTERVAL: Duration = SLOW_AFTER;

/// A start, and what follows it.
type Job = Box<dyn FnOnce(&mut Starter) + Send>;

/// The settings of a launcher for its starts.
#[derive(Debug)]
pub struct LauncherSettings {
    /// The number of its threads. Recommended: half as many as there are cores, and at least two.
    ///
    /// One thread reaches most of the start rate of a machine, two nearly all of it, because the programs themselves
    /// need the processor too. The second thread also keeps one slow disk from delaying every script. Starts that hang get further threads.
    pub threads: usize,
    /// The time after which a start is ended: [`START_TIMEOUT`]; a test may want a shorter one.
    pub start_timeout: Duration,
    /// The cgroups of its processes; `None`: they stay in the server's cgroup.
    pub cgroups: Option<Arc<Cgroups>>,
    /// The directory below which are the directories for the temporary files of processes that have one of their own.
    pub temporary_files: PathBuf,
}

/// Starts script processes on its own threads.
///
/// Dropping it finishes the queued starts and joins its threads, but not those whose start hangs. The script processes get SIGKILL when the thread
/// that started them ends (PR_SET_PDEATHSIG), here or because the server died. So drop it last.
pub struct Launcher {
    shared: Arc<Shared>,
    /// Each with its number.
    threads: Mutex<Vec<(usize, JoinHandle<()>)>>,
    null: Arc<OwnedFd>,
    means: Arc<Means>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    queue: StartQueue<Job>,
    /// By the number of the thread.
    watched: Vec<Arc<WatchedStart>>,
    is_closed: bool,
}

/// Says whether a launcher goes on, for a thread that does not have it.
#[derive(Clone)]
pub struct LauncherHealth(Arc<Shared>);

/// A start that could not be completed, and not be ended either, or that has found no place.
pub(crate) struct LostStart {
    pub(crate) label: Label,
    pub(crate) why: LateCause,
}

impl Launcher {
    /// Starts the threads of a launcher without cgroups.
    ///
    /// # Errors
    /// The same as for [`Launcher::start_with`].
    pub fn start(threads: usize) -> io::Result<Launcher> {
        Launcher::start_with(LauncherSettings {
            threads,
            start_timeout: START_TIMEOUT,
            cgroups: None,
            temporary_files: std::env::temp_dir(),
        })
    }

    /// Starts the threads, and removes directories for temporary files that servers of the same user have left behind.
    ///
    /// Call it early: each thread reserves six descriptor numbers for good; only if they are low does a start cost the same with many connections open.
    ///
    /// # Errors
    /// `InvalidInput`: `threads` is 0, the caller's fault. Otherwise the system has no more threads, memory or descriptors.
    pub fn start_with(settings: LauncherSettings) -> io::Result<Launcher> {
        let threads = settings.threads;
        if threads == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let launcher = Launcher {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    queue: StartQueue::new(threads, settings.start_timeout, Instant::now()),
                    watched: Vec::with_capacity(threads),
                    is_closed: false,
                }),
                changed: Condvar::new(),
            }),
            threads: Mutex::new(Vec::with_capacity(threads)),
            null: Arc::new(channels::open_null()?),
            means: Arc::new(Means {
                cgroups: settings.cgroups,
                temporary: TemporaryDirectories::below(&settings.temporary_files),
            }),
        };
        for _ in 0..threads {
            launcher.add_thread()?;
        }
        Ok(launcher)
    }

    fn add_thread(&self) -> io::Result<()> {
        let mut starter = Starter::prepare(&self.null, &self.means)?;
        let number = {
            let mut state = self.shared.lock();
            let number = state.queue.add_thread();
            let watched = Arc::clone(&starter.watched);
            match state.watched.get_mut(number) {
                Some(of_refused) => *of_refused = watched,
                None => state.watched.push(watched),
            }
            number
        };
        let shared = Arc::clone(&self.shared);
        let spawned = thread::Builder::new()
            .name(format!("launcher-{number}"))
            .spawn(move || {
                isolate_thread();
                while let Some(job) = shared.take(number) {
                    // This thread must outlive the panic, because its script processes get SIGKILL when it ends. The panic
                    // hook has reported it, the job answers for its start; it is the caller's fault.
                    let _ = panic::catch_unwind(AssertUnwindSafe(|| job(&mut starter)));
                }
            });
        match spawned {
            Ok(thread) => {
                lock(&self.threads).push((number, thread));
                Ok(())
            }
            Err(error) => {
                self.shared.lock().queue.refuse_thread(number);
                Err(error)
            }
        }
    }

    /// Queues a program. A launcher thread starts it, then calls `done` with the process or the error.
    ///
    /// Never blocks. The queue has no limit of its own: every start is for a slot of a process pool, and those are limited. `done` should only pass the
    /// result on. Signals are blocked while it runs, so it must start neither threads nor processes. If it panics, the launcher continues.
    pub fn launch(&self, program: Program, done: impl FnOnce(Result<Started, LaunchError>) + Send + 'static) {
        let uid = program.credentials.as_ref().map_or_else(own_uid, |user| user.uid);
        let label = Label { number: 0, share: Share::User(uid) };
        self.enqueue(label, move |starter| done(starter.start(program)));
    }

    /// Queues work for a launcher thread, as `launch` does.
    pub(crate) fn enqueue(&self, label: Label, job: impl FnOnce(&mut Starter) + Send + 'static) {
        let job: Job = Box::new(job);
        self.shared.lock().queue.push(label, Instant::now(), job);
        self.shared.changed.notify_one();
    }

    /// Ends the starts that have taken too long, and has others take the places of their threads. Returns those that were given up, and those that
    /// found no place. To be called every [`CHECK_INTERVAL`] while there are any starts. Does not wait for any of them.
    pub(crate) fn check(&self) -> Vec<LostStart> {
        let found = {
            let mut state = self.shared.lock();
            let found = state.queue.check(Instant::now());
            for thread in &found.late {
                state.watched[*thread].kill();
            }
            found
        };
        for _ in 0..found.needed_threads {
            if let Err(error) = self.add_thread() {
                // The starts wait for those that there are.
                tracing::warn!("the launcher cannot have another thread for starts: {error}");
                break;
            }
        }
        self.shared.changed.notify_all();
        let given_up = found
            .given_up
            .into_iter()
            .map(|label| LostStart { label, why: LateCause::GivenUp });
        let refused = found.refused.into_iter().map(|refused| {
            drop(refused.job);
            LostStart {
                label: refused.label,
                why: LateCause::NoPlace { hanging: refused.hanging },
            }
        });
        given_up.chain(refused).collect()
    }

    /// Has every start in progress ended soon.
    pub(crate) fn hurry(&self) {
        self.shared.lock().queue.hurry();
    }

    pub(crate) fn health(&self) -> LauncherHealth {
        LauncherHealth(Arc::clone(&self.shared))
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
        let threads = std::mem::take(&mut *lock(&self.threads));
        // If dropped inside `done`: a thread cannot join itself; it ends when the queue is empty.
        let current = thread::current().id();
        let is_own = |(_, thread): &&(usize, JoinHandle<()>)| thread.thread().id() == current;
        let own = threads.iter().find(is_own).map(|(number, _)| *number);
        loop {
            let state = self.shared.lock();
            let is_awaited = |state: &mut State| state.queue.has_threads_beside(own);
            let waited = self
                .shared
                .changed
                .wait_timeout_while(state, CHECK_INTERVAL, is_awaited);
            let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            drop(state);
            if !waited.timed_out() {
                break;
            }
            drop(self.check());
        }
        for (number, thread) in threads {
            // One whose start hangs is left to itself, until the process ends.
            if self.shared.lock().queue.has_ended(number) {
                // The thread catches the panics of `done`, and does not panic otherwise.
                let _ = thread.join();
            }
        }
    }
}

impl fmt::Debug for Launcher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Launcher")
            .field("threads", &lock(&self.threads).len())
            .field("waiting", &self.shared.lock().queue.waiting())
            .finish()
    }
}

impl LauncherHealth {
    /// Whether starts go on: none hangs but those that were given up, and whose threads others have replaced.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        !self.0.lock().queue.is_stuck(Instant::now())
    }
}

impl fmt::Debug for LauncherHealth {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("LauncherHealth")
    }
}

impl Shared {
    /// Ends the job of a thread, and waits for its next one; `None` when the launcher is closed and no job is left.
    fn take(&self, thread: usize) -> Option<Job> {
        let mut state = self.lock();
        state.queue.finish(thread);
        loop {
            if let Some(job) = state.queue.take(thread, Instant::now()) {
                return Some(job);
            }
            if state.is_closed && state.queue.is_empty() {
                state.queue.end_thread(thread);
                self.changed.notify_all();
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Locks a value. Poisoning is ignored, because no holder can panic with it half-changed.
fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The resources of one launcher thread, reused for every start.
#[derive(Debug)]
pub(crate) struct Starter {
    reserved: ReservedFds,
    cloner: Cloner,
    watched: Arc<WatchedStart>,
    null: Arc<OwnedFd>,
    means: Arc<Means>,
    /// The process id of the launcher: that of the server, if the launcher is in threads of it.
    server: libc::pid_t,
}

impl Starter {
    fn prepare(null: &Arc<OwnedFd>, means: &Arc<Means>) -> io::Result<Starter> {
        Ok(Starter {
            reserved: ReservedFds::reserve(Arc::clone(null))?,
            cloner: Cloner::prepare()?,
            watched: Arc::new(WatchedStart::new()),
            null: Arc::clone(null),
            means: Arc::clone(means),
            server: std::process::id().cast_signed(),
        })
    }

    pub(crate) fn start(&mut self, program: Program) -> Result<Started, LaunchError> {
        let prepared = Prepared::new(&program, &self.means)?;
        let home = owner_variables(&program);
        let mut environment = environment_pointers(&program.environment, prepared.temporary.as_ref())?;
        environment.splice(..0, home.iter().map(|variable| variable.as_ptr()));
        let arguments = program.arguments.iter().map(|argument| argument.as_ptr());
        let arguments: Vec<*const c_char> = arguments.chain([ptr::null()]).collect();
        let limits = program.limits.list();
        let channels_failed = |error: io::Error| LaunchError::of(Stage::Channels, &error);
        let Channels { script, server } = Channels::open(
            program.stdin,
            program.mailbox,
            program.memory,
            program.is_kept,
            &self.null,
        )
        .map_err(channels_failed)?;
        if let Some(user) = &program.credentials {
            script.give_to(user).map_err(channels_failed)?;
        }
        let filled = self.reserved.fill(script.in_order()).map_err(channels_failed)?;
        let numbers = filled.numbers();
        let pointers = prepared.pointers();
        let file_rules = prepared.file_rules(&pointers)?;
        let mut plan = Plan {
            path: program.path.as_ptr(),
            arguments: &arguments,
            environment: &environment,
            directory: program.directory.as_ptr(),
            fds: &numbers,
            fds_end: filled.end(),
            limits: &limits,
            cgroup: prepared.cgroup(),
            private_tmp: prepared.private_tmp(&pointers),
            chroot: prepared.chroot(),
            umask: prepared.confinement.umask.unwrap_or(UMASK),
            priority: prepared.priority(),
            file_rules: file_rules.as_ref(),
            credentials: program.credentials.as_ref(),
            empties_bounding_set: program.credentials.is_some() && *HAS_BOUNDING_SET,
            is_offline: prepared.confinement.is_offline,
            undone: Cell::new(Undone { signals: SignalSet::ALL, is_outside_cgroup: true }),
            server: self.server,
            failure: UnsafeCell::new(None),
        };
        let mut started = child::start(&plan, &mut self.cloner, &self.watched);
        let is_cgroup_refused = matches!(&started, Err(error) if error.stage == Stage::Cgroup);
        let is_without_cgroup = is_cgroup_refused && prepared.can_do_without_cgroup();
        if is_without_cgroup {
            plan.cgroup = None;
            plan.failure = UnsafeCell::new(None);
            started = child::start(&plan, &mut self.cloner, &self.watched);
        }
        let (pid, pidfd) = started?;
        Ok(Started {
            pid,
            pidfd,
            stdin: server.stdin,
            mailbox: server.mailbox,
            stderr: server.stderr,
            cgiplusin: server.cgiplusin,
            read_ends: server.read_ends,
            requests: server.requests,
            cgroup: prepared.cgroup.filter(|_| !is_without_cgroup),
            temporary: prepared.temporary.map(|temporary| temporary.directory),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::end::pidfd::{Exit, reap};
    use crate::start::program::{Mailbox, Stdin};

    #[test]
    fn launcher_threads_block_all_signals_but_the_end_of_a_child() {
        let launcher = Launcher::start(1).unwrap();
        let (sender, received) = std::sync::mpsc::channel();
        let label = Label { number: 0, share: Share::User(0) };
        launcher.enqueue(label, move |_| {
            drop(sender.send(std::fs::read_to_string("/proc/thread-self/status")));
        });
        let status = received.recv_timeout(Duration::from_secs(30)).unwrap().unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
        let is_blocked = |signal: libc::c_int| blocked >> (signal - 1) & 1 == 1;
        assert!(!is_blocked(libc::SIGCHLD));
        for signal in [
            libc::SIGHUP,
            libc::SIGTERM,
            libc::SIGUSR1,
            libc::SIGPIPE,
            libc::SIGRTMAX(),
        ] {
            assert!(is_blocked(signal), "{signal}");
        }
    }

    /// Succeeds in a cgroup whose path ends with a text.
    fn in_cgroup(end: &str) -> Program {
        let text = |text: &str| std::ffi::CString::new(text).unwrap();
        let command = format!("grep -q '^0::.*{end}$' /proc/self/cgroup");
        Program {
            path: text("/bin/sh"),
            arguments: vec![text("sh"), text("-c"), text(&command)],
            environment: b"PATH=/usr/bin:/bin\0".to_vec(),
            directory: text("/"),
            stdin: Stdin::Null,
            mailbox: Mailbox::Stream,
            memory: None,
            is_kept: false,
            run_as: crate::policy::run_as::RunAs::Usual,
            credentials: None,
            limits: crate::confine::limits::ProcessLimits::default(),
            confinement: None,
        }
    }

    fn exit_of(started: &Started) -> Exit {
        let deadline = Timespec::try_from(Duration::from_secs(30)).unwrap();
        let mut pidfd = [PollFd::new(&started.pidfd, PollFlags::IN)];
        assert_eq!(poll(&mut pidfd, Some(&deadline)), Ok(1), "it does not exit");
        reap(started.pidfd.as_fd()).unwrap().unwrap()
    }

    #[test]
    fn a_process_gets_into_its_cgroup_without_clone3_and_does_without_one_that_is_gone() {
        let Ok(cgroups) = Cgroups::open() else {
            return;
        };
        let path = cgroups.path().to_owned();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "whoever opens it can hold its lock");
        let own = path.file_name().unwrap().to_str().unwrap().to_owned();
        let null = Arc::new(channels::open_null().unwrap());
        let means = Arc::new(Means {
            cgroups: Some(cgroups),
            temporary: TemporaryDirectories::below(Path::new("/nowhere")),
        });
        for has_clone3 in [true, false] {
            let mut starter = Starter::prepare(&null, &means).unwrap();
            if !has_clone3 {
                starter.cloner.forget_clone3();
            }
            let started = starter.start(in_cgroup(&format!("{own}/[0-9]*/script"))).unwrap();
            assert_eq!(exit_of(&started), Exit::Code(0), "clone3: {has_clone3}");
            let cgroup = started.cgroup.as_ref().unwrap();
            assert!(!cgroup.has_processes());
            drop(started);
            // It is used again; now it is gone.
            for entry in std::fs::read_dir(&path).unwrap().flatten() {
                let _ = std::fs::remove_dir(entry.path().join("script"));
                let _ = std::fs::remove_dir(entry.path());
            }
            let started = starter.start(in_cgroup("")).unwrap();
            assert_eq!(exit_of(&started), Exit::Code(0), "clone3: {has_clone3}");
            assert!(started.cgroup.is_none());
        }
    }
}
