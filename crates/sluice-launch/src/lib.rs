//! Starting script processes from a server of many threads: vfork-class, never fork.
//!
//! What lives here: the program to start and what comes back (`message`), the threads that start (`launcher`), the
//! channels between server and script (`channels`), the clone (`clone`) and what the child does before its program runs
//! (`child`), and how an end is noticed (`pidfd`). What does not: what is said on those channels (sluice-gateway), the
//! memory behind descriptor 4 (sluice-membuf), and when to start or end a process (the pools of sluice-server).
//!
//! Floor 1. Linux 5.9 or later: `close_range(2)`, pidfds.

// Cloning with shared memory, system calls without a safe wrapper (`setresuid` of one process instead of every thread
// is one), and a child that may not touch what a lock of the parent protects cannot be written in safe Rust. Every
// block says why it is sound; the interface of the crate is safe.
#![allow(unsafe_code)]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("sluice-launch makes raw system calls of 64-bit Linux");

mod channels;
mod child;
mod clone;
mod credentials;
mod launcher;
mod limits;
mod message;
mod pidfd;
mod slots;

pub use credentials::Credentials;
pub use launcher::Launcher;
pub use limits::ProcessLimits;
pub use message::{LaunchError, Mailbox, Program, Stage, Started, Stdin};
pub use pidfd::{Exit, Signal, has_exited, kill_group, reap};
