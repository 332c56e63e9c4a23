//! Statistics of the server: the sums over the workers, the last minute, and the counts since the last reset.
//!
//! The workers only count (`status`, `traffic_counts`); reports and the activity read. Nothing here is used by a request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use sluice_http::series::SeriesNames;
use sluice_report::overview::LastMinute;
use sluice_report::status::{ConnectionTotals, RequestTotals};
use sluice_report::traffic::{ScriptName, Shares, Traffic};

use crate::share_counts;
use crate::status::{self, WorkerCounts};
use sluice_log::activity::{Recorder, Sums};

/// The seconds of the last minute, and one before it.
const SECONDS: usize = 61;

/// The name of the sites that have no series of counters of their own.
const OTHER_SITES: &str = "other";

/// The name for requests whose site is not known: their head was not usable, or no site has their host.
const UNKNOWN_SITE: &str = "-";

pub(crate) struct Statistics {
    started: SystemTime,
    pub connections_max: usize,
    workers: Box<[Arc<WorkerCounts>]>,
    /// The sums at each of the last seconds, the oldest first.
    seconds: Mutex<VecDeque<Second>>,
    at_reset: Mutex<Option<Traffic>>,
    pub activity: Arc<Recorder>,
    sites: SeriesNames<String>,
}

#[derive(Clone, Copy, Default)]
struct Second {
    requests: u64,
    server_errors: u64,
    body_bytes: u64,
}

impl Statistics {
    /// Begins with counters of 0. `connections_max` is the bound on connections in force.
    pub(crate) fn new(workers: usize, connections_max: usize) -> Statistics {
        Statistics {
            started: SystemTime::now(),
            connections_max,
            workers: (0..workers).map(|_| Arc::default()).collect(),
            seconds: Mutex::default(),
            at_reset: Mutex::default(),
            activity: Arc::new(Recorder::begin()),
            sites: SeriesNames::default(),
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    pub(crate) fn of_worker(&self, index: usize) -> &Arc<WorkerCounts> {
        &self.workers[index]
    }

    pub(crate) fn started(&self) -> u64 {
        status::unix_seconds(self.started)
    }

    pub(crate) fn uptime(&self, now: SystemTime) -> Duration {
        now.duration_since(self.started).unwrap_or_default()
    }

    pub(crate) fn sums(&self) -> (ConnectionTotals, RequestTotals) {
        status::sum(&self.workers, self.connections_max)
    }

    pub(crate) fn traffic(&self) -> Traffic {
        status::traffic(&self.workers, self.started())
    }

    pub(crate) fn traffic_since_reset(&self) -> Traffic {
        let traffic = self.traffic();
        match &*self.at_reset.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(earlier) => traffic.since(earlier, earlier.since),
            None => traffic,
        }
    }

    /// Begins to count again. Counters go on, so that those of `metrics` never fall.
    pub(crate) fn reset(&self, now: SystemTime) {
        let mut traffic = self.traffic();
        traffic.since = status::unix_seconds(now);
        *self.at_reset.lock().unwrap_or_else(PoisonError::into_inner) = Some(traffic);
    }

    /// Notes what has happened by now. The first worker calls this once a second.
    pub(crate) fn note_second(&self) {
        let (connections, requests) = self.sums();
        self.activity.note(requests.in_progress, connections.open);
        let mut seconds = self.seconds();
        if seconds.len() == SECONDS {
            seconds.pop_front();
        }
        seconds.push_back(Second {
            requests: requests.total,
            server_errors: requests.by_class[4],
            body_bytes: requests.body_bytes,
        });
    }

    pub(crate) fn minute(&self) -> LastMinute {
        let seconds = self.seconds();
        let each = |of: fn(&Second) -> u64| -> Vec<u64> {
            let pairs = seconds.iter().zip(seconds.iter().skip(1));
            pairs
                .map(|(before, after)| of(after).saturating_sub(of(before)))
                .collect()
        };
        LastMinute {
            requests: each(|second| second.requests),
            server_errors: each(|second| second.server_errors),
            body_bytes: each(|second| second.body_bytes),
        }
    }

    fn seconds(&self) -> MutexGuard<'_, VecDeque<Second>> {
        self.seconds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn site_number(&self, site: &str) -> u16 {
        self.sites.number(&site.to_owned(), &OTHER_SITES.to_owned())
    }

    /// The exchanges of each site and script; `scripts` are the names of the scripts with their numbers.
    pub(crate) fn shares(&self, scripts: Vec<(u16, ScriptName)>) -> Shares {
        let unknown = Some(UNKNOWN_SITE.to_owned());
        Shares {
            sites: share_counts::sums(&self.workers, |worker| &worker.sites, unknown, self.sites.all()),
            scripts: share_counts::sums(&self.workers, |worker| &worker.scripts, None, scripts),
        }
    }

    pub(crate) fn activity_sums(&self) -> Sums {
        let (_, requests) = self.sums();
        Sums {
            requests: requests.total.saturating_sub(requests.in_progress),
            received_bytes: status::received_bytes(&self.workers),
            sent_bytes: requests.body_bytes,
            by_class: requests.by_class,
            client_left: requests.client_left,
        }
    }
}
