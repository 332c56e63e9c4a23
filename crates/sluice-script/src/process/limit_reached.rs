//! Which limit of its route has ended a script process, for the log, the error page and the reports.
//!
//! The kernel says only how a process ended: which signal, how much processor time it had used, and what its cgroup has counted.

use std::time::Duration;

use sluice_launch::{End, Exit};
use sluice_settings::ScriptLimits;
use sluice_settings::notation::format_size;

/// The limit that explains how a process has ended, as the rest of a sentence about it: `used more than cpu_time = 2s (SIGXCPU)`.
pub(crate) fn limit_reached(confinement: &ScriptLimits, end: &End) -> Option<String> {
    let (exit, usage) = (end.exit, end.usage);
    let (process, cgroup) = (&confinement.limits, &confinement.cgroup);
    let used = |limit: &str, how: &str| Some(format!("used more than {limit} ({how})"));
    let memory = || {
        let most = cgroup.memory_bytes_max.filter(|_| end.memory_kills > 0)?;
        used(
            &format!("cgroup_memory = {}", format_size(most)),
            "the kernel's out-of-memory killer",
        )
    };
    let time = |signal: &str| {
        let seconds = process.cpu_seconds_max?;
        let is_over = usage.user + usage.system >= Duration::from_secs(seconds);
        (is_over || signal == "SIGXCPU").then_some(())?;
        used(&format!("cpu_time = {seconds}s"), signal)
    };
    let address_space = |signal: &str| {
        let most = format_size(process.memory_bytes_max?);
        Some(format!("may need more than memory_max = {most} ({signal})"))
    };
    match (exit, exit.signal_name()) {
        (_, Some("SIGXCPU")) => time("SIGXCPU"),
        (_, Some("SIGXFSZ")) => {
            let most = format_size(process.file_bytes_max?);
            Some(format!("wrote a file larger than file_size = {most} (SIGXFSZ)"))
        }
        (_, Some("SIGSYS")) if confinement.is_offline => {
            Some("made a system call that network = false forbids (SIGSYS)".to_owned())
        }
        (_, Some("SIGKILL")) => memory()
            .or_else(|| time("SIGKILL"))
            .or_else(|| address_space("SIGKILL")),
        (_, Some(signal @ ("SIGSEGV" | "SIGBUS" | "SIGABRT"))) => address_space(signal),
        (Exit::Code(0), _) => None,
        _ => memory().or_else(|| {
            let most = cgroup.processes_max.filter(|_| end.processes_refused > 0)?;
            Some(format!("could start no more processes than cgroup_processes = {most}"))
        }),
    }
}

#[cfg(test)]
mod tests {
    use sluice_launch::{CgroupLimits, ProcessLimits, Usage};

    use super::*;

    const KILL: Exit = Exit::Signal(9);
    const SEGMENTATION_FAULT: Exit = Exit::Signal(11);
    const FILE_SIZE: Exit = Exit::Signal(25);
    const SYSTEM_CALL: Exit = Exit::Signal(31);

    fn end(exit: Exit, seconds: u64, (memory_kills, processes_refused): (u64, u64)) -> End {
        End {
            exit,
            usage: Usage {
                user: Duration::from_secs(seconds),
                ..Usage::default()
            },
            memory_kills,
            processes_refused,
            problem: None,
            is_lost: false,
        }
    }

    #[test]
    fn a_limit_is_named_if_it_explains_the_end() {
        let limits = ScriptLimits {
            limits: ProcessLimits {
                cpu_seconds_max: Some(2),
                memory_bytes_max: Some(64 << 20),
                file_bytes_max: Some(1000),
                ..ProcessLimits::default()
            },
            cgroup: CgroupLimits {
                memory_bytes_max: Some(1 << 20),
                processes_max: Some(3),
                ..CgroupLimits::default()
            },
            is_offline: true,
            ..ScriptLimits::default()
        };
        let counts = |memory_kills, processes_refused| (memory_kills, processes_refused);
        let none = counts(0, 0);
        for (exit, seconds, counts, expected) in [
            (KILL, 2, none, Some("used more than cpu_time = 2s (SIGKILL)")),
            (KILL, 0, none, Some("may need more than memory_max = 64MiB (SIGKILL)")),
            (
                KILL,
                2,
                counts(1, 0),
                Some("used more than cgroup_memory = 1MiB (the kernel's out-of-memory killer)"),
            ),
            (
                SEGMENTATION_FAULT,
                0,
                none,
                Some("may need more than memory_max = 64MiB (SIGSEGV)"),
            ),
            (
                FILE_SIZE,
                0,
                none,
                Some("wrote a file larger than file_size = 1000 (SIGXFSZ)"),
            ),
            (
                SYSTEM_CALL,
                0,
                none,
                Some("made a system call that network = false forbids (SIGSYS)"),
            ),
            (
                Exit::Code(1),
                0,
                counts(0, 1),
                Some("could start no more processes than cgroup_processes = 3"),
            ),
            (Exit::Code(1), 0, none, None),
            (Exit::Code(0), 9, counts(0, 1), None),
        ] {
            let end = end(exit, seconds, counts);
            let reached = limit_reached(&limits, &end);
            assert_eq!(reached.as_deref(), expected, "{exit}");
        }
        for exit in [KILL, SEGMENTATION_FAULT, FILE_SIZE, SYSTEM_CALL, Exit::Code(1)] {
            assert_eq!(
                limit_reached(&ScriptLimits::default(), &end(exit, 9, counts(1, 1))),
                None,
                "{exit}"
            );
        }
    }
}
