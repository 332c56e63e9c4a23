//! Connections of clients.

use serde::{Deserialize, Serialize};

/// The connections of a server at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionList {
    /// Open now.
    pub open: usize,
    /// The most that may be open.
    pub max: usize,
    /// Accepted since the start.
    pub accepted: u64,
    /// Counts by state.
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

/// How many there are of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The kind.
    pub name: String,
    /// How many.
    pub count: usize,
}

/// A connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The client.
    pub client: String,
    /// Time since it was accepted, milliseconds.
    pub age_ms: u64,
    /// The state.
    pub state: String,
    /// The protocol.
    pub protocol: String,
    /// The version of TLS; `none` in clear text.
    pub tls: String,
    /// Requests so far.
    pub requests: u32,
}
