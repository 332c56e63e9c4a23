//! Whether a program has the limits of its route: a comparison of what a server process says with what the plan of the launcher has.
//!
//! A limit that is lower than that of the route passes. Each function returns the configuration key of the first limit that is missing or weaker.

use crate::confine::cgroup_limits::CgroupLimits;
use crate::confine::confinement::{Confinement, IoPriority, UMASK};
use crate::confine::limits::ProcessLimits;

impl ProcessLimits {
    pub(crate) fn weaker_than(&self, route: &ProcessLimits) -> Option<&'static str> {
        let pairs = self.each().into_iter().zip(route.each());
        let weaker = pairs.map(|((_, key, limit), (.., most))| (key, is_within(limit, most)));
        first_false(weaker)
    }
}

impl CgroupLimits {
    fn weaker_than(&self, route: &CgroupLimits) -> Option<&'static str> {
        first_false([
            (
                "cgroup_memory",
                is_within(self.memory_bytes_max, route.memory_bytes_max),
            ),
            ("cgroup_processes", is_within(self.processes_max, route.processes_max)),
            ("cgroup_cpu", is_within(self.cpu_percent, route.cpu_percent)),
            ("cgroup_cpu_weight", is_within(self.cpu_weight, route.cpu_weight)),
        ])
    }
}

impl Confinement {
    /// The first restriction, but for `files`, `covers_tmp` and the root, that is weaker than this one of a route.
    pub(crate) fn weaker_than(&self, route: &Confinement) -> Option<&'static str> {
        let rank = |priority| match priority {
            None => 0,
            Some(IoPriority::Low) => 1,
            Some(IoPriority::Idle) => 2,
        };
        let (umask, least) = (self.umask.unwrap_or(UMASK), route.umask.unwrap_or(UMASK));
        let own = first_false([
            ("nice", self.nice >= route.nice),
            ("io_priority", rank(self.io_priority) >= rank(route.io_priority)),
            ("umask", umask & least == least),
            ("private_tmp", self.has_private_tmp || !route.has_private_tmp),
            ("network", self.is_offline || !route.is_offline),
        ]);
        own.or_else(|| self.cgroup.weaker_than(&route.cgroup))
    }
}

/// Whether a limit is at most that of a route, if the route has one.
fn is_within(limit: Option<u64>, route: Option<u64>) -> bool {
    route.is_none_or(|most| limit.is_some_and(|limit| limit <= most))
}

fn first_false(checks: impl IntoIterator<Item = (&'static str, bool)>) -> Option<&'static str> {
    let failed = checks.into_iter().find(|(_, holds)| !holds)?;
    Some(failed.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limits that are all set.
    fn limits(value: u64) -> ProcessLimits {
        ProcessLimits {
            memory_bytes_max: Some(value),
            cpu_seconds_max: Some(value),
            open_files_max: Some(value),
            processes_max: Some(value),
            file_bytes_max: Some(value),
            core_bytes_max: Some(value),
        }
    }

    fn cgroup(value: u64) -> CgroupLimits {
        CgroupLimits {
            memory_bytes_max: Some(value),
            processes_max: Some(value),
            cpu_percent: Some(value),
            cpu_weight: Some(value),
        }
    }

    #[test]
    fn a_limit_that_is_missing_or_higher_is_weaker() {
        let route = limits(5);
        for equal_or_lower in [limits(5), limits(4)] {
            assert_eq!(equal_or_lower.weaker_than(&route), None);
        }
        type Field = fn(&mut ProcessLimits) -> &mut Option<u64>;
        let fields: [(Field, &str); 6] = [
            (|limits| &mut limits.memory_bytes_max, "memory_max"),
            (|limits| &mut limits.cpu_seconds_max, "cpu_time"),
            (|limits| &mut limits.open_files_max, "open_files"),
            (|limits| &mut limits.processes_max, "user_processes"),
            (|limits| &mut limits.file_bytes_max, "file_size"),
            (|limits| &mut limits.core_bytes_max, "core_dumps"),
        ];
        for (field, key) in fields {
            for value in [None, Some(6)] {
                let mut wished = route;
                *field(&mut wished) = value;
                assert_eq!(wished.weaker_than(&route), Some(key));
                // A route without this limit permits any.
                let mut free = route;
                *field(&mut free) = None;
                assert_eq!(wished.weaker_than(&free), None);
            }
        }
    }

    #[test]
    fn each_restriction_of_a_route_must_be_there() {
        let route = Confinement {
            nice: 5,
            io_priority: Some(IoPriority::Low),
            umask: Some(0o027),
            has_private_tmp: true,
            is_offline: true,
            cgroup: cgroup(5),
            ..Confinement::default()
        };
        assert_eq!(route.weaker_than(&route), None);
        type Change = fn(&mut Confinement);
        let changes: [(Change, Option<&str>); 15] = [
            (|wished| wished.nice = 6, None),
            (|wished| wished.nice = 4, Some("nice")),
            (|wished| wished.io_priority = Some(IoPriority::Idle), None),
            (|wished| wished.io_priority = None, Some("io_priority")),
            (|wished| wished.umask = Some(0o077), None),
            (|wished| wished.umask = Some(0o022), Some("umask")),
            (|wished| wished.umask = None, Some("umask")),
            (|wished| wished.has_private_tmp = false, Some("private_tmp")),
            (|wished| wished.is_offline = false, Some("network")),
            (|wished| wished.cgroup = cgroup(4), None),
            (|wished| wished.cgroup.memory_bytes_max = None, Some("cgroup_memory")),
            (|wished| wished.cgroup.processes_max = Some(6), Some("cgroup_processes")),
            (|wished| wished.cgroup.cpu_percent = Some(6), Some("cgroup_cpu")),
            (|wished| wished.cgroup.cpu_weight = None, Some("cgroup_cpu_weight")),
            (|wished| wished.cgroup = CgroupLimits::default(), Some("cgroup_memory")),
        ];
        for (change, weaker) in changes {
            let mut wished = route.clone();
            change(&mut wished);
            assert_eq!(wished.weaker_than(&route), weaker, "{wished:?}");
        }
        // What a route does not say is the usual umask.
        let open = Confinement { umask: Some(0), ..Confinement::default() };
        assert_eq!(open.weaker_than(&Confinement::default()), Some("umask"));
    }
}
