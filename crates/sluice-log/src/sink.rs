//! Where the lines of a log go: a file or the standard output, as the log's thread holds it.
//!
//! Here: whole lines in, whole lines out, whatever the disk says; what is due by size or day; and what the administrator is
//! told. Not here: who is waiting for all this (nobody: the thread, `log`), and how files are put aside (`rotate`).
//!
//! What cannot be written waits, up to a bound, and is tried again; over the bound whole lines are counted and dropped. A
//! line of which a part is out is completed first, or written whole again if the file was replaced meanwhile.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use memchr::{memchr, memchr_iter, memrchr};
use sluice_settings::{LogTarget, Rotation};

use crate::rotate;
use crate::rotate::FileState;

/// After a failure: how long until the same is tried again.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

/// How often the administrator is told of what goes on failing.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// The time, taken once for a turn of the thread.
#[derive(Clone, Copy)]
pub(crate) struct Now {
    pub instant: Instant,
    pub second: i64,
}

impl Now {
    pub(crate) fn take() -> Now {
        Now {
            instant: Instant::now(),
            second: second_of(SystemTime::now()),
        }
    }
}

/// An open log.
pub(crate) struct Sink {
    target: LogTarget,
    file: File,
    rotation: Rotation,
    filling: FileState,
    zone: TimeZone,
    /// Lines that could not be written, the first of them perhaps in part.
    waiting: Vec<u8>,
    /// Bytes of the first waiting line that are out.
    begun: usize,
    /// The last name given away: its stamp, and the number of the next.
    named: (String, u32),
    /// Until then no file is put aside: it has failed.
    no_rotation_before: Option<Instant>,
    trouble: Trouble,
}

/// What goes wrong, and what was told of it.
#[derive(Default)]
struct Trouble {
    /// Why lines wait.
    failure: Option<String>,
    failed_at: Option<Instant>,
    /// Lines dropped that nobody was told of.
    lost: u64,
    told_at: Option<Instant>,
    /// The same of rotation, which loses nothing.
    warned_at: Option<Instant>,
}

impl Sink {
    /// Opens a target; `Off` is none.
    pub(crate) fn open(target: &LogTarget, rotation: &Rotation) -> io::Result<Option<Sink>> {
        let file = match target {
            LogTarget::Off => return Ok(None),
            LogTarget::Stdout => File::from(io::stdout().as_fd().try_clone_to_owned()?),
            LogTarget::File(path) => open_append(path)?,
        };
        let zone = TimeZone::system();
        Ok(Some(Sink {
            target: target.clone(),
            filling: measure(&file, &zone),
            file,
            rotation: rotation.clone(),
            zone,
            waiting: Vec::new(),
            begun: 0,
            named: (String::new(), 0),
            no_rotation_before: None,
            trouble: Trouble::default(),
        }))
    }

    pub(crate) fn target(&self) -> &LogTarget {
        &self.target
    }

    /// From now on this holds.
    pub(crate) fn rotate_by(&mut self, rotation: &Rotation) {
        self.rotation = rotation.clone();
    }

    /// Lines wait for the disk.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Lines that were dropped before they came here.
    pub(crate) fn lose(&mut self, lines: u64) {
        self.trouble.lost += lines;
    }

    /// Takes whole lines: writes them, or keeps up to `waiting_bytes_max` of them.
    pub(crate) fn take(&mut self, lines: &[u8], now: Now, waiting_bytes_max: usize) {
        if self.waiting.is_empty() {
            let (end, result) = self.put(lines, 0, now);
            match result {
                Ok(()) => self.trouble.end(&self.target),
                Err(error) => {
                    self.trouble.fail(&error, now);
                    let start = line_start(lines, end);
                    self.begun = end - start;
                    self.keep(&lines[start..], waiting_bytes_max);
                }
            }
        } else {
            self.keep(lines, waiting_bytes_max);
            self.retry(now);
        }
    }

    /// Tries again what could not be written, if that is not too soon.
    pub(crate) fn retry(&mut self, now: Now) {
        let is_early = |failed: Instant| now.instant.duration_since(failed) < RETRY;
        if !self.trouble.failed_at.is_some_and(is_early) {
            self.retry_now(now);
        }
    }

    fn retry_now(&mut self, now: Now) {
        if self.waiting.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let (end, result) = self.put(&waiting, self.begun, now);
        let start = line_start(&waiting, end);
        self.begun = end - start;
        match result {
            Ok(()) => self.trouble.end(&self.target),
            Err(error) => {
                waiting.drain(..start);
                self.waiting = waiting;
                self.trouble.fail(&error, now);
            }
        }
    }

    /// The last turn: what cannot be written now never is.
    pub(crate) fn end(&mut self, now: Now) {
        self.retry_now(now);
        self.trouble.lost += count_lines(&self.waiting);
        self.waiting = Vec::new();
        self.trouble.told_at = None;
        self.tell(now);
    }

    /// Closes and opens the file under its name again: somebody has renamed it.
    pub(crate) fn reopen(&mut self) {
        let LogTarget::File(path) = &self.target else { return };
        match open_append(path) {
            Ok(fresh) => self.replace(fresh),
            Err(error) => tracing::error!(
                "access log {}: {error}; the file opened before stays in use",
                path.display()
            ),
        }
    }

    /// Tells of trouble, now and then.
    pub(crate) fn tell(&mut self, now: Now) {
        let trouble = &mut self.trouble;
        let is_early = |told: Instant| now.instant.duration_since(told) < TELL_AGAIN;
        if (trouble.failure.is_none() && trouble.lost == 0) || trouble.told_at.is_some_and(is_early) {
            return;
        }
        trouble.told_at = Some(now.instant);
        let lost = std::mem::take(&mut trouble.lost);
        let log = name(&self.target);
        match (&trouble.failure, lost) {
            (None, lost) => tracing::error!("access log {log}: {lost} lines lost, it could not keep up"),
            (Some(failure), 0) => {
                tracing::error!("access log {log}: {failure}; lines wait until it can be written again");
            }
            (Some(failure), lost) => tracing::error!("access log {log}: {failure}; {lost} lines lost"),
        }
    }

    /// Writes lines from a byte on, which may be within the first; returns how far it came.
    fn put(&mut self, lines: &[u8], from: usize, now: Now) -> (usize, io::Result<()>) {
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
            match self.file.write(&lines[at..end]) {
                Ok(0) => return (at, Err(ErrorKind::WriteZero.into())),
                Ok(written) => {
                    at += written;
                    self.fill(written, now);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return (at, Err(error)),
            }
        }
        (at, Ok(()))
    }

    fn fill(&mut self, bytes: usize, now: Now) {
        if self.filling.bytes == 0 {
            self.filling.day_end = rotate::day_end(now.second, &self.zone);
        }
        self.filling.bytes += bytes as u64;
        self.filling.last = now.second;
    }

    fn may_rotate(&self, now: Now) -> bool {
        let is_wanted = self.rotation.is_daily || self.rotation.bytes_max.is_some();
        is_wanted
            && matches!(self.target, LogTarget::File(_))
            && self.no_rotation_before.is_none_or(|time| now.instant >= time)
    }

    fn rotate_if_due(&mut self, lines: &[u8], now: Now) {
        let line_bytes = first_line(lines) as u64;
        if !rotate::is_due(&self.rotation, &self.filling, line_bytes, now.second) {
            return;
        }
        // Somebody may have emptied it.
        self.filling.bytes = measure(&self.file, &self.zone).bytes;
        if !rotate::is_due(&self.rotation, &self.filling, line_bytes, now.second) {
            return;
        }
        if let Err(error) = self.rotate() {
            self.no_rotation_before = Some(now.instant + TELL_AGAIN);
            self.warn(now, &format!("cannot be rotated: {error}; it goes on in the same file"));
        } else if let (Some(keep), LogTarget::File(path)) = (self.rotation.keep, &self.target)
            && let Err(error) = rotate::remove_oldest(path, keep)
        {
            self.warn(now, &format!("older files cannot be removed: {error}"));
        }
    }

    /// Puts the file aside and begins another.
    fn rotate(&mut self) -> io::Result<()> {
        let LogTarget::File(path) = &self.target else {
            return Ok(());
        };
        let stamp = rotate::stamp(self.filling.last, &self.zone);
        let first = if self.named.0 == stamp { self.named.1 } else { 0 };
        let next = rotate::rotate_out(path, &self.file, &stamp, first)?;
        let fresh = open_append(path)?;
        self.named = (stamp, next);
        self.replace(fresh);
        Ok(())
    }

    fn warn(&mut self, now: Now, text: &str) {
        let is_early = |told: Instant| now.instant.duration_since(told) < TELL_AGAIN;
        if !self.trouble.warned_at.is_some_and(is_early) {
            self.trouble.warned_at = Some(now.instant);
            tracing::warn!("access log {}: {text}", name(&self.target));
        }
    }

    /// Goes on in another file, where a line that has begun in the old one is written whole.
    fn replace(&mut self, fresh: File) {
        self.file = fresh;
        self.begun = 0;
        self.filling = measure(&self.file, &self.zone);
    }

    /// Bytes of the leading lines that the file has room for: one line at least.
    fn fitting(&self, lines: &[u8], now: Now) -> usize {
        let Some(most) = self.rotation.bytes_max.filter(|_| self.may_rotate(now)) else {
            return lines.len();
        };
        let room = usize::try_from(most.saturating_sub(self.filling.bytes)).unwrap_or(usize::MAX);
        if room >= lines.len() {
            return lines.len();
        }
        memrchr(b'\n', &lines[..room]).map_or_else(|| first_line(lines), |end| end + 1)
    }

    /// Keeps whole lines for later; those over the bound are dropped.
    fn keep(&mut self, lines: &[u8], waiting_bytes_max: usize) {
        let room = waiting_bytes_max.saturating_sub(self.waiting.len()).min(lines.len());
        // A line that has begun is never dropped: what is out of it would stay torn.
        let end = match memrchr(b'\n', &lines[..room]) {
            Some(end) => end + 1,
            None if self.waiting.is_empty() && self.begun > 0 => first_line(lines),
            None => 0,
        };
        self.waiting.extend_from_slice(&lines[..end]);
        self.trouble.lost += count_lines(&lines[end..]);
    }
}

impl Trouble {
    fn fail(&mut self, error: &io::Error, now: Now) {
        self.failure = Some(error.to_string());
        self.failed_at = Some(now.instant);
    }

    fn end(&mut self, target: &LogTarget) {
        if self.failure.take().is_some() {
            let (log, lost) = (name(target), std::mem::take(&mut self.lost));
            tracing::info!("access log {log}: is written again; {lost} more lines were lost");
            (self.failed_at, self.told_at) = (None, None);
        }
    }
}

/// How messages name a log.
fn name(target: &LogTarget) -> String {
    match target {
        LogTarget::Off => "off".to_owned(),
        LogTarget::Stdout => "on standard output".to_owned(),
        LogTarget::File(path) => path.display().to_string(),
    }
}

fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Looks what is in a file. What is no regular file (a FIFO, a device) has no size, and is never put aside.
fn measure(file: &File, zone: &TimeZone) -> FileState {
    let about = file.metadata().ok().filter(Metadata::is_file);
    let last = about
        .as_ref()
        .and_then(|about| about.modified().ok())
        .map_or(0, second_of);
    FileState {
        bytes: about.map_or(0, |about| about.len()),
        day_end: rotate::day_end(last, zone),
        last,
    }
}

/// Bytes of the first line, or of what is left of it.
fn first_line(lines: &[u8]) -> usize {
    memchr(b'\n', lines).map_or(lines.len(), |end| end + 1)
}

/// Where the line begins that a byte belongs to.
fn line_start(lines: &[u8], at: usize) -> usize {
    memrchr(b'\n', &lines[..at]).map_or(0, |end| end + 1)
}

fn count_lines(lines: &[u8]) -> u64 {
    memchr_iter(b'\n', lines).count() as u64
}

fn second_of(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const DAY: i64 = 86_400;

    fn at(second: i64) -> Now {
        Now {
            instant: Instant::now(),
            second,
        }
    }

    fn sink(path: &Path, rotation: &Rotation) -> Sink {
        Sink::open(&LogTarget::File(path.into()), rotation).unwrap().unwrap()
    }

    /// All that is in the directory, in the order of names; the file under its own name last.
    fn contents(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        names.sort_unstable_by_key(|path| (path.ends_with("a.log"), path.clone()));
        names.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
    }

    #[test]
    fn no_file_grows_over_its_size_unless_by_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let rotation = Rotation {
            bytes_max: Some(10),
            ..Rotation::default()
        };
        let mut sink = sink(&directory.path().join("a.log"), &rotation);
        sink.take(b"1234\n6789\nabcd\n", at(DAY), 0);
        sink.take(b"ABCD\n", at(DAY + 1), 0);
        sink.take(b"longer than ten\nx\n", at(DAY + 2), 0);
        assert_eq!(
            contents(directory.path()),
            ["1234\n6789\n", "abcd\nABCD\n", "longer than ten\n", "x\n"]
        );
    }

    #[test]
    fn a_day_has_its_own_file_and_only_so_many_are_kept() {
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
            sink.take(format!("day {day}\n").as_bytes(), at(day * DAY), 0);
            sink.take(format!("day {day}\n").as_bytes(), at(day * DAY + 1), 0);
        }
        assert_eq!(
            contents(directory.path()),
            ["day 10\nday 10\n", "day 20\nday 20\n", "day 30\nday 30\n"]
        );
    }

    #[test]
    fn a_file_that_was_emptied_is_not_put_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let rotation = Rotation {
            bytes_max: Some(10),
            ..Rotation::default()
        };
        let mut sink = sink(&path, &rotation);
        sink.take(b"12345678\n", at(DAY), 0);
        fs::write(&path, "").unwrap();
        sink.take(b"1\n", at(DAY), 0);
        sink.take(b"2\n", at(DAY), 0);
        assert_eq!(contents(directory.path()), ["1\n2\n"]);
    }

    #[test]
    fn a_rotation_that_fails_loses_no_line() {
        let directory = tempfile::tempdir().unwrap();
        let (logs, moved) = (directory.path().join("logs"), directory.path().join("moved"));
        fs::create_dir(&logs).unwrap();
        let rotation = Rotation {
            bytes_max: Some(4),
            ..Rotation::default()
        };
        let mut sink = sink(&logs.join("a.log"), &rotation);
        sink.take(b"1\n", at(DAY), 0);
        fs::rename(&logs, &moved).unwrap();
        sink.take(b"234567\n8\n", at(DAY), 0);
        sink.take(b"9\n", at(DAY), 0);
        assert_eq!(contents(&moved), ["1\n234567\n8\n9\n"]);
    }

    /// A sink whose disk is full from the start, with some lines in it: room for 12 bytes.
    fn full() -> Sink {
        let full = LogTarget::File("/dev/full".into());
        let mut sink = Sink::open(&full, &Rotation::default()).unwrap().unwrap();
        sink.take(b"one\ntwo\nthree\nfour\n", at(0), 12);
        sink
    }

    #[test]
    fn what_a_full_disk_refuses_waits_and_the_rest_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let mut sink = full();
        assert_eq!((&sink.waiting[..], sink.trouble.lost), (&b"one\ntwo\n"[..], 2));
        sink.take(b"six\n", at(0), 12);
        sink.take(b"seven\n", at(0), 12);
        assert_eq!((&sink.waiting[..], sink.trouble.lost), (&b"one\ntwo\nsix\n"[..], 3));
        // Room again: at once after SIGUSR1, as here, or when it is tried again.
        sink.target = LogTarget::File(directory.path().join("a.log"));
        sink.reopen();
        sink.retry_now(at(0));
        assert_eq!(contents(directory.path()), ["one\ntwo\nsix\n"]);
        assert!(!sink.is_waiting() && sink.trouble.failure.is_none());
    }

    #[test]
    fn a_line_that_is_out_in_part_is_completed_or_written_whole_elsewhere() {
        for is_replaced in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let mut sink = full();
            sink.begun = 2;
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
    fn a_failure_is_told_once_in_a_while_and_tried_again_after_a_moment() {
        let mut sink = full();
        let now = at(0);
        sink.tell(now);
        assert_eq!((sink.trouble.lost, sink.trouble.told_at), (0, Some(now.instant)));
        sink.lose(5);
        sink.tell(now);
        assert_eq!(sink.trouble.lost, 5, "told too early");
        let later = Now {
            instant: now.instant + TELL_AGAIN,
            second: 60,
        };
        sink.tell(later);
        assert_eq!(sink.trouble.lost, 0);
        let failed_at = sink.trouble.failed_at;
        sink.retry(now);
        assert_eq!(sink.trouble.failed_at, failed_at, "tried too early");
        sink.retry(later);
        assert_eq!(sink.trouble.failed_at, Some(later.instant));
        sink.end(later);
        assert!(!sink.is_waiting());
    }
}
