//! The last events of a request of which it is undecided whether anybody is shown it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::event::{Content, Event};
use crate::item::Item;

/// Events of one request at most.
const EVENTS_MAX: usize = 512;

/// Bytes of the events of one request at most.
const BYTES_MAX: usize = 256 << 10;

/// Bytes of all rings of the server at most.
const TOTAL_BYTES_MAX: usize = 64 << 20;

/// The last events. Its memory counts towards the total of the server.
#[derive(Debug)]
pub(crate) struct Ring {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// Events that had to make room.
    pub(crate) lost: u64,
    total: Arc<AtomicUsize>,
}

impl Ring {
    pub(crate) fn new(total: &Arc<AtomicUsize>) -> Ring {
        Ring {
            events: VecDeque::new(),
            bytes: 0,
            lost: 0,
            total: Arc::clone(total),
        }
    }

    pub(crate) fn push(&mut self, event: &Arc<Event>) {
        let size = event.size();
        while !self.events.is_empty() && (self.events.len() >= EVENTS_MAX || self.bytes + size > BYTES_MAX) {
            self.drop_oldest();
        }
        while self.total.load(Ordering::Relaxed) + size > TOTAL_BYTES_MAX {
            if !self.drop_oldest() {
                self.lost += 1;
                return;
            }
        }
        self.total.fetch_add(size, Ordering::Relaxed);
        self.bytes += size;
        self.events.push_back(Arc::clone(event));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.events.iter()
    }

    pub(crate) fn clear(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
        self.events = VecDeque::new();
        self.bytes = 0;
        self.lost = 0;
    }

    pub(crate) fn forget_bytes(&mut self) {
        let (mut bytes, mut forgotten) = (0, 0);
        self.events.retain(|event| {
            let is_kept = matches!(event.content, Content::Text(_)) && event.item != Item::Http2;
            let of = if is_kept { &mut bytes } else { &mut forgotten };
            *of += event.size();
            is_kept
        });
        self.bytes = bytes;
        self.total.fetch_sub(forgotten, Ordering::Relaxed);
    }

    fn drop_oldest(&mut self) -> bool {
        let Some(event) = self.events.pop_front() else {
            return false;
        };
        self.bytes -= event.size();
        self.total.fetch_sub(event.size(), Ordering::Relaxed);
        self.lost += 1;
        true
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.clear();
    }
}
