//! The history of the pools of each script, for reports: how many processes were started and requests refused, and how the last
//! processes ended. A record outlives its pools, which are dropped when they are empty, and when the configuration is replaced.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use sluice_http::series::SeriesNames;
use sluice_launch::Exit;
use sluice_report::scripts as report;
use sluice_report::traffic::ScriptName;
use sluice_settings::Mode;

use crate::pool::ScriptId;
use crate::process::{EndCause, EndedProcess, Process, counted};

const ENDED_MAX: usize = 10;

/// Starts of an engine in a row that may fail before it counts as broken: a script can have ended one.
const FAILED_STARTS_MAX: u64 = 2;

/// Records of pools that are gone. Beyond that one of them is forgotten for each new record.
const RECORDS_MAX: usize = 1000;

pub(crate) trait ReportedPool: Send + Sync {
    /// The processes, and the requests that wait. Only the ids of requests are known.
    fn report(&self) -> report::Pool;
    /// The processes that have been started and have not ended.
    fn processes(&self) -> Vec<Arc<Process>>;
    /// Whether one of its engines has run this script a short while ago.
    fn has_run(&self, script: ScriptId) -> bool;
    /// The administrator retires its processes: idle ones end now, busy ones after their exchange.
    fn retire_all(self: Arc<Self>) -> Retired;
}

/// The processes that an administrator's order has retired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retired {
    /// Idle processes, which end at once.
    pub idle: usize,
    /// Busy ones, which end after their exchange.
    pub busy: usize,
}

impl Retired {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: Retired) -> Retired {
        Retired {
            idle: self.idle + other.idle,
            busy: self.busy + other.busy,
        }
    }

    /// Describes the retirement of a script's processes, for its log line.
    pub fn describe(self, script: &str) -> String {
        let processes = |count: usize| counted(count as u64, "process", "processes");
        let Retired { idle, busy } = self;
        match (idle, busy) {
            (_, 0) => format!("{script}: {} retired: idle, ended now", processes(idle)),
            (0, _) => format!(
                "{script}: {} retired: busy, will end after the exchange",
                processes(busy)
            ),
            _ => format!(
                "{script}: {} retired: {idle} idle, ended now; {busy} busy, will end after the exchange",
                processes(idle + busy)
            ),
        }
    }
}

/// The script that a pool runs, and its route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PoolLabel {
    /// The file of the script, or the key of the engine.
    pub script: Box<Path>,
    pub mode: Mode,
    pub site: Box<str>,
    pub origin: Box<str>,
}

/// The name of the scripts that have no series of counters of their own.
const OTHER: &str = "other";

#[derive(Default)]
pub(crate) struct PoolRecords {
    records: Mutex<HashMap<PoolLabel, Arc<PoolRecord>>>,
    /// The scripts whose exchanges are counted by themselves.
    pub(crate) series: SeriesNames<ScriptName>,
}

impl PoolLabel {
    /// Whether an administrator means it: by the file of its script, or by the name of its engine.
    pub(crate) fn is_named(&self, name: &Path) -> bool {
        *self.script == *name || self.engine().is_some_and(|engine| Path::new(engine) == name)
    }

    /// The name of its engine, if it has one: a file has an absolute path, the key of an engine is its name and a number.
    fn engine(&self) -> Option<&str> {
        let key = self.script.to_str().filter(|_| self.script.is_relative())?;
        Some(key.rsplit_once(' ')?.0)
    }

    /// The name in metrics: that of the reports, without the place of the route.
    fn series_name(&self) -> ScriptName {
        let script = self.script.to_string_lossy();
        [&*self.site, &*script, self.mode.name()].map(str::to_owned)
    }
}

pub(crate) struct PoolRecord {
    pub label: PoolLabel,
    /// The number of its script among the series of counters.
    pub series: u16,
    pub counts: PoolCounts,
    ended: Mutex<VecDeque<(SystemTime, EndedProcess)>>,
    /// Why the last start has failed, if one has.
    failure: Mutex<String>,
    /// The pools of replaced configurations, and the one in use.
    pools: Mutex<Vec<Weak<dyn ReportedPool>>>,
}

/// Counts of events in pools. Only rare events are counted.
#[derive(Default)]
pub(crate) struct PoolCounts {
    pub started: RareCount,
    pub queue_full: RareCount,
    pub timed_out: RareCount,
    pub no_room: RareCount,
    pub client_share: RareCount,
    pub backed_off: RareCount,
    /// Starts in a row that have failed.
    pub failed: RareCount,
}

#[derive(Default)]
pub(crate) struct RareCount(AtomicU64);

// Relaxed: a count publishes no other data.
impl RareCount {
    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Writes only if there is something to write: the value is read for each request.
    pub(crate) fn reset(&self) {
        if self.value() > 0 {
            self.0.store(0, Ordering::Relaxed);
        }
    }
}

impl PoolRecords {
    pub(crate) fn of(&self, label: PoolLabel) -> Arc<PoolRecord> {
        let mut records = self.lock();
        if let Some(record) = records.get(&label) {
            return Arc::clone(record);
        }
        if records.len() >= RECORDS_MAX {
            let unused = records.iter().find(|(_, record)| Arc::strong_count(record) == 1);
            if let Some(label) = unused.map(|(label, _)| label.clone()) {
                records.remove(&label);
            }
        }
        let record = Arc::new(PoolRecord {
            series: self.series.number(&label.series_name(), &[OTHER; 3].map(str::to_owned)),
            label: label.clone(),
            counts: PoolCounts::default(),
            ended: Mutex::default(),
            failure: Mutex::default(),
            pools: Mutex::default(),
        });
        records.insert(label, Arc::clone(&record));
        record
    }

    /// All records, by site and script.
    pub(crate) fn all(&self) -> Vec<Arc<PoolRecord>> {
        let mut all: Vec<_> = self.lock().values().cloned().collect();
        all.sort_by(|one, other| {
            let key = |record: &PoolRecord| {
                (
                    record.label.site.clone(),
                    record.label.script.clone(),
                    record.label.mode.name(),
                )
            };
            key(one).cmp(&key(other))
        });
        all
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PoolLabel, Arc<PoolRecord>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolRecord {
    pub(crate) fn add(&self, pool: Weak<dyn ReportedPool>) {
        let mut pools = self.lock_pools();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(pool);
    }

    pub(crate) fn pools(&self) -> Vec<Arc<dyn ReportedPool>> {
        self.lock_pools().iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn note_end(&self, process: EndedProcess) {
        let mut ended = self.lock_ended();
        ended.truncate(ENDED_MAX - 1);
        ended.push_front((SystemTime::now(), process));
    }

    /// Notes that a process could not be started, or has ended before its first reply.
    pub(crate) fn note_failure(&self, why: String) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = why;
        self.counts.failed.add_one();
    }

    /// A line about its engine, if no start of that succeeds.
    pub(crate) fn fault(&self) -> Option<String> {
        let is_broken = self.counts.failed.value() > FAILED_STARTS_MAX;
        let engine = self.label.engine().filter(|_| is_broken)?;
        let why = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = &self.label.origin;
        Some(format!(
            "{origin}: the engine of {engine} does not start: {why}; its requests are refused until one starts: \"sluice check\" tries it"
        ))
    }

    /// The history as a report; its processes and requests are filled in by a pool.
    pub(crate) fn report(&self) -> report::Pool {
        let (label, counts) = (&self.label, &self.counts);
        let ended = self.lock_ended();
        let ended = ended.iter();
        report::Pool {
            script: label.script.to_string_lossy().into_owned(),
            mode: label.mode.name().to_owned(),
            site: label.site.to_string(),
            origin: label.origin.to_string(),
            started: counts.started.value(),
            refused: report::Refused {
                queue_full: counts.queue_full.value(),
                timed_out: counts.timed_out.value(),
                no_room: counts.no_room.value(),
                client_share: counts.client_share.value(),
                backed_off: counts.backed_off.value(),
            },
            ended: ended
                .map(|(at, process)| report_end(process, *at, label.mode))
                .collect(),
            ..report::Pool::default()
        }
    }

    fn lock_ended(&self) -> MutexGuard<'_, VecDeque<(SystemTime, EndedProcess)>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_pools(&self) -> MutexGuard<'_, Vec<Weak<dyn ReportedPool>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn report_end(process: &EndedProcess, at: SystemTime, mode: Mode) -> report::Ended {
    let why = match process.cause {
        _ if process.limit.is_some() => process.limit.iter().map(|limit| format!("it {limit}")).collect(),
        Some(cause) => cause.to_string(),
        // Such a process exits when its request is served.
        None if !mode.keeps_process() && process.exit == Exit::Code(0) => EndCause::Served.to_string(),
        None => "it ended by itself".to_owned(),
    };
    report::Ended {
        pid: process.pid,
        at: at
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        why,
        exit: process.exit.to_string(),
        uses: process.uses,
        lived_ms: milliseconds(process.lived),
    }
}

pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(script: &str) -> PoolLabel {
        PoolLabel {
            script: Path::new(script).into(),
            mode: Mode::Cgiplus,
            site: "a.test".into(),
            origin: "sluice.toml:1".into(),
        }
    }

    fn ended(pid: i32, cause: Option<EndCause>) -> EndedProcess {
        EndedProcess {
            pid,
            cause,
            exit: Exit::Code(0),
            uses: 1,
            lived: Duration::from_secs(1),
            limit: None,
        }
    }

    #[test]
    fn the_last_ends_are_remembered_with_their_cause() {
        let records = PoolRecords::default();
        for pid in 0..20 {
            let cause = (pid % 2 == 0).then_some(EndCause::Fault);
            records.of(label("/a")).note_end(ended(pid, cause));
        }
        let report = records.of(label("/a")).report();
        let pids: Vec<_> = report.ended.iter().map(|ended| ended.pid).collect();
        assert_eq!(pids, (10..20).rev().collect::<Vec<_>>());
        assert_eq!(report.ended[0].why, "it ended by itself");
        assert_eq!(report.ended[1].why, EndCause::Fault.to_string());
    }

    #[test]
    fn records_are_bounded_and_those_in_use_stay() {
        let records = PoolRecords::default();
        let used = records.of(label("/used"));
        used.counts.started.add_one();
        for number in 0..2 * RECORDS_MAX {
            records.of(label(&number.to_string()));
        }
        assert_eq!(records.all().len(), RECORDS_MAX);
        assert_eq!(records.of(label("/used")).report().started, 1);
    }
}
