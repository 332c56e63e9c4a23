//! The page of the statistics.

use std::time::SystemTime;

use sluice_pages::frame::Link;
use sluice_report::statistics::Statistics;

use crate::operator::reports::page::{Collected, Content, Page, Subject, Wanted, ready};
use crate::status::unix_seconds;

pub(super) static PAGE: Page = Page {
    link: Link {
        name: "statistics",
        title: "Statistics",
    },
    subject: Subject::Totals,
    content: Content::Live(collect),
};

fn collect(wanted: &Wanted) -> Collected {
    ready(Statistics {
        now: unix_seconds(SystemTime::now()),
        traffic: wanted.context.state.statistics.traffic_since_reset(),
    })
}
