//! One watcher's queue.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::event::Event;
use crate::hub::Hub;
use crate::spec::Spec;

/// Bytes of events that wait for a watcher at most.
const QUEUE_BYTES_MAX: usize = 4 << 20;

/// Bytes of events that wait for a page at most. There can be more pages than terminals, and browsers read on.
const PAGE_QUEUE_BYTES_MAX: usize = 2 << 20;

/// Bytes of events that a watcher takes at once, unless one event has more: it makes a longer text of them.
const TAKEN_BYTES_MAX: usize = 32 << 10;

/// A watcher's queue, filled by the workers. Dropping the watcher's [`Watch`] ends it.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) spec: Spec,
    pub(crate) number: u64,
    pub(crate) watcher: Watcher,
    state: Mutex<State>,
    filled: Condvar,
    /// The number of the request that is shown, if there is to be only one; 0 before.
    claimed: AtomicU64,
    /// A copy of `is_ended` in `state`, for requests, which must not wait for a lock.
    is_ended: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watcher {
    Terminal,
    Page,
}

impl Watcher {
    const fn queue_bytes_max(self) -> usize {
        match self {
            Watcher::Terminal => QUEUE_BYTES_MAX,
            Watcher::Page => PAGE_QUEUE_BYTES_MAX,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    lost: u64,
    /// Some of `lost` came after those that wait.
    has_gap: bool,
    is_ended: bool,
    waker: Option<Waker>,
}

/// The first events since the last call, bounded.
#[derive(Debug, Default)]
pub struct Taken {
    /// The events, in their order.
    pub events: Vec<Arc<Event>>,
    /// Events that were lost after these, because the watcher was too slow.
    pub lost: u64,
    /// No more will come: the one request that was to be shown has ended, or the server ends.
    pub is_ended: bool,
}

impl Taken {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.lost == 0 && !self.is_ended
    }
}

impl Queue {
    pub(crate) fn new(spec: Spec, number: u64, watcher: Watcher) -> Queue {
        Queue {
            spec,
            number,
            watcher,
            state: Mutex::default(),
            filled: Condvar::new(),
            claimed: AtomicU64::new(0),
            is_ended: AtomicBool::new(false),
        }
    }

    /// Whether the request of this number may be shown.
    pub(crate) fn claim(&self, number: u64) -> bool {
        if !self.spec.once {
            return true;
        }
        let claimed = self
            .claimed
            .compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
        claimed.unwrap_or_else(|holder| holder) == 0 || claimed == Err(number)
    }

    pub(crate) fn push(&self, event: &Arc<Event>) {
        let mut state = self.lock();
        if state.is_ended {
            return;
        }
        // Once some were lost, those that came before are taken first, so that the watcher learns where they are missing.
        if state.has_gap || state.bytes + event.size() > self.watcher.queue_bytes_max() {
            state.lost += 1;
            state.has_gap = true;
        } else {
            state.bytes += event.size();
            state.events.push_back(Arc::clone(event));
        }
        self.wake(state);
    }

    pub(crate) fn count_lost(&self, events: u64) {
        self.lock().lost += events;
    }

    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.is_ended = true;
        self.is_ended.store(true, Ordering::Relaxed);
        self.wake(state);
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let waker = state.waker.take();
        drop(state);
        self.filled.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes the first events: so many bytes of them, and one in any case.
    fn take(&mut self, bytes_max: usize) -> Taken {
        let mut taken = Taken::default();
        let mut bytes = 0;
        while let Some(event) = self.events.front() {
            if bytes > 0 && bytes + event.size() > bytes_max {
                break;
            }
            bytes += event.size();
            taken.events.extend(self.events.pop_front());
        }
        self.bytes -= bytes;
        if self.events.is_empty() {
            taken.lost = std::mem::take(&mut self.lost);
            self.has_gap = false;
            taken.is_ended = self.is_ended;
        }
        taken
    }
}

/// A watch, held by its watcher. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch {
    hub: Arc<Hub>,
    queue: Arc<Queue>,
}

impl Watch {
    pub(crate) fn new(hub: Arc<Hub>, queue: Arc<Queue>) -> Watch {
        Watch { hub, queue }
    }

    /// The specification of the watch.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.queue.spec
    }

    /// Takes the first of what has happened, waiting until something has. For a task; the last caller is woken.
    pub fn poll_take(&self, context: &Context<'_>) -> Poll<Taken> {
        let mut state = self.queue.lock();
        let taken = state.take(TAKEN_BYTES_MAX);
        if taken.is_empty() {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(taken)
    }

    /// Takes all that has happened, waiting until something has or the deadline has passed. For a thread.
    #[must_use]
    pub fn take_until(&self, deadline: Instant) -> Taken {
        let mut state = self.queue.lock();
        loop {
            let taken = state.take(usize::MAX);
            let left = deadline.saturating_duration_since(Instant::now());
            if !taken.is_empty() || left.is_zero() {
                return taken;
            }
            let waited = self.queue.filled.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.queue.end();
        // Workers may still have the queue.
        self.queue.lock().events = VecDeque::new();
        self.hub.remove(self.queue.number);
    }
}
