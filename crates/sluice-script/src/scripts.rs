//! All that the scripts of one worker share: its processes, budgets, log lines and spare memory.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use sluice_gateway::Variables;
use sluice_http::rate_limited_log::{RateLimitedLog, Suppressed};
use sluice_http::tasks::Tasks;
use sluice_launch::RemoteLauncher;

use crate::process::{MisbehaviourLog, Processes};
use crate::resources::Resources;

/// Lines about processes that cannot be kept, within 10 seconds; further ones are counted.
const LINES_MAX: u32 = 100;

/// All that the scripts of one worker share.
pub struct Scripts {
    /// The worker's index.
    pub worker: usize,
    pub(crate) processes: Rc<Processes>,
    /// Largest number of descriptors of a script, if bounded.
    pub(crate) open_files_max: Option<u64>,
    resources: Arc<Resources>,
    pub(crate) misbehaviour: MisbehaviourLog,
    /// Faults that no client notices.
    limited: RateLimitedLog,
    /// Memory for the variables of the next request of a kept process.
    pub(crate) spare_variables: Cell<Variables>,
    /// Memory for the next short reply of a kept process.
    pub(crate) spare_room: Cell<BytesMut>,
}

impl Scripts {
    /// Creates the scripts of a worker, without processes.
    pub fn new(
        worker: usize,
        launcher: Arc<RemoteLauncher>,
        open_files_max: Option<u64>,
        resources: Arc<Resources>,
        tasks: Tasks,
    ) -> Scripts {
        Scripts {
            worker,
            processes: Processes::new(launcher, [resources.pipes.clone(), resources.buffers.clone()], tasks),
            open_files_max,
            resources,
            misbehaviour: MisbehaviourLog::default(),
            limited: RateLimitedLog::default(),
            spare_variables: Cell::default(),
            spare_room: Cell::default(),
        }
    }

    /// Warns of a script's fault that its client does not notice. Lines that repeat are counted: a client can repeat its request.
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
        self.resources.pipes.advance();
        self.resources.buffers.advance();
        log_suppressed(self.limited.take_due(RateLimitedLog::INTERVAL, Instant::now()));
    }

    /// The budgets that the scripts of all workers share.
    pub fn resources(&self) -> &Arc<Resources> {
        &self.resources
    }

    /// The tasks of the worker.
    pub fn tasks(&self) -> &Tasks {
        &self.processes.tasks
    }

    /// Processes that have not been reaped.
    pub fn running(&self) -> usize {
        self.processes.running()
    }

    /// Stops every process, including those that are started later.
    pub fn stop(&self) {
        self.processes.stop();
    }
}

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
