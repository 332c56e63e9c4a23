//! Checks of a site's routes together: routes that can never match, a last route that only rewrites, redirect loops.
//!
//! Only certain mistakes are reported. The result of a rewrite, the paths that a regular expression matches and the requests that
//! fulfil a condition are unknown here, so nothing is certain after a route with one of these.

use sluice_settings::rule::{Conditions, Pattern, Replacement, covers};
use sluice_settings::{Action, Fallback, ScriptSource};

use super::document::Document;

/// A route as read from the file, with its lines.
pub(super) struct ParsedRoute {
    /// The line of its pattern.
    pub(super) line: usize,
    /// The line of its action.
    pub(super) action_line: usize,
    /// `None` if it is wrong.
    pub(super) action: Option<Action>,
    /// The pattern; `None` if it is wrong.
    pub(super) path: Option<Pattern>,
    pub(super) when: Conditions,
}

/// Whether a site has files of its own, for the paths that no route matches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SiteRoot {
    Present,
    Absent,
}

/// Reports the mistakes of a site's routes.
pub(super) fn check(document: &Document<'_>, routes: &[ParsedRoute], root: SiteRoot) {
    let mut unreachable = vec![false; routes.len()];
    for (number, route) in routes.iter().enumerate() {
        if let Some(first) = route.is_hidden_by(&routes[..number]) {
            unreachable[number] = true;
            let fix = match document.is_same_file(first.line, route.line) {
                true => "put this route above it",
                false => "move that one to a file that is included later",
            };
            let message = format!(
                "{}: never matches, because {} on {} comes first: {fix}",
                route.shown(),
                first.shown_alone(),
                document.shown_line_beside(first.line, route.line)
            );
            document.report(route.line, message);
        }
    }
    let redirects = (0..routes.len()).filter(|number| !unreachable[*number]);
    redirects.for_each(|number| check_loop(document, routes, number));
    // A last route that only changes something is not a mistake: the change applies to the 404 response.
    if let Some(last) = routes.last().filter(|_| root == SiteRoot::Absent)
        && matches!(last.action, Some(Action::Rewrite(_)))
    {
        let message = "this route only rewrites the path, and no route follows that could answer: put it above the routes that it leads to, or give the site root = \"htdocs\"";
        document.report(last.action_line, message);
    }
}

impl ParsedRoute {
    /// Whether the next routes are tried after it.
    fn continues(&self) -> bool {
        match self.action {
            Some(Action::Rewrite(_) | Action::Pass) => true,
            Some(
                Action::Files(_) | Action::Script(_) | Action::Redirect { .. } | Action::Refuse(_) | Action::Reports,
            )
            | None => self.may_continue(),
        }
    }

    /// Whether the next routes are tried for paths that lead to nothing.
    fn may_continue(&self) -> bool {
        matches!(&self.action, Some(Action::Files(files)) if files.fallback.contains(&Fallback::NextRoute))
    }

    /// Whether both have the same regular expression. Nothing is known about how different ones overlap.
    fn has_same_regex_as(&self, other: &ParsedRoute) -> bool {
        match (&self.path, &other.path) {
            (Some(Pattern::Regex(own)), Some(Pattern::Regex(other))) => own.as_str() == other.as_str(),
            _ => false,
        }
    }

    /// `path = "/a/*"`
    fn shown(&self) -> String {
        match &self.path {
            Some(Pattern::Regex(regex)) => format!("regex = '{regex}'"),
            Some(path) => format!("path = \"{path}\""),
            None => "path".to_owned(),
        }
    }

    fn shown_alone(&self) -> String {
        match &self.path {
            Some(path) => format!("\"{path}\""),
            None => "a route".to_owned(),
        }
    }

    /// The patterns of all paths that the server lets it match (`dispatch::route`); a regular expression may match any path.
    fn matched_patterns(&self) -> Vec<String> {
        let path = match &self.path {
            Some(Pattern::Wildcard(path)) => path.to_string(),
            Some(Pattern::Regex(_)) => "/*".to_owned(),
            None => return Vec::new(),
        };
        let below = match &self.action {
            // `*.cgi` followed by PATH_INFO.
            Some(Action::Script(script)) if script.source == ScriptSource::Root => Some(format!("{path}/*")),
            // Everything below a refused path is refused.
            Some(Action::Refuse(_)) => Some(format!("{path}/*")),
            Some(
                Action::Files(_)
                | Action::Script(_)
                | Action::Redirect { .. }
                | Action::Reports
                | Action::Rewrite(_)
                | Action::Pass,
            )
            | None => None,
        };
        // `/a/*` also matches `/a`.
        let bare = self.path.as_ref().and_then(Pattern::bare).map(str::to_owned);
        [path].into_iter().chain(below).chain(bare).collect()
    }

    /// Whether it matches everything that the pattern `later` matches; `None` if that is unknown.
    fn covers(&self, later: &str) -> Option<bool> {
        match &self.path {
            Some(Pattern::Regex(_)) if later.contains('*') => None,
            Some(Pattern::Regex(regex)) => Some(regex.is_match(later)),
            _ => Some(self.matched_patterns().iter().any(|own| covers(own, later))),
        }
    }

    /// The earlier route that leaves no request for this one.
    fn is_hidden_by<'r>(&self, earlier: &'r [ParsedRoute]) -> Option<&'r ParsedRoute> {
        let patterns = self.matched_patterns();
        // Routes before a rewrite see another path.
        let rewrites = |route: &ParsedRoute| matches!(route.action, Some(Action::Rewrite(_)));
        let since = earlier.iter().rposition(rewrites).map_or(0, |at| at + 1);
        let hides = |first: &&ParsedRoute| {
            !first.continues()
                && (first.when.is_empty() || first.when == self.when)
                && (first.has_same_regex_as(self) || patterns.iter().all(|path| first.covers(path) == Some(true)))
        };
        earlier[since..]
            .iter()
            .find(|first| !patterns.is_empty() && hides(first))
    }
}

/// Reports a redirect whose target leads back to it.
fn check_loop(document: &Document<'_>, routes: &[ParsedRoute], number: usize) {
    let start = &routes[number];
    let (Some(Action::Redirect { to, .. }), Some(pattern)) = (&start.action, &start.path) else {
        return;
    };
    let captures = match pattern {
        Pattern::Wildcard(path) => pattern.captures(&path.to_string()).map(owned),
        Pattern::Regex(_) => to.is_fixed().then(Vec::new),
    };
    let Some(mut target) = captures
        .filter(|_| start.when.is_empty())
        .and_then(|captures| path_of(to, &captures))
    else {
        return;
    };
    let mut visited = vec![number];
    while let Some((next, path)) = answer(routes, &target) {
        let Some(Action::Redirect { to: onward, .. }) = &routes[next].action else {
            return;
        };
        if next == number {
            let message = match visited.get(1) {
                None => format!(
                    "redirect to \"{to}\" is matched by {} again, an endless loop: put a route for the target above it",
                    start.shown()
                ),
                Some(second) => format!(
                    "redirect to \"{to}\" leads to the one on {}, and finally back here, an endless loop: change one of them",
                    document.shown_line_beside(routes[*second].action_line, start.action_line)
                ),
            };
            document.report(start.action_line, message);
            return;
        }
        // A loop without the start is reported where one of its routes is the start.
        if visited.contains(&next) {
            return;
        }
        visited.push(next);
        let captures = routes[next]
            .path
            .as_ref()
            .and_then(|pattern| pattern.captures(&path).map(owned));
        match captures.and_then(|captures| path_of(onward, &captures)) {
            Some(path) => target = path,
            None => return,
        }
    }
}

/// The route that is certain to answer for a path, in which stars match any characters, and the path after rewrites.
fn answer(routes: &[ParsedRoute], path: &str) -> Option<(usize, String)> {
    let mut path = path.to_owned();
    for (number, route) in routes.iter().enumerate() {
        match route.covers(&path) {
            Some(true) if route.when.is_empty() && !route.may_continue() => {}
            Some(false) => continue,
            _ => return None,
        }
        match &route.action {
            Some(Action::Pass) => {}
            Some(Action::Rewrite(to)) => {
                let captures = route.path.as_ref()?.captures(&path).map(owned)?;
                path = path_of(to, &captures)?;
            }
            _ => return Some((number, path)),
        }
    }
    None
}

fn path_of(to: &Replacement, captures: &[String]) -> Option<String> {
    let captures: Vec<&str> = captures.iter().map(String::as_str).collect();
    to.path(&captures)
}

fn owned(captures: Vec<&str>) -> Vec<String> {
    captures.into_iter().map(str::to_owned).collect()
}
