//! The activity of the server: what happened in each minute of the last 28 days, kept in a file across restarts and crashes.
//!
//! ```text
//! counters of the workers ─▶ Recorder ─▶ History (once a minute, a thread of its own) ─▶ RingFile
//!                                           └─▶ page of the reports
//! ```
//! A request costs nothing more: once a minute the thread subtracts the sums of the counters that the workers have anyway. The greatest
//! numbers of requests and connections are looked up once a second, with the chart of the last minute. Whatever is wrong with the file is
//! logged once, and the minutes wait in memory until it can be written.

mod history;
mod record;
mod ring_file;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use sluice_report::activity::{Activity, Period};

use crate::activity::history::History;
pub use crate::activity::history::Sums;
use crate::wait::lock_soon;
use crate::wakeup::lock;

/// How long the start of the server waits for the file, because a disk may hang.
const START_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the end of the server waits for the last minute to be written, because a disk may hang.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The difference between two clocks that is logged as a change of the time.
const CLOCK_CHANGE: Duration = Duration::from_secs(60);

/// The name of the file in the directory for the state of the server.
pub const FILE_NAME: &str = "activity.ring";

/// The recorded activity, for the thread and for reports.
#[derive(Debug)]
pub struct Recorder {
    history: Mutex<History>,
    in_progress_max: AtomicU32,
    connections_max: AtomicU32,
}

/// The numbers from which the history is recorded: the sums since the start, and the greatest numbers in the minute so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub sums: Sums,
    pub in_progress_max: u32,
    pub connections_max: u32,
}

impl Recorder {
    /// The recorder of a server that starts now.
    pub fn begin() -> Recorder {
        Recorder {
            history: Mutex::new(History::new(unix_seconds(SystemTime::now()))),
            in_progress_max: AtomicU32::new(0),
            connections_max: AtomicU32::new(0),
        }
    }

    /// Notes how many requests are in progress and how many connections are open.
    // Relaxed: each number stands for itself.
    pub fn note(&self, in_progress: u64, connections: u64) {
        let in_progress = u32::try_from(in_progress).unwrap_or(u32::MAX);
        let connections = u32::try_from(connections).unwrap_or(u32::MAX);
        self.in_progress_max.fetch_max(in_progress, Ordering::Relaxed);
        self.connections_max.fetch_max(connections, Ordering::Relaxed);
    }

    /// The greatest numbers of the minute so far, as `read` reads them.
    fn sample(&self, sums: Sums, read: impl Fn(&AtomicU32) -> u32) -> Sample {
        Sample {
            sums,
            in_progress_max: read(&self.in_progress_max),
            connections_max: read(&self.connections_max),
        }
    }

    /// Records the minute, and begins the greatest numbers again.
    fn record(&self, history: &mut History, seconds: u64, sums: Sums) {
        history.record(seconds, &self.sample(sums, |max| max.swap(0, Ordering::Relaxed)));
    }

    /// The activity in a period that ends with the bar of second `end`, or now. May read the file, so it must not run on an event loop.
    pub fn activity(&self, period: Period, end: Option<u64>, sums: Sums) -> Activity {
        let now = unix_seconds(SystemTime::now());
        let oldest = now.saturating_sub(u64::from(sluice_report::activity::MINUTES) * 60);
        let end = end.map_or(now, |end| end.clamp(oldest, now));
        let end = u32::try_from(end / 60).unwrap_or(u32::MAX);
        let (first, count) = period.minutes(end);
        let Some(mut history) = lock_soon(&self.history) else {
            let kept = sluice_report::activity::Storage {
                file: None,
                problem: Some("the disk does not answer".to_owned()),
            };
            return Activity::new(period, end, &[], now, kept);
        };
        let minutes = history.minutes(first, count, now, &self.sample(sums, |max| max.load(Ordering::Relaxed)));
        Activity::new(period, end, &minutes, now, history.storage())
    }
}

enum Command {
    /// Keep the minutes in this file, and say when it was opened.
    KeepIn(PathBuf, Sender<()>),
    Stop,
}

/// The thread that records the activity.
#[derive(Debug)]
pub struct Thread {
    commands: Sender<Command>,
    ended: Receiver<()>,
    thread: JoinHandle<()>,
}

impl Thread {
    /// Starts it. `sums` returns those since the start of the server. An error: there is no room for another thread.
    pub fn start(recorder: Arc<Recorder>, sums: impl Fn() -> Sums + Send + 'static) -> std::io::Result<Thread> {
        let (commands, received) = mpsc::channel();
        let (has_ended, ended) = mpsc::channel();
        let thread = std::thread::Builder::new().name("activity".into());
        let thread = thread.spawn(move || {
            run(&recorder, sums, &received);
            // The server may have stopped to wait.
            let _ = has_ended.send(());
        })?;
        Ok(Thread { commands, ended, thread })
    }

    /// Has the minutes kept in a file, and waits until it was opened; not for a disk that hangs.
    pub fn keep_in(&self, file: PathBuf) {
        let (has_opened, opened) = mpsc::channel();
        // The thread lives until `stop`.
        let _ = self.commands.send(Command::KeepIn(file, has_opened));
        if opened.recv_timeout(START_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("activity: its file does not answer; the server starts without it");
        }
    }

    /// Has the last minute and the stop written, and waits for that; not for a disk that hangs.
    pub fn stop(self) {
        let _ = self.commands.send(Command::Stop);
        match self.ended.recv_timeout(END_TIMEOUT) {
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!("activity: its file does not answer; the last minute may be missing");
            }
            _ => drop(self.thread.join()),
        }
    }
}

fn run(recorder: &Recorder, sums: impl Fn() -> Sums, commands: &Receiver<Command>) {
    let mut clocks = (SystemTime::now(), Instant::now());
    loop {
        let command = commands.recv_timeout(rest_of_minute(SystemTime::now()));
        let now = SystemTime::now();
        report_clock_change(&mut clocks, now);
        let mut history = lock(&recorder.history);
        let seconds = unix_seconds(now);
        match command {
            Ok(Command::KeepIn(file, has_opened)) => {
                history.keep_in(file, seconds);
                let _ = has_opened.send(());
            }
            Err(RecvTimeoutError::Timeout) => {
                recorder.record(&mut history, seconds, sums());
                history.write(seconds);
            }
            Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => {
                recorder.record(&mut history, seconds, sums());
                return history.stop(seconds);
            }
        }
    }
}

/// The time until the next minute begins: never 0.
fn rest_of_minute(now: SystemTime) -> Duration {
    const MINUTE: Duration = Duration::from_secs(60);
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let begun = Duration::new(since.as_secs() % 60, since.subsec_nanos());
    MINUTE - begun
}

/// Logs that the time was set, or that the machine was suspended: the minutes have a gap then, or some have the sum of two.
fn report_clock_change(clocks: &mut (SystemTime, Instant), now: SystemTime) {
    let expected = clocks.0 + clocks.1.elapsed();
    *clocks = (now, Instant::now());
    match now.duration_since(expected) {
        Ok(forward) if forward >= CLOCK_CHANGE => {
            let seconds = forward.as_secs();
            tracing::warn!(
                "activity: the time went forward by {seconds} s (it was set, or the machine was suspended); the minutes between are empty"
            );
        }
        Err(back) if back.duration() >= CLOCK_CHANGE => {
            let seconds = back.duration().as_secs();
            tracing::warn!(
                "activity: the time was set back by {seconds} s; minutes that come twice have the sum of both"
            );
        }
        _ => {}
    }
}

fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_minute_is_never_nothing() {
        for (seconds, nanos, expected) in [(0, 0, 60_000), (59, 999_000_000, 1), (61, 500_000_000, 58_500)] {
            let now = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
            assert_eq!(rest_of_minute(now).as_millis(), expected);
        }
    }
}
