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
//!                                        └─ patience   how long it may be silent
//! ```

pub(crate) mod buffer;
pub(crate) mod callout;
pub(crate) mod cgi;
pub(crate) mod cgiplus;
pub(crate) mod errors;
pub(crate) mod job;
pub(crate) mod lease;
pub(crate) mod mailbox;
pub(crate) mod orders;
pub(crate) mod output;
pub(crate) mod patience;
pub(crate) mod pool;
pub(crate) mod process;
pub(crate) mod pump;
pub(crate) mod relay;
pub(crate) mod request_body;
pub(crate) mod route;
pub(crate) mod scripts;
