//! A deadline for the file systems of a configuration: its files and directories are asked for on threads that may be lost, for some seconds in total.
//!
//! The file system of a path may be that of a process or machine that does not answer, and any process that may read a directory can hold it
//! (getdents64(2) into memory that does not answer). Whoever reads a configuration asks for each path by `ask`: without an answer in time there is an
//! error, and the reader goes on with the rest. Within `with_deadline` all paths have one time together: the first that does not answer takes most of it,
//! and what lies in the same directory is not waited for again. Outside of it the calling thread makes the call itself.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode as FileMode, OFlags, ResolveFlags, StatxFlags, openat2, statx};
use thiserror::Error;

use crate::foreign::answer::{Answer, NoAnswer};
use crate::foreign::owners;
use crate::foreign::user_threads::{Bounds, Held, UserThreads};

/// How long all paths of a configuration are waited for together.
const TIME: Duration = Duration::from_secs(4);

/// How long one is waited for at least, so that one file system that does not answer leaves time for those that do.
const LEAST: Duration = Duration::from_millis(250);

/// Directories above a path that are asked for.
const ANCESTORS_MAX: usize = 32;

const BOUNDS: Bounds = Bounds {
    name: "configured",
    at_once: 2,
    waiting_max: 4096,
    threads_max: 256,
    of_holder_max: 64,
    kept: 1,
};

static THREADS: LazyLock<UserThreads> = LazyLock::new(|| UserThreads::new(BOUNDS));

thread_local! {
    /// The deadline of the configuration which the calling thread reads.
    static TIME_LEFT: RefCell<Option<TimeLeft>> = const { RefCell::new(None) };
}

/// The time that is left, and what has not answered.
#[derive(Default)]
struct TimeLeft {
    spent: Duration,
    /// The places of which nothing more is asked.
    silent: HashSet<u64>,
    /// The holder of each place (`owners::holder_of`).
    holders: HashMap<u64, u64>,
    /// The places that did not answer another process.
    doubtful: HashSet<u64>,
    /// The paths that were asked for in vain.
    paths: Vec<PathBuf>,
}

#[derive(Debug, Error)]
#[error("its file system does not answer, or a process holds its directory")]
struct Unanswered;

/// Whether an error says that a path was not answered for.
#[must_use]
pub fn is_unanswered(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<Unanswered>)
}

/// Restores the deadline before, also if the work panics.
struct Scope(Option<TimeLeft>);

impl Drop for Scope {
    fn drop(&mut self) {
        TIME_LEFT.with_borrow_mut(|left| std::mem::swap(left, &mut self.0));
    }
}

/// Reads a configuration with a deadline: `ask` waits some seconds in all. One within another has the time of that.
pub fn with_deadline<T>(work: impl FnOnce() -> T) -> T {
    if TIME_LEFT.with_borrow(Option::is_some) {
        return work();
    }
    // The system may refuse threads later.
    THREADS.prepare();
    let _before = Scope(TIME_LEFT.replace(Some(TimeLeft::default())));
    work()
}

/// Whether a path is asked for, by whichever thread.
pub(crate) fn is_busy() -> bool {
    THREADS.is_busy()
}

/// The paths that `ask` has asked for in vain since `with_deadline` began.
#[must_use]
pub fn silent_paths() -> Vec<PathBuf> {
    TIME_LEFT.with_borrow(|left| left.as_ref().map(|left| left.paths.clone()).unwrap_or_default())
}

/// Says that these paths did not answer another process: they are waited for shortly.
pub fn expect_silence(paths: &[PathBuf]) {
    let places: Vec<u64> = paths.iter().map(|path| place_of(path)).collect();
    TIME_LEFT.with_borrow_mut(|left| left.iter_mut().for_each(|left| left.doubtful.extend(&places)));
}

/// Says that these paths did not answer another process a moment ago: they are not asked for, so that no thread of this process is lost.
pub fn assume_silence(paths: &[PathBuf]) {
    let places: Vec<u64> = paths.iter().map(|path| place_of(path)).collect();
    TIME_LEFT.with_borrow_mut(|left| {
        let Some(left) = left else { return };
        left.silent.extend(places);
        left.paths.extend_from_slice(paths);
    });
}

/// Asks the file system of a path.
///
/// # Errors
/// Those of the operation; or there was no answer in time (`is_unanswered`).
pub fn ask<T: Send + 'static>(
    path: &Path,
    operation: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    if TIME_LEFT.with_borrow(Option::is_none) {
        return operation();
    }
    let place = place_of(path);
    let Some(time) = TIME_LEFT.with_borrow(|left| left.as_ref()?.time_for(place)) else {
        return Err(unanswered());
    };
    let begun = Instant::now();
    let holder = TIME_LEFT.with_borrow_mut(|left| {
        let holders = &mut left.as_mut()?.holders;
        Some(*holders.entry(place).or_insert_with(|| owners::holder_of(path)))
    });
    let of = Held { share: place, holder: holder.unwrap_or(place) };
    let answer = Answer::begin(&THREADS, of, operation).wait(time);
    TIME_LEFT.with_borrow_mut(|left| {
        let Some(left) = left else { return };
        left.spent += begun.elapsed();
        if matches!(answer, Err(NoAnswer::Silent)) {
            left.silent.insert(place);
            left.paths.push(path.to_owned());
        }
    });
    match answer {
        Ok(answer) => answer,
        Err(NoAnswer::Silent) => Err(unanswered()),
        Err(NoAnswer::Panicked) => Err(io::Error::other("the question about it has panicked")),
    }
}

impl TimeLeft {
    /// How long a place is waited for. `None` if it has not answered.
    fn time_for(&self, place: u64) -> Option<Duration> {
        if self.silent.contains(&place) {
            return None;
        }
        Some(match self.doubtful.contains(&place) {
            true => LEAST,
            false => TIME.saturating_sub(self.spent).max(LEAST),
        })
    }
}

fn unanswered() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, Unanswered)
}

/// The metadata of a file (stat(2)).
///
/// # Errors
/// As of `ask`.
pub fn metadata(path: &Path) -> io::Result<Metadata> {
    let asked = path.to_owned();
    ask(path, move || asked.metadata())
}

/// The metadata of a file or link (lstat(2)).
///
/// # Errors
/// As of `ask`.
pub fn symlink_metadata(path: &Path) -> io::Result<Metadata> {
    let asked = path.to_owned();
    ask(path, move || asked.symlink_metadata())
}

/// The path without symbolic links (realpath(3)).
///
/// # Errors
/// As of `ask`.
pub fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    let asked = path.to_owned();
    ask(path, move || asked.canonicalize())
}

/// Whether there is a file at a path.
#[must_use]
pub fn is_file(path: &Path) -> bool {
    metadata(path).is_ok_and(|about| about.is_file())
}

/// Whether there is a directory at a path.
#[must_use]
pub fn is_dir(path: &Path) -> bool {
    metadata(path).is_ok_and(|about| about.is_dir())
}

/// A number for the last directory on a path that the kernel has in its cache, in which it would have to ask: what lies there waits for the same file system or
/// the same lock. Never waits.
fn place_of(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match absolute.ancestors().take(ANCESTORS_MAX).find_map(identity_of_cached) {
        Some(identity) => identity.hash(&mut hasher),
        // Before Linux 5.12.
        None => absolute.hash(&mut hasher),
    }
    hasher.finish()
}

/// Mount and inode of what the kernel has in its cache for a path.
fn identity_of_cached(path: &Path) -> Option<(u64, u64)> {
    let opened = openat2(
        CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        FileMode::empty(),
        ResolveFlags::CACHED,
    )
    .ok()?;
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let about = statx(opened, c"", flags, StatxFlags::INO | StatxFlags::MNT_ID).ok()?;
    Some((about.stx_mnt_id, about.stx_ino))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_does_not_answer_is_asked_once_and_the_rest_goes_on() {
        let (silent, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let below = silent.path().join("none/below");
        let (end, ended) = channel::<()>();
        let (shown, answered, begun) = with_deadline(|| {
            // As if another process had found it: a short time.
            expect_silence(std::slice::from_ref(&below));
            let error = ask(&below, move || Ok(ended.recv().is_err())).unwrap_err();
            assert!(is_unanswered(&error));
            let (begin, begun) = channel();
            let again = ask(&silent.path().join("none"), move || Ok(begin.send(()).is_ok()));
            assert!(is_unanswered(&again.unwrap_err()), "the same directory");
            assert_eq!(silent_paths(), std::slice::from_ref(&below));
            (error.to_string(), is_dir(other.path()), begun)
        });
        assert!(shown.contains("does not answer"), "{shown}");
        assert!(answered && begun.recv().is_err());
        drop(end);
        assert!(silent_paths().is_empty() && with_deadline(|| is_dir(silent.path())));
    }

    #[test]
    fn the_time_of_all_is_bounded_and_each_has_some() {
        let mut left = TimeLeft::default();
        assert_eq!(left.time_for(1), Some(TIME));
        left.spent = TIME - LEAST / 2;
        assert_eq!(left.time_for(1), Some(LEAST));
        left.silent.insert(1);
        assert_eq!((left.time_for(1), left.time_for(2)), (None, Some(LEAST)));
    }

    #[test]
    fn without_a_deadline_the_thread_asks_itself() {
        let own = std::thread::current().id();
        let asked = ask(Path::new("/"), move || Ok(std::thread::current().id() == own));
        assert!(asked.unwrap());
        let asked = with_deadline(|| ask(Path::new("/"), move || Ok(std::thread::current().id() == own)));
        assert!(!asked.unwrap());
    }
}
