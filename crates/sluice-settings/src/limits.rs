//! The limits of the server: unit, reason, effect.

use std::time::Duration;

use sluice_http::request_body::BodyLimits;

/// The limits of connections, heads and bodies; one set for the whole server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections, divided evenly among the workers; fewer if the limit of descriptors does not allow so many. At its share a worker closes the
    /// connection idle longest for each new one. If none is idle, it stops accepting until one is; the kernel's backlog holds further ones, so none is
    /// refused that could be served a moment later. (`sluice_net::listener`)
    pub connections_max: usize,
    /// Open connections of one client address; 0 for no limit. Further ones are closed at once. Off by default, because many users may share an
    /// address, behind NAT or a proxy that the configuration does not name. (`sluice_net::listener`)
    pub client_connections_max: u32,
    /// Bytes of a request's head. Beyond it: 431; 414 for a target of more than 64 KiB in a head within the limit. In both
    /// cases the connection is closed. hyper rejects a limit below 8192. (`sluice_net::http1`, `sluice_net::http2`)
    pub head_bytes_max: usize,
    /// Fields in a request's head. Beyond it: 431. (`sluice_net::http1`; for HTTP/2 `sluice_server::serve`)
    pub head_fields_max: usize,
    /// Bytes of a request's body, announced or counted. Beyond it: 413. (`sluice_http::request_body`)
    pub body_bytes_max: u64,
    /// The time from the start of waiting for a head until it is complete; also for a TLS handshake. A partial head gets 408; a connection without a
    /// byte of a head (idle) is closed. Checked once a second. (`sluice_net::http1`, `sluice_net::serve_connection`)
    pub head_timeout: Duration,
    /// Longest time without a byte of a request's body. Beyond it: 408, and the script is stopped. (`sluice_http::request_body`)
    pub body_timeout: Duration,
    /// Lowest rate of a request's body, bytes per second, over the time spent waiting for the client; 0 disables it. A client may lag behind it by
    /// `body_timeout`. Beyond that: as for `body_timeout`. Without it, a byte now and then could occupy a script for years. (`sluice_http::request_body`)
    pub body_bytes_per_second_min: u64,
    /// Longest time in which a client reads nothing of its response. Beyond it the connection is closed; in HTTP/2 the
    /// response is reset if the connection as such goes on. Checked once a second. (`sluice_net::send_allowance`)
    pub send_timeout: Duration,
    /// Lowest rate at which a client reads a response, bytes per second, over the time that the server waits for the client; 0 disables it. A client may lag
    /// behind it by `send_timeout`. Below it: as for `send_timeout`. The reason is that of `body_bytes_per_second_min`. (`sluice_net::send_allowance`)
    pub send_bytes_per_second_min: u64,
    /// Longest time that an HTTP/1.1 exchange goes on without sending anything after its client has closed its sending side. Such a
    /// client may wait for its response, or may have left. Beyond it the client is taken to have left, and its script is stopped. At
    /// 0 every client that closes its sending side has left. Checked once a second. (`sluice_net::half_close`)
    pub half_close_timeout: Duration,
    /// Bytes of memory for responses that wait for clients, divided evenly among the workers. From half of it on, responses
    /// wait in small chunks; beyond it the connection is aborted whose waiting bytes have the largest sum of waiting times. The default
    /// is 25 KiB for each of 10,000 connections, which is more than a slow one then has. (`sluice_net::send_budget`)
    pub send_memory_bytes_max: usize,
    /// Bytes of all stored request bodies together, in memory and files; by default four of the default size. Beyond it: 503. (`sluice_http::stored_body`)
    pub stored_bodies_bytes_max: u64,
    /// Bytes of all memory buffers of scripts together; `None`: a quarter of the memory that the server may use. Beyond it: 503. (`sluice_membuf::Budget`)
    pub memory_buffers_bytes_max: Option<u64>,
    /// Script processes of the whole server, idle ones included; `None` for what the machine can carry. At the limit an idle process
    /// of another script is ended, and requests wait in the queue of their script. (`sluice_script::pool::process_limit`)
    pub processes_max: Option<usize>,
    /// Script processes above which each start ends an idle process of any script; `None` for `processes_max`. (`sluice_script::pool::process_limit`)
    pub processes_soft_max: Option<usize>,
    /// Whether each script process gets a cgroup of its own, where the server may create them. (`sluice_launch::Cgroups`)
    pub has_cgroups: bool,
    /// The time after SIGTERM until exchanges in progress are aborted. (`sluice_server::worker`)
    pub drain_timeout: Duration,
    /// The time for which a launcher may leave the supervisor's questions unanswered; then it is killed, and another one is started.
    pub launcher_timeout: Duration,
    /// Lines of one kind that a worker logs about refused requests and failed responses within 10 seconds. Beyond it they are
    /// counted, and the count is logged: a client must not be able to fill a disk. (`sluice_server::serve`)
    pub log_lines_max: u32,
    /// Bytes of the lines that the processes of one script have logged within 10 seconds (standard error, NOTICED). Beyond it: as for `log_lines_max`.
    /// The default is a thousand lines of 256 bytes; all in all 2 GB in a day. (`sluice_script::process::script_log`)
    pub script_log_bytes_max: u64,
}

impl Limits {
    /// The limits of a request body, where no route has others.
    #[must_use]
    pub fn body(&self) -> BodyLimits {
        BodyLimits {
            bytes_max: self.body_bytes_max,
            timeout: self.body_timeout,
            bytes_per_second_min: self.body_bytes_per_second_min,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 10_000,
            client_connections_max: 0,
            head_bytes_max: 64 << 10,
            head_fields_max: 100,
            body_bytes_max: 1 << 30,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            body_bytes_per_second_min: 500,
            send_timeout: Duration::from_secs(60),
            send_bytes_per_second_min: 500,
            half_close_timeout: Duration::from_secs(60),
            send_memory_bytes_max: 256 << 20,
            stored_bodies_bytes_max: 4 << 30,
            memory_buffers_bytes_max: None,
            processes_max: None,
            processes_soft_max: None,
            has_cgroups: true,
            drain_timeout: Duration::from_secs(30),
            launcher_timeout: Duration::from_secs(30),
            log_lines_max: 10,
            script_log_bytes_max: 256 << 10,
        }
    }
}
