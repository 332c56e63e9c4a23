//! The resources that the scripts of the whole server share: the budgets of all workers.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sluice_http::rate_limited_log::{RateLimitedLog, Suppressed};
use sluice_http::stored_body::BodyStorage;
use sluice_launch::{UNKNOWN_USER, deadline};
use sluice_membuf::{Budget, OverBudget, Segment, memory_total_bytes};
use sluice_settings::Settings;
use sluice_settings::limits::Limits;
use sluice_settings::open_error::OpenError;
use sluice_settings::permission::read_only_explained;
use tokio::sync::Notify;

use crate::pool::{PoolRecords, ProcessLimit, default_processes};
use crate::process::{PipeOwner, PipeThreads, ScriptLogs, default_environment, release};

/// Part of the memory that memory buffers may take by default.
const MEMORY_SHARE: u64 = 4;

/// The budgets that the scripts of the whole server share.
pub struct Resources {
    memory_buffers: Arc<Budget>,
    memory_refused: Mutex<RateLimitedLog>,
    pub(crate) stored_bodies: BodyStorage,
    pub(crate) processes: Arc<ProcessLimit>,
    /// The threads for the pipes of all script processes.
    pub(crate) pipes: PipeThreads,
    pub(crate) buffers: PipeThreads,
    pub(crate) script_logs: ScriptLogs,
    pub(crate) pool_records: PoolRecords,
    /// Wakes a worker when processes are to be started in advance.
    pub(crate) wanted: Arc<Notify>,
}

impl Resources {
    /// Creates the budgets of these settings.
    ///
    /// # Errors
    /// No file can be created in the directory for stored request bodies that the settings name.
    pub fn new(settings: &Settings) -> Result<Arc<Resources>, OpenError> {
        Resources::check(settings)?;
        // Made now, because it may wait for a directory server.
        default_environment();
        let processes = ProcessLimit::of_server(processes_max(&settings.limits));
        processes.set_soft_max(settings.limits.processes_soft_max);
        Ok(Arc::new(Resources {
            memory_buffers: Budget::new(memory_buffers_bytes_max(&settings.limits)),
            memory_refused: Mutex::default(),
            stored_bodies: BodyStorage::new(settings.limits.stored_bodies_bytes_max, spool_directory(settings)),
            processes,
            pipes: PipeThreads::new(),
            buffers: PipeThreads::for_buffers(),
            script_logs: ScriptLogs::new(settings.limits.script_log_bytes_max),
            pool_records: PoolRecords::default(),
            wanted: Arc::default(),
        }))
    }

    /// Checks the named directory for stored request bodies; not that for temporary files, which a server without large uploads does not need.
    ///
    /// # Errors
    /// No file can be created there.
    pub fn check(settings: &Settings) -> Result<(), OpenError> {
        let Some(directory) = &settings.spool_directory else {
            return Ok(());
        };
        let refuse = |error| {
            let error = read_only_explained(directory, error);
            OpenError::new(
                "",
                format!(
                    "[server] spool_directory {}: no file can be created in it: {error}",
                    directory.display()
                ),
            )
        };
        let asked = directory.clone();
        deadline::ask(directory, move || tempfile::tempfile_in(asked).map(drop)).map_err(refuse)
    }

    /// Sets the bounds of other settings. What exceeds them remains until it is released.
    pub fn apply(&self, settings: &Settings) {
        self.memory_buffers
            .set_bytes_max(memory_buffers_bytes_max(&settings.limits));
        self.stored_bodies
            .apply(settings.limits.stored_bodies_bytes_max, spool_directory(settings));
        self.processes.set_max(processes_max(&settings.limits));
        self.processes.set_soft_max(settings.limits.processes_soft_max);
        self.script_logs.set_bytes_max(settings.limits.script_log_bytes_max);
        // They may have been fixed, or belong to the settings of before.
        let records = self.pool_records.all();
        records.iter().for_each(|record| record.counts.failed.reset());
    }

    /// The most script processes that the server may run.
    pub fn processes_max(&self) -> usize {
        self.processes.max()
    }

    /// The script processes that run now.
    pub fn processes_running(&self) -> usize {
        self.processes.running()
    }

    /// A memory buffer without memory, for buffers of up to `bytes_max` bytes, whose process is not known yet.
    pub(crate) fn segment(&self, bytes_max: u64) -> std::io::Result<Segment> {
        Segment::create_within(
            &self.memory_buffers,
            bytes_max,
            release(&PipeOwner::ending(UNKNOWN_USER), &self.buffers),
        )
    }

    /// Logs the counts of lines that were not logged, once their interval is over. Any worker may call it at any time.
    pub(crate) fn advance(&self) {
        let now = Instant::now();
        self.script_logs.advance(now);
        log_suppressed(self.lock_memory_refused().take_due(RateLimitedLog::INTERVAL, now));
    }

    fn lock_memory_refused(&self) -> MutexGuard<'_, RateLimitedLog> {
        self.memory_refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs that a memory buffer was refused to a script. Lines that repeat are counted.
    pub(crate) fn log_memory_refused(&self, script: &str, over: OverBudget) {
        let (bytes, used_bytes, bytes_max) = (over.bytes, over.used_bytes, over.bytes_max);
        let now = Instant::now();
        let limited = self.lock_memory_refused();
        let suppressed = limited.take_due(RateLimitedLog::INTERVAL, now);
        let is_admitted = limited.admits(1, RateLimitedLog::INTERVAL, now);
        drop(limited);
        log_suppressed(suppressed);
        if is_admitted {
            tracing::warn!(
                script,
                "memory buffer refused: {bytes} bytes more than the {used_bytes} in use are over the limit of {bytes_max} \
                 (limits.memory_buffers)"
            );
        }
    }
}

impl Drop for Resources {
    fn drop(&mut self) {
        self.pipes.close_all();
        self.buffers.close_all();
        log_suppressed(self.lock_memory_refused().take());
    }
}

fn log_suppressed(suppressed: Option<Suppressed>) {
    if let Some(suppressed) = suppressed {
        tracing::warn!("memory buffer refused: {suppressed}");
    }
}

/// The configured bound on script processes, or what the machine can carry.
fn processes_max(limits: &Limits) -> usize {
    let processes = limits.processes_max.unwrap_or_else(default_processes);
    tracing::debug!("at most {processes} script processes (limits.processes)");
    processes
}

fn memory_buffers_bytes_max(limits: &Limits) -> u64 {
    let share = || memory_total_bytes().map_or(u64::MAX, |bytes| bytes / MEMORY_SHARE);
    limits.memory_buffers_bytes_max.unwrap_or_else(share)
}

fn spool_directory(settings: &Settings) -> Arc<Path> {
    let directory = settings.spool_directory.clone();
    directory.unwrap_or_else(std::env::temp_dir).into()
}
