//! The processes that a script process leaves behind when it ends: those in its cgroup, and those that have left it.
//!
//! A process of the same user, or of root, may move itself to another cgroup. So orphans are searched with cgroups, too: one read if there are none.

use crate::confine::cgroup::ScriptCgroup;
use crate::end::orphans;
use crate::end::session::{Survivors, end_session};

/// Whether a script process that has exited may have left processes behind outside of its group; one or two reads. Does not block.
pub(crate) fn may_have_left_processes(cgroup: Option<&ScriptCgroup>) -> bool {
    match cgroup {
        // Where orphans cannot be listed, all processes would be searched each time.
        Some(cgroup) => cgroup.has_processes() || (orphans::are_listed() && orphans::has_orphans()),
        None => orphans::has_orphans(),
    }
}

/// Ends all that a script process has left behind, by SIGTERM and SIGKILL, and waits for their end: the processes of its cgroup, and those
/// of `end_session`, whose conditions hold. Waits: not for an event loop. Returns within six seconds, or ten if somebody hinders it.
/// Survivors wait for a disk, or run as a user whom the server may not signal.
pub(crate) fn end_left_processes(cgroup: Option<&ScriptCgroup>, leader: i32, mark: &str) -> Result<(), Survivors> {
    let Some(cgroup) = cgroup else {
        return end_session(leader, mark);
    };
    let of_cgroup = match cgroup.has_processes() {
        true => cgroup.end(),
        false => Ok(()),
    };
    let elsewhere = match orphans::are_listed() {
        true => end_session(leader, mark),
        false => Ok(()),
    };
    of_cgroup.and(elsewhere)
}
