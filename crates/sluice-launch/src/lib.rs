//! Starting script processes from a multi-threaded server: as vfork(2) does, never with fork(2).
//!
//! | module | content |
//! |---|---|
//! | `start` | the program, the process that it becomes, its channels, and the clone |
//! | `confine` | what it may use and reach |
//! | `users`, `policy` | the users of the machine, and what a server process may have started |
//! | `foreign` | what processes that are not trusted send along |
//! | `end` | its end, and that of the processes that it leaves behind |
//! | `wire` | all of that in another process than the server |
//!
//! Floor 1. Linux 5.9 or later: `close_range(2)`, pidfds.

// Safe Rust cannot clone with shared memory, make system calls without a safe wrapper (such as `setresuid` for one thread), or run a child that must
// not touch what a lock of the parent protects. Every unsafe block says why it is sound; the public interface is safe.
#![allow(unsafe_code)]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("sluice-launch makes raw system calls of 64-bit Linux");

mod confine;
mod end;
mod few_strings;
mod foreign;
mod policy;
mod start;
mod syscall;
mod users;
mod wire;

pub use confine::cgroup::{Cgroups, NoCgroups, ScriptCgroup, cgroup_problem};
pub use confine::cgroup_limits::CgroupLimits;
pub use confine::confinement::{Confinement, IoPriority};
pub use confine::file_rules::{FileRules, landlock_version};
pub use confine::limits::{ProcessLimits, processor_time};
pub use confine::privileges::{run_as, withhold_privileges_from_programs};
pub use confine::root_and_tmp::{may_change_root, may_mount};
pub use confine::root_directory::{Others, directory_of_root};
pub use confine::server_filter::refuse_needless_calls;
pub use confine::temporary::TemporaryDirectory;
pub use end::orphans::{end_orphans, has_orphans, reap_orphans};
pub use end::pidfd::{Exit, Signal, Usage, has_exited, kill, kill_group, reap, reap_with_usage};
pub use end::proc_state::{Observation, ObservedChild, ObservedFile};
pub use end::process_usage::ProcessUsage;
pub use end::session::{Company, Survivors, company, end_session};
pub use foreign::answer::{Answer, NoAnswer};
pub use foreign::deadline;
pub use foreign::elsewhere::{
    LookupShare, UNKNOWN_USER, begin_elsewhere, close_elsewhere, close_file_elsewhere, do_elsewhere, is_any_elsewhere,
    look_elsewhere, prepare_lookups,
};
pub use foreign::files::{FileStamp, OWN_DESCRIPTORS, open_regular, own_descriptors, reopen};
pub use foreign::owners::{first_part_of_another, holder_of, is_path_of_root, open_to_append};
pub use foreign::received::{ForeignDescriptors, Received, close_socket_elsewhere, receive};
pub use foreign::refuse::{Passing, passing, refuse_descriptors};
pub use policy::code_variables::names_code;
pub use policy::current_users::CurrentUsers;
pub use policy::route_programs::{EngineCommand, RoutePrograms, RouteSource, RouteUser};
pub use policy::run_as::{Decided, Refusal, RunAs, SameUser, UserPolicy, WishedProgram};
pub use policy::share::Share;
pub use policy::user_policy::{NamedUser, OwnerPolicy, ScriptUsers};
pub use start::launch_error::{LaunchError, Stage};
pub use start::launcher::{Launcher, LauncherHealth, LauncherSettings, START_TIMEOUT};
pub use start::outcome::{End, LateCause, LateStart, StartError};
pub use start::own_process::{IgnoredSignals, allow_core_dumps, is_root, prepare_process};
pub use start::passed_fds::take_passed_descriptors;
pub use start::program::{Mailbox, Program, Started, Stdin};
pub use users::accounts::{Account, account_by_name, account_by_number, group_by_name};
pub use users::credentials::Credentials;
pub use users::own_user::{own_uid, own_user};
pub use wire::message::MESSAGES_VERSION;
pub use wire::message_socket::launcher_sockets;
pub use wire::probe::Probe;
pub use wire::remote::{RemoteLauncher, RemoteProcess, RemoteStarted};
pub use wire::service::{Service, ServiceError, ServiceSettings};
