//! HTTP as values: targets, hosts, ranges, conditions, content codings, faults, response bodies. Floor 2, safe Rust.
//!
//! Parsers of request data, and the bodies of requests and responses. Nothing here opens a socket or knows a site; only a stored request body has a file.
#![forbid(unsafe_code)]

pub mod accept;
pub mod body;
pub mod body_source;
pub mod conditions;
pub mod counter;
pub mod elsewhere;
pub mod encoding;
pub mod endpoints;
pub mod escape;
pub mod fault;
pub mod forwarded;
mod framing;
pub mod head;
pub mod host;
pub mod multipart;
pub mod part;
pub mod path_text;
pub mod progress;
pub mod protocol;
pub mod ranges;
pub mod rate_limited_log;
pub mod received;
pub mod request_body;
pub mod request_id;
pub mod series;
pub mod stored_body;
pub mod target;
pub mod tasks;
pub mod watch_pause;
