//! The events of WATCH about a request that asks a pool for a process: the process that it gets, or why it waits.

use std::path::Path;
use std::time::Instant;

use sluice_watch::Item;

use crate::pool::pure::{Career, PoolView, Release};
use crate::process::observed_process::time_text;
use crate::process::script_events::{ScriptEvents, counted};
use crate::process::script_process::Process;

/// The notes about a request that asks a pool for a process; empty if nobody watches.
pub(crate) struct PoolNote<'a>(Option<QueueNote<'a>>);

/// A request, and the state of the pool before it.
struct QueueNote<'a> {
    events: &'a ScriptEvents,
    before: PoolView,
    since: Instant,
}

impl<'a> PoolNote<'a> {
    /// Notes the state of the pool of this script, or engine.
    pub(crate) fn begin(script: &Path, view: impl FnOnce() -> PoolView, events: &'a ScriptEvents) -> PoolNote<'a> {
        if !events.wants(Item::Process) {
            return PoolNote(None);
        }
        let before = view();
        events.process(|| {
            let PoolView {
                processes,
                idle,
                waiting,
                max,
                ..
            } = before;
            let pool = script.display();
            let processes = counted(processes as u64, "process", "processes");
            let waiting = counted(waiting as u64, "request waits", "requests wait");
            format!("pool {pool}: {processes} of at most {max}, {idle} of them idle; {waiting}")
        });
        PoolNote(Some(QueueNote {
            events,
            before,
            since: Instant::now(),
        }))
    }

    pub(crate) fn start(&self) {
        let Some(QueueNote { events, before, .. }) = &self.0 else {
            return;
        };
        events.process(|| {
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

    /// The request waits at this position of the queue, because all processes that the pool may have are busy.
    pub(crate) fn wait(&self, position: usize) {
        let Some(QueueNote { events, before, .. }) = &self.0 else {
            return;
        };
        let PoolView { processes, max, .. } = before;
        events.process(|| {
            format!("waits for a process, as number {position} in the queue: all {processes} are busy (max = {max})")
        });
    }

    /// The request waits at this position of the queue, because there is no room in a bound that several pools share.
    pub(crate) fn wait_for_room(&self, position: usize) {
        let Some(QueueNote { events, .. }) = &self.0 else {
            return;
        };
        events.process(|| {
            format!(
                "waits for a process, as number {position} in the queue: the processes of all scripts reach \
                 limits.processes, or those of the route its bound"
            )
        });
    }

    /// The request no longer waits: it gets a process.
    pub(crate) fn end_wait(&self) {
        self.note_wait("for a process");
    }

    /// The request no longer waits, because `queue_timeout` is over.
    pub(crate) fn wait_in_vain(&self) {
        self.note_wait("for a process in vain (queue_timeout)");
    }

    fn note_wait(&self, what: &str) {
        if let Some(QueueNote { events, since, .. }) = &self.0 {
            events.process(|| format!("waited {} {what}", time_text(since.elapsed())));
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
