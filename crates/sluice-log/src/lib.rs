//! The access log: lines formatted by the workers, and written and rotated by a thread. Also the file of the server log, and the
//! activity of each minute. Floor 4, safe Rust.
//!
//! When an exchange ends is up to the caller; messages for the administrator are logged with `tracing`.
//!
//! ```text
//! exchange ─▶ SiteLog (format) ─▶ LogFile, a WorkerBuffer for each worker ─▶ the thread ─▶ Sink (file)
//! ```
//! A `LogFile` stands for one file; sites that name the same file share it.
#![forbid(unsafe_code)]

pub mod activity;
mod clock;
mod failures;
mod fields;
mod json;
mod line;
mod line_file;
mod log;
mod log_file;
mod rotate;
mod sink;
mod tail;
pub mod wait;
mod wakeup;
mod writer;

pub use failures::faults;
pub use fields::{LoggedFields, RequestFields, ResponseFields};
pub use json::write_text as write_json_text;
pub use line::{Line, LoggedRequest, LoggedResponse, STATUS_CLIENT_LEFT, Timing};
pub use line_file::LineFile;
pub use log::{Log, SiteLog};
pub use sink::check_open;
pub use tail::{LogSource, RecentLines, Tail, WantedLines};
