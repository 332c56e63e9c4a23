//! The threads that start script processes, fed by one queue.
//!
//! A start holds its thread until the program runs (`child`): an event loop must not stand still for that, so it hands
//! the program over and is called back.

use std::cell::{Cell, UnsafeCell};
use std::collections::VecDeque;
use std::ffi::c_char;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::channels::{self, Channels};
use crate::child::{self, Plan};
use crate::clone::{Cloner, SignalSet};
use crate::message::{LaunchError, Program, Stage, Started};
use crate::slots::Slots;

type Done = Box<dyn FnOnce(Result<Started, LaunchError>) + Send>;

/// Starts script processes on threads of its own.
///
/// Dropped, it finishes what it was given and joins its threads. Its script processes are tied to those threads: they
/// get SIGKILL when the threads end, be it here, or because the server died. So drop it last.
pub struct Launcher {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

impl Launcher {
    /// Starts the threads. Half as many as there are cores is good, and at least two.
    ///
    /// One thread makes most of the starts that a machine can make, two nearly all (the programs themselves need the
    /// rest); the second is also there so that one slow disk does not hold up every script.
    ///
    /// To be called early: each thread takes five descriptor numbers for good, and low ones are what makes a start cost
    /// the same however many connections are open.
    ///
    /// # Errors
    /// No threads asked for (`InvalidInput`), or the system has no more threads, memory or descriptors.
    pub fn start(threads: usize) -> io::Result<Launcher> {
        if threads == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let null = Arc::new(channels::open_null()?);
        let mut launcher = Launcher {
            queue: Arc::default(),
            threads: Vec::with_capacity(threads),
        };
        for number in 0..threads {
            let mut starter = Starter::prepare(&null)?;
            let queue = Arc::clone(&launcher.queue);
            let thread = thread::Builder::new()
                .name(format!("launcher-{number}"))
                .spawn(move || {
                    isolate_thread();
                    while let Some(job) = queue.take() {
                        job.perform(&mut starter);
                    }
                })?;
            launcher.threads.push(thread);
        }
        Ok(launcher)
    }

    /// Starts a program and calls `done`, on a launcher thread, with the process or the reason that there is none.
    ///
    /// Never blocks. The queue has no bound of its own: every start is for a place in a pool, and those are counted.
    /// `done` should only pass the result on. Signals are blocked while it runs, so it must start neither threads nor
    /// processes; if it panics, the launcher goes on.
    pub fn launch(&self, program: Program, done: impl FnOnce(Result<Started, LaunchError>) + Send + 'static) {
        let job = Job {
            program,
            done: Box::new(done),
        };
        self.queue.lock().jobs.push_back(job);
        self.queue.changed.notify_one();
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.changed.notify_all();
        let me = thread::current().id();
        for thread in self.threads.drain(..) {
            // Dropped inside `done`: a thread cannot wait for itself, and ends by itself.
            if thread.thread().id() != me {
                // It catches the panics of `done`, and has none of its own.
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

/// What one launcher thread keeps from start to start.
#[derive(Debug)]
struct Starter {
    slots: Slots,
    cloner: Cloner,
    null: Arc<OwnedFd>,
    /// The process that this is.
    server: libc::pid_t,
}

impl Starter {
    fn prepare(null: &Arc<OwnedFd>) -> io::Result<Starter> {
        Ok(Starter {
            slots: Slots::reserve(Arc::clone(null))?,
            cloner: Cloner::prepare()?,
            null: Arc::clone(null),
            server: std::process::id().cast_signed(),
        })
    }

    /// One start, from the request to the running program.
    fn start(&mut self, program: Program) -> Result<Started, LaunchError> {
        let environment = environment_pointers(&program.environment)?;
        let arguments: Vec<*const c_char> = program
            .arguments
            .iter()
            .map(|argument| argument.as_ptr())
            .chain([ptr::null()])
            .collect();
        let limits = program.limits.list();
        let Channels { script, server } = Channels::open(program.stdin, program.mailbox, program.memory, &self.null)
            .map_err(|error| failed(Stage::Channels, &error))?;
        let filled = self
            .slots
            .fill(script.in_order())
            .map_err(|error| failed(Stage::Channels, &error))?;
        let slots = filled.numbers();
        let plan = Plan {
            path: program.path.as_ptr(),
            arguments: &arguments,
            environment: &environment,
            directory: program.directory.as_ptr(),
            slots,
            beyond_slots: filled.beyond(),
            limits: &limits,
            credentials: program.credentials.as_ref(),
            signals_to_reset: Cell::new(SignalSet::ALL),
            server: self.server,
            failure: UnsafeCell::new(None),
        };
        let (pid, pidfd) = child::start(&plan, &mut self.cloner)?;
        Ok(Started {
            pid,
            pidfd,
            stdin: server.stdin,
            mailbox: server.mailbox,
            stderr: server.stderr,
            cgiplusin: server.cgiplusin,
        })
    }
}

/// A program and whom to tell.
struct Job {
    program: Program,
    done: Done,
}

impl Job {
    fn perform(self, starter: &mut Starter) {
        let result = starter.start(self.program);
        let done = self.done;
        // This thread may not end before the server does: its script processes would end with it. The panic has been
        // reported by the hook; it is the caller's.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| done(result)));
    }
}

/// What waits for a launcher thread.
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
    /// The next job, waited for; `None` when the queue is closed and empty.
    fn take(&self) -> Option<Job> {
        let mut state = self
            .changed
            .wait_while(self.lock(), |state| state.jobs.is_empty() && !state.is_closed)
            .unwrap_or_else(PoisonError::into_inner);
        state.jobs.pop_front()
    }

    /// No panic can happen under this lock and leave the queue half-changed.
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the children of this thread must not inherit from it.
fn isolate_thread() {
    // Signals: one that is handled between the clone and the child's own dispositions would run the server's handler in
    // the child. Blocked here for good, not around each clone: other threads take the process's signals. The C library
    // leaves out the two that it needs itself.
    // SAFETY: a signal set is plain data; both calls write and read this one only.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut());
    }
    // Ambient capabilities, such as the right to bind port 80 that a service manager gave the server: they pass to
    // every program that is executed (capabilities(7)). A kernel without them refuses, which is as good.
    // SAFETY: takes numbers only, and concerns this thread only.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
}

/// The list that execve(2) takes: a pointer to each entry, and a null pointer.
///
/// Refuses (`EINVAL`) what is not made of `NAME=value` and a NUL each: an empty entry is a NUL inside another.
fn environment_pointers(environment: &[u8]) -> Result<Vec<*const c_char>, LaunchError> {
    let mut pointers = Vec::with_capacity(64);
    for entry in environment.split_inclusive(|&byte| byte == 0) {
        let is_entry = entry.ends_with(&[0]) && entry.first() != Some(&b'=') && entry.contains(&b'=');
        if !is_entry {
            return Err(LaunchError {
                stage: Stage::Environment,
                errno: libc::EINVAL,
            });
        }
        pointers.push(entry.as_ptr().cast());
    }
    pointers.push(ptr::null());
    Ok(pointers)
}

fn failed(stage: Stage, error: &io::Error) -> LaunchError {
    LaunchError {
        stage,
        errno: error.raw_os_error().unwrap_or(0),
    }
}
