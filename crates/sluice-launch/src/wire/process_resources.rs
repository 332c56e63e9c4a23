//! The resources of a script process outside of its own memory until it is reaped: descendants, cgroup, temporary files.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use crate::confine::cgroup::ScriptCgroup;
use crate::confine::temporary::TemporaryDirectory;
use crate::end::families::families;
use crate::end::pidfd::{Exit, Signal, Usage, await_exit, kill, kill_group, reap_with_usage};
use crate::end::session::Survivors;
use crate::start::outcome::End;
use crate::start::program::Started;
use crate::wire::leftover_processes::{end_left_processes, may_have_left_processes};
use crate::wire::traced::Traced;

/// A script process with what it has outside of its own memory. It must be reaped before it is dropped.
#[derive(Debug)]
pub(crate) struct Belongings {
    /// The number of the process, and that of its session and group.
    pub(crate) pid: i32,
    pub(crate) uid: u32,
    pub(crate) pidfd: Arc<OwnedFd>,
    /// Has all its descendants that have not left it, if there are cgroups.
    cgroup: Option<ScriptCgroup>,
    temporary: Option<TemporaryDirectory>,
    /// A text in the environment of the process, which no other process has.
    mark: Arc<str>,
}

impl Belongings {
    /// Takes them out of a process of this user, whose start began at this time. Also returns the ends of its channels, in the order of `RemoteStarted`.
    pub(crate) fn of(started: Started, uid: u32, mark: &str, began: Instant) -> (Belongings, Vec<OwnedFd>) {
        let mark = Arc::from(mark);
        families().begin(started.pid, &mark, began);
        let (cgiplusin, stdin) = started.read_ends;
        let mut ends = vec![started.mailbox, started.stderr, started.cgiplusin, cgiplusin];
        ends.extend(started.stdin.into_iter().chain(stdin));
        ends.extend(started.requests.into_iter().flat_map(<[OwnedFd; 2]>::from));
        let belongings = Belongings {
            pid: started.pid,
            uid,
            pidfd: Arc::new(started.pidfd),
            cgroup: started.cgroup,
            temporary: started.temporary,
            mark,
        };
        (belongings, ends)
    }

    /// Sends a signal to the group; SIGKILL also to the process itself, in case that the group has members of another user only. It must not be reaped.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_group(self.pid, signal);
        if signal == Signal::Kill {
            let _ = kill(self.pidfd.as_fd(), signal);
        }
    }

    /// Kills the group of the process, which has exited and is not reaped. True if it may have left others behind: see `end_descendants`. Does not block.
    pub(crate) fn end_group(&self) -> bool {
        let _ = kill_group(self.pid, Signal::Kill);
        may_have_left_processes(self.cgroup.as_ref())
    }

    /// Kills all that the process has started, and waits for their end, ten seconds at most. It must have exited and must not be reaped.
    pub(crate) fn end_descendants(&self) -> Result<(), Survivors> {
        end_left_processes(self.cgroup.as_ref(), self.pid, &self.mark)
    }

    /// Kills the process with all that it has started, waits for its end until this moment, and reaps it. `None` if it has not ended: it waits for a disk.
    pub(crate) fn end_now(&self, until: Option<Instant>, traced: &Traced) -> Option<End> {
        self.signal(Signal::Kill);
        if !await_exit(self.pidfd.as_fd(), until).unwrap_or(false) {
            return None;
        }
        let left = match self.end_group() {
            true => self.end_descendants(),
            false => Ok(()),
        };
        Some(self.reap(left, traced))
    }

    /// Reaps the process, which has exited. `left` is what remains of what it has started. If another process traces it (ptrace(2)), and has not waited for it,
    /// it goes to `traced`; its end is then reported as one that is not known.
    pub(crate) fn reap(&self, left: Result<(), Survivors>, traced: &Traced) -> End {
        families().end(self.pid);
        let (exit, usage, unreaped) = match reap_with_usage(self.pidfd.as_fd()) {
            Ok(Some((exit, usage))) => (exit, usage, None),
            Ok(None) => (Exit::Code(255), Usage::default(), traced.keep(self)),
            Err(error) => {
                let problem = format!("it cannot be reaped: {error}");
                (Exit::Code(255), Usage::default(), Some(problem))
            }
        };
        let cgroup = self.cgroup.as_ref();
        End {
            exit,
            usage,
            memory_kills: cgroup.map_or(0, ScriptCgroup::memory_kills),
            processes_refused: cgroup.map_or(0, ScriptCgroup::processes_refused),
            is_lost: false,
            problem: unreaped.or(left.err().map(|survivors| survivors.to_string())),
        }
    }

    /// Whether its drop removes files or a cgroup, which may take long.
    pub(crate) fn is_slow_to_drop(&self) -> bool {
        self.temporary.is_some() || self.cgroup.as_ref().is_some_and(ScriptCgroup::is_removed_by_drop)
    }
}
