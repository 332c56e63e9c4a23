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
mod known_hosts;
mod launcher;
pub mod operator;
mod questions;
mod script_cgroups;
mod serve;
mod server;
mod state;
mod statistics;
mod status;
mod traffic_counts;
pub mod watch_log;
mod worker;

pub use dispatch::exposed_programs::ExposedPrograms;
pub use launcher::LauncherPlan;
pub use serve::explain::{Answer, Explanation, FallbackStep, Question, Round, SiteChoice, Step, StepOutcome};
pub use serve::forwarded;
pub use server::{Server, StartError, check, explain, exposed_programs};
pub use sluice_launch::{
    Credentials, CurrentUsers, IgnoredSignals, MESSAGES_VERSION, Others, RemoteLauncher, UserPolicy, allow_core_dumps,
    directory_of_root, end_orphans, is_root, launcher_sockets, prepare_process, refuse_needless_calls, run_as,
    take_passed_descriptors, withhold_privileges_from_programs,
};
pub use sluice_log::activity::FILE_NAME as STATE_FILE;
pub use sluice_net::addresses::{AddressSockets, bind, bind_all};
pub use sluice_net::listener::Bound;
pub use sluice_net::unix::{SocketFile, bind as bind_unix_socket};
pub use sluice_script::script_users;
