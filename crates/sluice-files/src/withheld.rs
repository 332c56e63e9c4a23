//! Files that are never sent because of what they are: logs, configuration files, keys.
//!
//! They are known by path and by identity, so nothing else leads to them: no link, second mount, or other case of letters on a case-insensitive file system.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sluice_launch::deadline;

use crate::foreign::{self, Links};

/// Suffixes of compressed files: a file or name that is withheld, or that of a script, is also withheld with one of these.
pub(crate) const COMPRESSED: [&str; 5] = [".gz", ".br", ".zst", ".xz", ".bz2"];

/// Files that no client gets, whichever path leads to them.
#[derive(Default)]
pub struct WithheldFiles {
    files: Vec<WithheldFile>,
    /// Files that were open at the start and whose paths are unknown.
    open: Vec<FileId>,
    /// Paths of logs on which a symbolic link lies: it may lead to another file when the log is opened again.
    linked_logs: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WithheldFile {
    /// Without symbolic links in its directory.
    pub path: PathBuf,
    /// The file that was there at the start.
    id: Option<FileId>,
    names: WithheldNames,
}

/// Which names beside its own, also with the suffix of a compressed file, belong to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WithheldNames {
    One,
    /// Rotated and compressed files: the name and, after a dot, more, or after `-` or `_` a digit (logrotate's `dateext`).
    WithRotated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
    /// When it was made, because the inode of a removed file is used again. `None` if the file system does not say.
    created: Option<SystemTime>,
}

impl FileId {
    /// `None` for anything but a regular file: a device or pipe has other readers.
    fn of(metadata: &Metadata) -> Option<FileId> {
        metadata.is_file().then(|| FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
            created: metadata.created().ok(),
        })
    }

    fn at(path: &Path) -> Option<FileId> {
        FileId::of(&foreign::metadata(path, Links::Followed).ok()?)
    }
}

impl WithheldFiles {
    /// Adds a file, which need not exist yet, and the file that it links to.
    pub fn add(&mut self, path: &Path) {
        self.add_names(path, WithheldNames::One);
    }

    /// Adds a log, and the files to which it was and will be rotated.
    pub fn add_log(&mut self, path: &Path) {
        self.add_names(path, WithheldNames::WithRotated);
        if let Ok(path) = std::path::absolute(path)
            && path.ancestors().any(is_symlink)
        {
            self.linked_logs.push(path);
        }
    }

    /// Adds an open file, such as standard error that is redirected to a file, and the files to which it was and will be rotated.
    ///
    /// # Errors
    /// The system gives no information about it.
    pub fn add_open(&mut self, file: impl AsFd) -> io::Result<()> {
        let file = File::from(file.as_fd().try_clone_to_owned()?);
        if let Some(id) = FileId::of(&file.metadata()?) {
            self.open.push(id);
            // A removed file has no path: that in /proc then leads nowhere.
            let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
            if FileId::at(&path) == Some(id) {
                self.add_log(&path);
            }
        }
        Ok(())
    }

    fn add_names(&mut self, path: &Path, names: WithheldNames) {
        let beside = |path: &Path| Some(deadline::canonicalize(path.parent()?).ok()?.join(path.file_name()?));
        for path in [beside(path), deadline::canonicalize(path).ok()].into_iter().flatten() {
            let file = WithheldFile {
                id: deadline::metadata(&path).ok().as_ref().and_then(FileId::of),
                path,
                names,
            };
            if !self.files.contains(&file) {
                self.files.push(file);
            }
        }
    }

    /// The paths of those that lie below a directory, which has no symbolic links in its path.
    pub fn paths_below(&self, directory: &Path) -> impl Iterator<Item = &Path> {
        let paths = self.files.iter().map(|file| file.path.as_path());
        paths.filter(move |path| path.starts_with(directory))
    }

    /// The files that lie below a directory, with their paths in it.
    pub(crate) fn below(&self, directory: &Path) -> Vec<WithheldFile> {
        let below = self.files.iter().filter_map(|file| {
            let path = file.path.strip_prefix(directory).ok()?.to_owned();
            Some(WithheldFile { path, ..file.clone() })
        });
        below.collect()
    }

    /// Whether the real path of a file is that of one of them.
    pub(crate) fn is_at(&self, real: &Path) -> bool {
        self.files.iter().any(|file| file.is_at(real))
    }

    /// Whether a file that was opened by another path is one of them.
    pub(crate) fn has(&self, metadata: &Metadata) -> bool {
        let Some(id) = FileId::of(metadata) else { return false };
        let is_at = |path: &PathBuf| FileId::at(path) == Some(id);
        self.open.contains(&id)
            || self.files.iter().any(|file| file.id == Some(id))
            || self.linked_logs.iter().any(is_at)
            // A hard link to a file that has replaced the one at the start: a renewed key, a new log.
            || metadata.nlink() > 1 && self.files.iter().any(|file| is_at(&file.path))
    }
}

impl WithheldFile {
    /// Whether a path, relative to the same directory, is that of the file.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let own = self.path.as_os_str().as_encoded_bytes();
        let Some((name, more)) = path.as_os_str().as_encoded_bytes().split_at_checked(own.len()) else {
            return false;
        };
        // In other letters it is the same file only on a file system that ignores case; elsewhere nobody has both.
        name.eq_ignore_ascii_case(own)
            && match (self.names, more) {
                (_, []) | (WithheldNames::WithRotated, [b'.', ..]) => true,
                (WithheldNames::One, more) => is_compressed(more),
                (WithheldNames::WithRotated, [b'-' | b'_', digit, ..]) => digit.is_ascii_digit(),
                _ => false,
            }
    }
}

fn is_symlink(path: &Path) -> bool {
    deadline::symlink_metadata(path).is_ok_and(|about| about.is_symlink())
}

/// Whether the rest of a name is the suffix of a compressed file.
fn is_compressed(more: &[u8]) -> bool {
    let mut suffixes = COMPRESSED.iter();
    suffixes.any(|suffix| more.eq_ignore_ascii_case(suffix.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_known_by_path_and_by_identity() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        fs::create_dir(at("real")).unwrap();
        fs::write(at("real/key.pem"), "secret").unwrap();
        symlink("real", at("linked")).unwrap();
        symlink("real/key.pem", at("key.pem")).unwrap();
        let mut withheld = WithheldFiles::default();
        withheld.add(&at("key.pem"));
        withheld.add_log(&at("linked/access.log"));
        withheld.add_open(File::create(at("errors")).unwrap()).unwrap();

        let below = withheld.below(&root);
        let is_at = |path: &str| below.iter().any(|file| file.is_at(Path::new(path)));
        for path in [
            "key.pem",
            "key.pem.gz",
            "real/key.pem",
            "real/key.pem.ZST",
            "real/access.log",
            "real/access.log.20261121-235958",
            "real/access.log.1.gz",
            "real/access.log-20261122",
            "real/access.log_2026-11-22.gz",
            "errors",
            "errors.1",
            "Real/Access.LOG.1",
        ] {
            assert!(is_at(path), "{path}");
        }
        for path in [
            "key.pem.txt",
            "real/access.logs",
            "real/access.log-howto",
            "access.log",
            "real",
        ] {
            assert!(!is_at(path), "{path}");
        }
        let has = |name: &str| withheld.has(&fs::metadata(at(name)).unwrap());
        assert!(has("errors") && has("real/key.pem"));
        // The key is renewed: another file has its name, and a hard link leads to it.
        fs::write(at("new"), "secret").unwrap();
        fs::hard_link(at("new"), at("copy")).unwrap();
        assert!(!has("copy"));
        fs::rename(at("new"), at("real/key.pem")).unwrap();
        assert!(has("copy"));
    }

    #[test]
    fn a_log_is_known_by_the_link_that_leads_to_it_now() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for directory in ["first", "second"] {
            fs::create_dir(at(directory)).unwrap();
        }
        symlink("first", at("logs")).unwrap();
        symlink("early.txt", at("diagnostics")).unwrap();
        let mut withheld = WithheldFiles::default();
        withheld.add_log(&at("logs/access.log"));
        withheld.add_log(&at("diagnostics"));
        for name in ["early.txt", "late.txt", "first/access.log", "second/access.log"] {
            fs::write(at(name), "a line").unwrap();
        }
        let has = |name: &str| withheld.has(&fs::metadata(at(name)).unwrap());
        assert!(has("early.txt") && has("first/access.log"));
        assert!(!has("late.txt") && !has("second/access.log"));
        for (target, link) in [("late.txt", "diagnostics"), ("second", "logs")] {
            fs::remove_file(at(link)).unwrap();
            symlink(target, at(link)).unwrap();
        }
        assert!(has("late.txt") && has("second/access.log"));
    }
}
