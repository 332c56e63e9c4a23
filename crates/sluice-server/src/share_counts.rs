//! The counters of one worker by site and by script, for the metrics.
//!
//! An exchange adds to the counters of its two numbers when it ends, which are loads and stores.

use std::sync::Arc;

use sluice_http::counter::Counter;
use sluice_http::series::{NUMBERS, UNNAMED};
use sluice_report::traffic::Share;

use crate::status::WorkerCounts;
use crate::traffic_counts::Ended;

#[derive(Debug, Default)]
struct ShareCount {
    /// Responses by the first digit of their status, from 1; and exchanges without a response.
    classes: [Counter; 6],
    received_bytes: Counter,
    sent_bytes: Counter,
}

#[derive(Debug)]
pub(crate) struct ShareCounts(Box<[ShareCount]>);

impl Default for ShareCounts {
    fn default() -> ShareCounts {
        ShareCounts((0..NUMBERS).map(|_| ShareCount::default()).collect())
    }
}

impl ShareCounts {
    /// Counts an exchange that ends; `class` is the place of the first digit of its status. The last place is for exchanges without a status.
    pub(crate) fn end(&self, number: u16, class: usize, ended: &Ended<'_>) {
        let Some(share) = self.0.get(usize::from(number)) else {
            return;
        };
        if let Some(count) = share.classes.get(class) {
            count.add(1);
        }
        share.sent_bytes.add(ended.body_bytes);
        share.received_bytes.add(ended.received_bytes);
    }

    fn add_to(&self, number: u16, sum: &mut Share) {
        let Some(share) = self.0.get(usize::from(number)) else {
            return;
        };
        for (sum, count) in sum.by_class.iter_mut().zip(&share.classes) {
            *sum += count.value();
        }
        sum.client_left += share.classes.last().map_or(0, Counter::value);
        sum.received_bytes += share.received_bytes.value();
        sum.sent_bytes += share.sent_bytes.value();
    }
}

/// The sums of all workers by the names of series; `unnamed` is the name of what has none.
pub(crate) fn sums<N>(
    workers: &[Arc<WorkerCounts>],
    of: fn(&WorkerCounts) -> &ShareCounts,
    unnamed: Option<N>,
    names: Vec<(u16, N)>,
) -> Vec<(N, Share)> {
    let unnamed = unnamed.map(|name| (UNNAMED, name));
    let sum = |(number, name)| {
        let mut sum = Share::default();
        for worker in workers {
            of(worker).add_to(number, &mut sum);
        }
        (name, sum)
    };
    unnamed.into_iter().chain(names).map(sum).collect()
}
