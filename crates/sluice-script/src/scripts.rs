//! The script processes of one worker: those whose watcher runs on its thread.
//!
//! Here: the worker's means to start and watch processes. Not here: which process serves which request (`pool`).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::BytesMut;
use sluice_gateway::Variables;
use sluice_http::rate_limited_log::{RateLimitedLog, Suppressed};
use sluice_http::tasks::Tasks;
use sluice_launch::RemoteLauncher;

use crate::end_cause::EndCause;
use crate::misbehaviour::MisbehaviourLog;
use crate::process::Process;
use crate::resources::Resources;

/// Lines about processes that cannot be kept, within 10 seconds; further ones are counted.
const LINES_MAX: u32 = 100;

/// The script processes of one worker.
pub struct Scripts {
    /// The worker's index.
    pub worker: usize,
    launcher: Arc<RemoteLauncher>,
    /// Largest number of descriptors of a script, if bounded.
    pub(crate) open_files_max: Option<u64>,
    resources: Arc<Resources>,
    processes: RefCell<HashMap<i32, Weak<Process>>>,
    tasks: Tasks,
    pub(crate) misbehaviour: MisbehaviourLog,
    /// Faults that no client notices.
    limited: RateLimitedLog,
    /// Memory for the variables of the next request of a kept process.
    pub(crate) spare_variables: Cell<Variables>,
    /// Memory for the next short reply of a kept process.
    pub(crate) spare_room: Cell<BytesMut>,
    /// All processes are stopped, including those that are started later.
    is_stopping: Cell<bool>,
}

impl Scripts {
    /// No processes yet.
    pub fn new(
        worker: usize,
        launcher: Arc<RemoteLauncher>,
        open_files_max: Option<u64>,
        resources: Arc<Resources>,
        tasks: Tasks,
    ) -> Scripts {
        Scripts {
            worker,
            launcher,
            open_files_max,
            resources,
            processes: RefCell::default(),
            tasks,
            misbehaviour: MisbehaviourLog::default(),
            limited: RateLimitedLog::default(),
            spare_variables: Cell::default(),
            spare_room: Cell::default(),
            is_stopping: Cell::new(false),
        }
    }

    /// What starts processes.
    pub(crate) fn launcher(&self) -> &RemoteLauncher {
        &self.launcher
    }

    /// Warns of a script's fault that its client does not notice. Lines that repeat are counted, because a client can repeat its
    /// request.
    pub(crate) fn warn(&self, text: fmt::Arguments<'_>) {
        self.advance();
        if self.limited.admits(LINES_MAX, RateLimitedLog::INTERVAL, Instant::now()) {
            tracing::warn!("{text}");
        }
    }

    /// Logs the count of lines that were not logged, once their interval is over. The worker calls this once a second.
    pub fn advance(&self) {
        self.misbehaviour.advance();
        self.resources.advance();
        log_suppressed(self.limited.take_due(RateLimitedLog::INTERVAL, Instant::now()));
    }

    /// What the scripts of all workers may hold together.
    pub fn resources(&self) -> &Arc<Resources> {
        &self.resources
    }

    /// The tasks of the worker.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Tracks a script process and starts the task that watches it.
    pub(crate) fn track(self: &Rc<Self>, process: &Arc<Process>, watch: impl Future<Output = ()> + 'static) {
        let pid = process.pid;
        if self.is_stopping.get() {
            process.stop(EndCause::Shutdown);
        }
        self.processes.borrow_mut().insert(pid, Arc::downgrade(process));
        let scripts = Rc::clone(self);
        self.tasks.spawn(async move {
            watch.await;
            scripts.processes.borrow_mut().remove(&pid);
        });
    }

    /// Processes that have not been reaped.
    pub fn running(&self) -> usize {
        self.processes.borrow().len()
    }

    /// Stops every process, including those that are started later.
    pub fn stop(&self) {
        self.is_stopping.set(true);
        let processes: Vec<_> = self.processes.borrow().values().filter_map(Weak::upgrade).collect();
        for process in processes {
            process.stop(EndCause::Shutdown);
        }
    }
}

/// The last count is not lost.
impl Drop for Scripts {
    fn drop(&mut self) {
        log_suppressed(self.limited.take());
    }
}

fn log_suppressed(suppressed: Option<Suppressed>) {
    if let Some(suppressed) = suppressed {
        tracing::warn!("script processes after their replies: {suppressed}");
    }
}
