//! Integration tests: the real binary against raw bytes, and everything a client, a script or a signal can do to it.
//!
//! One file per subject. The `harness` starts the server, talks to it and checks what it leaves behind; its file head
//! explains how to write a test. Not here: unit tests of the crates.
#![allow(clippy::unwrap_used)]

mod harness;

mod access;
mod addresses;
mod bad_clients;
mod bad_scripts;
mod cache;
mod callouts;
mod cgi;
mod cgiplus;
mod compression;
mod conditions;
mod configuration;
mod connections;
mod control;
mod diagnostics;
mod directories;
mod error_pages;
mod files;
mod guides;
mod half_close;
mod http;
mod http2;
mod launcher;
mod lifecycle;
mod limits;
mod links;
mod listing;
mod log;
mod memory_buffer;
mod missing;
mod own_process;
mod pools;
mod ranges;
mod record_mailbox;
mod records;
mod reports;
mod routes;
mod rte;
mod running;
mod script_control;
mod send_file;
mod server_log;
mod sites;
mod slow_clients;
mod supervisor;
mod targets;
mod tls;
mod top;
mod turns;
mod users;
mod watch;
mod watch_in_progress;
mod watch_network;
mod watch_scripts;
mod watch_stages;
mod withheld;
mod workout;
