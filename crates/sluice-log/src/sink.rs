//! The sink of a log: a file or the standard output, to which the log's thread writes.
//!
//! Lines that cannot be written wait, up to a limit, and are retried; beyond the limit whole lines are counted and
//! dropped. A partly written line is completed first, or written whole again if the file was replaced meanwhile.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use jiff::tz::TimeZone;
use memchr::{memchr, memchr_iter, memrchr};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use sluice_launch::{deadline, open_to_append};
use sluice_settings::permission::{Subject, Use, denial, read_only_explained};
use sluice_settings::{LogTarget, Rotation};

use crate::clock::Now;
use crate::failures::{Failures, REPORT_INTERVAL, forget_fault};
use crate::rotate::{self, FileState};
use crate::tail::LogSource;

/// The mode of new log files, which the umask may restrict further.
const NEW_FILE_MODE: u32 = 0o640;

pub(crate) struct Sink {
    /// Which log it is, in messages: `access log`.
    kind: &'static str,
    pub(crate) target: LogTarget,
    file: File,
    pub(crate) rotation: Rotation,
    state: FileState,
    zone: TimeZone,
    /// Lines that could not be written; the first may be partly written.
    waiting: Vec<u8>,
    /// Bytes of the first waiting line that are already in the file.
    written_of_first: usize,
    last_rotation: LastRotation,
    /// After a failed rotation, no further attempt before this moment.
    no_rotation_before: Option<Instant>,
    pub(crate) failures: Failures,
}

#[derive(Default)]
struct LastRotation {
    stamp: String,
    /// The number to try next for the same time.
    next: u32,
}

impl Sink {
    /// Opens a target. `None` for `Off`.
    pub(crate) fn open(kind: &'static str, target: &LogTarget, rotation: &Rotation) -> io::Result<Option<Sink>> {
        let file = match target {
            LogTarget::Off => return Ok(None),
            LogTarget::Stdout => File::from(io::stdout().as_fd().try_clone_to_owned()?),
            LogTarget::File(path) => open_append(path)?,
        };
        let zone = TimeZone::system();
        Ok(Some(Sink {
            kind,
            target: target.clone(),
            state: FileState::read(&file, &zone),
            file,
            rotation: rotation.clone(),
            zone,
            waiting: Vec::new(),
            written_of_first: 0,
            last_rotation: LastRotation::default(),
            no_rotation_before: None,
            failures: Failures::default(),
        }))
    }

    fn name(&self) -> String {
        match &self.target {
            LogTarget::Off => format!("{} off", self.kind),
            LogTarget::Stdout => format!("{} on standard output", self.kind),
            LogTarget::File(path) => format!("{} {}", self.kind, path.display()),
        }
    }

    /// Where its lines can be read: in its file, or in memory, if what it is written to cannot be read again.
    pub(crate) fn source(&self) -> LogSource {
        let is_file = self.file.metadata().is_ok_and(|about| about.is_file());
        let path = match &self.target {
            LogTarget::File(path) => Some(path.clone()),
            LogTarget::Off | LogTarget::Stdout => None,
        };
        LogSource {
            recent: (!is_file || path.is_none()).then(Arc::default),
            file: path,
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes whole lines, or keeps up to `waiting_bytes_max` of them for later.
    pub(crate) fn write_lines(&mut self, lines: &[u8], now: Now, waiting_bytes_max: usize) {
        if self.waiting.is_empty() {
            let (end, result) = self.write_from(lines, 0, now);
            match result {
                Ok(()) => self.end_failure(),
                Err(error) => {
                    self.failures.begin(self.name(), &error, now);
                    let start = line_start(lines, end);
                    self.written_of_first = end - start;
                    self.keep(&lines[start..], waiting_bytes_max);
                }
            }
        } else {
            self.keep(lines, waiting_bytes_max);
            self.retry(now);
        }
    }

    /// After each successful write: the name is made only if there was a failure.
    fn end_failure(&mut self) {
        if self.failures.failure.is_some() {
            self.failures.end(&self.name());
        }
    }

    pub(crate) fn retry(&mut self, now: Now) {
        if self.failures.is_retry_due(now) {
            self.retry_now(now);
        }
    }

    fn retry_now(&mut self, now: Now) {
        if self.waiting.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let (end, result) = self.write_from(&waiting, self.written_of_first, now);
        let start = line_start(&waiting, end);
        self.written_of_first = end - start;
        match result {
            Ok(()) => self.end_failure(),
            Err(error) => {
                waiting.drain(..start);
                self.waiting = waiting;
                self.failures.begin(self.name(), &error, now);
            }
        }
    }

    /// Tries to write the waiting lines a last time, and reports those that are lost.
    pub(crate) fn finish(&mut self, now: Now) {
        self.retry_now(now);
        self.failures.lost += count_lines(&self.waiting);
        self.waiting = Vec::new();
        self.failures.report_last(&self.name(), now);
        forget_fault(&self.name());
    }

    /// Reopens the file under its name, because it may have been renamed.
    pub(crate) fn reopen(&mut self) {
        let LogTarget::File(path) = &self.target else { return };
        match open_append(path) {
            Ok(fresh) => {
                // A line that is in the same file in part goes on.
                let written_of_first = if is_same(&fresh, &self.file) {
                    self.written_of_first
                } else {
                    0
                };
                self.replace(fresh);
                self.written_of_first = written_of_first;
            }
            Err(error) => tracing::error!("{}: {error}; the file opened before stays in use", self.name()),
        }
    }

    /// Whether another sink writes to a file of the same name.
    pub(crate) fn has_target_of(&self, other: &Sink) -> bool {
        self.target == other.target
    }

    /// Goes on with the lines that wait in the sink of before, which has the same target.
    pub(crate) fn continue_for(&mut self, before: Sink) {
        if is_same(&self.file, &before.file) {
            self.written_of_first = before.written_of_first;
        }
        (self.waiting, self.failures) = (before.waiting, before.failures);
    }

    pub(crate) fn report(&mut self, now: Now) {
        if self.failures.is_report_due(now) {
            self.failures.report(&self.name(), now);
        }
    }

    /// Writes lines from byte `from`, which may be within the first line. Returns the index of the first byte that is not written, too.
    fn write_from(&mut self, lines: &[u8], from: usize, now: Now) -> (usize, io::Result<()>) {
        let mut at = from;
        while at < lines.len() {
            let is_start = at == 0 || lines[at - 1] == b'\n';
            let end = if is_start && self.may_rotate(now) {
                self.rotate_if_due(&lines[at..], now);
                at + self.fitting(&lines[at..], now)
            } else if self.may_rotate(now) {
                at + first_line(&lines[at..])
            } else {
                lines.len()
            };
            let error = match self.file.write(&lines[at..end]) {
                Ok(0) => ErrorKind::WriteZero.into(),
                Ok(written) => {
                    at += written;
                    self.count_written(written, now);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            return (at, Err(error));
        }
        (at, Ok(()))
    }

    fn count_written(&mut self, bytes: usize, now: Now) {
        if self.state.bytes == 0 {
            self.state.day_end = rotate::day_end(now.second, &self.zone);
        }
        self.state.bytes += bytes as u64;
        self.state.last = now.second;
    }

    fn may_rotate(&self, now: Now) -> bool {
        let is_configured = self.rotation.is_daily || self.rotation.bytes_max.is_some();
        is_configured
            && matches!(self.target, LogTarget::File(_))
            && self.no_rotation_before.is_none_or(|time| now.instant >= time)
    }

    fn rotate_if_due(&mut self, lines: &[u8], now: Now) {
        let line_bytes = first_line(lines) as u64;
        if !rotate::is_due(&self.rotation, &self.state, line_bytes, now.second) {
            return;
        }
        // Another program may have truncated the file.
        self.state.bytes = FileState::read(&self.file, &self.zone).bytes;
        if !rotate::is_due(&self.rotation, &self.state, line_bytes, now.second) {
            return;
        }
        if let Err(error) = self.rotate() {
            self.no_rotation_before = Some(now.instant + REPORT_INTERVAL);
            let text = format!("cannot be rotated: {error}; the same file stays in use");
            self.failures.warn(&self.name(), &text, now);
        } else if let (Some(keep), LogTarget::File(path)) = (self.rotation.keep, &self.target)
            && let Err(error) = rotate::remove_oldest(path, keep)
        {
            let text = format!("older files cannot be removed: {error}");
            self.failures.warn(&self.name(), &text, now);
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        let LogTarget::File(path) = &self.target else {
            return Ok(());
        };
        let stamp = rotate::stamp(self.state.last, &self.zone);
        let first = if self.last_rotation.stamp == stamp {
            self.last_rotation.next
        } else {
            0
        };
        let next = rotate::rotate_out(path, &self.file, &stamp, first)?;
        let fresh = open_append(path)?;
        self.last_rotation = LastRotation { stamp, next };
        self.replace(fresh);
        Ok(())
    }

    /// Continues in another file, to which a partly written line is written whole.
    fn replace(&mut self, fresh: File) {
        self.file = fresh;
        self.written_of_first = 0;
        self.state = FileState::read(&self.file, &self.zone);
    }

    /// Bytes of the leading lines that fit into the file, at least one line.
    fn fitting(&self, lines: &[u8], now: Now) -> usize {
        let Some(bytes_max) = self.rotation.bytes_max.filter(|_| self.may_rotate(now)) else {
            return lines.len();
        };
        let room = usize::try_from(bytes_max.saturating_sub(self.state.bytes)).unwrap_or(usize::MAX);
        if room >= lines.len() {
            return lines.len();
        }
        memrchr(b'\n', &lines[..room]).map_or_else(|| first_line(lines), |end| end + 1)
    }

    /// Keeps whole lines for later, and drops those beyond the limit.
    fn keep(&mut self, lines: &[u8], waiting_bytes_max: usize) {
        let room = waiting_bytes_max.saturating_sub(self.waiting.len()).min(lines.len());
        // A partly written line is never dropped, because the file would keep a fragment of it.
        let end = match memrchr(b'\n', &lines[..room]) {
            Some(end) => end + 1,
            None if self.waiting.is_empty() && self.written_of_first > 0 => first_line(lines),
            None => 0,
        };
        self.waiting.extend_from_slice(&lines[..end]);
        self.failures.lost += count_lines(&lines[end..]);
    }
}

/// Opens a file for appending; creates it, for its owner and group only, because lines of scripts and addresses of clients are not
/// for every user. Does not wait for a program that reads a FIFO.
fn open_append(path: &Path) -> io::Result<File> {
    let asked = path.to_owned();
    deadline::ask(path, move || open_answered(&asked))
}

/// Opens a file as `open_append` does, and waits for its file system.
fn open_answered(path: &Path) -> io::Result<File> {
    let opened = open_to_append(path, NEW_FILE_MODE);
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => io::Error::other("is a FIFO that no program reads, or a socket: name a regular file"),
        Some(Errno::ACCESS) => refused(path, error),
        Some(Errno::ROFS) => read_only_explained(path.parent().unwrap_or(path), error),
        _ => error,
    })?;
    // A pipe or terminal that is slow delays the log's thread, which is there for that; errors would be retried only once a second.
    if !file.metadata()?.is_file() {
        rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
    }
    Ok(file)
}

/// Whether the file of a log can be opened, or made. An error says what to do if permission is missing.
pub fn check_open(path: &Path) -> io::Result<()> {
    open_append(path).map(drop)
}

fn refused(path: &Path, error: io::Error) -> io::Error {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let why = match fs::metadata(path) {
        Ok(about) if about.uid() != user => format!(
            "it belongs to user {}, and the server runs as user {user}: chown {user}:{group} {}",
            about.uid(),
            path.display()
        ),
        Err(missing) if missing.kind() == ErrorKind::NotFound => {
            let directory = path.parent().unwrap_or(path);
            match denial(directory, Use::Write, &Subject::own()) {
                Some(denial) => format!("there is no such file, and {denial}"),
                None => format!("there is no such file, and user {user} may not write its directory"),
            }
        }
        _ => return error,
    };
    io::Error::new(ErrorKind::PermissionDenied, format!("Permission denied: {why}"))
}

/// Bytes of the first line, or of the rest of it.
fn is_same(one: &File, other: &File) -> bool {
    let identity = |file: &File| file.metadata().map(|about| (about.dev(), about.ino())).ok();
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

fn first_line(lines: &[u8]) -> usize {
    memchr(b'\n', lines).map_or(lines.len(), |end| end + 1)
}

/// The index at which the line of byte `at` begins.
fn line_start(lines: &[u8], at: usize) -> usize {
    memrchr(b'\n', &lines[..at]).map_or(0, |end| end + 1)
}

fn count_lines(lines: &[u8]) -> u64 {
    memchr_iter(b'\n', lines).count() as u64
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    const DAY: i64 = 86_400;

    fn at(second: i64) -> Now {
        Now { instant: Instant::now(), second }
    }

    fn sink(path: &Path, rotation: &Rotation) -> Sink {
        Sink::open("access log", &LogTarget::File(path.into()), rotation)
            .unwrap()
            .unwrap()
    }

    /// The contents of all files of a directory, in the order of their names; `a.log` last.
    fn contents(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        names.sort_unstable_by_key(|path| (path.ends_with("a.log"), path.clone()));
        names.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
    }

    #[test]
    fn no_file_exceeds_its_size_except_by_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let rotation = Rotation { bytes_max: Some(10), ..Rotation::default() };
        let mut sink = sink(&directory.path().join("a.log"), &rotation);
        sink.write_lines(b"1234\n6789\nabcd\n", at(DAY), 0);
        sink.write_lines(b"ABCD\n", at(DAY + 1), 0);
        sink.write_lines(b"longer than ten\nx\n", at(DAY + 2), 0);
        assert_eq!(
            contents(directory.path()),
            ["1234\n6789\n", "abcd\nABCD\n", "longer than ten\n", "x\n"]
        );
    }

    #[test]
    fn a_day_has_its_own_file_and_old_ones_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let rotation = Rotation {
            is_daily: true,
            keep: Some(2),
            ..Rotation::default()
        };
        fs::write(&path, "long ago\n").unwrap();
        let old = UNIX_EPOCH + Duration::from_secs(3600);
        File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .set_modified(old)
            .unwrap();
        let mut sink = sink(&path, &rotation);
        // Days apart in every time zone.
        for day in [10, 20, 30] {
            sink.write_lines(format!("day {day}\n").as_bytes(), at(day * DAY), 0);
            sink.write_lines(format!("day {day}\n").as_bytes(), at(day * DAY + 1), 0);
        }
        assert_eq!(
            contents(directory.path()),
            ["day 10\nday 10\n", "day 20\nday 20\n", "day 30\nday 30\n"]
        );
    }

    #[test]
    fn a_truncated_file_is_not_rotated() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let rotation = Rotation { bytes_max: Some(10), ..Rotation::default() };
        let mut sink = sink(&path, &rotation);
        sink.write_lines(b"12345678\n", at(DAY), 0);
        fs::write(&path, "").unwrap();
        sink.write_lines(b"1\n", at(DAY), 0);
        sink.write_lines(b"2\n", at(DAY), 0);
        assert_eq!(contents(directory.path()), ["1\n2\n"]);
    }

    #[test]
    fn a_failed_rotation_loses_no_line() {
        let directory = tempfile::tempdir().unwrap();
        let (logs, moved) = (directory.path().join("logs"), directory.path().join("moved"));
        fs::create_dir(&logs).unwrap();
        let rotation = Rotation { bytes_max: Some(4), ..Rotation::default() };
        let mut sink = sink(&logs.join("a.log"), &rotation);
        sink.write_lines(b"1\n", at(DAY), 0);
        fs::rename(&logs, &moved).unwrap();
        sink.write_lines(b"234567\n8\n", at(DAY), 0);
        sink.write_lines(b"9\n", at(DAY), 0);
        assert_eq!(contents(&moved), ["1\n234567\n8\n9\n"]);
    }

    /// A sink whose disk is full from the start, with waiting lines and room for 12 bytes.
    fn full() -> Sink {
        let full = LogTarget::File("/dev/full".into());
        let mut sink = Sink::open("access log", &full, &Rotation::default()).unwrap().unwrap();
        sink.write_lines(b"one\ntwo\nthree\nfour\n", at(0), 12);
        sink
    }

    #[test]
    fn lines_for_a_full_disk_wait_and_the_rest_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let mut sink = full();
        assert_eq!((&sink.waiting[..], sink.failures.lost), (&b"one\ntwo\n"[..], 2));
        sink.write_lines(b"six\n", at(0), 12);
        sink.write_lines(b"seven\n", at(0), 12);
        assert_eq!((&sink.waiting[..], sink.failures.lost), (&b"one\ntwo\nsix\n"[..], 3));
        // The disk has room again: written at once after SIGUSR1, as here, or at the next retry.
        sink.target = LogTarget::File(directory.path().join("a.log"));
        sink.reopen();
        sink.retry_now(at(0));
        assert_eq!(contents(directory.path()), ["one\ntwo\nsix\n"]);
        assert!(!sink.is_waiting() && sink.failures.failure.is_none());
    }

    #[test]
    fn a_partly_written_line_is_completed_or_written_whole_to_a_new_file() {
        for is_replaced in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let mut sink = full();
            sink.written_of_first = 2;
            let path = directory.path().join("a.log");
            if is_replaced {
                sink.target = LogTarget::File(path);
                sink.reopen();
            } else {
                sink.file = open_append(&path).unwrap();
            }
            sink.retry_now(at(0));
            let expected = if is_replaced { "one\ntwo\n" } else { "e\ntwo\n" };
            assert_eq!(contents(directory.path()), [expected]);
        }
    }

    #[test]
    fn lines_that_wait_go_on_in_the_file_of_the_same_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let target = LogTarget::File(path.clone());
        let mut sink = full();
        (sink.file, sink.target, sink.written_of_first) = (open_append(&path).unwrap(), target.clone(), 2);
        sink.reopen();
        let mut next = Sink::open("log", &target, &Rotation::default()).unwrap().unwrap();
        assert!(next.has_target_of(&sink));
        next.continue_for(sink);
        next.retry_now(at(0));
        assert_eq!(contents(directory.path()), ["e\ntwo\n"]);
    }

    #[test]
    fn a_failure_is_reported_once_per_interval_and_retried() {
        let mut sink = full();
        let now = at(0);
        sink.report(now);
        assert_eq!((sink.failures.lost, sink.failures.reported_at), (0, Some(now.instant)));
        sink.failures.lost += 5;
        sink.report(now);
        assert_eq!(sink.failures.lost, 5, "reported too early");
        let later = Now { instant: now.instant + REPORT_INTERVAL, second: 60 };
        sink.report(later);
        assert_eq!(sink.failures.lost, 0);
        let failed_at = sink.failures.failed_at;
        sink.retry(now);
        assert_eq!(sink.failures.failed_at, failed_at, "retried too early");
        sink.retry(later);
        assert_eq!(sink.failures.failed_at, Some(later.instant));
        sink.finish(later);
        assert!(!sink.is_waiting());
    }
}
