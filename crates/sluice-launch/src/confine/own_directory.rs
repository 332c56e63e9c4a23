//! Directories that belong to one server process, such as that of its cgroups: what an earlier server has left behind is found.
//!
//! Each has the name of its process and is locked (flock(2)) while the process lives; the kernel releases the lock however it
//! ends. Whoever finds one that is not locked may remove it. Only directories of the own user are considered.

use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::BuildHasher;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::users::own_user::own_uid;

/// Names that are tried before the directory is given up: others may have taken them.
const ATTEMPTS: u32 = 100;

#[derive(Debug)]
pub(crate) struct OwnDirectory {
    pub(crate) path: PathBuf,
    _lock: File,
}

/// A directory that a process has left behind which is gone.
#[derive(Debug)]
pub(crate) struct Abandoned {
    pub(crate) path: PathBuf,
    /// Holds the lock, so that no other server removes it at the same time.
    _lock: File,
}

impl OwnDirectory {
    /// Creates and locks a directory below `parent`, whose name begins with `prefix`.
    pub(crate) fn create(parent: &Path, prefix: &str, mode: u32) -> io::Result<OwnDirectory> {
        let pid = std::process::id();
        for attempt in 0..ATTEMPTS {
            // Others may have taken every name that can be guessed.
            let number = if attempt == 0 { 0 } else { random() };
            let path = parent.join(format!("{prefix}{pid}.{number}"));
            match DirBuilder::new().mode(mode).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                created => created?,
            }
            // Another server may have taken it for abandoned before it was locked, and have removed it.
            match open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                lock => {
                    let lock = lock?;
                    if try_lock(&lock) && is_same(&lock, &path) {
                        return Ok(OwnDirectory { path, _lock: lock });
                    }
                }
            }
        }
        Err(io::Error::from_raw_os_error(libc::EEXIST))
    }

    /// The directories below `parent` with that prefix that no process holds.
    pub(crate) fn abandoned(parent: &Path, prefix: &str) -> Vec<Abandoned> {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        let named = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()));
        named
            .filter_map(|entry| {
                let path = entry.path();
                let lock = open(&path).ok()?;
                let is_own = lock.metadata().is_ok_and(|about| about.uid() == own_uid());
                (is_own && try_lock(&lock) && is_same(&lock, &path)).then_some(Abandoned { path, _lock: lock })
            })
            .collect()
    }
}

/// Opens a directory, and no symbolic link to one.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn try_lock(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn is_same(file: &File, path: &Path) -> bool {
    let identity = |about: fs::Metadata| (about.dev(), about.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => identity(open) == identity(named),
        _ => false,
    }
}

/// A number that nobody can guess: the standard library keeps its hash tables safe by such.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_directory_is_abandoned_when_its_lock_is_released() {
        let parent = tempfile::tempdir().unwrap();
        let create = || OwnDirectory::create(parent.path(), "test.", 0o700).unwrap();
        let found = || OwnDirectory::abandoned(parent.path(), "test.").len();
        let (first, second) = (create(), create());
        assert_ne!(first.path, second.path);
        fs::create_dir(parent.path().join("other")).unwrap();
        std::os::unix::fs::symlink(&first.path, parent.path().join("test.link")).unwrap();
        assert_eq!(found(), 0);
        drop(first);
        assert_eq!(found(), 1);
        drop(second);
        assert_eq!(found(), 2);
    }

    #[test]
    fn a_search_for_abandoned_directories_fails_no_creation() {
        let parent = tempfile::tempdir().unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for abandoned in OwnDirectory::abandoned(parent.path(), "test.") {
                        let _ = fs::remove_dir(&abandoned.path);
                    }
                }
            });
            let failed = (0..2_000).find_map(|_| OwnDirectory::create(parent.path(), "test.", 0o700).err());
            done.store(true, Ordering::Relaxed);
            assert!(failed.is_none(), "{failed:?}");
        });
    }

    #[test]
    fn names_that_others_have_taken_do_not_matter() {
        let parent = tempfile::tempdir().unwrap();
        for number in 0..ATTEMPTS {
            fs::write(parent.path().join(format!("test.{}.{number}", std::process::id())), "").unwrap();
        }
        OwnDirectory::create(parent.path(), "test.", 0o700).unwrap();
    }
}
