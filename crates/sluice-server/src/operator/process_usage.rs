//! The resources that script processes use, as proc(5) says: memory and processor time.
//!
//! Read by threads that may be lost: the system counts the pages of a process when it is asked for its proportional set size, and looks up names in the directory of the process, which
//! somebody can hold.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use sluice_launch::{LookupShare, look_elsewhere};
use sluice_report::machine::kibibytes;
use sluice_report::scripts::Usage;
use tokio::time::{Instant, sleep_until};

/// Processes whose proportional set size is read: counting the pages of a large process takes a millisecond.
const PSS_MAX: usize = 256;

const READING_MAX: Duration = Duration::from_secs(1);

/// Clock ticks in a second, of /proc/PID/stat. The same on every Linux of this century (`getconf CLK_TCK`).
const TICKS_PER_SECOND: u64 = 100;

/// The usage of these processes, each with the number of its user. Missing are processes that have ended, and those of users of whom a process
/// is held.
pub(crate) async fn of(processes: impl Iterator<Item = (i32, u32)>) -> HashMap<i32, Usage> {
    let mut users: HashMap<u32, Vec<(i32, bool)>> = HashMap::new();
    for (index, (pid, user)) in processes.enumerate() {
        users.entry(user).or_default().push((pid, index < PSS_MAX));
    }
    let begin = |(user, processes): (u32, Vec<(i32, bool)>)| {
        look_elsewhere(LookupShare::processes_of(user), move || read(&processes))
    };
    let answers: Vec<_> = users.into_iter().map(begin).collect();
    let until = Instant::now() + READING_MAX;
    let mut all = HashMap::new();
    for answer in answers {
        all.extend(answer.within(sleep_until(until)).await.unwrap_or_default());
    }
    all
}

/// The usage of processes, each with whether its proportional set size is wanted.
fn read(processes: &[(i32, bool)]) -> HashMap<i32, Usage> {
    let usage = |&(pid, has_pss): &(i32, bool)| {
        let text = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
        let rss_bytes = kibibytes(&text("status")?, "VmRSS")?;
        let rollup = || text("smaps_rollup").and_then(|text| kibibytes(&text, "Pss"));
        let usage = Usage {
            rss_bytes,
            pss_bytes: if has_pss { rollup() } else { None },
            processor_ms: processor_ms(&text("stat")?)?,
        };
        Some((pid, usage))
    };
    processes.iter().filter_map(usage).collect()
}

/// The processor time of a process and of its children that were waited for, of /proc/PID/stat. Its name, in parentheses, may contain
/// anything.
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
        assert_eq!(kibibytes(rollup, "Pss"), Some(3 << 10));
        assert_eq!(kibibytes("Rss: 9 kB", "Pss"), None);
        let own = i32::try_from(std::process::id()).unwrap();
        let usage = read(&[(own, true), (i32::MAX, true)]);
        assert!(usage.len() == 1 && usage[&own].rss_bytes > 100_000, "{usage:?}");
        assert!(usage[&own].pss_bytes.is_some(), "{usage:?}");
    }
}
