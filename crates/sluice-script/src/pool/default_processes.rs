//! The default of `limits.processes`: how many script processes the machine can carry.

use std::fs;

use rustix::process::{Resource, getrlimit};
use sluice_membuf::memory_total_bytes;

/// Bytes of memory for each script process: what a small Python or Perl script needs.
const BYTES_PER_PROCESS: u64 = 16 << 20;

/// The least default: a few scripts must run on any machine.
const LEAST: u64 = 8;

/// The greatest default. More processes than this at once say that something is wrong.
const MOST: u64 = 4096;

/// The limits of the system; `None` for no bound.
struct Machine {
    /// Processes and threads of the server's user (RLIMIT_NPROC).
    user_processes: Option<u64>,
    /// Processes and threads of the server's control group (`pids.max`).
    group_processes: Option<u64>,
    /// Bytes of memory, those of the control group included (`memory.max`).
    memory: Option<u64>,
}

/// One process for each 16 MiB of memory, but at most half of those that the user or the control group may have: scripts start some themselves.
pub(crate) fn default_processes() -> usize {
    let group = control_group();
    let in_group = |name: &str| read_number(&format!("{group}/{name}"));
    let machine = Machine {
        user_processes: getrlimit(Resource::Nproc).current,
        group_processes: in_group("pids.max"),
        memory: memory_total_bytes(),
    };
    usize::try_from(machine.processes()).unwrap_or(usize::MAX)
}

impl Machine {
    fn processes(&self) -> u64 {
        let half = |bound: Option<u64>| bound.map(|processes| processes / 2);
        let bounds = [
            half(self.user_processes),
            half(self.group_processes),
            self.memory.map(|bytes| bytes / BYTES_PER_PROCESS),
        ];
        bounds.into_iter().flatten().min().unwrap_or(MOST).clamp(LEAST, MOST)
    }
}

/// The directory of this process's control group (cgroups(7), version 2).
fn control_group() -> String {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    format!("/sys/fs/cgroup{}", path.trim_end_matches('/'))
}

/// A number in a file; `None` for `max`, and if there is no such file.
fn read_number(file: &str) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_of_the_systems_bounds_decides_within_reason() {
        let processes =
            |user_processes, group_processes, memory| Machine { user_processes, group_processes, memory }.processes();
        assert_eq!(processes(None, None, Some(8 << 30)), 512);
        assert_eq!(processes(Some(200), None, Some(8 << 30)), 100);
        assert_eq!(processes(Some(200), Some(100), None), 50);
        assert_eq!(processes(None, None, Some(1 << 20)), LEAST);
        assert_eq!(processes(None, None, None), MOST);
        assert!((LEAST..=MOST).contains(&(default_processes() as u64)));
    }
}
