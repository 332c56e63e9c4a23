//! What the administrator says, as values: settings, rules, formats, limits. Floor 3, safe Rust.
//!
//! Plain data, made by the program from its configuration and arguments. Nothing here opens, binds or runs anything.
#![forbid(unsafe_code)]

pub mod address;
pub mod compression;
pub mod limits;
pub mod log_format;
pub mod open_error;
pub mod record_format;
pub mod rule;
mod settings;
pub mod template;

pub use settings::*;
