//! The tracer: how a connection or an exchange records events for WATCH.

mod bytes;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::allowance::Allowance;
use crate::candidate::Candidate;
use crate::event::{Content, Event};
use crate::filter::{FilterMatch, TracedAttributes};
use crate::hub::WorkerHub;
use crate::item::{Item, Items};
use crate::mask::Masks;
use crate::ring::Ring;
use crate::secrets::{HiddenSecrets, Secrets};
use crate::stage::Stage;
use crate::timing::{Phase, Timing};
use crate::watch::Queue;

pub use bytes::Scanned;

/// The tracer: how a connection or an exchange records events for WATCH. Records nothing while nobody watches: each note costs one comparison then.
///
/// An exchange has a place for a watch that begins later ([`Tracer::vacant`]). Its clones share it, so all its stages are watched from then on.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Rc<Trace>>);

/// The stage of an exchange, which is noted even if nobody watches, and its place for a watch.
#[derive(Debug, Default)]
struct Trace {
    stage: Cell<Stage>,
    watched: OnceCell<Rc<Inner>>,
}

/// The module of the event that says where an exchange was when a watch began.
const MODULE: &str = "watch";

#[derive(Debug)]
pub(crate) struct Inner {
    number: u64,
    began: Instant,
    id: Option<Arc<str>>,
    connection: Tracer,
    is_connection: bool,
    /// The items that at least one candidate wants.
    wanted: Cell<Items>,
    masks: Masks,
    timing: RefCell<Timing>,
    holds: Cell<u32>,
    has_ended: Cell<bool>,
    /// A connection that has sent everything, and has had no exchange since.
    is_idle: Cell<bool>,
    /// The values that are masked wherever they stand.
    hidden: RefCell<HiddenSecrets>,
    allowance: Rc<Allowance>,
    /// Bytes that were scanned of it since it last waited, or could have.
    scanned: Cell<usize>,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    attributes: TracedAttributes,
    candidates: Vec<Candidate>,
    ring: Ring,
}

impl Tracer {
    /// Nobody watches.
    pub const NONE: Tracer = Tracer(None);

    pub(crate) fn begin(
        worker: &WorkerHub,
        connection: Option<&Tracer>,
        attributes: TracedAttributes,
        candidates: Vec<Arc<Queue>>,
    ) -> Tracer {
        if let Some(connection) = connection.and_then(Tracer::inner) {
            connection.is_idle.set(false);
        }
        let inner = Inner::new(worker, connection, Instant::now(), attributes);
        inner.state.borrow_mut().candidates = candidates.into_iter().map(Candidate::new).collect();
        inner.decide();
        Tracer(Some(Rc::new(Trace {
            stage: Cell::default(),
            watched: OnceCell::from(inner),
        })))
    }

    /// A place for a watch: nobody watches yet.
    #[must_use]
    pub fn vacant() -> Tracer {
        Tracer(Some(Rc::default()))
    }

    /// Whether it is a place that nobody watches, and that no other exchange has: it can be that of the next one.
    #[must_use]
    pub fn is_reusable(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|place| place.watched.get().is_none() && Rc::strong_count(place) == 1)
    }

    /// Puts the tracer that has begun into its place.
    pub fn occupy(&self, begun: &Tracer) {
        if let (Some(place), Some(inner)) = (&self.0, begun.inner()) {
            // An exchange begins once.
            let _ = place.watched.set(Rc::clone(inner));
        }
    }

    /// Has an exchange in progress watched by these watches, which began after it. Its first event is `summary`, whatever they show. Not if it has no place.
    pub(crate) fn join_late(
        &self,
        worker: &WorkerHub,
        began: Instant,
        attributes: TracedAttributes,
        candidates: Vec<Arc<Queue>>,
        summary: impl FnOnce(&Masks) -> String,
    ) {
        let Some(place) = &self.0 else { return };
        let inner = place.watched.get_or_init(|| {
            let inner = Inner::new(worker, Some(&Tracer::NONE), began, attributes);
            inner.timing.borrow_mut().add(Phase::Unwatched, began.elapsed());
            inner
        });
        let summary = inner.event(Item::RequestHead, MODULE, Content::Text(summary(&inner.masks)));
        let candidates = candidates.into_iter();
        let candidates = candidates.map(|queue| Candidate::late(queue, Arc::clone(&summary)));
        inner.state.borrow_mut().candidates.extend(candidates);
        inner.decide();
    }

    /// Whether a watch may be shown an exchange that is in progress: not if it is or was among those that decided about it.
    pub(crate) fn may_join(&self, queue: &Arc<Queue>) -> bool {
        self.inner()
            .is_none_or(|inner| !inner.has_ended.get() && !inner.state.borrow().has(queue))
    }

    fn inner(&self) -> Option<&Rc<Inner>> {
        self.0.as_ref()?.watched.get()
    }

    /// Whether nobody watches.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.inner().is_none()
    }

    /// Whether somebody may want events of this item.
    #[must_use]
    pub fn wants(&self, item: Item) -> bool {
        self.inner().is_some_and(|inner| inner.wanted.get().contains(item))
    }

    /// Notes an event; `text` is called only if somebody may want it. `module` is the part of the server that notes it.
    pub fn note(&self, item: Item, module: &'static str, text: impl FnOnce() -> String) {
        if let Some(inner) = self.wanting(item) {
            inner.add(item, module, Content::Text(text()));
        }
    }

    /// The masks of the exchange; `None` if nobody watches.
    #[must_use]
    pub fn masks(&self) -> Option<&Masks> {
        self.inner().map(|inner| &inner.masks)
    }

    /// Notes that the exchange enters a stage, which ends the one before it. While nobody watches it costs one store and one comparison.
    pub fn stage(&self, stage: Stage) {
        self.stage_ago(stage, Duration::ZERO);
    }

    /// Notes that the exchange has entered a stage so much time ago.
    pub fn stage_ago(&self, stage: Stage, ago: Duration) {
        let Some(trace) = self.0.as_deref() else { return };
        let before = trace.stage.get();
        trace.stage.set(stage.after(before));
        let Some(inner) = self.wanting(Item::Timing) else {
            return;
        };
        if let Some(phase) = stage.moment(before) {
            inner.add_moment(phase, ago);
        }
    }

    /// The stage that the exchange is in. The first one if it has no place for a watch.
    #[must_use]
    pub fn current_stage(&self) -> Stage {
        self.0.as_deref().map_or_else(Stage::default, |trace| trace.stage.get())
    }

    /// Ends the last stage of the exchange, and notes where its time went.
    pub fn end_stages(&self, module: &'static str) {
        self.stage(Stage::Ended);
        self.note(Item::Timing, module, || {
            let timing = self.inner().map(|inner| inner.timing.borrow().to_string());
            timing.unwrap_or_default()
        });
    }

    /// Adds to what is known of the exchange; that may decide who is shown it.
    pub fn know(&self, add: impl FnOnce(&mut TracedAttributes)) {
        if let Some(inner) = self.inner() {
            add(&mut inner.state.borrow_mut().attributes);
            inner.decide();
        }
    }

    /// Ends the exchange: what is not known now never will be. Further events are shown only while there is a [`Hold`].
    pub fn end(&self) {
        let Some(inner) = self.inner() else { return };
        self.know(|attributes| attributes.is_ended = true);
        inner.has_ended.set(true);
        if inner.holds.get() == 0 {
            self.close();
        } else {
            let mut state = inner.state.borrow_mut();
            state.candidates.retain(|candidate| candidate.is_shown);
            drop(state);
            inner.decide();
        }
    }

    /// Has these secrets masked wherever they stand in further events of the exchange and of its connection.
    pub fn hide_secrets(&self, secrets: &Secrets) {
        if let Some(inner) = self.inner() {
            inner.hidden.borrow_mut().add(secrets);
            inner.connection.hide_secrets(secrets);
        }
    }

    /// Has events shown that come after the end of the exchange, until this is dropped: a script may go on.
    #[must_use]
    pub fn hold(&self) -> Hold {
        if let Some(inner) = self.inner() {
            inner.holds.set(inner.holds.get() + 1);
        }
        Hold(self.clone())
    }

    fn close(&self) {
        let Some(inner) = self.inner() else { return };
        let candidates = std::mem::take(&mut inner.state.borrow_mut().candidates);
        inner.wanted.set(Items::NONE);
        for candidate in candidates.iter().filter(|candidate| candidate.is_shown) {
            // The end of its response is sent later: its connection then ends the watch.
            let has_connection = inner.connection.leave(&candidate.queue);
            if candidate.queue.spec.once && !has_connection {
                candidate.queue.end();
            }
        }
    }

    /// Notes that the connection has sent everything of the exchanges that have ended: it is no longer shown because of them.
    pub fn sent(&self) {
        let Some(inner) = self.inner() else { return };
        let mut state = inner.state.borrow_mut();
        let State { attributes, candidates, .. } = &mut *state;
        for candidate in candidates.iter_mut().filter(|candidate| candidate.is_left()) {
            candidate.hide(attributes);
        }
    }

    /// Forgets the bytes and frames that an idle connection has noted: its exchanges have ended and everything was sent, so no watch can show them any more.
    pub fn forget_bytes(&self) {
        if let Some(inner) = self.inner() {
            inner.is_idle.set(true);
            let mut state = inner.state.borrow_mut();
            state.ring.forget_bytes();
            let candidates = state.candidates.iter_mut();
            candidates
                .filter(|candidate| !candidate.is_shown)
                .for_each(Candidate::forget_trigger);
        }
    }

    /// Whether some watch may be shown a request of the connection with this method and path.
    #[must_use]
    pub fn may_show(&self, method: &str, path: &str) -> bool {
        self.inner().is_some_and(|inner| {
            let state = inner.state.borrow();
            let mut filters = state.candidates.iter().map(|candidate| &candidate.queue.spec.filter);
            filters.any(|filter| filter.may_match_line(method, path))
        })
    }

    /// Whether no watch can show it any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let is_over = |inner: &Rc<Inner>| inner.state.borrow().candidates.is_empty();
        self.inner().is_none_or(is_over)
    }

    /// Adds the watches that have begun since the connection was accepted, and removes those that have ended.
    pub(crate) fn join(&self, list: &[Arc<Queue>]) {
        let Some(inner) = self.inner() else { return };
        let mut state = inner.state.borrow_mut();
        for queue in list {
            if !state.has(queue) && queue.spec.filter.decide(&state.attributes) != FilterMatch::Differs {
                state.candidates.push(Candidate::new(Arc::clone(queue)));
            }
        }
        drop(state);
        inner.decide();
    }

    pub(crate) fn downgrade(&self) -> Weak<Inner> {
        self.inner().map_or_else(Weak::new, Rc::downgrade)
    }

    fn wanting(&self, item: Item) -> Option<&Rc<Inner>> {
        self.inner().filter(|inner| inner.wanted.get().contains(item))
    }

    fn show(&self, queue: &Arc<Queue>) {
        let Some(inner) = self.inner() else { return };
        let mut state = inner.state.borrow_mut();
        let State { candidates, ring, .. } = &mut *state;
        if let Some(candidate) = candidates.iter_mut().find(|candidate| candidate.is_of(queue)) {
            candidate.exchanges += 1;
            if !candidate.is_shown {
                candidate.show(ring);
            }
        }
        drop(state);
        inner.decide();
    }

    /// Notes that an exchange that was shown has ended. False if this is not a connection that is shown because of it.
    fn leave(&self, queue: &Arc<Queue>) -> bool {
        let Some(inner) = self.inner() else { return false };
        let mut state = inner.state.borrow_mut();
        let State { attributes, candidates, .. } = &mut *state;
        let mut candidates = candidates.iter_mut();
        let Some(candidate) = candidates.find(|candidate| candidate.is_of(queue)) else {
            return false;
        };
        candidate.exchanges = candidate.exchanges.saturating_sub(1);
        if candidate.exchanges == 0 {
            // What has fired it belongs to the exchange that has ended.
            candidate.is_triggered = candidate.queue.spec.trigger.is_none();
            if inner.is_idle.get() {
                candidate.hide(attributes);
            }
        }
        true
    }

    fn is_triggered(&self, queue: &Arc<Queue>) -> bool {
        self.inner().is_some_and(|inner| {
            let state = inner.state.borrow();
            let mut candidates = state.candidates.iter();
            candidates.any(|candidate| candidate.is_of(queue) && candidate.is_triggered)
        })
    }
}

/// Keeps the watches of an exchange that has ended. Dropping the last one lets them go.
#[derive(Debug)]
pub struct Hold(Tracer);

impl Drop for Hold {
    fn drop(&mut self) {
        let Some(inner) = self.0.inner() else { return };
        inner.holds.set(inner.holds.get() - 1);
        if inner.holds.get() == 0 && inner.has_ended.get() {
            self.0.close();
        }
    }
}

impl State {
    fn has(&self, queue: &Arc<Queue>) -> bool {
        self.candidates.iter().any(|candidate| candidate.is_of(queue))
    }
}

impl Inner {
    /// A tracer without candidates. An exchange has a `connection`, even if nobody watches that.
    fn new(worker: &WorkerHub, connection: Option<&Tracer>, began: Instant, attributes: TracedAttributes) -> Rc<Inner> {
        let hub = worker.hub();
        Rc::new(Inner {
            number: hub.next_number(),
            began,
            id: attributes.id.as_deref().map(Arc::from),
            connection: connection.cloned().unwrap_or_default(),
            is_connection: connection.is_none(),
            wanted: Cell::default(),
            masks: hub.masks(),
            timing: RefCell::default(),
            holds: Cell::default(),
            has_ended: Cell::default(),
            is_idle: Cell::default(),
            hidden: RefCell::default(),
            allowance: Rc::clone(worker.allowance()),
            scanned: Cell::default(),
            state: RefCell::new(State {
                attributes,
                candidates: Vec::new(),
                ring: Ring::new(&hub.ring_bytes),
            }),
        })
    }

    fn add_moment(&self, phase: Phase, ago: Duration) {
        let at = self.began.elapsed().saturating_sub(ago);
        self.timing.borrow_mut().add(phase, at);
    }

    /// Decides again, because time has passed. Returns whether time can still decide something.
    pub(crate) fn decide_by_time(&self) -> bool {
        self.decide();
        let state = self.state.borrow();
        let is_open = |candidate: &Candidate| !candidate.is_shown && candidate.queue.spec.depends_on_time();
        state.candidates.iter().any(is_open)
    }

    fn event(&self, item: Item, module: &'static str, content: Content) -> Arc<Event> {
        Arc::new(Event {
            at: SystemTime::now(),
            since: self.began.elapsed(),
            module,
            item,
            number: self.number,
            connection: self.connection.inner().map(|connection| connection.number),
            id: self.id.clone(),
            content,
        })
    }

    fn add(&self, item: Item, module: &'static str, mut content: Content) {
        self.hidden.borrow_mut().mask(item, &mut content);
        let mut state = self.state.borrow_mut();
        let State { candidates, ring, .. } = &mut *state;
        let event = self.event(item, module, content);
        let (mut may_decide, mut is_kept) = (false, false);
        for candidate in candidates.iter_mut() {
            candidate.search(&event);
            let is_wanted = candidate.queue.spec.items.contains(item);
            if is_wanted && candidate.is_shown {
                candidate.deliver(&event);
            }
            may_decide |= !candidate.is_shown && candidate.may_decide_now();
            is_kept |= !candidate.is_shown && is_wanted;
        }
        if is_kept {
            ring.push(&event);
        }
        if may_decide {
            drop(state);
            self.decide();
        }
    }

    /// Shows the tracer to the watches that match now, and forgets those that do not.
    fn decide(&self) {
        let mut state = self.state.borrow_mut();
        let State { attributes, candidates, ring } = &mut *state;
        attributes.time = self.began.elapsed();
        candidates.retain_mut(|candidate| {
            if candidate.queue.is_ended() {
                return false;
            }
            if candidate.is_shown {
                return true;
            }
            if self.is_connection {
                if candidate.is_connection_shown_by_itself(attributes) {
                    candidate.show(ring);
                }
                return candidate.queue.spec.filter.decide(attributes) != FilterMatch::Differs;
            }
            let trigger = candidate.queue.spec.trigger.as_ref();
            candidate.is_triggered |= trigger.is_some_and(|trigger| trigger.fires(attributes));
            let is_triggered = candidate.is_triggered || self.connection.is_triggered(&candidate.queue);
            match candidate.queue.spec.filter.decide(attributes) {
                FilterMatch::Differs => false,
                FilterMatch::Matches if is_triggered => {
                    let may_show = candidate.queue.claim(self.number);
                    if may_show {
                        self.connection.show(&candidate.queue);
                        candidate.show(ring);
                    }
                    may_show
                }
                FilterMatch::Matches | FilterMatch::Undecided => true,
            }
        });
        let wanted = candidates.iter().map(|candidate| candidate.queue.spec.noted());
        self.wanted.set(wanted.fold(Items::NONE, Items::union));
        if candidates.iter().all(|candidate| candidate.is_shown) {
            ring.clear();
        }
    }
}

/// A connection that is closed before everything was sent.
impl Drop for Inner {
    fn drop(&mut self) {
        if self.is_connection {
            let State { attributes, candidates, .. } = self.state.get_mut();
            let left = candidates.iter_mut().filter(|candidate| candidate.is_left());
            left.for_each(|candidate| candidate.hide(attributes));
        }
    }
}
