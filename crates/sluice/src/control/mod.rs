//! Commands of the administrator to a running server, over a unix socket: `sluice status`, `top`, `reload`, `drain`, `purge`, `retire`,
//! `end`, `log reopen`, `watch`.
//!
//! ```text
//! sluice status ── client ──▶ PID.sock ──▶ socket ──▶ supervisor
//!               ◀─ render ◀── one line of JSON each way ◀─┘
//! ```
//! What is said is in `sluice_report::command`. Here: `place` says where the sockets are, `socket` is the server's side, `client` the other one (`found` says
//! what it has found), `render` prints the state. A connection is for one command. Signals can do the same, except for asking (`supervisor`). `sluice watch` is a command that
//! leaves its connection open for the events (`watching`).

pub(crate) mod client;
mod found;
pub(crate) mod place;
pub(crate) mod render;
pub(crate) mod socket;
pub(crate) mod watch_client;
mod watch_stream;
mod watching;
mod waterfall;

/// The bytes of a command at most; a longer one is refused.
const COMMAND_BYTES_MAX: u64 = 4096;
