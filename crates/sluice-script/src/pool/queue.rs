//! The requests that wait for a process of a pool.
//!
//! Not here: whether a request waits (`pool`), and for how long at most (`shared_pool`).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::recent_scripts::ScriptId;

/// A waiter older than this gets the next process whichever its worker; before, waiters on the process's own worker come first.
pub(super) const FAIRNESS: Duration = Duration::from_millis(5);

/// Waiters that are searched for one on the same worker.
const LOOK_AHEAD: usize = 32;

/// Identifies a request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(pub(super) u64);

/// The requests that wait, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Queue(VecDeque<Waiting>);

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) ticket: Ticket,
    pub(super) worker: usize,
    pub(super) script: Option<ScriptId>,
    pub(super) since: Instant,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.0.iter()
    }

    pub(super) fn push(&mut self, waiting: Waiting) {
        self.0.push_back(waiting);
    }

    /// A waiting request has gone.
    pub(super) fn cancel(&mut self, ticket: Ticket) {
        self.0.retain(|waiting| waiting.ticket != ticket);
    }

    /// Takes the oldest waiter.
    pub(super) fn take_oldest(&mut self) -> Option<Waiting> {
        self.0.pop_front()
    }

    /// Takes the oldest waiter; while it is younger than `FAIRNESS`, the first waiter on the process's own worker, because moving a process
    /// between event loops costs more than the wait.
    pub(super) fn take_next(&mut self, worker: usize, now: Instant) -> Option<Waiting> {
        let oldest = self.0.front()?;
        if now.duration_since(oldest.since) < FAIRNESS
            && let Some(at) = self
                .0
                .iter()
                .take(LOOK_AHEAD)
                .position(|waiting| waiting.worker == worker)
        {
            return self.0.remove(at);
        }
        self.0.pop_front()
    }
}
