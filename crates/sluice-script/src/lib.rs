//! Scripts: processes that answer requests, as CGI (RFC 3875), CGIplus or RTE. Floor 4, safe Rust.
//!
//! Each directory has its own drawing.
//!
//! ```text
//!   exchange ──┬── pool ──┬── process      one exchange; which process it gets; the process
//!              │          └── program      what runs in it
//!              ├── route                   what a route says of its scripts; own_agent: agents that the server brings along
//!              └── scripts, resources      what the scripts of a worker share, and those of all workers
//!   report                                 what the reports show of all pools
//! ```
#![forbid(unsafe_code)]

pub mod exchange;
pub mod own_agent;
pub mod pool;
mod process;
pub mod program;
pub mod report;
pub mod resources;
pub mod route;
pub mod script_users;
pub mod scripts;
