//! Integration tests for administrators: supervisor, launcher, control socket, logs, reports, WATCH and workout.
//!
//! The real binary against raw bytes, one file per subject. `sluice_testing` starts the server, talks to it and checks what it
//! leaves behind; its file head explains how to write a test. Not here: unit tests of the crates.
#![allow(clippy::unwrap_used)]

mod browser;
mod control;
mod diagnostics;
mod launcher;
mod lifecycle;
mod log;
mod moved_directories;
mod read_only;
mod reports;
mod running;
mod server_log;
mod start_without;
mod supervisor;
mod top;
mod watch;
mod watch_in_progress;
mod watch_scripts;
mod watch_stages;
mod workout;
