//! The counters of each worker, and their sums.
//!
//! Only the worker's own thread changes a counter, so that counting costs a request next to nothing.

use std::sync::Arc;
use std::time::SystemTime;

use http::StatusCode;
use sluice_files::cache::CacheCounters;
use sluice_http::counter::Counter;
use sluice_http::series::UNNAMED;
use sluice_net::slots::ConnectionCounts;
use sluice_report::status::{CacheStatus, ConnectionTotals, RequestTotals};
use sluice_report::traffic::Traffic;

use crate::share_counts::ShareCounts;
use crate::traffic_counts::{self, Ended, TrafficCounts};

/// The first digits of statuses (RFC 9110 §15).
const CLASSES: usize = 5;

/// The counters of one worker. Aligned, so that no two workers write to the same line of a processor's cache.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerCounts {
    pub connections: Arc<ConnectionCounts>,
    begun: Counter,
    ended: Counter,
    /// Responses by the first digit of their status, from 1.
    classes: [Counter; CLASSES],
    client_left: Counter,
    truncated: Counter,
    body_bytes: Counter,
    pub received_bytes: Arc<Counter>,
    pub sites: ShareCounts,
    pub scripts: ShareCounts,
    pub traffic: TrafficCounts,
}

impl WorkerCounts {
    pub(crate) fn begin(&self) {
        self.begun.add(1);
    }

    pub(crate) fn end(&self, ended: &Ended<'_>) {
        self.ended.add(1);
        self.body_bytes.add(ended.body_bytes);
        self.truncated.add(ended.is_incomplete().into());
        let class = class(ended.status);
        self.classes.get(class).unwrap_or(&self.client_left).add(1);
        self.sites.end(ended.site, class, ended);
        if ended.script != UNNAMED {
            self.scripts.end(ended.script, class, ended);
        }
        self.traffic.end(ended);
    }
}

/// The place of the first digit of a status, from 1. The place after the last digit is for exchanges without a status.
fn class(status: Option<StatusCode>) -> usize {
    let digit = status.map_or(0, |status| usize::from(status.as_u16() / 100));
    match digit {
        1..=CLASSES => digit - 1,
        _ => CLASSES,
    }
}

pub(crate) fn cache_status(counters: &CacheCounters) -> CacheStatus {
    CacheStatus {
        files: counters.files,
        bytes: counters.bytes,
        hits: counters.hits + counters.unchanged,
        misses: counters.misses + counters.changed + counters.too_large + counters.just_changed,
        evicted: counters.evicted,
    }
}

pub(crate) fn sum(workers: &[Arc<WorkerCounts>], connections_max: usize) -> (ConnectionTotals, RequestTotals) {
    let (mut connections, mut requests) = (ConnectionTotals::default(), RequestTotals::default());
    connections.max = connections_max;
    for worker in workers {
        // What ends is read first: otherwise more could seem to have ended than begun.
        let (closed, ended) = (worker.connections.closed.value(), worker.ended.value());
        let (accepted, begun) = (worker.connections.accepted.value(), worker.begun.value());
        connections.accepted += accepted;
        connections.open += accepted.saturating_sub(closed);
        requests.total += begun;
        requests.in_progress += begun.saturating_sub(ended);
        requests.client_left += worker.client_left.value();
        requests.truncated += worker.truncated.value();
        requests.body_bytes += worker.body_bytes.value();
        for (sum, class) in requests.by_class.iter_mut().zip(&worker.classes) {
            *sum += class.value();
        }
    }
    (connections, requests)
}

/// The sums of the traffic of all workers. `started` is the start of the server, seconds since 1970.
pub(crate) fn traffic(workers: &[Arc<WorkerCounts>], started: u64) -> Traffic {
    let mut traffic = traffic_counts::sum(workers.iter().map(|worker| &worker.traffic));
    traffic.since = started;
    for worker in workers {
        traffic.exchanges += worker.ended.value();
        traffic.sent_bytes += worker.body_bytes.value();
        traffic.received_bytes += worker.received_bytes.value();
        traffic.truncated += worker.truncated.value();
    }
    traffic
}

pub(crate) fn received_bytes(workers: &[Arc<WorkerCounts>]) -> u64 {
    workers.iter().map(|worker| worker.received_bytes.value()).sum()
}

pub(crate) fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{Method, Version};

    use super::*;
    use crate::traffic_counts::{AnsweredBy, Encryption, ResponseTimes};

    fn ended(method: &Method, status: Option<u16>) -> Ended<'_> {
        Ended {
            method,
            version: Version::HTTP_11,
            encryption: Encryption::None,
            status: status.and_then(|status| StatusCode::from_u16(status).ok()),
            answered: AnsweredBy::File,
            received_bytes: 3,
            body_bytes: 10,
            is_truncated: status.is_none(),
            times: status.map(|_| ResponseTimes {
                first_byte: Duration::from_micros(100),
                whole: Duration::from_millis(2),
            }),
            site: 1,
            script: UNNAMED,
        }
    }

    #[test]
    fn the_counts_of_workers_are_added() {
        let workers: Vec<Arc<WorkerCounts>> = (0..2).map(|_| Arc::default()).collect();
        for worker in &workers {
            worker.connections.accepted.add(3);
            worker.connections.closed.add(1);
            for status in [Some(200), Some(404), None] {
                worker.begin();
                worker.end(&ended(&Method::GET, status));
            }
            worker.begin();
        }
        let (connections, requests) = sum(&workers, 7);
        assert_eq!((connections.open, connections.max, connections.accepted), (4, 7, 6));
        assert_eq!((requests.total, requests.in_progress), (8, 2));
        assert_eq!(requests.by_class, [0, 2, 0, 2, 0]);
        assert_eq!(
            (requests.client_left, requests.truncated, requests.body_bytes),
            (2, 2, 60)
        );
        let traffic = traffic(&workers, 5);
        assert_eq!((traffic.since, traffic.exchanges, traffic.sent_bytes), (5, 6, 60));
        assert_eq!(
            (traffic.methods["GET"], traffic.statuses["499"], traffic.statuses.len()),
            (6, 2, 3)
        );
        assert_eq!(
            (
                traffic.answers["file"],
                traffic.versions["HTTP/1.1"],
                traffic.encryption["clear"]
            ),
            (6, 6, 6)
        );
        assert_eq!((traffic.first_byte.count, traffic.whole.count), (4, 4));
        assert!((traffic.whole.sum_seconds - 0.008).abs() < 1e-9);
    }

    #[test]
    fn a_status_beyond_599_counts_as_no_response() {
        let worker = Arc::new(WorkerCounts::default());
        worker.end(&ended(&Method::GET, Some(999)));
        let workers = [worker];
        assert_eq!(sum(&workers, 0).1.client_left, 1);
        assert_eq!(traffic(&workers, 0).statuses["other"], 1);
    }

    #[test]
    fn unknown_methods_are_one() {
        let worker = Arc::new(WorkerCounts::default());
        for name in ["GET", "MKCOL", "BREW", "PROPFIND"] {
            let method = Method::from_bytes(name.as_bytes()).unwrap();
            worker.end(&ended(&method, Some(200)));
        }
        let methods = traffic(&[worker], 0).methods;
        assert_eq!((methods["GET"], methods["other"], methods.len()), (1, 3, 2));
    }
}
