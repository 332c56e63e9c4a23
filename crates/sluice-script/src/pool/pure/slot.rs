//! A process as its pool sees it.
//!
//! A busy process may get further requests, up to `at_once` (`in_use`); it is idle, and may be retired, only once it serves none.

use std::time::{Duration, Instant};

use super::backoff::ADVANCE_MAX;
use super::decision::Cause;
use crate::pool::{ClientId, RecentScripts, ScriptId};
use crate::process::Reason;

/// A process that ends before its first reply has not failed to start if it has run for so long.
const STARTED_WELL_AFTER: Duration = Duration::from_secs(10);

/// Identifies a process within its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessId(pub(super) u64);

/// The request for which a process is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Applicant {
    /// The worker of the request.
    pub worker: usize,
    /// The script, if an engine is to run it.
    pub script: Option<ScriptId>,
    /// The client, if its requests are counted.
    pub client: Option<ClientId>,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: ProcessId,
    pub(super) worker: usize,
    /// Requests that it serves, at most as many as the pool gives a process at once. That for which it is being started counts.
    pub(super) in_use: usize,
    /// `None` while it works for a request, or is being started.
    pub(super) idle_since: Option<Instant>,
    /// The value of `idle_since` before the present exchange.
    pub(super) was_idle_since: Option<Instant>,
    /// The time since which the process that it has replaced was idle; it has had no request since then.
    pub(super) unused_since: Option<Instant>,
    /// When it was given its last request.
    pub(super) busy_since: Instant,
    pub(super) started: Instant,
    pub(super) cause: Cause,
    /// The client of its last request while it serves any, if they are counted.
    pub(super) client: Option<ClientId>,
    /// Overrides the pool's idle lifetime (callout LIFETIME): `Some(None)` is without limit.
    pub(super) lifetime: Option<Option<Duration>>,
    pub(super) served: u64,
    /// Requests after which it is replaced.
    pub(super) requests_max: u64,
    /// When it is replaced. `None` for never.
    pub(super) ends_at: Option<Instant>,
    /// The scripts that the process has run, if it is an engine.
    pub(super) recent: RecentScripts,
    /// Why it is to be replaced. It serves until its successor is ready.
    pub(super) due: Option<Reason>,
    pub(super) due_since: Option<Instant>,
    /// The process that is being started to replace it.
    pub(super) successor: Option<ProcessId>,
    pub(super) advance: Advance,
    /// Why it gets no further request, if so.
    pub(super) stale: Option<Reason>,
    /// The process is about to end; it counts until it has ended.
    pub(super) is_ending: bool,
}

/// How far a process is that was not started for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advance {
    /// The process was started for a request.
    No,
    Starting,
    /// The process is ready, and has not replied to anything yet.
    Ready,
}

impl Slot {
    pub(super) fn lend(&mut self, applicant: Applicant, now: Instant) -> ProcessId {
        self.in_use += 1;
        self.was_idle_since = self.idle_since.take();
        self.unused_since = None;
        self.busy_since = now;
        self.worker = applicant.worker;
        self.client = applicant.client;
        self.recent.add(applicant.script);
        self.id
    }

    /// Whether it can get a request beside those that it serves. One that has replied to none may still be starting.
    pub(super) fn has_room(&self, at_once: usize) -> bool {
        let is_proved = self.served > 0 && self.stale.is_none() && !self.is_ending;
        is_proved && self.in_use > 0 && self.in_use < at_once
    }

    /// Whether it works for a request, or ends; not while it is being started in advance.
    pub(super) fn is_busy(&self) -> bool {
        self.idle_since.is_none() && self.advance != Advance::Starting
    }

    /// Whether it counts for `min`: it can serve, or will. A process and its successor count once.
    pub(super) fn counts(&self) -> bool {
        !self.is_ending && self.stale.is_none() && self.successor.is_none()
    }

    /// Notes why it is to be replaced, if it is time.
    pub(super) fn note_due(&mut self, now: Instant, uses_too_much_memory: bool) {
        let reason = match () {
            () if self.served >= self.requests_max => Some(Reason::Requests),
            () if self.ends_at.is_some_and(|time| time <= now) => Some(Reason::Lifetime),
            () if uses_too_much_memory => Some(Reason::Memory),
            _ => None,
        };
        if reason.is_some() && self.due.is_none() {
            (self.due, self.due_since) = (reason, Some(now));
        }
    }

    /// Whether it has been due for so long that it does not wait for a successor any more.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.due_since
            .is_some_and(|since| now.duration_since(since) >= ADVANCE_MAX)
    }

    /// Whether its end is the failure of a start.
    pub(super) fn has_failed(&self, now: Instant) -> bool {
        let is_unproved = match self.advance {
            Advance::No => self.idle_since.is_none(),
            Advance::Starting | Advance::Ready => now.duration_since(self.started) < STARTED_WELL_AFTER,
        };
        self.served == 0 && is_unproved && !self.is_ending
    }
}
