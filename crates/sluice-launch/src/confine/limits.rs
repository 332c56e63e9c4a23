//! Resource limits of one script process: setrlimit(2).
//!
//! Each applies to one process, except `processes_max`.

use std::time::Duration;

use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};

use crate::confine::root_and_tmp::has_capability;
use crate::syscall::checked;

/// Resource limits of one script process; `None` keeps the server's limit. Soft and hard limit are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// Bytes of address space (RLIMIT_AS). All mapped memory counts, used or not, the memory buffer included.
    pub memory_bytes_max: Option<u64>,
    /// Seconds of processor time (RLIMIT_CPU); the process gets SIGXCPU then, and SIGKILL a second later.
    pub cpu_seconds_max: Option<u64>,
    /// Open descriptors (RLIMIT_NOFILE); a script starts with five.
    pub open_files_max: Option<u64>,
    /// Processes and threads of the process's *user* (RLIMIT_NPROC); root is exempt.
    pub processes_max: Option<u64>,
    /// Bytes in the largest file that it may write (RLIMIT_FSIZE). `write` to the memory buffer counts, stores to its
    /// mapping do not.
    pub file_bytes_max: Option<u64>,
    /// Bytes in a core dump (RLIMIT_CORE); 0: no core dumps.
    pub core_bytes_max: Option<u64>,
}

/// The type of `libc::RLIMIT_AS` and the others, which is not the same in both C libraries.
#[cfg(target_env = "musl")]
type Resource = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Resource = libc::__rlimit_resource_t;

/// One limit in the format of prlimit(2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    resource: Resource,
    /// Soft and hard limit, in the layout of `struct rlimit64`.
    bounds: [u64; 2],
}

impl ProcessLimits {
    /// The hard limits of this process that are lower than these limits, where it may not raise them: a start would fail.
    #[must_use]
    pub fn refused_above(&self) -> ProcessLimits {
        let refused = |resource, bound: Option<u64>| refused_above(&Limit::new(resource, bound?));
        ProcessLimits {
            memory_bytes_max: refused(libc::RLIMIT_AS, self.memory_bytes_max),
            cpu_seconds_max: refused(libc::RLIMIT_CPU, self.cpu_seconds_max),
            open_files_max: refused(libc::RLIMIT_NOFILE, self.open_files_max),
            processes_max: refused(libc::RLIMIT_NPROC, self.processes_max),
            file_bytes_max: refused(libc::RLIMIT_FSIZE, self.file_bytes_max),
            core_bytes_max: refused(libc::RLIMIT_CORE, self.core_bytes_max),
        }
    }

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

/// The hard limit of this process for a resource (getrlimit(2)), if a child could not be given this limit; `None` if it could.
fn refused_above(limit: &Limit) -> Option<u64> {
    let mut own = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes the limit.
    if unsafe { libc::getrlimit(limit.resource, &raw mut own) } < 0 {
        return None;
    }
    let [_, hard] = limit.bounds;
    (hard > own.rlim_max && !has_capability(CapabilitySet::SYS_RESOURCE)).then_some(own.rlim_max)
}

/// The processor time that a process has used with all its threads, as RLIMIT_CPU counts it. One system call. `None` if there is no such
/// process.
#[must_use]
pub fn processor_time(pid: i32) -> Option<Duration> {
    // The clock of a process (clock_getcpuclockid(3)); the lowest bits are 0 for time in user and kernel mode (CPUCLOCK_PROF).
    let clock = !pid << 3;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } < 0 {
        return None;
    }
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
    Some(Duration::new(seconds, nanoseconds))
}

impl Limit {
    fn new(resource: Resource, bound: u64) -> Limit {
        // At the soft limit of processor time the kernel sends SIGXCPU, at the hard limit SIGKILL (setrlimit(2)). The
        // second between them lets a program log what it was doing.
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
        checked(done).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_time_of_a_process_grows_and_is_unknown_if_there_is_none() {
        let own = i32::try_from(std::process::id()).unwrap();
        let before = processor_time(own).unwrap();
        let more = before + Duration::from_millis(20);
        while processor_time(own).unwrap() < more {
            std::hint::spin_loop();
        }
        assert_eq!(processor_time(i32::MAX >> 3), None);
    }
}
