//! A worker: one event-loop thread of the server.

mod event_loop;
mod parts;

use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sluice_http::part::{self, Part};
use sluice_http::tasks::Tasks;
use sluice_net::listener;
use sluice_net::phase::{self, Phase};
use sluice_net::worker_net::{WorkerNet, WorkerNetLimits};
use sluice_script::scripts::Scripts;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;

use crate::context::Context;
use crate::operator::late_watch;
use crate::questions::{self, WorkerQuestion};
use crate::serve::ExchangeService;
use crate::serve::gate::Gate;
use crate::serve::in_advance;
use crate::state::ServerState;
use sluice_net::addresses::NewListener;

/// The interval at which pools and connections check their time limits.
const TICK: Duration = Duration::from_secs(1);

/// How long a worker waits at its end for threads that read files: a disk may hang. Rewriting survives interruption (`sluice_files::records::stream_lf`).
const READ_TIMEOUT: Duration = Duration::from_secs(2);

struct Worker {
    context: Rc<Context>,
    /// In the order in which they end.
    parts: Rc<[Box<dyn Part>]>,
    tasks: Tasks,
    phases: watch::Receiver<Phase>,
}

/// The receiving ends of a worker: listeners come from the server, questions from the reports.
pub(crate) struct Inbox {
    pub(crate) listeners: mpsc::UnboundedReceiver<NewListener>,
    pub(crate) questions: mpsc::Receiver<WorkerQuestion>,
}

/// Runs a worker on its thread. Returns when all its connections and script processes have ended. `limits` are those of its connections.
pub(crate) fn run(
    index: usize,
    state: Arc<ServerState>,
    gate: &Arc<Gate>,
    limits: WorkerNetLimits,
    phases: watch::Receiver<Phase>,
    inbox: Inbox,
) {
    sluice_files::foreign::never_wait();
    let runtime = match event_loop::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!("worker {index}: {error}"),
    };
    let worker = Rc::new(Worker::new(index, state, limits, phases));
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let service = Rc::new(ExchangeService::new(&worker.context, gate));
        tokio::task::spawn_local(accept(
            Rc::clone(&worker.context.front),
            service,
            worker.tasks.clone(),
            inbox.listeners,
        ));
        let front = Rc::clone(&worker.context.front);
        tokio::task::spawn_local(async move { front.keep_send_budget().await });
        tokio::task::spawn_local(tick(Rc::clone(&worker.context), Rc::clone(&worker.parts)));
        tokio::task::spawn_local(event_loop::keep_thread());
        tokio::task::spawn_local(in_advance::start_wanted(Rc::clone(&worker.context)));
        tokio::task::spawn_local(questions::answer(Rc::clone(&worker.context), inbox.questions));
        // In a task of its own, because the loop polls this future in each of its turns.
        let worker = Rc::clone(&worker);
        let run = tokio::task::spawn_local(async move { worker.run().await });
        if let Some(panic) = run.await.err().and_then(|error| error.try_into_panic().ok()) {
            resume_unwind(panic);
        }
    });
    // Closes the connections that did not end in time; their scripts have been stopped.
    worker.tasks.close();
    drop(local);
    runtime.shutdown_timeout(READ_TIMEOUT);
}

async fn accept(
    front: Rc<WorkerNet>,
    service: Rc<ExchangeService>,
    tasks: Tasks,
    mut listeners: mpsc::UnboundedReceiver<NewListener>,
) {
    while let Some(NewListener { number, listener, closing }) = listeners.recv().await {
        let accept = listener::accept(Rc::clone(&front), Rc::clone(&service), listener, number, closing);
        tasks.spawn(accept);
    }
}

async fn tick(context: Rc<Context>, parts: Rc<[Box<dyn Part>]>) {
    let mut interval = tokio::time::interval(TICK);
    loop {
        interval.tick().await;
        context.read_clocks();
        parts.iter().for_each(|part| part.tick());
        late_watch::join(&context);
        context.fault_log.advance();
        if context.worker == 0 {
            context.state.statistics.note_second();
        }
        event_loop::prompt_allocator();
    }
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
        let context = Rc::new(Context::new(Rc::new(front), Rc::new(scripts), state));
        Worker {
            parts: parts::parts(&context, &tasks),
            context,
            tasks,
            phases,
        }
    }

    async fn run(&self) {
        self.context.front.closing().await;
        part::end(&self.parts, || phase::reached(&self.phases, Phase::Ending)).await;
    }
}
