//! Resource limits of one script process: setrlimit(2).
//!
//! Each applies to one process, except `processes_max`.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};
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
    /// Bytes in the largest file that it may write (RLIMIT_FSIZE). `write` to the memory buffer counts, stores to its mapping do not.
    pub file_bytes_max: Option<u64>,
    /// Bytes in a core dump (RLIMIT_CORE); 0: no core dumps.
    pub core_bytes_max: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    resource: Resource,
    soft: u64,
    hard: u64,
}

impl ProcessLimits {
    /// The hard limits of this process that are lower than these limits, where it may not raise them: a start would fail.
    #[must_use]
    pub fn refused_above(&self) -> ProcessLimits {
        let [memory, cpu, files, processes, file_size, core] = self
            .each()
            .map(|(resource, _, bound)| bound.and_then(|bound| Limit::new(resource, bound).refused_above()));
        ProcessLimits {
            memory_bytes_max: memory,
            cpu_seconds_max: cpu,
            open_files_max: files,
            processes_max: processes,
            file_bytes_max: file_size,
            core_bytes_max: core,
        }
    }

    /// Each with its resource and its key in the configuration.
    pub(crate) fn each(&self) -> [(Resource, &'static str, Option<u64>); 6] {
        [
            (Resource::As, "memory_max", self.memory_bytes_max),
            (Resource::Cpu, "cpu_time", self.cpu_seconds_max),
            (Resource::Nofile, "open_files", self.open_files_max),
            (Resource::Nproc, "user_processes", self.processes_max),
            (Resource::Fsize, "file_size", self.file_bytes_max),
            (Resource::Core, "core_dumps", self.core_bytes_max),
        ]
    }

    pub(crate) fn list(&self) -> Vec<Limit> {
        let set = self.each().into_iter();
        set.filter_map(|(resource, _, bound)| Some(Limit::new(resource, bound?)))
            .collect()
    }
}

/// The processor time that a process has used with all its threads, as RLIMIT_CPU counts it. One system call. `None`: no such process.
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
        // At the soft limit of processor time the kernel sends SIGXCPU, a second later, at the hard limit, SIGKILL (setrlimit(2)): time to log what it does.
        let grace = u64::from(resource == Resource::Cpu);
        Limit {
            resource,
            soft: bound,
            hard: bound.saturating_add(grace),
        }
    }

    /// The hard limit of this process, if a child could not be given this one.
    fn refused_above(&self) -> Option<u64> {
        let own = getrlimit(self.resource).maximum?;
        (self.hard > own && !has_capability(CapabilitySet::SYS_RESOURCE)).then_some(own)
    }

    /// Sets the limit for the calling process. Called in the child: one system call, nothing else.
    pub(crate) fn set(&self) -> Result<(), i32> {
        const SELF: libc::pid_t = 0;
        const OLD: usize = 0;
        let bounds: [u64; 2] = [self.soft, self.hard];
        // SAFETY: `bounds` has the layout of struct rlimit64, which the kernel reads; a null old limit is not written. Not by rustix, which
        // promises nothing of what it does beside the system call.
        let done = unsafe { libc::syscall(libc::SYS_prlimit64, SELF, self.resource as u32, bounds.as_ptr(), OLD) };
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
