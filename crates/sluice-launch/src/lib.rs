//! Starting script processes from a multi-threaded server: as vfork(2) does, never with fork(2).
//!
//! Here: the program to start and the process that it becomes (`program`), the threads that start processes
//! (`launcher`), the channels between server and script (`channels`), the clone (`clone`), the code that the child runs
//! before its program (`child`), what the program may use and reach (`confinement`, and the files that it names), the end of a process (`pidfd`) and of the processes that it leaves behind (`session`,
//! `orphans`), what the server needs for that of its own process (`own_process`), and the descriptors
//! that this process was started with (`passed_fds`). Not here: the protocol on those
//! channels (sluice-gateway), the memory behind descriptor 4 (sluice-membuf), and the decision when to start or end a
//! process (the process pools).
//!
//! Floor 1. Linux 5.9 or later: `close_range(2)`, pidfds.

// Safe Rust cannot clone with shared memory, make system calls without a safe wrapper (such as `setresuid` for one
// thread instead of the process), or run a child that must not touch what a lock of the parent protects. Every unsafe
// block says why it is sound; the public interface is safe.
#![allow(unsafe_code)]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("sluice-launch makes raw system calls of 64-bit Linux");

mod accounts;
mod attributes;
mod belongings;
mod cgroup;
mod channels;
mod child;
mod clone;
mod confinement;
mod credentials;
mod descent;
mod file_rules;
mod launch_error;
mod launcher;
mod left_behind;
mod limits;
mod message;
mod message_socket;
mod network;
mod observation;
mod orphans;
mod outcome;
mod own_directory;
mod own_process;
mod own_user;
mod owned_script;
mod passed_fds;
mod pidfd;
mod places;
mod prepared;
mod priority;
mod privileges;
mod program;
mod program_wire;
mod remote;
mod removal;
mod reserved_fds;
mod root_directory;
mod run_as;
mod server_filter;
mod service;
mod session;
mod syscall;
mod temporary;
mod user_policy;
mod wire;

pub use accounts::{Account, account_by_name, account_by_number, group_by_name};
pub use cgroup::{CgroupLimits, Cgroups, NoCgroups, ScriptCgroup, cgroup_problem};
pub use confinement::{Confinement, IoPriority};
pub use credentials::Credentials;
pub use file_rules::{FileRules, landlock_version};
pub use launch_error::{LaunchError, Stage};
pub use launcher::{Launcher, LauncherSettings};
pub use limits::{ProcessLimits, processor_time};
pub use message::MESSAGES_VERSION;
pub use message_socket::launcher_sockets;
pub use observation::{Observation, ObservedChild, ObservedFile};
pub use orphans::{end_orphans, has_orphans, reap_orphans};
pub use outcome::{End, StartError};
pub use own_process::{IgnoredSignals, allow_core_dumps, is_root, prepare_process};
pub use own_user::own_user;
pub use passed_fds::take_passed_descriptors;
pub use pidfd::{Exit, Signal, Usage, has_exited, kill, kill_group, reap, reap_with_usage};
pub use places::{may_change_root, may_mount};
pub use privileges::{run_as, withhold_privileges_from_programs};
pub use program::{Mailbox, Program, Started, Stdin};
pub use remote::{Probe, RemoteLauncher, RemoteProcess, RemoteStarted};
pub use root_directory::{Others, directory_of_root};
pub use run_as::{Refusal, RunAs, SameUser, UserPolicy};
pub use server_filter::refuse_needless_calls;
pub use service::{Service, ServiceError, ServiceSettings};
pub use session::{Company, Survivors, company, end_session, is_exiting};
pub use temporary::TemporaryDirectory;
pub use user_policy::{CurrentUsers, NamedUser, OwnerPolicy, ScriptUsers};
