//! A worker: one event-loop thread of the server.
//!
//! Here: the thread's life (accept, drain, stop its script processes, end). Not here: who creates and ends workers
//! (`server`), and what their exchanges share (`context`).

use std::future::Future;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_http::tasks::Tasks;
use sluice_net::listener;
use sluice_net::phase;
use sluice_net::phase::Phase;
use sluice_net::worker_net::{WorkerNet, WorkerNetLimits};
use sluice_script::scripts::Scripts;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::context::Context;
use crate::operator::late_watch;
use crate::questions::{self, WorkerQuestion, WorkerView};
use crate::serve::Exchanges;
use crate::serve::gate::Gate;
use crate::serve::in_advance;
use crate::state::ServerState;
use sluice_net::addresses::NewListener;

/// How long a thread for blocking calls lives without one.
const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(30);

/// The interval at which pools and connections check their time limits.
const TICK: Duration = Duration::from_secs(1);

/// How long connections without a request may still send one after another server has taken over: a client that has just connected, or
/// sends its next request, must not find the connection closed.
const REPLACED_GRACE: Duration = Duration::from_secs(3);

/// How long a worker waits at last for its script processes, which were sent SIGKILL long before.
const REAP_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a worker waits at its end for its threads that read files, because a disk may hang. Rewriting a file may be
/// interrupted at any point (`sluice_files::records::stream_lf`).
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// A worker: its parts, and the phases of the server.
struct Worker {
    context: Rc<Context>,
    front: Rc<WorkerNet>,
    scripts: Rc<Scripts>,
    tasks: Tasks,
    phases: watch::Receiver<Phase>,
}

/// The receiving ends of a worker: listeners come from the server, questions from the reports.
pub(crate) struct Inbox {
    pub(crate) listeners: mpsc::UnboundedReceiver<NewListener>,
    pub(crate) questions: mpsc::Receiver<WorkerQuestion>,
}

/// Runs a worker on its thread. Returns when all its connections and script processes have ended. `limits` are those of
/// its connections.
pub(crate) fn run(
    index: usize,
    state: Arc<ServerState>,
    gate: &Arc<Gate>,
    limits: WorkerNetLimits,
    phases: watch::Receiver<Phase>,
    inbox: Inbox,
) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = match builder.enable_all().thread_keep_alive(THREAD_KEEP_ALIVE).build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!("worker {index}: {error}"),
    };
    let worker = Worker::new(index, state, limits, phases);
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let service = Rc::new(Exchanges::new(&worker.context, gate));
        tokio::task::spawn_local(accept(
            Rc::clone(&worker.front),
            service,
            worker.tasks.clone(),
            inbox.listeners,
        ));
        let front = Rc::clone(&worker.front);
        tokio::task::spawn_local(async move { front.keep_send_budget().await });
        tokio::task::spawn_local(tick(Rc::clone(&worker.context)));
        tokio::task::spawn_local(keep_thread());
        tokio::task::spawn_local(in_advance::start_wanted(Rc::clone(&worker.context)));
        tokio::task::spawn_local(questions::answer(worker.view(), inbox.questions));
        worker.run().await;
    });
    // Closes the connections that did not end in time; their scripts have been stopped.
    worker.tasks.close();
    drop(local);
    runtime.shutdown_timeout(READ_TIMEOUT);
}

/// Accepts on each listener that comes.
async fn accept(
    front: Rc<WorkerNet>,
    service: Rc<Exchanges>,
    tasks: Tasks,
    mut listeners: mpsc::UnboundedReceiver<NewListener>,
) {
    while let Some(NewListener {
        number,
        listener,
        closing,
    }) = listeners.recv().await
    {
        let accept = listener::accept(Rc::clone(&front), Rc::clone(&service), listener, number, closing);
        tasks.spawn(accept);
    }
}

async fn tick(context: Rc<Context>) {
    let mut interval = tokio::time::interval(TICK);
    loop {
        interval.tick().await;
        context.read_clocks();
        context.front.advance();
        late_watch::join(&context);
        context.fault_log.advance();
        context.scripts.advance();
        prompt_allocator();
        // Loading it also drops a configuration that was replaced; its processes end when its last holder drops it.
        let config = context.config();
        if context.worker > 0 {
            continue;
        }
        context.state.statistics.note_second();
        in_advance::prepare(&config, context.scripts.resources());
        for route in config.script_routes() {
            route.pools.tick();
        }
    }
}

/// Has one thread for blocking calls live at all times. When the system refuses another one (RLIMIT_NPROC, pids.max), calls wait for it;
/// without any, `spawn_blocking` panics, and the request that needs one loses its connection.
async fn keep_thread() {
    let mut interval = tokio::time::interval(THREAD_KEEP_ALIVE / 3);
    loop {
        interval.tick().await;
        drop(tokio::task::spawn_blocking(|| ()));
    }
}

/// Makes the allocator return the memory of connections that have become idle: mimalloc, which the program uses, looks
/// for pages to return only when a large allocation is freed.
fn prompt_allocator() {
    const LARGE: usize = 1 << 20;
    drop(black_box(Vec::<u8>::with_capacity(LARGE)));
}

impl Worker {
    fn new(index: usize, state: Arc<ServerState>, limits: WorkerNetLimits, phases: watch::Receiver<Phase>) -> Worker {
        let tasks = Tasks::default();
        let front = WorkerNet::new(
            Arc::clone(&state.listener_protocols),
            limits,
            phases.clone(),
            tasks.clone(),
            Arc::clone(&state.statistics.of_worker(index).connections),
            &state.watches,
        );
        let launcher = Arc::clone(&state.launcher);
        let resources = Arc::clone(&state.resources);
        let scripts = Scripts::new(index, launcher, state.script_files_max, resources, tasks.clone());
        let (front, scripts) = (Rc::new(front), Rc::new(scripts));
        let context = Context::new(Rc::clone(&front), Rc::clone(&scripts), state);
        Worker {
            context: Rc::new(context),
            front,
            scripts,
            tasks,
            phases,
        }
    }

    /// The part that questions see.
    fn view(&self) -> WorkerView {
        WorkerView {
            front: Rc::clone(&self.front),
            in_progress: Rc::clone(&self.context.in_progress),
        }
    }

    /// Serves until the server drains, then waits for the exchanges and stops the script processes.
    async fn run(&self) {
        self.front.closing().await;
        self.front.replace();
        // Only a server that was replaced waits here: otherwise it drains already.
        let _ = timeout(REPLACED_GRACE, self.front.draining()).await;
        self.front.drain();
        let limit = self.context.config().limits.drain_timeout;
        tokio::select! {
            _ = timeout(limit, self.all_idle()) => {}
            () = self.ending() => {}
        }
        // Idle processes are asked to exit (end of file on CGIPLUSIN); those that have not ended by then are sent a
        // signal.
        let config = self.context.config();
        let routes = || config.script_routes();
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
            tracing::error!("worker {}: some script processes cannot be ended", self.context.worker);
        }
    }

    /// Waits until the server is to end at once.
    fn ending(&self) -> impl Future<Output = ()> {
        phase::reached(&self.phases, Phase::Ending)
    }

    /// Waits until no worker has an exchange under way: a process started by this worker may serve another one.
    async fn all_idle(&self) {
        // Until only the tasks that wait for a process to exit are left.
        while self.tasks.running() > self.scripts.running() {
            self.tasks.ended().await;
        }
        self.context.state.busy_workers.send_modify(|count| *count -= 1);
        let _ = self
            .context
            .state
            .busy_workers
            .subscribe()
            .wait_for(|count| *count == 0)
            .await;
    }

    async fn without_processes(&self) {
        while self.scripts.running() > 0 {
            self.tasks.ended().await;
        }
    }
}
