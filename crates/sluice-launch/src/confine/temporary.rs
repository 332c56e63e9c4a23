//! Directories for the temporary files of one script process each, which are removed when it has ended.
//!
//! Every process gets a fresh one, as TMPDIR. If the server may mount file systems (root), it also takes the place of `/tmp`
//! and `/var/tmp` for that process, in a mount namespace (`root_and_tmp`), because not every program asks for TMPDIR. An ordinary user could mount only in
//! a user namespace, which many systems forbid and which changes what a script sees of users; so there TMPDIR is all.
//!
//! A user can keep a directory that he may read locked without bound (getdents64(2) into memory that a file system of his own serves), and rmdir(2) of it then
//! waits with the lock of its parent. So the parent of each directory is one of the server that belongs to no other process, and which the user may
//! neither read nor change: `sluice-tmp.PID.0/NUMBER/tmp`.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::confine::own_directory::{Abandoned, OwnDirectory};
use crate::confine::root_directory::{Others, directory_of_root};
use crate::end::remove_tree;
use crate::users::credentials::Credentials;
use crate::users::own_user::own_uid;

const PREFIX: &str = "sluice-tmp.";

const NAME: &str = "tmp";

/// The permissions of what the users of scripts must pass through, but may not read.
const PASSABLE: u32 = 0o711;

const REMOVAL_TIMEOUT: Duration = Duration::from_secs(300);

/// The same at the end of the server, which must not wait: the next one removes the rest.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The shortest time between two lines of the log about directories that cannot be removed.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Makes the directories of one server, below one directory.
#[derive(Debug)]
pub(crate) struct TemporaryDirectories {
    parent: PathBuf,
    /// Made when the first one is needed. The lock is never held across a call that makes a directory, which may wait for the owner of another one.
    own: Mutex<Option<Arc<OwnDirectory>>>,
    number: AtomicU64,
}

/// The directory of one script process. Its drop removes it and all that is in it, which may take long: not for an event loop.
#[derive(Debug)]
pub struct TemporaryDirectory {
    /// Belongs to the server, and has only the directory in it.
    parent: PathBuf,
    path: PathBuf,
}

impl TemporaryDirectories {
    /// Removes what servers of the same user have left behind there, on a thread of its own: it may take long. For root this is another
    /// directory if somebody else can change the given one.
    pub(crate) fn below(parent: &Path) -> TemporaryDirectories {
        let parent = &match own_uid() {
            0 => parent_for_root(parent),
            _ => parent.to_owned(),
        };
        // Without a thread they stay for the next server.
        let _ = thread::Builder::new().name("temporary-files".into()).spawn({
            let parent = parent.clone();
            move || remove_abandoned(&OwnDirectory::abandoned(&parent, PREFIX))
        });
        TemporaryDirectories {
            parent: parent.to_owned(),
            own: Mutex::default(),
            number: AtomicU64::new(0),
        }
    }

    /// Makes a directory that only the user of the process may use.
    pub(crate) fn create(&self, user: Option<&Credentials>) -> io::Result<TemporaryDirectory> {
        let own = self.own()?;
        match self.create_below(&own, user) {
            // Somebody has removed that of the server: a script of the same user, or a program that cleans /tmp.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.locked().take_if(|current| Arc::ptr_eq(current, &own));
                let own = self.own()?;
                self.create_below(&own, user)
            }
            created => created,
        }
    }

    /// The server's own directory, which is made first if it does not exist.
    fn own(&self) -> io::Result<Arc<OwnDirectory>> {
        if let Some(own) = self.locked().as_ref() {
            return Ok(Arc::clone(own));
        }
        let made = Arc::new(OwnDirectory::create(&self.parent, PREFIX, PASSABLE)?);
        let mut current = self.locked();
        match current.as_ref() {
            // Another thread was faster.
            Some(own) => {
                let own = Arc::clone(own);
                drop(current);
                let _ = fs::remove_dir(&made.path);
                Ok(own)
            }
            None => Ok(Arc::clone(current.insert(made))),
        }
    }

    fn create_below(&self, own: &OwnDirectory, user: Option<&Credentials>) -> io::Result<TemporaryDirectory> {
        let parent = own.path.join(self.number.fetch_add(1, Ordering::Relaxed).to_string());
        fs::DirBuilder::new().mode(PASSABLE).create(&parent)?;
        let directory = TemporaryDirectory { path: parent.join(NAME), parent };
        fs::DirBuilder::new().mode(0o700).create(&directory.path)?;
        if let Some(user) = user {
            chown(&directory.path, Some(user.uid), Some(user.gid))?;
        }
        Ok(directory)
    }

    fn locked(&self) -> MutexGuard<'_, Option<Arc<OwnDirectory>>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TemporaryDirectories {
    fn drop(&mut self) {
        if let Some(own) = self.own.get_mut().unwrap_or_else(PoisonError::into_inner) {
            remove(&own.path, END_TIMEOUT);
        }
    }
}

impl TemporaryDirectory {
    /// The path, absolute if that of the parent is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        remove(&self.path, REMOVAL_TIMEOUT);
        // It is empty, or what is left was logged.
        let _ = fs::remove_dir(&self.parent);
    }
}

/// A directory in which nobody but root can replace what root makes: this one, or else one of the system. Root makes directories there, gives them
/// to other users and removes them, by path; a link instead of one of them would lead root elsewhere.
fn parent_for_root(wanted: &Path) -> PathBuf {
    let of_system = ["/var/tmp", "/tmp", "/"].map(Path::new);
    let found = [wanted]
        .into_iter()
        .chain(of_system)
        .find_map(|path| directory_of_root(path, Others::AddNames));
    let found = found.unwrap_or_else(|| PathBuf::from("/"));
    if !found.starts_with(wanted.canonicalize().unwrap_or_default()) {
        tracing::info!(
            "temporary files of scripts (private_tmp) are below {}, because others than root can change {}",
            found.display(),
            wanted.display()
        );
    }
    found
}

fn remove_abandoned(all: &[Abandoned]) {
    for abandoned in all {
        remove(&abandoned.path, REMOVAL_TIMEOUT);
    }
}

/// Removes a directory with all that is in it, and logs if it cannot; not again within a minute, whatever scripts do.
fn remove(path: &Path, timeout: Duration) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let Err(error) = remove_tree::remove(path, timeout) else {
        return;
    };
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_none_or(|last| last.elapsed() >= LOG_INTERVAL) {
        *last = Some(Instant::now());
        drop(last);
        tracing::warn!("temporary files of a script are left in {}: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_makes_nothing_where_another_user_could_put_a_link() {
        if own_uid() != 0 {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let of_user = place.path().join("spool");
        fs::create_dir_all(of_user.join("below")).unwrap();
        chown(&of_user, Some(64_001), Some(64_001)).unwrap();
        std::os::unix::fs::symlink(&of_user, place.path().join("link")).unwrap();
        for name in ["spool", "spool/below", "link"] {
            let made = TemporaryDirectories::below(&place.path().join(name))
                .create(None)
                .unwrap();
            assert!(made.path().starts_with("/var/tmp"), "{name}: {}", made.path().display());
        }
        let own = TemporaryDirectories::below(place.path()).create(None).unwrap();
        assert!(own.path().starts_with(place.path()));
    }

    #[test]
    fn the_directory_of_the_server_is_made_again_if_somebody_removes_it() {
        let parent = tempfile::tempdir().unwrap();
        let all = TemporaryDirectories::below(parent.path());
        let first = all.create(None).unwrap();
        fs::remove_dir_all(first.path().ancestors().nth(2).unwrap()).unwrap();
        assert!(all.create(None).unwrap().path().is_dir());
    }
}
