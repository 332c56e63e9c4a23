//! The server: one exchange from its head to its log line, and the workers that serve it. Floor 5, safe Rust.
//!
//! [`serve`] is the table of contents. `dispatch` says what a path means; `context` is what the exchanges of a worker share;
//! `worker` and [`server`] are the threads; `reports` shows what the server does, and `overall` is what all workers know of it.
#![forbid(unsafe_code)]

pub mod accounts;
mod activity;
mod addresses;
pub mod commands;
pub mod confinement;
mod context;
mod descriptors;
mod dispatch;
mod fault_log;
mod in_progress;
pub mod inspector;
mod late_watch;
mod launcher;
mod overall;
mod process_usage;
mod reports;
#[cfg_attr(not(feature = "reverse-dns"), path = "reverse_dns_absent.rs")]
mod reverse_dns;
pub mod script_users;
mod serve;
mod server;
pub mod status;
mod traffic_counts;
mod wait;
pub mod watch_log;
mod worker;

pub use activity::FILE_NAME as STATE_FILE;
pub use addresses::{AddressSockets, bind, bind_all};
pub use dispatch::exposed_programs::ExposedPrograms;
pub use launcher::LauncherPlan;
pub use serve::error_page::error_template;
pub use serve::explain::{Answer, Explanation, FallbackStep, Question, Round, SiteChoice, Step, StepOutcome};
pub use server::{Server, StartError, check, explain, exposed_programs};
pub use sluice_launch::{
    Credentials, CurrentUsers, IgnoredSignals, MESSAGES_VERSION, Others, RemoteLauncher, UserPolicy, allow_core_dumps,
    directory_of_root, end_orphans, is_root, launcher_sockets, prepare_process, refuse_needless_calls, run_as,
    take_passed_descriptors, withhold_privileges_from_programs,
};
pub use sluice_net::listener::Bound;
pub use sluice_net::unix::{SocketFile, bind as bind_unix_socket};
pub use sluice_script::engine::missing_engines;
