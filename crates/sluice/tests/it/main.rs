//! The real binary against raw bytes: everything a client, a script or a signal can do to a running server.
//!
//! One file a subject; what starts the server, speaks to it and looks for what it leaves behind is the `harness`, whose
//! head tells how to write a test. Not here: parts of the server by themselves (their own crates' tests).
#![allow(clippy::unwrap_used)]

mod harness;

mod addresses;
mod bad_clients;
mod bad_scripts;
mod cache;
mod callouts;
mod cgi;
mod cgiplus;
mod compression;
mod conditions;
mod error_pages;
mod files;
mod http;
mod http2;
mod lifecycle;
mod listing;
mod log;
mod memory_buffer;
mod pools;
mod ranges;
mod records;
mod rules;
mod send_file;
mod slow_clients;
mod tls;
