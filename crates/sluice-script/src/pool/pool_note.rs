//! The events of WATCH about a request that asks a pool for a process: the process that it gets, or why it waits.
//!
//! Not here: the decision (`pool`), and how it is carried out (`shared_pool`).

use std::time::Instant;

use sluice_watch::Item;

use crate::pool::lease::Lease;
use crate::pool::pure::{Career, PoolView, Release};
use crate::pool::shared_pool::SharedPool;
use crate::process::observed_process::time_text;
use crate::process::script_events::{ScriptEvents, counted};
use crate::process::script_process::Process;

/// A request, and the state of the pool before it. Nothing if nobody watches.
pub(crate) struct PoolNote<'a>(Option<Asked<'a>>);

struct Asked<'a> {
    events: &'a ScriptEvents,
    before: PoolView,
    since: Instant,
}

impl<'a> PoolNote<'a> {
    /// Notes the pool that is asked.
    pub(crate) fn begin(pool: &SharedPool, events: &'a ScriptEvents) -> PoolNote<'a> {
        if !events.wants(Item::Process) {
            return PoolNote(None);
        }
        let before = pool.view();
        events.process(|| {
            let PoolView {
                processes,
                idle,
                waiting,
                max,
                ..
            } = before;
            let pool = pool.script().display();
            let processes = counted(processes as u64, "process", "processes");
            let waiting = counted(waiting as u64, "request waits", "requests wait");
            format!("pool {pool}: {processes} of at most {max}, {idle} of them idle; {waiting}")
        });
        PoolNote(Some(Asked {
            events,
            before,
            since: Instant::now(),
        }))
    }

    /// A process is to be started.
    pub(crate) fn start(&self) {
        let Some(Asked { events, before, .. }) = &self.0 else {
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
        let Some(Asked { events, before, .. }) = &self.0 else {
            return;
        };
        let PoolView { processes, max, .. } = before;
        events.process(|| {
            format!("waits for a process, as number {position} in the queue: all {processes} are busy (max = {max})")
        });
    }

    /// The request waits at this position of the queue, because there is no room in a bound that several pools share.
    pub(crate) fn wait_for_room(&self, position: usize) {
        let Some(Asked { events, .. }) = &self.0 else { return };
        events.process(|| {
            format!(
                "waits for a process, as number {position} in the queue: the processes of all scripts reach \
                 limits.processes, or those of the route its bound"
            )
        });
    }

    /// Notes that the request no longer waits. `None` if it has waited in vain.
    pub(crate) fn end_wait(&self, lease: Option<&Lease>) {
        let Some(Asked { events, since, .. }) = &self.0 else {
            return;
        };
        let waited = time_text(since.elapsed());
        events.process(|| match lease {
            Some(_) => format!("waited {waited} for a process"),
            None => format!("waited {waited} for a process in vain (queue_timeout)"),
        });
    }
}

/// Notes the process of a lease that is used again.
pub(crate) fn note_use(lease: &Lease, process: &Process, events: &ScriptEvents) {
    events.process(|| {
        let (pid, age) = (process.pid, time_text(process.age()));
        match lease.career() {
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

/// The text about a process that is returned to its pool.
pub(crate) fn release_text(release: Release, pid: i32) -> String {
    match release {
        Release::Keep => format!("pid {pid} is kept, idle"),
        Release::Hand(_) => format!("pid {pid} is kept, and serves a request that waits"),
        Release::Retire(reason) => format!("pid {pid} is retired: {reason}"),
    }
}
