//! Integration tests of scripts in every mode: requests and replies, processes and pools, mailboxes and memory buffers.
//!
//! The real binary against raw bytes, one file per subject. `sluice_testing` starts the server, talks to it and checks what it
//! leaves behind; its file head explains how to write a test. Not here: unit tests of the crates.
#![allow(clippy::unwrap_used)]

mod bad_scripts;
mod callouts;
mod cgi;
mod cgiplus;
mod cut_uploads;
mod held_process;
mod locked_pipes;
mod memory_buffer;
mod pools;
mod record_mailbox;
mod rte;
mod script_control;
mod send_file;
