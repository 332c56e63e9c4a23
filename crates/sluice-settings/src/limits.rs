//! Every bound of the server that is not a script's own: its unit, its reason, and what happens there.
//!
//! Here: plain numbers with their defaults. Not here: the bounds of a script and its pool (`settings::ScriptSettings`),
//! and whoever enforces a bound; each field names that place.

use std::time::Duration;

/// The bounds on connections, heads and bodies; one set for the whole server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at once, divided evenly among the workers. At its share a worker stops accepting until one ends: the kernel's
    /// backlog holds the rest, so nothing is refused that could be served a moment later. (`accept::listener`)
    pub connections_max: usize,
    /// Bytes of a request's head. Over it: 431; 414 for a target of more than 64 KiB in a head within it. Either way the connection is
    /// closed. hyper refuses anything below 8192. (`accept::http1`, `accept::http2`)
    pub head_bytes_max: usize,
    /// Fields in a request's head. Over it: 431. (`accept::http1`; for HTTP/2 `accept::serve`)
    pub head_fields_max: usize,
    /// Bytes of a request's body, announced or counted. Over it: 413. (`script::request_body`)
    pub body_bytes_max: u64,
    /// From the first moment a head is awaited until it is complete. A half head gets 408; a connection that sent nothing
    /// (kept alive) is just closed. Also for a handshake of TLS. Looked at once a second. (`accept::http1`, `accept::protocol`)
    pub head_timeout: Duration,
    /// Silence within a request's body. Over it: 408, and the script is stopped. (`script::request_body`)
    pub body_timeout: Duration,
    /// Bytes a second of a request's body, on the average over the time that its client is waited for; 0 for none. A body may take
    /// `body_timeout` before it counts. Below it: as above. Without it a client that sends a byte now and then would hold a script
    /// for years. (`script::request_body`)
    pub body_bytes_per_second_min: u64,
    /// A client that makes no room for more of its response for so long loses its connection. (`accept::stream`, `accept::http2`)
    pub send_timeout: Duration,
    /// After SIGTERM: how long the exchanges under way may take before they are cut. (`worker`)
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 10_000,
            head_bytes_max: 64 << 10,
            head_fields_max: 100,
            body_bytes_max: 1 << 30,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            body_bytes_per_second_min: 500,
            send_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(30),
        }
    }
}
