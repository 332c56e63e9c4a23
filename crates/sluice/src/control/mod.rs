//! The server's side of the control socket: commands of the administrator to a running server.
//!
//! What is said is in `sluice_report::command`. A connection is for one command. Signals can do the same, except for asking (`supervisor`). `sluice
//! watch` is a command that leaves its connection open for the events (`watch_stream`).

mod peer;
pub(crate) mod socket;
mod watch_stream;
