//! Reading files into the cache: small ones at once, larger ones in a blocking thread, because the disk may be slow.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::sync::{Arc, MutexGuard, PoisonError};

use sluice_http::body::Content;
use sluice_launch::begin_elsewhere;
use tokio::runtime::Handle;

use crate::body::{WHOLE_BYTES_MAX, read_cached};
use crate::cache::FileCache;
use crate::cache::entry::{Cached, FileVersion, Key};
use crate::foreign::served_file::ServedFile;
use crate::representation::Representation;

pub(crate) struct Fill {
    cache: Arc<FileCache>,
    key: Key,
    pub file: Arc<ServedFile>,
    representation: Representation,
    /// The version that `representation` describes; a file that has changed since is not kept.
    pub version: FileVersion,
}

impl Fill {
    /// The version of `file` that `metadata` and `representation` describe.
    pub(crate) fn new(
        cache: &Arc<FileCache>,
        key: Key,
        file: &Arc<ServedFile>,
        representation: &Representation,
        metadata: &Metadata,
    ) -> Fill {
        Fill {
            cache: Arc::clone(cache),
            key,
            file: Arc::clone(file),
            representation: representation.clone(),
            version: FileVersion::of(metadata),
        }
    }

    /// Reads a small file that is in the page cache now, and keeps it. Another one is read in the background: then the result is the work.
    pub(crate) fn read_small(self: Box<Self>) -> Result<Arc<Cached>, Box<Fill>> {
        let bytes = self.version.bytes;
        let content = (bytes <= WHOLE_BYTES_MAX).then(|| read_cached(&self.file, 0, bytes));
        match content.flatten() {
            Some(content) => Ok(self.keep(content)),
            None => Err(self),
        }
    }

    /// Keeps content that was read now, unless the file has changed since it was opened.
    pub(crate) fn keep(self, content: Vec<u8>) -> Arc<Cached> {
        let content = self.cache.content_of(content);
        let cached = Arc::new(Cached::new(self.representation, content, self.version));
        // One that another process or machine serves was compared when it was opened and read.
        if self.file.share().is_some() || self.file.metadata().is_ok_and(|now| cached.is_current(&now)) {
            self.cache.insert(self.key, &cached);
        }
        cached
    }

    /// Reads the file into the cache in the background, once, however many requests ask meanwhile. `read` makes the content from the file and its size. Errors
    /// of the kind `InvalidData` are not logged here, because the response reports them.
    pub(crate) fn read_in_background(
        self,
        read: impl FnOnce(&FileCache, &File, u64) -> io::Result<Content> + Send + 'static,
    ) {
        // Outside a runtime there are no blocking threads; the file is then not cached.
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.cache.lock_filling().insert(self.key.clone()) {
            return;
        }
        let guard = FillGuard { cache: self.cache, key: self.key };
        let (file, representation, version) = (self.file, self.representation, self.version);
        let share = file.share();
        let fill = move || {
            let FillGuard { cache, key } = &guard;
            match read(cache, &file, version.bytes).and_then(|content| Ok((content, file.metadata()?))) {
                Ok((content, now)) if FileVersion::of(&now) == version => {
                    cache.insert(key.clone(), &Arc::new(Cached::new(representation, content, version)));
                }
                // Changed while it was read: not admitted yet.
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => {}
                Err(error) => tracing::warn!("file {:?}: {error}", key.1),
            }
        };
        match share {
            None => drop(runtime.spawn_blocking(fill)),
            // Not done while others wait in vain.
            Some(share) => begin_elsewhere(share.threads(), fill),
        }
    }
}

impl FileCache {
    pub(super) fn lock_filling(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks a file as being read until it is dropped, also if the reading panics or never starts.
struct FillGuard {
    cache: Arc<FileCache>,
    key: Key,
}

impl Drop for FillGuard {
    fn drop(&mut self) {
        self.cache.lock_filling().remove(&self.key);
    }
}
