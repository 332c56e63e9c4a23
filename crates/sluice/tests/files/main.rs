//! Integration tests of static files: what is sent, cached, compressed, listed and withheld.
//!
//! The real binary against raw bytes, one file per subject. `sluice_testing` starts the server, talks to it and checks what it
//! leaves behind; its file head explains how to write a test. Not here: unit tests of the crates.
#![allow(clippy::unwrap_used)]

mod cache;
mod compression;
mod conditions;
mod directories;
mod files;
mod leases;
mod links;
mod listing;
mod missing;
mod ranges;
mod records;
mod silent;
mod withheld;
