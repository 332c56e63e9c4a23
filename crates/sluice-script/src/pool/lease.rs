//! Leases: the right to one process of a pool. Whoever runs a script holds one; the pool stays consistent in whichever state it is dropped.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::pool::{
    Career, IdleProcess, Member as _, Permit, Pool, PoolRecord, ProcessId, Release, Removal, Room, SharedPool,
    SlotView, Trial,
};
use crate::process::{EndedProcess, Process};

pub(crate) struct Lease {
    pub pool: Arc<SharedPool>,
    id: ProcessId,
    idle: Option<IdleProcess>,
    /// The permit for a process that the holder has to start, until it does.
    permit: Option<Permit>,
    state: LeaseState,
}

#[derive(PartialEq)]
enum LeaseState {
    Unused,
    Starting,
    /// The process is running or being started: its `ExitNotice` reports its end to the pool.
    Running,
    Returned,
}

impl Lease {
    /// The right to this process; `idle` is `None` if the holder has to start it.
    pub(crate) fn new(
        pool: Arc<SharedPool>,
        id: ProcessId,
        idle: Option<IdleProcess>,
        permit: Option<Permit>,
    ) -> Lease {
        Lease { pool, id, idle, permit, state: LeaseState::Unused }
    }

    /// The idle process, if there is one; it counts as used from now on.
    pub(crate) fn take(&mut self) -> Option<IdleProcess> {
        let idle = self.idle.take();
        self.state = match idle {
            Some(_) => LeaseState::Running,
            None => LeaseState::Starting,
        };
        idle
    }

    /// The work that the process has done before, for WATCH. `None` if it has left its pool.
    pub(crate) fn career(&self) -> Option<Career> {
        self.pool.lock().pool.career(self.id)
    }

    /// A function to call at the end of the process that the holder starts now, or to drop if no process was started. The process
    /// counts from now on, even if its client disconnects while it is being started.
    pub(crate) fn exit_notice(&mut self) -> impl FnOnce(EndedProcess) + Send + use<> + 'static {
        self.state = LeaseState::Running;
        let mut notice = ExitNotice {
            pool: Arc::downgrade(&self.pool),
            id: self.id,
            permit: self.permit.take(),
            record: Arc::clone(&self.pool.record),
        };
        move |process| notice.ended(process)
    }

    /// The process that the holder has started, for reports.
    pub(crate) fn note_process(&self, process: &Arc<Process>) {
        self.pool.record.counts.started.add_one();
        let mut state = self.pool.lock();
        state.processes.insert(self.id, Arc::downgrade(process));
        let slot = state.pool.slots().find(|slot| slot.id == self.id);
        drop(state);
        if let Some(SlotView { cause, .. }) = slot {
            let script = process.script();
            tracing::debug!(pid = process.pid, script = &*script, "script process started: {cause}");
        }
    }

    /// The process has set its own idle lifetime (callout LIFETIME); `None` is without limit.
    pub(crate) fn set_lifetime(&self, lifetime: Option<Duration>) {
        self.pool.lock().pool.set_lifetime(self.id, lifetime);
    }

    /// The process was an engine, and the script that it ran has ended it: that does not delay the next start.
    pub(crate) fn excuse(&self) {
        self.pool.lock().pool.excuse();
        self.pool.record.counts.failed.reset();
        // A request that waits must not wait for the next tick.
        Arc::clone(&self.pool).start_waiting();
    }

    /// Returns the process, which has replied completely and can serve again. What becomes of it. `memory_bytes` is its memory, if that is bounded.
    pub(crate) fn release(mut self, idle: IdleProcess, memory_bytes: Option<u64>) -> Release {
        self.state = LeaseState::Returned;
        self.pool.record.counts.failed.reset();
        let claim = self.pool.limits.claim(|| self.pool.member());
        let time = self.pool.measured_time(idle.process.pid);
        let (id, now) = (self.id, Instant::now());
        self.pool.put(id, idle, |pool, room| {
            if let Some(time) = time {
                pool.note_time(id, time, now);
            }
            pool.release(id, memory_bytes, now, claim, room)
        })
    }

    /// Returns a process that was started in advance on this worker, and can serve.
    pub(crate) fn ready(mut self, idle: IdleProcess, trial: Trial) {
        self.state = LeaseState::Returned;
        let (id, worker) = (self.id, idle.worker);
        if trial == Trial::Passed {
            self.pool.record.counts.failed.reset();
        }
        let ready = |pool: &mut Pool, room: Room<'_>| pool.ready(id, worker, trial, Instant::now(), room);
        self.pool.put(id, idle, ready);
    }

    /// The process was started in advance, and has failed before it could serve: the next start is delayed.
    pub(crate) fn note_failure(&self) {
        self.pool.lock().pool.failed(self.id, Instant::now());
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        match self.state {
            LeaseState::Returned => {}
            LeaseState::Starting => self.pool.remove(self.id, Pool::not_started),
            LeaseState::Running => self.pool.lock().pool.ending(self.id),
            LeaseState::Unused => match self.idle.take() {
                None => self.pool.remove(self.id, Pool::not_started),
                Some(idle) => {
                    let id = self.id;
                    self.pool
                        .put(id, idle, |pool, room| pool.give_back(id, Instant::now(), room));
                }
            },
        }
    }
}

/// Reports the end of a process to its pool, which it does not keep alive: a pool that is dropped, as after a reload, ends its processes.
struct ExitNotice {
    pool: Weak<SharedPool>,
    id: ProcessId,
    permit: Option<Permit>,
    record: Arc<PoolRecord>,
}

impl ExitNotice {
    fn ended(&mut self, process: EndedProcess) {
        let exit = process.exit;
        self.record.note_end(process);
        let pool = self.pool.upgrade();
        if pool.is_some_and(|pool| pool.lock().pool.would_fail(self.id, Instant::now())) {
            self.record.note_failure(format!("{exit} before its first reply"));
        }
        self.give_back(Pool::ended);
    }

    fn give_back(&mut self, how: Removal) {
        // First, so that a request that waits for this script can use it.
        self.permit = None;
        if let Some(pool) = self.pool.upgrade() {
            pool.remove(self.id, how);
        }
    }
}

impl Drop for ExitNotice {
    /// Has no effect after `ended`.
    fn drop(&mut self) {
        self.give_back(Pool::not_started);
    }
}
