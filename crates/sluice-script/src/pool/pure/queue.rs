//! The requests that wait for a process of a pool.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::slot::Applicant;
use crate::pool::ClientId;

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
    pub(super) applicant: Applicant,
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

    pub(super) fn cancel(&mut self, ticket: Ticket) {
        self.0.retain(|waiting| waiting.ticket != ticket);
    }

    pub(super) fn of_client(&self, client: ClientId) -> usize {
        let own = self.0.iter().filter(|waiting| waiting.applicant.client == Some(client));
        own.count()
    }

    /// Takes the oldest waiter, but those of these clients after all others.
    pub(super) fn take_oldest(&mut self, crowding: &[ClientId]) -> Option<Waiting> {
        self.0.remove(self.first(crowding))
    }

    /// Takes the oldest waiter; while it is younger than `FAIRNESS`, the first waiter on the process's own worker, because moving a process
    /// between event loops costs more than the wait. Waiters of these clients come after all others.
    pub(super) fn take_next(&mut self, worker: usize, now: Instant, crowding: &[ClientId]) -> Option<Waiting> {
        let oldest = self.0.front()?;
        if crowding.is_empty()
            && now.duration_since(oldest.since) < FAIRNESS
            && let mut first = self.0.iter().take(LOOK_AHEAD)
            && let Some(at) = first.position(|waiting| waiting.applicant.worker == worker)
        {
            return self.0.remove(at);
        }
        self.take_oldest(crowding)
    }

    fn first(&self, crowding: &[ClientId]) -> usize {
        let client = |waiting: &Waiting| waiting.applicant.client;
        let is_other = |waiting| !client(waiting).is_some_and(|client| crowding.contains(&client));
        match crowding {
            [] => 0,
            _ => self.0.iter().position(is_other).unwrap_or(0),
        }
    }
}
