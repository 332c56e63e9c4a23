//! The server: one exchange from its head to its log line, and the workers that serve it. Floor 5, safe Rust.
//!
//! [`serve`] is the table of contents. `dispatch` says what a path means; `context` is what the exchanges of a worker share;
//! `worker` and [`server`] are the threads, `state` is what they share; [`operator`] shows what the server does, and gives it orders.
#![forbid(unsafe_code)]

pub mod commands;
mod context;
mod descriptors;
mod dispatch;
mod fault_log;
mod in_progress;
mod launcher;
pub mod operator;
mod questions;
mod redirect_loops;
mod script_cgroups;
mod serve;
mod server;
mod share_counts;
mod state;
mod statistics;
mod status;
mod traffic_counts;
pub mod watch_log;
mod worker;

pub use dispatch::exposed_programs::ExposedPrograms;
pub use launcher::LauncherPlan;
pub use serve::explain::{ExplainedAnswer, Explanation, FallbackStep, Question, Round, SiteChoice, Step, StepOutcome};
pub use server::{Server, StartError, check, explain, exposed_programs};
