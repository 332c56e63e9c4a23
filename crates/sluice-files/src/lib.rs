//! Files as responses: opening below a directory, cache, variants, ranges, records, directory listings. Floor 4, safe Rust.
//!
//! Which directory a path means, and whether a request may have its file, is decided by the caller.
#![forbid(unsafe_code)]

pub mod body;
pub mod cache;
pub mod directory;
pub mod file;
pub mod listing;
pub mod records;
pub mod representation;
pub mod response;
pub mod send_file;
pub mod types;
pub mod variants;
