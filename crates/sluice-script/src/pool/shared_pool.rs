//! A pool that all workers share, which carries out the decisions of the pure `pool`.

mod report;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use sluice_http::fault::{BackOff, Fault, FullPool, ScriptFault};
use sluice_http::request_id::UniqueId;
use sluice_launch::processor_time;
use sluice_settings::{PoolSettings, ScriptSettings};
use tokio::sync::{Notify, oneshot};

use crate::pool::{
    Action, Applicant, ClientId, Decision, Idle, IdleProcess, IdleProcesses, Lease, Member, Need, Permit, Pool,
    PoolLimits, PoolNote, PoolRecord, ProcessId, RareCount, Refusal, Release, Room, ScriptId, Ticket, TimeUse,
    take_idle,
};
use crate::process::{Process, Reason, ScriptEvents};
use crate::program::script::Script;
use crate::program::stamp::Stamp;

/// Time between two log lines about a pool whose processes are all busy.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// A request that waits for so long is reason for such a line. Shorter waits are usual under load.
const REPORTED_WAIT: Duration = Duration::from_secs(1);

/// One script's pool, shared by all workers.
pub(crate) struct SharedPool {
    /// The record, which outlives the pool. Its label has the script's file, for messages.
    pub(crate) record: Arc<PoolRecord>,
    settings: PoolSettings,
    kill_grace: Duration,
    /// Processor time after which the kernel ends a process.
    cpu_max: Option<Duration>,
    pub(crate) limits: PoolLimits,
    /// The program of processes that are started in advance.
    pub(crate) script: Script,
    /// Wakes a worker that starts processes in advance.
    wanted: Arc<Notify>,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) pool: Pool,
    stamp: Stamp,
    idle: IdleProcesses,
    waiting: HashMap<Ticket, Waiter>,
    /// Processes to start in advance, until a worker does.
    advance: Vec<(ProcessId, Option<Permit>)>,
    /// The processes that were started, of which some may have ended.
    pub(crate) processes: HashMap<ProcessId, Weak<Process>>,
    /// When the log was last given a line about requests that wait.
    reported: Option<Instant>,
}

struct Waiter {
    request: UniqueId,
    lease: oneshot::Sender<Lease>,
}

impl SharedPool {
    pub(crate) fn new(
        script: &Script,
        settings: &ScriptSettings,
        limits: PoolLimits,
        record: Arc<PoolRecord>,
        wanted: Arc<Notify>,
    ) -> Arc<SharedPool> {
        let pool = Pool::new(settings.pool, settings.mode.requests_at_once());
        // Each process of a CGI script serves one request: a failure says nothing about the next process.
        let pool = if settings.mode.keeps_process() {
            let random = RandomState::new().build_hasher().finish();
            pool.with_backoff().with_preparation(random)
        } else {
            pool
        };
        let pool = Arc::new(SharedPool {
            record,
            settings: settings.pool,
            kill_grace: settings.timeouts.kill_grace,
            cpu_max: settings.confinement.limits.cpu_seconds_max.map(Duration::from_secs),
            limits,
            script: script.clone(),
            wanted,
            state: Mutex::new(State {
                pool,
                stamp: script.stamp,
                idle: IdleProcesses::default(),
                waiting: HashMap::new(),
                advance: Vec::new(),
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

    pub(crate) fn member(self: &Arc<Self>) -> Weak<dyn Member> {
        let weak: Weak<SharedPool> = Arc::downgrade(self);
        weak
    }

    /// Collects permits as long as there is room for processes.
    pub(crate) fn room<'a>(self: &'a Arc<Self>, permits: &'a mut Vec<Permit>) -> impl FnMut(Need) -> bool + 'a {
        |need| {
            let permit = self.limits.take(need, &self.member());
            let is_taken = permit.is_some();
            permits.extend(permit);
            is_taken
        }
    }

    pub(crate) fn applicant(&self, worker: usize, script: Option<ScriptId>, client: IpAddr) -> Applicant {
        let is_counted = self.settings.client_requests_max.is_some();
        Applicant {
            worker,
            script,
            client: is_counted.then(|| ClientId::of(client)),
        }
    }

    /// Waits for a process or for permission to start one. The script's fault, a 503: a full queue, a long wait, or a delay after failures.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        applicant: Applicant,
        request: UniqueId,
        events: &ScriptEvents,
    ) -> Result<Lease, Fault> {
        let note = PoolNote::begin(self.script(), || self.lock().pool.view(), events);
        let (entry, granted) = {
            let mut state = self.lock();
            let (mut permit, mut unmet) = (None, None);
            let mut room = |need| {
                permit = self.limits.take(need, &self.member());
                unmet = permit.is_none().then_some(need);
                permit.is_some()
            };
            match state.pool.request(applicant, Instant::now(), &mut room) {
                Decision::Use(id) => {
                    let idle = take_idle(&mut state.idle, id);
                    return Ok(self.lease(id, idle, None));
                }
                Decision::Start(id) => {
                    drop(state);
                    self.limits.server.trim();
                    note.start();
                    return Ok(self.lease(id, None, permit));
                }
                Decision::Refuse(refusal) => {
                    let (fault, count) = self.refused(refusal, &state.pool);
                    drop(state);
                    count.add_one();
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
                    note.wait(waiting, unmet.is_some());
                    if is_filling {
                        self.report_waiting();
                    }
                    if let Some(need) = unmet {
                        self.limits.report(need);
                        self.limits.make_room(need);
                    }
                    (QueueEntry { pool: self, ticket }, granted)
                }
            }
        };
        let granted = Box::pin(self.wait(granted)).await;
        drop(entry);
        note.end_wait(granted.is_some());
        granted.ok_or_else(|| {
            let full = self.full(&self.lock().pool);
            let counts = &self.record.counts;
            match full.processes < full.max {
                true => counts.no_room.add_one(),
                false => counts.timed_out.add_one(),
            }
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
    pub(crate) fn check(self: &Arc<Self>, stamp: Stamp) {
        let mut state = self.lock();
        if state.stamp != stamp {
            state.stamp = stamp;
            let actions = state.pool.replace_all(Reason::ScriptChanged);
            self.carry_out(state, actions, Vec::new());
        }
    }

    /// The processor time of a process and its limit, if it has one.
    pub(crate) fn measured_time(&self, pid: i32) -> Option<TimeUse> {
        let max = self.cpu_max?;
        let used = processor_time(pid)?;
        Some(TimeUse { used, max })
    }

    /// Whether the memory of its processes is bounded, so that it is measured between two requests.
    pub(crate) fn bounds_memory(&self) -> bool {
        self.settings.memory_bytes_max.is_some()
    }

    /// The file of its script, or the key of its engine.
    pub(crate) fn script(&self) -> &Path {
        &self.record.label.script
    }

    /// No process gets a further request: idle ones end now, busy ones after their reply.
    pub(crate) fn replace_all(self: &Arc<Self>, reason: Reason) {
        let mut state = self.lock();
        let actions = state.pool.replace_all(reason);
        self.carry_out(state, actions, Vec::new());
    }

    pub(crate) fn close(self: &Arc<Self>) {
        let mut state = self.lock();
        let actions = state.pool.close();
        let advance = std::mem::take(&mut state.advance);
        for (id, _) in &advance {
            state.pool.not_started(*id, Instant::now(), &mut |_| false);
        }
        self.carry_out(state, actions, Vec::new());
        drop(advance);
    }

    /// The leases of the processes to start in advance; whoever takes them starts these.
    pub(crate) fn take_advance(self: &Arc<Self>) -> Vec<Lease> {
        let advance = std::mem::take(&mut self.lock().advance);
        let leases = advance.into_iter().map(|(id, permit)| self.lease(id, None, permit));
        leases.collect()
    }

    /// Ends processes that were idle for too long, replaces those that are due, and starts those that were delayed or are missing.
    pub(crate) fn tick(self: &Arc<Self>) {
        let mut state = self.lock();
        let (mut permits, mut unmet) = (Vec::new(), None);
        let mut room = |need| {
            let permit = self.limits.take(need, &self.member());
            unmet = Some(need).filter(|need| permit.is_none() && *need != Need::Advance);
            let is_taken = permit.is_some();
            permits.extend(permit);
            is_taken
        };
        let actions = state.pool.tick(Instant::now(), &mut room);
        let has_actions = !actions.is_empty();
        self.carry_out(state, actions, permits);
        // A process may have become idle just after the request had looked for one.
        if let Some(need) = unmet.filter(|_| !has_actions) {
            self.limits.make_room(need);
        }
    }

    pub(crate) fn remove(self: &Arc<Self>, id: ProcessId, how: Removal) {
        let mut state = self.lock();
        let idle = take_idle(&mut state.idle, id);
        state.processes.remove(&id);
        let mut permits = Vec::new();
        let actions = how(&mut state.pool, id, Instant::now(), &mut self.room(&mut permits));
        self.carry_out(state, actions, permits);
        drop(idle);
    }

    /// Carries out what becomes of a process that can serve, by this decision, and what follows from that.
    pub(crate) fn put(
        self: &Arc<Self>,
        id: ProcessId,
        idle: IdleProcess,
        decide: impl FnOnce(&mut Pool, Room<'_>) -> (Release, Vec<Action>),
    ) -> Release {
        let (mut orphan, mut retired) = (None, None);
        let mut state = self.lock();
        let mut permits = Vec::new();
        let (release, actions) = decide(&mut state.pool, &mut self.room(&mut permits));
        match release {
            Release::Keep => state.idle.push((id, idle)),
            Release::Hand(ticket) => orphan = grant(&mut state, ticket, self.lease(id, Some(idle), None)),
            Release::Retire(reason) => retired = Some((idle, reason)),
        }
        self.carry_out(state, actions, permits);
        if let Some((idle, reason)) = retired {
            end(idle, reason, self.kill_grace);
        }
        drop(orphan);
        release
    }

    /// Carries out what follows from an event, with the permits that were taken for its starts, in their order; then the lock is free.
    pub(crate) fn carry_out(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        actions: Vec<Action>,
        permits: Vec<Permit>,
    ) {
        if actions.is_empty() {
            return drop(state);
        }
        let mut permits = permits.into_iter();
        let (mut retired, mut orphans) = (Vec::new(), Vec::new());
        let (mut starts, mut prepares) = (false, false);
        for action in actions {
            match action {
                Action::Retire(id, reason) => retired.extend(take_idle(&mut state.idle, id).map(|idle| (idle, reason))),
                Action::Start(ticket, id) => {
                    starts = true;
                    let lease = self.lease(id, None, permits.next());
                    orphans.extend(grant(&mut state, ticket, lease));
                }
                Action::Hand(ticket, id) => {
                    let idle = take_idle(&mut state.idle, id);
                    orphans.extend(grant(&mut state, ticket, self.lease(id, idle, None)));
                }
                Action::Prepare(id) => {
                    prepares = true;
                    state.advance.push((id, permits.next()));
                }
            }
        }
        drop(state);
        if prepares {
            self.wanted.notify_one();
        }
        for (idle, reason) in retired {
            end(idle, reason, self.kill_grace);
        }
        if starts || prepares {
            self.limits.server.trim();
        }
    }

    /// The facts for the message about a pool without a free process.
    fn full(&self, pool: &Pool) -> FullPool {
        FullPool {
            script: self.record.label.script.clone(),
            processes: pool.processes(),
            max: self.settings.max,
            queue_max: self.settings.queue_max,
            queue_timeout: self.settings.queue_timeout,
            client_requests_max: self.settings.client_requests_max,
        }
    }

    /// The fault of a refused request, and the count of such ones.
    fn refused(&self, refusal: Refusal, pool: &Pool) -> (Fault, &RareCount) {
        let counts = &self.record.counts;
        let full = || Box::new(self.full(pool));
        let (fault, count) = match refusal {
            Refusal::QueueFull => (ScriptFault::QueueFull(full()), &counts.queue_full),
            Refusal::ClientShare => (ScriptFault::ClientShare(full()), &counts.client_share),
            Refusal::BackOff(wait) => {
                let script = self.record.label.script.clone();
                (
                    ScriptFault::BackOff(Box::new(BackOff { script, wait })),
                    &counts.backed_off,
                )
            }
        };
        (fault.into(), count)
    }

    /// Refuses a request that would be refused now, before its body is stored in vain; another may still take the last place. The script's fault, a 503.
    pub(crate) fn check_room(&self) -> Result<(), Fault> {
        let state = self.lock();
        let Some(refusal) = state.pool.refusal(Instant::now()) else {
            return Ok(());
        };
        let (fault, _) = self.refused(refusal, &state.pool);
        drop(state);
        self.report_waiting();
        Err(fault)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member for SharedPool {
    fn start_waiting(self: Arc<Self>) {
        loop {
            let mut state = self.lock();
            let mut permits = Vec::new();
            let action = state
                .pool
                .start_for_waiting(Instant::now(), &mut self.room(&mut permits));
            let Some(action) = action else {
                return;
            };
            self.carry_out(state, vec![action], permits);
        }
    }

    fn idle_since(&self, which: Idle) -> Option<Instant> {
        self.lock().pool.idle_since(which)
    }

    fn end_idle(self: Arc<Self>, which: Idle, reason: Reason) {
        let mut state = self.lock();
        let actions: Vec<_> = state.pool.end_idle(which, reason).into_iter().collect();
        self.carry_out(state, actions, Vec::new());
    }
}

impl Drop for SharedPool {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, idle) in state.idle.drain(..) {
            end(idle, Reason::Shutdown, self.kill_grace);
        }
    }
}

pub(crate) type Removal = fn(&mut Pool, ProcessId, Instant, Room<'_>) -> Vec<Action>;

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

/// Ends an idle process: end-of-file on CGIPLUSIN tells it to exit; its reaper stops it if it does not.
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
