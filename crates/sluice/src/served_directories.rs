//! The directories that a configuration names: noticing that a path leads to another one, and that the server may not use one.
//!
//! A deployment switches a symbolic link, or renames directories. The server has the directory of before open, and would serve it until a reload.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD, accessat, statvfs};
use sluice_launch::deadline;
use sluice_settings::Settings;
use sluice_settings::permission::{Use, explained, read_only_explained};
use tokio::time::{Instant, sleep_until};

use crate::path_checks::PathChecks;

const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The longest pause. Each change doubles it, because all directories are opened again and the cache begins empty; a link's owner can switch it without end.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Time without a change after which the pause is short again.
const QUIET: Duration = Duration::from_secs(600);

/// Device and inode of a directory, and its path without symbolic links, which scripts know. `None` while the path leads to no directory.
type Identity = Option<(u64, u64, PathBuf)>;

/// The directories of a configuration, as of the last check. The default has none.
#[derive(Default)]
pub(crate) struct ServedDirectories {
    /// The directories of files and scripts, then the one for request bodies, if the configuration names it.
    paths: Arc<[PathBuf]>,
    /// The findings for the directories of files and scripts.
    seen: Vec<Identity>,
    checks: Option<PathChecks<Found>>,
    /// `None` before the first check, whose findings replace those of the settings before.
    faults: Option<Vec<String>>,
    pause: Pause,
}

/// A directory as a check finds it: what its path leads to, and why the server may not enter it, or not make files in it.
struct Found(Identity, [Option<String>; 2]);

/// The pause between two checks.
#[derive(Default)]
struct Pause {
    /// Changes since the last quiet time.
    changes: u32,
    last_change: Option<Instant>,
    /// When the next check is due. `None` before the first one.
    due: Option<Instant>,
}

impl Pause {
    /// Notes a check and whether it has found a change.
    fn note(&mut self, has_changed: bool, now: Instant) {
        if has_changed {
            self.changes += 1;
            self.last_change = Some(now);
        } else if self.last_change.is_some_and(|last| now - last >= QUIET) {
            *self = Pause::default();
        }
        let factor = 1_u32.checked_shl(self.changes).unwrap_or(u32::MAX);
        self.due = Some(now + CHECK_INTERVAL.saturating_mul(factor).min(CHECK_INTERVAL_MAX));
    }
}

impl ServedDirectories {
    /// The directories of settings whose server does not have them open yet: what their paths lead to from now on is noticed. To be called with a deadline.
    pub(crate) fn of(settings: &Settings) -> ServedDirectories {
        let mut paths: Vec<PathBuf> = settings.served_directories().map(|(_, path)| path.to_owned()).collect();
        paths.sort_unstable();
        paths.dedup();
        ServedDirectories::at(paths, settings.spool_directory.clone())
    }

    fn at(mut paths: Vec<PathBuf>, spool: Option<PathBuf>) -> ServedDirectories {
        let identities = paths
            .iter()
            .map(|path| identity_of(deadline::canonicalize(path).ok()?, deadline::metadata));
        ServedDirectories {
            seen: identities.collect(),
            paths: {
                paths.extend(spool);
                paths.into()
            },
            ..ServedDirectories::default()
        }
    }

    /// Waits until paths lead to other directories than before, and returns them, or until the server may use others; also returns a line about each that it
    /// may not use. A directory that disappears stays open until another one has its path.
    pub(crate) async fn changed(&mut self) -> (Vec<PathBuf>, Vec<String>) {
        if self.paths.is_empty() {
            return std::future::pending().await;
        }
        loop {
            if let Some(due) = self.pause.due {
                sleep_until(due).await;
            }
            let checks = self
                .checks
                .get_or_insert_with(|| PathChecks::new(Arc::clone(&self.paths), look));
            // Without an answer nothing is known to have changed.
            let found = checks.round().await;
            let faults = self.faults_of(&found);
            let identities = found.into_iter().map(|found| found?.0);
            let changed = self.compare(identities.collect());
            self.pause.note(!changed.is_empty(), Instant::now());
            if !changed.is_empty() || self.faults.as_ref() != Some(&faults) {
                self.faults = Some(faults.clone());
                let moved = changed.iter().map(|index| self.paths[*index].clone());
                return (moved.collect(), faults);
            }
        }
    }

    fn faults_of(&self, found: &[Option<Found>]) -> Vec<String> {
        let of_found = found.iter().zip(&*self.paths).enumerate();
        let faults = of_found.filter_map(|(index, (found, path))| {
            let Found(_, [entered, written]) = found.as_ref()?;
            let (fault, refused) = match index < self.seen.len() {
                true => (entered, "requests for it"),
                false => (written, "larger request bodies for scripts"),
            };
            let (shown, fault) = (path.display(), fault.as_ref()?);
            Some(format!(
                "{shown}: {fault}; {refused} are refused until that is corrected"
            ))
        });
        faults.collect()
    }

    /// Notes what the paths lead to now. Returns the numbers of those that have led elsewhere.
    fn compare(&mut self, now: Vec<Identity>) -> Vec<usize> {
        let mut changed = Vec::new();
        for (index, (seen, now)) in self.seen.iter_mut().zip(now).enumerate() {
            // One that appears is opened by the first request for it.
            let Some(now) = now else { continue };
            if seen.as_ref().is_some_and(|seen| *seen != now) {
                changed.push(index);
            }
            *seen = Some(now);
        }
        changed
    }
}

fn look(path: &Path) -> Found {
    let identity = || identity_of(fs::canonicalize(path).ok()?, |path| fs::metadata(path));
    let refusal = |access, wanted| {
        let refusal = accessat(CWD, path, access, AtFlags::EACCESS).err()?;
        Some(read_only_explained(path, explained(path, wanted, refusal.into())))
    };
    // A directory that does not exist is a fault of the configuration, which `Lacks` has.
    let entered =
        refusal(Access::EXEC_OK, Use::Enter).filter(|refusal| refusal.kind() == io::ErrorKind::PermissionDenied);
    let full = || (statvfs(path).ok()?.f_bavail == 0).then(|| io::ErrorKind::StorageFull.into());
    let written = refusal(Access::WRITE_OK | Access::EXEC_OK, Use::Write).or_else(full);
    Found(identity(), [entered, written].map(|refusal| Some(refusal?.to_string())))
}

fn identity_of(path: PathBuf, ask: impl FnOnce(&Path) -> io::Result<fs::Metadata>) -> Identity {
    let about = ask(&path).ok()?;
    about.is_dir().then(|| (about.dev(), about.ino(), path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn only_another_directory_counts_as_a_change() {
        let known = |inode, path: &str| Some((1, inode, PathBuf::from(path)));
        let [one, two, renamed] = [known(1, "/one"), known(2, "/two"), known(2, "/new")];
        let mut directories = ServedDirectories {
            seen: vec![one.clone(), None],
            ..ServedDirectories::default()
        };
        for (now, changed) in [
            ([&one, &None], &[][..]),
            ([&None, &one], &[]),
            ([&one, &one], &[]),
            ([&None, &one], &[]),
            ([&two, &two], &[0, 1]),
            ([&two, &one], &[1]),
            ([&renamed, &one], &[0]),
        ] {
            assert_eq!(directories.compare(now.map(Clone::clone).to_vec()), changed, "{now:?}");
        }
    }

    #[test]
    fn a_link_that_is_switched_before_the_first_check_leads_elsewhere() {
        let directory = tempfile::tempdir().unwrap();
        let [one, two, link] = ["one", "two", "link"].map(|name| directory.path().join(name));
        [&one, &two].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        symlink(&one, &link).unwrap();
        let mut directories = deadline::with_deadline(|| ServedDirectories::at(vec![link.clone(), one], None));
        fs::remove_file(&link).unwrap();
        symlink(&two, &link).unwrap();
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        assert_eq!(runtime.block_on(directories.changed()).0, [link]);
    }

    #[test]
    fn a_path_that_keeps_switching_is_followed_once_a_minute() {
        let (mut pause, begun) = (Pause::default(), Instant::now());
        let mut seconds = |has_changed, at| {
            let now = begun + Duration::from_secs(at);
            pause.note(has_changed, now);
            (pause.due.unwrap() - now).as_secs()
        };
        assert_eq!(seconds(false, 0), 1);
        let pauses: Vec<u64> = (0..100).map(|at| seconds(true, at)).collect();
        assert_eq!(pauses[..7], [2, 4, 8, 16, 32, 60, 60]);
        assert!(pauses[7..].iter().all(|pause| *pause == 60));
        assert_eq!((seconds(false, 698), seconds(false, 699)), (60, 1));
    }
}
