//! The file cache: content and head fields of files that were asked for before, shared by all workers.
//!
//! Here: what is kept, for how long it is believed, and how it is known that a file is still the same. An entry is believed
//! for `revalidate_after`; then the file is opened again under all the rules of its directory and compared, and only if it has
//! changed is it read again. The library below decides which entries make room for others (S3-FIFO: a file requested once does
//! not displace one that is requested often). Not here: opening and reading (`file`).

mod counters;

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::hash::{Hash, Hasher};
use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
pub use counters::CacheCounters;
use counters::{Event, Tally};
use quick_cache::{Equivalent, Lifecycle, OptionsBuilder, Weighter};
use rustix::process::{Resource, getrlimit};
use sluice_membuf::SealedMemfd;
use tokio::runtime::Handle;

use crate::body as file_body;
use crate::directory::{Directory, DirectoryId};
use crate::representation::Representation;
use crate::variants::Forms;
use crate::variants::on_demand::InFlight;
use sluice_http::body::Content;
use sluice_http::conditions;
use sluice_settings::{CacheSettings, CacheUse};

/// What an entry costs beside its content, bytes, roughly: key, fields, the library's own.
const ENTRY_BYTES: u64 = 768;

/// Content of so many bytes is kept in sealed memory, from which the kernel sends without a copy. Less is copied sooner than a
/// second system call is made; more is copied sooner than its pages are counted one by one, when several clients take it
/// (2 MB, ten clients: 0.8 of what a copy reaches).
const SEALED_BYTES: RangeInclusive<u64> = 16 << 10..=256 << 10;

/// Each chunk of sealed memory has a descriptor: so many of them at most, and no more than a part of those that the server may
/// have.
const SEALED_MAX: usize = 4096;
const SEALED_SHARE: u64 = 8;

/// Least room of a shard of the cache, in largest files.
const FILES_A_SHARD: u64 = 4;

/// Files by directory and name.
pub struct Cache {
    entries: Entries,
    /// Files that are being read.
    filling: Mutex<HashSet<Key>>,
    /// Compressed forms of files that are being made.
    pub makings: InFlight,
    settings: CacheSettings,
    started: Instant,
    tally: Arc<Tally>,
    /// Held by each chunk of sealed memory.
    sealed: Arc<()>,
    sealed_max: usize,
}

type Entries = quick_cache::sync::Cache<Key, Arc<Cached>, Weigh, quick_cache::DefaultHashBuilder, Evictions>;

/// A file in memory.
pub(crate) struct Cached {
    pub representation: Representation,
    pub content: Content,
    /// What is known of its compressed forms.
    pub forms: Forms,
    identity: Identity,
    /// When it was last known to be the file's content: milliseconds since the cache was made.
    checked: AtomicU64,
}

/// Chunks of sealed memory at most.
fn sealed_max() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(descriptors / SEALED_SHARE).map_or(SEALED_MAX, |share| share.min(SEALED_MAX))
}

/// Whether a file was last changed so long ago that another change would show.
pub(crate) fn has_reliable_mtime(metadata: &Metadata) -> bool {
    let has_reliable_mtime = |modified| conditions::has_reliable_mtime(modified, SystemTime::now());
    metadata.modified().is_ok_and(has_reliable_mtime)
}

/// What changes when a file's content changes (stat(2)).
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What the cache knows of a name.
pub(crate) enum Known {
    /// The file as it was moments ago.
    Fresh(Arc<Cached>),
    /// The file as it was, to be compared with the file as it is.
    Stale(Arc<Cached>),
    Nothing,
}

/// Room for entries within the bounds of the settings.
fn entries(settings: &CacheSettings, evictions: Evictions) -> Entries {
    // The library wants the number of entries as an estimate; the bound itself is made of weight.
    let count = settings.entries_max.max(1);
    let weigh = Weigh {
        // So many fit and not one more. A whole share each would not do: the library keeps nothing that fills all of its room.
        least: settings.bytes_max / (count as u64 + 1) + 1,
    };
    let shard_bytes = FILES_A_SHARD * (settings.file_bytes_max + ENTRY_BYTES).max(weigh.least);
    // No more shards than have room for some largest files each, or these would not be kept at all.
    let shards = usize::try_from(settings.bytes_max / shard_bytes)
        .unwrap_or(usize::MAX)
        .clamp(1, 64);
    let options = OptionsBuilder::new()
        .shards(if shards.is_power_of_two() {
            shards
        } else {
            shards.next_power_of_two() / 2
        })
        .estimated_items_capacity(count)
        .weight_capacity(settings.bytes_max)
        .build();
    let hash = quick_cache::DefaultHashBuilder::default();
    match options {
        Ok(options) => Entries::with_options(options, weigh, hash, evictions),
        Err(_) => Entries::with(count, settings.bytes_max, weigh, hash, evictions),
    }
}

impl Cache {
    /// A cache of these bounds.
    pub fn new(settings: &CacheSettings) -> Cache {
        let tally = Arc::default();
        Cache {
            entries: entries(settings, Evictions(Arc::clone(&tally))),
            filling: Mutex::default(),
            makings: InFlight::default(),
            settings: settings.clone(),
            started: Instant::now(),
            tally,
            sealed: Arc::default(),
            sealed_max: sealed_max(),
        }
    }

    /// An empty cache in the place of this one, which goes on counting. What is being read for this one never gets into it.
    pub fn anew(&self) -> Cache {
        Cache {
            entries: entries(&self.settings, Evictions(Arc::clone(&self.tally))),
            filling: Mutex::default(),
            makings: InFlight::default(),
            settings: self.settings.clone(),
            started: self.started,
            tally: Arc::clone(&self.tally),
            sealed: Arc::clone(&self.sealed),
            sealed_max: self.sealed_max,
        }
    }

    /// Lets go of all that it holds.
    pub fn clear(&self) {
        self.entries.clear();
    }

    /// What it has done so far, and what it holds.
    pub fn counters(&self) -> CacheCounters {
        let (mut files, mut bytes) = (0, 0);
        for (_, cached) in self.entries.iter() {
            files += 1;
            bytes += cached.content.len() as u64;
        }
        self.tally.counters(files, bytes)
    }

    /// What is known of a file: `name` below `directory`, whose files are kept so.
    pub(crate) fn find(&self, directory: &Directory, name: &str, cache_use: CacheUse) -> Known {
        let Some(cached) = self.entries.get(&Name(directory.id(), name)) else {
            self.tally.count(Event::Miss);
            return Known::Nothing;
        };
        if cache_use == CacheUse::Permanent || self.is_fresh(&cached) {
            self.tally.count(Event::Hit);
            Known::Fresh(cached)
        } else {
            self.tally.count(Event::Stale);
            Known::Stale(cached)
        }
    }

    /// What is kept under a name, believed or not. It stays in the cache as what is asked for does, but nothing is counted.
    pub(crate) fn peek(&self, directory: &Directory, name: &str) -> Option<Arc<Cached>> {
        self.entries.get(&Name(directory.id(), name))
    }

    fn is_fresh(&self, cached: &Cached) -> bool {
        let age = Duration::from_millis(self.now().saturating_sub(cached.checked()));
        age < self.settings.revalidate_after
    }

    /// Whether a file would be kept if it were asked for.
    pub(crate) fn would_take(&self, metadata: &Metadata) -> bool {
        metadata.len() <= self.settings.file_bytes_max && has_reliable_mtime(metadata)
    }

    /// Whether a file may be kept: one that may change without looking changed is served, but not yet kept.
    pub(crate) fn takes(&self, metadata: &Metadata) -> bool {
        if metadata.len() > self.settings.file_bytes_max {
            self.tally.count(Event::TooLarge);
            return false;
        }
        let has_reliable_mtime = has_reliable_mtime(metadata);
        if !has_reliable_mtime {
            self.tally.count(Event::Unsettled);
        }
        has_reliable_mtime
    }

    /// Bytes of the largest content that is kept.
    pub(crate) fn file_bytes_max(&self) -> u64 {
        self.settings.file_bytes_max
    }

    /// Keeps a file's content as it was read under `metadata`.
    pub(crate) fn keep(&self, directory: &Directory, name: &str, cached: &Arc<Cached>) {
        self.insert(Key::new(directory, name), cached);
    }

    /// Keeps an entry under a key made before.
    pub(crate) fn insert(&self, key: Key, cached: &Arc<Cached>) {
        self.stamp(cached);
        self.entries.insert(key, Arc::clone(cached));
    }

    /// Reads a larger file into the cache, by a thread that may wait for a disk; once, however many ask for it meanwhile.
    /// The file is what `metadata` says, or it is left alone.
    pub(crate) fn fill(
        self: &Arc<Self>,
        (directory, name): (&Directory, &str),
        file: Arc<File>,
        representation: Representation,
        metadata: &Metadata,
    ) {
        self.fill_by((directory, name), file, representation, metadata, Cache::read);
    }

    /// The same, where the content is what `read` makes of the file and its bytes. An error of kind `InvalidData` is not
    /// logged: a response has it too.
    pub(crate) fn fill_by(
        self: &Arc<Self>,
        (directory, name): (&Directory, &str),
        file: Arc<File>,
        representation: Representation,
        metadata: &Metadata,
        read: impl FnOnce(&Cache, &File, u64) -> io::Result<Content> + Send + 'static,
    ) {
        let key = Key::new(directory, name);
        // Outside of a runtime there is no such thread, and the file goes without the cache.
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.lock_filling().insert(key.clone()) {
            return;
        }
        let filling = Filling(Arc::clone(self), key);
        let identity = Identity::of(metadata);
        runtime.spawn_blocking(move || {
            let Filling(cache, key) = &filling;
            match read(cache, &file, identity.bytes).and_then(|content| Ok((content, file.metadata()?))) {
                Ok((content, now)) if Identity::of(&now) == identity => {
                    cache.insert(key.clone(), &Arc::new(Cached::new(representation, content, &now)));
                }
                // Changed while it was read: it is not settled.
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => {}
                Err(error) => tracing::warn!("file {:?}: {error}", key.1),
            }
        });
    }

    /// Reads the first `bytes` bytes of a file that nobody has read from yet; an error if it has fewer by now.
    pub(crate) fn read(&self, file: &File, bytes: u64) -> io::Result<Content> {
        match self.seal(bytes, || SealedMemfd::read(file, bytes)) {
            Ok(content) => Ok(content),
            Err(Some(error)) if error.kind() == ErrorKind::UnexpectedEof => Err(error),
            Err(_) => file_body::read_part(file, 0, bytes).map(Content::from),
        }
    }

    /// Takes content that was made from a file.
    pub(crate) fn hold(&self, content: Vec<u8>) -> Content {
        let sealed = self.seal(content.len() as u64, || SealedMemfd::copy_of(&content));
        sealed.unwrap_or_else(|_| Bytes::from(content).into())
    }

    /// Content in sealed memory, if it is large enough and there is room for it. With the error the caller does without:
    /// no more descriptors, say.
    fn seal(&self, bytes: u64, make: impl FnOnce() -> io::Result<SealedMemfd>) -> Result<Content, Option<io::Error>> {
        let has_room = Arc::strong_count(&self.sealed) <= self.sealed_max;
        if !SEALED_BYTES.contains(&bytes) || !has_room {
            return Err(None);
        }
        match make() {
            Ok(sealed) => Ok(Content::sealed(sealed, Arc::clone(&self.sealed))),
            Err(error) => {
                tracing::debug!("sealed memory for {bytes} bytes: {error}");
                Err(Some(error))
            }
        }
    }

    fn lock_filling(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file was compared and is the same.
    pub(crate) fn mark_fresh(&self, cached: &Cached) {
        self.tally.count(Event::Unchanged);
        self.stamp(cached);
    }

    fn stamp(&self, cached: &Cached) {
        // Relaxed: nothing else is published by it, and a stale reading only costs one more comparison.
        cached.checked.store(self.now(), Ordering::Relaxed);
    }

    /// Milliseconds since the cache was made.
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A file that is being read, until this is dropped: also where the reading panics, or never begins.
struct Filling(Arc<Cache>, Key);

impl Drop for Filling {
    fn drop(&mut self) {
        self.0.lock_filling().remove(&self.1);
    }
}

impl Cached {
    pub(crate) fn new(representation: Representation, content: Content, metadata: &Metadata) -> Cached {
        Cached {
            representation,
            content,
            forms: Forms::default(),
            identity: Identity::of(metadata),
            checked: AtomicU64::new(0),
        }
    }

    /// Other bytes that were made of the same version of the file.
    pub(crate) fn in_form(&self, representation: Representation, content: Content) -> Cached {
        Cached {
            representation,
            content,
            forms: Forms::default(),
            identity: self.identity,
            checked: AtomicU64::new(0),
        }
    }

    /// Whether both were made of the same version of one file.
    pub(crate) fn is_of_same(&self, other: &Cached) -> bool {
        self.identity == other.identity
    }

    /// When the file was last compared, on a clock of the cache's own.
    pub(crate) fn checked(&self) -> u64 {
        // Relaxed: see `Cache::believe`.
        self.checked.load(Ordering::Relaxed)
    }

    /// Whether the file behind `metadata` is the one that was read.
    pub(crate) fn is_of(&self, metadata: &Metadata) -> bool {
        self.identity == Identity::of(metadata)
    }
}

impl Identity {
    fn of(metadata: &Metadata) -> Identity {
        Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// An entry's key; `Name` is the same without owning its text.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key(DirectoryId, Box<str>);

impl Key {
    /// The key of `name` below `directory`.
    pub(crate) fn new(directory: &Directory, name: &str) -> Key {
        Key(directory.id(), name.into())
    }

    /// The name below the directory.
    pub(crate) fn name(&self) -> &str {
        &self.1
    }
}

struct Name<'a>(DirectoryId, &'a str);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Name(self.0, &self.1).hash(state);
    }
}

impl Hash for Name<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
        self.1.hash(state);
    }
}

impl Equivalent<Key> for Name<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.0 == key.0 && *self.1 == *key.1
    }
}

/// Counts the files that make room for others.
#[derive(Clone)]
struct Evictions(Arc<Tally>);

impl Lifecycle<Key, Arc<Cached>> for Evictions {
    /// Held until the library's lock is given back; there is rarely more than one.
    type RequestState = [Option<(Key, Arc<Cached>)>; 2];

    fn before_evict(&self, _: &mut Self::RequestState, _: &Key, _: &mut Arc<Cached>) {
        self.0.count(Event::Evicted);
    }

    /// Also called for what is replaced under the same key, which is no eviction.
    fn on_evict(&self, held: &mut Self::RequestState, key: Key, cached: Arc<Cached>) {
        if let Some(free) = held.iter_mut().find(|held| held.is_none()) {
            *free = Some((key, cached));
        }
    }
}

/// An entry weighs its bytes, but at least its share of the cache, which bounds the number of entries.
#[derive(Clone)]
struct Weigh {
    least: u64,
}

impl Weighter<Key, Arc<Cached>> for Weigh {
    fn weight(&self, key: &Key, cached: &Arc<Cached>) -> u64 {
        (cached.content.len() as u64 + key.1.len() as u64 + ENTRY_BYTES).max(self.least)
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
