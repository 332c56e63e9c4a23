//! Scripts: processes that answer requests, as CGI (RFC 3875), CGIplus or RTE. Floor 4, safe Rust.
//!
//! A mode is one file (`cgi`, `cgiplus`): it starts or leases a process and gives it the request. A process of mode `rte` gets it as
//! one of `cgiplus` does; what is run is another (`engine`). Everything else is common to all modes. Not here: which program a path names (`sluice-server`), the protocol between server and script as pure code
//! (`sluice-gateway`), and the system calls that start a process (`sluice-launch`).
//!
//! ```text
//!   serve ──┬─ cgi ──────┐      the entry: a Task in, an Outcome out; Mode is matched there alone
//!     │     └─ cgiplus ──┤    in_advance: processes before there is a request
//!     │                  ├─ job ── request, route       the request, the program, the variables
//!     │                  │    ├─ confinement          what its process may use and reach
//!     │                  │    └─ engine ── sdk          the program that runs many scripts
//!     │                  ├─ pools ── shared_pool ── pool   which request gets which process: its lease (idle_process)
//!     │                  │    │    ├─ process_limit     bounds that pools share; default_processes
//!     │                  │    │    └─ recent_scripts    what a process of an engine has run
//!     │                  │    └─ watched_files          changes that replace kept processes
//!     │                  │    └─ pool_record            what outlives a pool; report
//!     │                  ├─ process ── scripts, stderr  start, watch, stop
//!     │                  │      ├─ escalation              the signals that end it
//!     │                  │      ├─ end_cause               why it ends
//!     │                  │      ├─ limit_reached        the limit that has ended it
//!     │                  │      ├─ shebang              why a process could not be started
//!     │                  │      └─ unwatched            the end of a process that nobody has taken
//!     │                  ├─ resources                   bounds on what all scripts hold together
//!     │                  ├─ script_events               what the exchange notes for WATCH
//!     │                  │    └─ observed_process       what a silent process does
//!     │                  └─ request_body ── framing     the body as the client sends it
//!     │
//!     ├─ session ─┬─ conversation ─┬─ relay ─┬─ mailbox        output
//!     │           │                │         ├─ callout        requests of the script, and their answers
//!     │           │                │         ├─ buffer         bulk output in shared memory
//!     │           │                │         ├─ request_pipe   CGIPLUSIN
//!     │           │                │         ├─ request_state  how far the request is
//!     │           │                │         ├─ pump, input    the request body on its way to the script
//!     │           │                │         ├─ blocked_read   what a silent script waits for
//!     │           │                │         └─ idle_timer     how long the script may be silent
//!     │           │                ├─ body_filter   newlines of records, Content-Length
//!     │           │                └─ block         output that is collected before it is sent
//!     │           └─ ending        what happens to the process afterwards
//!     └─ reply_encoding            compression of replies
//! ```
#![forbid(unsafe_code)]

pub mod agent;
mod block;
mod blocked_read;
mod body_filter;
mod buffer;
mod callout;
mod cgi;
mod cgiplus;
mod client_id;
pub mod confinement;
mod conversation;
mod default_environment;
mod default_processes;
mod end_cause;
mod ending;
pub mod engine;
mod escalation;
mod framing;
mod idle_process;
mod idle_timer;
pub mod in_advance;
mod input;
pub mod job;
mod lease;
mod limit_reached;
mod mailbox;
mod memory_use;
mod misbehaviour;
mod observed_process;
pub mod own_agent;
mod pool;
mod pool_note;
mod pool_record;
pub mod pools;
mod process;
mod process_fault;
mod process_limit;
mod pump;
mod recent_scripts;
mod relay;
mod reply_encoding;
pub mod report;
pub mod request;
pub mod request_body;
mod request_pipe;
mod request_state;
pub mod resources;
pub mod route;
mod script;
mod script_events;
mod script_log;
pub mod script_users;
pub mod scripts;
mod sdk;
pub mod search_path;
pub mod serve;
mod session;
mod shared_pool;
mod shebang;
pub mod stamp;
mod stderr;
mod unread;
mod unread_errors;
mod unwatched;
mod watched_files;
