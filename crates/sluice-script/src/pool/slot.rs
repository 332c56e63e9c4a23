//! A process as its pool sees it.
//!
//! Not here: when it gets a request, and when it ends (`pool`).

use std::time::{Duration, Instant};

use super::reason::{Cause, Reason};
use crate::recent_scripts::{RecentScripts, ScriptId};

/// Identifies a process within its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessId(pub(super) u64);

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: ProcessId,
    pub(super) worker: usize,
    pub(super) idle_since: Option<Instant>,
    /// The same of the time before its present exchange.
    pub(super) was_idle_since: Option<Instant>,
    /// When it was given its last request.
    pub(super) busy_since: Instant,
    pub(super) started: Instant,
    pub(super) cause: Cause,
    /// Overrides the pool's idle lifetime (callout LIFETIME): `Some(None)` is without limit.
    pub(super) lifetime: Option<Option<Duration>>,
    pub(super) served: u64,
    /// What it has run, if it is an engine.
    pub(super) recent: RecentScripts,
    /// Why it gets no further request, if so.
    pub(super) stale: Option<Reason>,
    /// It is about to end; it counts until it has ended.
    pub(super) is_ending: bool,
}

impl Slot {
    pub(super) fn lend(&mut self, worker: usize, script: Option<ScriptId>, now: Instant) -> ProcessId {
        self.was_idle_since = self.idle_since.take();
        self.busy_since = now;
        self.worker = worker;
        self.recent.add(script);
        self.id
    }
}
