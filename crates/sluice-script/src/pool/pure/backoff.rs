//! The delay of starts after processes that ended before their first reply.

use std::time::{Duration, Instant};

/// Processes in a row that may end before their first reply before starts are delayed.
pub(super) const FAILURES_FREE: u32 = 3;
/// The first delay; it doubles with each further failure.
pub(super) const BACKOFF_MIN: Duration = Duration::from_millis(250);
/// The longest delay of a start for a request.
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// The longest delay of a start in advance, for which nobody waits.
pub(super) const ADVANCE_MAX: Duration = Duration::from_secs(60);
/// Doublings after which the longest delay is reached.
const DOUBLINGS_MAX: u32 = 8;

/// The failures in a row, and the delay after them.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    last: Option<Instant>,
}

impl Backoff {
    /// A process has ended before its first reply.
    pub(super) fn fail(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.last = Some(now);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    pub(super) fn excuse(&mut self) {
        *self = Backoff::default();
    }

    /// The time until the next start for a request, if it is delayed.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.wait_at_most(BACKOFF_MAX, now)
    }

    /// The time until the next start in advance, if it is delayed.
    pub(super) fn wait_in_advance(&self, now: Instant) -> Option<Duration> {
        self.wait_at_most(ADVANCE_MAX, now)
    }

    fn wait_at_most(&self, most: Duration, now: Instant) -> Option<Duration> {
        let doublings = self.failures.checked_sub(FAILURES_FREE + 1)?.min(DOUBLINGS_MAX);
        let end = self.last? + (BACKOFF_MIN * 2_u32.pow(doublings)).min(most);
        end.checked_duration_since(now).filter(|wait| !wait.is_zero())
    }
}
