//! The threads that start script processes, fed by one queue.
//!
//! A start blocks its thread until the program runs (`child`). An event loop must not block for that, so it queues the
//! program and gets a callback.

use std::cell::{Cell, UnsafeCell};
use std::collections::VecDeque;
use std::ffi::{CString, c_char};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::confine::cgroup::Cgroups;
use crate::confine::privileges::has_bounding_set;
use crate::confine::temporary::TemporaryDirectories;
use crate::start::channels::{self, Channels};
use crate::start::child::{self, Plan};
use crate::start::clone::{Cloner, SignalSet, Undone};
use crate::start::launch_error::{LaunchError, Stage};
use crate::start::prepared::{Means, Prepared, Temporary};
use crate::start::program::{Program, Started};
use crate::start::reserved_fds::ReservedFds;
use crate::users::accounts::account_by_number;
use crate::users::run_as::RunAs;

/// Whether programs with another user could get capabilities; otherwise the launcher has given them up before its first start.
static HAS_BOUNDING_SET: LazyLock<bool> = LazyLock::new(has_bounding_set);

/// A start, and what follows it.
type Job = Box<dyn FnOnce(&mut Starter) + Send>;

/// The settings of a launcher for its starts.
#[derive(Debug)]
pub struct LauncherSettings {
    /// The number of its threads. Recommended: half as many as there are cores, and at least two.
    ///
    /// One thread reaches most of the start rate of a machine, two nearly all of it, because the programs themselves
    /// need the processor too. The second thread also keeps one slow disk from delaying every script.
    pub threads: usize,
    /// The cgroups of its processes; `None`: they stay in the server's cgroup.
    pub cgroups: Option<Arc<Cgroups>>,
    /// The directory below which are the directories for the temporary files of processes that have one of their own.
    pub temporary_files: PathBuf,
}

/// Starts script processes on its own threads.
///
/// Dropping it finishes the queued starts and joins its threads. The script processes get SIGKILL when the thread that
/// started them ends (PR_SET_PDEATHSIG), here or because the server died. So drop it last.
pub struct Launcher {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

impl Launcher {
    /// Starts the threads of a launcher without cgroups.
    ///
    /// # Errors
    /// The same as for [`Launcher::start_with`].
    pub fn start(threads: usize) -> io::Result<Launcher> {
        Launcher::start_with(LauncherSettings {
            threads,
            cgroups: None,
            temporary_files: std::env::temp_dir(),
        })
    }

    /// Starts the threads, and removes directories for temporary files that servers of the same user have left behind.
    ///
    /// Call it early: each thread reserves five descriptor numbers permanently, and only if they are low does a start
    /// cost the same however many connections are open.
    ///
    /// # Errors
    /// `InvalidInput`: `threads` is 0, the caller's fault. Otherwise the system has no more threads, memory or
    /// descriptors.
    pub fn start_with(settings: LauncherSettings) -> io::Result<Launcher> {
        let threads = settings.threads;
        if threads == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let means = Arc::new(Means {
            cgroups: settings.cgroups,
            temporary: TemporaryDirectories::below(&settings.temporary_files),
        });
        let null = Arc::new(channels::open_null()?);
        let mut launcher = Launcher {
            queue: Arc::default(),
            threads: Vec::with_capacity(threads),
        };
        for number in 0..threads {
            let mut starter = Starter::prepare(&null, &means)?;
            let queue = Arc::clone(&launcher.queue);
            let thread = thread::Builder::new()
                .name(format!("launcher-{number}"))
                .spawn(move || {
                    isolate_thread();
                    while let Some(job) = queue.take() {
                        // This thread must outlive the panic, because its script processes get SIGKILL when it ends. The panic
                        // hook has reported it; it is the caller's fault.
                        let _ = panic::catch_unwind(AssertUnwindSafe(|| job(&mut starter)));
                    }
                })?;
            launcher.threads.push(thread);
        }
        Ok(launcher)
    }

    /// Queues a program. A launcher thread starts it, then calls `done` with the process or the error.
    ///
    /// Never blocks. The queue has no limit of its own, because every start is for a slot of a process pool and those
    /// are limited. `done` should only pass the result on. Signals are blocked while it runs, so it must start neither
    /// threads nor processes. If it panics, the launcher continues.
    pub fn launch(&self, program: Program, done: impl FnOnce(Result<Started, LaunchError>) + Send + 'static) {
        self.enqueue(move |starter| done(starter.start(program)));
    }

    /// Queues work for a launcher thread, as `launch` does.
    pub(crate) fn enqueue(&self, job: impl FnOnce(&mut Starter) + Send + 'static) {
        self.queue.lock().jobs.push_back(Box::new(job));
        self.queue.changed.notify_one();
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.changed.notify_all();
        let current = thread::current().id();
        for thread in self.threads.drain(..) {
            // If dropped inside `done`: a thread cannot join itself; it ends when the queue is empty.
            if thread.thread().id() != current {
                // The thread catches the panics of `done`, and does not panic otherwise.
                let _ = thread.join();
            }
        }
    }
}

impl fmt::Debug for Launcher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Launcher")
            .field("threads", &self.threads.len())
            .field("waiting", &self.queue.lock().jobs.len())
            .finish()
    }
}

/// The resources of one launcher thread, reused for every start.
#[derive(Debug)]
pub(crate) struct Starter {
    reserved: ReservedFds,
    cloner: Cloner,
    null: Arc<OwnedFd>,
    means: Arc<Means>,
    /// The server's process id.
    server: libc::pid_t,
}

impl Starter {
    fn prepare(null: &Arc<OwnedFd>, means: &Arc<Means>) -> io::Result<Starter> {
        Ok(Starter {
            reserved: ReservedFds::reserve(Arc::clone(null))?,
            cloner: Cloner::prepare()?,
            null: Arc::clone(null),
            means: Arc::clone(means),
            server: std::process::id().cast_signed(),
        })
    }

    /// Starts one program; returns when it runs or has failed to start.
    pub(crate) fn start(&mut self, program: Program) -> Result<Started, LaunchError> {
        let prepared = Prepared::new(&program, &self.means)?;
        let home = owner_variables(&program);
        let mut environment = environment_pointers(&program.environment, prepared.temporary.as_ref())?;
        environment.splice(..0, home.iter().map(|variable| variable.as_ptr()));
        let arguments: Vec<*const c_char> = program
            .arguments
            .iter()
            .map(|argument| argument.as_ptr())
            .chain([ptr::null()])
            .collect();
        let limits = program.limits.list();
        let Channels { script, server } = Channels::open(program.stdin, program.mailbox, program.memory, &self.null)
            .map_err(|error| failed(Stage::Channels, &error))?;
        if let Some(user) = &program.credentials {
            script.give_to(user).map_err(|error| failed(Stage::Channels, &error))?;
        }
        let filled = self
            .reserved
            .fill(script.in_order())
            .map_err(|error| failed(Stage::Channels, &error))?;
        let pointers = prepared.pointers();
        let file_rules = prepared.file_rules(&pointers)?;
        let mut plan = Plan {
            path: program.path.as_ptr(),
            arguments: &arguments,
            environment: &environment,
            directory: program.directory.as_ptr(),
            fds: filled.numbers(),
            fds_end: filled.end(),
            limits: &limits,
            cgroup: prepared.cgroup(),
            private_tmp: prepared.private_tmp(&pointers),
            chroot: prepared.chroot(),
            umask: prepared.umask(),
            priority: prepared.priority(),
            file_rules: file_rules.as_ref(),
            credentials: program.credentials.as_ref(),
            empties_bounding_set: program.credentials.is_some() && *HAS_BOUNDING_SET,
            is_offline: prepared.is_offline(),
            undone: Cell::new(Undone {
                signals: SignalSet::ALL,
                is_outside_cgroup: true,
            }),
            server: self.server,
            failure: UnsafeCell::new(None),
        };
        let mut started = child::start(&plan, &mut self.cloner);
        let is_cgroup_refused = matches!(&started, Err(error) if error.stage == Stage::Cgroup);
        let is_without_cgroup = is_cgroup_refused && prepared.can_do_without_cgroup();
        if is_without_cgroup {
            plan.cgroup = None;
            plan.failure = UnsafeCell::new(None);
            started = child::start(&plan, &mut self.cloner);
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
            cgroup: prepared.cgroup.filter(|_| !is_without_cgroup),
            temporary: prepared.temporary.map(|temporary| temporary.directory),
        })
    }
}

/// The starts that wait for a launcher thread.
#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

impl Queue {
    /// Waits for the next job; `None` when the queue is closed and empty.
    fn take(&self) -> Option<Job> {
        let mut state = self
            .changed
            .wait_while(self.lock(), |state| state.jobs.is_empty() && !state.is_closed)
            .unwrap_or_else(PoisonError::into_inner);
        state.jobs.pop_front()
    }

    /// Locks the state. Poisoning is ignored, because no holder can panic with the queue half-changed.
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Blocks signals and drops ambient capabilities on this thread, because its children must not inherit them.
fn isolate_thread() {
    // A signal that arrives between the clone and the child's reset of dispositions would run the server's handler in
    // the child. They are blocked permanently, not around each clone: other threads receive the process's signals. The
    // C library leaves out the two that it needs itself. SIGCHLD without a handler stays unblocked: the kernel then
    // discards it, but a blocked one interrupts another thread at the end of each script (`sig_ignored` in kernel/signal.c).
    // SAFETY: a signal set is plain data; both calls write and read this one only.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        if has_default_effect(libc::SIGCHLD) {
            libc::sigdelset(&raw mut all, libc::SIGCHLD);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut());
    }
    // Ambient capabilities, such as the right to bind port 80 that a service manager gave the server, pass to every
    // executed program (capabilities(7)). A kernel without them returns an error, which needs no handling.
    // SAFETY: takes numbers only, and concerns this thread only.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
}

/// Whether a signal has its default effect in this process.
fn has_default_effect(signal: libc::c_int) -> bool {
    // SAFETY: an action is plain data, which the kernel writes.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_DFL
    }
}

/// The list that execve(2) takes: a pointer to each entry, then a null pointer.
///
/// An entry that is not `NAME=value` and a NUL is refused with `EINVAL`. That includes an empty entry, the sign of a
/// NUL inside a value. A directory for temporary files takes the place of another TMPDIR.
fn environment_pointers(environment: &[u8], temporary: Option<&Temporary>) -> Result<Vec<*const c_char>, LaunchError> {
    let mut pointers = Vec::with_capacity(64);
    let variable = temporary.map(|temporary| temporary.variable.as_slice());
    pointers.extend(variable.map(|variable| variable.as_ptr().cast()));
    for entry in environment.split_inclusive(|&byte| byte == 0) {
        let is_entry = entry.ends_with(&[0]) && entry.first() != Some(&b'=') && entry.contains(&b'=');
        if !is_entry {
            return Err(LaunchError {
                stage: Stage::Environment,
                errno: libc::EINVAL,
            });
        }
        if variable.is_none() || !entry.starts_with(b"TMPDIR=") {
            pointers.push(entry.as_ptr().cast());
        }
    }
    pointers.push(ptr::null());
    Ok(pointers)
}

/// HOME, USER and LOGNAME of a program that runs as the owner of its file, because only this process knows the owner. Variables that its
/// environment has are kept.
fn owner_variables(program: &Program) -> Vec<CString> {
    let (RunAs::Owner(_), Some(user)) = (&program.run_as, &program.credentials) else {
        return Vec::new();
    };
    let values = match account_by_number(user.uid) {
        Some(account) => vec![
            ("HOME=", account.home),
            ("USER=", account.name.clone()),
            ("LOGNAME=", account.name),
        ],
        None => vec![("HOME=", b"/".to_vec())],
    };
    let entries = || program.environment.split(|byte| *byte == 0);
    let missing = values
        .iter()
        .filter(|(start, _)| !entries().any(|entry| entry.starts_with(start.as_bytes())));
    missing
        .filter_map(|(start, value)| CString::new([start.as_bytes(), value].concat()).ok())
        .collect()
}

fn failed(stage: Stage, error: &io::Error) -> LaunchError {
    LaunchError {
        stage,
        errno: error.raw_os_error().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::path::Path;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::end::pidfd::{Exit, reap};
    use crate::start::program::{Mailbox, Stdin};

    #[test]
    fn launcher_threads_block_all_signals_but_the_end_of_a_child() {
        let launcher = Launcher::start(1).unwrap();
        let (sender, received) = std::sync::mpsc::channel();
        launcher.enqueue(move |_| drop(sender.send(std::fs::read_to_string("/proc/thread-self/status"))));
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
            run_as: crate::users::run_as::RunAs::Usual,
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
            let started = starter.start(in_cgroup(&format!("{own}/[0-9]*"))).unwrap();
            assert_eq!(exit_of(&started), Exit::Code(0), "clone3: {has_clone3}");
            let cgroup = started.cgroup.as_ref().unwrap();
            assert!(!cgroup.has_processes());
            drop(started);
            // It is used again; now it is gone.
            for entry in std::fs::read_dir(&path).unwrap().flatten() {
                let _ = std::fs::remove_dir(entry.path());
            }
            let started = starter.start(in_cgroup("")).unwrap();
            assert_eq!(exit_of(&started), Exit::Code(0), "clone3: {has_clone3}");
            assert!(started.cgroup.is_none());
        }
    }
}
