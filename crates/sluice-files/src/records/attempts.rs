//! A memory of attempts with files that are not repeated until the file changes.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Names that are remembered. Beyond this all are forgotten and may be tried once more; only failed attempts cost something then, a line in the log.
const NAMES_MAX: usize = 10_000;

/// The files with which something was tried, each with its version at that time.
#[derive(Default)]
pub(super) struct Attempts(Mutex<HashMap<Box<str>, Version>>);

type Version = (u64, i64, i64);

impl Attempts {
    /// Notes an attempt; false if it was noted for this version before.
    pub(super) fn note(&self, name: &str, metadata: &Metadata) -> bool {
        let mut attempts = self.lock();
        if attempts.len() >= NAMES_MAX {
            attempts.clear();
        }
        let version = version(metadata);
        attempts.insert(name.into(), version) != Some(version)
    }

    pub(super) fn has(&self, name: &str, metadata: &Metadata) -> bool {
        self.lock().get(name) == Some(&version(metadata))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Version>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn version(metadata: &Metadata) -> Version {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn file_is_tried_once_until_it_changes() {
        let attempts = Attempts::default();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let metadata = file.as_file().metadata().unwrap();
        assert!(attempts.note("a", &metadata) && attempts.note("b", &metadata));
        assert!(!attempts.note("a", &metadata));
        file.write_all(b"more").unwrap();
        let changed = file.as_file().metadata().unwrap();
        assert!(attempts.note("a", &changed));
        for number in 0..2 * NAMES_MAX {
            attempts.note(&number.to_string(), &metadata);
        }
        assert!(attempts.lock().len() <= NAMES_MAX);
    }
}
