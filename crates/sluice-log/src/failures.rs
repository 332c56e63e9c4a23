//! The failures of a log: what goes wrong, and when to retry and report it.
//!
//! `log` names the log in messages.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::clock::Now;
use crate::wakeup::lock;

/// How long to wait after a failed write before the next attempt.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

/// How often a lasting failure is reported.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// A line about each log of this process that cannot be written, by the log's name.
static FAULTS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// A line about each log that cannot be written at present.
#[must_use]
pub fn faults() -> Vec<String> {
    lock(&FAULTS).values().cloned().collect()
}

/// Forgets the fault of a log.
pub(crate) fn forget_fault(log: &str) {
    lock(&FAULTS).remove(log);
}

/// The failures of one log, and what was reported of them.
#[derive(Default)]
pub(crate) struct Failures {
    /// The reason why lines wait, if writing fails.
    pub failure: Option<String>,
    pub failed_at: Option<Instant>,
    /// Lines dropped since the last report.
    pub lost: u64,
    pub reported_at: Option<Instant>,
    /// When a failed rotation was last reported; it loses no line.
    warned_at: Option<Instant>,
}

impl Failures {
    pub(crate) fn begin(&mut self, log: String, error: &io::Error, now: Now) {
        let line = format!(
            "{log}: {error}; lines wait, and further ones are lost, until it can be written: make room for it, or name another file"
        );
        lock(&FAULTS).insert(log, line);
        self.failure = Some(error.to_string());
        self.failed_at = Some(now.instant);
    }

    /// Notes that writing has succeeded, and reports the end of a failure.
    pub(crate) fn end(&mut self, log: &str) {
        if self.failure.take().is_some() {
            forget_fault(log);
            let lost = std::mem::take(&mut self.lost);
            tracing::info!("{log}: writing succeeds again; {lost} more lines were lost");
            (self.failed_at, self.reported_at) = (None, None);
        }
    }

    pub(crate) fn is_retry_due(&self, now: Now) -> bool {
        has_passed(RETRY, self.failed_at, now)
    }

    /// Whether there is something to report, and the interval is over.
    pub(crate) fn is_report_due(&self, now: Now) -> bool {
        let is_clean = self.failure.is_none() && self.lost == 0;
        !is_clean && has_passed(REPORT_INTERVAL, self.reported_at, now)
    }

    /// Reports a failure and the lines lost; call it if `is_report_due`.
    pub(crate) fn report(&mut self, log: &str, now: Now) {
        self.reported_at = Some(now.instant);
        let lost = std::mem::take(&mut self.lost);
        match (&self.failure, lost) {
            (None, lost) => tracing::error!("{log}: {lost} lines lost, because it could not keep up"),
            (Some(failure), 0) => {
                tracing::error!("{log}: {failure}; lines wait until it can be written again");
            }
            (Some(failure), lost) => tracing::error!("{log}: {failure}; {lost} lines lost"),
        }
    }

    /// Reports at the end, regardless of the interval.
    pub(crate) fn report_last(&mut self, log: &str, now: Now) {
        self.reported_at = None;
        if self.is_report_due(now) {
            self.report(log, now);
        }
    }

    /// Warns of a failed rotation, once per interval.
    pub(crate) fn warn(&mut self, log: &str, text: &str, now: Now) {
        if has_passed(REPORT_INTERVAL, self.warned_at, now) {
            self.warned_at = Some(now.instant);
            tracing::warn!("{log}: {text}");
        }
    }
}

fn has_passed(interval: Duration, since: Option<Instant>, now: Now) -> bool {
    since.is_none_or(|since| now.instant.duration_since(since) >= interval)
}
