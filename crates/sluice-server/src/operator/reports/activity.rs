//! The page of the activity of the last 28 days. A thread reads it from its file.

use std::sync::Arc;

use sluice_pages::frame::Link;
use sluice_report::activity::Period;

use crate::operator::reports::page::{Collected, Content, Page, Subject, Wanted, later};

pub(super) static PAGE: Page = Page {
    link: Link {
        name: "activity",
        title: "Activity",
    },
    subject: Subject::Totals,
    content: Content::LiveSlowly(collect),
};

fn collect(wanted: &Wanted) -> Collected {
    let state = Arc::clone(&wanted.context.state);
    let period = wanted.values.get("view").and_then(Period::of_name);
    let end = wanted.values.get("end").and_then(|end| end.parse().ok());
    later(move || {
        let sums = state.statistics.activity_sums();
        state
            .statistics
            .activity()
            .activity(period.unwrap_or(Period::Hour), end, sums)
    })
}
