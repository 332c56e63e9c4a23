//! Removing a directory with all that is in it, whatever a script makes of it: nested thousands deep, without permissions, or written to meanwhile.
//!
//! Each directory is emptied where it is, except that its own directories are moved to the top first. So four descriptors and no
//! recursion are enough however deep it is, and nothing depends on `..`, which another process could make lead elsewhere. Directories are named by
//! their descriptors (`/proc/self/fd`), and symbolic links are removed, never followed.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The permissions that its owner needs to empty a directory.
const OWNER_ALL: u32 = 0o700;

/// Names that are tried for a directory at the top: a script may have taken them.
const ATTEMPTS: u64 = 1000;

/// Removes a directory with all that is in it. Gives up after a time, or when nothing more can be removed: fails with the first reason.
pub(crate) fn remove(path: &Path, timeout: Duration) -> io::Result<()> {
    let top = match Directory::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mut removal = Removal {
        deadline: Instant::now() + timeout,
        moved: 0,
        removed: 0,
        failure: None,
    };
    // What is moved to the top may appear in the same pass, or in the next one.
    loop {
        let before = removal.removed;
        let is_empty = removal.pass(&top)?;
        if is_empty {
            return fs::remove_dir(path);
        }
        if removal.removed == before {
            return Err(removal
                .failure
                .unwrap_or_else(|| io::ErrorKind::DirectoryNotEmpty.into()));
        }
    }
}

struct Removal {
    deadline: Instant,
    moved: u64,
    removed: u64,
    /// Why something could not be removed, at first.
    failure: Option<io::Error>,
}

impl Removal {
    /// Removes each entry of the top, or all but the directories in it, which are moved to the top. True if there was none.
    fn pass(&mut self, top: &Directory) -> io::Result<bool> {
        let mut is_empty = true;
        for entry in top.entries()? {
            let entry = entry?;
            is_empty = false;
            let result = self.remove_entry(top, top, &entry);
            self.note(result);
            self.check_time()?;
        }
        Ok(is_empty)
    }

    /// Removes an entry of `parent`. A directory that is not empty is emptied, if `parent` is the top, or else moved there.
    fn remove_entry(&mut self, top: &Directory, parent: &Directory, entry: &fs::DirEntry) -> io::Result<()> {
        let name = entry.file_name();
        let path = parent.at(&name);
        if !entry.file_type()?.is_dir() {
            fs::remove_file(&path)?;
        } else if let Err(error) = fs::remove_dir(&path) {
            if error.kind() != io::ErrorKind::DirectoryNotEmpty {
                return Err(error);
            }
            let directory = Directory::open(&path)?;
            if parent.file.as_raw_fd() != top.file.as_raw_fd() {
                self.move_to(top, &path)?;
                return Ok(());
            }
            self.empty(top, &directory)?;
            fs::remove_dir(&path)?;
        }
        self.removed += 1;
        Ok(())
    }

    /// Removes or moves all that is in a directory of the top.
    fn empty(&mut self, top: &Directory, directory: &Directory) -> io::Result<()> {
        for entry in directory.entries()? {
            let result = self.remove_entry(top, directory, &entry?);
            self.note(result);
            self.check_time()?;
        }
        Ok(())
    }

    fn move_to(&mut self, top: &Directory, path: &Path) -> io::Result<()> {
        for _ in 0..ATTEMPTS {
            self.moved += 1;
            let name = format!("sluice-removed.{}", self.moved);
            match fs::rename(path, top.at(name.as_ref())) {
                // The name is taken. An empty directory of that name has been replaced.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory
                    ) => {}
                done => return done,
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Records a failure. A file that no longer exists is not a failure.
    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result
            && error.kind() != io::ErrorKind::NotFound
        {
            self.failure.get_or_insert(error);
        }
    }

    fn check_time(&self) -> io::Result<()> {
        match Instant::now() < self.deadline {
            true => Ok(()),
            false => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// An open directory, which is found again by its descriptor.
struct Directory {
    file: File,
    path: PathBuf,
}

impl Directory {
    /// Opens a directory, and no symbolic link to one, and gives its owner all permissions.
    fn open(path: &Path) -> io::Result<Directory> {
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let mode = file.metadata()?.permissions().mode();
        if mode & OWNER_ALL != OWNER_ALL {
            // If it is not permitted, that is seen when it is emptied.
            let _ = fs::set_permissions(&path, Permissions::from_mode(mode | OWNER_ALL));
        }
        Ok(Directory { file, path })
    }

    fn entries(&self) -> io::Result<fs::ReadDir> {
        fs::read_dir(&self.path)
    }

    fn at(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(300);

    /// Makes directories in each other.
    fn nest(path: &Path, levels: usize) {
        fs::create_dir(path).unwrap();
        let mut inner = Directory::open(path).unwrap();
        for _ in 0..levels {
            let below = inner.at("d".as_ref());
            fs::create_dir(&below).unwrap();
            fs::write(inner.at("file".as_ref()), "").unwrap();
            inner = Directory::open(&below).unwrap();
        }
    }

    #[test]
    fn a_deep_directory_is_removed_on_a_small_stack() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("top");
        nest(&path, 500);
        let removed = std::thread::Builder::new()
            .stack_size(64 * 1024)
            .spawn({
                let path = path.clone();
                move || remove(&path, TIMEOUT)
            })
            .unwrap();
        removed.join().unwrap().unwrap();
        assert!(!path.exists());
        remove(&path, TIMEOUT).unwrap();
    }

    #[test]
    fn names_that_it_needs_may_be_taken_and_links_are_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let (path, other) = (parent.path().join("top"), parent.path().join("other"));
        fs::create_dir(&other).unwrap();
        fs::write(other.join("kept"), "").unwrap();
        nest(&path, 3);
        symlink(&other, path.join("link")).unwrap();
        symlink(&other, path.join("d/link")).unwrap();
        fs::write(path.join("sluice-removed.1"), "").unwrap();
        fs::create_dir(path.join("sluice-removed.2")).unwrap();
        fs::create_dir_all(path.join("sluice-removed.3/a/b")).unwrap();
        remove(&path, TIMEOUT).unwrap();
        assert!(!path.exists() && other.join("kept").exists());
        symlink(&other, &path).unwrap();
        assert!(remove(&path, TIMEOUT).is_err(), "a link is not the directory");
        assert!(other.join("kept").exists());
    }

    #[test]
    fn what_takes_too_long_is_given_up() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("top");
        nest(&path, 3);
        assert_eq!(
            remove(&path, Duration::ZERO).unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        assert!(path.exists());
    }
}
