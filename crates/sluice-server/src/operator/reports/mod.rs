//! The reports about the server: pages for browsers, JSON for programs, and actions.
//!
//! ```text
//! GET  NAME        ─▶ PAGES ─▶ value ─▶ HTML in the frame
//! GET  NAME.json   ─▶ PAGES ─▶ value ─▶ JSON
//! GET  NAME?live   ─▶ PAGES ─▶ value ─▶ HTML again and again, as server-sent events
//! POST action      ─▶ ACTIONS, if the token and the origin are right
//! ```
//! A page is a file here and a line in [`PAGES`], an action a line in `action::ACTIONS`. What the whole server has in common is in
//! `ServerState`; a page that must know what the workers hold asks them (`Questions::ask`). Nothing here blocks the event loop.

mod access;
mod action;
mod activity;
mod answer;
pub(crate) mod ask;
mod cache;
mod configuration;
mod connections;
mod event_stream;
mod live;
mod logs;
mod machine;
mod metrics;
mod origin;
mod overview;
mod page;
mod requests;
mod scripts;
mod statistics;
pub(crate) mod visitor;
pub(crate) mod watch;

use std::sync::OnceLock;

use http::{Method, Response};
use sluice_http::body::ResponseBody;
use sluice_http::fault::{Absent, ClientFault, Fault, Forbidden};
use sluice_pages::frame::{Frame, Link, Liveness, SCRIPT, STYLE};

use ask::{Ask, Extent, Notation, Values};
use page::{Content, Page, Wanted};

/// The pages, in the order of the navigation.
static PAGES: &[&Page] = &[
    &overview::PAGE,
    &requests::PAGE,
    &scripts::PAGE,
    &connections::PAGE,
    &access::PAGE,
    &watch::PAGE,
    &watch::EVENTS,
    &watch::TEXT,
    &statistics::PAGE,
    &activity::PAGE,
    &logs::PAGE,
    &cache::PAGE,
    &configuration::PAGE,
    &machine::PAGE,
    &action::PAGE,
    &metrics::PAGE,
];

const READ: &[Method] = &[Method::GET, Method::HEAD];

const ACT: &[Method] = &[Method::GET, Method::HEAD, Method::POST];

/// The response to a request for a report, or for an action.
///
/// # Errors
/// The client's: there is no such report (404), the method is not served (405), the action is refused (403); or the server's.
pub(crate) async fn respond(mut ask: Ask) -> Result<Response<ResponseBody>, Fault> {
    let notation = ask.take_notation();
    check_extent(&ask)?;
    if ask.name == action::PAGE.link.name && ask.method == Method::POST {
        return action::carry_out(ask, notation).await;
    }
    let methods = if ask.name == action::PAGE.link.name { ACT } else { READ };
    if !READ.contains(&ask.method) {
        return Err(ClientFault::method_not_allowed(&ask.method, methods).into());
    }
    match ask.name.as_str() {
        "report.css" => return Ok(answer::file("text/css; charset=utf-8", STYLE)),
        "watch.css" => return Ok(answer::file("text/css; charset=utf-8", sluice_pages::watch::STYLE)),
        "watch.js" => {
            return Ok(answer::file(
                "text/javascript; charset=utf-8",
                sluice_pages::watch::SCRIPT,
            ));
        }
        "report.js" => return Ok(answer::file("text/javascript; charset=utf-8", SCRIPT)),
        _ => {}
    }
    // The name that the first page has with a suffix, `overview.json`.
    if ask.name == "overview" {
        ask.name.clear();
    }
    let page = PAGES.iter().find(|page| page.link.name == ask.name);
    let page = *page.ok_or_else(|| ClientFault::NotFound(Absent::Report(ask.name.as_str().into())))?;
    match page.content {
        Content::Own(respond) => respond(ask).await,
        Content::Live(collect) if is_live(&ask) => live::respond(&ask, page, collect, live::INTERVAL),
        Content::LiveSlowly(collect) if is_live(&ask) => live::respond(&ask, page, collect, live::SLOW_INTERVAL),
        Content::Value(collect) | Content::Live(collect) | Content::LiveSlowly(collect) => {
            let report = collect(&wanted(&ask)).await?;
            match notation {
                Notation::Json => answer::json(&*report),
                Notation::Html => Ok(answer::html(&ask, &frame(page, &ask), &*report)),
            }
        }
    }
}

/// Refuses what is about requests to a visitor who may have totals only.
fn check_extent(ask: &Ask) -> Result<(), Fault> {
    let page = PAGES.iter().find(|page| page.link.name == ask.name);
    match &ask.extent {
        Extent::Totals(origin) if page.is_some_and(|page| !page.is_for(&ask.extent)) => {
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
            Content::Live(_) | Content::LiveSlowly(_) => Liveness::Live,
            Content::Value(_) | Content::Own(_) => Liveness::Still,
        },
        has_json: !matches!(page.content, Content::Own(_)),
    }
}

/// The links of the pages with a title that a visitor may have.
fn navigation(extent: &Extent) -> &'static [Link] {
    static ALL: OnceLock<Vec<Link>> = OnceLock::new();
    static TOTALS: OnceLock<Vec<Link>> = OnceLock::new();
    let links = |extent: &Extent| {
        let pages = PAGES.iter().filter(|page| page.is_for(extent));
        pages
            .map(|page| page.link)
            .filter(|link| !link.title.is_empty())
            .collect()
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
