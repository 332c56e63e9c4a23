//! A rate limit for log lines that a client or a script can cause in any number.

use std::cell::Cell;
use std::fmt::{self, Display};
use std::time::{Duration, Instant};

/// Admits the first lines of each interval and counts the others. It belongs to one thread.
///
/// Its owner calls `take_due` now and then, and `take` at the end, so that the last count is logged although no other line follows it.
#[derive(Default)]
pub struct RateLimitedLog {
    /// When the interval began. `None` if no line is in it.
    since: Cell<Option<Instant>>,
    /// Lines, or their bytes (`admits_bytes`).
    used: Cell<u64>,
    suppressed: Cell<u64>,
}

/// Lines that were counted instead of logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suppressed(pub u64);

impl Display for Suppressed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => out.write_str("1 more line like it, not logged"),
            lines => write!(out, "{lines} more lines like it, not logged"),
        }
    }
}

impl RateLimitedLog {
    /// The usual interval.
    pub const INTERVAL: Duration = Duration::from_secs(10);

    /// Whether another line may be logged: no more than `lines_max` in an interval. Otherwise it is counted. An interval begins
    /// with its first line, and the count of the one before it must have been taken.
    pub fn admits(&self, lines_max: u32, interval: Duration, now: Instant) -> bool {
        self.admits_bytes(1, u64::from(lines_max), interval, now)
    }

    /// Admits a line as `admits` does, with a limit on the bytes of lines instead of their number. The line that reaches it is still admitted.
    pub fn admits_bytes(&self, bytes: u64, bytes_max: u64, interval: Duration, now: Instant) -> bool {
        if self.is_over(interval, now) {
            self.since.set(Some(now));
            self.used.set(0);
        }
        let used = self.used.get();
        if used < bytes_max {
            self.used.set(used.saturating_add(bytes));
            return true;
        }
        self.suppressed.set(self.suppressed.get().saturating_add(1));
        false
    }

    /// The lines that were not logged, if the interval is over and there are any.
    pub fn take_due(&self, interval: Duration, now: Instant) -> Option<Suppressed> {
        if self.is_over(interval, now) { self.take() } else { None }
    }

    /// The lines that were not logged, if there are any.
    pub fn take(&self) -> Option<Suppressed> {
        match self.suppressed.take() {
            0 => None,
            lines => Some(Suppressed(lines)),
        }
    }

    /// Whether lines were counted since the last count was taken.
    pub fn has_suppressed(&self) -> bool {
        self.suppressed.get() > 0
    }

    /// Whether the interval is over, or none has begun.
    pub fn is_over(&self, interval: Duration, now: Instant) -> bool {
        self.since
            .get()
            .is_none_or(|since| now.saturating_duration_since(since) >= interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_of_an_interval_are_admitted_and_the_others_counted() {
        let (limited, begin) = (RateLimitedLog::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let admitted: Vec<bool> = [0, 0, 1, 9, 9]
            .map(|seconds| limited.admits(2, RateLimitedLog::INTERVAL, at(seconds)))
            .into();
        assert_eq!(admitted, [true, true, false, false, false]);
        assert_eq!(limited.take_due(RateLimitedLog::INTERVAL, at(9)), None);
        assert_eq!(limited.take_due(RateLimitedLog::INTERVAL, at(10)), Some(Suppressed(3)));
        assert_eq!(limited.take_due(RateLimitedLog::INTERVAL, at(10)), None);
        assert!(limited.admits(2, RateLimitedLog::INTERVAL, at(10)));
    }

    #[test]
    fn the_last_count_is_taken_before_its_interval_is_over() {
        let (limited, now) = (RateLimitedLog::default(), Instant::now());
        assert!(limited.admits(1, RateLimitedLog::INTERVAL, now));
        assert!(!limited.admits(1, RateLimitedLog::INTERVAL, now));
        assert_eq!(limited.take(), Some(Suppressed(1)));
        assert_eq!(Suppressed(1).to_string(), "1 more line like it, not logged");
        assert_eq!(Suppressed(2).to_string(), "2 more lines like it, not logged");
    }
}
