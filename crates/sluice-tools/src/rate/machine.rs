//! The description of this machine: what a rating is of.

use std::fmt::Write;
use std::fs;
use std::num::NonZeroUsize;

use sluice_report::machine::{Hardware, distribution};
use sluice_report::text;

/// Describes processor, memory, system and program in three lines.
pub(super) fn describe(workers: NonZeroUsize) -> String {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let usable = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let hardware = Hardware::of(&read("/proc/cpuinfo"), &read("/proc/meminfo"), usable);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(out, "machine     {}", hardware.processor);
    if hardware.is_virtual {
        out.push_str(", virtual");
    }
    let _ = write!(out, ", {}", text::counted(usable as u64, "processor", "processors"));
    if let Some(bytes) = hardware.memory_bytes {
        let _ = write!(out, ", {}", text::bytes(bytes));
    }
    let _ = writeln!(
        out,
        "\nsystem      {}, Linux {}",
        distribution(&read("/etc/os-release")),
        read("/proc/sys/kernel/osrelease").trim()
    );
    let workers = text::counted(workers.get() as u64, "worker", "workers");
    let _ = write!(out, "server      sluice {}, {workers}", env!("CARGO_PKG_VERSION"));
    if cfg!(debug_assertions) {
        out.push_str("; built without optimisation, so not comparable");
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described_in_three_lines() {
        let text = describe(NonZeroUsize::MIN);
        assert!(
            text.starts_with("machine     ") && text.contains("\nsystem      ") && text.contains(" 1 worker"),
            "{text}"
        );
    }
}
