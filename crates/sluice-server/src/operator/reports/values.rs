//! The values of the pages that need no file of their own: what the state of the server has, and what the workers are asked for.

use std::sync::Arc;
use std::time::SystemTime;

use sluice_pages::view::Report;
use sluice_report::activity::Period;
use sluice_report::configuration::Configuration;
use sluice_report::overview::Overview;
use sluice_report::statistics::Statistics;

use crate::operator::Operator;
use crate::operator::reports::page::{Collected, Wanted, later, ready};
use crate::status::unix_seconds;

pub(super) fn overview(wanted: &Wanted) -> Collected {
    let state = Arc::clone(&wanted.context.state);
    // Counting the entries of a large cache takes some milliseconds.
    later(move || Overview {
        uptime_seconds: state.statistics.uptime(SystemTime::now()).as_secs(),
        pid: std::process::id(),
        configuration: state.configuration_file.clone(),
        minute: state.statistics.minute(),
        status: state.status(),
    })
}

pub(super) fn requests(wanted: &Wanted) -> Collected {
    asked(wanted, async |operator| operator.requests().await)
}

pub(super) fn scripts(wanted: &Wanted) -> Collected {
    asked(wanted, async |operator| operator.scripts().await)
}

pub(super) fn connections(wanted: &Wanted) -> Collected {
    asked(wanted, async |operator| operator.connections().await)
}

fn asked<R: Report + 'static>(wanted: &Wanted, ask: impl AsyncFnOnce(Operator) -> R + 'static) -> Collected {
    let operator = Operator::new(&wanted.context.state);
    Box::pin(async move { Ok(Box::new(ask(operator).await) as Box<dyn Report>) })
}

pub(super) fn access(wanted: &Wanted) -> Collected {
    let state = Arc::clone(&wanted.context.state);
    // Tables of many clients are sorted.
    later(move || state.access_report())
}

pub(super) fn statistics(wanted: &Wanted) -> Collected {
    ready(Statistics {
        now: unix_seconds(SystemTime::now()),
        traffic: wanted.context.state.statistics.traffic_since_reset(),
    })
}

/// A thread reads the file of the activity.
pub(super) fn activity(wanted: &Wanted) -> Collected {
    let state = Arc::clone(&wanted.context.state);
    let period = wanted.values.get("view").and_then(Period::of_name);
    let end = wanted.values.get("end").and_then(|end| end.parse().ok());
    later(move || {
        let statistics = &state.statistics;
        let sums = statistics.activity_sums();
        statistics.activity.activity(period.unwrap_or(Period::Hour), end, sums)
    })
}

/// The configuration as the program has described it.
pub(super) fn configuration(wanted: &Wanted) -> Collected {
    ready(Configuration::clone(&wanted.context.state.configuration.load()))
}
