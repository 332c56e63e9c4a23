//! Leases carry out a pool's decisions. Whoever runs a script holds a lease; the pool stays consistent in whichever state a
//! lease is dropped.
//!
//! Here: the lock around the pure `pool`, the idle processes themselves, the requests that wait, and the clock. All workers
//! share a pool; a process moves between them only when the pool decides so. Not here: how a process gets its request (`cgi`,
//! `cgiplus`).

mod refusal;
mod report;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use sluice_http::fault::{Fault, ScriptFault};
use sluice_http::request_id::UniqueId;
use sluice_settings::{PoolSettings, ScriptSettings};
use tokio::sync::oneshot;

use crate::idle_process::IdleProcess;
use crate::pool::{Action, Career, Decision, Pool, PoolView, ProcessId, Reason, Release, Room, Ticket};
use crate::pool_note::PoolNote;
use crate::pool_record::{EndedProcess, PoolRecord};
use crate::process::Process;
use crate::process_limit::{Member, Permit, PoolLimits};
use crate::recent_scripts::ScriptId;
use crate::route::Script;
use crate::script_events::ScriptEvents;
use crate::stamp::Stamp;

/// Time between two log lines about a pool whose processes are all busy.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// A request that waits for so long is reason for such a line. Shorter waits are usual under load.
const REPORTED_WAIT: Duration = Duration::from_secs(1);

/// One script's pool, shared by all workers.
pub(crate) struct SharedPool {
    /// Its label, with the script's file for messages; and what outlives the pool.
    record: Arc<PoolRecord>,
    settings: PoolSettings,
    kill_grace: Duration,
    limits: PoolLimits,
    state: Mutex<State>,
}

struct State {
    pool: Pool,
    stamp: Stamp,
    idle: HashMap<ProcessId, IdleProcess>,
    waiting: HashMap<Ticket, Waiter>,
    /// The processes that were started, of which some may have ended.
    processes: HashMap<ProcessId, Weak<Process>>,
    /// When the log was last given a line about requests that wait.
    reported: Option<Instant>,
}

/// A request that waits for its lease.
struct Waiter {
    request: UniqueId,
    lease: oneshot::Sender<Lease>,
}

/// The right to one process of a pool.
pub(crate) struct Lease {
    pool: Arc<SharedPool>,
    id: ProcessId,
    /// `None` if the holder has to start the process.
    idle: Option<IdleProcess>,
    /// For a process that the holder has to start, until it does.
    permit: Option<Permit>,
    state: LeaseState,
}

#[derive(PartialEq)]
enum LeaseState {
    /// The process has not been used yet.
    Unused,
    /// The holder is about to start a process.
    Starting,
    /// The process is running or being started: its `ExitNotice` reports its end to the pool.
    Running,
    /// The process is back in its pool.
    Returned,
}

impl SharedPool {
    /// Without processes.
    pub(crate) fn new(
        script: &Script,
        settings: &ScriptSettings,
        limits: PoolLimits,
        record: Arc<PoolRecord>,
    ) -> Arc<SharedPool> {
        let pool = Pool::new(settings.pool);
        // Each process of a CGI script serves one request: a failure says nothing about the next process.
        let pool = if settings.mode.keeps_process() {
            pool.with_backoff()
        } else {
            pool
        };
        let pool = Arc::new(SharedPool {
            record,
            settings: settings.pool,
            kill_grace: settings.timeouts.kill_grace,
            limits,
            state: Mutex::new(State {
                pool,
                stamp: script.stamp,
                idle: HashMap::new(),
                waiting: HashMap::new(),
                processes: HashMap::new(),
                reported: None,
            }),
        });
        for limit in [&pool.limits.route, &pool.limits.server] {
            limit.add(pool.member());
        }
        let reported: Weak<SharedPool> = Arc::downgrade(&pool);
        pool.record.add(reported);
        pool
    }

    /// The pool as its bounds see it.
    fn member(self: &Arc<Self>) -> Weak<dyn Member> {
        let weak: Weak<SharedPool> = Arc::downgrade(self);
        weak
    }

    /// Puts a permit into `permit`, if there is room for a process.
    fn take_permit(self: &Arc<Self>, permit: &mut Option<Permit>) -> bool {
        *permit = self.limits.take(&self.member());
        permit.is_some()
    }

    /// Waits for a process or for permission to start one, for this request; `script` is what an engine is to run. The script's fault, a
    /// 503: the queue is full, the wait took too long, or starts are delayed after failures.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        worker: usize,
        script: Option<ScriptId>,
        request: UniqueId,
        events: &ScriptEvents,
    ) -> Result<Lease, Fault> {
        let note = PoolNote::begin(self, events);
        let (entry, granted) = {
            let mut state = self.lock();
            let (mut permit, mut is_full) = (None, false);
            let mut room = || {
                is_full = !self.take_permit(&mut permit);
                !is_full
            };
            match state.pool.request(worker, script, Instant::now(), &mut room) {
                Decision::Use(id) => {
                    let idle = state.idle.remove(&id);
                    return Ok(self.lease(id, idle, None));
                }
                Decision::Start(id) => {
                    drop(state);
                    note.start();
                    return Ok(self.lease(id, None, permit));
                }
                Decision::Refuse(refusal) => {
                    self.count_refused(refusal);
                    let fault = self.refused(refusal, &state.pool);
                    drop(state);
                    events.process(|| format!("gets no process: {fault}"));
                    self.report_waiting();
                    return Err(fault);
                }
                Decision::Wait(ticket) => {
                    let (lease, granted) = oneshot::channel();
                    state.waiting.insert(ticket, Waiter { request, lease });
                    let waiting = state.pool.waiting();
                    let is_filling = 2 * waiting > self.settings.queue_max;
                    drop(state);
                    match is_full {
                        true => note.wait_for_room(waiting),
                        false => note.wait(waiting),
                    }
                    if is_filling {
                        self.report_waiting();
                    }
                    if is_full {
                        self.limits.report();
                        self.limits.make_room();
                    }
                    (QueueEntry { pool: self, ticket }, granted)
                }
            }
        };
        let granted = self.wait(granted).await;
        drop(entry);
        note.end_wait(granted.as_ref());
        granted.ok_or_else(|| {
            self.record.counts.timed_out.add_one();
            let full = self.full(&self.lock().pool);
            ScriptFault::QueueTimeout(Box::new(full)).into()
        })
    }

    /// Waits for the lease of a request in the queue. `None` after `queue_timeout`; a log line says before that it waits.
    async fn wait(&self, mut granted: oneshot::Receiver<Lease>) -> Option<Lease> {
        let limit = self.settings.queue_timeout;
        let unreported = REPORTED_WAIT.min(limit / 2);
        if let Ok(granted) = tokio::time::timeout(unreported, &mut granted).await {
            return granted.ok();
        }
        self.report_waiting();
        tokio::time::timeout(limit - unreported, granted).await.ok()?.ok()
    }

    /// Logs that requests wait because all processes are busy, unless that was logged a moment ago.
    fn report_waiting(&self) {
        let mut state = self.lock();
        let is_due = state.reported.is_none_or(|time| time.elapsed() >= REPORT_INTERVAL);
        let full = self.full(&state.pool);
        // Where a bound that pools share is reached, `limits` logs that.
        if !is_due || full.processes < full.max {
            return;
        }
        state.reported = Some(Instant::now());
        let waiting = state.pool.waiting();
        drop(state);
        tracing::warn!(
            "{full}; waiting requests: {waiting} (queue = {}, queue_timeout = \"{:?}\"); raise max, or make the script faster",
            full.queue_max,
            full.queue_timeout
        );
    }

    fn lease(self: &Arc<Self>, id: ProcessId, idle: Option<IdleProcess>, permit: Option<Permit>) -> Lease {
        Lease {
            pool: Arc::clone(self),
            id,
            idle,
            permit,
            state: LeaseState::Unused,
        }
    }

    /// Ends the processes of an older file if the script's file has changed.
    pub(crate) fn check(&self, stamp: Stamp) {
        let mut state = self.lock();
        if state.stamp != stamp {
            state.stamp = stamp;
            let actions = state.pool.replace_all(Reason::ScriptChanged);
            self.retire(state, &actions);
        }
    }

    /// Its state, for WATCH.
    pub(crate) fn view(&self) -> PoolView {
        self.lock().pool.view()
    }

    /// The file of its script, or the key of its engine.
    pub(crate) fn script(&self) -> &Path {
        &self.record.label.script
    }

    /// Whether there is no process and no request that waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().pool.is_empty()
    }

    /// No process gets a further request: idle ones end now, busy ones after their reply.
    pub(crate) fn replace_all(&self, reason: Reason) {
        let mut state = self.lock();
        let actions = state.pool.replace_all(reason);
        self.retire(state, &actions);
    }

    /// The pool is no longer used.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        let actions = state.pool.close();
        self.retire(state, &actions);
    }

    /// Ends processes that were idle for too long, and starts those that were delayed.
    pub(crate) fn tick(self: &Arc<Self>) {
        let mut state = self.lock();
        let (mut permits, mut is_full) = (Vec::new(), false);
        let mut room = || {
            let permit = self.limits.take(&self.member());
            is_full = permit.is_none();
            permits.extend(permit);
            !is_full
        };
        let actions = state.pool.tick(Instant::now(), &mut room);
        if actions.is_empty() {
            drop(state);
            if is_full {
                // A process may have become idle just after the request had looked for one.
                self.limits.make_room();
            }
            return;
        }
        let mut permits = permits.into_iter();
        let orphans: Vec<_> = actions
            .iter()
            .filter_map(|action| self.start(&mut state, *action, &mut || permits.next()))
            .collect();
        self.retire(state, &actions);
        drop(orphans);
    }

    fn remove(self: &Arc<Self>, id: ProcessId, how: Removal) {
        let mut state = self.lock();
        let idle = state.idle.remove(&id);
        state.processes.remove(&id);
        let mut permit = None;
        let action = how(&mut state.pool, id, Instant::now(), &mut || {
            self.take_permit(&mut permit)
        });
        let orphan = action.and_then(|action| self.start(&mut state, action, &mut || permit.take()));
        drop(state);
        drop((idle, orphan));
    }

    /// Grants a start with the next permit.
    fn start(
        self: &Arc<Self>,
        state: &mut State,
        action: Action,
        permit: &mut dyn FnMut() -> Option<Permit>,
    ) -> Option<Orphan> {
        match action {
            Action::Start(ticket, id) => grant(state, ticket, self.lease(id, None, permit())),
            Action::Retire(..) => None,
        }
    }

    fn retire(&self, mut state: MutexGuard<'_, State>, actions: &[Action]) {
        let mut ending = Vec::new();
        for action in actions {
            if let Action::Retire(id, reason) = action
                && let Some(idle) = state.idle.remove(id)
            {
                ending.push((idle, *reason));
            }
        }
        drop(state);
        for (idle, reason) in ending {
            end(idle, reason, self.kill_grace);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member for SharedPool {
    fn start_waiting(self: Arc<Self>) {
        loop {
            let mut state = self.lock();
            let mut permit = None;
            let mut room = || self.take_permit(&mut permit);
            let Some(action) = state.pool.start_for_waiting(Instant::now(), &mut room) else {
                return;
            };
            let orphan = self.start(&mut state, action, &mut || permit.take());
            drop(state);
            drop(orphan);
        }
    }

    fn idle_since(&self) -> Option<Instant> {
        self.lock().pool.idle_since()
    }

    fn end_idle(self: Arc<Self>) {
        let mut state = self.lock();
        let actions: Vec<_> = state.pool.end_idle().into_iter().collect();
        self.retire(state, &actions);
    }
}

impl Drop for SharedPool {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, idle) in state.idle.drain() {
            end(idle, Reason::Shutdown, self.kill_grace);
        }
    }
}

impl Lease {
    /// The idle process, if there is one; it counts as used from now on.
    pub(crate) fn take(&mut self) -> Option<IdleProcess> {
        let idle = self.idle.take();
        self.state = if idle.is_some() {
            LeaseState::Running
        } else {
            LeaseState::Starting
        };
        idle
    }

    /// What the process has done before, for WATCH. `None` if it has left its pool.
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
    }

    /// The process has set its own idle lifetime (callout LIFETIME); `None` is without limit.
    pub(crate) fn set_lifetime(&self, lifetime: Option<Duration>) {
        self.pool.lock().pool.set_lifetime(self.id, lifetime);
    }

    /// The process was an engine, and the script that it ran has ended it: that does not delay the next start.
    pub(crate) fn excuse(&self) {
        self.pool.lock().pool.excuse();
        // A request that waits must not wait for the next tick.
        Arc::clone(&self.pool).start_waiting();
    }

    /// Returns the process, which has replied completely and can serve again. What becomes of it.
    pub(crate) fn release(mut self, idle: IdleProcess) -> Release {
        self.state = LeaseState::Returned;
        let claim = self.pool.limits.claim(|| self.pool.member());
        let mut state = self.pool.lock();
        let mut permit = None;
        let mut room = || self.pool.take_permit(&mut permit);
        let (release, action) = state.pool.release(self.id, Instant::now(), claim, &mut room);
        let orphan = action.and_then(|action| self.pool.start(&mut state, action, &mut || permit.take()));
        self.pool.put(state, self.id, idle, release);
        drop(orphan);
        release
    }
}

impl SharedPool {
    fn put(self: &Arc<Self>, mut state: MutexGuard<'_, State>, id: ProcessId, idle: IdleProcess, release: Release) {
        match release {
            Release::Keep => {
                state.idle.insert(id, idle);
            }
            Release::Hand(ticket) => {
                let orphan = grant(&mut state, ticket, self.lease(id, Some(idle), None));
                drop(state);
                drop(orphan);
            }
            Release::Retire(reason) => {
                drop(state);
                end(idle, reason, self.kill_grace);
            }
        }
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
                    let mut state = self.pool.lock();
                    let release = state.pool.give_back(self.id, Instant::now());
                    self.pool.put(state, self.id, idle, release);
                }
            },
        }
    }
}

/// Reports the end of a process to its pool. It does not keep the pool alive: a pool that is dropped, as after a reload, ends
/// its processes.
struct ExitNotice {
    pool: Weak<SharedPool>,
    id: ProcessId,
    permit: Option<Permit>,
    record: Arc<PoolRecord>,
}

/// How a process leaves its pool.
type Removal = fn(&mut Pool, ProcessId, Instant, Room<'_>) -> Option<Action>;

impl ExitNotice {
    /// The process has ended.
    fn ended(&mut self, process: EndedProcess) {
        self.record.note_end(process);
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

/// An entry in the queue, removed when dropped.
struct QueueEntry<'a> {
    pool: &'a SharedPool,
    ticket: Ticket,
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.waiting.remove(&self.ticket);
        state.pool.cancel(self.ticket);
    }
}

/// Ends an idle process: end-of-file on CGIPLUSIN tells it to exit; its watcher stops it if it does not.
fn end(idle: IdleProcess, reason: Reason, grace: Duration) {
    let IdleProcess { process, channels, .. } = idle;
    tracing::debug!(
        pid = process.pid,
        script = &*process.script(),
        "script process retired: {reason}"
    );
    process.retire(grace, reason);
    drop(channels);
}

/// A lease whose waiter has just gone. Its drop takes the pool's lock, so that lock must be released before.
#[must_use]
struct Orphan {
    _lease: Lease,
}

/// Gives a lease to the request that waits. Returns it if that request has gone.
fn grant(state: &mut State, ticket: Ticket, lease: Lease) -> Option<Orphan> {
    let refused = match state.waiting.remove(&ticket) {
        Some(waiter) => waiter.lease.send(lease).err(),
        None => Some(lease),
    };
    refused.map(|lease| Orphan { _lease: lease })
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
