//! The connection as WATCH sees it: who watches it, and whether its bytes are wanted.
//!
//! Not here: the bytes (`watched_bytes`), and the events (`connection_events`).

use std::cell::{Cell, RefCell};

use sluice_watch::Subject;

/// The watches of a connection.
pub struct Watched {
    /// The subject with which it notes events for WATCH.
    subject: RefCell<Subject>,
    /// The generation of the list of watches when the subject was looked up.
    generation: Cell<u32>,
    /// Somebody may want to be shown the bytes of the exchange in progress.
    are_octets_wanted: Cell<bool>,
    /// Exchanges in progress that carry the events of a watch: the connection notes none meanwhile, because each would cause others.
    carried: Cell<u16>,
    /// The last events of such an exchange may wait to be sent.
    has_unsent_events: Cell<bool>,
}

impl Watched {
    pub(crate) fn by_nobody() -> Watched {
        Watched {
            subject: RefCell::new(Subject::NONE),
            generation: Cell::new(0),
            are_octets_wanted: Cell::new(true),
            carried: Cell::new(0),
            has_unsent_events: Cell::new(false),
        }
    }

    /// The subject with which it notes events for WATCH: nothing if nobody watched when it was last looked up (`WorkerNet::subject`).
    pub fn subject(&self) -> Subject {
        self.subject.borrow().clone()
    }

    /// Whether somebody watches it.
    pub(crate) fn is_watched(&self) -> bool {
        !self.subject.borrow().is_none()
    }

    /// The generation of the list of watches when the subject was looked up.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.get()
    }

    pub(crate) fn set_subject(&self, subject: Subject, generation: u32) {
        self.subject.replace(subject);
        self.generation.set(generation);
    }

    pub(crate) fn set_octets_wanted(&self, are_wanted: bool) {
        self.are_octets_wanted.set(are_wanted);
    }

    /// Whether the bytes that come next may be those of an exchange that somebody watches.
    pub(crate) fn are_octets_wanted(&self) -> bool {
        self.are_octets_wanted.get()
    }

    /// Notes that an exchange carries the events of a watch: nothing is noted until it ends.
    pub(crate) fn begin_carrying(&self) {
        self.carried.update(|count| count + 1);
        self.subject.replace(Subject::NONE);
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
