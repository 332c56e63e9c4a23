//! The bound on the log lines of scripts: so many bytes of one script in an interval, whichever of its processes write them.
//!
//! A bound for each process would not do: each CGI request is a new process. Also here: the texts logged for a script, for lines that are logged once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sluice_http::rate_limited_log::{RateLimitedLog, Suppressed};

/// Texts that one script has mentioned once: a script may make up new ones for each request.
const MENTIONS_MAX: usize = 16;

/// Scripts whose mentions outlast their processes.
const MENTIONING_MAX: usize = 1000;

pub(crate) struct ScriptLogs {
    bytes_max: Arc<AtomicU64>,
    /// By SCRIPT_FILENAME. Those without a process are dropped once their interval is over.
    by_script: Mutex<HashMap<Box<str>, Arc<ScriptLog>>>,
}

pub(crate) struct ScriptLog {
    script: Box<str>,
    bytes_max: Arc<AtomicU64>,
    limited: Mutex<RateLimitedLog>,
    /// Texts that are logged only once.
    mentioned: Mutex<Vec<Box<str>>>,
}

// Relaxed: the bound publishes no other data.
impl ScriptLogs {
    /// Creates logs with a bound in bytes for each script and interval.
    pub(crate) fn new(bytes_max: u64) -> ScriptLogs {
        ScriptLogs {
            bytes_max: Arc::new(AtomicU64::new(bytes_max)),
            by_script: Mutex::default(),
        }
    }

    pub(crate) fn set_bytes_max(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    pub(crate) fn of(&self, script: &str) -> Arc<ScriptLog> {
        let mut logs = self.lock();
        if let Some(log) = logs.get(script) {
            return Arc::clone(log);
        }
        let log = Arc::new(ScriptLog {
            script: script.into(),
            bytes_max: Arc::clone(&self.bytes_max),
            limited: Mutex::default(),
            mentioned: Mutex::default(),
        });
        logs.insert(script.into(), Arc::clone(&log));
        log
    }

    /// Logs the counts of the intervals that are over at `now`.
    pub(crate) fn advance(&self, now: Instant) {
        let mut mentioning = 0;
        self.lock().retain(|_, log| {
            let limited = log.lock();
            log.log_suppressed(limited.take_due(RateLimitedLog::INTERVAL, now));
            let is_over = limited.is_over(RateLimitedLog::INTERVAL, now);
            drop(limited);
            let has_mentioned = !log.mentioned().is_empty();
            mentioning += usize::from(has_mentioned);
            !is_over || Arc::strong_count(log) > 1 || (has_mentioned && mentioning <= MENTIONING_MAX)
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<ScriptLog>>> {
        self.by_script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScriptLog {
    /// Whether a line of so many bytes may be logged now. Otherwise it is counted.
    pub(crate) fn admits(&self, bytes: usize, now: Instant) -> bool {
        let limited = self.lock();
        self.log_suppressed(limited.take_due(RateLimitedLog::INTERVAL, now));
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        limited.admits_bytes(bytes as u64, bytes_max, RateLimitedLog::INTERVAL, now)
    }

    /// Whether this text has not been mentioned before. False also once `MENTIONS_MAX` others have been.
    pub(crate) fn is_first(&self, text: &str) -> bool {
        let mut mentioned = self.mentioned();
        if mentioned.len() == MENTIONS_MAX || mentioned.iter().any(|before| **before == *text) {
            return false;
        }
        mentioned.push(text.into());
        true
    }

    fn mentioned(&self) -> MutexGuard<'_, Vec<Box<str>>> {
        self.mentioned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_suppressed(&self, suppressed: Option<Suppressed>) {
        if let Some(suppressed) = suppressed {
            let Self { script, .. } = self;
            tracing::warn!(target: "script", script, "lines of its processes (limits.script_log): {suppressed}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, RateLimitedLog> {
        self.limited.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ScriptLog {
    fn drop(&mut self) {
        let suppressed = self.lock().take();
        self.log_suppressed(suppressed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_text_is_mentioned_once_for_a_script() {
        let (logs, now) = (ScriptLogs::new(100), Instant::now());
        assert!(logs.of("/a").is_first("x") && !logs.of("/a").is_first("x"));
        logs.advance(now + Duration::from_secs(100));
        assert!(!logs.of("/a").is_first("x"), "its processes have ended meanwhile");
        assert!(logs.of("/b").is_first("x"));
        let more = (0..100).filter(|number| logs.of("/a").is_first(&number.to_string()));
        assert_eq!(more.count(), MENTIONS_MAX - 1);
    }

    #[test]
    fn processes_of_one_script_share_a_bound_that_lasts_as_long_as_its_interval() {
        let (logs, now) = (ScriptLogs::new(100), Instant::now());
        assert!(logs.of("/a").admits(99, now));
        assert!(logs.of("/a").admits(99, now), "the line that reaches the bound");
        assert!(!logs.of("/a").admits(1, now), "another process");
        assert!(logs.of("/b").admits(1, now), "another script");
        logs.advance(now + Duration::from_secs(9));
        assert!(!logs.of("/a").admits(1, now + Duration::from_secs(9)));
        let held = logs.of("/b");
        logs.advance(now + Duration::from_secs(10));
        assert_eq!(logs.lock().len(), 1, "only that of the process");
        drop(held);
        logs.set_bytes_max(1);
        assert!(logs.of("/a").admits(5, now + Duration::from_secs(10)));
        assert!(!logs.of("/a").admits(5, now + Duration::from_secs(10)));
    }
}
