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

/// The idle processes of a pool. There are few, so that a search is faster than a hash of the number.
pub(crate) type IdleProcesses = Vec<(ProcessId, IdleProcess)>;

/// Takes a process out; the last that became idle, which the pool lends first, is found first.
pub(crate) fn take_idle(idle: &mut IdleProcesses, id: ProcessId) -> Option<IdleProcess> {
    let at = idle.iter().rposition(|(other, _)| *other == id)?;
    Some(idle.remove(at).1)
}
