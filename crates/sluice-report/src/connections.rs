//! Connections of clients.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionList {
    pub open: usize,
    pub max: usize,
    pub accepted: u64,
    pub states: Vec<Count>,
    /// Counts by protocol: HTTP/1, HTTP/2; `opening` until it is known.
    pub protocols: Vec<Count>,
    /// Counts by the version of TLS; `none` in clear text.
    pub tls: Vec<Count>,
    /// The ages of the oldest, the oldest first.
    pub oldest: Vec<Connection>,
    /// The addresses with most connections; the first 64 bits of an IPv6 address count as one.
    pub clients: Vec<Count>,
    /// Workers that did not answer in time; their connections are missing.
    pub silent_workers: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    pub name: String,
    pub count: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    pub client: String,
    /// Time since it was accepted, milliseconds.
    pub age_ms: u64,
    pub state: String,
    pub protocol: String,
    /// The version of TLS; `none` in clear text.
    pub tls: String,
    pub requests: u32,
}
