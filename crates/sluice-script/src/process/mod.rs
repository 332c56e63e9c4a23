//! A script process: its start, the server's ends of its descriptors, and its end.
//!
//! ```text
//!   script_process ─┬─ processes             those of a worker; the end of one that nobody has taken
//!     (its reaper)  ├─ stderr                its error output, line by line into the log: script_log
//!                   ├─ end_cause             why it ends; limit_reached
//!                   ├─ process_fault         what is wrong with it, in words; shebang; linker_error; misbehaviour
//!                   ├─ mailbox               output: script_socket
//!                   ├─ request_channel       requests: CGIPLUSIN, or request_socket
//!                   └─ input                 the request body on its way to the script
//!   pipe_threads ─── pipe_reader, pipe_writer ─ pipe_end: all that touches a pipe of a script
//!   script_events ── observed_process         what an exchange notes for WATCH; what a silent process does: blocked_read
//!   idle_timer                                how long a script may be silent
//!   default_environment, memory_use
//! ```

pub(crate) mod blocked_read;
mod buffer_memory;
pub(crate) mod default_environment;
mod end_cause;
mod idle_timer;
mod input;
mod limit_reached;
mod linker_error;
mod mailbox;
mod memory_use;
mod misbehaviour;
mod observed_process;
mod pipe_end;
mod pipe_reader;
mod pipe_threads;
mod pipe_writer;
mod process_fault;
mod processes;
mod request_channel;
mod request_pipe;
mod request_socket;
mod script_events;
mod script_log;
pub(crate) mod script_process;
mod script_socket;
pub(crate) mod shebang;
mod stderr;

pub(crate) use blocked_read::{BlockedRead, ChannelId};
pub(crate) use buffer_memory::{BufferMemory, Done, release};
pub(crate) use default_environment::{
    default_environment, path_of_scripts, possible_search_paths, search_path_of_another_user,
};
pub(crate) use end_cause::{EndCause, EndedProcess, Reason};
pub(crate) use idle_timer::{Expired, IdleTimer, KeptTimer};
pub(crate) use input::Input;
pub(crate) use limit_reached::limit_reached;
pub(crate) use linker_error::{linker_advice, linker_advice_at_end};
pub(crate) use mailbox::{Mailbox, Silence};
pub(crate) use memory_use::measure;
pub(crate) use misbehaviour::{AFTER_SENTINEL, BEFORE_REQUEST, BETWEEN_REQUESTS, MisbehaviourLog};
pub(crate) use observed_process::{Call, ObservedProcess, SilenceTimer, time_text};
pub(crate) use pipe_end::{PipeEnd, Side, has_room};
pub(crate) use pipe_reader::{PipeReader, ReaderShared};
pub(crate) use pipe_threads::{Blocked, PipeOwner, PipeThreads, Transfer, Work};
pub(crate) use pipe_writer::PipeWriter;
pub(crate) use process_fault::{BadReply, ProcessState, RequestedError, Violation, end_text, failed, launch_fault};
pub(crate) use processes::{Processes, Unclaimed, end_unclaimed, user_of};
pub(crate) use request_channel::RequestChannel;
pub(crate) use request_pipe::{Reading, RequestPipe};
pub(crate) use request_socket::RequestSocket;
pub(crate) use script_events::{ScriptEvents, StartNote, WatchableJob, counted};
pub(crate) use script_log::{ScriptLog, ScriptLogs};
pub(crate) use script_process::{Channels, LineSource, Process, ProcessSpec, ProcessView};
pub(crate) use script_socket::{Record, ScriptSocket};
pub(crate) use shebang::ShebangProblem;
pub(crate) use stderr::StderrReader;
