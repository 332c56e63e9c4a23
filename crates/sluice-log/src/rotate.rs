//! Rotation: when a log file is renamed, to which name, and which older files are removed.
//!
//! `access.log` becomes `access.log.20261121-235959`, the time of its last line, so names sort by time. If the name is taken, `.1` is appended, then `.2` …

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use sluice_settings::Rotation;

use crate::clock::second_of;

/// Files rotated within one second; further rotations wait until the next second.
const NAMES_MAX: u32 = 10_000;

/// The state of the file that is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    /// The size of the file.
    pub bytes: u64,
    /// The second at which the day of its first line ends.
    pub day_end: i64,
    /// The second of its last line.
    pub last: i64,
}

impl FileState {
    /// Reads the state of a file. What is not a regular file (a FIFO, a device) has size 0 and is never rotated.
    pub(crate) fn read(file: &File, zone: &TimeZone) -> FileState {
        let metadata = file.metadata().ok().filter(Metadata::is_file);
        let last = metadata
            .as_ref()
            .and_then(|metadata| metadata.modified().ok())
            .map_or(0, second_of);
        FileState {
            bytes: metadata.map_or(0, |metadata| metadata.len()),
            day_end: day_end(last, zone),
            last,
        }
    }
}

/// Whether to rotate before a line of `line_bytes` is written at second `now`. An empty file is never rotated.
pub(crate) fn is_due(rotation: &Rotation, state: &FileState, line_bytes: u64, now: i64) -> bool {
    let is_full = |bytes_max: u64| state.bytes.saturating_add(line_bytes) > bytes_max;
    let is_over = rotation.is_daily && now >= state.day_end;
    state.bytes > 0 && (is_over || rotation.bytes_max.is_some_and(is_full))
}

/// The first second of the next day in a time zone.
pub(crate) fn day_end(second: i64, zone: &TimeZone) -> i64 {
    let end = Timestamp::from_second(second).and_then(|time| {
        let next = time.to_zoned(zone.clone()).tomorrow()?;
        Ok(next.start_of_day()?.timestamp().as_second())
    });
    end.unwrap_or(i64::MAX)
}

/// The time in the name of a rotated file whose last line was written at this second.
pub(crate) fn stamp(second: i64, zone: &TimeZone) -> String {
    let time = Timestamp::from_second(second).unwrap_or_default();
    time.to_zoned(zone.clone()).strftime("%Y%m%d-%H%M%S").to_string()
}

/// Renames the file `path`, if it is still the one that is open, to a free name from number `first` on. Returns the next number.
pub(crate) fn rotate_out(path: &Path, open: &File, stamp: &str, first: u32) -> io::Result<u32> {
    let metadata = open.metadata()?;
    match fs::metadata(path) {
        Ok(found) if (found.dev(), found.ino()) == (metadata.dev(), metadata.ino()) => {}
        // Another program has renamed our file: the one that has the name now is not ours.
        Ok(_) => return Ok(first),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(first),
        Err(error) => return Err(error),
    }
    for number in first..NAMES_MAX {
        match rename_to_free(path, &name(path, stamp, number)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            renamed => return renamed.map(|()| number + 1),
        }
    }
    Err(io::Error::new(
        ErrorKind::AlreadyExists,
        "all names for this second are taken",
    ))
}

fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not support that (renameat2(2)); no other program creates such names.
        Err(Errno::INVAL | Errno::NOSYS) => match fs::symlink_metadata(to) {
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to),
        },
        renamed => renamed.map_err(io::Error::from),
    }
}

fn name(path: &Path, stamp: &str, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".");
    name.push(stamp);
    if number > 0 {
        name.push(format!(".{number}"));
    }
    name.into()
}

/// Removes the oldest rotated files, except the newest `keep`.
pub(crate) fn remove_oldest(path: &Path, keep: usize) -> io::Result<()> {
    let mut rotated = rotated(path)?;
    rotated.sort_unstable();
    let surplus = rotated.len().saturating_sub(keep);
    rotated[..surplus]
        .iter()
        .try_for_each(|(_, name)| fs::remove_file(path.with_file_name(name)))
}

/// The rotated files of a log, with their sort keys.
fn rotated(path: &Path) -> io::Result<Vec<((String, u32), OsString)>> {
    let (Some(directory), Some(own)) = (path.parent(), path.file_name()) else {
        return Ok(Vec::new());
    };
    let names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name()));
    let rotated = names.filter_map(|name| name.map(|name| Some((order(own, &name)?, name))).transpose());
    rotated.collect()
}

pub(crate) fn newest(path: &Path) -> Option<PathBuf> {
    let (_, name) = rotated(path).ok()?.into_iter().max()?;
    Some(path.with_file_name(name))
}

/// The sort key of a rotated file: its time and number. `None` for other files.
fn order(own: &OsStr, name: &OsStr) -> Option<(String, u32)> {
    let rest = name.as_encoded_bytes().strip_prefix(own.as_encoded_bytes())?;
    let rest = std::str::from_utf8(rest).ok()?.strip_prefix('.')?;
    let (stamp, number) = match rest.split_once('.') {
        None => (rest, 0),
        Some((stamp, number)) => (stamp, number.parse().ok().filter(|number: &u32| *number > 0)?),
    };
    let is_stamp = stamp.len() == 15
        && stamp.bytes().enumerate().all(|(at, byte)| match at {
            8 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    is_stamp.then(|| (stamp.to_owned(), number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotation(bytes_max: Option<u64>, is_daily: bool) -> Rotation {
        Rotation { bytes_max, is_daily, keep: None }
    }

    #[test]
    fn a_file_is_rotated_when_it_would_grow_too_large_or_its_day_is_over() {
        let state = FileState { bytes: 900, day_end: 86_400, last: 0 };
        let by_size = rotation(Some(1000), false);
        assert!(!is_due(&by_size, &state, 100, i64::MAX) && is_due(&by_size, &state, 101, 0));
        let by_day = rotation(None, true);
        assert!(!is_due(&by_day, &state, 1 << 40, 86_399) && is_due(&by_day, &state, 1, 86_400));
        let both = rotation(Some(1000), true);
        assert!(is_due(&both, &state, 1, 86_400) && is_due(&both, &state, 101, 0) && !is_due(&both, &state, 1, 0));
        assert!(!is_due(&rotation(None, false), &state, 1 << 40, i64::MAX));
        let empty = FileState { bytes: 0, ..state };
        assert!(!is_due(&both, &empty, 2000, i64::MAX), "an empty file is never rotated");
    }

    #[test]
    fn a_day_ends_at_midnight_of_its_zone_even_when_clocks_change() {
        assert_eq!(day_end(0, &TimeZone::UTC), 86_400);
        assert_eq!(day_end(86_399, &TimeZone::UTC), 86_400);
        assert_eq!(day_end(86_400, &TimeZone::UTC), 172_800);
        let east = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(day_end(0, &east), 79_200);
        assert_eq!(day_end(79_200, &east), 165_600);
        // Central Europe: 2026-10-25 has 25 hours, 2026-03-29 has 23.
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let midnight = |text: &str| text.parse::<Timestamp>().unwrap().as_second();
        assert_eq!(
            day_end(midnight("2026-10-24T22:00:00Z"), &berlin),
            midnight("2026-10-25T23:00:00Z")
        );
        assert_eq!(
            day_end(midnight("2026-03-28T23:00:00Z"), &berlin),
            midnight("2026-03-29T22:00:00Z")
        );
        assert_eq!(day_end(i64::MAX, &berlin), i64::MAX);
    }

    #[test]
    fn files_rotated_within_a_second_are_numbered() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let stamp = stamp(0, &TimeZone::UTC);
        let mut next = 0;
        for content in ["first", "second", "third"] {
            fs::write(&path, content).unwrap();
            let open = File::open(&path).unwrap();
            // As after a restart within the same second: taken names are skipped.
            let first = if content == "third" { 0 } else { next };
            next = rotate_out(&path, &open, &stamp, first).unwrap();
            assert!(!path.exists());
        }
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(read("a.log.19700101-000000"), "first");
        assert_eq!(read("a.log.19700101-000000.1"), "second");
        assert_eq!(read("a.log.19700101-000000.2"), "third");
    }

    #[test]
    fn a_file_of_another_program_is_not_renamed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        fs::write(&path, "ours").unwrap();
        let open = File::open(&path).unwrap();
        fs::rename(&path, directory.path().join("a.log.1")).unwrap();
        assert_eq!(rotate_out(&path, &open, "19700101-000000", 0).unwrap(), 0);
        fs::write(&path, "theirs").unwrap();
        assert_eq!(rotate_out(&path, &open, "19700101-000000", 0).unwrap(), 0);
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn only_the_oldest_rotated_files_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let rotated = [
            "a.log.20261119-235959",
            "a.log.20261120-120000",
            "a.log.20261120-120000.2",
            "a.log.20261120-120000.10",
            "a.log.20261120-235958",
        ];
        let others = [
            "a.log",
            "a.log.1",
            "a.log.20261101",
            "a.log.20261101-000000.gz",
            "b.a.log.20261101-000000",
        ];
        for name in rotated.iter().chain(&others) {
            fs::write(directory.path().join(name), "").unwrap();
        }
        remove_oldest(&path, 2).unwrap();
        let mut left: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort_unstable();
        let mut expected = [&rotated[3..], &others].concat();
        expected.sort_unstable();
        assert_eq!(left, expected);
        remove_oldest(&path, 2).unwrap();
    }
}
