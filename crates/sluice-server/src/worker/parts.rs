//! The parts of a worker, in the order in which they end: connections, then scripts.

use std::future::ready;
use std::rc::Rc;
use std::time::Duration;

use sluice_http::part::{Part, Pending};
use sluice_http::tasks::Tasks;
use tokio::time::timeout;

use crate::context::Context;
use crate::serve::in_advance::{self, Lookups};

/// How long idle connections may still send a request after another server has taken over: no client that is about to ask may find its connection closed.
const REPLACED_GRACE: Duration = Duration::from_secs(3);

/// How long a worker waits at last for its script processes, which were sent SIGKILL long before.
const REAP_TIMEOUT: Duration = Duration::from_secs(20);

/// The parts of a worker whose tasks are these. Another one is a line here.
pub(super) fn parts(context: &Rc<Context>, tasks: &Tasks) -> Rc<[Box<dyn Part>]> {
    let connections = Connections { context: Rc::clone(context), tasks: tasks.clone() };
    let scripts = ScriptProcesses {
        context: Rc::clone(context),
        lookups: Rc::default(),
        tasks: tasks.clone(),
    };
    Rc::new([Box::new(connections), Box::new(scripts)])
}

struct Connections {
    context: Rc<Context>,
    tasks: Tasks,
}

impl Part for Connections {
    fn tick(&self) {
        self.context.front.advance();
    }

    fn drain(&self) -> Pending<'_> {
        Box::pin(async move {
            let front = &self.context.front;
            front.replace();
            // Only a server that was replaced waits here: otherwise it drains already.
            let _ = timeout(REPLACED_GRACE, front.draining()).await;
            front.drain();
            let limit = self.context.config().limits.drain_timeout;
            let _ = timeout(limit, self.all_idle()).await;
        })
    }

    /// The worker closes what is left when its event loop ends.
    fn idle(&self) -> Pending<'_> {
        Box::pin(ready(()))
    }
}

impl Connections {
    /// Waits until no worker has an exchange under way: a process started by this worker may serve another one.
    async fn all_idle(&self) {
        // Until only the tasks that wait for a process to exit are left.
        while self.tasks.running() > self.context.scripts.running() {
            self.tasks.ended().await;
        }
        let busy_workers = &self.context.state.busy_workers;
        busy_workers.send_modify(|count| *count -= 1);
        let _ = busy_workers.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// The script processes of a worker. The pools of the configuration belong to all workers; the first one sees to them.
struct ScriptProcesses {
    context: Rc<Context>,
    lookups: Rc<Lookups>,
    tasks: Tasks,
}

impl Part for ScriptProcesses {
    fn tick(&self) {
        self.context.scripts.advance();
        // Loading it also drops a configuration that was replaced; its processes end when its last holder drops it.
        let config = self.context.config();
        if self.context.worker > 0 {
            return;
        }
        in_advance::prepare(&config, self.context.scripts.resources(), &self.lookups);
        for route in config.script_routes() {
            route.pools.tick();
        }
    }

    /// Idle processes are asked to exit (end of file on CGIPLUSIN); those that have not ended by then are sent a signal.
    fn drain(&self) -> Pending<'_> {
        Box::pin(async move {
            let config = self.context.config();
            let routes = || config.script_routes();
            routes().for_each(|route| route.pools.close());
            let grace = routes()
                .map(|route| route.settings.timeouts.kill_grace)
                .max()
                .unwrap_or_default();
            let _ = timeout(grace, self.without_processes()).await;
        })
    }

    fn idle(&self) -> Pending<'_> {
        Box::pin(async move {
            self.context.scripts.stop();
            if timeout(REAP_TIMEOUT, self.without_processes()).await.is_err() {
                let worker = self.context.worker;
                tracing::error!("worker {worker}: some script processes cannot be ended");
            }
        })
    }
}

impl ScriptProcesses {
    async fn without_processes(&self) {
        while self.context.scripts.running() > 0 {
            self.tasks.ended().await;
        }
    }
}
