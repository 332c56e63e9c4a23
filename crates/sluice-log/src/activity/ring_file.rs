//! The file with the minutes: of fixed size, one record for each of 28 days' minutes, which are used again in turn.
//!
//! ```text
//! header (64 bytes) │ record 0 │ record 1 │ … │ record 40319          record number = minute since 1970 modulo 40320
//! ```
//! | offset in the header | bytes | value |
//! |---|---|---|
//! | 0 | 8 | `sluiceAR` |
//! | 8 | 4 | the version of the layout: 1 |
//! | 12, 16 | 4, 4 | 40320 records of 64 bytes |
//! | 20 | 4 | 1 while a server runs, 2 after it has stopped |
//! | 24 | 8 | the number of that server, which it has drawn at its start |
//! | 32 | 8 | the second of the last write, since 1970 |
//! | 60 | 4 | CRC-32 of the first 60 bytes |
//!
//! A record says which minute it is of, so old ones need not be erased. All numbers are little-endian. Nothing in the file is believed without
//! its checksum. One server writes to it, which holds a lock (flock(2)); a file that belongs to another user, or is no regular file, is not
//! used, and one with another content is renamed and not overwritten.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
use sluice_report::activity::{MINUTES, Minute};

use crate::activity::record::{self, Decoded, RECORD_BYTES, Record};

const MAGIC: [u8; 8] = *b"sluiceAR";
const VERSION: u32 = 1;
/// `RECORD_BYTES`, as the header has it.
const RECORD_LENGTH: u32 = 64;
const CHECKSUM_AT: usize = RECORD_BYTES - 4;

pub(super) const FILE_BYTES: u64 = (MINUTES as u64 + 1) * RECORD_BYTES as u64;

/// How often a file that is replaced while it is opened is opened again.
const ATTEMPTS: usize = 4;

/// The suffix that is added to the name of a file with other content.
const DAMAGED_SUFFIX: &str = ".damaged";

#[derive(Debug)]
pub(super) struct RingFile {
    file: File,
    path: PathBuf,
    owner: u64,
}

/// The end of the server that wrote to the file before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// There was none, or it has stopped, or it was this one.
    Stopped,
    /// The server has ended without a stop. The time of its last write, seconds since 1970.
    Crashed(u64),
}

/// Whether the server goes on after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Runs = 1,
    Stopped = 2,
}

impl RingFile {
    /// Opens a file, or makes it, with its directory. An error is one line for the administrator.
    pub(super) fn open(path: &Path, owner: u64) -> Result<(RingFile, Before), String> {
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        if let Some(directory) = path.parent() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
            made.map_err(|error| format!("{}: {error}", directory.display()))?;
        }
        for _ in 0..ATTEMPTS {
            let file = open_checked(path)?;
            let ring = RingFile { file, path: path.to_owned(), owner };
            // Another server may have renamed it before it was locked.
            if !ring.is_in_place() {
                continue;
            }
            let bytes = ring.file.metadata().map_err(failed)?.len();
            if bytes == 0 {
                ring.allocate().map_err(failed)?;
                return Ok((ring, Before::Stopped));
            }
            let Some(before) = ring.before() else {
                ring.rename_damaged()?;
                continue;
            };
            if bytes != FILE_BYTES {
                tracing::warn!(
                    "activity: {} has {bytes} bytes instead of {FILE_BYTES}: it is repaired",
                    path.display()
                );
                ring.allocate().map_err(failed)?;
            }
            ring.report_damage();
            return Ok((ring, before));
        }
        Err(format!("{}: it is replaced again and again", path.display()))
    }

    /// The content of the header. `None` if the file has no header of this layout.
    fn before(&self) -> Option<Before> {
        let header = self.read_records(0, 1).ok()?.into_iter().next()?;
        let is_known = header[..8] == MAGIC
            && record::u32_at(&header, CHECKSUM_AT) == record::checksum(&header, CHECKSUM_AT)
            && record::u32_at(&header, 8) == VERSION
            && record::u32_at(&header, 12) == MINUTES
            && record::u32_at(&header, 16) == RECORD_LENGTH;
        let is_running = record::u32_at(&header, 20) == State::Runs as u32 && record::u64_at(&header, 24) != self.owner;
        is_known.then(|| match is_running {
            true => Before::Crashed(record::u64_at(&header, 32)),
            false => Before::Stopped,
        })
    }

    /// Gives the file its size, and the disk the room for it, so that later writes do not fail.
    fn allocate(&self) -> io::Result<()> {
        match fallocate(&self.file, FallocateFlags::empty(), 0, FILE_BYTES) {
            // Not every file system can.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            allocated => allocated?,
        }
        self.file.set_len(FILE_BYTES)
    }

    /// Renames a file with another content, so that nothing of it is lost. One that was renamed before is replaced.
    fn rename_damaged(&self) -> Result<(), String> {
        let mut renamed = self.path.clone().into_os_string();
        renamed.push(DAMAGED_SUFFIX);
        let renamed = PathBuf::from(renamed);
        let shown = self.path.display();
        fs::rename(&self.path, &renamed)
            .map_err(|error| format!("{shown} is damaged and cannot be renamed: {error}"))?;
        tracing::warn!(
            "activity: {shown} is damaged, or of another version: it is now {}, and a new one begins",
            renamed.display()
        );
        Ok(())
    }

    fn report_damage(&self) {
        let Ok(records) = self.read_records(1, MINUTES as usize) else {
            return;
        };
        let is_damaged = |bytes: &&Record| record::decode(bytes) == Decoded::Damaged;
        let damaged = records.iter().filter(is_damaged).count();
        if damaged > 0 {
            let shown = self.path.display();
            tracing::warn!("activity: {damaged} minutes in {shown} are damaged and are not shown");
        }
    }

    pub(super) fn is_in_place(&self) -> bool {
        let id = |about: Metadata| (about.dev(), about.ino());
        match (fs::symlink_metadata(&self.path), self.file.metadata()) {
            (Ok(named), Ok(open)) => id(named) == id(open),
            _ => false,
        }
    }

    /// The minutes from `first` on that the file has. An error is the system's.
    pub(super) fn read(&self, first: u32, count: u32) -> io::Result<Vec<Minute>> {
        let count = count.min(MINUTES);
        let begin = first % MINUTES;
        let before_end = count.min(MINUTES - begin);
        let mut records = self.read_records(1 + begin as usize, before_end as usize)?;
        records.extend(self.read_records(1, (count - before_end) as usize)?);
        let is_wanted = |minute: &Minute| minute.minute.checked_sub(first).is_some_and(|offset| offset < count);
        let minutes = records.iter().filter_map(|bytes| match record::decode(bytes) {
            Decoded::Minute(minute) => Some(minute),
            Decoded::Empty | Decoded::Damaged => None,
        });
        Ok(minutes.filter(is_wanted).collect())
    }

    /// Adds what happened in a minute to its record; an older minute there is replaced. An error is the system's.
    pub(super) fn add(&self, minute: &Minute) -> io::Result<()> {
        let number = 1 + (minute.minute % MINUTES) as usize;
        let mut sum = *minute;
        let found = self.read_records(number, 1)?;
        if let Some(Decoded::Minute(found)) = found.first().map(record::decode)
            && found.minute == minute.minute
        {
            sum.add(&found);
        }
        self.file.write_all_at(&record::encode(&sum), offset(number))
    }

    /// Writes the header. An error is the system's.
    pub(super) fn write_header(&self, state: State, now: u64) -> io::Result<()> {
        let mut header: Record = [0; RECORD_BYTES];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &MINUTES.to_le_bytes());
        put(16, &RECORD_LENGTH.to_le_bytes());
        put(20, &(state as u32).to_le_bytes());
        put(24, &self.owner.to_le_bytes());
        put(32, &now.to_le_bytes());
        let checksum = record::checksum(&header, CHECKSUM_AT);
        header[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        self.file.write_all_at(&header, 0)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Reads records by their numbers; 0 is the header. Those behind the end of a truncated file are empty.
    fn read_records(&self, first: usize, count: usize) -> io::Result<Vec<Record>> {
        let mut bytes = vec![0; count * RECORD_BYTES];
        let mut read = 0;
        while read < bytes.len() {
            match self.file.read_at(&mut bytes[read..], offset(first) + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let (records, _) = bytes.as_chunks::<RECORD_BYTES>();
        Ok(records.to_vec())
    }
}

fn offset(number: usize) -> u64 {
    (number * RECORD_BYTES) as u64
}

fn open_checked(path: &Path) -> Result<File, String> {
    let shown = path.display();
    // NONBLOCK, because a FIFO of that name would hold the thread.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(number) if number == Errno::LOOP.raw_os_error() => format!("{shown} is a symbolic link"),
        _ => format!("{shown}: {error}"),
    })?;
    let about = file.metadata().map_err(|error| format!("{shown}: {error}"))?;
    if !about.is_file() {
        return Err(format!("{shown} is not a regular file"));
    }
    if about.uid() != geteuid().as_raw() {
        return Err(format!("{shown} belongs to user {}", about.uid()));
    }
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(format!(
            "{shown} is used by another server: give each a state_directory of its own"
        )),
        Err(error) => Err(format!("{shown} cannot be locked: {}", io::Error::from(error))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn minute(number: u32, requests: u32) -> Minute {
        Minute { requests, ..Minute::new(number) }
    }

    fn open(path: &Path, owner: u64) -> (RingFile, Before) {
        RingFile::open(path, owner).unwrap()
    }

    #[test]
    fn minutes_are_read_back_also_around_the_end_of_the_ring() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/er/ring");
        let (ring, before) = open(&path, 1);
        assert_eq!(before, Before::Stopped);
        let last = 3 * MINUTES - 1;
        for number in [last - 1, last, last + 1, last + 1] {
            ring.add(&minute(number, 5)).unwrap();
        }
        let requests = |first, count| -> Vec<u32> {
            let minutes = ring.read(first, count).unwrap();
            minutes.iter().map(|minute| minute.requests).collect()
        };
        assert_eq!(requests(last - 1, 3), [5, 5, 10]);
        assert_eq!(requests(last + 1, MINUTES), [10]);
        // 28 days later the record is used again.
        ring.add(&minute(last + MINUTES, 7)).unwrap();
        assert_eq!(requests(last, 1), [0; 0]);
        assert_eq!(requests(last + MINUTES, 1), [7]);
        let about = fs::metadata(&path).unwrap();
        assert_eq!((about.len(), about.mode() & 0o777), (FILE_BYTES, 0o600));
    }

    #[test]
    fn a_server_that_has_not_stopped_has_crashed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ring");
        open(&path, 1).0.write_header(State::Runs, 1000).unwrap();
        assert_eq!(open(&path, 1).1, Before::Stopped, "its own");
        let (ring, before) = open(&path, 2);
        assert_eq!(before, Before::Crashed(1000));
        ring.write_header(State::Stopped, 2000).unwrap();
        drop(ring);
        assert_eq!(open(&path, 3).1, Before::Stopped);
    }

    #[test]
    fn only_one_server_uses_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ring");
        let first = open(&path, 1);
        let refused = RingFile::open(&path, 2).unwrap_err();
        assert!(refused.contains("used by another server"), "{refused}");
        drop(first);
        open(&path, 2);
    }

    #[test]
    fn what_is_no_file_of_this_user_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("directory")).unwrap();
        fs::write(path("other"), "other").unwrap();
        symlink(path("other"), path("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("fifo"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        for (name, expected) in [
            ("directory", "directory"),
            ("link", "is a symbolic link"),
            ("fifo", "is not a regular file"),
            ("other/ring", "File exists"),
        ] {
            let refused = RingFile::open(&path(name), 1).unwrap_err();
            assert!(refused.contains(expected), "{name}: {refused}");
        }
        assert_eq!(fs::read_to_string(path("other")).unwrap(), "other");
        if geteuid().is_root() {
            fs::write(path("foreign"), "").unwrap();
            std::os::unix::fs::chown(path("foreign"), Some(65534), None).unwrap();
            let refused = RingFile::open(&path("foreign"), 1).unwrap_err();
            assert!(refused.contains("belongs to user 65534"), "{refused}");
        }
    }

    #[test]
    fn a_file_with_another_content_is_renamed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ring");
        fs::write(&path, "a text of somebody").unwrap();
        let (ring, before) = open(&path, 1);
        assert_eq!(before, Before::Stopped);
        ring.add(&minute(7, 1)).unwrap();
        let renamed = fs::read_to_string(directory.path().join("ring.damaged")).unwrap();
        assert_eq!(renamed, "a text of somebody");
    }

    #[test]
    fn a_damaged_minute_is_left_out_and_a_truncated_file_is_repaired() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ring");
        let (ring, _) = open(&path, 1);
        ring.write_header(State::Stopped, 0).unwrap();
        for number in 10..20 {
            // Of several bytes, so that a part of the record is not the whole.
            ring.add(&minute(number, 70_000)).unwrap();
        }
        ring.file.write_all_at(b"x", offset(1 + 12) + 9).unwrap();
        assert_eq!(ring.read(0, MINUTES).unwrap().len(), 9);
        // In the middle of a record.
        ring.file.set_len(offset(1 + 15) + 10).unwrap();
        assert_eq!(ring.read(0, MINUTES).unwrap().len(), 4);
        drop(ring);
        let (ring, _) = open(&path, 1);
        assert_eq!(fs::metadata(&path).unwrap().len(), FILE_BYTES);
        assert_eq!(ring.read(0, MINUTES).unwrap().len(), 4);
        ring.add(&minute(12, 3)).unwrap();
        ring.add(&minute(19, 3)).unwrap();
        assert_eq!(ring.read(0, MINUTES).unwrap().len(), 6);
    }
}
