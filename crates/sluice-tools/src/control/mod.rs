//! The client's side of the control socket: `sluice status`, `reload`, `drain`, `purge`, `retire`, `end`, `log reopen`, `watch`.
//!
//! ```text
//! sluice status ── client ──▶ PID.sock ──▶ the program's `control` ──▶ supervisor
//!               ◀─ render ◀── one line of JSON each way ◀────────────────┘
//! ```
//! What is said is in `sluice_report::command`, and for `sluice watch` in `watching`. Here: `place` says where the sockets are, for the server, too; `client`
//! finds a server and asks it (`found` says what it has found), `render` prints the state. `watch_client` leaves its connection open for the events.

pub mod client;
mod found;
pub mod place;
pub(crate) mod render;
pub mod watch_client;
pub mod watching;
mod waterfall;

use std::path::Path;

use sluice_settings::NamedSocket;

/// The functions of the program that a command to a running server needs.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Prints to standard output.
    pub print: fn(&str) -> Result<(), String>,
    /// Reads the control socket that a configuration file names.
    pub named_socket: fn(&Path) -> Result<NamedSocket, String>,
}
