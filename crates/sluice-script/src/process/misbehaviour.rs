//! Log lines about kept processes that write when no reply is awaited from them: the script's fault, and any number of them.

use std::time::Instant;

use sluice_http::rate_limited_log::{RateLimitedLog, Suppressed};

use crate::process::Process;

/// Lines of one worker in each interval; further ones are counted. A script that does it once does it with each reply.
const LINES_MAX: u32 = 10;

pub(crate) const AFTER_SENTINEL: &str = "after the sentinel that ended its reply (CGIPLUSEOF)";
pub(crate) const BETWEEN_REQUESTS: &str = "between two requests, after the sentinel that ended its reply (CGIPLUSEOF)";
pub(crate) const BEFORE_REQUEST: &str = "before it had read its request; another process gets the request";

#[derive(Default)]
pub(crate) struct MisbehaviourLog(RateLimitedLog);

impl MisbehaviourLog {
    /// Logs that the process has written out of turn, at this time, and is stopped, or counts it.
    pub(crate) fn log(&self, process: &Process, when: &str) {
        self.advance();
        if !self.0.admits(LINES_MAX, RateLimitedLog::INTERVAL, Instant::now()) {
            return;
        }
        tracing::warn!("{}: stopped, because it wrote {when}", process.describe());
    }

    /// Logs the count of lines that were not logged, once their interval is over.
    pub(crate) fn advance(&self) {
        log_suppressed(self.0.take_due(RateLimitedLog::INTERVAL, Instant::now()));
    }
}

/// The last count is not lost, as everywhere where lines are counted.
impl Drop for MisbehaviourLog {
    fn drop(&mut self) {
        log_suppressed(self.0.take());
    }
}

fn log_suppressed(suppressed: Option<Suppressed>) {
    if let Some(suppressed) = suppressed {
        tracing::warn!("processes stopped, because they wrote outside a reply: {suppressed}");
    }
}
