//! Threads for operations that may wait for a process of a user for as long as that process wishes: each on a thread that may be lost to it.
//!
//! A share is a user, or a file system. It has a few threads at once; what else is done for it waits behind them, so operations of one share delay none
//! of another. An operation that hangs is left alone. A user or file system may have many shares, one for each path: all of them together have a part of
//! the threads, and what they do beyond that waits.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a thread waits for another operation.
const IDLE: Duration = Duration::from_secs(10);

const STACK_BYTES: usize = 512 << 10;

pub(crate) type Operation = Box<dyn FnOnce() + Send>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) name: &'static str,
    /// Operations of one share at once.
    pub(crate) at_once: usize,
    /// Operations of one share that wait behind them. Further ones are refused.
    pub(crate) waiting_max: usize,
    /// Threads, whatever the number of shares.
    pub(crate) threads_max: usize,
    /// Operations of all shares of one holder at once.
    pub(crate) of_holder_max: usize,
    /// Threads that stay without an operation, because the system may refuse new ones (RLIMIT_NPROC).
    pub(crate) kept: usize,
}

/// A share, and who can keep its operations from ending, a user or file system, who may have several shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) share: u64,
    pub(crate) holder: u64,
}

impl From<u64> for Held {
    /// The share of a holder who has no other.
    fn from(share: u64) -> Held {
        Held { share, holder: share }
    }
}

/// Threads that are started when there is something to do.
#[derive(Clone)]
pub(crate) struct UserThreads(Arc<Shared>);

struct Shared {
    bounds: Bounds,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    shares: HashMap<u64, Share>,
    holders: HashMap<u64, Holder>,
    /// Operations that the next free thread begins, within their shares.
    next: VecDeque<(Held, Operation)>,
    threads: usize,
    /// Threads without an operation.
    free: usize,
}

/// The operations for one user, or of one file system.
#[derive(Default)]
struct Share {
    running: usize,
    /// The number of those in `next`.
    admitted: usize,
    waiting: VecDeque<Operation>,
    /// Whether somebody has waited in vain since an operation last ended.
    is_silent: bool,
}

/// The operations of all shares of one holder.
#[derive(Default)]
struct Holder {
    /// The number of those in `next` and of those that run.
    admitted: usize,
    /// Operations that their shares have admitted.
    waiting: VecDeque<(Held, Operation)>,
}

impl UserThreads {
    /// Starts no thread yet.
    pub(crate) fn new(bounds: Bounds) -> UserThreads {
        UserThreads(Arc::new(Shared {
            bounds,
            state: Mutex::default(),
            work: Condvar::new(),
        }))
    }

    /// Does something. Never waits. Gives the operation back if too many of this share wait, or all its threads have waited in vain. Dropping it may wait.
    pub(crate) fn begin(&self, of: impl Into<Held>, operation: Operation) -> Result<(), Operation> {
        let (bounds, of) = (self.0.bounds, of.into());
        let mut state = self.0.lock();
        let held = state.shares.entry(of.share).or_default();
        if held.running + held.admitted >= bounds.at_once {
            if held.waiting.len() >= bounds.waiting_max || held.is_silent {
                return Err(operation);
            }
            held.waiting.push_back(operation);
            return Ok(());
        }
        held.admitted += 1;
        state.admit(of, operation, bounds.of_holder_max);
        self.0.see_to_threads(state);
        Ok(())
    }

    /// Starts the threads that stay.
    pub(crate) fn prepare(&self) {
        loop {
            let mut state = self.0.lock();
            if state.threads >= self.0.bounds.kept {
                return;
            }
            state.threads += 1;
            drop(state);
            if !self.0.start_thread() {
                return;
            }
        }
    }

    /// Notes that somebody has waited in vain for a share. While all its threads are occupied, others are refused at once, until one of them ends.
    pub(crate) fn note_silence(&self, share: u64) {
        if let Some(held) = self.0.lock().shares.get_mut(&share) {
            held.is_silent = true;
        }
    }

    /// Starts threads that could not be started before. To be called now and then by whoever cannot wait for the next operation.
    pub(crate) fn advance(&self) {
        self.0.see_to_threads(self.0.lock());
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.0.lock().shares.values().any(|held| held.running > 0)
    }

    #[cfg(test)]
    pub(crate) fn held(&self, share: u64) -> usize {
        let state = self.0.lock();
        let held = state.shares.get(&share);
        held.map_or(0, |held| held.running + held.admitted + held.waiting.len())
    }
}

impl State {
    /// Has an operation that its share has admitted begin next, or when another one of its holder has ended.
    fn admit(&mut self, of: Held, operation: Operation, of_holder_max: usize) {
        let holder = self.holders.entry(of.holder).or_default();
        if holder.admitted >= of_holder_max {
            return holder.waiting.push_back((of, operation));
        }
        holder.admitted += 1;
        self.next.push_back((of, operation));
    }

    /// Ends an operation of a holder, and admits the next one.
    fn end_of_holder(&mut self, number: u64) {
        let Some(holder) = self.holders.get_mut(&number) else {
            return;
        };
        match holder.waiting.pop_front() {
            Some(next) => self.next.push_back(next),
            None if holder.admitted > 1 => holder.admitted -= 1,
            None => drop(self.holders.remove(&number)),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes or starts a thread, if there is something to do.
    fn see_to_threads(self: &Arc<Shared>, mut state: MutexGuard<'_, State>) {
        if state.next.is_empty() {
            return;
        }
        if state.next.len() <= state.free || state.threads >= self.bounds.threads_max {
            drop(state);
            self.work.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        self.start_thread();
    }

    /// Starts a thread that is counted already. False if the system refuses it; then it is no longer counted.
    fn start_thread(self: &Arc<Shared>) -> bool {
        let shared = Arc::clone(self);
        let thread = thread::Builder::new()
            .name(self.bounds.name.to_owned())
            .stack_size(STACK_BYTES);
        let started = thread.spawn(move || shared.work());
        if let Err(error) = &started {
            // What waits is done when another thread is free, or with the next operation.
            tracing::warn!("a thread {}: {error}", self.bounds.name);
            self.lock().threads -= 1;
        }
        started.is_ok()
    }

    fn work(&self) {
        while let Some((of, operation)) = self.next() {
            // The message of a panic is in the log. The thread goes on, and its share has it again.
            drop(catch_unwind(AssertUnwindSafe(operation)));
            self.end(of);
        }
    }

    /// The next operation. `None` if there was nothing to do for a while; then the thread is no longer counted.
    fn next(&self) -> Option<(Held, Operation)> {
        let mut state = self.lock();
        loop {
            if let Some((of, operation)) = state.next.pop_front() {
                let held = state.shares.entry(of.share).or_default();
                held.admitted = held.admitted.saturating_sub(1);
                held.running += 1;
                return Some((of, operation));
            }
            state.free += 1;
            let (again, waited) = self
                .work
                .wait_timeout(state, IDLE)
                .unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.free -= 1;
            if waited.timed_out() && state.next.is_empty() && state.threads > self.bounds.kept {
                state.threads -= 1;
                return None;
            }
        }
    }

    /// Ends an operation, and admits the next one of the same share.
    fn end(&self, of: Held) {
        let mut state = self.lock();
        state.end_of_holder(of.holder);
        let Some(held) = state.shares.get_mut(&of.share) else {
            return;
        };
        held.running = held.running.saturating_sub(1);
        held.is_silent = false;
        if let Some(operation) = held.waiting.pop_front() {
            held.admitted += 1;
            state.admit(of, operation, self.bounds.of_holder_max);
        } else if held.running == 0 && held.admitted == 0 {
            state.shares.remove(&of.share);
        }
    }
}

impl std::fmt::Debug for UserThreads {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.bounds.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    const BOUNDS: Bounds = Bounds {
        name: "user-threads",
        at_once: 2,
        waiting_max: 5,
        threads_max: 5,
        of_holder_max: 3,
        kept: 0,
    };

    /// Begins operations that last until the sender is dropped; returns when as many as may run have begun.
    fn block(threads: &UserThreads, share: impl Into<Held> + Copy, operations: usize) -> Sender<()> {
        let (end, ended) = channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let (begin, begun) = channel();
        for _ in 0..operations {
            let (begin, ended) = (begin.clone(), Arc::clone(&ended));
            let operation = move || {
                // The test awaits the first ones only.
                let _ = begin.send(());
                assert!(ended.lock().unwrap_or_else(PoisonError::into_inner).recv().is_err());
            };
            assert!(threads.begin(share, Box::new(operation)).is_ok());
        }
        for _ in 0..BOUNDS.at_once.min(operations) {
            begun.recv().expect("each begins");
        }
        end
    }

    fn is_done_for(threads: &UserThreads, share: u64) {
        let (done, wait) = channel();
        let operation = move || done.send(()).expect("the test waits");
        assert!(threads.begin(share, Box::new(operation)).is_ok());
        wait.recv().expect("it is done");
    }

    #[test]
    fn what_hangs_for_one_user_delays_nobody_else_and_is_bounded() {
        let threads = UserThreads::new(BOUNDS);
        let end = block(&threads, 1_u64, BOUNDS.at_once + 3);
        let also = block(&threads, 2_u64, BOUNDS.at_once);
        is_done_for(&threads, 3);
        assert_eq!(threads.held(1), BOUNDS.at_once + 3);
        assert_eq!(threads.0.lock().threads, 5);
        drop(end);
        is_done_for(&threads, 1);
        drop(also);
    }

    #[test]
    fn many_shares_of_one_holder_leave_threads_for_others() {
        let threads = UserThreads::new(BOUNDS);
        let of = |share| Held { share, holder: 1 };
        let silent: Vec<_> = (10..13).map(|share| block(&threads, of(share), 1)).collect();
        // Beyond its bound.
        let (done, wait) = channel();
        for share in 13..20 {
            let done = done.clone();
            let operation = move || done.send(share).expect("the test waits");
            assert!(threads.begin(of(share), Box::new(operation)).is_ok());
        }
        let other = block(&threads, Held { share: 30, holder: 2 }, 1);
        is_done_for(&threads, 31);
        assert!(wait.try_recv().is_err());
        drop(silent);
        let mut done: Vec<u64> = wait.iter().take(7).collect();
        done.sort_unstable();
        assert!(done.into_iter().eq(13..20));
        drop(other);
        while threads.is_busy() {
            thread::yield_now();
        }
        assert!(threads.0.lock().holders.is_empty());
    }

    #[test]
    fn operations_of_a_silent_share_are_refused_until_one_of_them_ends() {
        let threads = UserThreads::new(BOUNDS);
        let end = block(&threads, 1_u64, BOUNDS.at_once);
        assert!(threads.begin(1_u64, Box::new(|| ())).is_ok(), "it waits");
        threads.note_silence(1);
        assert!(threads.begin(1_u64, Box::new(|| ())).is_err());
        is_done_for(&threads, 2);
        drop(end);
        let (done, wait) = channel();
        while let Err(operation) = threads.begin(1_u64, {
            let done = done.clone();
            Box::new(move || done.send(()).expect("the test waits"))
        }) {
            drop(operation);
            thread::yield_now();
        }
        wait.recv().expect("it is done");
    }

    #[test]
    fn operations_beyond_the_bound_are_refused() {
        let threads = UserThreads::new(BOUNDS);
        let end = block(&threads, 1_u64, BOUNDS.at_once);
        let (done, results) = channel();
        let begin = |number| {
            let done = done.clone();
            threads.begin(1_u64, Box::new(move || done.send(number).expect("the test waits")))
        };
        assert!((0..BOUNDS.waiting_max).all(|number| begin(number).is_ok()));
        assert!(begin(BOUNDS.waiting_max).is_err());
        is_done_for(&threads, 2);
        drop(end);
        let mut done: Vec<usize> = results.iter().take(BOUNDS.waiting_max).collect();
        done.sort_unstable();
        assert!(done.into_iter().eq(0..BOUNDS.waiting_max));
        is_done_for(&threads, 1);
    }
}
