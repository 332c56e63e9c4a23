//! Bytes noted for WATCH: no more is copied, masked and searched than somebody may be shown, and each byte is charged to the worker's allowance.

use std::time::{Duration, Instant};

use crate::allowance::FREE_BYTES;
use crate::candidate::OctetsRoom;
use crate::event::{Content, Direction};
use crate::item::{Item, Items};
use crate::tracer::{Inner, Tracer};

/// Whether a mask has seen all bytes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// The mask has seen all of them.
    All,
    /// The mask has missed some, because nobody is shown them.
    Part,
}

impl Tracer {
    /// Notes bytes, masked; `bytes` is called only if somebody may want them.
    pub fn note_bytes(&self, item: Item, module: &'static str, direction: Direction, bytes: impl FnOnce() -> Vec<u8>) {
        let Some(inner) = self.wanting(item) else { return };
        let bytes = bytes();
        inner.scan(bytes.len(), || {
            let content = Content::Bytes { direction, bytes, omitted: 0 };
            inner.add(item, module, content);
        });
    }

    /// Notes the bytes of several parts, one after the other, masked by `mask`. No more is copied than somebody may still be shown.
    ///
    /// `Scanned::Part` says that the mask has not seen all of them: it does not know where the next ones stand.
    pub fn note_copy(
        &self,
        item: Item,
        module: &'static str,
        direction: Direction,
        parts: &[&[u8]],
        mask: impl FnOnce(&mut [u8]),
    ) -> Scanned {
        let length = parts.iter().map(|part| part.len()).sum();
        let Some(inner) = self.wanting(item) else {
            return Scanned::Part;
        };
        let room = OctetsRoom::of(&inner.state.borrow().candidates, item);
        let copied = room.copied.min(length);
        if copied > 0 {
            inner.scan(copied, || {
                let mut copy = Vec::with_capacity(copied);
                for part in parts {
                    copy.extend_from_slice(&part[..part.len().min(copied - copy.len())]);
                }
                mask(&mut copy);
                copy.truncate(room.shown);
                let omitted = length - copy.len();
                let content = Content::Bytes { direction, bytes: copy, omitted };
                inner.add(item, module, content);
            });
        }
        match copied < length {
            true => Scanned::Part,
            false => Scanned::All,
        }
    }

    /// Notes an event for which the worker does as much as for so many bytes: a frame that was read, for example.
    pub fn note_charged(&self, item: Item, module: &'static str, bytes: usize, text: impl FnOnce() -> String) {
        if let Some(inner) = self.wanting(item) {
            inner
                .allowance
                .scan(bytes, || inner.add(item, module, Content::Text(text())));
        }
    }

    /// How long its next bytes must wait, because many of its own were scanned, and the worker has scanned enough for all watches. `None` if they need
    /// not, or if no byte of these items is scanned any more. To be asked once before they are read or written: who has waited goes on.
    #[must_use]
    pub fn bytes_wait(&self, items: Items) -> Option<Duration> {
        let inner = self.inner().filter(|inner| inner.scanned.get() > FREE_BYTES)?;
        inner.scanned.set(0);
        let wait = inner.allowance.wait(Instant::now())?;
        let candidates = &inner.state.borrow().candidates;
        let mut wanted = inner.wanted.get().intersection(items).iter();
        wanted
            .any(|item| OctetsRoom::of(candidates, item).copied > 0)
            .then_some(wait)
    }
}

impl Inner {
    fn scan(&self, bytes: usize, work: impl FnOnce()) {
        self.scanned.set(self.scanned.get().saturating_add(bytes));
        self.allowance.scan(bytes, work);
    }
}
