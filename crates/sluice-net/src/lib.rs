//! Connections: sockets, TLS, the PROXY protocol, and HTTP/1.1 and HTTP/2 around hyper. Floor 4, safe Rust.
//!
//! From `accept` to a request, and from a response to the socket. What a request means is up to the [`service`].
//!
//! ```text
//! listener ─▶ serve_connection ─▶ proxy_protocol ─▶ tls ─▶ http1 or http2 ─▶ Service ─▶ (tunnel)
//!                                                           (monitor: once a second)
//! ```
#![forbid(unsafe_code)]

pub mod active_exchange;
pub mod addresses;
pub mod certificate_facts;
pub mod chunk;
mod client_certificates;
pub mod client_counts;
mod close_reason;
mod coalescer;
pub mod connection;
mod connection_events;
mod connection_log;
pub mod connection_report;
mod fairness;
pub mod frames;
mod half_close;
mod http1;
mod http2;
mod http_connection;
pub mod listener;
pub mod listener_protocol;
mod monitor;
mod outgoing;
pub mod phase;
pub mod proxy_protocol;
pub mod reverse_dns;
mod send_allowance;
mod send_budget;
mod serve_connection;
pub mod service;
mod slot_events;
pub mod slots;
mod socket;
mod stream;
pub mod tls;
mod tls_info;
mod transport;
pub mod tunnel;
#[cfg(test)]
mod tunnel_tests;
pub mod unix;
mod unix_peer;
mod watched_bytes;
pub mod worker_net;
