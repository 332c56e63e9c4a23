//! The connection as WATCH sees it: who watches it, and whether its bytes are wanted.

use std::cell::{Cell, RefCell};

use sluice_watch::Tracer;

/// The watches of a connection.
#[derive(Default)]
pub(crate) struct Watched {
    /// The tracer with which it notes events for WATCH.
    tracer: RefCell<Tracer>,
    /// The generation of the list of watches when the tracer was looked up.
    pub(crate) generation: Cell<u32>,
    /// Nobody wants to be shown the bytes of the exchange in progress.
    pub(crate) skips_octets: Cell<bool>,
    /// Exchanges in progress that carry the events of a watch: the connection notes none meanwhile, because each would cause others.
    carried: Cell<u16>,
    /// The last events of such an exchange may wait to be sent.
    has_unsent_events: Cell<bool>,
}

impl Watched {
    /// The tracer with which it notes events for WATCH: nothing if nobody watched when it was last looked up (`WorkerNet::tracer`).
    pub(crate) fn tracer(&self) -> Tracer {
        self.tracer.borrow().clone()
    }

    pub(crate) fn is_watched(&self) -> bool {
        !self.tracer.borrow().is_none()
    }

    pub(crate) fn set_tracer(&self, tracer: Tracer, generation: u32) {
        self.tracer.replace(tracer);
        self.generation.set(generation);
    }

    /// Notes that an exchange carries the events of a watch: nothing is noted until it ends.
    pub(crate) fn begin_carrying(&self) {
        self.carried.update(|count| count + 1);
        self.tracer.replace(Tracer::NONE);
    }

    /// Notes that such an exchange has ended. Who watches is looked up again.
    pub(crate) fn end_carrying(&self) {
        self.carried.update(|count| count - 1);
        self.has_unsent_events.set(true);
        self.generation.set(0);
    }

    /// Whether the connection carries the events of a watch. `has_chunks`: whether bytes of responses are still to be sent.
    pub(crate) fn carries_events(&self, has_chunks: impl FnOnce() -> bool) -> bool {
        if self.carried.get() == 0 && self.has_unsent_events.get() {
            self.has_unsent_events.set(has_chunks());
        }
        self.carried.get() > 0 || self.has_unsent_events.get()
    }
}
