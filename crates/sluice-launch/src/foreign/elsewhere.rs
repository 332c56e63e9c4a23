//! Operations that may wait for a foreign process for as long as it wishes: each on a thread that may be lost to it.
//!
//! A user has a few threads at once; what else is done for that user waits behind them, so operations for one user delay none for another.
//! An operation that hangs is left alone. Beyond the bounds operations are not done at all: what they hold, such as a descriptor, stays
//! with this process until it ends. Lookups of files have threads and bounds of their own, and are refused beyond them, because somebody waits
//! for each. Here: threads, shares and counts. Not here: what is done (`received`, and the callers).

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::foreign::option::{NO_LINGER, set_option};

/// Operations for one user at once.
const AT_ONCE: usize = 4;

/// Operations for one user that wait behind them. Further ones are not done.
const WAITING_MAX: usize = 4096;

/// Lookups and reads of one share at once. A file system of another machine that answers needs several, because each waits for the network.
const LOOKUPS_AT_ONCE: usize = 8;

/// Lookups and reads of one share that wait behind them.
const LOOKUPS_WAITING_MAX: usize = 256;

/// Threads of each of the two kinds, whatever the number of users.
const THREADS_MAX: usize = 128;

/// How long a thread waits for another operation.
const IDLE: Duration = Duration::from_secs(10);

/// The number of a user that is not known.
pub const UNKNOWN_USER: u32 = u32::MAX;

type Operation = Box<dyn FnOnce() + Send>;

/// The threads that close descriptors.
static POOL: Pool = Pool::new("elsewhere", AT_ONCE, WAITING_MAX);

/// The threads that look up and read files.
static LOOKUPS: Pool = Pool::new("lookups", LOOKUPS_AT_ONCE, LOOKUPS_WAITING_MAX);

struct Pool {
    /// Made with the first operation.
    state: Mutex<Option<State>>,
    work: Condvar,
    /// The name of its threads.
    name: &'static str,
    /// Operations of one share that run at once, and that wait.
    at_once: usize,
    waiting_max: usize,
}

#[derive(Default)]
struct State {
    shares: HashMap<u64, Share>,
    /// Operations that the next free thread begins, within their shares.
    next: VecDeque<(u64, Operation)>,
    threads: usize,
    /// Threads without an operation.
    free: usize,
    /// Operations that were not done.
    lost: u64,
}

/// The operations for one user, or of one file system.
#[derive(Default)]
struct Share {
    /// The number of those that run.
    running: usize,
    /// The number of those in `next`.
    admitted: usize,
    waiting: VecDeque<Operation>,
    /// Whether somebody has waited in vain since an operation last ended.
    is_silent: bool,
}

/// Does something for a user on another thread, because it may wait for a process of that user. Never waits.
///
/// Beyond the bounds it is not done, and what it holds stays with this process.
pub fn do_elsewhere(user: u32, operation: impl FnOnce() + Send + 'static) {
    let Err(Refused { operation, is_first }) = POOL.begin(user.into(), Box::new(operation)) else {
        return;
    };
    // Dropping it could wait here.
    std::mem::forget(operation);
    if is_first {
        tracing::error!(
            "user {user} keeps {WAITING_MAX} descriptors from being closed: further ones stay open until this process ends"
        );
    }
}

/// Closes a file on another thread, because its file system may not answer. `share` is as for `look_elsewhere`. Never waits.
pub fn close_file_elsewhere(share: u64, file: OwnedFd) {
    let Err(Refused { operation, is_first }) = POOL.begin(share, Box::new(move || drop(file))) else {
        return;
    };
    // Dropping it could wait here.
    std::mem::forget(operation);
    if is_first {
        tracing::error!(
            "a file system keeps {WAITING_MAX} files from being closed: further ones stay open until this process ends"
        );
    }
}

/// Looks up or reads a file on another thread, because its file system may be served by a process or machine that does not answer. `share` is
/// a number for those who can keep it from answering: a user, or a file system. Never waits.
///
/// # Errors
/// It is not done: too many of this share wait, or all its threads have waited in vain (`note_silence`).
pub fn look_elsewhere(share: u64, operation: impl FnOnce() + Send + 'static) -> Result<(), Silent> {
    LOOKUPS.begin(share, Box::new(operation)).map_err(|_| Silent)
}

/// Notes that somebody has waited in vain for an operation of a share. While all its threads are occupied, others are refused at once, until one
/// of them ends.
pub fn note_silence(share: u64) {
    if let Some(share) = LOOKUPS.lock().as_mut().and_then(|state| state.shares.get_mut(&share)) {
        share.is_silent = true;
    }
}

/// The error that an operation is not done, because those before it wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silent;

/// An operation beyond the bounds; whether it is the first one of its pool.
struct Refused {
    operation: Operation,
    is_first: bool,
}

/// Closes descriptors from a process of a user on another thread. A socket does not linger then, unless the process has it linger again.
pub fn close_elsewhere(user: u32, descriptors: impl IntoIterator<Item = OwnedFd>) {
    let descriptors: Vec<OwnedFd> = descriptors.into_iter().collect();
    if !descriptors.is_empty() {
        do_elsewhere(user, move || descriptors.into_iter().for_each(close_foreign));
    }
}

/// Closes a descriptor of a foreign object, on the calling thread, which may wait. A socket does not linger.
pub(crate) fn close_foreign(descriptor: OwnedFd) {
    // Another file than a socket has no such option.
    set_option(descriptor.as_fd(), libc::SO_LINGER, NO_LINGER);
    drop(descriptor);
}

impl Pool {
    const fn new(name: &'static str, at_once: usize, waiting_max: usize) -> Pool {
        Pool {
            state: Mutex::new(None),
            work: Condvar::new(),
            name,
            at_once,
            waiting_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&'static self, user: u64, operation: Operation) -> Result<(), Refused> {
        let mut guard = self.lock();
        let state = guard.get_or_insert_default();
        let share = state.shares.entry(user).or_default();
        if share.running + share.admitted >= self.at_once {
            if share.waiting.len() < self.waiting_max && !share.is_silent {
                share.waiting.push_back(operation);
                return Ok(());
            }
            state.lost += 1;
            let is_first = state.lost == 1;
            return Err(Refused { operation, is_first });
        }
        share.admitted += 1;
        state.next.push_back((user, operation));
        if state.next.len() > state.free && state.threads < THREADS_MAX {
            state.threads += 1;
            drop(guard);
            self.spawn();
        } else {
            drop(guard);
            self.work.notify_one();
        }
        Ok(())
    }

    fn spawn(&'static self) {
        let spawned: io::Result<_> = thread::Builder::new().name(self.name.into()).spawn(|| self.work());
        if let Err(error) = spawned {
            // What waits is done when another thread is free, or with the next operation.
            tracing::warn!("a thread for what may wait: {error}");
            if let Some(state) = self.lock().as_mut() {
                state.threads -= 1;
            }
        }
    }

    /// The work of a thread.
    fn work(&self) {
        while let Some((user, operation)) = self.next() {
            operation();
            self.end(user);
        }
    }

    /// The next operation. `None` if there was nothing to do for a while; then the thread is no longer counted.
    fn next(&self) -> Option<(u64, Operation)> {
        let mut guard = self.lock();
        loop {
            let state = guard.get_or_insert_default();
            if let Some((user, operation)) = state.next.pop_front() {
                let share = state.shares.entry(user).or_default();
                share.admitted = share.admitted.saturating_sub(1);
                share.running += 1;
                return Some((user, operation));
            }
            state.free += 1;
            let (again, waited) = self
                .work
                .wait_timeout(guard, IDLE)
                .unwrap_or_else(PoisonError::into_inner);
            guard = again;
            let state = guard.get_or_insert_default();
            state.free -= 1;
            if waited.timed_out() && state.next.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }

    /// Ends an operation, and admits the next one for the same user.
    fn end(&self, user: u64) {
        let mut guard = self.lock();
        let Some(state) = guard.as_mut() else { return };
        let Some(share) = state.shares.get_mut(&user) else {
            return;
        };
        share.running = share.running.saturating_sub(1);
        share.is_silent = false;
        if let Some(operation) = share.waiting.pop_front() {
            share.admitted += 1;
            state.next.push_back((user, operation));
        } else if share.running == 0 && share.admitted == 0 {
            state.shares.remove(&user);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// The operations for a user that run or wait.
    fn held(user: u32) -> usize {
        let guard = POOL.lock();
        let share = guard.as_ref().and_then(|state| state.shares.get(&user.into()));
        share.map_or(0, |share| share.running + share.waiting.len())
    }

    fn lost() -> u64 {
        POOL.lock().as_ref().map_or(0, |state| state.lost)
    }

    /// Begins operations that last until the sender is dropped; returns when `AT_ONCE` of them run.
    fn block(user: u32, operations: usize) -> Sender<()> {
        let (end, ended) = channel();
        let ended = std::sync::Arc::new(Mutex::new(ended));
        let (begin, begun) = channel();
        for _ in 0..operations {
            let (begin, ended) = (begin.clone(), std::sync::Arc::clone(&ended));
            do_elsewhere(user, move || {
                // The test awaits the first ones only.
                let _ = begin.send(());
                let ended: MutexGuard<'_, Receiver<()>> = ended.lock().unwrap_or_else(PoisonError::into_inner);
                assert!(ended.recv().is_err());
            });
        }
        for _ in 0..AT_ONCE.min(operations) {
            begun.recv().expect("each begins");
        }
        end
    }

    fn is_done_for(user: u32) {
        let (done, wait) = channel();
        do_elsewhere(user, move || done.send(()).expect("the test waits"));
        wait.recv().expect("it is done");
    }

    #[test]
    fn what_hangs_for_one_user_delays_nobody_else_and_is_counted() {
        const ONE: u32 = 4_000_000_001;
        const OTHER: u32 = 4_000_000_002;
        let end = block(ONE, AT_ONCE + 3);
        is_done_for(OTHER);
        assert_eq!(held(ONE), AT_ONCE + 3);
        drop(end);
        is_done_for(ONE);
    }

    #[test]
    fn lookups_of_a_silent_share_are_refused_until_one_of_them_ends() {
        const ONE: u64 = 4_000_000_005;
        const OTHER: u64 = 4_000_000_006;
        let (end, ended) = channel::<()>();
        let ended = std::sync::Arc::new(Mutex::new(ended));
        let look = |done: Sender<()>| {
            let ended = std::sync::Arc::clone(&ended);
            look_elsewhere(ONE, move || {
                done.send(()).expect("the test waits");
                let _ = ended.lock().unwrap_or_else(PoisonError::into_inner).recv();
            })
        };
        let (begin, begun) = channel();
        for _ in 0..LOOKUPS_AT_ONCE {
            assert_eq!(look(begin.clone()), Ok(()));
        }
        begun.iter().take(LOOKUPS_AT_ONCE).for_each(drop);
        assert_eq!(look_elsewhere(ONE, || ()), Ok(()), "it waits");
        note_silence(ONE);
        assert_eq!(look_elsewhere(ONE, || ()), Err(Silent));
        let (done, wait) = channel();
        assert_eq!(
            look_elsewhere(OTHER, move || done.send(()).expect("the test waits")),
            Ok(())
        );
        wait.recv().expect("it is done");
        end.send(()).expect("one waits");
        let (done, wait) = channel();
        while let Err(Silent) = look_elsewhere(ONE, {
            let done = done.clone();
            move || done.send(()).expect("the test waits")
        }) {
            thread::yield_now();
        }
        drop(end);
        wait.recv().expect("it is done");
    }

    #[test]
    fn beyond_the_bound_operations_are_not_done_and_are_counted() {
        const ONE: u32 = 4_000_000_003;
        let end = block(ONE, AT_ONCE);
        let before = lost();
        let (done, results) = channel();
        for number in 0..=WAITING_MAX {
            let done = done.clone();
            do_elsewhere(ONE, move || done.send(number).expect("the test waits"));
        }
        assert_eq!(lost(), before + 1);
        drop(end);
        let mut done: Vec<usize> = results.iter().take(WAITING_MAX).collect();
        done.sort_unstable();
        assert!(done.into_iter().eq(0..WAITING_MAX));
        is_done_for(ONE);
    }
}
