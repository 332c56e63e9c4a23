//! The state of a server: what `sluice status --json` prints and the pages show.

use serde::{Deserialize, Serialize};

use crate::traffic::Traffic;

/// The state of a server at one moment. Counts are those since its start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// When it started, seconds since 1970.
    pub started: u64,
    /// Event-loop threads.
    pub workers: usize,
    /// The addresses that it listens on.
    pub addresses: Vec<String>,
    /// Connections of clients.
    pub connections: ConnectionTotals,
    /// Requests.
    pub requests: RequestTotals,
    /// Script processes.
    pub processes: Processes,
    /// The file cache. `None` if it is off.
    pub cache: Option<CacheStatus>,
    /// The exchanges that have ended since its start.
    #[serde(default)]
    pub traffic: Traffic,
}

/// Connections of clients.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ConnectionTotals {
    /// Open now.
    pub open: u64,
    /// The most that may be open.
    pub max: usize,
    /// Accepted.
    pub accepted: u64,
}

/// Requests and their responses.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct RequestTotals {
    /// Requests whose head was read.
    pub total: u64,
    /// The requests among these that are not yet answered completely.
    pub in_progress: u64,
    /// Responses by the first digit of their status: 1xx to 5xx.
    pub by_class: [u64; 5],
    /// Requests whose clients left before there was a response (499 in the access log).
    pub client_left: u64,
    /// Responses that ended before they were complete.
    pub truncated: u64,
    /// Bytes of the bodies of responses.
    pub body_bytes: u64,
}

/// Script processes of the whole server.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Processes {
    /// Running now.
    pub running: usize,
    /// The most that may run.
    pub max: usize,
}

/// The file cache.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CacheStatus {
    /// Entries in memory.
    pub files: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// Requests answered from memory, checked or not.
    pub hits: u64,
    /// Requests that were not.
    pub misses: u64,
    /// Entries that were removed to make room.
    pub evicted: u64,
}
