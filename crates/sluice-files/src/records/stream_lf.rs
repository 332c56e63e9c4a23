//! Rewrites a record file as stream-LF, atomically, and keeps the original beside it.
//!
//! The original is kept as `NAME.orig`. Its existence shows later that NAME contains lines ([`has_original`]), because Linux has
//! no file attribute for that. The order of the steps makes this true at every moment, also for concurrent readers:
//!
//! 1. the lines are written to a hidden file in the same directory;
//! 2. `NAME.orig` becomes a second hard link to the original: NAME still is the original, so it still contains records;
//! 3. the hidden file is renamed to NAME.
//!
//! If the server is interrupted after the second step, the next attempt finds its own link. No symbolic link is followed, and no `.orig` file is overwritten.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{File, FileTimes, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

use rustix::fs::{AtFlags, Mode as FileMode, OFlags};
use rustix::io::Errno;
use sluice_settings::record_format::RecordFormat;

use crate::foreign::{self, Links};
use crate::links::named_path;
use crate::records::decoder::{Decoder, Malformed};

/// The suffix that is added to the name of a file to name its original.
pub const ORIGINAL_SUFFIX: &str = ".orig";

const CHUNK_BYTES: usize = 256 << 10;

/// A rewritten file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The number of records, each of which is a line now.
    pub records: u64,
    /// The size of the lines in bytes.
    pub bytes: u64,
}

/// The reason why a file was not changed.
#[derive(Debug)]
pub enum RewriteError {
    /// The file does not have this format.
    Malformed(Malformed),
    /// The file is the original of another, according to its name.
    IsOriginal,
    /// The path is a symbolic link.
    IsLink,
    /// Not a regular file: a directory, a device.
    NotRegular,
    /// A file with the name of the original exists: the file was rewritten already, or the name is in use.
    OriginalExists,
    /// The file was changed during the rewriting.
    Changed,
    /// The operation that failed, and the error of the system.
    System(&'static str, io::Error),
}

/// Rewrites the file `name` in `directory`. Mode and times are kept, and the owner if the system allows it.
///
/// # Errors
/// The file was not changed, for this reason; the owner of the directory can fix it.
pub fn rewrite(directory: &File, name: &OsStr, format: RecordFormat) -> Result<Rewritten, RewriteError> {
    if name.as_bytes().ends_with(ORIGINAL_SUFFIX.as_bytes()) {
        return Err(RewriteError::IsOriginal);
    }
    let mut original = open_original(directory, name)?;
    let before = original.metadata().map_err(|error| system("read", error))?;
    if !before.is_file() {
        return Err(RewriteError::NotRegular);
    }
    let kept = original_of(name);
    // Checked before the work; keep_original checks it again.
    if metadata_of(directory, &kept)?.is_some_and(|there| !is_same(&there, &before)) {
        return Err(RewriteError::OriginalExists);
    }
    let mut draft = Draft::create(directory)?;
    let rewritten = convert(&mut original, &mut draft.file, format)?;
    inherit(&draft.file, &before)?;
    keep_original(directory, name, &kept, &before)?;
    draft.replace(name).inspect_err(|_| remove(directory, &kept))?;
    // A failure is ignored: the names are valid also if the directory cannot be synced.
    let _ = directory.sync_all();
    Ok(rewritten)
}

/// Rewrites a file as [`rewrite`] does; the directories of its path may be symbolic links.
///
/// # Errors
/// As of [`rewrite`].
pub fn rewrite_path(path: &Path, format: RecordFormat) -> Result<Rewritten, RewriteError> {
    let name = path.file_name().ok_or(RewriteError::NotRegular)?;
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    let directory = File::open(directory).map_err(|error| system("read its directory", error))?;
    rewrite(&directory, name, format)
}

/// Whether an open file was rewritten: another file beside it has its name with [`ORIGINAL_SUFFIX`].
///
/// Uses the file's real name, which the kernel reports without a race, not that of the links through which it was opened. A removed file has none.
pub(crate) fn has_original(file: &File, metadata: &Metadata) -> bool {
    let beside = named_path(file).map(|path| original_of(path.as_os_str()));
    let beside = beside.and_then(|path| foreign::metadata(Path::new(&path), Links::Shown));
    beside.is_ok_and(|beside| beside.is_file() && !is_same_file(&beside, metadata))
}

fn original_of(name: &OsStr) -> OsString {
    let mut kept = name.to_owned();
    kept.push(ORIGINAL_SUFFIX);
    kept
}

fn open_original(directory: &File, name: &OsStr) -> Result<File, RewriteError> {
    // NONBLOCK: opening a FIFO must not block.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, name, flags, FileMode::empty()) {
        Ok(file) => Ok(file.into()),
        Err(Errno::LOOP) => Err(RewriteError::IsLink),
        // A socket.
        Err(Errno::NXIO) => Err(RewriteError::NotRegular),
        Err(error) => Err(system("read", error.into())),
    }
}

/// The metadata of a name, without following a symbolic link; `None` if it does not exist.
fn metadata_of(directory: &File, name: &OsStr) -> Result<Option<Metadata>, RewriteError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, name, flags, FileMode::empty()) {
        Ok(file) => {
            let metadata = File::from(file).metadata();
            metadata.map(Some).map_err(|error| system("check", error))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(system("check", error.into())),
    }
}

fn convert(original: &mut File, draft: &mut File, format: RecordFormat) -> Result<Rewritten, RewriteError> {
    let mut decoder = Decoder::new(format);
    let (mut chunk, mut lines) = (vec![0; CHUNK_BYTES], Vec::new());
    let mut bytes = 0;
    loop {
        let read = match original.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(system("read", error)),
        };
        lines.clear();
        let pushed = decoder.push(&chunk[..read], &mut lines);
        pushed.map_err(RewriteError::Malformed)?;
        draft.write_all(&lines).map_err(|error| system("write", error))?;
        bytes += lines.len() as u64;
    }
    decoder.finish().map_err(RewriteError::Malformed)?;
    Ok(Rewritten { records: decoder.records(), bytes })
}

/// Copies owner, mode and times of the original to the draft, and syncs the draft before it gets its name.
fn inherit(draft: &File, before: &Metadata) -> Result<(), RewriteError> {
    // Only root may change the owner; others may change the group to one of theirs. As much as is allowed is done.
    let _ = fchown(draft, Some(before.uid()), Some(before.gid())).or_else(|_| fchown(draft, None, Some(before.gid())));
    let stored = || {
        // After the owner, because a change of owner clears bits of the mode.
        draft.set_permissions(before.permissions())?;
        let times = FileTimes::new().set_accessed(before.accessed()?);
        // The lines are those that were served before, so clients that revalidate by date need not fetch them again.
        draft.set_times(times.set_modified(before.modified()?))?;
        draft.sync_all()
    };
    stored().map_err(|error| system("write", error))
}

/// Links the original as `kept`, and checks that `name` still is the file that was read.
fn keep_original(directory: &File, name: &OsStr, kept: &OsStr, before: &Metadata) -> Result<(), RewriteError> {
    match rustix::fs::linkat(directory, name, directory, kept, AtFlags::empty()) {
        Ok(()) => {}
        // An earlier attempt was interrupted after this step, or a concurrent one was faster.
        Err(Errno::EXIST) if metadata_of(directory, kept)?.is_some_and(|there| is_same(&there, before)) => {}
        Err(Errno::EXIST) => return Err(RewriteError::OriginalExists),
        Err(error) => return Err(system("keep as .orig", error.into())),
    }
    // A change between this check and the rename, a few microseconds, would be lost: no system call replaces a file only if it is a certain one.
    for name in [kept, name] {
        if !metadata_of(directory, name)?.is_some_and(|now| is_same(&now, before)) {
            remove(directory, kept);
            return Err(RewriteError::Changed);
        }
    }
    Ok(())
}

fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Whether both are the same file with the same content. The ctime is not compared, because a new link changes it.
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    let content = |metadata: &Metadata| (metadata.len(), metadata.mtime(), metadata.mtime_nsec());
    is_same_file(one, other) && content(one) == content(other)
}

fn remove(directory: &File, name: &OsStr) {
    // A failure is ignored: it only leaves a superfluous name.
    let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
}

fn system(what: &'static str, error: io::Error) -> RewriteError {
    RewriteError::System(what, error)
}

/// The new file under a hidden name, which is never served. Dropping it removes the file unless it was renamed.
struct Draft<'a> {
    directory: &'a File,
    name: OsString,
    file: File,
    is_placed: bool,
}

impl Draft<'_> {
    fn create(directory: &File) -> Result<Draft<'_>, RewriteError> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| system("name a new file", io::Error::other(error)))?;
        let name = OsString::from(format!(".sluice-{:016x}", u64::from_ne_bytes(random)));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, &name, flags, FileMode::RUSR | FileMode::WUSR);
        let file = file.map_err(|error| system("write to its directory", error.into()))?;
        Ok(Draft {
            directory,
            name,
            file: file.into(),
            is_placed: false,
        })
    }

    fn replace(mut self, name: &OsStr) -> Result<(), RewriteError> {
        rustix::fs::renameat(self.directory, &self.name, self.directory, name)
            .map_err(|error| system("replace", error.into()))?;
        self.is_placed = true;
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.is_placed {
            remove(self.directory, &self.name);
        }
    }
}

/// The reason, without the name of the file.
impl fmt::Display for RewriteError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RewriteError::Malformed(malformed) => malformed.fmt(out),
            RewriteError::IsOriginal => write!(out, "is the original of a rewritten file ({ORIGINAL_SUFFIX})"),
            RewriteError::IsLink => out.write_str("is a symbolic link: name its target instead"),
            RewriteError::NotRegular => out.write_str("is not a regular file"),
            RewriteError::OriginalExists => write!(
                out,
                "was rewritten already, or another file has the name that its original would get: {ORIGINAL_SUFFIX} exists"
            ),
            RewriteError::Changed => out.write_str("was changed during the rewriting"),
            RewriteError::System(what, error) => write!(out, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for RewriteError {}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::{Duration, SystemTime};

    use tempfile::TempDir;

    use super::*;

    const RECORDS: &[u8] = b"\x05\0hello\0\x04\0good\x05\0world\0";
    const LINES: &str = "hello\ngood\nworld\n";

    fn directory() -> (TempDir, File) {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("a.txt"), RECORDS).unwrap();
        let directory = File::open(place.path()).unwrap();
        (place, directory)
    }

    fn rewrite_in(directory: &File, name: &str) -> Result<Rewritten, String> {
        rewrite(directory, OsStr::new(name), RecordFormat::Variable).map_err(|error| error.to_string())
    }

    fn names(place: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(place.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn is_rewritten(path: &Path) -> bool {
        let file = File::open(path).unwrap();
        has_original(&file, &file.metadata().unwrap())
    }

    #[test]
    fn file_is_rewritten_and_its_original_kept() {
        let (place, directory) = directory();
        let (path, kept) = (place.path().join("a.txt"), place.path().join("a.txt.orig"));
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000_123);
        File::open(&path)
            .unwrap()
            .set_times(FileTimes::new().set_modified(modified))
            .unwrap();
        assert!(!is_rewritten(&path));
        let rewritten = rewrite_in(&directory, "a.txt").unwrap();
        assert_eq!((rewritten.records, rewritten.bytes), (3, 17));
        assert_eq!(
            (fs::read_to_string(&path).unwrap(), fs::read(&kept).unwrap()),
            (LINES.into(), RECORDS.into())
        );
        for path in [&path, &kept] {
            let about = fs::metadata(path).unwrap();
            assert_eq!((about.mode() & 0o7777, about.modified().unwrap()), (0o640, modified));
        }
        assert!(is_rewritten(&path) && !is_rewritten(&kept));
        assert_eq!(names(&place), ["a.txt", "a.txt.orig"]);
        for (name, message) in [("a.txt", ".orig exists"), ("a.txt.orig", "is the original")] {
            assert!(rewrite_in(&directory, name).unwrap_err().contains(message), "{name}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), LINES);
    }

    #[test]
    fn file_that_cannot_be_rewritten_stays_and_leaves_nothing() {
        let (place, directory) = directory();
        let at = |name: &str| place.path().join(name);
        fs::write(at("short"), &RECORDS[..10]).unwrap();
        fs::write(at("taken"), RECORDS).unwrap();
        symlink("nowhere", at("taken.orig")).unwrap();
        symlink("a.txt", at("link")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        let before = names(&place);
        for (name, message) in [
            ("short", "byte 8: the file ends within a record, 4 bytes are missing"),
            ("taken", ".orig exists"),
            ("link", "is a symbolic link"),
            ("directory", "is not a regular file"),
            ("none", "cannot read: No such file"),
        ] {
            let error = rewrite_in(&directory, name).unwrap_err();
            assert!(error.contains(message), "{name}: {error}");
        }
        assert_eq!(names(&place), before);
        assert_eq!(fs::read(at("short")).unwrap(), &RECORDS[..10]);
        assert_eq!(fs::read(at("taken")).unwrap(), RECORDS);
    }

    #[test]
    fn interrupted_attempt_is_finished() {
        let (place, directory) = directory();
        let (path, kept) = (place.path().join("a.txt"), place.path().join("a.txt.orig"));
        fs::hard_link(&path, &kept).unwrap();
        assert!(!is_rewritten(&path), "still the original");
        rewrite_in(&directory, "a.txt").unwrap();
        assert_eq!(
            (fs::read_to_string(&path).unwrap(), fs::read(&kept).unwrap()),
            (LINES.into(), RECORDS.into())
        );
    }

    #[test]
    fn file_that_was_changed_meanwhile_is_not_replaced() {
        let (place, directory) = directory();
        let before = fs::metadata(place.path().join("a.txt")).unwrap();
        fs::write(place.path().join("new"), "other").unwrap();
        fs::rename(place.path().join("new"), place.path().join("a.txt")).unwrap();
        let (name, kept) = (OsStr::new("a.txt"), OsStr::new("a.txt.orig"));
        let error = keep_original(&directory, name, kept, &before).unwrap_err();
        assert!(matches!(error, RewriteError::Changed), "{error}");
        assert_eq!(names(&place), ["a.txt"]);
    }

    #[test]
    fn path_may_contain_links_but_not_end_in_one() {
        let (place, _) = directory();
        let (real, link) = (place.path().join("real"), place.path().join("link"));
        fs::create_dir(&real).unwrap();
        symlink("real", &link).unwrap();
        fs::write(real.join("b"), RECORDS).unwrap();
        assert_eq!(
            rewrite_path(&link.join("b"), RecordFormat::Variable).unwrap().records,
            3
        );
        assert!(is_rewritten(&real.join("b")) && is_rewritten(&link.join("b")));
        let error = rewrite_path(&link, RecordFormat::Variable).unwrap_err();
        assert!(matches!(error, RewriteError::IsLink), "{error}");
        assert!(matches!(
            rewrite_path(Path::new("/"), RecordFormat::Variable),
            Err(RewriteError::NotRegular)
        ));
    }
}
