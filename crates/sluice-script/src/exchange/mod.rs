//! One exchange with a script process: from the request to the end of the reply.
//!
//! A mode is one file (`cgi`, `cgiplus`): it starts or leases a process and gives it the request. A process of mode `rte` gets it as one of
//! `cgiplus` does; its program is another (`program::engine`). Everything else is common to all modes.
//!
//! ```text
//!   serve ──┬─ cgi ──────┐      the entry: a Job in, a ScriptAnswer out; Mode is matched there alone
//!     │     └─ cgiplus ──┤    in_advance: processes before there is a request; agent: scripts that verify passwords
//!     │                  └─ job ── request       the request, the program, the variables
//!     │                       └─ job_limits      what its process may use and reach
//!     │
//!     └─ conversation ─┬─ relay ─┬─ callout   requests of the script, and their answers
//!                      │         ├─ buffer    bulk output in shared memory
//!                      │         ├─ state     how far the exchange is
//!                      │         └─ pump      the request body on its way to the script
//!                      ├─ body          the source of the response's body
//!                      ├─ body_filter   newlines of records, Content-Length
//!                      ├─ block         output that is collected before it is sent
//!                      └─ ending        what happens to the process afterwards
//! ```

pub mod agent;
mod block;
mod body_filter;
mod buffer;
mod callout;
mod cgi;
mod cgiplus;
mod conversation;
mod ending;
pub mod in_advance;
pub mod job;
pub mod job_limits;
mod pump;
mod relay;
pub mod request;
pub mod serve;

pub(crate) use block::Block;
pub(crate) use body_filter::BodyFilter;
pub(crate) use buffer::{Answering, Buffer};
pub(crate) use callout::Callouts;
pub(crate) use conversation::{Conversation, Link};
pub(crate) use ending::{Audience, Ending, reclaim};
pub(crate) use job::{Job, c_string, new_sentinels, present};
pub(crate) use pump::Pump;
pub(crate) use relay::{Age, Relay, ReplyEvent};
pub(crate) use request::ScriptRequest;
