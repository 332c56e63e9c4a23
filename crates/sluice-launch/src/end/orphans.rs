//! Orphans: processes that scripts have started and whose parent has ended.
//!
//! The server is a child subreaper (PR_SET_CHILD_SUBREAPER, prctl(2)), so orphans become children of its main thread instead of init's. Script
//! processes are children of launcher threads. So the list of the main thread's children (`/proc/PID/task/PID/children`) holds orphans only, and an
//! empty list says that no process is left of any script that has ended: one read, instead of a search of all processes for each.
//!
//! Without the list (a kernel without CONFIG_PROC_CHILDREN) the server is no subreaper, and orphans are init's.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, set_child_subreaper, waitid};

use crate::end::families::families;
use crate::end::orphan_user;
use crate::end::pidfd::is_unreaped;

/// The list of the main thread's children, if this process is a subreaper.
static CHILDREN: OnceLock<File> = OnceLock::new();

/// Held while orphans are listed and reaped. No other code reaps children of the main thread, so the list only grows
/// meanwhile, and each number in it stays that of the same process. Nobody who holds it looks up a file of /proc/PID: any user can hold the lock of that
/// directory (getdents64(2) into memory that does not answer), and the thread that serves everybody would wait.
static REAPING: Mutex<()> = Mutex::new(());

/// How long the end of all orphans may take: SIGKILL takes effect at once, except for one that waits for a disk.
const END_TIMEOUT: Duration = Duration::from_secs(3);

const PAUSE: Duration = Duration::from_millis(1);

const LIST_BYTES: usize = 4096;

/// Makes the orphans of scripts children of the calling process, which must have none yet.
pub(crate) fn become_subreaper() -> io::Result<()> {
    let pid = std::process::id();
    let Ok(children) = File::open(format!("/proc/{pid}/task/{pid}/children")) else {
        return Ok(());
    };
    set_child_subreaper(Some(getpid()))?;
    // It is set once only, because this is called once.
    let _ = CHILDREN.set(children);
    Ok(())
}

/// Whether a script that has ended may have left processes behind; true if that cannot be known. One read. Does not block.
pub fn has_orphans() -> bool {
    let Some(children) = CHILDREN.get() else { return true };
    children.read_at(&mut [0], 0).map_or(true, |bytes| bytes > 0)
}

/// Whether this process is a subreaper that can list its orphans.
pub(crate) fn are_listed() -> bool {
    CHILDREN.get().is_some()
}

/// Reaps the orphans that have exited, unless another thread does so now. Does not block. Called once a second, because an orphan may exit at any time.
pub fn reap_orphans() {
    if let Some(children) = CHILDREN.get()
        && let Ok(_reaping) = REAPING.try_lock()
    {
        let _ = reap_listed(children);
    }
}

/// Ends every orphan, for a process whose scripts have ended. Blocks, three seconds at most.
pub fn end_orphans() {
    let began = Instant::now();
    while let Ok(Some(orphans)) = list()
        && (orphans.has_reaped || !orphans.pids.is_empty())
        && began.elapsed() < END_TIMEOUT
    {
        for pid in orphans.pids.into_iter().filter_map(Pid::from_raw) {
            // It is a child of this process, which reaps it only here, so its number is its own.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(PAUSE);
    }
}

pub(crate) struct Orphans {
    /// The orphans that had not exited.
    pub pids: Vec<i32>,
    /// Some had exited and were reaped. Their children may have become orphans after the list was read.
    pub has_reaped: bool,
}

/// Reaps the orphans that have exited, and lists the others. `None` if this process is no subreaper.
pub(crate) fn list() -> io::Result<Option<Orphans>> {
    let Some(children) = CHILDREN.get() else {
        return Ok(None);
    };
    let _reaping = keep_unreaped();
    reap_listed(children).map(Some)
}

/// Does the work of `list` for a caller that holds `REAPING`.
fn reap_listed(children: &File) -> io::Result<Orphans> {
    let mut pids = parse(&read_all(children)?);
    let listed = pids.len();
    pids.retain(|pid| {
        let is_left = !is_reaped(*pid);
        if !is_left {
            families().forget(*pid);
            orphan_user::forget(*pid);
        }
        is_left
    });
    let has_reaped = pids.len() < listed;
    Ok(Orphans { pids, has_reaped })
}

/// Notes something under the number of an orphan, unless it has been reaped: its number may have passed to another process then.
pub(crate) fn note_unreaped(orphan: BorrowedFd<'_>, note: impl FnOnce()) {
    let _unreaped = keep_unreaped();
    if is_unreaped(orphan) {
        note();
    }
}

/// Keeps the number of each orphan that of the same process, until it is dropped.
fn keep_unreaped() -> MutexGuard<'static, ()> {
    REAPING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_all(file: &File) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let end = content.len();
        content.resize(end + LIST_BYTES, 0);
        let bytes = file.read_at(&mut content[end..], end as u64)?;
        content.truncate(end + bytes);
        if bytes == 0 {
            return Ok(content);
        }
    }
}

/// The process ids of a list such as `12 34 `.
pub(crate) fn parse(list: &[u8]) -> Vec<i32> {
    let numbers = list.split(u8::is_ascii_whitespace);
    numbers
        .filter_map(|number| std::str::from_utf8(number).ok()?.parse().ok())
        .collect()
}

/// Reaps a child of this process if it has exited.
fn is_reaped(pid: i32) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    Pid::from_raw(pid).is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_children_is_numbers_and_blanks() {
        assert_eq!(parse(b"12 345 "), [12, 345]);
        assert_eq!(parse(b""), []);
        assert_eq!(parse(b"12 x 7\n"), [12, 7]);
    }
}
