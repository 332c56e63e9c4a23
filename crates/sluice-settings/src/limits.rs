//! The limits of the server: unit, reason, effect.
//!
//! Here: plain numbers with their defaults; each field names the module that enforces it. Not here: the limits of a script
//! and its pool (`ScriptSettings`).

use std::time::Duration;

/// The limits of connections, heads and bodies; one set for the whole server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections, divided evenly among the workers. At its share a worker stops accepting until a connection ends; the
    /// kernel's backlog holds further ones, so none is refused that could be served a moment later. (`sluice_net::listener`)
    pub connections_max: usize,
    /// Bytes of a request's head. Beyond it: 431; 414 for a target of more than 64 KiB in a head within the limit. In both
    /// cases the connection is closed. hyper rejects a limit below 8192. (`sluice_net::http1`, `sluice_net::http2`)
    pub head_bytes_max: usize,
    /// Fields in a request's head. Beyond it: 431. (`sluice_net::http1`; for HTTP/2 `sluice_server::serve`)
    pub head_fields_max: usize,
    /// Bytes of a request's body, announced or counted. Beyond it: 413. (`sluice_script::request_body`)
    pub body_bytes_max: u64,
    /// The time from the start of waiting for a head until it is complete; also for a TLS handshake. A partial head gets 408;
    /// a connection without a byte of a head (idle) is closed. Checked once a second. (`sluice_net::http1`,
    /// `sluice_net::serve_connection`)
    pub head_timeout: Duration,
    /// Longest time without a byte of a request's body. Beyond it: 408, and the script is stopped.
    /// (`sluice_script::request_body`)
    pub body_timeout: Duration,
    /// Lowest rate of a request's body, bytes per second, averaged over the time spent waiting for the client; 0 disables it.
    /// The rate is checked after `body_timeout`. Below it: as for `body_timeout`. Without it, a client that sends a byte now
    /// and then could occupy a script for years. (`sluice_script::request_body`)
    pub body_bytes_per_second_min: u64,
    /// Longest time in which a client reads nothing of its response. Beyond it the connection is closed.
    /// (`sluice_net::stream`, `sluice_net::http2`)
    pub send_timeout: Duration,
    /// Bytes of all stored request bodies together, in memory and in files. Beyond it: 503. The default is that of four bodies of
    /// the default size. (`sluice_script::request_body`)
    pub stored_bodies_bytes_max: u64,
    /// Bytes of the memory buffers of all script processes together; `None` for a quarter of the memory that the server may
    /// use. Beyond it, BUFFER-BEGIN is answered 503. (`sluice_membuf::Budget`)
    pub memory_buffers_bytes_max: Option<u64>,
    /// The time after SIGTERM until exchanges in progress are aborted. (`sluice_server::worker`)
    pub drain_timeout: Duration,
    /// Lines of one kind that a worker logs about refused requests and failed responses within 10 seconds. Beyond it they are
    /// counted, and the count is logged: a client must not be able to fill a disk. (`sluice_server::serve`)
    pub log_lines_max: u32,
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
            stored_bodies_bytes_max: 4 << 30,
            memory_buffers_bytes_max: None,
            drain_timeout: Duration::from_secs(30),
            log_lines_max: 10,
        }
    }
}
