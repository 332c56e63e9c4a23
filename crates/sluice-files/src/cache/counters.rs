//! What the file cache has done so far, in numbers.
//!
//! Every request for a file counts, so the counters of a worker lie apart from those of others: a line of memory that all
//! processors write to would cost more than the rest of a hit.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Sets of counters. More threads than this share some.
const STRIPES: usize = 16;

/// Something that happens to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Hit,
    Miss,
    /// To be looked at again.
    Stale,
    /// Looked at again, and the same.
    Unchanged,
    Evicted,
    TooLarge,
    Unsettled,
}

/// What the file cache has done since the server was started or its configuration was read again, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Requests answered from memory alone, the file not being looked at.
    pub hits: u64,
    /// Requests for names of which nothing was in memory: files read, and names that lead to directories or nowhere.
    pub misses: u64,
    /// Files looked at again that were as before, and were sent from memory.
    pub unchanged: u64,
    /// Files looked at again that were not, or were not there.
    pub changed: u64,
    /// Files that made room for others.
    pub evicted: u64,
    /// Times that a file was too large to be kept.
    pub too_large: u64,
    /// Times that a file was not kept yet, having been changed within the last second.
    pub just_changed: u64,
    /// Files in memory now.
    pub files: u64,
    /// Bytes of their content.
    pub bytes: u64,
}

impl fmt::Display for CacheCounters {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} files of {} bytes; {} hits, {} misses, {} unchanged, {} changed, {} evicted, {} too large, {} just changed",
            self.files,
            self.bytes,
            self.hits,
            self.misses,
            self.unchanged,
            self.changed,
            self.evicted,
            self.too_large,
            self.just_changed
        )
    }
}

/// Counts events.
#[derive(Default)]
pub(super) struct Tally([Stripe; STRIPES]);

/// The counters of some threads: one for each event, in one line of memory.
#[derive(Default)]
#[repr(align(64))]
struct Stripe([AtomicU64; 8]);

impl Tally {
    pub(super) fn count(&self, event: Event) {
        // Relaxed: numbers that nothing else depends on.
        self.0[stripe()].0[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn sum(&self, event: Event) -> u64 {
        let counts = self.0.iter().map(|stripe| &stripe.0[event as usize]);
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// The numbers so far, beside what is held now. Events that happen meanwhile may be in one and not in another.
    pub(super) fn counters(&self, files: u64, bytes: u64) -> CacheCounters {
        let unchanged = self.sum(Event::Unchanged);
        CacheCounters {
            hits: self.sum(Event::Hit),
            misses: self.sum(Event::Miss),
            unchanged,
            changed: self.sum(Event::Stale).saturating_sub(unchanged),
            evicted: self.sum(Event::Evicted),
            too_large: self.sum(Event::TooLarge),
            just_changed: self.sum(Event::Unsettled),
            files,
            bytes,
        }
    }
}

/// The set of counters of this thread.
fn stripe() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.with(|own| {
        own.get().unwrap_or_else(|| {
            // Relaxed: only that neighbours differ matters.
            let stripe = THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES;
            own.set(Some(stripe));
            stripe
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_all_threads_are_counted() {
        let tally = Tally::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * STRIPES {
                scope.spawn(|| {
                    for event in [
                        Event::Hit,
                        Event::Stale,
                        Event::Stale,
                        Event::Unchanged,
                        Event::TooLarge,
                    ] {
                        tally.count(event);
                    }
                });
            }
        });
        let each = 2 * STRIPES as u64;
        let expected = CacheCounters {
            hits: each,
            unchanged: each,
            changed: each,
            too_large: each,
            files: 3,
            bytes: 4,
            ..CacheCounters::default()
        };
        assert_eq!(tally.counters(3, 4), expected);
    }
}
