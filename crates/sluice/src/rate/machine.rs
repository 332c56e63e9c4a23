//! The description of this machine: what a rating is of.

use std::fmt::Write;
use std::fs;
use std::num::NonZeroUsize;

/// Describes processor, memory, system and program in three lines.
pub(super) fn describe(workers: NonZeroUsize) -> String {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(out, "machine     {}", model(&processors));
    if is_virtual(&processors) {
        out.push_str(", virtual");
    }
    let usable = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let _ = write!(
        out,
        ", {usable} {}",
        if usable == 1 { "processor" } else { "processors" }
    );
    if let Some(gibibytes) = memory_gibibytes(&read("/proc/meminfo")) {
        let _ = write!(out, ", {gibibytes:.1} GiB");
    }
    let _ = writeln!(
        out,
        "\nsystem      {}, Linux {}",
        system(&read("/etc/os-release")),
        read("/proc/sys/kernel/osrelease").trim()
    );
    let _ = write!(out, "server      sluice {}, {workers} ", env!("CARGO_PKG_VERSION"));
    out.push_str(if workers.get() == 1 { "worker" } else { "workers" });
    if cfg!(debug_assertions) {
        out.push_str("; built without optimisation, so not comparable");
    }
    out.push('\n');
    out
}

/// The name of the first processor in `/proc/cpuinfo` (proc_cpuinfo(5)); the field depends on the architecture.
fn model(processors: &str) -> &str {
    let names = ["model name", "Model", "cpu model", "cpu", "uarch"];
    let found = names.iter().find_map(|name| field(processors, name));
    found.filter(|name| !name.is_empty()).unwrap_or(std::env::consts::ARCH)
}

/// Whether a hypervisor says that it is there (x86).
fn is_virtual(processors: &str) -> bool {
    field(processors, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"))
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The memory of `/proc/meminfo` (proc_meminfo(5)).
fn memory_gibibytes(text: &str) -> Option<f64> {
    let kibibytes: u32 = field(text, "MemTotal")?.split(' ').next()?.parse().ok()?;
    Some(f64::from(kibibytes) / f64::from(1 << 20))
}

/// The name of the distribution (os-release(5)).
fn system(text: &str) -> &str {
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.map_or("Linux", |name| name.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described_by_the_files_of_proc() {
        let processors = "processor\t: 0\nmodel name\t: Intel(R) Core(TM) i7-9700\nflags\t\t: fpu hypervisor sse\n";
        assert_eq!(model(processors), "Intel(R) Core(TM) i7-9700");
        assert!(is_virtual(processors));
        assert!(!is_virtual("flags\t: fpu sse\n"));
        assert_eq!(model("processor : 0\nBogoMIPS : 50\n"), std::env::consts::ARCH);
        assert_eq!(memory_gibibytes("MemTotal:       16777216 kB\n"), Some(16.0));
        assert_eq!(
            system("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            "Debian GNU/Linux 12 (bookworm)"
        );
        let text = describe(NonZeroUsize::MIN);
        assert!(
            text.starts_with("machine     ") && text.contains("\nsystem      ") && text.contains(" 1 worker"),
            "{text}"
        );
    }
}
