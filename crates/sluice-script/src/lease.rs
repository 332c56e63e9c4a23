//! Leases carry out a pool's decisions. Whoever runs a script holds a lease; the pool stays consistent in whichever state a
//! lease is dropped.
//!
//! Here: the lock around the pure `pool`, the idle processes themselves, the requests that wait, and the clock. All workers
//! share a pool; a process moves between them only when the pool decides so. Not here: how a process gets its request (`cgi`,
//! `cgiplus`).

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use sluice_gateway::{RequestEncoding, Scanner};
use sluice_http::fault::{Fault, ScriptFault};
use sluice_launch::Exit;
use sluice_membuf::Segment;
use sluice_settings::{PoolSettings, ScriptSettings};
use tokio::sync::oneshot;

use crate::pool::{Action, Decision, Pool, ProcessId, Reason, Refusal, Release, Room, Ticket};
use crate::process::{Channels, Process};
use crate::process_limit::{Member, Permit, PoolLimits, ProcessLimit};
use crate::route::{Script, Stamp};

/// The pools of a route's scripts.
pub struct Pools {
    by_script: Mutex<HashMap<PathBuf, Arc<SharedPool>>>,
    /// The bound on the processes of all of them together.
    limit: Arc<ProcessLimit>,
}

impl Pools {
    /// No pools yet.
    pub fn new(settings: &ScriptSettings) -> Pools {
        Pools {
            by_script: Mutex::default(),
            limit: ProcessLimit::of_route(settings.processes_max),
        }
    }

    /// The pool of a script, within the bound of the server, too. It is made at the script's first request; its processes are
    /// replaced if the file has changed.
    pub(crate) fn pool(
        &self,
        script: &Script,
        settings: &ScriptSettings,
        server: &Arc<ProcessLimit>,
    ) -> Arc<SharedPool> {
        let mut pools = self.lock();
        let pool = match pools.get(&script.file) {
            Some(pool) => Arc::clone(pool),
            None => {
                let limits = PoolLimits {
                    route: Arc::clone(&self.limit),
                    server: Arc::clone(server),
                };
                let pool = SharedPool::new(script, settings, limits);
                pools.insert(script.file.clone(), Arc::clone(&pool));
                pool
            }
        };
        drop(pools);
        pool.check(script.stamp);
        pool
    }

    /// Ends processes that were idle for too long, and drops pools that are empty. Called about once a second.
    pub fn tick(&self) {
        let mut pools = self.lock();
        pools.retain(|_, pool| {
            pool.tick();
            // An empty pool that nobody else holds is made again when needed.
            Arc::strong_count(pool) > 1 || !pool.lock().pool.is_empty()
        });
    }

    /// The server ends or has new settings: idle processes are ended now, busy ones after their reply.
    pub fn close(&self) {
        for pool in self.lock().values() {
            let mut state = pool.lock();
            let actions = state.pool.close();
            pool.retire(state, &actions);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<SharedPool>>> {
        self.by_script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One script's pool, shared by all workers.
pub(crate) struct SharedPool {
    settings: PoolSettings,
    kill_grace: Duration,
    limits: PoolLimits,
    state: Mutex<State>,
}

struct State {
    pool: Pool,
    stamp: Stamp,
    idle: HashMap<ProcessId, IdleProcess>,
    waiting: HashMap<Ticket, oneshot::Sender<Lease>>,
}

/// A live process between exchanges.
pub(crate) struct IdleProcess {
    pub process: Arc<Process>,
    pub channels: Channels,
    /// The worker whose event loop its channels belong to.
    pub worker: usize,
    /// The encoding of its next request.
    pub encoding: RequestEncoding,
    pub scanner: Box<Scanner>,
}

impl IdleProcess {
    pub(crate) fn with_segment(mut self, segment: Segment) -> IdleProcess {
        self.channels.segment = Some(segment);
        self
    }
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
    fn new(script: &Script, settings: &ScriptSettings, limits: PoolLimits) -> Arc<SharedPool> {
        let pool = Pool::new(settings.pool);
        // Each process of a CGI script serves one request: a failure says nothing about the next process.
        let pool = if settings.mode.keeps_process() {
            pool.with_backoff()
        } else {
            pool
        };
        let pool = Arc::new(SharedPool {
            settings: settings.pool,
            kill_grace: settings.timeouts.kill_grace,
            limits,
            state: Mutex::new(State {
                pool,
                stamp: script.stamp,
                idle: HashMap::new(),
                waiting: HashMap::new(),
            }),
        });
        for limit in [&pool.limits.route, &pool.limits.server] {
            limit.add(pool.member());
        }
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

    /// Waits for a process or for permission to start one. The script's fault, a 503: the queue is full, the wait took too long, or
    /// starts are delayed after failures.
    pub(crate) async fn acquire(self: &Arc<Self>, worker: usize) -> Result<Lease, Fault> {
        let (entry, granted) = {
            let mut state = self.lock();
            let (mut permit, mut is_full) = (None, false);
            let mut room = || {
                is_full = !self.take_permit(&mut permit);
                !is_full
            };
            match state.pool.request(worker, Instant::now(), &mut room) {
                Decision::Use(id) => {
                    let idle = state.idle.remove(&id);
                    return Ok(self.lease(id, idle, None));
                }
                Decision::Start(id) => return Ok(self.lease(id, None, permit)),
                Decision::Refuse(refusal) => return Err(refused(refusal, self.settings.queue_max)),
                Decision::Wait(ticket) => {
                    let (grant, granted) = oneshot::channel();
                    state.waiting.insert(ticket, grant);
                    drop(state);
                    if is_full {
                        self.limits.report();
                        self.limits.make_room();
                    }
                    (QueueEntry { pool: self, ticket }, granted)
                }
            }
        };
        let granted = tokio::time::timeout(self.settings.queue_timeout, granted).await;
        drop(entry);
        match granted {
            Ok(Ok(lease)) => Ok(lease),
            _ => Err(ScriptFault::QueueTimeout(self.settings.queue_timeout).into()),
        }
    }

    /// Refuses a request that would be refused now, so that its body is not stored in vain. Another request may still take the last
    /// entry of the queue before this one. The fault is the script's, a 503.
    pub(crate) fn check_room(&self) -> Result<(), Fault> {
        match self.lock().pool.refusal(Instant::now()) {
            Some(refusal) => Err(refused(refusal, self.settings.queue_max)),
            None => Ok(()),
        }
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
    fn check(&self, stamp: Stamp) {
        let mut state = self.lock();
        if state.stamp != stamp {
            state.stamp = stamp;
            let actions = state.pool.script_changed();
            self.retire(state, &actions);
        }
    }

    fn tick(self: &Arc<Self>) {
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

    /// A function to call at the end of the process that the holder starts now, or to drop if no process was started. The process
    /// counts from now on, even if its client disconnects while it is being started.
    pub(crate) fn exit_notice(&mut self) -> impl FnOnce(Exit) + Send + use<> + 'static {
        self.state = LeaseState::Running;
        let mut notice = ExitNotice {
            pool: Arc::downgrade(&self.pool),
            id: self.id,
            permit: self.permit.take(),
        };
        move |_| notice.ended()
    }

    /// The process has set its own idle lifetime (callout LIFETIME); `None` is without limit.
    pub(crate) fn set_lifetime(&self, lifetime: Option<Duration>) {
        self.pool.lock().pool.set_lifetime(self.id, lifetime);
    }

    /// Returns the process, which has replied completely and can serve again.
    pub(crate) fn release(mut self, idle: IdleProcess) {
        self.state = LeaseState::Returned;
        let claim = self.pool.limits.claim(|| self.pool.member());
        let mut state = self.pool.lock();
        let mut permit = None;
        let mut room = || self.pool.take_permit(&mut permit);
        let (release, action) = state.pool.release(self.id, Instant::now(), claim, &mut room);
        let orphan = action.and_then(|action| self.pool.start(&mut state, action, &mut || permit.take()));
        self.pool.put(state, self.id, idle, release);
        drop(orphan);
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
}

/// How a process leaves its pool.
type Removal = fn(&mut Pool, ProcessId, Instant, Room<'_>) -> Option<Action>;

impl ExitNotice {
    /// The process has ended by itself.
    fn ended(&mut self) {
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
        script = process.script,
        "script process retired: {reason}"
    );
    process.finish(grace);
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
        Some(waiter) => waiter.send(lease).err(),
        None => Some(lease),
    };
    refused.map(|lease| Orphan { _lease: lease })
}

fn refused(refusal: Refusal, queue_max: usize) -> Fault {
    match refusal {
        Refusal::QueueFull => ScriptFault::QueueFull(queue_max).into(),
        Refusal::BackOff(wait) => ScriptFault::BackOff(wait).into(),
    }
}

#[cfg(test)]
mod tests {
    use sluice_settings::{Mode, ScriptSource};

    use super::*;

    fn pool(max: usize) -> Arc<SharedPool> {
        let file = std::env::current_exe().unwrap();
        let script = Script {
            stamp: Stamp::of(&file.metadata().unwrap()),
            name: String::new(),
            path_info: None,
            interpreter: None,
            file,
        };
        let mut settings = ScriptSettings::new(ScriptSource::Root, Mode::Cgi);
        settings.pool.max = max;
        let limits = PoolLimits {
            route: ProcessLimit::of_route(None),
            server: ProcessLimit::of_server(usize::MAX),
        };
        SharedPool::new(&script, &settings, limits)
    }

    #[tokio::test]
    async fn a_process_counts_until_its_end_even_if_its_client_disconnects_while_it_is_started() {
        let pool = pool(1);
        for has_run in [false, true] {
            let mut lease = pool.acquire(0).await.unwrap();
            assert!(lease.take().is_none());
            let notice = lease.exit_notice();
            drop(lease);
            let mut second = Box::pin(pool.acquire(0));
            assert!(has_to_wait(&mut second).await, "two at once");
            if has_run {
                notice(Exit::Code(0));
            } else {
                drop(notice);
            }
            drop(second.await.unwrap());
        }
        assert!(pool.lock().pool.is_empty());
    }

    /// Whether a future has to wait.
    async fn has_to_wait<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
        })
        .await
    }
}
