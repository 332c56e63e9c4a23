//! Integration tests of access and confinement: passwords and agents, users, and the limits of script processes.
//!
//! The real binary against raw bytes, one file per subject. `sluice_testing` starts the server, talks to it and checks what it
//! leaves behind; its file head explains how to write a test. Not here: unit tests of the crates.
#![allow(clippy::unwrap_used)]

mod access;
mod limits;
mod own_process;
mod users;
