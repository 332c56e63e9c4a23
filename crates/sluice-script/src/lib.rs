//! The fourth stage: running scripts. What all modes share is here once: the process, its channels, the relay of its
//! reply, the pool. A mode is one file (`cgi`, `cgiplus`).
//!
//! ```text
//! handler::script ── cgi ─────┬── lease ── pool        who may run, with which process
//!                 └─ cgiplus ─┤── process              start, watch, stop
//!                             └── relay ─┬─ mailbox    what the script writes
//!                                        ├─ callout    what it asks in between
//!                                        ├─ buffer     its bulk output
//!                                        ├─ pump       the request body on its way in
//!                                        └─ idle_timer   how long it may be silent
//! ```
#![forbid(unsafe_code)]

pub mod body_filter;
pub mod buffer;
pub mod callout;
pub mod cgi;
pub mod cgiplus;
pub mod conversation;
pub mod ending;
pub mod idle_timer;
pub mod job;
pub mod lease;
pub mod mailbox;
pub mod pool;
pub mod process;
mod process_fault;
pub mod pump;
pub mod relay;
pub mod reply_encoding;
pub mod request_body;
pub mod request_pipe;
pub mod route;
pub mod scripts;
pub mod serve;
pub mod session;
pub mod stderr;
