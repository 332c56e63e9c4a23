//! HTTP as values: targets, hosts, ranges, conditions, content codings, faults, response bodies. Floor 2, safe Rust.
//!
//! Parsers of request data, and the head and body of a response. Nothing here opens a file or a socket, or knows a site.
#![forbid(unsafe_code)]

pub mod accept;
pub mod body;
pub mod conditions;
pub mod counter;
pub mod encoding;
pub mod endpoints;
pub mod escape;
pub mod fault;
pub mod forwarded;
pub mod head;
pub mod host;
pub mod multipart;
pub mod path_text;
pub mod progress;
pub mod ranges;
pub mod rate_limited_log;
pub mod received;
pub mod request_id;
pub mod target;
pub mod tasks;
