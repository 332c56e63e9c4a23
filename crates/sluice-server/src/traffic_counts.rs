//! The counters of one worker by properties of exchanges: method, version, status, handler, and times.
//!
//! A counter is added to for each of them when an exchange ends, which is a load and a store. Names and sums are made only when somebody asks.

use std::time::Duration;

use http::{Method, StatusCode, Version};
use sluice_http::counter::Counter;
use sluice_report::histogram::{BUCKETS, Times, bucket_of, micros};
use sluice_report::traffic::{Counts, Traffic};

/// The methods that are counted by name (RFC 9110 §9.3, RFC 5789); the others are one.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "other",
];

const VERSIONS: [&str; 4] = ["HTTP/1.0", "HTTP/1.1", "HTTP/2", "other"];

const ENCRYPTIONS: [&str; 3] = ["clear", "TLSv1.2", "TLSv1.3"];

const ANSWERS: [&str; 9] = [
    "file", "listing", "cgi", "cgiplus", "rte", "redirect", "report", "server", "error",
];

/// The statuses from 100 to 599, and then "no response" and "any other".
const STATUSES: usize = 502;
const NO_RESPONSE: usize = 500;
const OTHER_STATUS: usize = 501;

/// The status of the access log for a client that left before there was a response.
const CLIENT_LEFT: &str = "499";

pub(crate) struct Ended<'a> {
    pub method: &'a Method,
    pub version: Version,
    pub encryption: Encryption,
    /// `None` if no response was made, because its client had left.
    pub status: Option<StatusCode>,
    pub answered: AnsweredBy,
    pub received_bytes: u64,
    pub body_bytes: u64,
    pub is_truncated: bool,
    /// `None` if no response was made, or the request had no usable head.
    pub times: Option<ResponseTimes>,
    pub site: u16,
    pub script: u16,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseTimes {
    /// The time from the head of the request to the first byte of the response.
    pub first_byte: Duration,
    /// The time from the head of the request to the last byte of the response.
    pub whole: Duration,
}

impl Ended<'_> {
    /// Whether the response was broken off. A live page of the reports goes on until its visitor leaves.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_truncated && self.answered != AnsweredBy::Report
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    None,
    Tls12,
    Tls13,
}

/// The handler that has answered. The order is that of `ANSWERS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AnsweredBy {
    File,
    Listing,
    Cgi,
    Cgiplus,
    Rte,
    Redirect,
    Report,
    /// The server itself, as a whole (`OPTIONS *`).
    Server,
    #[default]
    Error,
}

#[derive(Debug)]
pub(crate) struct TrafficCounts {
    methods: [Counter; METHODS.len()],
    versions: [Counter; VERSIONS.len()],
    encryptions: [Counter; ENCRYPTIONS.len()],
    answers: [Counter; ANSWERS.len()],
    statuses: [Counter; STATUSES],
    first_byte: TimeCounts,
    whole: TimeCounts,
}

#[derive(Debug)]
struct TimeCounts {
    buckets: [Counter; BUCKETS],
    sum_micros: Counter,
}

impl Default for TrafficCounts {
    fn default() -> TrafficCounts {
        TrafficCounts {
            methods: counters(),
            versions: counters(),
            encryptions: counters(),
            answers: counters(),
            statuses: counters(),
            first_byte: TimeCounts::new(),
            whole: TimeCounts::new(),
        }
    }
}

impl TrafficCounts {
    pub(crate) fn end(&self, ended: &Ended<'_>) {
        self.methods[method_index(ended.method)].add(1);
        let version = match ended.version {
            Version::HTTP_10 => 0,
            Version::HTTP_11 => 1,
            Version::HTTP_2 => 2,
            _ => 3,
        };
        self.versions[version].add(1);
        self.encryptions[ended.encryption as usize].add(1);
        self.answers[ended.answered as usize].add(1);
        let status = match ended.status {
            None => NO_RESPONSE,
            // At least 100 (RFC 9110 §15).
            Some(status) => usize::from(status.as_u16().saturating_sub(100)),
        };
        self.statuses[if status > NO_RESPONSE { OTHER_STATUS } else { status }].add(1);
        // A live page goes on until its visitor leaves.
        if let Some(times) = ended.times.filter(|_| ended.answered != AnsweredBy::Report) {
            self.first_byte.add(micros(times.first_byte));
            self.whole.add(micros(times.whole));
        }
    }
}

impl TimeCounts {
    fn new() -> TimeCounts {
        TimeCounts {
            buckets: counters(),
            sum_micros: Counter::default(),
        }
    }

    fn add(&self, micros: u64) {
        self.buckets[bucket_of(micros)].add(1);
        self.sum_micros.add(micros);
    }
}

/// The sums of workers. What the exchanges have no counters for here is 0.
pub(crate) fn sum<'a>(workers: impl Iterator<Item = &'a TrafficCounts>) -> Traffic {
    let workers: Vec<_> = workers.collect();
    Traffic {
        methods: named(&workers, &METHODS, |worker| &worker.methods),
        versions: named(&workers, &VERSIONS, |worker| &worker.versions),
        encryption: named(&workers, &ENCRYPTIONS, |worker| &worker.encryptions),
        answers: named(&workers, &ANSWERS, |worker| &worker.answers),
        statuses: statuses(&workers),
        first_byte: times(&workers, |worker| &worker.first_byte),
        whole: times(&workers, |worker| &worker.whole),
        ..Traffic::default()
    }
}

fn named(workers: &[&TrafficCounts], names: &[&str], of: fn(&TrafficCounts) -> &[Counter]) -> Counts {
    let count = |number: usize| -> u64 { workers.iter().map(|worker| of(worker)[number].value()).sum() };
    let counts = names
        .iter()
        .enumerate()
        .map(|(number, name)| ((*name).to_owned(), count(number)));
    counts.filter(|(_, count)| *count > 0).collect()
}

fn statuses(workers: &[&TrafficCounts]) -> Counts {
    let mut counts = Counts::new();
    for number in 0..STATUSES {
        let count: u64 = workers.iter().map(|worker| worker.statuses[number].value()).sum();
        if count > 0 {
            let name = match number {
                NO_RESPONSE => CLIENT_LEFT.to_owned(),
                OTHER_STATUS => "other".to_owned(),
                number => (100 + number).to_string(),
            };
            *counts.entry(name).or_default() += count;
        }
    }
    counts
}

fn times(workers: &[&TrafficCounts], of: fn(&TrafficCounts) -> &TimeCounts) -> Times {
    let count = |bucket: usize| -> u64 { workers.iter().map(|worker| of(worker).buckets[bucket].value()).sum() };
    let sum = workers.iter().map(|worker| of(worker).sum_micros.value()).sum();
    Times::new((0..BUCKETS).map(count), sum)
}

fn method_index(method: &Method) -> usize {
    match *method {
        Method::GET => 0,
        Method::HEAD => 1,
        Method::POST => 2,
        Method::PUT => 3,
        Method::DELETE => 4,
        Method::OPTIONS => 5,
        Method::PATCH => 6,
        Method::TRACE => 7,
        _ => 8,
    }
}

fn counters<const COUNT: usize>() -> [Counter; COUNT] {
    std::array::from_fn(|_| Counter::default())
}
