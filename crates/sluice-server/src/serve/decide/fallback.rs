//! Fallbacks: what is tried where a path leads to nothing in the directory of its route.
//!
//! ```text
//! path ─▶ route with a fallback ─▶ nothing? ─┬─▶ candidate ─▶ routes ─▶ nothing? ─▶ next candidate … the last one answers
//!                                            └─▶ next route, with the same path
//! ```
//! A candidate is resolved as if its path had been asked for. There is no loop: it has no candidates of its own, and the next route is always a later one.

use http::Method;
use sluice_http::fault::{Absent, ClientFault, Fault, Forbidden};
use sluice_http::target::Target;
use sluice_settings::Fallback;

use crate::dispatch::resolve::{FallbackTo, Resolution, Resolved, ResumeAt, Trace, rewrite};
use crate::dispatch::route::Route;
use crate::serve::decide::{Answer, Decision, EarlierPath, PathOrigin, Restart};

pub(super) struct Candidates<'s> {
    route: &'s Route,
    left: std::slice::Iter<'s, Fallback>,
    target: Target,
    /// The target of which the route's pattern captured a part.
    resolved: Target,
    earlier: EarlierPath,
    start: ResumeAt,
    next_route: ResumeAt,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FallbackUse {
    /// The directory answers for every path, if only with an error.
    None,
    /// Another path answers where it has nothing.
    Offered,
    Candidate,
}

impl FallbackUse {
    pub(super) fn of(with_fallback: Option<&Route>, origin: PathOrigin) -> FallbackUse {
        match (origin, with_fallback) {
            (PathOrigin::Fallback, _) => FallbackUse::Candidate,
            (PathOrigin::Client, Some(_)) => FallbackUse::Offered,
            (PathOrigin::Client, None) => FallbackUse::None,
        }
    }
}

/// The route that answers, if it has a fallback for a path of this origin.
pub(super) fn route_with_fallback<'s>(resolution: &Resolution<'s>, origin: PathOrigin) -> Option<&'s Route> {
    let Resolved::Route(route, kind, _) = &resolution.resolved else {
        return None;
    };
    let last = kind.fallback().last()?;
    (origin == PathOrigin::Client || *last == Fallback::NextRoute).then_some(route)
}

/// Whether there is nothing to send: neither a file nor a script, nor a directory with an index page or a listing.
pub(super) fn leads_to_nothing(answer: &Result<Answer, Fault>) -> bool {
    matches!(
        answer,
        Err(Fault::Client(
            ClientFault::NotFound(_) | ClientFault::Forbidden(Forbidden::NotListed(_))
        ))
    )
}

pub(super) fn is_read(method: &Method) -> bool {
    [Method::GET, Method::HEAD].contains(method)
}

/// Begins with the candidates of a route; of a route that a candidate leads to, only the next route is tried. Returns the decision if there is nothing to try.
pub(super) fn begin<'s>(
    decision: Decision<'s>,
    route: &'s Route,
    target: &Target,
    candidates: &mut Option<Box<Candidates<'s>>>,
    trace: &mut impl Trace,
) -> Result<Decision<'s>, Box<Restart>> {
    let Some(mut own) = Candidates::new(&decision, route, target) else {
        return Ok(decision);
    };
    if let Err(Fault::Client(ClientFault::NotFound(link @ Absent::Link(_)))) = &decision.answer {
        trace.refuses_link(route, link);
    }
    if candidates.is_some() {
        return Err(own.next_route(trace));
    }
    match own.next(trace) {
        None => Ok(decision),
        Some(restart) => {
            if restart.earlier.is_some() {
                *candidates = Some(Box::new(own));
            }
            Err(restart)
        }
    }
}

/// Goes on with the next candidate if a candidate led to nothing. The result is the decision if it is final.
pub(super) fn follow<'s>(
    decision: Decision<'s>,
    candidates: &mut Option<Box<Candidates<'s>>>,
    trace: &mut impl Trace,
) -> Result<Decision<'s>, Box<Restart>> {
    let own = candidates.as_mut().filter(|_| leads_to_nothing(&decision.answer));
    match own.and_then(|own| own.next(trace)) {
        None => Ok(decision),
        Some(restart) => {
            if restart.earlier.is_none() {
                *candidates = None;
            }
            Err(restart)
        }
    }
}

impl<'s> Candidates<'s> {
    fn new(decision: &Decision<'s>, route: &'s Route, target: &Target) -> Option<Candidates<'s>> {
        let resolution = &decision.served.as_ref()?.resolution;
        let adjustments = &decision.adjustments;
        Some(Candidates {
            route,
            left: route.kind()?.fallback().iter(),
            target: target.clone(),
            resolved: resolution.rewritten.as_deref().unwrap_or(target).clone(),
            earlier: EarlierPath::of(adjustments),
            start: resolution.fallback_start(adjustments),
            next_route: resolution.next_start(adjustments),
        })
    }

    /// The next candidate. One whose path is invalid with what the client's path has in the places for captures leads to nothing.
    fn next(&mut self, trace: &mut impl Trace) -> Option<Box<Restart>> {
        loop {
            let to = match self.left.next()? {
                Fallback::NextRoute => return Some(self.next_route(trace)),
                Fallback::Path(to) => to,
            };
            let query = self.resolved.query.as_deref();
            let Ok(mut target) = rewrite(self.route, to, &self.resolved.path, query) else {
                continue;
            };
            target.raw.clone_from(&self.target.raw);
            trace.falls_back(self.route, FallbackTo::Path(&target));
            return Some(Box::new(Restart {
                target,
                resume_at: self.start.clone(),
                earlier: Some(self.earlier.clone()),
            }));
        }
    }

    fn next_route(&mut self, trace: &mut impl Trace) -> Box<Restart> {
        trace.falls_back(self.route, FallbackTo::NextRoute);
        Box::new(Restart {
            target: self.target.clone(),
            resume_at: std::mem::take(&mut self.next_route),
            earlier: None,
        })
    }
}

pub(super) fn note_paths(decision: &mut Decision<'_>, candidate: &Target, asked: &Target) {
    match &mut decision.answer {
        // php-cgi moves PATH_INFO elsewhere if there is a REDIRECT_URL.
        Ok(Answer::Script(answer)) if answer.script.path_info.is_none() => {
            answer.redirect_url = Some(asked.path.clone());
        }
        Ok(Answer::Script(_)) => {}
        _ => {
            if let Some(served) = &mut decision.served {
                served.note_path(&candidate.path);
            }
        }
    }
}
