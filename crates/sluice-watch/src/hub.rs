//! The active watches of the server.

use std::cell::RefCell;
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::allowance::Allowance;
use crate::filter::{FilterMatch, TracedAttributes, TracedRequest};
use crate::mask::Masks;
use crate::spec::Spec;
use crate::tracer::{Inner, Tracer};
use crate::watch::{Queue, Watch, Watcher};

/// From this number on, tracers that wait for the tick are removed earlier if they have ended.
const WAITING_CHECKED: usize = 1024;

/// The active watches. One per server.
#[derive(Debug, Default)]
pub struct Hub {
    /// 0 while there is no watch; otherwise another number whenever a watch comes or goes.
    generation: AtomicU64,
    watches: Mutex<Watches>,
    pub(crate) ring_bytes: Arc<AtomicUsize>,
    tracers: AtomicU64,
    masks: Mutex<Masks>,
}

#[derive(Debug, Default)]
struct Watches {
    list: Vec<Arc<Queue>>,
    changes: u64,
}

/// The bound that another watch would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The bound on all watches.
    All,
    /// The bound on watches of pages.
    OfPages,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::All => write!(
                f,
                "{} watches are active already: end one of them first",
                Hub::WATCHES_MAX
            ),
            Refused::OfPages => write!(
                f,
                "{} watches of pages are active already: end one of them first, or use sluice watch",
                Hub::PAGE_WATCHES_MAX
            ),
        }
    }
}

impl std::error::Error for Refused {}

impl Hub {
    /// Watches at once at most.
    pub const WATCHES_MAX: usize = 16;

    /// Watches of pages at once at most. The others are reserved for the control socket, whatever browsers do.
    pub const PAGE_WATCHES_MAX: usize = 12;

    /// A hub without watches.
    #[must_use]
    pub fn new() -> Arc<Hub> {
        Arc::default()
    }

    /// Whether anybody watches.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.generation() != 0
    }

    /// Begins a watch.
    ///
    /// # Errors
    /// There are too many.
    pub fn watch(self: &Arc<Hub>, spec: Spec) -> Result<Watch, Refused> {
        self.begin(spec, Watcher::Terminal)
    }

    /// Begins a watch of a page of the reports.
    ///
    /// # Errors
    /// There are too many.
    pub fn watch_of_page(self: &Arc<Hub>, spec: Spec) -> Result<Watch, Refused> {
        self.begin(spec, Watcher::Page)
    }

    fn begin(self: &Arc<Hub>, mut spec: Spec, watcher: Watcher) -> Result<Watch, Refused> {
        spec.octets_max = spec.octets_max.min(Spec::OCTETS_LIMIT);
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let of_pages = watches.list.iter().filter(|queue| queue.watcher == Watcher::Page);
        match watcher {
            Watcher::Page if of_pages.count() >= Hub::PAGE_WATCHES_MAX => return Err(Refused::OfPages),
            _ if watches.list.len() >= Hub::WATCHES_MAX => return Err(Refused::All),
            _ => {}
        }
        let queue = Arc::new(Queue::new(spec, watches.changes + 1, watcher));
        watches.list.push(Arc::clone(&queue));
        self.changed(&mut watches);
        Ok(Watch::new(Arc::clone(self), queue))
    }

    /// The specs of the active watches.
    #[must_use]
    pub fn specs(&self) -> Vec<Spec> {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.list.iter().map(|queue| queue.spec.clone()).collect()
    }

    /// Sets the masks of secrets for the connections and exchanges that begin from now on.
    pub fn set_masks(&self, masks: Masks) {
        *self.masks.lock().unwrap_or_else(PoisonError::into_inner) = masks;
    }

    /// The masks of secrets.
    #[must_use]
    pub fn masks(&self) -> Masks {
        self.masks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends all watches, because the server ends.
    pub fn end(&self) {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.list.iter().for_each(|queue| queue.end());
    }

    pub(crate) fn remove(&self, number: u64) {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.list.retain(|queue| queue.number != number);
        self.changed(&mut watches);
    }

    fn changed(&self, watches: &mut Watches) {
        watches.changes += 1;
        let generation = if watches.list.is_empty() { 0 } else { watches.changes };
        self.generation.store(generation, Ordering::Release);
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.tracers.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A worker's copy of the list of watches.
#[derive(Debug)]
pub struct WorkerHub {
    hub: Arc<Hub>,
    copy: RefCell<Copy>,
    /// Subjects that the passing of time can decide.
    waiting: RefCell<Vec<Weak<Inner>>>,
    /// Bytes that the worker scans for watches.
    allowance: Rc<Allowance>,
    shown: Allowance,
}

#[derive(Debug, Default)]
struct Copy {
    generation: u64,
    list: Rc<[Arc<Queue>]>,
}

impl WorkerHub {
    /// A worker's copy.
    #[must_use]
    pub fn new(hub: &Arc<Hub>) -> WorkerHub {
        WorkerHub {
            hub: Arc::clone(hub),
            copy: RefCell::default(),
            waiting: RefCell::default(),
            allowance: Rc::new(Allowance::new()),
            shown: Allowance::new(),
        }
    }

    /// The hub of the server.
    #[must_use]
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    pub(crate) fn allowance(&self) -> &Rc<Allowance> {
        &self.allowance
    }

    /// Makes the text of events that take so many bytes, for a page of the worker.
    pub fn show<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        self.shown.scan(bytes, work)
    }

    /// How long a page waits, because the worker has made enough texts for pages. `None` if it need not.
    #[must_use]
    pub fn show_wait(&self) -> Option<Duration> {
        self.shown.wait(Instant::now())
    }

    /// Whether anybody watches. One relaxed load.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.hub.is_on()
    }

    /// The generation of the list of watches: 0 while there is none, otherwise another number whenever a watch has come or gone. A
    /// connection that remembers it knows whether to ask for its tracer again. One relaxed load. It repeats after 2³² changes.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "said above")]
    pub fn generation(&self) -> u32 {
        self.hub.generation() as u32
    }

    /// The tracer of a connection, with the watches that are active now. `tracer` is the one that it has had so far.
    #[must_use]
    pub fn connection(&self, tracer: &Tracer, attributes: impl FnOnce() -> TracedAttributes) -> Tracer {
        if !self.is_on() {
            return Tracer::NONE;
        }
        let list = self.list();
        if tracer.is_none() {
            return self.begin(&list, None, attributes());
        }
        tracer.join(&list);
        match tracer.is_over() {
            true => Tracer::NONE,
            false => tracer.clone(),
        }
    }

    /// The tracer of an exchange on a connection; nothing if no watch can match what is known of it.
    #[must_use]
    pub fn exchange(&self, connection: &Tracer, attributes: impl FnOnce() -> TracedAttributes) -> Tracer {
        if !self.is_on() {
            return Tracer::NONE;
        }
        self.begin(&self.list(), Some(connection), attributes())
    }

    /// The tracer of a request on a connection: as `exchange`, but nothing is allocated for a request that no watch can match.
    #[must_use]
    pub fn request(&self, connection: &Tracer, request: &TracedRequest<'_>) -> Tracer {
        if !self.is_on() {
            return Tracer::NONE;
        }
        let list = self.list();
        match list.iter().any(|queue| queue.spec.filter.may_match(request)) {
            true => self.begin(&list, Some(connection), request.to_attributes()),
            false => Tracer::NONE,
        }
    }

    /// Whether a watch may show a request that is in progress, by what was known of it when it began. Nothing is allocated.
    #[must_use]
    pub fn may_join(&self, request: &TracedRequest<'_>) -> bool {
        let list = self.list();
        let mut specs = list.iter().map(|queue| &queue.spec);
        specs.any(|spec| spec.joins_requests() && spec.filter.may_match(request))
    }

    /// Has a request in progress watched by the watches that have begun since it did. `tracer` is its place, `began` is when its head was
    /// complete, and `summary` is the first event that they are shown: where it is. False if no watch that is new to it can match it.
    ///
    /// Its connection is not watched because of it: secrets in the bytes before are not known.
    pub fn join(
        &self,
        tracer: &Tracer,
        began: Instant,
        attributes: TracedAttributes,
        summary: impl FnOnce(&Masks) -> String,
    ) -> bool {
        let is_new = |queue: &&Arc<Queue>| {
            !queue.is_ended()
                && queue.spec.joins_requests()
                && queue.spec.filter.decide(&attributes) != FilterMatch::Differs
                && tracer.may_join(queue)
        };
        let candidates: Vec<_> = self.list().iter().filter(is_new).cloned().collect();
        if candidates.is_empty() {
            return false;
        }
        let depends_on_time = candidates.iter().any(|queue| queue.spec.depends_on_time());
        tracer.join_late(self, began, attributes, candidates, summary);
        if depends_on_time {
            self.wait(tracer);
        }
        true
    }

    /// Decides what the passing of time decides. To be called about once a second.
    pub fn tick(&self) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain(|tracer| match tracer.upgrade() {
            Some(tracer) => tracer.decide_by_time(),
            None => false,
        });
    }

    fn begin(&self, list: &[Arc<Queue>], parent: Option<&Tracer>, attributes: TracedAttributes) -> Tracer {
        let may_match =
            |queue: &&Arc<Queue>| !queue.is_ended() && queue.spec.filter.decide(&attributes) != FilterMatch::Differs;
        let candidates: Vec<Arc<Queue>> = list.iter().filter(may_match).cloned().collect();
        if candidates.is_empty() {
            return Tracer::NONE;
        }
        let depends_on_time = candidates.iter().any(|queue| queue.spec.depends_on_time());
        let tracer = Tracer::begin(self, parent, attributes, candidates);
        if depends_on_time && parent.is_some() {
            self.wait(&tracer);
        }
        tracer
    }

    fn wait(&self, tracer: &Tracer) {
        let mut waiting = self.waiting.borrow_mut();
        // Most requests are over before the next tick.
        if waiting.len() >= WAITING_CHECKED && waiting.len().is_power_of_two() {
            waiting.retain(|tracer| tracer.strong_count() > 0);
        }
        waiting.push(tracer.downgrade());
    }

    fn list(&self) -> Rc<[Arc<Queue>]> {
        let generation = self.hub.generation();
        let mut copy = self.copy.borrow_mut();
        if copy.generation != generation {
            let watches = self.hub.watches.lock().unwrap_or_else(PoisonError::into_inner);
            copy.list = watches.list.iter().cloned().collect();
            copy.generation = generation;
        }
        Rc::clone(&copy.list)
    }
}
