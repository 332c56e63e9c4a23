//! The memory that a process has for itself: what grows when it leaks.
//!
//! The kernel looks up the name of the process in `/proc` for it, which somebody can keep waiting who holds that directory. So a thread
//! does it that may be lost.

use std::fs;
use std::time::Duration;

use sluice_launch::{LookupShare, look_elsewhere};
use tokio::time::sleep;

/// How long a process waits for its measurement. It goes on without it then.
const MEASURING_MAX: Duration = Duration::from_secs(1);

/// The memory of a process of a user, as `private_bytes` says it. `None` also if the kernel does not answer in time.
pub(crate) async fn measure(pid: i32, user: u32) -> Option<u64> {
    let measured = look_elsewhere(LookupShare::processes_of(user), move || private_bytes(pid));
    measured.within(sleep(MEASURING_MAX)).await.ok()?
}

/// Resident memory of a process without what it shares with others, bytes: its libraries and its memory buffer do not count
/// (RssAnon of `/proc/PID/status`, proc(5)). `None` if the process has ended.
fn private_bytes(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    anonymous_bytes(&text)
}

fn anonymous_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_pages_do_not_count() {
        let status = "VmRSS:\t  9000 kB\nRssAnon:\t    4096 kB\nRssFile:\t    4904 kB\n";
        assert_eq!(anonymous_bytes(status), Some(4 << 20));
        assert_eq!(anonymous_bytes("Name:\tkthreadd\n"), None);
        let own = i32::try_from(std::process::id()).unwrap();
        let before = private_bytes(own).unwrap();
        let filled = vec![1_u8; 64 << 20];
        assert!(private_bytes(own).unwrap() > before + (48 << 20), "{}", filled.len());
    }
}
