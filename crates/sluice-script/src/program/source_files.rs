//! Files whose changes replace the kept processes of a route (`watch`): modules that its scripts have loaded.
//!
//! A thread makes a list of these files with their stamps once a second while the route has processes, and compares it with the last one; requests pay
//! nothing. Every file system reports modification times, whereas inotify(7) is silent about those of other machines, and needs a watch for each directory.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::program::stamp::Stamp;

/// Directory entries that are read for one list. A list of so many takes some tens of milliseconds of one processor.
const ENTRIES_MAX: usize = 10_000;

/// Directories below each other. Symbolic links to directories are not followed, so this is no loop.
const DEPTH_MAX: usize = 32;

/// Lists in a row that differ before the log asks whether a script writes the files itself.
const CHANGES_USUAL: u32 = 5;

/// A file, or a directory with all that is below it.
#[derive(Clone, Debug)]
pub(crate) struct SourcePath {
    pub path: PathBuf,
    /// The suffixes of the files that count; empty if all do.
    pub suffixes: &'static [&'static str],
}

/// The files of a route whose changes replace its processes.
pub(crate) struct SourceFiles {
    paths: Vec<SourcePath>,
    /// A thread makes a list.
    is_busy: AtomicBool,
    known: Mutex<Known>,
}

struct Known {
    files: BTreeMap<PathBuf, Stamp>,
    /// Lists in a row that differed.
    changes: u32,
    /// More files than are compared: that was logged.
    is_excess_logged: bool,
}

impl SourceFiles {
    /// Reads the files as they are now. `None` if there are no paths.
    pub(crate) fn new(paths: Vec<SourcePath>) -> Option<SourceFiles> {
        if paths.is_empty() {
            return None;
        }
        let list = List::of(&paths);
        Some(SourceFiles {
            is_busy: AtomicBool::new(false),
            known: Mutex::new(Known {
                is_excess_logged: list.log_excess(&paths),
                files: list.files,
                changes: 0,
            }),
            paths,
        })
    }

    /// Whether the caller may call `check` now. False while another thread does.
    // Relaxed: the lock of `known` publishes what the threads share.
    pub(crate) fn begin_check(&self) -> bool {
        !self.is_busy.swap(true, Ordering::Relaxed)
    }

    /// Reads the files again. True if one has changed, has come or has gone. Blocks; to be called after `begin_check`.
    pub(crate) fn check(&self) -> bool {
        let list = List::of(&self.paths);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.is_excess_logged {
            known.is_excess_logged = list.log_excess(&self.paths);
        }
        let changed = differences(&known.files, &list.files);
        let others = changed.len().saturating_sub(1);
        let first = changed.first().map(|path| path.to_path_buf());
        match &first {
            Some(path) => {
                known.changes += 1;
                log_change(path, others, known.changes);
            }
            None => known.changes = 0,
        }
        known.files = list.files;
        self.is_busy.store(false, Ordering::Relaxed);
        first.is_some()
    }
}

/// `others` is the number of further files that have changed.
fn log_change(path: &Path, others: usize, changes: u32) {
    let path = path.display();
    match changes {
        ..CHANGES_USUAL if others == 0 => {
            tracing::info!("watch: {path} has changed: processes that may have loaded it are replaced");
        }
        ..CHANGES_USUAL => tracing::info!(
            "watch: {path} and {others} more have changed: processes that may have loaded them are replaced"
        ),
        CHANGES_USUAL => tracing::warn!(
            "watch: {path} or others have changed in each of the last {CHANGES_USUAL} seconds, so no process lives for long: \
             if scripts write there, name only the directories of their programs"
        ),
        _ => {}
    }
}

/// The paths of the files that are in one list only, or have another stamp in the other.
fn differences<'a>(old: &'a BTreeMap<PathBuf, Stamp>, new: &'a BTreeMap<PathBuf, Stamp>) -> Vec<&'a Path> {
    let changed = new.iter().filter(|(path, stamp)| old.get(*path) != Some(stamp));
    let gone = old.keys().filter(|path| !new.contains_key(*path));
    let paths = changed.map(|(path, _)| path).chain(gone);
    paths.map(PathBuf::as_path).collect()
}

/// The files below some paths.
#[derive(Default)]
struct List {
    files: BTreeMap<PathBuf, Stamp>,
    entries: usize,
}

impl List {
    fn of(paths: &[SourcePath]) -> List {
        let mut list = List::default();
        for SourcePath { path, suffixes } in paths {
            match fs::metadata(path) {
                Ok(metadata) if metadata.is_dir() => list.add_directory(path, suffixes, 0),
                Ok(metadata) => {
                    list.files.insert(path.clone(), Stamp::of(&metadata));
                }
                // It may come later.
                Err(_) => {}
            }
        }
        list
    }

    fn add_directory(&mut self, directory: &Path, suffixes: &[&str], depth: usize) {
        // Nobody edits the modules of a virtual environment, and there are thousands.
        if !suffixes.is_empty() && directory.join("pyvenv.cfg").exists() {
            return;
        }
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return;
            }
            if !is_ignored(&entry.file_name()) {
                self.add(&entry, suffixes, depth);
            }
        }
    }

    fn add(&mut self, entry: &DirEntry, suffixes: &[&str], depth: usize) {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { return };
        if kind.is_dir() {
            if depth < DEPTH_MAX {
                self.add_directory(&path, suffixes, depth + 1);
            }
            return;
        }
        let name = entry.file_name();
        let counts = |suffix: &&str| name.as_bytes().ends_with(suffix.as_bytes());
        if !suffixes.is_empty() && !suffixes.iter().any(counts) {
            return;
        }
        // Of a link its target counts, or the link itself if that is a directory or does not exist.
        let target = fs::metadata(&path).ok().filter(|metadata| !metadata.is_dir());
        if let Some(metadata) = target.or_else(|| entry.metadata().ok()) {
            self.files.insert(path, Stamp::of(&metadata));
        }
    }

    /// Logs that there are more files than are compared. True if so.
    fn log_excess(&self, paths: &[SourcePath]) -> bool {
        let is_excess = self.entries > ENTRIES_MAX;
        if is_excess {
            let paths: Vec<_> = paths.iter().map(|source| &source.path).collect();
            tracing::warn!(
                "watch: there are more than {ENTRIES_MAX} entries below {paths:?}, and changes of the others are not seen: \
                 name smaller directories in watch"
            );
        }
        is_excess
    }
}

/// Whether programs do not load a file of this name: hidden files and directories, copies of editors, and what Python writes when it loads a module.
fn is_ignored(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b".")
        || name.starts_with(b"#")
        || name == b"__pycache__"
        || [&b"~"[..], b".pyc", b".swp", b".swx", b".tmp"]
            .iter()
            .any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(path: PathBuf) -> SourcePath {
        SourcePath { path, suffixes: &[] }
    }

    #[test]
    fn changes_are_seen_at_any_depth_and_only_of_files_that_count() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let write = |name: &str, text: &str| {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), text).unwrap();
        };
        write("lib/a/b/c.py", "1");
        write("lib/d.py", "1");
        std::os::unix::fs::symlink("../..", path("lib/a/loop")).unwrap();
        let sources = SourceFiles::new(vec![all(path("lib")), all(path("one.conf"))]).unwrap();
        let check = || {
            assert!(sources.begin_check());
            sources.check()
        };
        assert!(!check());
        write("lib/a/b/c.py", "22");
        assert!(check() && !check());
        write("lib/new.py", "1");
        assert!(check() && !check());
        fs::remove_file(path("lib/d.py")).unwrap();
        assert!(check() && !check());
        write("one.conf", "1");
        assert!(check() && !check());
        for ignored in ["lib/__pycache__/c.pyc", "lib/.git/index", "lib/c.py~", "lib/.c.py.swp"] {
            write(ignored, "1");
        }
        assert!(!check());
    }

    #[test]
    fn of_a_directory_only_sources_may_count() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let write = |name: &str, text: &str| {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), text).unwrap();
        };
        write("venv/pyvenv.cfg", "");
        let sources = SourcePath {
            path: directory.path().to_owned(),
            suffixes: &[".py", ".pl"],
        };
        let sources = SourceFiles::new(vec![sources]).unwrap();
        let check = || {
            assert!(sources.begin_check());
            sources.check()
        };
        for (name, counts) in [
            ("data.txt", false),
            ("venv/lib/x.py", false),
            ("deep/er/x.py", true),
            ("x.pl", true),
            ("x.py.txt", false),
        ] {
            write(name, "1");
            assert_eq!(check(), counts, "{name}");
        }
    }

    #[test]
    fn one_thread_checks_at_a_time_and_no_path_is_no_work() {
        assert!(SourceFiles::new(Vec::new()).is_none());
        let sources = SourceFiles::new(vec![all("/nonexistent".into())]).unwrap();
        assert!(sources.begin_check() && !sources.begin_check());
        assert!(!sources.check());
        assert!(sources.begin_check());
    }
}
