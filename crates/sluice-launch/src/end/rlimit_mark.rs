//! A sign by which the descendants of a script process are known, even with another session, cgroup and environment, or if they cannot be read.
//!
//! It is the soft limit of resident memory (RLIMIT_RSS, setrlimit(2)): children inherit it, exec keeps it, everybody may read it
//! (`/proc/PID/limits`), and Linux applies it to nothing. Its value is larger than any memory and has the numbers of the server and of the script
//! process. A process can change its own limit, so this finds all but those that hide on purpose.

use std::ffi::c_long;
use std::fs;
use std::ptr;

use crate::syscall::checked;

/// No memory is as large, and no limit is as large except "unlimited".
const LEAST: u64 = 1 << 62;

/// Bits of a process id, of which the kernel uses 22 (PID_MAX_LIMIT).
const PID_BITS: u32 = 31;

/// The sign of the descendants of a script process.
fn sign(server: u64, leader: u64) -> u64 {
    LEAST | (server << PID_BITS) | leader
}

/// Gives the calling process, a child of `server`, the sign of its own descendants. Called in the child: system calls, nothing else.
pub(crate) fn set(server: libc::pid_t) -> Result<(), i32> {
    const SELF: libc::pid_t = 0;
    // Soft and hard limit, in the layout of `struct rlimit64`.
    let mut bounds = [0_u64; 2];
    let none: *const u64 = ptr::null();
    // SAFETY: the kernel writes one rlimit64, and reads nothing from a null pointer.
    checked(unsafe { libc::syscall(libc::SYS_prlimit64, SELF, libc::RLIMIT_RSS, none, bounds.as_mut_ptr()) })?;
    // SAFETY: takes nothing.
    let own: c_long = unsafe { libc::syscall(libc::SYS_getpid) };
    let sign = sign(u64::from(server.unsigned_abs()), own.unsigned_abs());
    let [soft, hard] = &mut bounds;
    if sign > *hard {
        // The administrator has set a limit. The session, the cgroup and the environment are left.
        return Ok(());
    }
    *soft = sign;
    // SAFETY: the kernel reads one rlimit64, and writes nothing to a null pointer.
    checked(unsafe { libc::syscall(libc::SYS_prlimit64, SELF, libc::RLIMIT_RSS, bounds.as_ptr(), none) }).map(drop)
}

/// The leader of which a process has the sign of a descendant; this process has started it. Reads a file of /proc.
pub(crate) fn leader_of(pid: i32) -> Option<i32> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    leader_in(soft_limit(&limits)?, u64::from(std::process::id()))
}

/// The leader in a sign of this server.
fn leader_in(soft: u64, server: u64) -> Option<i32> {
    let leader = i32::try_from(soft & ((1 << PID_BITS) - 1)).ok()?;
    (soft == sign(server, u64::from(leader.unsigned_abs()))).then_some(leader)
}

fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max resident set "))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_is_read_from_the_list_of_limits() {
        let line =
            |soft: &str| format!("Max core file size  0  0  bytes\nMax resident set          {soft} unlimited bytes\n");
        assert_eq!(soft_limit(&line("4611686018427387911")), Some(LEAST + 7));
        assert_eq!(soft_limit(&line("unlimited")), None);
        assert_ne!(sign(1, 2), sign(2, 1));
        assert_eq!(leader_in(sign(9, 7), 9), Some(7));
        assert_eq!(leader_in(sign(9, 7), 8), None);
        assert_eq!(leader_in(7, 0), None);
        assert_eq!(leader_of(1), None);
    }
}
