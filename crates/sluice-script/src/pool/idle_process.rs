//! A process between two exchanges, with everything that its next one needs.

use std::sync::Arc;

use sluice_gateway::{RequestEncoding, Scanner};

use crate::pool::ProcessId;
use crate::process::{Channels, KeptTimer, Process};

pub(crate) struct IdleProcess {
    pub process: Arc<Process>,
    /// Boxed, as the scanner, because each request moves an idle process several times.
    pub channels: Box<Channels>,
    /// The worker whose event loop its channels belong to.
    pub worker: usize,
    /// The encoding of its next request.
    pub encoding: RequestEncoding,
    pub scanner: Box<Scanner>,
    /// The timer of its last exchange, of the same worker.
    pub timer: KeptTimer,
}

/// The idle processes of a pool. There are few, so that a search is faster than a hash of the number; the last that became idle, which
/// the pool lends first, is found first.
#[derive(Default)]
pub(crate) struct IdleProcesses(Vec<(ProcessId, IdleProcess)>);

impl IdleProcesses {
    pub(crate) fn insert(&mut self, id: ProcessId, idle: IdleProcess) {
        self.0.push((id, idle));
    }

    /// Takes a process out. `None` if it is not here.
    pub(crate) fn remove(&mut self, id: ProcessId) -> Option<IdleProcess> {
        let at = self.0.iter().rposition(|(other, _)| *other == id)?;
        Some(self.0.remove(at).1)
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = IdleProcess> {
        self.0.drain(..).map(|(_, idle)| idle)
    }
}
