//! The server: one exchange from its head to its log line, and the workers that serve it. Floor 5, safe Rust.
//!
//! [`serve`] is the table of contents. `dispatch` says what a path means; `context` is what the exchanges of a worker share;
//! `worker` and [`server`] are the threads, `state` is what they share; [`operator`] shows what the server does, and gives it orders.
#![forbid(unsafe_code)]

mod activity;
mod addresses;
pub mod commands;
mod context;
mod descriptors;
mod dispatch;
mod fault_log;
mod in_progress;
mod known_hosts;
mod launcher;
pub mod operator;
mod questions;
#[cfg_attr(not(feature = "reverse-dns"), path = "reverse_dns_absent.rs")]
mod reverse_dns;
mod script_cgroups;
pub mod script_users;
mod serve;
mod server;
mod state;
mod statistics;
mod status;
mod traffic_counts;
mod wait;
pub mod watch_log;
mod worker;

pub use activity::FILE_NAME as STATE_FILE;
pub use addresses::{AddressSockets, bind, bind_all};
pub use dispatch::exposed_programs::ExposedPrograms;
pub use launcher::LauncherPlan;
pub use serve::explain::{Answer, Explanation, FallbackStep, Question, Round, SiteChoice, Step, StepOutcome};
pub use serve::forwarded;
pub use server::{Server, StartError, check, explain, exposed_programs};
