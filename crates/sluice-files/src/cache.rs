//! The file cache: content and header fields of requested files, shared by all workers.
//!
//! An entry is fresh for `revalidate_after`. Then the file is opened again, under all rules of its directory, and read only if its metadata differ.

pub(crate) mod content;
pub(crate) mod counters;
pub(crate) mod entry;
pub(crate) mod fill;
pub(crate) mod in_flight;
pub(crate) mod time_budget;
pub(crate) mod variant_notes;

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use sluice_http::body::Content;
use sluice_http::conditions;
use sluice_settings::{CacheSettings, CacheUse};

use crate::cache::content::ContentStore;
pub use crate::cache::counters::CacheCounters;
use crate::cache::counters::{Event, Tally};
pub use crate::cache::entry::CacheEntry;
use crate::cache::entry::{BorrowedKey, Cached, Entries, Key, entries};
use crate::cache::in_flight::InFlight;
use crate::cache::time_budget::TimeBudget;
use crate::directory::Directory;

/// One hit of so many is counted for its entry, and stands for all of them: if each were, all workers would write to the entry of a file that
/// many ask for. A prime, so that requests in a regular order are all counted.
const HITS_A_SAMPLE: u64 = 17;

/// Files in memory, by directory and name, and the compressions in progress that will become entries. All workers share it.
pub struct FileCache {
    entries: Entries,
    filling: Mutex<HashSet<Key>>,
    settings: CacheSettings,
    started: Instant,
    tally: Arc<Tally>,
    content: ContentStore,
    pub(crate) in_flight: InFlight,
    /// For compressing variants.
    pub(crate) time: Arc<TimeBudget>,
}

/// Whether the next change of a file will show in its time of modification, because that is long enough ago.
pub(crate) fn has_reliable_mtime(metadata: &Metadata) -> bool {
    let is_reliable = |modified| conditions::has_reliable_mtime(modified, SystemTime::now());
    metadata.modified().is_ok_and(is_reliable)
}

impl FileCache {
    /// An empty cache with these bounds.
    pub fn new(settings: &CacheSettings) -> FileCache {
        let tally = Arc::default();
        FileCache {
            entries: entries(settings, &tally),
            filling: Mutex::default(),
            settings: settings.clone(),
            started: Instant::now(),
            tally,
            content: ContentStore::new(),
            in_flight: InFlight::default(),
            time: Arc::new(TimeBudget::new(settings.compression_time_per_minute)),
        }
    }

    /// An empty cache with this one's bounds and the counters of another one or of this one. Files being read or compressed for the other do not get into it.
    #[must_use]
    pub fn continuing(&self, replaced: &FileCache) -> FileCache {
        let tally = Arc::clone(&replaced.tally);
        FileCache {
            entries: entries(&self.settings, &tally),
            filling: Mutex::default(),
            settings: self.settings.clone(),
            started: self.started,
            tally,
            content: self.content.clone(),
            in_flight: InFlight::default(),
            time: Arc::clone(&self.time),
        }
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.entries.clear();
    }

    /// The counters up to now, and the number and size of the entries.
    pub fn counters(&self) -> CacheCounters {
        let (mut files, mut bytes) = (0, 0);
        for (_, cached) in self.entries.iter() {
            files += 1;
            bytes += cached.content.len() as u64;
        }
        self.tally.counters(files, bytes)
    }

    /// Takes back what the last decision of the calling thread has counted, because it left a lookup (`foreign::here`), and will be repeated.
    pub fn uncount_decision(&self) {
        self.tally.uncount_decision();
    }

    /// All entries, in no order. Takes some milliseconds if there are many.
    pub fn entries(&self) -> Vec<CacheEntry> {
        let now = self.now();
        let entry = |(key, cached): (Key, Arc<Cached>)| CacheEntry {
            directory: key.0,
            name: key.file_name().to_owned(),
            coding: cached.representation.coding.token(),
            bytes: cached.content.len() as u64,
            hits: cached.hits(),
            checked_seconds_ago: now.saturating_sub(cached.checked_at()) / 1000,
        };
        self.entries.iter().map(entry).collect()
    }

    /// Looks up the file `name` below `directory`, and counts the result: an entry that may be sent without checking the file.
    ///
    /// # Errors
    /// There is no such entry, but perhaps a stale one, which may be sent after the file was found unchanged.
    pub(crate) fn find(
        &self,
        directory: &Directory,
        name: &str,
        cache_use: CacheUse,
    ) -> Result<Arc<Cached>, Option<Arc<Cached>>> {
        let Some(cached) = self.peek(directory, name) else {
            self.tally.count(Event::Miss);
            return Err(None);
        };
        if cache_use == CacheUse::Permanent || self.is_fresh(&cached) {
            if self.tally.count(Event::Hit).is_multiple_of(HITS_A_SAMPLE) {
                cached.add_hits(HITS_A_SAMPLE);
            }
            Ok(cached)
        } else {
            self.tally.count(Event::Stale);
            Err(Some(cached))
        }
    }

    /// The entry of a file, fresh or stale. Counts as a use for eviction, but not in the counters.
    pub(crate) fn peek(&self, directory: &Directory, name: &str) -> Option<Arc<Cached>> {
        self.entries.get(&BorrowedKey(directory.id(), name))
    }

    pub(crate) fn peek_key(&self, key: &Key) -> Option<Arc<Cached>> {
        self.entries.get(key)
    }

    fn is_fresh(&self, cached: &Cached) -> bool {
        self.age(cached) < self.settings.revalidate_after
    }

    /// How long ago the file of an entry was last known to have this version.
    pub(crate) fn age(&self, cached: &Cached) -> Duration {
        Duration::from_millis(self.now().saturating_sub(cached.checked_at()))
    }

    /// Notes that the file was compared and has not changed.
    pub(crate) fn mark_fresh(&self, cached: &Cached) {
        self.tally.count(Event::Unchanged);
        cached.set_checked_at(self.now());
    }

    /// Whether a requested file is kept; counts the reason if not. A file whose next change might not show in its metadata is not kept yet.
    pub(crate) fn admits(&self, metadata: &Metadata) -> bool {
        if metadata.len() > self.settings.file_bytes_max {
            self.tally.count(Event::TooLarge);
            return false;
        }
        let is_reliable = has_reliable_mtime(metadata);
        if !is_reliable {
            self.tally.count(Event::JustChanged);
        }
        is_reliable
    }

    /// Bytes of the largest content that is kept.
    pub(crate) fn file_bytes_max(&self) -> u64 {
        self.settings.file_bytes_max
    }

    /// Keeps an entry, which is fresh from now on.
    pub(crate) fn insert(&self, key: Key, cached: &Arc<Cached>) {
        cached.set_checked_at(self.now());
        self.entries.insert(key, Arc::clone(cached));
    }

    /// Reads the first `bytes` bytes of a file whose offset is still 0. Fails if the file is shorter by now.
    pub(crate) fn read(&self, file: &File, bytes: u64) -> io::Result<Content> {
        self.content.read(file, bytes)
    }

    /// Makes content for an entry from bytes in memory.
    pub(crate) fn content_of(&self, bytes: Vec<u8>) -> Content {
        self.content.store(bytes)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
