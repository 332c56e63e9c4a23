//! The access log: lines formed by the workers, written and rotated by a thread of its own. Floor 4, safe Rust.
//!
//! What counts as the end of an exchange is for the caller; diagnostics are written with `tracing`.
#![forbid(unsafe_code)]

pub mod clock;
mod json;
pub mod line;
mod log;
pub mod rotate;
pub mod sink;

pub use log::{Log, SiteLog};
