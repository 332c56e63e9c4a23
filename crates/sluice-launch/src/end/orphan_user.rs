//! The users of orphans: an orphan of another user than a script's is not one that the script has started.
//!
//! The kernel keeps readers of a process's environment waiting while that process is in execve(2), and this lasts as long as a file that is closed on exec
//! wishes, in a file system that does not answer. So at the end of a script the launcher reads nothing about the orphans of other users but whose they are.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::end::{orphans, pidfd, slow_reads};
use crate::users::own_user::own_uid;

/// Bytes of /proc/PID/status up to the users; the name before them has 15 characters at most, each of four bytes if it is escaped.
const STATUS_BYTES: usize = 512;

/// The users of orphans that were asked for, by the number of the orphan, which nobody else has until it is reaped.
static KNOWN: LazyLock<Mutex<HashMap<i32, u32>>> = LazyLock::new(Mutex::default);

/// Leaves the orphans that the script of this leader may have started. Returns the user of the script, if it lasts.
pub(crate) fn retain_own(orphans: &mut Vec<i32>, leader: i32) -> Option<u32> {
    if orphans.is_empty() {
        return None;
    }
    let user = lasting_user(leader)?;
    orphans.retain(|orphan| user_of(*orphan).is_none_or(|of_orphan| of_orphan == user));
    Some(user)
}

/// The orphan is reaped: its number may pass to another process.
pub(crate) fn forget(orphan: i32) {
    known().remove(&orphan);
}

/// The user of a script and of all that it starts, if it lasts: root has changed to it, and no program gives more rights (PR_SET_NO_NEW_PRIVS, prctl(2)).
fn lasting_user(leader: i32) -> Option<u32> {
    (own_uid() == 0)
        .then(|| uid_of(leader))
        .flatten()
        .filter(|uid| *uid != 0)
}

/// The user of an orphan, and of all processes below it. `None` if the orphan is gone, or if the kernel does not answer within `slow_reads::TIMEOUT`.
fn user_of(orphan: i32) -> Option<u32> {
    if let Some(user) = known().get(&orphan) {
        return Some(*user);
    }
    let pidfd = pidfd::open(orphan).ok()?;
    let user = uid(pidfd.as_fd(), orphan)?;
    orphans::note_unreaped(pidfd.as_fd(), || {
        known().insert(orphan, user);
    });
    Some(user)
}

/// The real user of a process. `None` if there is no such process, or if the kernel does not answer within `slow_reads::TIMEOUT`.
fn uid_of(pid: i32) -> Option<u32> {
    uid(pidfd::open(pid).ok()?.as_fd(), pid)
}

/// The share of reads that are done for no user in particular.
const OF_NOBODY: u64 = u64::MAX;

/// The real user of a process with this number. Before Linux 6.13 from /proc/PID/status, whose directory any user can keep locked.
fn uid(pidfd: BorrowedFd<'_>, pid: i32) -> Option<u32> {
    pidfd::user_of(pidfd).or_else(|| slow_reads::within_timeout(OF_NOBODY, move || uid_in_status(pid))?)
}

/// The real user of a process, from a file whose reader never waits for the process.
fn uid_in_status(pid: i32) -> Option<u32> {
    let mut start = [0; STATUS_BYTES];
    let length = File::open(format!("/proc/{pid}/status")).ok()?.read(&mut start).ok()?;
    let mut lines = start[..length].split(|byte| *byte == b'\n');
    let users = lines.find_map(|line| line.strip_prefix(b"Uid:"))?;
    std::str::from_utf8(users)
        .ok()?
        .split_ascii_whitespace()
        .next()?
        .parse()
        .ok()
}

fn known() -> MutexGuard<'static, HashMap<i32, u32>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_the_user_as_the_file_does() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(uid_of(own), uid_in_status(own));
        assert_eq!(uid_in_status(own), Some(own_uid()));
        if let Some(user) = pidfd::user_of(pidfd::open(own).unwrap().as_fd()) {
            assert_eq!(user, own_uid());
        }
    }
}
