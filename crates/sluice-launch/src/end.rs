//! The end of a process: how it is found, killed and reaped, and what it leaves behind.

pub(crate) mod families;
pub(crate) mod orphan_user;
pub(crate) mod orphans;
pub(crate) mod pidfd;
pub(crate) mod proc_state;
pub(crate) mod process_usage;
pub(crate) mod remove_tree;
pub(crate) mod rlimit_mark;
mod search;
pub(crate) mod session;
mod slow_reads;
