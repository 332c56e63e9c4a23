//! A rate limit for log lines that any client could cause in any number.

use std::cell::Cell;

/// Seconds between two lines.
const INTERVAL_SECS: u32 = 10;

/// Logs one line per interval, and counts the others.
#[derive(Default)]
pub(crate) struct RateLimitedLog {
    /// The worker's tick of the last line.
    logged_at: Cell<Option<u32>>,
    suppressed: Cell<u32>,
}

impl RateLimitedLog {
    /// Calls `log` with the number of lines that were suppressed since the last one, or only counts this line.
    pub(crate) fn log(&self, tick: u32, log: impl FnOnce(u32)) {
        let is_early = |logged_at: u32| tick < logged_at.saturating_add(INTERVAL_SECS);
        if self.logged_at.get().is_some_and(is_early) {
            self.suppressed.set(self.suppressed.get().saturating_add(1));
        } else {
            self.logged_at.set(Some(tick));
            log(self.suppressed.replace(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_interval_is_logged_with_the_count_of_the_others() {
        let (limited, logged) = (RateLimitedLog::default(), Cell::new(Vec::new()));
        for tick in [5, 5, 6, 14, 15, 15, 16, 100, 200] {
            limited.log(tick, |suppressed| {
                let mut all = logged.take();
                all.push((tick, suppressed));
                logged.set(all);
            });
        }
        assert_eq!(logged.take(), [(5, 0), (15, 3), (100, 2), (200, 0)]);
    }
}
