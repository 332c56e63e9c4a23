//! The page of access control: who has sent wrong passwords, and the state of throttles and rates.

use std::sync::Arc;

use sluice_pages::frame::Link;

use crate::reports::page::{Collected, Content, Page, Wanted, later};

pub(super) static PAGE: Page = Page {
    link: Link {
        name: "access",
        title: "Access",
    },
    content: Content::Live(collect),
};

fn collect(wanted: &Wanted) -> Collected {
    let overall = Arc::clone(&wanted.context.overall);
    // Tables of many clients are sorted.
    later(move || overall.access())
}
