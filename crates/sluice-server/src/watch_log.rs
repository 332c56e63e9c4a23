//! The log lines of a watch (WATCH): who watches what, and what came of it.
//!
//! Every watch is logged, at the control socket and on the pages alike, because it shows what users send and get.

use std::time::Instant;

use sluice_watch::{Spec, Taken};

/// A watch in the server log. When it is dropped, the end is logged.
#[derive(Debug)]
pub struct WatchLog {
    watcher: String,
    began: Instant,
    events: u64,
    lost: u64,
    reason: &'static str,
}

impl WatchLog {
    /// The reason of an end that the watcher caused.
    pub const LEFT: &'static str = "the watcher has left";

    /// Logs that a watch begins.
    #[must_use]
    pub fn begin(watcher: String, spec: &Spec) -> WatchLog {
        tracing::info!("watch by {watcher}: {spec}");
        WatchLog {
            watcher,
            began: Instant::now(),
            events: 0,
            lost: 0,
            reason: WatchLog::LEFT,
        }
    }

    /// Counts what the watcher was shown.
    pub fn count(&mut self, taken: &Taken) {
        self.events += taken.events.len() as u64;
        self.lost += taken.lost;
    }

    /// Whether the watcher was shown an event.
    #[must_use]
    pub fn has_shown(&self) -> bool {
        self.events > 0
    }

    /// Sets the reason of the end.
    pub fn end(&mut self, reason: &'static str) {
        self.reason = reason;
    }
}

impl Drop for WatchLog {
    fn drop(&mut self) {
        let seconds = self.began.elapsed().as_secs();
        tracing::info!(
            "watch by {} has ended after {seconds} s: {}; {} events, {} lost",
            self.watcher,
            self.reason,
            self.events,
            self.lost
        );
    }
}
