//! The route that causes a 404, for the log.
//!
//! The path is resolved once more, because 404s are rare and a request that is served must not pay for a name that nobody reads.

use std::fmt;

use sluice_http::fault::Fault;
use sluice_http::target::Target;

use crate::dispatch::resolve::Trace;
use crate::dispatch::route::Route;
use crate::serve::exchange::Exchange;
use crate::serve::request::Request;

#[derive(Default)]
pub(crate) struct RouteOfFault {
    /// The pattern and the place of the route. `None` if no route answers: the path names a file below the root.
    answer: Option<String>,
    /// The new path and the place of the last route that rewrote it.
    rewrite: Option<String>,
}

impl RouteOfFault {
    /// The route that caused a 404. `None` for other faults, for one that names its route itself, and if no route took part.
    pub(crate) fn of(exchange: &Exchange, request: &Request, fault: &Fault) -> Option<RouteOfFault> {
        let target = request.asked_for.target()?;
        if !fault.is_absent() {
            return None;
        }
        let mut route = RouteOfFault::default();
        let question = request.question(exchange);
        request.site().resolve(question.asked(target), &mut route).ok()?;
        (route.answer.is_some() || route.rewrite.is_some()).then_some(route)
    }
}

impl Trace for RouteOfFault {
    fn matched(&mut self, route: &Route, rewritten: Option<&Target>) {
        let Route { pattern, origin, .. } = route;
        if let Some(target) = rewritten {
            self.rewrite = Some(format!("rewritten to {:?} by the route at {origin}", target.path));
        } else if route.kind().is_some() {
            self.answer = Some(format!("route {pattern} at {origin}"));
        }
    }
}

impl fmt::Display for RouteOfFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.answer.is_some() && self.rewrite.is_some() {
            ", "
        } else {
            ""
        };
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        write!(out, "{}{separator}{}", text(&self.answer), text(&self.rewrite))
    }
}
