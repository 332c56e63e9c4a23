//! A process between two exchanges, with everything that its next one needs.
//!
//! Not here: which request gets it (`pool`).

use std::sync::Arc;

use sluice_gateway::{RequestEncoding, Scanner};
use sluice_membuf::Segment;

use crate::idle_timer::KeptTimer;
use crate::process::{Channels, Process};

/// A live process between exchanges.
pub(crate) struct IdleProcess {
    pub process: Arc<Process>,
    pub channels: Channels,
    /// The worker whose event loop its channels belong to.
    pub worker: usize,
    /// The encoding of its next request.
    pub encoding: RequestEncoding,
    pub scanner: Box<Scanner>,
    /// The timer of its last exchange, of the same worker.
    pub timer: KeptTimer,
}

impl IdleProcess {
    pub(crate) fn with_segment(mut self, segment: Segment) -> IdleProcess {
        self.channels.segment = Some(segment);
        self
    }
}
