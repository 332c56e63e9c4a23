//! Entries of the file cache, their keys, and the policy of the library that holds them.

use std::fs::Metadata;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;
use quick_cache::{DefaultHashBuilder, Equivalent, Lifecycle, OptionsBuilder, Weighter};
use sluice_http::body::Content;
use sluice_settings::CacheSettings;

use crate::cache::counters::{Event, Tally};
use crate::cache::variant_notes::VariantNotes;
use crate::directory::{Directory, DirectoryId};
use crate::representation::Representation;

/// Bytes that an entry needs besides its content, roughly: key, fields, the head of its response, the library's own data.
const ENTRY_BYTES: u64 = 1664;

/// Least room of a shard of the cache, in files of the largest size.
const FILES_A_SHARD: u64 = 4;

/// The library's map of entries. It evicts by S3-FIFO: a file that is requested once does not displace one that is requested often.
pub(super) type Entries = quick_cache::sync::Cache<Key, Arc<Cached>, Weigh, DefaultHashBuilder, Evictions>;

pub(super) fn entries(settings: &CacheSettings, tally: &Arc<Tally>) -> Entries {
    // The library takes the number of entries as an estimate only; the minimum weight enforces it.
    let count = settings.entries_max.max(1);
    let weigh = Weigh {
        // Exactly `count` entries of this weight fit; of bytes_max / count they would not, because the library keeps no entry that fills all of its room.
        least: settings.bytes_max / (count as u64 + 1) + 1,
    };
    let shard_bytes = FILES_A_SHARD * (settings.file_bytes_max + ENTRY_BYTES).max(weigh.least);
    // Each shard has room for some of the largest files, because a file that exceeds its shard would never be kept.
    let shards = usize::try_from(settings.bytes_max / shard_bytes).unwrap_or(usize::MAX);
    let options = OptionsBuilder::new()
        .shards(1 << shards.clamp(1, 64).ilog2())
        .estimated_items_capacity(count)
        .weight_capacity(settings.bytes_max)
        .build();
    let hash = DefaultHashBuilder::default();
    let evictions = Evictions(Arc::clone(tally));
    match options {
        Ok(options) => Entries::with_options(options, weigh, hash, evictions),
        Err(_) => Entries::with(count, settings.bytes_max, weigh, hash, evictions),
    }
}

/// A file in memory, or a variant that was made from one.
pub(crate) struct Cached {
    pub representation: Representation,
    /// The head of the response with the whole content, for a route that offers the variants that the file may have.
    pub head: HeaderMap,
    pub content: Content,
    pub variants: VariantNotes,
    pub version: FileVersion,
    /// When the file was last known to have this version: milliseconds since the cache was made.
    checked_at: AtomicU64,
    hits: AtomicU64,
}

/// An entry of the cache, for reports.
#[derive(Clone, Debug)]
pub struct CacheEntry {
    /// The directory.
    pub directory: DirectoryId,
    /// The path below the directory.
    pub name: String,
    /// The content coding of a compressed variant.
    pub coding: Option<&'static str>,
    /// The size of its content.
    pub bytes: u64,
    /// About how often it was sent without checking the file.
    pub hits: u64,
    /// Seconds since it was last compared with the file.
    pub checked_seconds_ago: u64,
}

/// The metadata that change when the content of a file changes (stat(2)).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileVersion {
    device: u64,
    inode: u64,
    pub bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Cached {
    pub(crate) fn new(representation: Representation, content: Content, version: FileVersion) -> Cached {
        Cached {
            head: representation.whole_head(&content),
            representation,
            content,
            variants: VariantNotes::default(),
            version,
            checked_at: AtomicU64::new(0),
            hits: AtomicU64::new(0),
        }
    }

    /// Whether the file still has the version that was read, according to its present `metadata`.
    pub(crate) fn is_current(&self, metadata: &Metadata) -> bool {
        self.version == FileVersion::of(metadata)
    }

    /// When the file was last revalidated: milliseconds since the cache was made.
    pub(crate) fn checked_at(&self) -> u64 {
        // Relaxed: nothing else is published with the time, and an old value only costs one more comparison.
        self.checked_at.load(Ordering::Relaxed)
    }

    pub(super) fn hits(&self) -> u64 {
        // Relaxed: the number stands for itself.
        self.hits.load(Ordering::Relaxed)
    }

    pub(super) fn add_hits(&self, hits: u64) {
        // Relaxed: see `hits`.
        self.hits.fetch_add(hits, Ordering::Relaxed);
    }

    pub(super) fn set_checked_at(&self, now: u64) {
        // Relaxed: see `checked_at`.
        self.checked_at.store(now, Ordering::Relaxed);
    }
}

impl FileVersion {
    pub(crate) fn of(metadata: &Metadata) -> FileVersion {
        FileVersion {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The key of an entry: a directory and a path below it. Names of files do not contain NUL; that of a compressed variant goes on after one.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key(pub DirectoryId, pub Box<str>);

impl Key {
    pub(crate) fn new(directory: &Directory, name: &str) -> Key {
        Key(directory.id(), name.into())
    }

    pub(crate) fn file_name(&self) -> &str {
        self.1.split('\0').next().unwrap_or_default()
    }
}

/// A key for lookups, which does not own its text.
pub(super) struct BorrowedKey<'a>(pub(super) DirectoryId, pub(super) &'a str);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        BorrowedKey(self.0, &self.1).hash(state);
    }
}

impl Hash for BorrowedKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
        self.1.hash(state);
    }
}

impl Equivalent<Key> for BorrowedKey<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.0 == key.0 && *self.1 == *key.1
    }
}

#[derive(Clone)]
pub(super) struct Evictions(Arc<Tally>);

impl Lifecycle<Key, Arc<Cached>> for Evictions {
    /// Evicted entries, which are freed after the library has released its lock; there is rarely more than one.
    type RequestState = [Option<(Key, Arc<Cached>)>; 2];

    fn before_evict(&self, _: &mut Self::RequestState, _: &Key, _: &mut Arc<Cached>) {
        self.0.count(Event::Evicted);
    }

    /// Also called for an entry that is replaced under the same key, which is not an eviction.
    fn on_evict(&self, evicted: &mut Self::RequestState, key: Key, cached: Arc<Cached>) {
        if let Some(free) = evicted.iter_mut().find(|entry| entry.is_none()) {
            *free = Some((key, cached));
        }
    }
}

/// The weight of an entry: its bytes, but at least `least`, which bounds the number of entries.
#[derive(Clone)]
pub(super) struct Weigh {
    least: u64,
}

impl Weighter<Key, Arc<Cached>> for Weigh {
    fn weight(&self, key: &Key, cached: &Arc<Cached>) -> u64 {
        (cached.content.len() as u64 + key.1.len() as u64 + ENTRY_BYTES).max(self.least)
    }
}
