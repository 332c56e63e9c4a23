//! Reading larger files into the cache, in a blocking thread, because the disk may be slow.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::sync::{Arc, MutexGuard, PoisonError};

use sluice_http::body::Content;
use tokio::runtime::Handle;

use crate::cache::Cache;
use crate::cache::entry::{Cached, FileVersion, Key};
use crate::representation::Representation;

/// A file to be read into the cache.
pub(crate) struct Fill {
    key: Key,
    file: Arc<File>,
    representation: Representation,
    /// The version that `representation` describes; a file that has changed since is not kept.
    version: FileVersion,
}

impl Fill {
    /// The version of `file` that `metadata` and `representation` describe.
    pub(crate) fn new(key: Key, file: &Arc<File>, representation: &Representation, metadata: &Metadata) -> Fill {
        Fill {
            key,
            file: Arc::clone(file),
            representation: representation.clone(),
            version: FileVersion::of(metadata),
        }
    }
}

impl Cache {
    /// Reads a file into the cache in the background; once, however many requests ask for it meanwhile. `read` makes the
    /// content from the file and its size. An error of the kind `InvalidData` is not logged here, because the response
    /// reports it too.
    pub(crate) fn fill(
        self: &Arc<Self>,
        fill: Fill,
        read: impl FnOnce(&Cache, &File, u64) -> io::Result<Content> + Send + 'static,
    ) {
        // Outside a runtime there are no blocking threads; the file is then not cached.
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.lock_filling().insert(fill.key.clone()) {
            return;
        }
        let guard = FillGuard {
            cache: Arc::clone(self),
            key: fill.key,
        };
        let (file, representation, version) = (fill.file, fill.representation, fill.version);
        runtime.spawn_blocking(move || {
            let FillGuard { cache, key } = &guard;
            match read(cache, &file, version.bytes()).and_then(|content| Ok((content, file.metadata()?))) {
                Ok((content, now)) if FileVersion::of(&now) == version => {
                    cache.insert(key.clone(), &Arc::new(Cached::new(representation, content, &now)));
                }
                // Changed while it was read: not admitted yet.
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => {}
                Err(error) => tracing::warn!("file {:?}: {error}", key.name()),
            }
        });
    }

    pub(super) fn lock_filling(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks a file as being read until it is dropped, also if the reading panics or never starts.
struct FillGuard {
    cache: Arc<Cache>,
    key: Key,
}

impl Drop for FillGuard {
    fn drop(&mut self) {
        self.cache.lock_filling().remove(&self.key);
    }
}
