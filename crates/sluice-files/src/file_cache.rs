//! The file cache as the server holds it: the entries, and the compressions in progress that will become entries.

use std::sync::Arc;

use sluice_settings::CacheSettings;

use crate::cache::Cache;
pub use crate::cache::counters::CacheCounters;
pub use crate::cache::entry::CacheEntry;
use crate::variants::in_flight::InFlight;
use crate::variants::time_budget::TimeBudget;

/// The cache of all files of a configuration, for all workers.
pub struct FileCache {
    pub(crate) cache: Arc<Cache>,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) time: Arc<TimeBudget>,
}

impl FileCache {
    /// An empty cache with these bounds.
    pub fn new(settings: &CacheSettings) -> FileCache {
        let time = Arc::new(TimeBudget::new(settings.compression_time_per_minute));
        FileCache::of(Cache::new(settings), time)
    }

    /// An empty cache that replaces this one and continues its counters. Files that are being read or compressed for this one
    /// do not get into it.
    pub fn empty_copy(&self) -> FileCache {
        self.continuing(self)
    }

    /// An empty cache with the bounds of this one that continues the counters of another one.
    #[must_use]
    pub fn continuing(&self, replaced: &FileCache) -> FileCache {
        FileCache::of(self.cache.continuing(&replaced.cache), Arc::clone(&self.time))
    }

    fn of(cache: Cache, time: Arc<TimeBudget>) -> FileCache {
        FileCache {
            cache: Arc::new(cache),
            in_flight: Arc::default(),
            time,
        }
    }

    /// Takes back what the last decision of the calling thread has counted, because it left a lookup (`foreign::here`), and will be repeated.
    pub fn uncount_decision(&self) {
        self.cache.tally.uncount_decision();
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.cache.clear();
    }

    /// All entries, in no order. Takes some milliseconds if there are many.
    pub fn entries(&self) -> Vec<CacheEntry> {
        self.cache.list()
    }

    /// The counters up to now, and the number and size of the entries.
    pub fn counters(&self) -> CacheCounters {
        self.cache.counters()
    }
}
