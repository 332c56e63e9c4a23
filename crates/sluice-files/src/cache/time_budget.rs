//! A bound on the time that compressing variants takes, for all workers together.
//!
//! A variant evicted from the cache is compressed again at the next request. If the requested variants do not fit the cache, each request could keep a thread
//! busy for a second; so when the time is used up, files are sent uncompressed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sluice_http::rate_limited_log::{RateLimitedLog, Suppressed};

/// Time that is saved while nothing is compressed, in minutes: enough to compress the files of a large site once after the start.
const SAVED_MINUTES: u32 = 10;

const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The time that is left. Each minute adds some, up to the time of `SAVED_MINUTES`.
pub(crate) struct TimeBudget {
    per_minute: Duration,
    state: Mutex<State>,
}

struct State {
    /// At `updated_at`. The last compression may take more than is left: the excess.
    left: Duration,
    excess: Duration,
    updated_at: Instant,
    used_up: RateLimitedLog,
}

impl TimeBudget {
    /// Creates a budget that holds all the time that can be saved.
    pub(crate) fn new(per_minute: Duration) -> TimeBudget {
        TimeBudget {
            per_minute,
            state: Mutex::new(State {
                left: per_minute * SAVED_MINUTES,
                excess: Duration::ZERO,
                updated_at: Instant::now(),
                used_up: RateLimitedLog::default(),
            }),
        }
    }

    /// Whether another compression may begin. Logs now and then that it may not.
    pub(crate) fn has_time(&self) -> bool {
        let now = Instant::now();
        let mut state = self.lock();
        self.update(&mut state, now);
        if !state.left.is_zero() {
            return true;
        }
        let suppressed = state.used_up.take_due(LOG_INTERVAL, now);
        let is_admitted = state.used_up.admits(1, LOG_INTERVAL, now);
        drop(state);
        log_suppressed(suppressed);
        if is_admitted {
            tracing::warn!(
                "file sent uncompressed: compressing has used up its {:?} a minute (cache.compression_time); do the variants fit \
                 the cache (cache.size)?",
                self.per_minute
            );
        }
        false
    }

    pub(crate) fn spend(&self, time: Duration) {
        let mut state = self.lock();
        self.update(&mut state, Instant::now());
        let left = state.left;
        state.excess += time.saturating_sub(left);
        state.left = left.saturating_sub(time);
    }

    fn update(&self, state: &mut State, now: Instant) {
        let minutes = now.saturating_duration_since(state.updated_at).as_secs_f64() / 60.0;
        let gained = self.per_minute.mul_f64(minutes.min(f64::from(u32::MAX)));
        state.updated_at = now;
        let excess = state.excess;
        state.excess = excess.saturating_sub(gained);
        let saved_max = self.per_minute * SAVED_MINUTES;
        state.left = (state.left + gained.saturating_sub(excess)).min(saved_max);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TimeBudget {
    /// The cache has been replaced, or the server ends: no other line will bring the last count with it.
    fn drop(&mut self) {
        log_suppressed(self.lock().used_up.take());
    }
}

fn log_suppressed(suppressed: Option<Suppressed>) {
    if let Some(suppressed) = suppressed {
        tracing::warn!("file sent uncompressed: {suppressed}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_used_up_and_gained_again() {
        let budget = TimeBudget::new(Duration::from_secs(6));
        let left_after = |seconds: u64| {
            let mut state = budget.lock();
            state.updated_at = Instant::now();
            let now = state.updated_at + Duration::from_secs(seconds);
            budget.update(&mut state, now);
            state.updated_at = Instant::now();
            state.left.as_secs()
        };
        assert_eq!(left_after(3600), 60, "no more than ten minutes' time is saved");
        budget.spend(Duration::from_secs(63));
        assert!(!budget.has_time());
        assert_eq!(left_after(29), 0, "the excess comes first");
        assert_eq!(left_after(31), 3);
        assert!(budget.has_time());
    }
}
