//! The activity of a server: what happened in each minute of the last 28 days, also before a restart.
//!
//! ```text
//! minutes ─▶ buckets of a period ─┬─▶ charts and a table
//!                                 └─▶ JSON
//! ```
//! A bucket is as many minutes as one bar of the charts stands for.

use serde::Serialize;

/// The minutes that are kept: 28 days.
pub const MINUTES: u32 = 28 * 24 * 60;

/// Starts, stops and crashes in the list of a page at most.
const MARKS_MAX: usize = 100;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Minute {
    /// The minute, counted from 1970.
    pub minute: u32,
    pub requests: u32,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub by_class: [u32; 5],
    /// The client left before there was a response.
    pub client_left: u32,
    /// The most requests in progress, looked up once a second.
    pub in_progress_max: u32,
    /// The most connections, looked up once a second.
    pub connections_max: u32,
    pub starts: u8,
    pub stops: u8,
    /// Ends of the server process that were no stops.
    pub crashes: u8,
    /// The seconds of the minute in which the server ran.
    pub seconds: u8,
}

impl Minute {
    #[must_use]
    pub fn new(minute: u32) -> Minute {
        Minute { minute, ..Minute::default() }
    }

    /// Adds what happened in the same minute, as before and after a restart. Counts stop at their greatest value.
    pub fn add(&mut self, other: &Minute) {
        self.requests = self.requests.saturating_add(other.requests);
        self.received_bytes = self.received_bytes.saturating_add(other.received_bytes);
        self.sent_bytes = self.sent_bytes.saturating_add(other.sent_bytes);
        for (count, more) in self.by_class.iter_mut().zip(other.by_class) {
            *count = count.saturating_add(more);
        }
        self.client_left = self.client_left.saturating_add(other.client_left);
        self.in_progress_max = self.in_progress_max.max(other.in_progress_max);
        self.connections_max = self.connections_max.max(other.connections_max);
        self.starts = self.starts.saturating_add(other.starts);
        self.stops = self.stops.saturating_add(other.stops);
        self.crashes = self.crashes.saturating_add(other.crashes);
        self.seconds = self.seconds.saturating_add(other.seconds).min(60);
    }
}

/// How much of the time a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// 60 bars, each one minute.
    Hour,
    /// 144 bars, each ten minutes.
    Day,
    /// 168 bars, each one hour.
    Week,
    /// 168 bars, each four hours.
    All,
}

impl Period {
    /// All of them, the shortest first.
    pub const ALL: [Period; 4] = [Period::Hour, Period::Day, Period::Week, Period::All];

    /// The name in the query and in the JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Period::Hour => "hour",
            Period::Day => "day",
            Period::Week => "week",
            Period::All => "28days",
        }
    }

    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Period::All => "28 days",
            other => other.name(),
        }
    }

    #[must_use]
    pub fn of_name(name: &str) -> Option<Period> {
        Period::ALL.into_iter().find(|period| period.name() == name)
    }

    const fn bucket_minutes(self) -> u32 {
        match self {
            Period::Hour => 1,
            Period::Day => 10,
            Period::Week => 60,
            Period::All => 240,
        }
    }

    /// The length of a bar in words.
    #[must_use]
    pub const fn bucket_text(self) -> &'static str {
        match self {
            Period::Hour => "minute",
            Period::Day => "10 minutes",
            Period::Week => "hour",
            Period::All => "4 hours",
        }
    }

    const fn buckets(self) -> u32 {
        match self {
            Period::Hour => 60,
            Period::Day => 144,
            Period::Week | Period::All => 168,
        }
    }

    /// The period that shows one bar of this one with more bars.
    #[must_use]
    pub const fn finer(self) -> Option<Period> {
        match self {
            Period::Hour => None,
            Period::Day => Some(Period::Hour),
            Period::Week | Period::All => Some(Period::Day),
        }
    }

    /// The minutes of this period whose last bar has minute `end`: the first one, and how many there are.
    #[must_use]
    pub fn minutes(self, end: u32) -> (u32, u32) {
        let (length, count) = (self.bucket_minutes(), self.buckets());
        let after = (end - end % length).saturating_add(length);
        let minutes = length * count;
        (after.saturating_sub(minutes), minutes)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bar {
    /// The first second, counted from 1970.
    pub start: u64,
    /// The seconds in which the server ran.
    pub measured_seconds: u64,
    pub requests: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub by_class: [u64; 5],
    /// The client left before there was a response.
    pub client_left: u64,
    pub in_progress_max: u32,
    pub connections_max: u32,
    pub starts: u32,
    pub stops: u32,
    pub crashes: u32,
}

impl Bar {
    fn add(&mut self, minute: &Minute) {
        self.measured_seconds += u64::from(minute.seconds);
        self.requests += u64::from(minute.requests);
        self.received_bytes = self.received_bytes.saturating_add(minute.received_bytes);
        self.sent_bytes = self.sent_bytes.saturating_add(minute.sent_bytes);
        for (count, more) in self.by_class.iter_mut().zip(minute.by_class) {
            *count += u64::from(more);
        }
        self.client_left += u64::from(minute.client_left);
        self.in_progress_max = self.in_progress_max.max(minute.in_progress_max);
        self.connections_max = self.connections_max.max(minute.connections_max);
        self.starts += u32::from(minute.starts);
        self.stops += u32::from(minute.stops);
        self.crashes += u32::from(minute.crashes);
    }

    /// Whether the server ran in this time.
    #[must_use]
    pub fn has_run(&self) -> bool {
        self.measured_seconds > 0 || self.requests > 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// The first second of its minute, since 1970.
    pub time: u64,
    /// `start`, `stop`, or `crash`: an end without a stop.
    pub what: &'static str,
    pub count: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Storage {
    /// The file; `None` if they are kept in memory only.
    pub file: Option<String>,
    /// Why the file is not used at present.
    pub problem: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Activity {
    /// The moment of the report, seconds since 1970.
    pub now: u64,
    /// The period: `hour`, `day`, `week`, `28days`.
    pub period: &'static str,
    pub bucket_seconds: u64,
    pub kept: Storage,
    pub total: Bar,
    pub buckets: Vec<Bar>,
    /// Starts, stops and crashes, the newest first, 100 at most.
    pub marks: Vec<Mark>,
    /// The same period, for the page.
    #[serde(skip)]
    pub shown: Period,
}

impl Activity {
    /// The activity in the period that ends with the bar of minute `end`. `minutes` are those of `Period::minutes`, in any order; others are
    /// ignored. `now` is in seconds since 1970.
    #[must_use]
    pub fn new(period: Period, end: u32, minutes: &[Minute], now: u64, kept: Storage) -> Activity {
        let (first, count) = period.minutes(end);
        let length = period.bucket_minutes();
        let start = |number: u32| u64::from(first + number * length) * 60;
        let bucket = |number: u32| Bar { start: start(number), ..Bar::default() };
        let mut buckets: Vec<Bar> = (0..period.buckets()).map(bucket).collect();
        let (mut total, mut marks) = (bucket(0), Vec::new());
        for minute in minutes {
            let Some(offset) = minute.minute.checked_sub(first).filter(|offset| *offset < count) else {
                continue;
            };
            buckets[(offset / length) as usize].add(minute);
            total.add(minute);
            let counts = [
                ("stop", minute.stops),
                ("crash", minute.crashes),
                ("start", minute.starts),
            ];
            let time = u64::from(minute.minute) * 60;
            let counted = counts.into_iter().filter(|(_, count)| *count > 0);
            marks.extend(counted.map(|(what, count)| Mark { time, what, count }));
        }
        // Of one minute the last one comes first.
        marks.reverse();
        marks.sort_by_key(|mark| std::cmp::Reverse(mark.time));
        marks.truncate(MARKS_MAX);
        Activity {
            now,
            period: period.name(),
            bucket_seconds: u64::from(length) * 60,
            kept,
            total,
            buckets,
            marks,
            shown: period,
        }
    }

    /// The second after the last bar.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.total.start + self.bucket_seconds * self.buckets.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_330_085;
    const MINUTE: u32 = 29_922_168;

    fn minute(minute: u32, requests: u32) -> Minute {
        Minute {
            requests,
            by_class: [0, requests, 0, 0, 1],
            seconds: 60,
            ..Minute::new(minute)
        }
    }

    fn activity(period: Period, minutes: &[Minute]) -> Activity {
        Activity::new(period, MINUTE, minutes, NOW, Storage::default())
    }

    #[test]
    fn the_last_bar_of_each_period_has_the_present_minute() {
        assert_eq!(u64::from(MINUTE), NOW / 60);
        for period in Period::ALL {
            let (first, count) = period.minutes(MINUTE);
            assert!(count <= MINUTES, "{period:?}");
            assert!((first..first + count).contains(&MINUTE), "{period:?}");
            let shown = activity(period, &[minute(MINUTE, 7), minute(first, 2), minute(first - 1, 100)]);
            assert_eq!(shown.buckets.last().unwrap().requests, 7, "{period:?}");
            assert_eq!(shown.buckets[0].requests, 2, "{period:?}");
            assert_eq!(shown.total.requests, 9, "{period:?}");
        }
    }

    #[test]
    fn a_minute_of_two_servers_is_one() {
        let mut sum = minute(MINUTE, u32::MAX);
        let other = Minute { in_progress_max: 4, starts: 1, ..minute(MINUTE, 5) };
        sum.add(&other);
        assert_eq!((sum.requests, sum.seconds, sum.in_progress_max), (u32::MAX, 60, 4));
    }

    #[test]
    fn starts_and_ends_are_listed_with_the_newest_first() {
        let ended = Minute { crashes: 1, starts: 2, ..minute(MINUTE - 5, 1) };
        let stopped = Minute { stops: 1, ..minute(MINUTE, 1) };
        let shown = activity(Period::Hour, &[ended, stopped]);
        let marks: Vec<_> = shown.marks.iter().map(|mark| (mark.what, mark.count)).collect();
        assert_eq!(marks, [("stop", 1), ("start", 2), ("crash", 1)]);
    }
}
