//! A script process as reports and WATCH show it.

use std::time::{Duration, Instant};

use sluice_http::request_id::UniqueId;
use sluice_launch::Exit;

use super::Process;
use crate::process::{EndCause, EndedProcess};

/// A process at one moment, for reports.
pub(crate) struct ProcessView {
    pub pid: i32,
    /// The number of its user.
    pub user: u32,
    pub started: Instant,
    pub uses: u64,
    pub exchange: Option<UniqueId>,
    /// The script that an engine runs in it.
    pub script: Option<Box<str>>,
    pub is_draining: bool,
    /// Why it ends; `None` if it does not, or by itself.
    pub end_cause: Option<EndCause>,
}

/// The writer of a line of standard error, as the log names it.
#[derive(PartialEq)]
pub(crate) struct LineSource {
    /// The file of the script, or of the program between two exchanges.
    pub script: String,
    pub exchange: Option<UniqueId>,
    /// The script is one of many that the process runs.
    pub is_run_by_engine: bool,
}

impl Process {
    /// Keeps the lines of its standard error until the exchange ends, for `take_watched_lines`.
    pub(crate) fn watch_lines(&self) {
        self.lock().watched_lines = Some(Vec::new());
    }

    /// The lines of its standard error since the last call, if somebody watches the exchange.
    pub(crate) fn take_watched_lines(&self) -> Vec<Box<str>> {
        let mut state = self.lock();
        state.watched_lines.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn view(&self) -> ProcessView {
        let state = self.lock();
        ProcessView {
            pid: self.pid,
            user: self.user,
            started: self.started.into_std(),
            uses: state.uses,
            exchange: state.exchange,
            script: state.script.clone(),
            is_draining: state.is_draining,
            end_cause: state.end_cause,
        }
    }

    /// Why the server has ended it, after its exit status; empty if it has ended by itself.
    pub(super) fn end_reason(&self) -> String {
        let cause = self.view().end_cause;
        cause.map(|cause| format!(" ({cause})")).unwrap_or_default()
    }

    pub(super) fn end_record(&self, exit: Exit) -> EndedProcess {
        let view = self.view();
        EndedProcess {
            pid: view.pid,
            cause: view.end_cause,
            exit,
            uses: view.uses,
            lived: view.started.elapsed(),
            limit: self.lock().limit.clone(),
        }
    }
}
