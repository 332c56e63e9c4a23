//! Bounds on what one script process may use: setrlimit(2).
//!
//! They hold for each process by itself, except for `processes_max`. The limits of a pool live in sluice-server.

/// Bounds of one script process; `None` leaves the server's own. Soft and hard limit are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Bytes of address space (RLIMIT_AS). Mapped memory counts, the memory buffer too, whether touched or not.
    pub memory_bytes_max: Option<u64>,
    /// Seconds of processor time (RLIMIT_CPU): SIGXCPU then, SIGKILL a second later.
    pub cpu_seconds_max: Option<u64>,
    /// Open descriptors (RLIMIT_NOFILE); five are taken at the start.
    pub open_files_max: Option<u64>,
    /// Processes and threads of the process's *user* (RLIMIT_NPROC); root is exempt.
    pub processes_max: Option<u64>,
    /// Bytes in the largest file it may write (RLIMIT_FSIZE); a `write` to the memory buffer counts, a mapping not.
    pub file_bytes_max: Option<u64>,
    /// Bytes in a core dump (RLIMIT_CORE); 0 for none.
    pub core_bytes_max: Option<u64>,
}

/// One limit as the kernel takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    resource: libc::__rlimit_resource_t,
    /// The layout of `struct rlimit64`: soft, hard.
    bounds: [u64; 2],
}

impl ProcessLimits {
    /// The limits that are set, ready for the child.
    pub(crate) fn list(&self) -> Vec<Limit> {
        [
            (libc::RLIMIT_AS, self.memory_bytes_max),
            (libc::RLIMIT_CPU, self.cpu_seconds_max),
            (libc::RLIMIT_NOFILE, self.open_files_max),
            (libc::RLIMIT_NPROC, self.processes_max),
            (libc::RLIMIT_FSIZE, self.file_bytes_max),
            (libc::RLIMIT_CORE, self.core_bytes_max),
        ]
        .into_iter()
        .filter_map(|(resource, bound)| bound.map(|bound| Limit::new(resource, bound)))
        .collect()
    }
}

impl Limit {
    fn new(resource: libc::__rlimit_resource_t, bound: u64) -> Limit {
        // At the soft limit of processor time the kernel sends SIGXCPU, at the hard one SIGKILL (setrlimit(2)): one
        // second lets a program say what it was doing.
        let grace = u64::from(resource == libc::RLIMIT_CPU);
        Limit {
            resource,
            bounds: [bound, bound.saturating_add(grace)],
        }
    }

    /// Sets the limit for the calling process. Called in the child: one system call, nothing else.
    pub(crate) fn set(&self) -> Result<(), i32> {
        const SELF: libc::pid_t = 0;
        const OLD: usize = 0;
        // SAFETY: `bounds` has the layout of struct rlimit64, which the kernel reads; a null old limit is not written.
        let done = unsafe { libc::syscall(libc::SYS_prlimit64, SELF, self.resource, self.bounds.as_ptr(), OLD) };
        crate::child::checked(done).map(drop)
    }
}
