//! The page of the configuration, which the program has described.

use sluice_pages::frame::Link;
use sluice_report::configuration::Configuration;

use crate::operator::reports::page::{Collected, Content, Page, Subject, Wanted, ready};

pub(super) static PAGE: Page = Page {
    link: Link {
        name: "configuration",
        title: "Configuration",
    },
    subject: Subject::Totals,
    content: Content::Value(collect),
};

fn collect(wanted: &Wanted) -> Collected {
    ready(Configuration::clone(
        &wanted.context.state.described.configuration.load(),
    ))
}
