//! A script process: its start, the server's ends of its descriptors, and its end.
//!
//! ```text
//!   script_process ─┬─ processes             those of a worker
//!     (its reaper)  ├─ stderr                its error output, line by line into the log: script_log
//!                   ├─ end_cause             why it ends; limit_reached; unclaimed: the end of one that nobody has taken
//!                   ├─ process_fault         what is wrong with it, in words; shebang; misbehaviour
//!                   ├─ mailbox               output: script_socket
//!                   ├─ request_channel       requests: CGIPLUSIN, or request_socket
//!                   └─ input                 the request body on its way to the script
//!   pipe_threads ─── pipe_reader, pipe_writer ─ pipe_end, pipe_owner: all that touches a pipe of a script
//!   script_events ── observed_process         what an exchange notes for WATCH; what a silent process does: blocked_read
//!   idle_timer                                how long a script may be silent
//!   default_environment, memory_use
//! ```

pub(crate) mod blocked_read;
pub(crate) mod buffer_memory;
pub(crate) mod default_environment;
pub(crate) mod end_cause;
pub(crate) mod idle_timer;
pub(crate) mod input;
mod limit_reached;
pub(crate) mod mailbox;
pub(crate) mod memory_use;
pub(crate) mod misbehaviour;
pub(crate) mod observed_process;
mod pipe_end;
pub(crate) mod pipe_owner;
mod pipe_reader;
pub(crate) mod pipe_threads;
mod pipe_writer;
pub(crate) mod process_fault;
pub(crate) mod processes;
pub(crate) mod request_channel;
pub(crate) mod request_pipe;
pub(crate) mod request_socket;
pub(crate) mod script_events;
pub(crate) mod script_log;
pub(crate) mod script_process;
mod script_socket;
pub(crate) mod shebang;
mod stderr;
mod unclaimed;
