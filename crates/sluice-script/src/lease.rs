//! Leases: a pool's decisions carried out. Whoever runs a script holds a lease, and dropping it in any state leaves the
//! pool right.
//!
//! Here: the lock around the pure `pool`, the idle processes themselves, the requests that wait, and the clock. A pool is
//! shared by all workers; a process moves between them only when the pool says so. Not here: what a process is told
//! (`cgi`, `cgiplus`).

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use sluice_gateway::{RequestEncoding, Scanner};
use sluice_http::fault::{Fault, ScriptFault};
use sluice_launch::Exit;
use sluice_settings::{PoolSettings, ScriptSettings};
use tokio::sync::oneshot;

use crate::pool::{Action, Decision, Pool, ProcessId, Reason, Refusal, Release, Ticket};
use crate::process::{Channels, Process};
use crate::route::{Script, Stamp};

/// The pools of a route's scripts.
#[derive(Default)]
pub struct Pools {
    by_script: Mutex<HashMap<PathBuf, Arc<SharedPool>>>,
}

impl Pools {
    /// The pool of a script; made at its first request, renewed when its file has changed.
    pub(crate) fn pool(&self, script: &Script, settings: &ScriptSettings) -> Arc<SharedPool> {
        let mut pools = self.lock();
        let pool = match pools.get(&script.file) {
            Some(pool) => Arc::clone(pool),
            None => {
                let pool = Arc::new(SharedPool::new(script, settings));
                pools.insert(script.file.clone(), Arc::clone(&pool));
                pool
            }
        };
        drop(pools);
        pool.check(script.stamp);
        pool
    }

    /// Time has passed.
    pub fn tick(&self) {
        let mut pools = self.lock();
        pools.retain(|_, pool| {
            pool.tick();
            // A pool that nobody else holds and that keeps nothing is made again at need.
            Arc::strong_count(pool) > 1 || !pool.lock().pool.is_empty()
        });
    }

    /// The server endpoints, or goes on by other settings: idle processes are ended, and those at work after their reply.
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
    /// How it wants its next request.
    pub form: RequestEncoding,
    pub scanner: Box<Scanner>,
}

/// The right to one process of a pool.
pub(crate) struct Lease {
    pool: Arc<SharedPool>,
    id: ProcessId,
    /// The process, if there is one already; else it is the holder's to start.
    kept: Option<IdleProcess>,
    state: LeaseState,
}

#[derive(PartialEq)]
enum LeaseState {
    /// Nothing was asked of a process yet.
    Unused,
    /// A process is about to be started.
    Starting,
    /// A process is at work, or on its way: whoever has its `Ending` tells its end.
    Running,
    Returned,
}

impl SharedPool {
    fn new(script: &Script, settings: &ScriptSettings) -> SharedPool {
        SharedPool {
            settings: settings.pool,
            kill_grace: settings.timeouts.kill_grace,
            state: Mutex::new(State {
                // Each run of a CGI script stands for itself: one that fails says nothing about the next.
                pool: Pool::new(settings.pool, settings.mode.keeps_process()),
                stamp: script.stamp,
                idle: HashMap::new(),
                waiting: HashMap::new(),
            }),
        }
    }

    /// Waits for a process or for leave to start one. The fault is 503: the queue is full, overdue, or starts are put off.
    pub(crate) async fn acquire(self: &Arc<Self>, worker: usize) -> Result<Lease, Fault> {
        let (place, granted) = {
            let mut state = self.lock();
            match state.pool.request(worker, Instant::now()) {
                Decision::Use(id) => {
                    let kept = state.idle.remove(&id);
                    return Ok(self.lease(id, kept));
                }
                Decision::Start(id) => return Ok(self.lease(id, None)),
                Decision::Refuse(refusal) => return Err(refused(refusal, self.settings.queue_max)),
                Decision::Wait(ticket) => {
                    let (grant, granted) = oneshot::channel();
                    state.waiting.insert(ticket, grant);
                    (Place { pool: self, ticket }, granted)
                }
            }
        };
        let granted = tokio::time::timeout(self.settings.queue_timeout, granted).await;
        drop(place);
        match granted {
            Ok(Ok(lease)) => Ok(lease),
            _ => Err(ScriptFault::QueueTimeout(self.settings.queue_timeout).into()),
        }
    }

    fn lease(self: &Arc<Self>, id: ProcessId, kept: Option<IdleProcess>) -> Lease {
        Lease {
            pool: Arc::clone(self),
            id,
            kept,
            state: LeaseState::Unused,
        }
    }

    /// The script's file as it is now; processes of an older one are ended.
    fn check(&self, stamp: Stamp) {
        let mut state = self.lock();
        if state.stamp != stamp {
            state.stamp = stamp;
            let actions = state.pool.renew();
            self.retire(state, &actions);
        }
    }

    fn tick(self: &Arc<Self>) {
        let mut state = self.lock();
        let actions = state.pool.tick(Instant::now());
        if actions.is_empty() {
            return;
        }
        let orphans: Vec<_> = actions
            .iter()
            .filter_map(|action| self.start(&mut state, *action))
            .collect();
        self.retire(state, &actions);
        drop(orphans);
    }

    fn remove(self: &Arc<Self>, id: ProcessId, how: impl FnOnce(&mut Pool, ProcessId, Instant) -> Option<Action>) {
        let mut state = self.lock();
        let kept = state.idle.remove(&id);
        let action = how(&mut state.pool, id, Instant::now());
        let orphan = action.and_then(|action| self.start(&mut state, action));
        drop(state);
        drop((kept, orphan));
    }

    fn start(self: &Arc<Self>, state: &mut State, action: Action) -> Option<Orphan> {
        match action {
            Action::Start(ticket, id) => grant(state, ticket, self.lease(id, None)),
            Action::Retire(..) => None,
        }
    }

    fn retire(&self, mut state: MutexGuard<'_, State>, actions: &[Action]) {
        let mut ending = Vec::new();
        for action in actions {
            if let Action::Retire(id, reason) = action
                && let Some(kept) = state.idle.remove(id)
            {
                ending.push((kept, *reason));
            }
        }
        drop(state);
        for (kept, reason) in ending {
            end(kept, reason, self.kill_grace);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SharedPool {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, kept) in state.idle.drain() {
            end(kept, Reason::Shutdown, self.kill_grace);
        }
    }
}

impl Lease {
    /// The live process, if the lease came with one; it counts as used from here on.
    pub(crate) fn take(&mut self) -> Option<IdleProcess> {
        let kept = self.kept.take();
        self.state = if kept.is_some() {
            LeaseState::Running
        } else {
            LeaseState::Starting
        };
        kept
    }

    /// What is called at the end of the process that the holder starts now, or dropped where none is left: the process holds
    /// its place from here on, also if its client leaves while it is being started.
    pub(crate) fn ending(&mut self) -> impl FnOnce(Exit) + Send + use<> + 'static {
        self.state = LeaseState::Running;
        let ending = Ending {
            pool: Arc::downgrade(&self.pool),
            id: self.id,
        };
        move |_| ending.ended()
    }

    /// The process asked for an idle lifetime of its own.
    pub(crate) fn set_lifetime(&self, lifetime: Option<Duration>) {
        self.pool.lock().pool.set_lifetime(self.id, lifetime);
    }

    /// The process has answered completely and can serve again.
    pub(crate) fn release(mut self, kept: IdleProcess) {
        self.state = LeaseState::Returned;
        let mut state = self.pool.lock();
        let (release, action) = state.pool.release(self.id, Instant::now());
        let orphan = action.and_then(|action| self.pool.start(&mut state, action));
        self.pool.put(state, self.id, kept, release);
        drop(orphan);
    }
}

impl SharedPool {
    fn put(self: &Arc<Self>, mut state: MutexGuard<'_, State>, id: ProcessId, kept: IdleProcess, release: Release) {
        match release {
            Release::Keep => {
                state.idle.insert(id, kept);
            }
            Release::Hand(ticket) => {
                let orphan = grant(&mut state, ticket, self.lease(id, Some(kept)));
                drop(state);
                drop(orphan);
            }
            Release::Retire(reason) => {
                drop(state);
                end(kept, reason, self.kill_grace);
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
            LeaseState::Unused => match self.kept.take() {
                None => self.pool.remove(self.id, Pool::not_started),
                Some(kept) => {
                    let mut state = self.pool.lock();
                    let release = state.pool.give_back(self.id, Instant::now());
                    self.pool.put(state, self.id, kept, release);
                }
            },
        }
    }
}

/// The end of a process to come. It does not keep the pool alive: a pool that is dropped ends its processes, as after a reload.
struct Ending {
    pool: Weak<SharedPool>,
    id: ProcessId,
}

impl Ending {
    /// The process has ended by itself.
    fn ended(&self) {
        self.give_back(Pool::ended);
    }

    fn give_back(&self, how: impl FnOnce(&mut Pool, ProcessId, Instant) -> Option<Action>) {
        if let Some(pool) = self.pool.upgrade() {
            pool.remove(self.id, how);
        }
    }
}

impl Drop for Ending {
    /// Nothing is left to give back after `ended`.
    fn drop(&mut self) {
        self.give_back(Pool::not_started);
    }
}

/// A place in the queue, given up when dropped.
struct Place<'a> {
    pool: &'a SharedPool,
    ticket: Ticket,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.waiting.remove(&self.ticket);
        state.pool.cancel(self.ticket);
    }
}

/// Endpoints a process in good order: end-of-file on CGIPLUSIN is the order to exit; the watcher sees that it is followed.
fn end(kept: IdleProcess, reason: Reason, grace: Duration) {
    let IdleProcess { process, channels, .. } = kept;
    tracing::debug!(
        pid = process.pid,
        script = process.script,
        "script process retired: {reason}"
    );
    process.finish(grace);
    drop(channels);
}

/// A lease whose waiter has just left. Dropping it gives it back, which takes the pool's lock: let go of that first.
#[must_use]
struct Orphan {
    _lease: Lease,
}

/// Hands a lease to who waits.
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
    use super::*;
    use sluice_settings::{Mode, ScriptSource};

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
        Arc::new(SharedPool::new(&script, &settings))
    }

    #[tokio::test]
    async fn a_process_whose_client_leaves_while_it_is_started_holds_its_place_until_it_is_gone() {
        let pool = pool(1);
        for has_run in [false, true] {
            let mut lease = pool.acquire(0).await.unwrap();
            assert!(lease.take().is_none());
            let ending = lease.ending();
            drop(lease);
            let mut second = Box::pin(pool.acquire(0));
            assert!(has_to_wait(&mut second).await, "two at once");
            if has_run {
                ending(Exit::Code(0));
            } else {
                drop(ending);
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
