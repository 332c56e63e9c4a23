//! The counters of each worker, and their sums.
//!
//! Only the worker's own thread changes a counter, so that counting costs a request next to nothing. Not here: the values that are made of
//! them (`sluice_report`), the state of the whole server (`overall`).

use std::sync::Arc;
use std::time::SystemTime;

use http::StatusCode;
use sluice_files::file_cache::CacheCounters;
use sluice_http::counter::Counter;
use sluice_net::slots::ConnectionCounts;
pub use sluice_report::status::{CacheStatus, Connections, Processes, Requests, Status};

/// The counters of one worker. Aligned, so that no two workers write to the same line of a processor's cache.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerCounts {
    /// Connections.
    pub connections: Arc<ConnectionCounts>,
    begun: Counter,
    ended: Counter,
    /// Responses by the first digit of their status, from 1.
    classes: [Counter; 5],
    client_left: Counter,
    truncated: Counter,
    body_bytes: Counter,
}

impl WorkerCounts {
    /// Counts an exchange that begins.
    pub(crate) fn begin(&self) {
        self.begun.add(1);
    }

    /// Counts an exchange that ends. `status` is `None` if no response was made, because its client had left.
    pub(crate) fn end(&self, status: Option<StatusCode>, body_bytes: u64, is_truncated: bool) {
        self.ended.add(1);
        self.body_bytes.add(body_bytes);
        self.truncated.add(is_truncated.into());
        let class = status.and_then(|status| self.classes.get(usize::from(status.as_u16() / 100).checked_sub(1)?));
        class.unwrap_or(&self.client_left).add(1);
    }
}

/// The counters of the file cache as others see them.
pub(crate) fn cache_status(counters: &CacheCounters) -> CacheStatus {
    CacheStatus {
        files: counters.files,
        bytes: counters.bytes,
        hits: counters.hits + counters.unchanged,
        misses: counters.misses + counters.changed + counters.too_large + counters.just_changed,
        evicted: counters.evicted,
    }
}

/// The sums of the counters of all workers.
pub(crate) fn sum(workers: &[Arc<WorkerCounts>], connections_max: usize) -> (Connections, Requests) {
    let (mut connections, mut requests) = (Connections::default(), Requests::default());
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

/// Seconds since 1970.
pub(crate) fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_workers_are_added() {
        let workers: Vec<Arc<WorkerCounts>> = (0..2).map(|_| Arc::default()).collect();
        for worker in &workers {
            worker.connections.accepted.add(3);
            worker.connections.closed.add(1);
            for status in [Some(StatusCode::OK), Some(StatusCode::NOT_FOUND), None] {
                worker.begin();
                worker.end(status, 10, status.is_none());
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
    }

    #[test]
    fn a_status_beyond_599_counts_as_no_response() {
        let worker = Arc::new(WorkerCounts::default());
        worker.end(StatusCode::from_u16(999).ok(), 0, false);
        assert_eq!(sum(&[worker], 0).1.client_left, 1);
    }
}
