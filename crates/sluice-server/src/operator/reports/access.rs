//! The page of access control: who has sent wrong passwords, and the state of throttles and rates.

use std::sync::Arc;

use sluice_pages::frame::Link;

use crate::operator::reports::page::{Collected, Content, Page, Subject, Wanted, later};

pub(super) static PAGE: Page = Page {
    link: Link {
        name: "access",
        title: "Access",
    },
    subject: Subject::Requests,
    content: Content::Live(collect),
};

fn collect(wanted: &Wanted) -> Collected {
    let state = Arc::clone(&wanted.context.state);
    // Tables of many clients are sorted.
    later(move || state.access_report())
}
