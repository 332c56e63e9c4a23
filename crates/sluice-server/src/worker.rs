//! A worker: one event-loop thread of the server, and its end.
//!
//! Here: the thread's life (accept, drain, stop its script processes, end). Not here: what makes workers and tells them to
//! end (`server`), what their exchanges share (`context`).

use std::future::Future;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use sluice_http::tasks::Tasks;
use sluice_launch::Launcher;
use sluice_log::Log;
use sluice_net::front::Front;
use sluice_net::listener;
use sluice_net::listener::Listener;
use sluice_net::phase;
use sluice_net::phase::Phase;
use sluice_net::tls::ListenerProtocol;
use sluice_script::scripts::Scripts;
use tokio::sync::watch;
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::context::Context;
use crate::dispatch::Config;
use crate::reverse_dns::Names;
use crate::serve::Exchanges;
use crate::serve::gate::Gate;

/// How often pools and connections are told that time has passed.
const TICK: Duration = Duration::from_secs(1);

/// After the last order to stop: how long a worker waits for its script processes, which were sent SIGKILL long before.
const REAP_TIMEOUT: Duration = Duration::from_secs(20);

/// At the end: how long a worker waits for its threads that read files, one of which may wait for a disk that hangs. A file
/// that is being rewritten may be left at any point (`record_format::stream_lf`).
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// What all workers share.
pub(crate) struct Shared {
    pub(crate) config: Arc<ArcSwap<Config>>,
    /// The protocols spoken on each address, in the order of the listeners.
    pub(crate) protocol: Arc<ArcSwap<Vec<ListenerProtocol>>>,
    pub(crate) launcher: Arc<Launcher>,
    pub(crate) log: Log,
    /// What every answer passes.
    pub(crate) gate: Arc<Gate>,
    /// The names of clients, where they are looked up.
    pub(crate) names: Option<Arc<Names>>,
    /// Descriptors that a script may have, if bounded.
    pub(crate) script_files_max: Option<u64>,
    /// Workers that have something under way, while the server drains.
    pub(crate) busy_workers: watch::Sender<usize>,
    /// Part of every UNIQUE_ID of this start of the server.
    pub(crate) boot: [u8; 8],
}

/// A worker: its parts, and the phase of the server.
struct Worker {
    context: Rc<Context>,
    front: Rc<Front>,
    scripts: Rc<Scripts>,
    tasks: Tasks,
    phases: watch::Receiver<Phase>,
    shared: Arc<Shared>,
}

/// The worker's thread: returns when every connection and every script process of it has ended. `places` is the number of its
/// connection slots.
pub(crate) fn run(
    index: usize,
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    places: usize,
    phases: watch::Receiver<Phase>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!("worker {index}: {error}"),
    };
    let worker = Worker::new(index, shared, places, phases);
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let service = Rc::new(Exchanges::new(&worker.context, &worker.shared.gate));
        for (index, listener) in listeners.into_iter().enumerate() {
            let accept = listener::accept(Rc::clone(&worker.front), Rc::clone(&service), listener, index);
            worker.tasks.spawn(accept);
        }
        tokio::task::spawn_local(tick(Rc::clone(&worker.context)));
        worker.live().await;
    });
    // What is left are connections that did not end in time: they are closed here; their scripts have been stopped.
    worker.tasks.close();
    drop(local);
    runtime.shutdown_timeout(READ_TIMEOUT);
}

async fn tick(context: Rc<Context>) {
    let mut interval = tokio::time::interval(TICK);
    loop {
        interval.tick().await;
        context.front.advance();
        prompt_allocator();
        // Also lets go of a configuration that was replaced, whose processes end with its last holder.
        let config = context.config();
        if context.worker > 0 {
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
    fn new(index: usize, shared: Arc<Shared>, places: usize, phases: watch::Receiver<Phase>) -> Worker {
        let tasks = Tasks::default();
        let front = Front::new(Arc::clone(&shared.protocol), places, phases.clone(), tasks.clone());
        let launcher = Arc::clone(&shared.launcher);
        let scripts = Scripts::new(index, launcher, shared.script_files_max, tasks.clone());
        let (front, scripts) = (Rc::new(front), Rc::new(scripts));
        let context = Context::new(
            Rc::clone(&front),
            Rc::clone(&scripts),
            &shared.config,
            shared.names.clone(),
            shared.boot,
        );
        Worker {
            context: Rc::new(context),
            front,
            scripts,
            tasks,
            phases,
            shared,
        }
    }

    /// Serves, drains, stops the script processes, and is done.
    async fn live(&self) {
        self.front.draining().await;
        self.front.drain();
        let limit = self.context.config().limits.drain_timeout;
        tokio::select! {
            _ = timeout(limit, self.all_idle()) => {}
            () = self.ending() => {}
        }
        // Idle processes get the order to exit (CGIPLUSIN at its end), then all that still live the signal.
        let config = self.context.config();
        let routes = || config.sites().flat_map(|site| site.script_routes());
        routes().for_each(|route| route.pools.close());
        let grace = routes()
            .map(|route| route.settings.timeouts.kill_grace)
            .max()
            .unwrap_or_default();
        tokio::select! {
            _ = timeout(grace, self.without_processes()) => {}
            () = self.ending() => {}
        }
        self.scripts.stop();
        if timeout(REAP_TIMEOUT, self.without_processes()).await.is_err() {
            tracing::error!(
                "worker {}: script processes are left that cannot be ended",
                self.context.worker
            );
        }
    }

    /// Waits for the order to end at once.
    fn ending(&self) -> impl Future<Output = ()> {
        phase::reached(&self.phases, Phase::Ending)
    }

    /// Waits until this worker and all others have nothing under way: a process that was started here may be at work there.
    async fn all_idle(&self) {
        // Every task but the watchers has ended.
        while self.tasks.running() > self.scripts.running() {
            self.tasks.ended().await;
        }
        self.shared.busy_workers.send_modify(|count| *count -= 1);
        let _ = self.shared.busy_workers.subscribe().wait_for(|count| *count == 0).await;
    }

    async fn without_processes(&self) {
        while self.scripts.running() > 0 {
            self.tasks.ended().await;
        }
    }
}
