//! The minutes that are recorded: those that wait to be written, and those in the file.
//!
//! Time and sums are arguments, so that tests need no clock. A minute that cannot be written waits, at most as many as the file has. While a
//! server waits for the file of another one, as during a change of the program, its minutes are added later.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sluice_report::activity::{MINUTES, Minute, Storage};

use crate::activity::Sample;
use crate::activity::ring_file::{Before, RingFile, State};

/// The sums since the start of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Requests whose exchange ended.
    pub requests: u64,
    /// Bytes of the bodies of requests.
    pub received_bytes: u64,
    /// Bytes of the bodies of responses.
    pub sent_bytes: u64,
    /// Responses by the first digit of their status, from 1.
    pub by_class: [u64; 5],
    /// Requests whose client left before there was a response.
    pub client_left: u64,
}

#[derive(Debug)]
pub(super) struct History {
    /// The number of this server, so that it does not take itself for one that has crashed.
    owner: u64,
    path: Option<PathBuf>,
    ring: Option<RingFile>,
    problem: Option<String>,
    waiting: BTreeMap<u32, Minute>,
    /// The sums when the last minute was recorded, and when that was.
    recorded: Sums,
    recorded_at: u64,
}

impl History {
    /// The history of a server that starts at `now`, seconds since 1970.
    pub(super) fn new(now: u64) -> History {
        let mut history = History {
            owner: owner(),
            path: None,
            ring: None,
            problem: None,
            waiting: BTreeMap::new(),
            recorded: Sums::default(),
            recorded_at: now,
        };
        history.minute(now).starts = 1;
        history
    }

    pub(super) fn keep_in(&mut self, path: PathBuf, now: u64) {
        (self.path, self.ring) = (Some(path), None);
        self.write(now);
    }

    /// Records what has happened since the last call, in the minute of that call.
    pub(super) fn record(&mut self, now: u64, sample: &Sample) {
        let since = self.since_recorded(now, sample);
        self.minute(self.recorded_at).add(&since);
        (self.recorded, self.recorded_at) = (sample.sums, now);
    }

    fn since_recorded(&self, now: u64, sample: &Sample) -> Minute {
        let (sums, before) = (&sample.sums, &self.recorded);
        let count = |now: u64, before: u64| u32::try_from(now.saturating_sub(before)).unwrap_or(u32::MAX);
        Minute {
            requests: count(sums.requests, before.requests),
            received_bytes: sums.received_bytes.saturating_sub(before.received_bytes),
            sent_bytes: sums.sent_bytes.saturating_sub(before.sent_bytes),
            by_class: std::array::from_fn(|class| count(sums.by_class[class], before.by_class[class])),
            client_left: count(sums.client_left, before.client_left),
            in_progress_max: sample.in_progress_max,
            connections_max: sample.connections_max,
            // After a suspension or a change of the time there may be more, or none.
            seconds: u8::try_from(now.saturating_sub(self.recorded_at).min(60)).unwrap_or(60),
            ..Minute::new(minute_of(self.recorded_at))
        }
    }

    /// Writes the minutes that wait. If that fails, they wait for the next call, and the reason is logged once.
    pub(super) fn write(&mut self, now: u64) {
        self.write_state(State::Runs, now);
    }

    /// Notes the stop of the server, and writes everything.
    pub(super) fn stop(&mut self, now: u64) {
        self.minute(now).stops = 1;
        self.write_state(State::Stopped, now);
        if let Some(ring) = &self.ring
            && let Err(error) = ring.sync()
        {
            self.fail(format!("the disk: {error}"));
        }
    }

    /// The minutes from `first` on, with those that wait and the present one.
    pub(super) fn minutes(&mut self, first: u32, count: u32, now: u64, sample: &Sample) -> Vec<Minute> {
        let mut minutes = BTreeMap::new();
        match self.ring.as_ref().map(|ring| ring.read(first, count)) {
            None => {}
            Some(Ok(read)) => minutes.extend(read.into_iter().map(|minute| (minute.minute, minute))),
            Some(Err(error)) => self.fail(format!("the disk: {error}")),
        }
        let waiting = self.waiting.range(first..first.saturating_add(count));
        let present = self.since_recorded(now, sample);
        for minute in waiting.map(|(_, minute)| minute).chain([&present]) {
            let sum = minutes.entry(minute.minute).or_insert(Minute::new(minute.minute));
            sum.add(minute);
        }
        minutes.into_values().collect()
    }

    pub(super) fn storage(&self) -> Storage {
        Storage {
            file: self.path.as_ref().map(|path| path.display().to_string()),
            problem: self.problem.clone(),
        }
    }

    /// The waiting entry for the minute of a second, which is added if there is none.
    fn minute(&mut self, second: u64) -> &mut Minute {
        while self.waiting.len() >= MINUTES as usize {
            self.waiting.pop_first();
        }
        let minute = minute_of(second);
        self.waiting.entry(minute).or_insert(Minute::new(minute))
    }

    fn write_state(&mut self, state: State, now: u64) {
        if self.ring.as_ref().is_some_and(|ring| !ring.is_in_place()) {
            tracing::warn!("activity: its file was removed or replaced: a new one begins");
            self.ring = None;
        }
        self.open(now);
        let Some(ring) = &self.ring else { return };
        let mut write = || {
            ring.write_header(state, now)?;
            while let Some(first) = self.waiting.first_entry() {
                ring.add(first.get())?;
                first.remove();
            }
            Ok(())
        };
        let written: std::io::Result<()> = write();
        match written {
            Ok(()) => self.succeed(),
            Err(error) => self.fail(format!("{}: {error}", self.storage().file.unwrap_or_default())),
        }
    }

    /// Opens the file, if there is one and it is not open.
    fn open(&mut self, now: u64) {
        let Some(path) = self.path.clone().filter(|_| self.ring.is_none()) else {
            return;
        };
        match RingFile::open(&path, self.owner) {
            Ok((ring, before)) => {
                self.ring = Some(ring);
                if let Before::Crashed(at) = before {
                    self.note_crash(at.min(now));
                }
            }
            Err(problem) => self.fail(problem),
        }
    }

    fn note_crash(&mut self, at: u64) {
        tracing::warn!(
            "activity: the server before this one ended without a stop after {} (a crash, SIGKILL or a power failure)",
            sluice_report::text::moment(at)
        );
        self.minute(at).crashes = 1;
    }

    fn succeed(&mut self) {
        if self.problem.take().is_some() {
            tracing::info!("activity: {} is written again", self.storage().file.unwrap_or_default());
        }
    }

    /// Gives up the file until the next minute.
    fn fail(&mut self, problem: String) {
        self.ring = None;
        if self.problem.as_ref() != Some(&problem) {
            tracing::warn!("activity: {problem}; it is kept in memory until its file can be written");
            self.problem = Some(problem);
        }
    }
}

fn minute_of(second: u64) -> u32 {
    u32::try_from(second / 60).unwrap_or(u32::MAX)
}

/// A number that no other server has. It need not be secret.
fn owner() -> u64 {
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    const NOW: u64 = 1_795_330_080;

    fn sample(requests: u64) -> Sample {
        Sample {
            sums: Sums {
                requests,
                by_class: [0, requests, 0, 0, 0],
                sent_bytes: 10 * requests,
                ..Sums::default()
            },
            in_progress_max: 3,
            connections_max: 4,
        }
    }

    /// The minutes of the last hour.
    fn hour(history: &mut History, now: u64, requests: u64) -> Vec<Minute> {
        history.minutes(minute_of(now) - 59, 60, now, &sample(requests))
    }

    fn requests(minutes: &[Minute]) -> Vec<u32> {
        minutes.iter().map(|minute| minute.requests).collect()
    }

    fn kept_in(path: &Path, now: u64) -> History {
        let mut history = History::new(now);
        history.keep_in(path.to_owned(), now);
        history
    }

    #[test]
    fn minutes_have_what_happened_in_them_and_survive_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ring");
        let mut history = kept_in(&path, NOW);
        history.record(NOW + 60, &sample(5));
        history.write(NOW + 60);
        history.record(NOW + 120, &sample(12));
        history.write(NOW + 120);
        assert_eq!(requests(&hour(&mut history, NOW + 130, 13)), [5, 7, 1]);
        history.record(NOW + 130, &sample(13));
        history.stop(NOW + 130);
        drop(history);
        // Within the same minute.
        let mut history = kept_in(&path, NOW + 140);
        let minutes = hour(&mut history, NOW + 150, 2);
        assert_eq!(requests(&minutes), [5, 7, 3]);
        let last = minutes[2];
        assert_eq!((last.starts, last.stops, last.crashes, last.seconds), (1, 1, 0, 20));
        assert_eq!(
            (minutes[0].seconds, minutes[0].sent_bytes, minutes[0].in_progress_max),
            (60, 50, 3)
        );
    }

    #[test]
    fn a_crash_is_noted_where_the_last_write_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ring");
        let mut history = kept_in(&path, NOW);
        history.record(NOW + 60, &sample(5));
        history.write(NOW + 60);
        drop(history);
        let mut history = kept_in(&path, NOW + 600);
        let minutes = hour(&mut history, NOW + 600, 0);
        let marks: Vec<_> = minutes.iter().map(|minute| (minute.starts, minute.crashes)).collect();
        assert_eq!(marks, [(1, 0), (0, 1), (1, 0)]);
    }

    #[test]
    fn minutes_wait_until_the_file_can_be_written() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("ring"), directory.path().join("ring/ring"));
        let mut first = kept_in(&path, NOW);
        let mut second = kept_in(&path, NOW);
        assert!(second.storage().problem.unwrap().contains("used by another server"));
        second.record(NOW + 60, &sample(7));
        second.write(NOW + 60);
        assert_eq!(requests(&hour(&mut second, NOW + 60, 7)), [7, 0]);
        first.record(NOW + 60, &sample(1));
        first.stop(NOW + 60);
        drop(first);
        second.write(NOW + 120);
        assert_eq!(second.storage().problem, None);
        let minutes = hour(&mut second, NOW + 120, 7);
        assert_eq!((requests(&minutes), minutes[0].starts), (vec![8, 0], 2));
        let mut third = kept_in(&other, NOW);
        assert!(third.storage().problem.is_some());
        assert_eq!(hour(&mut third, NOW, 3)[0].requests, 3);
    }

    #[test]
    fn a_removed_file_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ring");
        let mut history = kept_in(&path, NOW);
        fs::remove_file(&path).unwrap();
        history.record(NOW + 60, &sample(5));
        history.write(NOW + 60);
        assert!(path.exists());
        assert_eq!(requests(&hour(&mut history, NOW + 60, 5)), [5, 0]);
    }

    #[test]
    fn the_time_may_be_set() {
        let mut history = History::new(NOW);
        history.record(NOW + 60, &sample(5));
        // Back by an hour: what happens then is added to those minutes.
        history.record(NOW - 3540, &sample(6));
        history.record(NOW - 3480, &sample(8));
        assert_eq!(requests(&hour(&mut history, NOW - 3480, 8)), [2, 0]);
        // Forward by a year, and back.
        history.record(NOW + 31_536_000, &sample(9));
        history.record(NOW + 60, &sample(10));
        let minutes = hour(&mut history, NOW + 60, 10);
        assert_eq!(requests(&minutes), [1, 5, 1]);
        assert!(minutes.iter().all(|minute| minute.seconds <= 60));
    }

    #[test]
    fn minutes_that_wait_are_bounded() {
        let mut history = History::new(NOW);
        for number in 0..u64::from(MINUTES) + 100 {
            history.record(NOW + 60 * number, &sample(number));
        }
        assert_eq!(history.waiting.len(), MINUTES as usize);
    }
}
