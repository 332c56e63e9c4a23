//! The first page: what an operator wants to see at a glance.

use std::sync::Arc;
use std::time::SystemTime;

use sluice_pages::frame::Link;
use sluice_report::overview::Overview;

use crate::reports::page::{Collected, Content, Page, Wanted, later};

pub(super) static PAGE: Page = Page {
    link: Link {
        name: "",
        title: "Overview",
    },
    content: Content::Live(collect),
};

fn collect(wanted: &Wanted) -> Collected {
    let overall = Arc::clone(&wanted.context.overall);
    // Counting the entries of a large cache takes some milliseconds.
    later(move || Overview {
        uptime_seconds: overall.uptime(SystemTime::now()).as_secs(),
        pid: std::process::id(),
        configuration: overall.configuration_file(),
        minute: overall.minute(),
        status: overall.status(),
    })
}
