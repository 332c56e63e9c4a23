//! Log lines about connections that reach a bound. Any client can cause them in any number, so each kind is limited.

use std::io;
use std::time::{Duration, Instant};

use sluice_http::endpoints::Endpoints;
use sluice_http::rate_limited_log::{RateLimitedLog, Suppressed};

use crate::connection::Connection;

/// Lines of one kind in an interval.
const LINES_MAX: u32 = 1;

const REFUSED: &str = "connections closed before their first request";

#[derive(Default)]
pub(crate) struct ConnectionLog {
    slow: RateLimitedLog,
    closed_for_another: RateLimitedLog,
    over_client_limit: RateLimitedLog,
    used_memory: RateLimitedLog,
    accept_failed: RateLimitedLog,
    sent_descriptors: RateLimitedLog,
    refused: RateLimitedLog,
}

impl ConnectionLog {
    pub(crate) fn slow(&self, connection: &Connection) {
        if admits(&self.slow) {
            tracing::info!(
                "response to {} aborted: the client took less than send_timeout and send_rate allow",
                connection.peer.endpoints().client
            );
        }
    }

    pub(crate) fn closed_for_another(&self, connection: &Connection) {
        if admits(&self.closed_for_another) {
            tracing::warn!(
                "all connections of the worker are in use (limits.connections): closing the one that has been idle \
                 longest, from {}",
                connection.peer.endpoints().client
            );
        }
    }

    pub(crate) fn over_client_limit(&self, endpoints: &Endpoints, connections_max: u32) {
        if admits(&self.over_client_limit) {
            tracing::warn!(
                "connection from {} closed: its address has {connections_max} already (limits.connections_per_client)",
                endpoints.client
            );
        }
    }

    pub(crate) fn used_memory(&self, connection: &Connection, bytes: usize) {
        if admits(&self.used_memory) {
            tracing::warn!(
                "connection from {} aborted: {bytes} bytes of responses wait for it, and send_memory is used up",
                connection.peer.endpoints().client
            );
        }
    }

    pub(crate) fn accept_failed(&self, error: &io::Error, pause: Duration) {
        if admits(&self.accept_failed) {
            tracing::error!("accept: {error}; pausing for {pause:?}");
        }
    }

    pub(crate) fn sent_descriptors(&self, user: u32) {
        if admits(&self.sent_descriptors) {
            tracing::warn!(
                "connection on a unix socket closed: its client, of user {user}, has sent descriptors along"
            );
        }
    }

    /// Whether a line about a connection that is closed before its first request may be logged. It counts the line otherwise.
    pub(crate) fn admits_refusal(&self, lines_max: u32) -> bool {
        let now = Instant::now();
        if let Some(suppressed) = self.refused.take_due(RateLimitedLog::INTERVAL, now) {
            tracing::warn!("{REFUSED}: {suppressed}");
        }
        self.refused.admits(lines_max, RateLimitedLog::INTERVAL, now)
    }

    /// Logs the counts of intervals that are over. The worker calls this once a second.
    pub(crate) fn log_due(&self) {
        self.log_suppressed(|limited| limited.take_due(RateLimitedLog::INTERVAL, Instant::now()));
    }

    fn log_suppressed(&self, take: impl Fn(&RateLimitedLog) -> Option<Suppressed>) {
        let kinds = [
            (&self.slow, "responses aborted because their clients are too slow"),
            (&self.closed_for_another, "idle connections closed for others"),
            (
                &self.over_client_limit,
                "connections over limits.connections_per_client",
            ),
            (&self.used_memory, "connections aborted because send_memory is used up"),
            (
                &self.accept_failed,
                "accepting failed for lack of descriptors or memory",
            ),
            (
                &self.sent_descriptors,
                "connections on unix sockets closed because their clients send descriptors",
            ),
            (&self.refused, REFUSED),
        ];
        for (limited, kind) in kinds {
            if let Some(suppressed) = take(limited) {
                tracing::warn!("{kind}: {suppressed}");
            }
        }
    }
}

/// The counts of the last interval are not lost.
impl Drop for ConnectionLog {
    fn drop(&mut self) {
        self.log_suppressed(RateLimitedLog::take);
    }
}

/// Whether a line may be logged. The counts of the interval before are logged within a second of its end.
fn admits(limited: &RateLimitedLog) -> bool {
    limited.admits(LINES_MAX, RateLimitedLog::INTERVAL, Instant::now())
}
