//! The page of the connections, which the workers are asked for.

use sluice_pages::frame::Link;
use sluice_pages::view::Report;

use crate::operator::Operator;
use crate::operator::reports::page::{Collected, Content, Page, Subject, Wanted};

pub(super) static PAGE: Page = Page {
    link: Link {
        name: "connections",
        title: "Connections",
    },
    subject: Subject::Requests,
    content: Content::Live(collect),
};

fn collect(wanted: &Wanted) -> Collected {
    let operator = Operator::new(&wanted.context.state);
    Box::pin(async move { Ok(Box::new(operator.connections().await) as Box<dyn Report>) })
}
