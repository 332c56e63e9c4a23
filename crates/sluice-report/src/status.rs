//! The state of a server: what `sluice status --json` prints and the pages show.

use serde::{Deserialize, Serialize};

use crate::text::counted;
use crate::traffic::Traffic;

/// The state of a server at one moment. Counts are those since its start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// When it started, seconds since 1970.
    pub started: u64,
    pub workers: usize,
    pub addresses: Vec<String>,
    pub connections: ConnectionTotals,
    pub requests: RequestTotals,
    pub processes: Processes,
    /// The file cache. `None` if it is off.
    pub cache: Option<CacheStatus>,
    #[serde(default)]
    pub traffic: Traffic,
    #[serde(default)]
    pub certificates: Vec<CertificateStatus>,
    /// The faults that last, a line for each: what it has started without, and what has failed since.
    #[serde(default)]
    pub faults: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateStatus {
    /// The file, or a phrase for one that was made at the start.
    pub file: String,
    pub hosts: Vec<String>,
    /// When it expires, seconds since 1970.
    pub expires: u64,
}

impl CertificateStatus {
    /// From this time before its end on, a certificate is a warning: a working renewal program has renewed it by then (Let's Encrypt's after 60 of 90 days).
    pub const WARNED_SECONDS: u64 = 21 * DAY;

    /// Whether it expires so soon that somebody should look, or has expired.
    #[must_use]
    pub fn is_urgent(&self, now: u64) -> bool {
        self.expires < now.saturating_add(CertificateStatus::WARNED_SECONDS)
    }

    /// `expires in 65 days`, `has expired 2 days ago`.
    #[must_use]
    pub fn life(&self, now: u64) -> String {
        let span = |seconds: u64| match seconds / DAY {
            0 => counted(seconds / HOUR, "hour", "hours"),
            days => counted(days, "day", "days"),
        };
        match self.expires.checked_sub(now) {
            Some(left) => format!("expires in {}", span(left)),
            None => format!("has expired {} ago", span(now - self.expires)),
        }
    }
}

const HOUR: u64 = 60 * 60;
const DAY: u64 = 24 * HOUR;

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ConnectionTotals {
    pub open: u64,
    pub max: usize,
    pub accepted: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct RequestTotals {
    /// Requests whose head was read.
    pub total: u64,
    /// The requests among these that are not yet answered completely.
    pub in_progress: u64,
    pub by_class: [u64; 5],
    /// Requests whose clients left before there was a response (499 in the access log).
    pub client_left: u64,
    pub truncated: u64,
    pub body_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Processes {
    pub running: usize,
    pub max: usize,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CacheStatus {
    pub files: u64,
    pub bytes: u64,
    /// Requests answered from memory, checked or not.
    pub hits: u64,
    pub misses: u64,
    pub evicted: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_urgent_from_three_weeks_before_its_end() {
        let certificate = CertificateStatus { expires: 100 * DAY, ..CertificateStatus::default() };
        for (now, is_urgent, life) in [
            (50 * DAY, false, "expires in 50 days"),
            (79 * DAY, false, "expires in 21 days"),
            (79 * DAY + 1, true, "expires in 20 days"),
            (99 * DAY, true, "expires in 1 day"),
            (100 * DAY - 2 * HOUR, true, "expires in 2 hours"),
            (102 * DAY, true, "has expired 2 days ago"),
        ] {
            assert_eq!((certificate.is_urgent(now), &*certificate.life(now)), (is_urgent, life));
        }
    }
}
