//! The file cache as the server holds it: the entries, and the compressions in progress that will become entries.

use std::sync::Arc;

use sluice_settings::CacheSettings;

use crate::cache::Cache;
pub use crate::cache::counters::CacheCounters;
use crate::variants::in_flight::InFlight;

/// The cache of all files of a configuration, for all workers.
pub struct FileCache {
    pub(crate) cache: Arc<Cache>,
    pub(crate) in_flight: Arc<InFlight>,
}

impl FileCache {
    /// An empty cache with these bounds.
    pub fn new(settings: &CacheSettings) -> FileCache {
        FileCache::of(Cache::new(settings))
    }

    /// An empty cache that replaces this one and continues its counters. Files that are being read or compressed for this one
    /// do not get into it.
    pub fn empty_copy(&self) -> FileCache {
        FileCache::of(self.cache.empty_copy())
    }

    fn of(cache: Cache) -> FileCache {
        FileCache {
            cache: Arc::new(cache),
            in_flight: Arc::default(),
        }
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.cache.clear();
    }

    /// The counters up to now, and the number and size of the entries.
    pub fn counters(&self) -> CacheCounters {
        self.cache.counters()
    }
}
