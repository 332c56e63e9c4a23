//! Integration tests of the configuration: its files, sites, routes and error pages, and the guides about moving.
//!
//! The real binary against raw bytes, one file per subject. `sluice_testing` starts the server, talks to it and checks what it
//! leaves behind; its file head explains how to write a test. Not here: unit tests of the crates.
#![allow(clippy::unwrap_used)]

mod configuration;
mod engines;
mod error_pages;
mod guides;
mod routes;
mod sites;
