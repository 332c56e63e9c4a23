//! What the scripts of the whole server may hold together: shared by all workers.
//!
//! Here: the budgets, their log lines, and their bounds after a reload. Not here: who reserves how much (`buffer`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sluice_membuf::{Budget, Garbage, OverBudget, Segment, memory_total_bytes};
use sluice_settings::limits::Limits;
use tokio::runtime::Handle;

/// Part of the memory that memory buffers may take by default.
const MEMORY_SHARE: u64 = 4;

/// The time between two lines about one budget.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// What the scripts of the whole server may hold together.
pub struct Resources {
    memory_buffers: Arc<Budget>,
    memory_log: RefusalLog,
}

impl Resources {
    /// With the bounds of these limits.
    pub fn new(limits: &Limits) -> Arc<Resources> {
        Arc::new(Resources {
            memory_buffers: Budget::new(memory_buffers_bytes_max(limits)),
            memory_log: RefusalLog::default(),
        })
    }

    /// Sets the bounds of other limits. What exceeds them remains until it is released.
    pub fn apply(&self, limits: &Limits) {
        self.memory_buffers.set_bytes_max(memory_buffers_bytes_max(limits));
    }

    /// A memory buffer without memory, for buffers of up to `bytes_max` bytes.
    ///
    /// # Errors
    /// As of [`Segment::create_within`].
    pub(crate) fn segment(&self, bytes_max: u64) -> std::io::Result<Segment> {
        Segment::create_within(&self.memory_buffers, bytes_max, release)
    }

    /// Logs that a memory buffer was refused to a script, unless that was logged a moment ago.
    pub(crate) fn log_memory_refused(&self, script: &str, over: OverBudget) {
        let OverBudget {
            bytes,
            used_bytes,
            bytes_max,
        } = over;
        self.memory_log.log(|suppressed| {
            tracing::warn!(
                script,
                suppressed,
                "memory buffer refused: {bytes} bytes more than the {used_bytes} in use are over the limit of {bytes_max} \
                 (limits.memory_buffers)"
            );
        });
    }
}

fn memory_buffers_bytes_max(limits: &Limits) -> u64 {
    let share = || memory_total_bytes().map_or(u64::MAX, |bytes| bytes / MEMORY_SHARE);
    limits.memory_buffers_bytes_max.unwrap_or_else(share)
}

/// Releases memory on a blocking thread, because that may take milliseconds.
fn release(garbage: Garbage) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(garbage))),
        // The event loop has ended.
        Err(_) => drop(garbage),
    }
}

/// A rate limit for the lines about one budget, of all threads.
#[derive(Default)]
struct RefusalLog(Mutex<Refusals>);

#[derive(Default)]
struct Refusals {
    logged_at: Option<Instant>,
    suppressed: u64,
}

impl RefusalLog {
    /// Calls `log` with the number of lines that were suppressed since the last one, or only counts this line.
    fn log(&self, log: impl FnOnce(u64)) {
        let mut refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.logged_at.is_some_and(|at| at.elapsed() < LOG_INTERVAL) {
            refusals.suppressed += 1;
            return;
        }
        refusals.logged_at = Some(Instant::now());
        let suppressed = std::mem::take(&mut refusals.suppressed);
        drop(refusals);
        log(suppressed);
    }
}
