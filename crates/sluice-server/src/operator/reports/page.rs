//! A page of the reports: one entry in the table of pages (`reports::PAGES`).

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use http::Response;
use sluice_http::body::ResponseBody;
use sluice_http::fault::Fault;
use sluice_pages::frame::Link;
use sluice_pages::view::Report;

use crate::context::Context;
use crate::operator::reports::ask::{Ask, Extent, Values};
use crate::operator::reports::visitor::Visitor;

pub(crate) struct Page {
    pub link: Link,
    pub subject: Subject,
    pub content: Content,
}

pub(crate) const fn page(name: &'static str, title: &'static str, subject: Subject, content: Content) -> Page {
    let link = Link { name, title };
    Page { link, subject, content }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The server as a whole: counters, settings, files in the cache.
    Totals,
    /// Single requests and clients, logs, actions: not for everybody who has totals ([`Extent::Totals`]).
    Requests,
}

impl Page {
    pub(crate) fn is_for(&self, extent: &Extent) -> bool {
        match extent {
            Extent::Everything => true,
            Extent::Totals(_) => self.subject == Subject::Totals,
        }
    }
}

pub(crate) enum Content {
    /// A value, as HTML and as JSON.
    Value(fn(&Wanted) -> Collected),
    /// A value that the script of the page fetches again every two seconds.
    Live(fn(&Wanted) -> Collected),
    /// A value that the script fetches again every 20 seconds: for long pages that change slowly.
    LiveSlowly(fn(&Wanted) -> Collected),
    Own(fn(Ask) -> PageResponse),
}

/// The value of a page, which may take time: threads and other workers are asked.
pub(crate) type Collected = Pin<Box<dyn Future<Output = Result<Box<dyn Report>, Fault>>>>;

pub(crate) type PageResponse = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Fault>>>>;

/// The part of a request that its page uses. A live page keeps it, so no configuration is part of it.
pub(crate) struct Wanted {
    pub context: Rc<Context>,
    /// The values of the query, as of a search.
    pub values: Values,
    pub visitor: Visitor,
    /// A page of another site may have led to it.
    pub is_of_other_site: bool,
}

pub(crate) fn ready(report: impl Report + 'static) -> Collected {
    Box::pin(std::future::ready(Ok(Box::new(report) as Box<dyn Report>)))
}

/// The value of a page that a thread collects, because that may wait for the disk or take long.
pub(crate) fn later<R: Report + Send + 'static>(collect: impl FnOnce() -> R + Send + 'static) -> Collected {
    Box::pin(async move {
        let report = tokio::task::spawn_blocking(collect).await;
        let report = report.map_err(|_| Fault::unexpected("the thread that collects a report has failed"))?;
        Ok(Box::new(report) as Box<dyn Report>)
    })
}
