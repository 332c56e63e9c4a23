//! Threads that hash passwords, so that no event loop does: few threads, and a bounded queue (`fair_queue`).
//!
//! ```text
//! worker ─▶ queue (bounded) ─▶ thread ─▶ answer, over a channel that the worker's task awaits
//! ```
//! The threads start with the first password, and end with the last handle. A job whose client has left is not done.

use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;

use crate::fair_queue::{FairQueue, Origin};

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
    queue: FairQueue<Box<dyn Job>>,
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
    /// The queue is full, and the network of the job has its share of it.
    pub(crate) fn submit(&self, origin: Origin, job: Box<dyn Job>) -> Result<(), QueueFull> {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.queue.len() >= QUEUE_MAX {
            state.queue.retain(|job| !job.is_abandoned());
        }
        // Dropped after the lock, because others learn that it was not done.
        let mut displaced = None;
        if state.queue.len() >= QUEUE_MAX {
            displaced = state.queue.displace(origin);
            if displaced.is_none() {
                return Err(QueueFull);
            }
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
        state.queue.push(origin, job);
        self.shared.changed.notify_one();
        drop(state);
        drop(displaced);
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
    fn next(&self) -> Option<Box<dyn Job>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(job) = state.queue.pop() {
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
    use crate::fair_queue::Rank;

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
        Box::new(Test { run: Box::new(run), is_abandoned: false })
    }

    fn origin(network: u8) -> Origin {
        Origin::new([192, 0, network, 1].into(), Rank::Other)
    }

    fn hold(verifier: &Verifier) -> mpsc::Sender<()> {
        let (opened, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let (begun, begins) = mpsc::channel();
        for _ in 0..threads_max() {
            let (gate, begun) = (Arc::clone(&gate), begun.clone());
            let wait = move || {
                begun.send(()).unwrap();
                let _ = gate.lock().unwrap().recv();
            };
            verifier.submit(origin(1), job(wait)).unwrap();
        }
        (0..threads_max()).for_each(|_| begins.recv().unwrap());
        opened
    }

    #[test]
    fn forty_networks_that_fill_the_queue_keep_no_other_network_from_it() {
        let verifier = Verifier::default();
        let opened = hold(&verifier);
        let (done, ends) = mpsc::channel();
        for network in (10..50).cycle().take(400) {
            let done = done.clone();
            // Those that are displaced are dropped, as is the last one of each network that has its share.
            let _ = verifier.submit(origin(network), job(move || done.send(0).unwrap()));
        }
        assert!(verifier.submit(origin(10), job(|| {})).is_err());
        let right = done.clone();
        verifier.submit(origin(2), job(move || right.send(1).unwrap())).unwrap();
        drop((opened, done));
        let order: Vec<u8> = ends.iter().collect();
        assert_eq!(order.len(), QUEUE_MAX);
        // After one password of each network at most, and those that other threads hash meanwhile.
        let at = order.iter().position(|one| *one == 1).unwrap();
        assert!(at <= 40 + threads_max(), "{at}");
    }

    #[test]
    fn the_queue_is_bounded_and_a_panic_does_not_end_it() {
        let verifier = Verifier::default();
        let opened = hold(&verifier);
        for _ in 0..QUEUE_MAX - 1 {
            verifier.submit(origin(1), job(|| {})).unwrap();
        }
        let abandoned = Test {
            run: Box::new(|| panic!("an abandoned job ran")),
            is_abandoned: true,
        };
        verifier.submit(origin(1), Box::new(abandoned)).unwrap();
        verifier.submit(origin(1), job(|| panic!("a job that fails"))).unwrap();
        assert!(verifier.submit(origin(1), job(|| {})).is_err());
        drop(opened);
        let (done, ends) = mpsc::channel();
        while let Err(QueueFull) = verifier.submit(
            origin(1),
            job({
                let done = done.clone();
                move || done.send(()).unwrap()
            }),
        ) {
            thread::yield_now();
        }
        ends.recv().unwrap();
    }
}
