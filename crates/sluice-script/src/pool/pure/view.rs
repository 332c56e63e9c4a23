//! The state of a pool as reports and WATCH show it. Nothing here changes it.

use std::time::Instant;

use super::slot::Advance;
use super::{Cause, Departure, Pool, ProcessId, Ticket};
use crate::pool::ScriptId;

/// The state of a pool, for WATCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolView {
    pub processes: usize,
    pub idle: usize,
    pub waiting: usize,
    pub max: usize,
    pub last_departure: Option<Departure>,
}

/// The work of a process before its present exchange, for WATCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Career {
    /// Requests that it has served.
    pub served: u64,
    /// The time since which it was idle.
    pub idle_since: Option<Instant>,
}

/// A process as its pool sees it, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotView {
    pub id: ProcessId,
    pub worker: usize,
    pub cause: Cause,
    /// When its start was decided.
    pub started: Instant,
    /// The time since which it is busy or idle.
    pub since: Instant,
    pub is_idle: bool,
    /// The process is being started in advance.
    pub is_starting: bool,
    /// The process gets no further request.
    pub is_ending: bool,
}

impl Pool {
    pub(crate) fn view(&self) -> PoolView {
        PoolView {
            processes: self.processes.len(),
            idle: self.processes.iter().filter(|slot| slot.idle_since.is_some()).count(),
            waiting: self.queue.len(),
            max: self.settings.max,
            last_departure: self.last_departure,
        }
    }

    /// The work of a process so far. `None` if it is not in the pool.
    pub(crate) fn career(&self, id: ProcessId) -> Option<Career> {
        let slot = self.processes.iter().find(|slot| slot.id == id)?;
        Some(Career {
            served: slot.served,
            idle_since: slot.idle_since.or(slot.was_idle_since),
        })
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = SlotView> {
        self.processes.iter().map(|slot| SlotView {
            id: slot.id,
            worker: slot.worker,
            cause: slot.cause,
            started: slot.started,
            since: slot.idle_since.unwrap_or(slot.busy_since),
            is_idle: slot.idle_since.is_some(),
            is_starting: slot.advance == Advance::Starting,
            is_ending: slot.is_ending,
        })
    }

    /// The requests that wait and since when, the oldest first, for reports.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = (Ticket, Instant)> {
        self.queue.iter().map(|waiting| (waiting.ticket, waiting.since))
    }

    /// Whether one of its engines has run this script a short while ago.
    pub(crate) fn has_run(&self, script: ScriptId) -> bool {
        self.processes.iter().any(|slot| slot.recent.has(Some(script)))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }
}
