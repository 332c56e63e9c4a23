//! The socket between server and launcher: its messages, and the two sides.

pub(crate) mod codec;
pub(crate) mod leftover_processes;
pub(crate) mod message;
pub(crate) mod message_socket;
pub(crate) mod pending_starts;
pub(crate) mod probe;
pub(crate) mod process_resources;
pub(crate) mod program_wire;
pub(crate) mod remote;
pub(crate) mod service;
pub(crate) mod traced;
pub(crate) mod waiting;
