//! A worker: one event-loop thread of the server, and what is on it.
//!
//! Here: the thread's life (accept, drain, stop its script processes, end) and what its exchanges share. Not here: what
//! makes workers and tells them to end (`server`).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::hint::black_box;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use arc_swap::cache::Cache;
use pin_project_lite::pin_project;
use sluice_launch::Launcher;
use tokio::sync::{Notify, watch};
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::accept::listener::{self, Listener};
use crate::accept::places::Places;
use crate::accept::proxy_protocol::Complaints;
use crate::accept::tls::Speech;
use crate::dispatch::Config;
use crate::exchange::UniqueId;
use crate::names::Names;
use crate::script::process::Process;
use crate::server::Phase;
use crate::write::log::{Log, SiteLog};

/// How often pools and connections are told that time has passed.
const TICK: Duration = Duration::from_secs(1);

/// After the last order to stop: how long a worker waits for its script processes, which were sent SIGKILL long before.
const REAP_TIMEOUT: Duration = Duration::from_secs(20);

/// At the end: how long a worker waits for its threads that read files, one of which may have met a disk that hangs. A file
/// that is being written anew may be left at any point (`record_format::stream_lf`).
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// What all workers share.
pub(crate) struct Shared {
    pub config: Arc<ArcSwap<Config>>,
    /// What is spoken on each address, in the order of the listeners.
    pub speech: ArcSwap<Vec<Speech>>,
    pub launcher: Launcher,
    pub log: Log,
    /// The names of clients, where they are looked up.
    pub names: Option<Names>,
    /// Descriptors that a script may have, if bounded.
    pub script_files_max: Option<u64>,
    /// Workers that have something under way, while the server drains.
    pub busy_workers: watch::Sender<usize>,
    /// Part of every UNIQUE_ID of this start of the server.
    pub boot: [u8; 8],
}

/// A worker, as its tasks see it.
pub(crate) struct Worker {
    pub index: usize,
    shared: Arc<Shared>,
    config: RefCell<CurrentConfig>,
    exchanges: Cell<u32>,
    phase: watch::Receiver<Phase>,
    is_draining: Cell<bool>,
    /// Seconds since the worker began.
    tick: Cell<u32>,
    places: Rc<Places>,
    /// About connections that are refused before they say anything.
    complaints: Complaints,
    /// Script processes whose watcher runs here.
    processes: RefCell<HashMap<i32, Weak<Process>>>,
    /// Tasks that are not done.
    tasks: Cell<usize>,
    task_ended: Notify,
    /// Script processes are ended, also those that come yet.
    is_stopping: Cell<bool>,
    is_closed: Cell<bool>,
}

/// A configuration as one worker holds it: counted once for all of the worker's exchanges, which count by themselves (`Rc`).
/// They would else contend with those of other workers for one counter.
pub(crate) struct HeldConfig {
    config: Arc<Config>,
    /// An exchange keeps its log to the end of its body, and not the rest of a configuration that was replaced meanwhile.
    pub logs: Rc<[SiteLog]>,
}

impl HeldConfig {
    fn new(config: Arc<Config>) -> HeldConfig {
        HeldConfig {
            logs: config.logs.iter().cloned().collect(),
            config,
        }
    }
}

impl Deref for HeldConfig {
    type Target = Config;

    fn deref(&self) -> &Config {
        &self.config
    }
}

/// The configuration in force.
struct CurrentConfig {
    latest: Cache<Arc<ArcSwap<Config>>, Arc<Config>>,
    held: Rc<HeldConfig>,
}

impl CurrentConfig {
    fn new(shared: &Arc<ArcSwap<Config>>) -> CurrentConfig {
        CurrentConfig {
            latest: Cache::new(Arc::clone(shared)),
            held: Rc::new(HeldConfig::new(shared.load_full())),
        }
    }

    fn load(&mut self) -> Rc<HeldConfig> {
        let latest = self.latest.load();
        if !Arc::ptr_eq(latest, &self.held.config) {
            self.held = Rc::new(HeldConfig::new(Arc::clone(latest)));
        }
        Rc::clone(&self.held)
    }
}

/// The worker's thread: returns when every connection and every script process of it has ended.
pub(crate) fn run(
    index: usize,
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    places: usize,
    phase: watch::Receiver<Phase>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!("worker {index}: {error}"),
    };
    let worker = Rc::new(Worker {
        index,
        config: RefCell::new(CurrentConfig::new(&shared.config)),
        shared,
        exchanges: Cell::new(0),
        phase,
        is_draining: Cell::new(false),
        tick: Cell::new(0),
        places: Rc::new(Places::new(places)),
        complaints: Complaints::default(),
        processes: RefCell::default(),
        tasks: Cell::new(0),
        task_ended: Notify::new(),
        is_stopping: Cell::new(false),
        is_closed: Cell::new(false),
    });
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async {
        for (index, listener) in listeners.into_iter().enumerate() {
            worker.spawn(listener::accept(Rc::clone(&worker), listener, index));
        }
        tokio::task::spawn_local(tick(Rc::clone(&worker)));
        worker.live().await;
    });
    // What is left are connections that did not end in time: they are cut, and their scripts have been stopped.
    worker.is_closed.set(true);
    drop(tasks);
    runtime.shutdown_timeout(READ_TIMEOUT);
}

async fn tick(worker: Rc<Worker>) {
    let mut interval = tokio::time::interval(TICK);
    loop {
        interval.tick().await;
        worker.tick.set(worker.tick.get() + 1);
        worker.places.call(worker.tick.get());
        prompt_allocator();
        // Also lets go of a configuration that was replaced, whose processes end with its last holder.
        let config = worker.config();
        if worker.index > 0 {
            continue;
        }
        for route in config.sites().flat_map(|site| site.script_routes()) {
            route.pools.tick();
        }
    }
}

/// Prompts the allocator to give back what connections that came to rest have freed: mimalloc, which the program has, looks
/// for pages to return only when a large one is freed.
fn prompt_allocator() {
    const LARGE: usize = 1 << 20;
    drop(black_box(Vec::<u8>::with_capacity(LARGE)));
}

impl Worker {
    /// The configuration as it is now; an exchange keeps the one it began with.
    pub(crate) fn config(&self) -> Rc<HeldConfig> {
        self.config.borrow_mut().load()
    }

    /// What is spoken on the address of this listener, as it is now.
    pub(crate) fn speech(&self, listener: usize) -> Speech {
        self.shared.speech.load()[listener].clone()
    }

    pub(crate) fn names(&self) -> Option<&Names> {
        self.shared.names.as_ref()
    }

    pub(crate) fn launcher(&self) -> &Launcher {
        &self.shared.launcher
    }

    pub(crate) fn script_files_max(&self) -> Option<u64> {
        self.shared.script_files_max
    }

    /// The name of the next exchange.
    pub(crate) fn next_id(&self) -> UniqueId {
        let count = self.exchanges.get().wrapping_add(1);
        self.exchanges.set(count);
        let index = u8::try_from(self.index % 256).unwrap_or_default();
        UniqueId::new(self.shared.boot, index, count)
    }

    /// Starts a task of this worker. Once the worker has ended it is dropped instead.
    pub(crate) fn spawn(self: &Rc<Self>, task: impl Future<Output = ()> + 'static) {
        self.spawn_counted(self.counted(task));
    }

    /// What may become a task of this worker, and counts as one.
    pub(crate) fn counted<F: Future<Output = ()>>(self: &Rc<Self>, task: F) -> Task<F> {
        Task {
            task,
            _guard: TaskGuard::new(self),
        }
    }

    /// Starts what is `counted`, as above.
    pub(crate) fn spawn_counted(&self, task: impl Future<Output = ()> + 'static) {
        if !self.is_closed.get() {
            tokio::task::spawn_local(task);
        }
    }

    /// Takes in a script process with the task that watches it.
    pub(crate) fn adopt(self: &Rc<Self>, process: &Arc<Process>, watch: impl Future<Output = ()> + 'static) {
        let pid = process.pid;
        if self.is_stopping.get() {
            process.stop();
        }
        self.processes.borrow_mut().insert(pid, Arc::downgrade(process));
        let worker = Rc::clone(self);
        self.spawn(async move {
            watch.await;
            worker.processes.borrow_mut().remove(&pid);
        });
    }

    pub(crate) fn places(&self) -> Rc<Places> {
        Rc::clone(&self.places)
    }

    pub(crate) fn complaints(&self) -> &Complaints {
        &self.complaints
    }

    /// Counts seconds.
    pub(crate) fn tick(&self) -> u32 {
        self.tick.get()
    }

    /// The server drains: no connection begins another exchange.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// Ready once the server drains.
    pub(crate) async fn draining(&self) {
        self.reached(Phase::Draining).await;
    }

    async fn reached(&self, phase: Phase) {
        // An error is the end of the server itself.
        let _ = self.phase.clone().wait_for(|now| *now >= phase).await;
    }

    /// Serves, drains, stops the script processes, and is done.
    async fn live(&self) {
        self.draining().await;
        self.is_draining.set(true);
        self.places.call(u32::MAX);
        let limit = self.config().limits.drain_timeout;
        tokio::select! {
            _ = timeout(limit, self.all_idle()) => {}
            () = self.reached(Phase::Ending) => {}
        }
        // Idle processes get the order to exit (CGIPLUSIN at its end), then all that still live the signal.
        let config = self.config();
        let routes = || config.sites().flat_map(|site| site.script_routes());
        routes().for_each(|route| route.pools.close());
        let grace = routes()
            .map(|route| route.settings.kill_grace)
            .max()
            .unwrap_or_default();
        tokio::select! {
            _ = timeout(grace, self.without_processes()) => {}
            () = self.reached(Phase::Ending) => {}
        }
        self.stop_processes();
        if timeout(REAP_TIMEOUT, self.without_processes()).await.is_err() {
            tracing::error!("worker {}: script processes are left that cannot be ended", self.index);
        }
    }

    /// This worker and all others have nothing under way: a process that was started here may be at work there.
    async fn all_idle(&self) {
        self.idle().await;
        self.shared.busy_workers.send_modify(|count| *count -= 1);
        let _ = self.shared.busy_workers.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Every task but the watchers is done.
    async fn idle(&self) {
        while self.tasks.get() > self.processes.borrow().len() {
            self.task_ended.notified().await;
        }
    }

    async fn without_processes(&self) {
        while !self.processes.borrow().is_empty() {
            self.task_ended.notified().await;
        }
    }

    fn stop_processes(&self) {
        self.is_stopping.set(true);
        let processes: Vec<_> = self.processes.borrow().values().filter_map(Weak::upgrade).collect();
        for process in processes {
            process.stop();
        }
    }
}

/// Ends a task's turn though it has more to do: it is polled again after the event loop has looked at its sockets. A plain
/// wake would have it polled some sixty times before that.
pub(crate) fn give_way(context: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(context);
}

pin_project! {
    /// A task that is counted. An async block in its place would hold the task twice over.
    pub(crate) struct Task<F> {
        #[pin]
        task: F,
        _guard: TaskGuard,
    }
}

impl<F: Future<Output = ()>> Future for Task<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.project().task.poll(context)
    }
}

/// Counts a task until it is dropped.
struct TaskGuard(Rc<Worker>);

impl TaskGuard {
    fn new(worker: &Rc<Worker>) -> TaskGuard {
        worker.tasks.set(worker.tasks.get() + 1);
        TaskGuard(Rc::clone(worker))
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.tasks.set(self.0.tasks.get() - 1);
        self.0.task_ended.notify_one();
    }
}
