//! The limits of a script process with its descendants, and the files of a cgroup that have them (cgroups(7), version 2).

use serde::{Deserialize, Serialize};

/// The period of `cpu.max`, microseconds; the kernel's default.
const CPU_PERIOD: u64 = 100_000;

/// The limits of a script process and all its descendants together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupLimits {
    /// Bytes of memory (`memory.max`); beyond them the kernel kills all of its processes.
    pub memory_bytes_max: Option<u64>,
    /// Processes and threads (`pids.max`); further ones are refused with EAGAIN.
    pub processes_max: Option<u64>,
    /// Percent of the time of one processor (`cpu.max`).
    pub cpu_percent: Option<u64>,
    /// The share of the processors when they are busy, relative to 100 of other cgroups (`cpu.weight`), 1 to 10000.
    pub cpu_weight: Option<u64>,
}

impl CgroupLimits {
    /// Whether any is set.
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self != CgroupLimits::default()
    }

    /// The files of the limits that are set, with their contents.
    pub(crate) fn files(&self) -> Vec<(&'static str, String)> {
        let memory = self.memory_bytes_max.map(|bytes| bytes.to_string());
        // A percentage beyond all measure is refused by the kernel (EINVAL), and with it the start.
        let cpu = self
            .cpu_percent
            .map(|percent| format!("{} {CPU_PERIOD}", (percent.saturating_mul(CPU_PERIOD) / 100).max(1000)));
        [
            ("memory.max", memory.clone()),
            // The out-of-memory killer ends all of them: one that is left would wait for the others.
            ("memory.oom.group", memory.is_some().then(|| "1".to_owned())),
            ("pids.max", self.processes_max.map(|processes| processes.to_string())),
            ("cpu.max", cpu),
            ("cpu.weight", self.cpu_weight.map(|weight| weight.to_string())),
        ]
        .into_iter()
        .filter_map(|(file, content)| Some((file, content?)))
        .collect()
    }

    /// The controllers that these limits need.
    #[must_use]
    pub fn controllers(&self) -> Vec<&'static str> {
        let is_set = [
            ("memory", self.memory_bytes_max.is_some()),
            ("pids", self.processes_max.is_some()),
            ("cpu", self.cpu_percent.is_some() || self.cpu_weight.is_some()),
        ];
        is_set
            .into_iter()
            .filter_map(|(name, is_set)| is_set.then_some(name))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_the_form_of_the_kernel() {
        let limits = CgroupLimits {
            memory_bytes_max: Some(1 << 20),
            processes_max: Some(20),
            cpu_percent: Some(150),
            cpu_weight: None,
        };
        let files: Vec<String> = limits
            .files()
            .into_iter()
            .map(|(file, content)| format!("{file}={content}"))
            .collect();
        assert_eq!(
            files,
            [
                "memory.max=1048576",
                "memory.oom.group=1",
                "pids.max=20",
                "cpu.max=150000 100000"
            ]
        );
        assert_eq!(limits.controllers(), ["memory", "pids", "cpu"]);
        assert!(!CgroupLimits::default().is_any());
    }

    #[test]
    fn a_percentage_of_any_size_makes_a_quota_that_is_not_smaller() {
        let quota = |percent| {
            let limits = CgroupLimits {
                cpu_percent: Some(percent),
                ..CgroupLimits::default()
            };
            let files = limits.files();
            let (quota, _) = files[0].1.split_once(' ').unwrap();
            quota.parse::<u64>().unwrap()
        };
        assert_eq!(quota(1000), 1_000_000);
        let largest = u64::MAX / CPU_PERIOD;
        for percent in [largest, largest + 1, u64::MAX] {
            assert!(quota(percent) > u64::from(u32::MAX), "{percent}");
        }
    }
}
