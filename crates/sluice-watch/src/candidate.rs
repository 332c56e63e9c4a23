//! A watch that may show a connection or an exchange: the part that was shown so far, and the trigger.

use std::sync::Arc;

use crate::event::{Content, Direction, Event};
use crate::filter::{FilterMatch, TracedAttributes};
use crate::item::Item;
use crate::pattern::Search;
use crate::ring::Ring;
use crate::watch::Queue;

#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) queue: Arc<Queue>,
    pub(crate) is_shown: bool,
    /// Whether the trigger has fired, or there is none.
    pub(crate) is_triggered: bool,
    /// Bytes that may still be shown.
    pub(crate) octets_left: usize,
    /// The search for the trigger's bytes, in both directions.
    searches: [Search; 2],
    /// Exchanges of this connection that are shown.
    pub(crate) exchanges: u32,
    /// Where the exchange was when the watch began: shown first.
    summary: Option<Arc<Event>>,
}

impl Candidate {
    pub(crate) fn new(queue: Arc<Queue>) -> Candidate {
        Candidate {
            is_shown: false,
            is_triggered: queue.spec.trigger.is_none(),
            octets_left: queue.spec.octets_max,
            searches: Default::default(),
            exchanges: 0,
            summary: None,
            queue,
        }
    }

    pub(crate) fn is_of(&self, queue: &Arc<Queue>) -> bool {
        Arc::ptr_eq(&self.queue, queue)
    }

    /// A watch that has begun within the exchange.
    pub(crate) fn late(queue: Arc<Queue>, summary: Arc<Event>) -> Candidate {
        Candidate { summary: Some(summary), ..Candidate::new(queue) }
    }

    /// Whether a connection is shown without one of its exchanges: the watch says nothing about requests. That of a proxy, whose clients
    /// are known only by their requests, is not if the watch wants one client.
    pub(crate) fn is_connection_shown_by_itself(&self, attributes: &TracedAttributes) -> bool {
        let spec = &self.queue.spec;
        let is_of_connections =
            spec.filter.is_of_connections() && spec.filter.decide(attributes) == FilterMatch::Matches;
        is_of_connections && spec.trigger.is_none() && !spec.once
    }

    /// Whether a connection is shown only because of exchanges that have ended.
    pub(crate) fn is_left(&self) -> bool {
        self.is_shown && self.exchanges == 0
    }

    /// Shows a connection no more, unless it is shown by itself.
    pub(crate) fn hide(&mut self, attributes: &TracedAttributes) {
        if self.is_connection_shown_by_itself(attributes) {
            return;
        }
        if self.queue.spec.once {
            self.queue.end();
        }
        *self = Candidate::new(Arc::clone(&self.queue));
    }

    /// Waits for the trigger again: what has fired it belongs to exchanges that have ended.
    pub(crate) fn forget_trigger(&mut self) {
        self.is_triggered = self.queue.spec.trigger.is_none();
        self.searches = Default::default();
    }

    pub(crate) fn show(&mut self, ring: &Ring) {
        self.is_shown = true;
        if let Some(summary) = self.summary.take() {
            self.queue.push(&summary);
        }
        if ring.lost > 0 {
            self.queue.count_lost(ring.lost);
        }
        for event in ring.iter() {
            if self.queue.spec.items.contains(event.item) {
                self.deliver(event);
            }
        }
    }

    /// Delivers an event, with so many bytes as may still be shown.
    pub(crate) fn deliver(&mut self, event: &Arc<Event>) {
        let Content::Bytes { direction, bytes, omitted } = &event.content else {
            self.queue.push(event);
            return;
        };
        if bytes.len() <= self.octets_left {
            self.octets_left -= bytes.len();
            self.queue.push(event);
        } else if self.octets_left > 0 {
            let shown = std::mem::take(&mut self.octets_left);
            let content = Content::Bytes {
                direction: *direction,
                bytes: bytes[..shown].to_vec(),
                omitted: bytes.len() - shown + omitted,
            };
            let event = Event { content, ..Event::clone(event) };
            self.queue.push(&Arc::new(event));
        }
    }

    /// Whether an event can decide something, or the time that has passed. Else only what becomes known can (`Tracer::know`).
    pub(crate) fn may_decide_now(&self) -> bool {
        let trigger = self.queue.spec.trigger.as_ref();
        self.queue.spec.depends_on_time() || trigger.is_some_and(|trigger| trigger.bytes.is_some())
    }

    /// Whether its trigger may still be found in bytes of this item.
    pub(crate) fn searches_in(&self, item: Item) -> bool {
        let trigger = self.queue.spec.trigger.as_ref();
        let has_bytes = trigger.is_some_and(|trigger| trigger.bytes.is_some());
        has_bytes && !self.is_triggered && crate::Trigger::SEARCHED.contains(item)
    }

    pub(crate) fn search(&mut self, event: &Event) {
        let spec = &self.queue.spec;
        let bytes = spec.trigger.as_ref().and_then(|trigger| trigger.bytes.as_ref());
        let Some(text) = bytes.filter(|_| self.searches_in(event.item)) else {
            return;
        };
        let [received, sent] = &mut self.searches;
        self.is_triggered = match &event.content {
            Content::Text(shown) => shown.contains(text.as_str()),
            Content::Bytes { direction, bytes, .. } => match direction {
                Direction::Received => received.find(text.as_bytes(), bytes),
                Direction::Sent => sent.find(text.as_bytes(), bytes),
            },
        };
    }
}

/// How many bytes of an event somebody may be shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OctetsRoom {
    /// Bytes to copy: more than are shown, where a trigger is searched in them, or a mask must see them.
    pub(crate) copied: usize,
    pub(crate) shown: usize,
}

impl OctetsRoom {
    pub(crate) fn of(candidates: &[Candidate], item: Item) -> OctetsRoom {
        let mut room = OctetsRoom::default();
        for candidate in candidates {
            let spec = &candidate.queue.spec;
            if spec.items.contains(item) {
                room.shown = room.shown.max(candidate.octets_left);
            }
            // While it is undecided, the next bytes are noted, too.
            let needs_all = !candidate.is_shown && spec.noted().contains(item);
            room.copied = if needs_all {
                usize::MAX
            } else {
                room.copied.max(room.shown)
            };
        }
        if candidates.iter().any(|candidate| candidate.searches_in(item)) {
            room.shown = usize::MAX;
        }
        room
    }
}
