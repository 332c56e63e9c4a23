//! Looking up a name below a directory: in the cache, or by opening the file.
//!
//! Not here: which files may be opened (`directory`), for how long content is kept (`cache`), record files (`records`), and
//! the variant that a request gets (`variants`).

use std::fs::File;
use std::sync::Arc;

use sluice_http::encoding::Encoding;
use sluice_http::fault::Fault;
use sluice_settings::compression::Compression;
use sluice_settings::{CacheUse, Precompressed};

use crate::body::{FileBody, WHOLE_BYTES_MAX, read_cached};
use crate::cache::entry::{Cached, Key};
use crate::cache::fill::Fill;
use crate::cache::{Cache, CacheLookup};
use crate::directory::Directory;
use crate::file_cache::FileCache;
use crate::found::{Found, Opened, open_fault};
use crate::records::Records;
use crate::representation::Representation;
use crate::types::Types;

/// The files of a directory, and how they are sent.
#[derive(Clone, Copy)]
pub struct Files<'a> {
    /// The directory that contains the files.
    pub directory: &'a Directory,
    /// How the files are converted to lines, if they consist of records.
    pub records: Option<&'a Records>,
    /// The file cache, if there is one.
    pub cache: Option<&'a FileCache>,
    /// Whether and for how long the files are kept in it.
    pub cache_use: CacheUse,
    /// The media types by the endings of names.
    pub types: &'a Types,
    /// The types and sizes that the site compresses.
    pub compression: &'a Compression,
    /// The variants that the route offers, if any. Routes that share cached files may differ in it, so nothing that is cached
    /// may depend on it.
    pub precompressed: Option<Precompressed>,
}

impl<'a> Files<'a> {
    /// The file cache, if these files are kept in it.
    pub(crate) fn cache(&self) -> Option<&'a FileCache> {
        self.cache.filter(|_| self.cache_use != CacheUse::Off)
    }

    /// Looks up a name. Opens the file unless it is fresh in the cache.
    ///
    /// # Errors
    /// The client's fault: it does not exist (404) or may not be read (403). The server's: the system refuses, or a small
    /// record file is malformed.
    pub(crate) fn find(&self, name: &str) -> Result<Found, Fault> {
        let cache = self.cache().map(|files| &files.cache);
        let looked_up = match cache {
            Some(cache) => cache.find(self.directory, name, self.cache_use),
            None => CacheLookup::Miss,
        };
        if let CacheLookup::Fresh(cached) = looked_up {
            return Ok(Found::Cached(cached));
        }
        let opened = self.directory.open_below(name).and_then(|file| {
            let metadata = file.metadata()?;
            Ok((file, metadata))
        });
        let (file, metadata) = opened.map_err(|error| open_fault(name, error))?;
        if metadata.is_dir() {
            return Ok(Found::Directory);
        }
        if !metadata.is_file() {
            return Ok(Found::Other);
        }
        if let (CacheLookup::Stale(cached), Some(cache)) = (looked_up, cache)
            && cached.is_current(&metadata)
        {
            cache.mark_fresh(&cached);
            return Ok(Found::Cached(cached));
        }
        let mut representation = Representation::of(self.types.of(name), &metadata);
        representation.has_variants =
            !Encoding::is_of_name(name) && self.compression.is_for(&representation.content_type);
        let opened = Opened {
            directory: self.directory,
            name,
            file,
            metadata,
            representation,
        };
        match (self.records, cache) {
            (Some(records), _) if Records::contain(&opened.file, &opened.metadata) => records.open(opened, cache),
            (_, Some(cache)) if cache.admits(&opened.metadata) => Ok(keep(cache, opened)),
            _ => Ok(stream(
                opened.representation,
                Arc::new(opened.file),
                opened.metadata.len(),
            )),
        }
    }
}

/// Keeps a file in the cache: a small one before it is sent, a larger one in the background.
fn keep(cache: &Arc<Cache>, opened: Opened<'_>) -> Found {
    let Opened { file, metadata, .. } = opened;
    let key = Key::new(opened.directory, opened.name);
    if metadata.len() <= WHOLE_BYTES_MAX
        && let Some(content) = read_cached(&file, 0, metadata.len())
    {
        let content = cache.content_of(content);
        let cached = Arc::new(Cached::new(opened.representation, content, &metadata));
        if file.metadata().is_ok_and(|now| cached.is_current(&now)) {
            cache.insert(key, &cached);
        }
        return Found::Cached(cached);
    }
    let file = Arc::new(file);
    cache.fill(Fill::new(key, &file, &opened.representation, &metadata), Cache::read);
    stream(opened.representation, file, metadata.len())
}

/// A file that is read while it is sent.
fn stream(representation: Representation, file: Arc<File>, bytes: u64) -> Found {
    Found::File(Box::new(representation), Box::new(FileBody::new(file, bytes)))
}
