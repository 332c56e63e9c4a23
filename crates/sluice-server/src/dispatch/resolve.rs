//! The way of a request through the rules of a site: in the order in which they are written, once, to what answers.
//!
//! Here: what each kind of rule does to the way. Not here: whether a rule is for a request (`route`, `rule`), what an answer
//! looks like (`accept::serve`). Whoever wants to know how it went brings a [`Trace`].
//!
//! ```text
//!            ┌──────────── next rule ◀───────────┐
//!            ▼                                   │
//!  path ─▶ for it? ── no ────────────────────────┤
//!            │ yes: its changes are noted        │
//!            ├─ sets things ─────────────────────┤
//!            ├─ rewrites ─▶ another path ────────┘
//!            └─ answers ─▶ there               none left ─▶ the root, or nowhere
//! ```
//! There is no way back, so it ends after as many steps as there are rules. The way of a directory's index page is one of its own:
//! for the path at which the page lies, from above all rules, or from behind the last one that rewrote the directory's path.

use std::rc::Rc;

use http::Uri;
use sluice_files::directory::Directory;
use sluice_files::records::Records;
use sluice_http::fault::{ClientFault, Fault, RewriteMismatch};
use sluice_http::target::{Target, has_dot_segment};
use sluice_settings::rule::{Adjustments, Miss, Replacement, RequestAttributes, Scheme};

use crate::dispatch::route::{Effect, Route, RouteKind};
use crate::dispatch::site::{Resolved, Site};

/// Where a request's way through the rules has led.
pub(crate) struct Resolution<'s> {
    pub place: Resolved<'s>,
    /// What rules have made of the path and the query; none: they are as they were sent.
    pub rewritten: Option<Target>,
    /// What rules on the way, and the last one, change.
    pub adjustments: Adjustments,
    /// Behind the last rule that rewrote: what lies in the directory to which the path leads has its way from there.
    start: ResumeAt,
}

/// Where a way begins: above all rules, or behind those that led to the directory of an index page.
#[derive(Clone, Default)]
pub(crate) struct ResumeAt {
    /// The first rule.
    rule: usize,
    /// What those above it change.
    adjustments: Adjustments,
    /// The way of an index page: the path for which it is to be sent.
    index_of: Option<Rc<str>>,
}

/// A way that leads nowhere, because a rule makes something of its path that is none; and what the rules before it change.
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

/// Is told of every rule on the way.
pub(crate) trait Trace {
    /// Whether anybody wants to know.
    fn is_on(&self) -> bool {
        true
    }

    /// A way through the rules begins with this path.
    fn begin(&mut self, _path: &str) {}

    /// The rule is for others.
    fn passed(&mut self, _rule: &Route, _miss: Miss<'_>) {}

    /// The rule redirects from an index page to its directory: it is for who asks for the page by its own name.
    fn left_out(&mut self, _rule: &Route) {}

    /// The rule is for this request; the target that it has made of it, if it rewrites.
    fn met(&mut self, _rule: &Route, _rewritten: Option<&Target>) {}
}

/// Nobody wants to know.
impl Trace for () {
    fn is_on(&self) -> bool {
        false
    }
}

impl Site {
    /// What answers for a decoded path, as somebody asks for it. Without facts it is only known what the path means to
    /// everybody: rules that have conditions are passed by.
    ///
    /// The client's fault: a rule makes something of its path that is none.
    pub(crate) fn resolve(
        &self,
        path: &str,
        query: Option<&str>,
        facts: Option<&RequestAttributes<'_>>,
        trace: &mut impl Trace,
    ) -> Result<Resolution<'_>, Box<RewriteError>> {
        self.resolve_from(ResumeAt::default(), path, query, facts, trace)
    }

    /// The same, for a path that has its beginning behind other rules.
    pub(crate) fn resolve_from(
        &self,
        mut start: ResumeAt,
        path: &str,
        query: Option<&str>,
        facts: Option<&RequestAttributes<'_>>,
        trace: &mut impl Trace,
    ) -> Result<Resolution<'_>, Box<RewriteError>> {
        let mut adjustments = start.adjustments.clone();
        let mut rewritten: Option<Target> = None;
        for (number, rule) in self.routes.iter().enumerate().skip(start.rule) {
            let (path, query) = match &rewritten {
                None => (path, query),
                Some(target) => (target.path.as_str(), target.query.as_deref()),
            };
            let star = match rule.matches(path, query, facts) {
                Ok(star) => star,
                Err(miss) => {
                    trace.passed(rule, miss);
                    continue;
                }
            };
            if let (Some(directory), Some(facts)) = (&start.index_of, facts)
                && leads_to(rule, (path, query), directory, facts)
            {
                trace.left_out(rule);
                continue;
            }
            if !rule.changes.is_empty() {
                adjustments.take(&rule.changes);
            }
            match &rule.effect {
                Effect::Pass => trace.met(rule, None),
                Effect::Rewrite(to) => {
                    let target = match rewrite(rule, to, path, query) {
                        Ok(target) => target,
                        Err(fault) => return Err(Box::new(RewriteError { fault, adjustments })),
                    };
                    trace.met(rule, Some(&target));
                    rewritten = Some(target);
                    start.rule = number + 1;
                    start.adjustments = adjustments.clone();
                }
                Effect::Answer(kind) => {
                    trace.met(rule, None);
                    return Ok(Resolution {
                        place: Resolved::Route(rule, kind, star),
                        rewritten,
                        adjustments,
                        start,
                    });
                }
            }
        }
        Ok(Resolution {
            place: self.root.as_ref().map_or(Resolved::Nowhere, Resolved::Root),
            rewritten,
            adjustments,
            start,
        })
    }
}

/// Whether a rule redirects to this very path, on the same host.
fn leads_to(rule: &Route, (path, query): (&str, Option<&str>), directory: &str, facts: &RequestAttributes<'_>) -> bool {
    let Some(RouteKind::Redirect { to, .. }) = rule.answer() else {
        return false;
    };
    let scheme = match facts.scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    let captures = rule.pattern.captures(path).unwrap_or_default();
    let Ok(uri) = to.expand(&captures, query).parse::<Uri>() else {
        return false;
    };
    uri.host().is_none_or(|host| host.eq_ignore_ascii_case(facts.host))
        && uri.scheme_str().is_none_or(|named| named == scheme)
        && Target::from_uri(&uri).is_ok_and(|target| target.path == directory)
}

/// The target that a rule makes of a path and a query, which stays if the rule says nothing of one.
fn rewrite(rule: &Route, to: &Replacement, path: &str, query: Option<&str>) -> Result<Target, Fault> {
    let captures = rule.pattern.captures(path).unwrap_or_default();
    let made = to.expand(&captures, query);
    // What a client sends has been resolved already. In what was made of it dots would lead where no rule expects it.
    if has_dot_segment(&made) {
        let (target, origin) = (made.into(), rule.origin.as_str().into());
        return Err(ClientFault::BadRewrite(Box::new(RewriteMismatch { target, origin })).into());
    }
    let mut target = Target::parse(&made)?;
    // `/app/*` is also for `/app`: without a slash there, without one here.
    if rule.pattern.bare() == Some(path) && target.path.len() > 1 && target.path.ends_with('/') {
        target.path.pop();
    }
    if target.query.is_none() {
        target.query = query.map(str::to_owned);
    }
    Ok(target)
}

impl<'s> Resolved<'s> {
    /// The directory in which the file of a path lies that has led here, and the path below it.
    pub(crate) fn directory<'p>(&self, path: &'p str) -> Option<(&'s Directory, &'p str)> {
        match self {
            Resolved::Root(directory) => Some((directory, &path[1..])),
            Resolved::Route(_, RouteKind::Files(files), star) => Some((&files.directory, star.of(path))),
            _ => None,
        }
    }

    /// How the files of the directory are converted to lines, if they consist of records.
    pub(crate) fn records(&self) -> Option<&'s Records> {
        match self {
            Resolved::Route(_, RouteKind::Files(files), _) => files.records.as_ref(),
            _ => None,
        }
    }
}

impl Resolution<'_> {
    /// Where the way of an index page begins that is to be sent for this path.
    pub(crate) fn index_start(&self, asked: &str) -> ResumeAt {
        ResumeAt {
            index_of: Some(asked.into()),
            ..self.start.clone()
        }
    }

    /// The path that has led here, of the one that was asked for.
    pub(crate) fn path<'p>(&'p self, asked: &'p str) -> &'p str {
        self.rewritten.as_ref().map_or(asked, |target| &target.path)
    }

    /// Gives a rewritten target the raw form of the one that was asked for, which scripts get as REQUEST_URI.
    pub(crate) fn keep_raw(&mut self, asked: &Target) {
        if let Some(rewritten) = &mut self.rewritten {
            rewritten.raw.clone_from(&asked.raw);
        }
    }
}
