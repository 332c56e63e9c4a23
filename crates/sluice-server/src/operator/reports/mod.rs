//! The reports about the server: pages for browsers, JSON for programs, and actions.
//!
//! ```text
//! GET  NAME        ─▶ PAGES ─▶ value ─▶ HTML in the frame
//! GET  NAME.json   ─▶ PAGES ─▶ value ─▶ JSON
//! GET  NAME?live   ─▶ PAGES ─▶ value ─▶ HTML again and again, as server-sent events
//! POST action      ─▶ ACTIONS, if the token and the origin are right
//! ```
//! A page is a line in [`PAGES`] and a function that collects its value, an action a line in `action::ACTIONS`. What the whole server has in common is in
//! `ServerState`; a page that must know what the workers hold asks them (`Questions::ask`). Nothing here blocks the event loop.

mod action;
mod answer;
pub(crate) mod ask;
mod cache;
mod event_stream;
mod live;
mod logs;
mod machine;
mod metrics;
mod origin;
mod page;
mod values;
pub(crate) mod visitor;
pub(crate) mod watch;

use std::sync::OnceLock;

use http::{Method, Response};
use sluice_http::body::ResponseBody;
use sluice_http::fault::{Absent, ClientFault, Fault, Forbidden};
use sluice_pages::frame::{Frame, Link, Liveness, SCRIPT, STYLE};

use ask::{Ask, Extent, Notation, Values};
use page::Content::{Live, LiveSlowly, Own, Value};
use page::Subject::{Requests, Totals};
use page::{Page, Wanted, page};

/// The pages, in the order of the navigation, in which one without a title is not.
static PAGES: &[Page] = &[
    page("", "Overview", Totals, Live(values::overview)),
    page("requests", "Requests", Requests, Live(values::requests)),
    page("scripts", "Scripts", Requests, Live(values::scripts)),
    page("connections", "Connections", Requests, Live(values::connections)),
    page("access", "Access", Requests, Live(values::access)),
    page("watch", "Watch", Requests, Value(watch::collect)),
    page("watch-events", "", Requests, Own(watch::events)),
    page("watch-text", "", Requests, Own(watch::text)),
    page("statistics", "Statistics", Totals, Live(values::statistics)),
    page("activity", "Activity", Totals, LiveSlowly(values::activity)),
    page("logs", "Logs", Requests, Live(logs::collect)),
    page("cache", "Cache", Totals, Value(cache::collect)),
    page("configuration", "Configuration", Totals, Value(values::configuration)),
    page("environment", "Environment", Totals, Value(machine::collect)),
    action::PAGE,
    page("metrics", "", Totals, Own(metrics::respond)),
];

const READ: &[Method] = &[Method::GET, Method::HEAD];

const ACT: &[Method] = &[Method::GET, Method::HEAD, Method::POST];

/// The response to a request for a report, or for an action. Errors of the client: there is no such report (404), the method is not served (405), the action
/// is refused (403); or the server's.
pub(crate) async fn respond(mut ask: Ask) -> Result<Response<ResponseBody>, Fault> {
    let notation = ask.take_notation();
    check_extent(&ask)?;
    let is_action = ask.name == action::PAGE.link.name;
    if is_action && ask.method == Method::POST {
        return action::carry_out(ask, notation).await;
    }
    let methods = if is_action { ACT } else { READ };
    if !READ.contains(&ask.method) {
        return Err(ClientFault::method_not_allowed(&ask.method, methods).into());
    }
    let file = match ask.name.as_str() {
        "report.css" => Some(("text/css; charset=utf-8", STYLE)),
        "watch.css" => Some(("text/css; charset=utf-8", sluice_pages::watch::STYLE)),
        "report.js" => Some(("text/javascript; charset=utf-8", SCRIPT)),
        "watch.js" => Some(("text/javascript; charset=utf-8", sluice_pages::watch::SCRIPT)),
        _ => None,
    };
    if let Some((media_type, text)) = file {
        return Ok(answer::file(media_type, text));
    }
    // The name that the first page has with a suffix, `overview.json`.
    if ask.name == "overview" {
        ask.name.clear();
    }
    let page = page_of(&ask.name).ok_or_else(|| ClientFault::NotFound(Absent::Report(ask.name.as_str().into())))?;
    match page.content {
        Own(respond) => respond(ask).await,
        Live(collect) if is_live(&ask) => live::respond(&ask, page, collect, live::INTERVAL),
        LiveSlowly(collect) if is_live(&ask) => live::respond(&ask, page, collect, live::SLOW_INTERVAL),
        Value(collect) | Live(collect) | LiveSlowly(collect) => {
            let report = collect(&wanted(&ask)).await?;
            match notation {
                Notation::Json => answer::json(&*report),
                Notation::Html => Ok(answer::html(&ask, &frame(page, &ask), &*report)),
            }
        }
    }
}

fn page_of(name: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.link.name == name)
}

/// Refuses what is about requests to a visitor who may have totals only.
fn check_extent(ask: &Ask) -> Result<(), Fault> {
    match &ask.extent {
        Extent::Totals(origin) if page_of(&ask.name).is_some_and(|page| !page.is_for(&ask.extent)) => {
            Err(ClientFault::Forbidden(Forbidden::ReportForScripts(origin.clone())).into())
        }
        _ => Ok(()),
    }
}

fn is_live(ask: &Ask) -> bool {
    ask.value("live").is_some() && ask.method == Method::GET
}

fn wanted(ask: &Ask) -> Wanted {
    Wanted {
        context: std::rc::Rc::clone(&ask.context),
        values: Values::parse(&ask.query),
        visitor: ask.visitor.clone(),
        is_of_other_site: origin::of_stream(&ask.fields, &ask.origin).is_some(),
    }
}

fn frame<'a>(page: &Page, ask: &'a Ask) -> Frame<'a> {
    Frame {
        page: page.link,
        query: &ask.query,
        pages: navigation(&ask.extent),
        server: &ask.server,
        version: env!("CARGO_PKG_VERSION"),
        liveness: match page.content {
            Live(_) | LiveSlowly(_) => Liveness::Live,
            Value(_) | Own(_) => Liveness::Still,
        },
        has_json: !matches!(page.content, Own(_)),
    }
}

fn navigation(extent: &Extent) -> &'static [Link] {
    static ALL: OnceLock<Vec<Link>> = OnceLock::new();
    static TOTALS: OnceLock<Vec<Link>> = OnceLock::new();
    let links = |extent: &Extent| {
        let links = PAGES.iter().filter(|page| page.is_for(extent)).map(|page| page.link);
        links.filter(|link| !link.title.is_empty()).collect()
    };
    let kept = match extent {
        Extent::Everything => &ALL,
        Extent::Totals(_) => &TOTALS,
    };
    kept.get_or_init(|| links(extent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_a_name_of_its_own_without_a_slash_or_a_suffix() {
        for (number, page) in PAGES.iter().enumerate() {
            let name = page.link.name;
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
                "{name}"
            );
            assert!(!PAGES[..number].iter().any(|other| other.link.name == name), "{name}");
            assert!(!["overview", "report"].contains(&name), "{name} means something else");
        }
    }
}
