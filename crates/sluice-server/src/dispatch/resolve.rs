//! Resolution: the routes of a site are tried once, in their written order, until one answers.
//!
//! A [`Trace`] records the routes that were tried.
//!
//! ```text
//!            ┌──────────── next route ◀──────────┐
//!            ▼                                   │
//!  path ─▶ match? ── no ─────────────────────────┤
//!            │ yes: its changes are collected    │
//!            ├─ pass ────────────────────────────┤
//!            ├─ rewrite ─▶ another path ─────────┘
//!            └─ answer ─▶ the route            none left ─▶ the root, or nowhere
//! ```
//! It never goes back, so it ends after as many steps as there are routes. An index page is resolved separately: from the path of
//! the page, beginning at the first route, or after the last one that rewrote the path of the directory; so is a fallback. Routes that are not tried
//! for a path, because they stand above the rewrite that led to it, count in two respects: their requirement of a client certificate
//! and their access rules hold for it, and they refuse the path of a fallback, so that no rewrite leads around them.

use std::rc::Rc;

use http::Uri;
use sluice_files::directory::Directory;
use sluice_files::records::Records;
use sluice_http::fault::{Absent, ClientFault, Fault, RewriteMismatch};
use sluice_http::target::{Target, has_dot_segment};
use sluice_settings::Fallback;
use sluice_settings::rule::{AccessUse, Adjustments, CertificateUse, Miss, Replacement, Scheme};

use crate::dispatch::route::{Capture, Route, RouteAction, RouteKind, RoutedPath};
use crate::dispatch::site::Site;

pub(crate) enum Resolved<'s> {
    /// A route that answers, its kind, and the captured part of the path.
    Route(&'s Route, &'s RouteKind, Capture),
    Root(&'s Directory),
    /// No route answers, and the site has no root.
    Nowhere,
}

/// The result of resolving a path. Boxed where it is returned, because it is large and a decision keeps it.
pub(crate) struct Resolution<'s> {
    pub resolved: Resolved<'s>,
    /// The rewritten path and query. `None` if no route rewrote them.
    pub rewritten: Option<Box<Target>>,
    /// The changes of all routes that matched.
    pub adjustments: Adjustments,
    /// The route after the last one that rewrote the path: an index page of the directory, and a fallback, are resolved from there.
    start: ResumeAt,
    next: usize,
}

/// Where a resolution begins: at the first route, or after those that led to the directory of an index page.
#[derive(Clone, Default)]
pub(crate) struct ResumeAt {
    route: usize,
    /// The changes of the routes before it. Boxed, because there are seldom any, and a decision moves them with it.
    adjustments: Option<Box<Adjustments>>,
    /// The path of the directory whose index page is resolved. `None` if no index page is.
    index_of: Option<Rc<str>>,
    /// Whether the routes before it refuse the path: it is that of a fallback, which none of them has seen.
    is_refused_above: bool,
    /// The target that earlier routes have made of the path, which goes on with the next route. `None` if they have made none.
    rewritten: Option<Box<Target>>,
}

/// The error when a rewrite yields an invalid path, with the adjustments made up to there.
#[derive(Debug)]
pub(crate) struct RewriteError {
    pub fault: Fault,
    pub adjustments: Adjustments,
}

impl From<Box<RewriteError>> for Fault {
    fn from(error: Box<RewriteError>) -> Fault {
        error.fault
    }
}

pub(crate) trait Trace {
    fn is_on(&self) -> bool {
        true
    }

    fn begin(&mut self, _path: &str) {}

    fn skipped(&mut self, _route: &Route, _miss: Miss<'_>) {}

    /// The route redirects from an index page to its directory, which applies only if the client asked for the page by name.
    fn skipped_for_index(&mut self, _route: &Route) {}

    /// The route requires a certificate for this path or limits the access to it, but does nothing else.
    fn required(&mut self, _route: &Route) {}

    /// The route matches; `rewritten` is the new target if it rewrites.
    fn matched(&mut self, _route: &Route, _rewritten: Option<&Target>) {}

    /// The path leads to nothing, and a fallback of the route is tried: another path, or the next route.
    fn falls_back(&mut self, _route: &Route, _to: FallbackTo<'_>) {}

    /// The path of a route with a fallback leads to a symbolic link that may not be followed, which counts as nothing.
    fn refuses_link(&mut self, _route: &Route, _link: &Absent) {}
}

#[derive(Clone, Copy)]
pub(crate) enum FallbackTo<'a> {
    Path(&'a Target),
    NextRoute,
}

impl Trace for () {
    fn is_on(&self) -> bool {
        false
    }
}

impl Site {
    /// Resolves a decoded path. Errors of the client: a route rewrites the path to an invalid one.
    pub(crate) fn resolve(
        &self,
        asked: RoutedPath<'_>,
        trace: &mut impl Trace,
    ) -> Result<Box<Resolution<'_>>, Box<RewriteError>> {
        self.resolve_from(ResumeAt::default(), asked, trace)
    }

    /// Resolves a decoded path from `start` on; errors as for `resolve`.
    pub(crate) fn resolve_from(
        &self,
        mut start: ResumeAt,
        asked: RoutedPath<'_>,
        trace: &mut impl Trace,
    ) -> Result<Box<Resolution<'_>>, Box<RewriteError>> {
        let mut adjustments = start.adjustments.as_deref().cloned().unwrap_or_default();
        let mut rewritten = start.rewritten.take();
        self.requirement(start.route, asked, trace).add_to(&mut adjustments);
        let (resolved, next) = 'found: {
            if let Some((route, kind, capture)) = self.refusal_above(&start, asked) {
                adjustments.merge(&route.changes);
                trace.matched(route, None);
                break 'found (Resolved::Route(route, kind, capture), start.route);
            }
            for (number, route) in self.routes.iter().enumerate().skip(start.route) {
                let asked = rewritten.as_deref().map_or(asked, |target| asked.at(target));
                if !trace.is_on() && route.begins_otherwise(asked.path) {
                    continue;
                }
                let index_of = start.index_of.as_deref();
                let Some(capture) = try_route(route, asked, index_of, &mut adjustments, trace) else {
                    continue;
                };
                match &route.action {
                    RouteAction::Pass => trace.matched(route, None),
                    RouteAction::Rewrite(to) => {
                        let target = match rewrite(route, to, asked.path, asked.query) {
                            Ok(target) => target,
                            Err(fault) => return Err(Box::new(RewriteError { fault, adjustments })),
                        };
                        trace.matched(route, Some(&target));
                        self.requirement(number + 1, asked.at(&target), trace)
                            .add_to(&mut adjustments);
                        rewritten = Some(Box::new(target));
                        start.route = number + 1;
                        start.adjustments = Some(Box::new(adjustments.clone()));
                    }
                    RouteAction::Answer(kind) => {
                        trace.matched(route, None);
                        break 'found (Resolved::Route(route, kind, capture), number + 1);
                    }
                }
            }
            let root = self.root.as_ref().map_or(Resolved::Nowhere, Resolved::Root);
            (root, self.routes.len())
        };
        Ok(Box::new(Resolution { resolved, rewritten, adjustments, start, next }))
    }

    /// The route before the start of a resolution that refuses a path, if it is asked.
    fn refusal_above(&self, start: &ResumeAt, asked: RoutedPath<'_>) -> Option<(&Route, &RouteKind, Capture)> {
        let end = if start.is_refused_above { start.route } else { 0 };
        self.routes[..end].iter().find_map(|route| {
            let kind = route.kind().filter(|kind| kind.is_refusal())?;
            Some((route, kind, route.matches(asked).ok()?))
        })
    }

    /// The requirements of the first `end` routes for a path, although they are not tried for it: a client certificate, and access rules. They
    /// only add to the requirements of the site or of the path before; exceptions are ignored.
    fn requirement(&self, end: usize, asked: RoutedPath<'_>, trace: &mut impl Trace) -> Requirement<'_> {
        let until = self.guard_routes.partition_point(|number| *number < end);
        let routes = self.guard_routes[..until].iter().map(|number| &self.routes[*number]);
        let (mut certificate, mut access) = (None, None);
        for route in routes.rev().filter(|route| route.guards(asked)) {
            let is_new = (certificate.is_none() && route.changes.client_certificates == Some(CertificateUse::Required))
                || (access.is_none() && matches!(route.changes.access.own, Some(AccessUse::Limited(_))));
            certificate = certificate.or(route.changes.client_certificates);
            access = access.or(route.changes.access.own.as_ref());
            if is_new {
                trace.required(route);
            }
        }
        Requirement { certificate, access }
    }
}

struct Requirement<'s> {
    certificate: Option<CertificateUse>,
    access: Option<&'s AccessUse>,
}

impl Requirement<'_> {
    fn add_to(self, adjustments: &mut Adjustments) {
        if self.certificate == Some(CertificateUse::Required) {
            adjustments.client_certificates = self.certificate;
        }
        if let Some(AccessUse::Limited(access)) = self.access {
            adjustments.access.require(access);
        }
    }
}

/// Compares a route with a path, and takes its changes. `None` if the route is skipped; its requirement for paths below its own is taken all the same.
fn try_route(
    route: &Route,
    asked: RoutedPath<'_>,
    index_of: Option<&str>,
    adjustments: &mut Adjustments,
    trace: &mut impl Trace,
) -> Option<Capture> {
    let capture = match route.matches(asked) {
        Ok(capture) => capture,
        Err(_) if route.requires_below(asked) => {
            if route.changes.client_certificates == Some(CertificateUse::Required) {
                adjustments.client_certificates = Some(CertificateUse::Required);
            }
            if let Some(access @ AccessUse::Limited(_)) = &route.changes.access.own {
                adjustments.access.take(access);
            }
            trace.required(route);
            return None;
        }
        Err(miss) => {
            trace.skipped(route, miss);
            return None;
        }
    };
    if index_of.is_some_and(|directory| redirects_to(route, asked, directory)) {
        trace.skipped_for_index(route);
        return None;
    }
    if !route.changes.is_empty() {
        adjustments.merge(&route.changes);
    }
    Some(capture)
}

/// Whether a route redirects a request from this path to that of its directory, on the same host.
fn redirects_to(route: &Route, asked: RoutedPath<'_>, directory: &str) -> bool {
    let to = route.kind().and_then(|kind| kind.redirect());
    let (Some(to), Some(attributes)) = (to, asked.attributes) else {
        return false;
    };
    let scheme = match attributes.scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    let captures = route.pattern.captures(asked.path).unwrap_or_default();
    let Ok(uri) = to.expand(&captures, asked.query).parse::<Uri>() else {
        return false;
    };
    uri.host().is_none_or(|host| host.eq_ignore_ascii_case(attributes.host))
        && uri.scheme_str().is_none_or(|named| named == scheme)
        && Target::from_uri(&uri).is_ok_and(|target| *target.path == *directory)
}

/// The rewritten target. The query stays if the replacement has none. Errors: the client's fault: what was captured makes an invalid path.
pub(crate) fn rewrite(route: &Route, to: &Replacement, path: &str, query: Option<&str>) -> Result<Target, Fault> {
    let captures = route.pattern.captures(path).unwrap_or_default();
    let text = to.expand(&captures, query);
    // The request's dot segments were removed before. New ones are an error, because they would lead to a path that no route expects.
    if has_dot_segment(&text) {
        let (target, origin) = (text.into(), route.origin.as_str().into());
        return Err(ClientFault::BadRewrite(Box::new(RewriteMismatch { target, origin })).into());
    }
    let mut target = Target::parse(&text)?;
    // `/app/*` also matches `/app`; that path stays without a trailing slash.
    let is_bare = route.pattern.bare() == Some(path);
    let without = target.path.strip_suffix('/').filter(|_| is_bare);
    if let Some(without) = without.filter(|without| !without.is_empty()) {
        target.path = without.into();
    }
    if target.query.is_none() {
        target.query = query.map(Into::into);
    }
    Ok(target)
}

impl<'s> Resolved<'s> {
    /// The directory that files are served from, and the part of the path below it; `path` is the one that was resolved.
    pub(crate) fn directory<'p>(&self, path: &'p str) -> Option<(&'s Directory, &'p str)> {
        match self {
            Resolved::Root(directory) => Some((directory, &path[1..])),
            Resolved::Route(_, kind, capture) => Some((kind.directory()?, capture.of(path))),
            Resolved::Nowhere => None,
        }
    }

    pub(crate) fn index_scripts(&self) -> &'s [String] {
        self.kind().map_or(&[], |kind| kind.index_scripts())
    }

    fn kind(&self) -> Option<&'s RouteKind> {
        match self {
            Resolved::Route(_, kind, _) => Some(kind),
            Resolved::Root(_) | Resolved::Nowhere => None,
        }
    }

    pub(crate) fn records(&self) -> Option<&'s Records> {
        self.kind()?.records()
    }
}

impl Resolution<'_> {
    /// Adds what the routes of the site require for another path of the same answer.
    pub(crate) fn add_requirement(&mut self, site: &Site, asked: RoutedPath<'_>) {
        site.requirement(site.routes.len(), asked, &mut ())
            .add_to(&mut self.adjustments);
    }

    /// Where the resolution of an index page begins; `asked` is the path of its directory as the client sent it.
    pub(crate) fn index_start(&self, asked: &str) -> ResumeAt {
        ResumeAt { index_of: Some(asked.into()), ..self.start.clone() }
    }

    /// Where the resolution of a fallback begins, whose path the configuration names: the changes of the routes before hold for it, and they may refuse it.
    pub(crate) fn fallback_start(&self, adjustments: &Adjustments) -> ResumeAt {
        ResumeAt {
            route: self.start.route,
            adjustments: Some(Box::new(adjustments.clone())),
            is_refused_above: true,
            ..ResumeAt::default()
        }
    }

    /// Where the resolution goes on with the same path, after the route that had no answer for it.
    pub(crate) fn next_start(&self, adjustments: &Adjustments) -> ResumeAt {
        ResumeAt {
            route: self.next,
            rewritten: self.rewritten.clone(),
            is_refused_above: false,
            ..self.fallback_start(adjustments)
        }
    }

    pub(crate) fn goes_on(&self) -> bool {
        let kind = self.resolved.kind();
        kind.is_some_and(|kind| kind.fallback().last() == Some(&Fallback::NextRoute))
    }

    /// The path that was resolved: the rewritten one, or else `asked`.
    pub(crate) fn path<'p>(&'p self, asked: &'p str) -> &'p str {
        self.rewritten.as_ref().map_or(asked, |target| &target.path)
    }

    /// Copies the raw text of the target that the client sent to the rewritten one, because scripts get it as REQUEST_URI.
    pub(crate) fn keep_raw(&mut self, asked: &Target) {
        if let Some(rewritten) = &mut self.rewritten {
            rewritten.raw.clone_from(&asked.raw);
        }
    }
}
