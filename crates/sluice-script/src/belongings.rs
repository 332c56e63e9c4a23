//! What a script process has outside of its own memory until it is reaped: its descendants, and its temporary files.
//!
//! Not here: the process itself (`process`, `unwatched`), and how its descendants are found (`sluice_launch`).

use sluice_launch::{ScriptCgroup, Signal, Started, Survivors, TemporaryDirectory};

use crate::limit_reached::Counts;
use crate::resources::drop_elsewhere;

/// What a script process has outside of its own memory.
pub(crate) struct Belongings {
    /// Its number, and that of its session and group.
    leader: i32,
    /// Has all its descendants, if the server has cgroups.
    cgroup: Option<ScriptCgroup>,
    temporary: Option<TemporaryDirectory>,
    /// A text in the environment of the process, which no other process has.
    mark: String,
}

impl Belongings {
    /// Takes them out of a process that was started; `mark` is a text in its environment, which no other process has.
    pub(crate) fn of(started: &mut Started, mark: &str) -> Belongings {
        Belongings {
            leader: started.pid,
            cgroup: started.cgroup.take(),
            temporary: started.temporary.take(),
            mark: mark.to_owned(),
        }
    }

    /// Kills the process and its group. It must not be reaped.
    pub(crate) fn kill_group(&self) {
        let _ = sluice_launch::kill_group(self.leader, Signal::Kill);
    }

    /// Kills the group of the process, which has exited and is not reaped. True if it may have left processes behind outside of
    /// that: then `end_descendants` finds them. Does not block.
    pub(crate) fn end_group(&self) -> bool {
        self.kill_group();
        match &self.cgroup {
            Some(cgroup) => cgroup.has_processes(),
            None => sluice_launch::has_orphans(),
        }
    }

    /// Kills all that the process has started, and waits for their end. It must have exited and must not be reaped. Waits: not for an
    /// event loop.
    ///
    /// # Errors
    /// As of [`sluice_launch::end_session`].
    pub(crate) fn end_descendants(&self) -> Result<(), Survivors> {
        match &self.cgroup {
            Some(cgroup) => cgroup.end(),
            None => sluice_launch::end_session(self.leader, &self.mark),
        }
    }

    /// What the kernel has counted for its limits. Reads files of the kernel.
    pub(crate) fn counts(&self) -> Counts {
        let cgroup = self.cgroup.as_ref();
        Counts {
            memory_kills: cgroup.map_or(0, ScriptCgroup::memory_kills),
            processes_refused: cgroup.map_or(0, ScriptCgroup::processes_refused),
        }
    }
}

impl Drop for Belongings {
    /// Removing files and cgroups may take long.
    fn drop(&mut self) {
        let is_slow = self.cgroup.as_ref().is_some_and(ScriptCgroup::is_removed_by_drop);
        if is_slow || self.temporary.is_some() {
            drop_elsewhere((self.temporary.take(), self.cgroup.take()));
        }
    }
}
