//! The delay of starts after processes that ended before their first reply.
//!
//! Not here: which end is a failure (`pool`).

use std::time::{Duration, Instant};

/// Processes in a row that may end before their first reply before starts are delayed.
pub(super) const FAILURES_FREE: u32 = 3;
/// The first delay; it doubles with each further failure.
pub(super) const BACKOFF_MIN: Duration = Duration::from_millis(250);
/// The longest delay.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// The failures in a row, and the delay after them.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    not_before: Option<Instant>,
}

impl Backoff {
    /// A process has ended before its first reply.
    pub(super) fn fail(&mut self, now: Instant) {
        self.failures += 1;
        if self.failures > FAILURES_FREE {
            let doublings = (self.failures - FAILURES_FREE - 1).min(8);
            let wait = BACKOFF_MIN * 2_u32.pow(doublings);
            self.not_before = Some(now + wait.min(BACKOFF_MAX));
        }
    }

    /// The next start is not delayed.
    pub(super) fn excuse(&mut self) {
        *self = Backoff::default();
    }

    /// The time until the next start, if it is delayed.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.not_before
            .and_then(|time| time.checked_duration_since(now))
            .filter(|wait| !wait.is_zero())
    }
}
