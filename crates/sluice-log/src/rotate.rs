//! Rotation: when a log's file is put aside, under which name, and which older ones go.
//!
//! Here: the decisions, and the renames and removals that carry them out. Not here: the file that is written to (`sink`).
//!
//! `access.log` becomes `access.log.20261121-235959`: the time of its last line, so that names sort as the lines do. A second
//! of the same name gets `.1` behind it, and so on.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use sluice_settings::Rotation;

/// Files put aside within one second; with more the log stays in its file until the second is over.
const NAMES_MAX: u32 = 10_000;

/// What is known of the file that is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    /// Its bytes.
    pub bytes: u64,
    /// The first second of the day after its first line's.
    pub day_end: i64,
    /// The second of its last line.
    pub last: i64,
}

/// Whether the file is put aside before a line of so many bytes is written at this second. A file has at least one line.
pub(crate) fn is_due(rotation: &Rotation, filling: &FileState, line_bytes: u64, now: i64) -> bool {
    let is_full = |most: u64| filling.bytes.saturating_add(line_bytes) > most;
    let is_over = rotation.is_daily && now >= filling.day_end;
    filling.bytes > 0 && (is_over || rotation.bytes_max.is_some_and(is_full))
}

/// The first second of the next day in a time zone.
pub(crate) fn day_end(second: i64, zone: &TimeZone) -> i64 {
    let end = Timestamp::from_second(second).and_then(|time| {
        let next = time.to_zoned(zone.clone()).tomorrow()?;
        Ok(next.start_of_day()?.timestamp().as_second())
    });
    end.unwrap_or(i64::MAX)
}

/// The first part of the name of a file whose last line is of this second.
pub(crate) fn stamp(second: i64, zone: &TimeZone) -> String {
    let time = Timestamp::from_second(second).unwrap_or_default();
    time.to_zoned(zone.clone()).strftime("%Y%m%d-%H%M%S").to_string()
}

/// Renames the file under `path`, if it is still the one that is held open, to the first name that is free. Names below
/// number `first` are known to be taken; returns the next.
pub(crate) fn rotate_out(path: &Path, held: &File, stamp: &str, first: u32) -> io::Result<u32> {
    let about = held.metadata()?;
    match fs::metadata(path) {
        Ok(there) if (there.dev(), there.ino()) == (about.dev(), about.ino()) => {}
        // Somebody else has put it aside: what is under the name now is not ours to move.
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
    Err(io::Error::new(ErrorKind::AlreadyExists, "every name for it is taken"))
}

/// Renames without displacing what has the name.
fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that cannot promise that (renameat2(2)); nobody else makes such names.
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

/// Removes the oldest of the files that were put aside, but for so many.
pub(crate) fn remove_oldest(path: &Path, keep: usize) -> io::Result<()> {
    let (Some(directory), Some(own)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let mut aside = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if let Some(order) = order(own, &name) {
            aside.push((order, name));
        }
    }
    aside.sort_unstable();
    let surplus = aside.len().saturating_sub(keep);
    for (_, name) in &aside[..surplus] {
        fs::remove_file(directory.join(name))?;
    }
    Ok(())
}

/// Where in the order of its likes a file stands that was put aside; none for a file of another name.
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
        Rotation {
            bytes_max,
            is_daily,
            keep: None,
        }
    }

    #[test]
    fn a_file_is_put_aside_when_it_would_grow_too_large_or_its_day_is_over() {
        let filling = FileState {
            bytes: 900,
            day_end: 86_400,
            last: 0,
        };
        let by_size = rotation(Some(1000), false);
        assert!(!is_due(&by_size, &filling, 100, i64::MAX) && is_due(&by_size, &filling, 101, 0));
        let by_day = rotation(None, true);
        assert!(!is_due(&by_day, &filling, 1 << 40, 86_399) && is_due(&by_day, &filling, 1, 86_400));
        let both = rotation(Some(1000), true);
        assert!(
            is_due(&both, &filling, 1, 86_400) && is_due(&both, &filling, 101, 0) && !is_due(&both, &filling, 1, 0)
        );
        assert!(!is_due(&rotation(None, false), &filling, 1 << 40, i64::MAX));
        let empty = FileState { bytes: 0, ..filling };
        assert!(
            !is_due(&both, &empty, 2000, i64::MAX),
            "an empty file is put aside by nothing"
        );
    }

    #[test]
    fn a_day_ends_at_midnight_of_its_zone_also_when_clocks_change() {
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
    fn files_put_aside_within_a_second_are_numbered() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let stamp = stamp(0, &TimeZone::UTC);
        let mut next = 0;
        for content in ["first", "second", "third"] {
            fs::write(&path, content).unwrap();
            let held = File::open(&path).unwrap();
            // As after a restart within the same second: the names that are taken are found out.
            let first = if content == "third" { 0 } else { next };
            next = rotate_out(&path, &held, &stamp, first).unwrap();
            assert!(!path.exists());
        }
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(read("a.log.19700101-000000"), "first");
        assert_eq!(read("a.log.19700101-000000.1"), "second");
        assert_eq!(read("a.log.19700101-000000.2"), "third");
    }

    #[test]
    fn a_file_that_somebody_else_has_put_there_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        fs::write(&path, "ours").unwrap();
        let held = File::open(&path).unwrap();
        fs::rename(&path, directory.path().join("a.log.1")).unwrap();
        assert_eq!(rotate_out(&path, &held, "19700101-000000", 0).unwrap(), 0);
        fs::write(&path, "theirs").unwrap();
        assert_eq!(rotate_out(&path, &held, "19700101-000000", 0).unwrap(), 0);
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn the_oldest_go_and_other_files_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let aside = [
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
        for name in aside.iter().chain(&others) {
            fs::write(directory.path().join(name), "").unwrap();
        }
        remove_oldest(&path, 2).unwrap();
        let mut left: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort_unstable();
        let mut expected = [&aside[3..], &others].concat();
        expected.sort_unstable();
        assert_eq!(left, expected);
        remove_oldest(&path, 2).unwrap();
    }
}
