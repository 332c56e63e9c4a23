//! The machine and the program: the facts of both that belong into the report of a fault or a measurement.

use serde::Serialize;

/// The flags of processors that make a difference here: for encryption, hashes, compression and searching.
const FLAGS: [&str; 12] = [
    "aes",
    "vaes",
    "pclmulqdq",
    "sha_ni",
    "avx2",
    "avx512f",
    "sse4_2",
    "bmi2", // x86
    "pmull",
    "sha2",
    "crc32",
    "sve", // ARM; `aes` is the same there
];

#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    pub hardware: Hardware,
    pub system: System,
    /// The limits of the server process (getrlimit(2)).
    pub limits: Vec<Limit>,
    pub process: ServerProcess,
    pub program: Program,
    pub engines: Vec<Engine>,
    /// The last rating by `sluice rate`; `None` if it has not been run.
    pub rating: Option<Rating>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Hardware {
    /// The name that the processor reports.
    pub processor: String,
    /// Whether a hypervisor says that it is there.
    pub is_virtual: bool,
    /// Processors that the server may use.
    pub processors_usable: usize,
    pub processors: usize,
    /// CPU flags that affect speed (AES, AVX …).
    pub flags: Vec<&'static str>,
    pub memory_bytes: Option<u64>,
    /// The part of the memory that is available for programs, in bytes.
    pub memory_available_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct System {
    pub distribution: String,
    pub kernel: String,
    pub architecture: &'static str,
    pub hostname: String,
    /// The average load over 1, 5 and 15 minutes.
    pub load: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// The name, as in /proc/PID/limits.
    pub name: String,
    /// The soft limit, which applies now.
    pub soft: String,
    /// The hard limit, up to which the soft limit may be raised.
    pub hard: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServerProcess {
    pub pid: u32,
    /// Resident memory.
    pub memory_bytes: Option<u64>,
    pub memory_peak_bytes: Option<u64>,
    pub threads: Option<u64>,
    pub descriptors: Option<u64>,
    /// The processor time, without that of scripts.
    pub processor_seconds: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Program {
    pub version: &'static str,
    pub build: String,
    pub libraries: Vec<Library>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Library {
    pub name: &'static str,
    pub version: &'static str,
    pub purpose: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Engine {
    pub name: String,
    /// The reason why it cannot run scripts; `None` if it can.
    pub problem: Option<String>,
}

/// A rating of the machine by `sluice rate`.
#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
pub struct Rating {
    /// When it was made, seconds since 1970.
    pub at: u64,
    /// The version of the program.
    pub version: String,
    pub exercises: Vec<Exercise>,
}

#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
pub struct Exercise {
    pub name: String,
    /// The unit of the numbers below.
    pub unit: String,
    pub average: f64,
    pub minimum: f64,
    pub maximum: f64,
}

impl Hardware {
    /// Reads the contents of `/proc/cpuinfo` (proc_cpuinfo(5)) and `/proc/meminfo` (proc_meminfo(5)).
    #[must_use]
    pub fn of(cpuinfo: &str, meminfo: &str, processors_usable: usize) -> Hardware {
        let flags = field(cpuinfo, "flags")
            .or_else(|| field(cpuinfo, "Features"))
            .unwrap_or_default();
        let has = |flag: &str| flags.split(' ').any(|other| other == flag);
        Hardware {
            processor: processor(cpuinfo).to_owned(),
            is_virtual: has("hypervisor"),
            processors_usable,
            processors: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            flags: FLAGS.into_iter().filter(|flag| has(flag)).collect(),
            memory_bytes: kibibytes(meminfo, "MemTotal"),
            memory_available_bytes: kibibytes(meminfo, "MemAvailable"),
        }
    }
}

impl ServerProcess {
    /// Reads the content of `/proc/self/status` (proc_pid_status(5)).
    #[must_use]
    pub fn of(pid: u32, status: &str) -> ServerProcess {
        ServerProcess {
            pid,
            memory_bytes: kibibytes(status, "VmRSS"),
            memory_peak_bytes: kibibytes(status, "VmHWM"),
            threads: field(status, "Threads").and_then(|threads| threads.parse().ok()),
            descriptors: None,
            processor_seconds: None,
        }
    }
}

/// The name of the first processor in `/proc/cpuinfo`; the field depends on the architecture.
#[must_use]
pub fn processor(cpuinfo: &str) -> &str {
    let names = ["model name", "Model", "cpu model", "cpu", "uarch"];
    let found = names.iter().find_map(|name| field(cpuinfo, name));
    found.filter(|name| !name.is_empty()).unwrap_or(std::env::consts::ARCH)
}

/// The name of the distribution (os-release(5)).
#[must_use]
pub fn distribution(os_release: &str) -> &str {
    let line = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.map_or("Linux", |name| name.trim_matches('"'))
}

/// The limits in `/proc/self/limits` (proc_pid_limits(5)): columns of a fixed width.
#[must_use]
pub fn limits(text: &str) -> Vec<Limit> {
    let mut lines = text.lines();
    let Some(head) = lines.next() else { return Vec::new() };
    let column = |name: &str| head.find(name);
    let (Some(soft), Some(hard), Some(units)) = (column("Soft Limit"), column("Hard Limit"), column("Units")) else {
        return Vec::new();
    };
    let part =
        |line: &str, from: usize, to: usize| line.get(from..to.min(line.len())).unwrap_or_default().trim().to_owned();
    lines
        .map(|line| Limit {
            name: part(line, 0, soft),
            soft: part(line, soft, hard),
            hard: part(line, hard, units),
        })
        .collect()
}

/// The processor time in `/proc/self/stat` (proc_pid_stat(5), fields 14 and 15), of this process without its children.
#[must_use]
pub fn processor_seconds(stat: &str) -> Option<f64> {
    /// The unit of the fields, which Linux never changes for user space (USER_HZ).
    const TICKS_A_SECOND: f64 = 100.0;
    // The name of the program, in parentheses, may contain anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let times = fields.split(' ').skip(11).take(2);
    let ticks: f64 = times.map(|field| field.parse().unwrap_or(0.0)).sum();
    Some(ticks / TICKS_A_SECOND)
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// A field with a number of kB, as in `Pss: 3 kB`, in bytes.
#[must_use]
pub fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let kibibytes: u64 = field(text, name)?.split(' ').next()?.parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described_by_the_files_of_proc() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Intel(R) Core(TM) i7-9700\nflags\t\t: fpu hypervisor avx2 aes\n\nprocessor\t: 1\n";
        let hardware = Hardware::of(cpuinfo, "MemTotal:       16777216 kB\n", 1);
        assert_eq!(hardware.processor, "Intel(R) Core(TM) i7-9700");
        assert!(hardware.is_virtual);
        assert_eq!((hardware.processors, hardware.processors_usable), (2, 1));
        assert_eq!(hardware.flags, ["aes", "avx2"]);
        assert_eq!(
            (hardware.memory_bytes, hardware.memory_available_bytes),
            (Some(16 << 30), None)
        );
        assert_eq!(processor("processor : 0\nBogoMIPS : 50\n"), std::env::consts::ARCH);
        let os_release = "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";
        assert_eq!(distribution(os_release), "Debian GNU/Linux 12 (bookworm)");
    }

    #[test]
    fn limits_are_columns() {
        let text = "\
Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max open files            1024                 1048576              files     
";
        let found = limits(text);
        let expected = Limit {
            name: "Max open files".to_owned(),
            soft: "1024".to_owned(),
            hard: "1048576".to_owned(),
        };
        assert_eq!((found.len(), &found[1]), (2, &expected));
        assert_eq!(limits("anything"), []);
    }

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "1 (a) b) S 0 1 1 0 -1 4194560 1 2 3 4 150 50 9 9 20 0";
        assert_eq!(processor_seconds(stat), Some(2.0));
        assert_eq!(processor_seconds(""), None);
    }
}
