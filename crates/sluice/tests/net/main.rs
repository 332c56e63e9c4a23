//! Integration tests of the network side: addresses, connections, HTTP/1.1, HTTP/2, TLS, and bad and slow clients.
//!
//! The real binary against raw bytes, one file per subject. `sluice_testing` starts the server, talks to it and checks what it
//! leaves behind; its file head explains how to write a test. Not here: unit tests of the crates.
#![allow(clippy::unwrap_used)]

mod addresses;
mod bad_clients;
mod connections;
mod half_close;
mod http;
mod http2;
mod slow_clients;
mod targets;
mod tls;
mod turns;
mod watch_network;
