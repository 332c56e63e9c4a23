//! Counts of one thread, and the sum of all threads.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::histogram::Histogram;

/// Kinds of differences and of failures that are listed; the others are counted together.
const KINDS_MAX: usize = 12;

#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// The times of complete replies, whether or not they were the same as the first one.
    pub(super) latencies: Histogram,
    pub(super) replies: Vec<u64>,
    /// Bytes of bodies, also of those that were broken off.
    pub(super) bytes: u64,
    pub(super) opened: u64,
    pub(super) broken: u64,
    pub(super) differences: Kinds,
    /// Requests without a complete reply.
    pub(super) failures: Kinds,
    /// Connections given up because the server could not be reached any more.
    pub(super) given_up: u64,
    /// The processor time of each thread that has ended; empty if the system does not say.
    pub(super) processor: Vec<Duration>,
    /// When the last thread ended.
    pub(super) end: Option<Instant>,
}

impl Tally {
    pub(super) fn new(paths: usize) -> Tally {
        Tally { replies: vec![0; paths], ..Tally::default() }
    }

    pub(super) fn reply(&mut self, path: usize, latency: Duration) {
        self.latencies.record(latency);
        self.replies[path] += 1;
    }

    pub(super) fn add(&mut self, other: &Tally) {
        self.latencies.add(&other.latencies);
        for (count, more) in self.replies.iter_mut().zip(&other.replies) {
            *count += more;
        }
        self.bytes += other.bytes;
        self.opened += other.opened;
        self.broken += other.broken;
        self.differences.add(&other.differences);
        self.failures.add(&other.failures);
        self.given_up += other.given_up;
        self.processor.extend(&other.processor);
        self.end = self.end.max(other.end);
    }
}

/// Counts by a text that says what happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds {
    counts: BTreeMap<String, u64>,
    others: u64,
}

impl Kinds {
    pub(super) fn count(&mut self, kind: String) {
        self.count_times(kind, 1);
    }

    fn count_times(&mut self, kind: String, times: u64) {
        if self.counts.len() < KINDS_MAX || self.counts.contains_key(&kind) {
            *self.counts.entry(kind).or_default() += times;
        } else {
            self.others += times;
        }
    }

    fn add(&mut self, other: &Kinds) {
        for (kind, count) in &other.counts {
            self.count_times(kind.clone(), *count);
        }
        self.others += other.others;
    }

    pub(super) fn total(&self) -> u64 {
        self.counts.values().sum::<u64>() + self.others
    }

    /// The kinds with their counts, the most frequent first.
    pub(super) fn listed(&self) -> Vec<(&str, u64)> {
        let counts = self.counts.iter();
        let mut listed: Vec<_> = counts.map(|(kind, count)| (kind.as_str(), *count)).collect();
        listed.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        if self.others > 0 {
            listed.push(("of other kinds", self.others));
        }
        listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_beyond_the_bound_are_counted_together() {
        let mut kinds = Kinds::default();
        for number in 0..20 {
            kinds.count(format!("kind {number}"));
        }
        kinds.count("kind 0".to_owned());
        let mut sum = kinds.clone();
        sum.add(&kinds);
        assert_eq!((kinds.total(), sum.total()), (21, 42));
        assert_eq!(sum.listed()[0], ("kind 0", 4));
        assert_eq!(sum.listed().last(), Some(&("of other kinds", 16)));
        assert_eq!(sum.listed().len(), KINDS_MAX + 1);
    }
}
