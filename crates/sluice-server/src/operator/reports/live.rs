//! Live pages: the content of a page, again and again, as server-sent events.

use std::time::Duration;

use http::Response;
use sluice_http::body::ResponseBody;
use sluice_http::fault::{ClientFault, Fault, Forbidden, ServerFault};
use sluice_pages::action::Buttons;
use tokio::time::{MissedTickBehavior, interval};

use crate::operator::reports::ask::{Ask, Basis};
use crate::operator::reports::event_stream::{self, Kind};
use crate::operator::reports::page::{Collected, Page, Wanted};
use crate::operator::reports::{origin, wanted};

pub(super) const INTERVAL: Duration = Duration::from_secs(2);

pub(super) const SLOW_INTERVAL: Duration = Duration::from_secs(20);

/// The stream of a page's contents, which sends only changes and ends when the configuration is replaced. Errors of the client: a page of another site asks
/// (403); the server's: as many streams are open as there may be (503).
pub(super) fn respond(
    ask: &Ask,
    page: &Page,
    collect: fn(&Wanted) -> Collected,
    time_between: Duration,
) -> Result<Response<ResponseBody>, Fault> {
    if let Some(why) = origin::of_stream(&ask.fields, &ask.origin) {
        return Err(ClientFault::Forbidden(Forbidden::StreamOfOtherSite(why)).into());
    }
    let slot = ask.context.state.visitors.live_slot().ok_or(ServerFault::ReportsBusy)?;
    let (name, wanted, basis) = (page.link.name, wanted(ask), Basis::of(ask));
    let token = ask.context.state.visitors.token_of(&ask.visitor);
    Ok(event_stream::respond(Kind::Events, &ask.context, |events| async move {
        let _slot = slot;
        let mut ticks = interval(time_between);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut shown = String::new();
        loop {
            ticks.tick().await;
            // The page's script asks again, and then somebody else may be let in.
            if basis.is_replaced() {
                return;
            }
            let Ok(report) = collect(&wanted).await else {
                return;
            };
            let buttons = Buttons { token: &token, page: name };
            let content = report.html(&buttons).into_string();
            if content != shown && events.are_taken() {
                events.send("content", &content);
                shown = content;
            }
        }
    }))
}
