//! Starting a process: the program, its channels, the clone, and the code that the child runs before its program.

pub(crate) mod channels;
pub(crate) mod child;
pub(crate) mod clone;
pub(crate) mod environment;
pub(crate) mod launch_error;
pub(crate) mod launcher;
pub(crate) mod launcher_thread;
pub(crate) mod outcome;
pub(crate) mod own_process;
pub(crate) mod passed_fds;
pub(crate) mod passed_files;
pub(crate) mod prepared;
pub(crate) mod program;
pub(crate) mod reserved_fds;
pub(crate) mod start_queue;
pub(crate) mod watched_start;
