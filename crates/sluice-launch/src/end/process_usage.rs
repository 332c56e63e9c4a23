//! The resources that a process uses at one moment, as proc(5) says: memory and processor time.
//!
//! The launcher reads them: of processes of another user they are there for root only (hidepid), and the system counts the pages of a process when it is asked for its
//! proportional set size.

use std::fs;

use serde::{Deserialize, Serialize};

/// Clock ticks in a second, of /proc/PID/stat. The same on every Linux of this century (`getconf CLK_TCK`).
const TICKS_PER_SECOND: u64 = 100;

/// The resources that a process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// Resident memory.
    pub rss_bytes: u64,
    /// Resident memory without what it shares with others: its libraries and its memory buffer do not count (RssAnon). It grows when the process leaks.
    pub private_bytes: u64,
    /// Resident memory, each shared page divided by the number of processes that share it. `None` if nobody asked for it, or if it is not known.
    pub pss_bytes: Option<u64>,
    /// Processor time of it and of its children that were waited for, milliseconds.
    pub processor_ms: u64,
}

impl ProcessUsage {
    /// Reads the usage of a process. `None` if it is gone, or another user's whom this process may not ask about. Waits for the kernel: not for an event loop.
    #[must_use]
    pub fn of(pid: i32, has_pss: bool) -> Option<ProcessUsage> {
        let text = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
        let pss = || kilobytes(&text("smaps_rollup")?, "Pss:");
        let status = text("status")?;
        Some(ProcessUsage {
            rss_bytes: kilobytes(&status, "VmRSS:")?,
            private_bytes: kilobytes(&status, "RssAnon:")?,
            pss_bytes: has_pss.then(pss).flatten(),
            processor_ms: processor_ms(&text("stat")?)?,
        })
    }
}

/// A number of bytes in a file of lines such as `Pss: 3 kB`.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

/// The processor time of a process and of its children that were waited for, of /proc/PID/stat, where the name in parentheses may contain anything.
fn processor_ms(text: &str) -> Option<u64> {
    // utime, stime, cutime and cstime are fields 14 to 17; the name is field 2.
    let fields = text.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
    let ticks: Option<u64> = fields.map(|field| field.parse::<u64>().ok()).sum();
    Some(ticks? * 1000 / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_proc_are_read() {
        let stat = "12 (a) b) S 1 12 12 0 -1 4194560 1 0 0 0 150 50 7 3 20 0 1 0 1 2 3";
        assert_eq!(processor_ms(stat), Some(2100));
        assert_eq!(processor_ms("12 (a) S 1"), Some(0));
        let rollup = "00-ff ---p 00000000 00:00 0 [rollup]\nRss:  9 kB\nPss:    3 kB\n";
        assert_eq!(kilobytes(rollup, "Pss:"), Some(3 << 10));
        assert_eq!(kilobytes("Rss: 9 kB", "Pss:"), None);
        let own = i32::try_from(std::process::id()).unwrap();
        let usage = ProcessUsage::of(own, true).unwrap();
        assert!(usage.rss_bytes > 100_000 && usage.pss_bytes.is_some(), "{usage:?}");
        let filled = vec![1_u8; 64 << 20];
        let more = ProcessUsage::of(own, false).unwrap();
        assert!(
            more.private_bytes > usage.private_bytes + (48 << 20),
            "{}",
            filled.len()
        );
        assert_eq!(ProcessUsage::of(own, false).unwrap().pss_bytes, None);
        assert_eq!(ProcessUsage::of(i32::MAX, true), None);
    }
}
