//! The first page: what an operator wants to see at a glance.

use std::sync::Arc;
use std::time::SystemTime;

use sluice_pages::frame::Link;
use sluice_report::overview::Overview;

use crate::operator::reports::page::{Collected, Content, Page, Subject, Wanted, later};

pub(super) static PAGE: Page = Page {
    link: Link {
        name: "",
        title: "Overview",
    },
    subject: Subject::Totals,
    content: Content::Live(collect),
};

fn collect(wanted: &Wanted) -> Collected {
    let state = Arc::clone(&wanted.context.state);
    // Counting the entries of a large cache takes some milliseconds.
    later(move || Overview {
        uptime_seconds: state.statistics.uptime(SystemTime::now()).as_secs(),
        pid: std::process::id(),
        configuration: state.described.configuration_file.clone(),
        minute: state.statistics.minute(),
        status: state.status(),
    })
}
