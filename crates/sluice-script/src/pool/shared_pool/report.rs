//! A pool as reports show it, and its retirement by the administrator.
//!
//! The lock of the pool is held only while its state is copied: workers need it for each request.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use sluice_http::request_id::UniqueId;
use sluice_report::scripts::{Phase, Pool as PoolReport, ProcessReport, ProcessRequest, Waiter as WaiterReport};

use super::SharedPool;
use crate::pool::{ProcessId, ReportedPool, Retired, ScriptId, SlotView, milliseconds};
use crate::process::{Process, ProcessView, Reason};

/// Requests that wait, of one pool, that a report names.
const WAITERS_MAX: usize = 20;

/// A copy of the state, taken under the lock.
struct Snapshot {
    slots: Vec<SlotView>,
    processes: HashMap<ProcessId, Weak<Process>>,
    waiting: usize,
    waiters: Vec<(UniqueId, Instant)>,
    is_closed: bool,
}

impl ReportedPool for SharedPool {
    fn report(&self) -> PoolReport {
        let snapshot = self.snapshot();
        let now = Instant::now();
        let mut processes: Vec<_> = snapshot
            .slots
            .iter()
            .map(|slot| {
                let process = snapshot.processes.get(&slot.id).and_then(Weak::upgrade);
                process_report(slot, process.map(|process| process.view()), now)
            })
            .collect();
        // Those that the pool has given up, and that have not ended yet.
        let given_up = snapshot.processes.iter().filter(|(id, _)| {
            let is_known = snapshot.slots.iter().any(|slot| slot.id == **id);
            !is_known
        });
        processes.extend(given_up.filter_map(|(_, process)| Some(ending_report(&process.upgrade()?.view(), now))));
        processes.sort_by_key(|process| (process.phase, process.pid));
        let waited = |(id, since): &(UniqueId, Instant)| WaiterReport {
            id: id.to_string(),
            waited_ms: milliseconds(now.saturating_duration_since(*since)),
        };
        PoolReport {
            max: self.settings.max,
            min: self.settings.min,
            idle_ms: milliseconds(self.settings.idle),
            queue_max: self.settings.queue_max,
            queue_timeout_ms: milliseconds(self.settings.queue_timeout),
            is_replaced: snapshot.is_closed,
            processes,
            waiting: snapshot.waiting,
            waiters: snapshot.waiters.iter().map(waited).collect(),
            ..self.record.report()
        }
    }

    fn processes(&self) -> Vec<Arc<Process>> {
        self.lock().processes.values().filter_map(Weak::upgrade).collect()
    }

    fn has_run(&self, script: ScriptId) -> bool {
        self.lock().pool.has_run(script)
    }

    fn retire_all(self: Arc<Self>) -> Retired {
        let slots: Vec<_> = self.lock().pool.slots().collect();
        let (idle, others): (Vec<SlotView>, Vec<SlotView>) = slots.into_iter().partition(|slot| slot.is_idle);
        self.replace_all(Reason::Asked);
        Retired {
            idle: idle.len(),
            busy: others.iter().filter(|slot| !slot.is_ending).count(),
        }
    }
}

impl SharedPool {
    fn snapshot(&self) -> Snapshot {
        let state = self.lock();
        let waiters = state.pool.waiters().take(WAITERS_MAX);
        Snapshot {
            slots: state.pool.slots().collect(),
            processes: state.processes.clone(),
            waiting: state.pool.waiting(),
            waiters: waiters
                .filter_map(|(ticket, since)| Some((state.waiting.get(&ticket)?.request, since)))
                .collect(),
            is_closed: state.pool.is_closed(),
        }
    }
}

/// A process of the pool. `view` is `None` while it is being started.
fn process_report(slot: &SlotView, view: Option<ProcessView>, now: Instant) -> ProcessReport {
    let since = |time: Instant| milliseconds(now.saturating_duration_since(time));
    let base = ProcessReport {
        phase: Phase::Starting,
        since_ms: since(slot.since),
        age_ms: since(slot.started),
        worker: slot.worker,
        cause: slot.cause.to_string(),
        ..ProcessReport::default()
    };
    let Some(view) = view else { return base };
    ProcessReport {
        phase: match () {
            () if slot.is_ending || view.end_cause.is_some() => Phase::Ending,
            () if slot.is_starting => Phase::Starting,
            () if slot.is_idle => Phase::Idle,
            () if view.is_draining => Phase::Draining,
            () => Phase::Busy,
        },
        ..with_view(base, &view)
    }
}

/// A process that its pool has given up.
fn ending_report(view: &ProcessView, now: Instant) -> ProcessReport {
    let age_ms = milliseconds(now.saturating_duration_since(view.started));
    let base = ProcessReport {
        phase: Phase::Ending,
        since_ms: age_ms,
        age_ms,
        cause: view.end_cause.map(|cause| format!("ends: {cause}")).unwrap_or_default(),
        ..ProcessReport::default()
    };
    with_view(base, view)
}

fn with_view(base: ProcessReport, view: &ProcessView) -> ProcessReport {
    ProcessReport {
        pid: Some(view.pid),
        user: view.user,
        uses: view.uses,
        script: view.script.as_deref().map(str::to_owned),
        request: view
            .exchange
            .map(|id| ProcessRequest { id: id.to_string(), ..ProcessRequest::default() }),
        ..base
    }
}
