//! Counters of the file cache.
//!
//! Every request for a file increments one, so threads use different cache lines: a line that all processors write to would cost more than the rest of a hit.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::foreign::{note_counted, take_counted};

/// Sets of counters. If there are more threads, some share a set.
const STRIPES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Hit,
    Miss,
    Stale,
    Unchanged,
    Evicted,
    TooLarge,
    JustChanged,
}

/// Counters since the server was started, and the present size of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Requests answered from memory without checking the file.
    pub hits: u64,
    /// Requests for names that were not in memory: files that were read, directories, and names that do not exist.
    pub misses: u64,
    /// Files that were revalidated, had not changed, and were sent from memory.
    pub unchanged: u64,
    /// Files that were revalidated and had changed or were gone.
    pub changed: u64,
    /// Entries that were removed to make room.
    pub evicted: u64,
    /// Requests for files that were too large to keep.
    pub too_large: u64,
    /// Requests for files that were not kept yet because they had changed within the last second.
    pub just_changed: u64,
    /// Entries in memory now.
    pub files: u64,
    /// Bytes of their content.
    pub bytes: u64,
}

impl fmt::Display for CacheCounters {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted =
            |count: u64, one: &str, several: &str| format!("{count} {}", if count == 1 { one } else { several });
        write!(
            out,
            "{} of {} bytes; {}, {}, {} unchanged, {} changed, {} evicted, {} too large, {} just changed",
            counted(self.files, "file", "files"),
            self.bytes,
            counted(self.hits, "hit", "hits"),
            counted(self.misses, "miss", "misses"),
            self.unchanged,
            self.changed,
            self.evicted,
            self.too_large,
            self.just_changed
        )
    }
}

/// Counts events of all threads.
#[derive(Default)]
pub(crate) struct Tally([Stripe; STRIPES]);

/// The counters of some threads, one for each event, in one cache line.
#[derive(Default)]
#[repr(align(64))]
struct Stripe([AtomicU64; 8]);

impl Tally {
    /// Counts an event. Returns how many of them there were before, among those of this thread.
    pub(super) fn count(&self, event: Event) -> u64 {
        note_counted(event as usize);
        // Relaxed: nothing else depends on the numbers.
        self.0[stripe()].0[event as usize].fetch_add(1, Ordering::Relaxed)
    }

    /// Takes back what the calling thread has counted in the last decision (`foreign::here`).
    pub(crate) fn uncount_decision(&self) {
        let counts = take_counted();
        for (counter, count) in self.0[stripe()].0.iter().zip(counts) {
            counter.fetch_sub(count.into(), Ordering::Relaxed);
        }
    }

    fn sum(&self, event: Event) -> u64 {
        let counts = self.0.iter().map(|stripe| &stripe.0[event as usize]);
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// The counters now, with the size of the cache. Concurrent events may be in one counter and not yet in another.
    pub(super) fn counters(&self, files: u64, bytes: u64) -> CacheCounters {
        let unchanged = self.sum(Event::Unchanged);
        CacheCounters {
            hits: self.sum(Event::Hit),
            misses: self.sum(Event::Miss),
            unchanged,
            changed: self.sum(Event::Stale).saturating_sub(unchanged),
            evicted: self.sum(Event::Evicted),
            too_large: self.sum(Event::TooLarge),
            just_changed: self.sum(Event::JustChanged),
            files,
            bytes,
        }
    }
}

fn stripe() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.with(|own| {
        own.get().unwrap_or_else(|| {
            // Relaxed: only the spread over the sets matters.
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

    #[test]
    fn one_is_not_several() {
        let counters = CacheCounters {
            files: 1,
            bytes: 5,
            misses: 1,
            ..CacheCounters::default()
        };
        let text = counters.to_string();
        assert!(
            text.starts_with("1 file of 5 bytes; 0 hits, 1 miss, 0 unchanged"),
            "{text}"
        );
    }
}
