//! Files as responses: opening below a directory, cache, variants, ranges, records, directory listings. Floor 4, safe Rust.
//!
//! The caller decides which directory a path belongs to, and whether a request may have its file.
//!
//! ```text
//! lookup ──▶ cache ─────────▶ Found ──▶ variants ──▶ Selected ──▶ cache_work ──▶ response
//!       └──▶ directory ─▶ records       file_events: what WATCH shows of it
//!            foreign: file systems that may not answer
//! ```
#![forbid(unsafe_code)]

pub(crate) mod body;
pub mod cache;
pub mod cache_work;
pub mod directory;
mod file_events;
pub mod foreign;
pub(crate) mod found;
pub mod links;
pub mod listing;
pub(crate) mod local_read;
pub mod lookup;
pub mod missing_directory;
pub(crate) mod open_directory;
pub mod open_files;
pub(crate) mod pace;
pub mod records;
pub(crate) mod representation;
pub mod response;
pub mod send_file;
pub mod types;
pub(crate) mod variants;
pub mod withheld;
