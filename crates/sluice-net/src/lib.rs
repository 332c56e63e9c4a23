//! Connections: sockets, TLS, the PROXY protocol, HTTP/1.1 and HTTP/2 around hyper. Floor 4, safe Rust.
//!
//! From `accept` to a request, and from a response to the socket. What a request means is for the [`service`].
#![forbid(unsafe_code)]

pub mod coalescer;
pub mod connection;
pub mod front;
pub mod http1;
pub mod http2;
pub mod listener;
pub mod monitor;
pub mod phase;
pub mod protocol;
pub mod proxy_protocol;
pub mod service;
pub mod slots;
pub mod socket;
pub mod stream;
pub mod tls;
pub mod tls_info;
pub mod transport;
pub mod unix;
