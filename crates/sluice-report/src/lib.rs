//! The values of the reports about a running server. Floor 2, safe Rust.
//!
//! Each value is also its JSON (serde), whose names are those of the fields. No I/O and no clock.
#![forbid(unsafe_code)]
#![allow(
    missing_docs,
    reason = "a field has a comment where its name does not say the unit, the bound or the meaning"
)]

pub mod access;
pub mod activity;
pub mod cache;
pub mod command;
pub mod configuration;
pub mod connections;
pub mod histogram;
pub mod logs;
pub mod machine;
pub mod overview;
pub mod requests;
pub mod scripts;
pub mod statistics;
pub mod status;
pub mod text;
pub mod traffic;
