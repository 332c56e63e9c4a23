//! A pool that all workers share, which carries out the decisions of the pure `pool`.
//!
//! Here: the lock around it, the idle processes themselves, the requests that wait, and the clock. A process moves between workers only
//! when the pool decides so. Not here: the right to a process that was granted (`lease`), and how it gets its request (`cgi`, `cgiplus`).

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
use crate::lease::Lease;
use crate::pool::{Action, Decision, Pool, PoolView, ProcessId, Reason, Release, Room, Ticket};
use crate::pool_note::PoolNote;
use crate::pool_record::PoolRecord;
use crate::process::Process;
use crate::process_limit::{Member, Permit, PoolLimits};
use crate::recent_scripts::ScriptId;
use crate::script::Script;
use crate::script_events::ScriptEvents;
use crate::stamp::Stamp;

/// Time between two log lines about a pool whose processes are all busy.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// A request that waits for so long is reason for such a line. Shorter waits are usual under load.
const REPORTED_WAIT: Duration = Duration::from_secs(1);

/// One script's pool, shared by all workers.
pub(crate) struct SharedPool {
    /// Its label, with the script's file for messages; and what outlives the pool.
    pub(crate) record: Arc<PoolRecord>,
    settings: PoolSettings,
    kill_grace: Duration,
    pub(crate) limits: PoolLimits,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) pool: Pool,
    stamp: Stamp,
    idle: HashMap<ProcessId, IdleProcess>,
    waiting: HashMap<Ticket, Waiter>,
    /// The processes that were started, of which some may have ended.
    pub(crate) processes: HashMap<ProcessId, Weak<Process>>,
    /// When the log was last given a line about requests that wait.
    reported: Option<Instant>,
}

/// A request that waits for its lease.
struct Waiter {
    request: UniqueId,
    lease: oneshot::Sender<Lease>,
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
    pub(crate) fn member(self: &Arc<Self>) -> Weak<dyn Member> {
        let weak: Weak<SharedPool> = Arc::downgrade(self);
        weak
    }

    /// Puts a permit into `permit`, if there is room for a process.
    pub(crate) fn take_permit(self: &Arc<Self>, permit: &mut Option<Permit>) -> bool {
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
        Lease::new(Arc::clone(self), id, idle, permit)
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

    /// A process leaves the pool in this way.
    pub(crate) fn remove(self: &Arc<Self>, id: ProcessId, how: Removal) {
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
    pub(crate) fn start(
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

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
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

impl SharedPool {
    /// Carries out what becomes of an idle process.
    pub(crate) fn put(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        id: ProcessId,
        idle: IdleProcess,
        release: Release,
    ) {
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

/// How a process leaves its pool.
pub(crate) type Removal = fn(&mut Pool, ProcessId, Instant, Room<'_>) -> Option<Action>;

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
pub(crate) struct Orphan {
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
#[path = "shared_pool_tests.rs"]
mod tests;
