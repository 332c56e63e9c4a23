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
//! There is no way back, so it ends after as many steps as there are rules.

use http::StatusCode;

use crate::dispatch::route::{Effect, Route};
use crate::dispatch::site::{Place, Site};
use crate::fault::Fault;
use crate::rule::{Adjustments, Facts, Miss, Replacement};
use crate::target::{Target, has_dot_segment};

/// Where a request's way through the rules has led.
pub(crate) struct Walked<'s> {
    pub place: Place<'s>,
    /// What rules have made of the path and the query; none: they are as they were sent.
    pub rewritten: Option<Target>,
    /// What rules on the way, and the last one, change.
    pub adjustments: Adjustments,
}

/// Hears of every rule on the way.
pub(crate) trait Trace {
    /// The rule is for others.
    fn passed(&mut self, _rule: &Route, _miss: Miss<'_>) {}

    /// The rule is for this request; the target that it has made of it, if it rewrites.
    fn met(&mut self, _rule: &Route, _rewritten: Option<&Target>) {}
}

/// Nobody wants to know.
impl Trace for () {}

impl Site {
    /// What answers for a decoded path, as somebody asks for it. Without facts it is only known what the path means to
    /// everybody: rules that have conditions are passed by.
    ///
    /// The client's fault: a rule makes something of its path that is none.
    pub(crate) fn walk(
        &self,
        path: &str,
        query: Option<&str>,
        facts: Option<&Facts<'_>>,
        trace: &mut impl Trace,
    ) -> Result<Walked<'_>, Fault> {
        let mut adjustments = Adjustments::default();
        let mut rewritten: Option<Target> = None;
        for rule in &self.routes {
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
            if !rule.changes.is_empty() {
                adjustments.take(&rule.changes);
            }
            match &rule.effect {
                Effect::Pass => trace.met(rule, None),
                Effect::Rewrite(to) => {
                    let target = rewrite(rule, to, path, query)?;
                    trace.met(rule, Some(&target));
                    rewritten = Some(target);
                }
                Effect::Answer(kind) => {
                    trace.met(rule, None);
                    return Ok(Walked {
                        place: Place::Route(rule, kind, star),
                        rewritten,
                        adjustments,
                    });
                }
            }
        }
        Ok(Walked {
            place: self.root.as_ref().map_or(Place::Nowhere, Place::Root),
            rewritten,
            adjustments,
        })
    }
}

/// The target that a rule makes of a path and a query, which stays if the rule says nothing of one.
fn rewrite(rule: &Route, to: &Replacement, path: &str, query: Option<&str>) -> Result<Target, Fault> {
    let captures = rule.pattern.captures(path).unwrap_or_default();
    let made = to.expand(&captures, query);
    // What a client sends has been resolved already. In what was made of it dots would lead where no rule expects it.
    if has_dot_segment(&made) {
        let text = format!(
            "rewritten to {made:?}, which has a segment of dots, by the rule of {}",
            rule.origin
        );
        return Err(Fault::client(StatusCode::BAD_REQUEST, text));
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

impl Walked<'_> {
    /// The target that has been led here, of the one that was asked for; that stays what scripts are told as REQUEST_URI.
    pub(crate) fn take_target(&mut self, asked: &Target) -> Option<Target> {
        let rewritten = self.rewritten.take()?;
        Some(Target {
            raw: asked.raw.clone(),
            ..rewritten
        })
    }
}
