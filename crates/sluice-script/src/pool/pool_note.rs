//! The events of WATCH about a request that asks a pool for a process: the process that it gets, or why it waits.

use std::path::Path;
use std::time::Instant;

use sluice_watch::Item;

use crate::pool::{Career, PoolView, Release};
use crate::process::{Process, ScriptEvents, counted, time_text};

/// The notes about a request that asks a pool for a process.
pub(crate) struct PoolNote<'a> {
    events: &'a ScriptEvents,
    /// The state of the pool before the request, and when it came; `None` if nobody watches.
    before: Option<(PoolView, Instant)>,
}

impl<'a> PoolNote<'a> {
    /// Notes the state of the pool of this script, or engine.
    pub(crate) fn begin(script: &Path, view: impl FnOnce() -> PoolView, events: &'a ScriptEvents) -> PoolNote<'a> {
        let before = events.wants(Item::Process).then(|| (view(), Instant::now()));
        if let Some((view, _)) = &before {
            events.process(|| {
                let (pool, max, idle) = (script.display(), view.max, view.idle);
                let processes = counted(view.processes as u64, "process", "processes");
                let waiting = counted(view.waiting as u64, "request waits", "requests wait");
                format!("pool {pool}: {processes} of at most {max}, {idle} of them idle; {waiting}")
            });
        }
        PoolNote { events, before }
    }

    pub(crate) fn start(&self) {
        let Some((before, _)) = &self.before else { return };
        self.events.process(|| {
            let why = match before {
                PoolView { processes: 0, .. } => "none runs",
                PoolView { idle: 0, .. } => "all are busy",
                _ => "the idle ones belong to other workers, and were busy until just now",
            };
            match before.last_departure {
                Some(departure) => format!("a new process, because {why}; the last one that left: {departure}"),
                None => format!("a new process, because {why}"),
            }
        });
    }

    /// The request waits at this position of the queue: shared bounds are reached (`lacks_room`), or all processes of the pool are busy.
    pub(crate) fn wait(&self, position: usize, lacks_room: bool) {
        let Some((PoolView { processes, max, .. }, _)) = &self.before else {
            return;
        };
        self.events.process(|| {
            let why = match lacks_room {
                true => "the processes of all scripts reach limits.processes, or those of the route its bound".into(),
                false => format!("all {processes} are busy (max = {max})"),
            };
            format!("waits for a process, as number {position} in the queue: {why}")
        });
    }

    /// The request no longer waits: it gets a process, or `queue_timeout` is over.
    pub(crate) fn end_wait(&self, is_granted: bool) {
        if let Some((_, since)) = &self.before {
            let in_vain = if is_granted { "" } else { " in vain (queue_timeout)" };
            let waited = time_text(since.elapsed());
            self.events
                .process(|| format!("waited {waited} for a process{in_vain}"));
        }
    }
}

/// Notes a process that is used again; `career` tells what it has done before.
pub(crate) fn note_use(career: impl FnOnce() -> Option<Career>, process: &Process, events: &ScriptEvents) {
    events.process(|| {
        let (pid, age) = (process.pid, time_text(process.age()));
        match career() {
            Some(Career { served, idle_since }) => {
                let idle = idle_since.map(|since| format!(", idle for {}", time_text(since.elapsed())));
                let idle = idle.unwrap_or_else(|| ", busy until now".into());
                let served = counted(served, "request", "requests");
                format!("pid {pid} is used: {served} served, started {age} ago{idle}")
            }
            None => format!("pid {pid} is used: started {age} ago"),
        }
    });
}

pub(crate) fn release_text(release: Release, pid: i32) -> String {
    match release {
        Release::Keep => format!("pid {pid} is kept, idle"),
        Release::Hand(_) => format!("pid {pid} is kept, and serves a request that waits"),
        Release::Retire(reason) => format!("pid {pid} is retired: {reason}"),
    }
}
