//! Threads that hash passwords, so that no event loop does: few threads, and a bounded queue.
//!
//! ```text
//! worker ─▶ queue (bounded) ─▶ thread ─▶ answer, over a channel that the worker's task awaits
//! ```
//! The threads start with the first password, and end with the last handle. A job whose client has left is not done.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;

/// Passwords that wait. More are refused (503): each takes some hundredths of a second to a second of one thread.
const QUEUE_MAX: usize = 256;

/// Threads at most; there are half as many as processors, so that requests without passwords go on.
const THREADS_MAX: usize = 4;

/// The work of a thread for one request. Dropping it answers that it was not done.
pub(crate) trait Job: Send + 'static {
    /// Whether nobody waits for the answer any more.
    fn is_abandoned(&self) -> bool;
    /// Does it. Blocks.
    fn run(self: Box<Self>);
}

/// The threads and their queue.
#[derive(Default)]
pub(crate) struct Verifier {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Box<dyn Job>>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

/// A job was not taken: the queue is full, or no thread can be started.
#[derive(Clone, Copy, Debug)]
pub struct QueueFull;

impl Verifier {
    /// Puts a job into the queue.
    ///
    /// # Errors
    /// The queue is full.
    pub(crate) fn submit(&self, job: Box<dyn Job>) -> Result<(), QueueFull> {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.queue.len() >= QUEUE_MAX {
            state.queue.retain(|job| !job.is_abandoned());
        }
        if state.queue.len() >= QUEUE_MAX {
            return Err(QueueFull);
        }
        if state.idle <= state.queue.len() && state.threads < threads_max() {
            let shared = Arc::downgrade(&self.shared);
            let spawned = thread::Builder::new()
                .name("passwords".to_owned())
                .spawn(move || work(&shared));
            match spawned {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => {
                    tracing::error!("threads that verify passwords: {error}");
                    return Err(QueueFull);
                }
                Err(_) => {}
            }
        }
        state.queue.push_back(job);
        self.shared.changed.notify_one();
        Ok(())
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_closed = true;
        state.queue.clear();
        self.shared.changed.notify_all();
    }
}

fn threads_max() -> usize {
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    processors.div_ceil(2).min(THREADS_MAX)
}

fn work(shared: &Weak<Shared>) {
    while let Some(job) = shared.upgrade().and_then(|shared| shared.next()) {
        if !job.is_abandoned() {
            // A panic would end the thread: its job is then not answered, and a client gets 500.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.run()));
        }
    }
}

impl Shared {
    /// The next job; `None` at the end.
    fn next(&self) -> Option<Box<dyn Job>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(job) = state.queue.pop_front() {
                return Some(job);
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    struct Test {
        run: Box<dyn FnOnce() + Send>,
        is_abandoned: bool,
    }

    impl Job for Test {
        fn is_abandoned(&self) -> bool {
            self.is_abandoned
        }

        fn run(self: Box<Self>) {
            (self.run)();
        }
    }

    fn job(run: impl FnOnce() + Send + 'static) -> Box<dyn Job> {
        Box::new(Test {
            run: Box::new(run),
            is_abandoned: false,
        })
    }

    #[test]
    fn the_queue_is_bounded_and_a_panic_does_not_end_it() {
        let verifier = Verifier::default();
        let (opened, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let (begun, begins) = mpsc::channel();
        // Each thread waits at the gate.
        for _ in 0..threads_max() {
            let (gate, begun) = (Arc::clone(&gate), begun.clone());
            let wait = move || {
                begun.send(()).unwrap();
                let _ = gate.lock().unwrap().recv();
            };
            verifier.submit(job(wait)).unwrap();
        }
        (0..threads_max()).for_each(|_| begins.recv().unwrap());
        for _ in 0..QUEUE_MAX - 1 {
            verifier.submit(job(|| {})).unwrap();
        }
        let abandoned = Test {
            run: Box::new(|| panic!("an abandoned job ran")),
            is_abandoned: true,
        };
        verifier.submit(Box::new(abandoned)).unwrap();
        verifier.submit(job(|| panic!("a job that fails"))).unwrap();
        assert!(verifier.submit(job(|| {})).is_err());
        drop(opened);
        let (done, ends) = mpsc::channel();
        while let Err(QueueFull) = verifier.submit(job({
            let done = done.clone();
            move || done.send(()).unwrap()
        })) {
            thread::yield_now();
        }
        ends.recv().unwrap();
    }
}
