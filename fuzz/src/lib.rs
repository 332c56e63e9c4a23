//! Checks for the hand-written parsers of untrusted bytes: each module feeds one parser and asserts its properties.
//!
//! Here: what must hold for every input. The fuzzing engine calls the checks with mutated input (`fuzz_targets/`), and
//! `tests/replay.rs` calls them with the committed corpora (`corpus/`), without an engine. Not here: what a parser returns for
//! a given input, which the unit tests of the crates assert.
#![forbid(unsafe_code)]

pub mod accept;
pub mod accept_encoding;
pub mod access_rule;
pub mod agent_answer;
pub mod callout;
pub mod chunked;
pub mod conditions;
pub mod credentials;
pub mod forwarded;
pub mod frames;
pub mod host;
pub mod input;
pub mod log_format;
pub mod message_mask;
pub mod proxy_protocol;
pub mod ranges;
pub mod record;
pub mod records;
pub mod reply_head;
pub mod ring;
pub mod scanner;
pub mod target;
pub mod users_file;
pub mod variables;

/// Asserts the properties of one parser for one input.
pub type Check = fn(&[u8]);

/// Every target: its name, which is also that of its directory in `corpus/`, and its check.
pub const TARGETS: &[(&str, Check)] = &[
    ("accept", accept::check),
    ("accept_encoding", accept_encoding::check),
    ("access_rule", access_rule::check),
    ("agent_answer", agent_answer::check),
    ("callout", callout::check),
    ("chunked", chunked::check),
    ("conditions", conditions::check),
    ("credentials", credentials::check),
    ("forwarded", forwarded::check),
    ("frames", frames::check),
    ("host", host::check),
    ("log_format", log_format::check),
    ("message_mask", message_mask::check),
    ("proxy_protocol", proxy_protocol::check),
    ("ranges", ranges::check),
    ("record", record::check),
    ("records", records::check),
    ("reply_head", reply_head::check),
    ("ring", ring::check),
    ("scanner", scanner::check),
    ("target", target::check),
    ("users_file", users_file::check),
    ("variables", variables::check),
];
