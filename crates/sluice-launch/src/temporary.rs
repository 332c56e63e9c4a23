//! Directories for the temporary files of one script process each, which are removed when it has ended.
//!
//! Every process gets a fresh one, as TMPDIR. If the server may mount file systems (root), it also takes the place of `/tmp`
//! and `/var/tmp` for that process, in a mount namespace (`places`), because not every program asks for TMPDIR. An ordinary user could mount only in
//! a user namespace, which many systems forbid and which changes what a script sees of users; so there TMPDIR is all.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::credentials::Credentials;
use crate::own_directory::OwnDirectory;

const PREFIX: &str = "sluice-tmp.";

/// Makes the directories of one server, below one directory.
#[derive(Debug)]
pub(crate) struct TemporaryDirectories {
    parent: PathBuf,
    /// Made when the first one is needed.
    own: Mutex<Option<OwnDirectory>>,
    number: AtomicU64,
}

/// The directory of one script process. Its drop removes it and all that is in it, which may take long: not for an event loop.
#[derive(Debug)]
pub struct TemporaryDirectory {
    path: PathBuf,
}

impl TemporaryDirectories {
    /// Removes what servers of the same user have left behind there.
    pub(crate) fn below(parent: &Path) -> TemporaryDirectories {
        for abandoned in OwnDirectory::abandoned(parent, PREFIX) {
            let _ = fs::remove_dir_all(&abandoned.path);
        }
        TemporaryDirectories {
            parent: parent.to_owned(),
            own: Mutex::default(),
            number: AtomicU64::new(0),
        }
    }

    /// Makes a directory that only the user of the process may use.
    pub(crate) fn create(&self, user: Option<&Credentials>) -> io::Result<TemporaryDirectory> {
        // The users of scripts must be able to pass through it.
        const PASSABLE: u32 = 0o711;
        const PRIVATE: u32 = 0o700;
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let below = match &mut *own {
            Some(own) => own,
            none => none.insert(OwnDirectory::create(&self.parent, PREFIX, PASSABLE)?),
        };
        let path = below.path.join(self.number.fetch_add(1, Ordering::Relaxed).to_string());
        fs::DirBuilder::new().mode(PRIVATE).create(&path)?;
        let directory = TemporaryDirectory { path };
        if let Some(user) = user {
            chown(&directory.path, Some(user.uid), Some(user.gid))?;
        }
        Ok(directory)
    }
}

impl Drop for TemporaryDirectories {
    fn drop(&mut self) {
        if let Some(own) = self.own.get_mut().unwrap_or_else(PoisonError::into_inner) {
            let _ = fs::remove_dir_all(&own.path);
        }
    }
}

impl TemporaryDirectory {
    /// Its path, absolute if that of its parent is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
