//! What routes mean together: those that can never match, those after which nothing comes, redirects that lead in a circle.
//!
//! Only what is certain is a mistake. What a rewriting makes of a path, a regular expression matches or a condition lets through
//! is not known here, so behind such a route there is nothing that is certain.

use sluice_settings::rule::{Conditions, Pattern, Replacement, covers};
use sluice_settings::{Action, ScriptSource};

use super::mistake::Document;

/// A route that was read, and where.
pub(super) struct Placed {
    /// The line of what it matches by.
    pub(super) line: usize,
    /// The line of what it does.
    pub(super) action_line: usize,
    /// None where that could not be read.
    pub(super) action: Option<Action>,
    /// Which paths it is for; none where that could not be read.
    pub(super) path: Option<Pattern>,
    pub(super) when: Conditions,
}

/// Notes the mistakes of a site's routes.
pub(super) fn check(document: &Document<'_>, routes: &[Placed], has_root: bool) {
    let mut swallowed = vec![false; routes.len()];
    for (number, route) in routes.iter().enumerate() {
        if let Some(first) = route.is_swallowed_by(&routes[..number]) {
            swallowed[number] = true;
            let message = format!(
                "{}: never matches, because {} on line {} comes first: put this route above it",
                route.shown(),
                first.shown_alone(),
                first.line
            );
            document.complain(route.line, message);
        }
    }
    let redirects = (0..routes.len()).filter(|number| !swallowed[*number]);
    redirects.for_each(|number| check_circle(document, routes, number));
    // One that only sets things may stand there: it does so for what is answered 404.
    if let Some(last) = routes.last().filter(|_| !has_root)
        && matches!(last.action, Some(Action::Rewrite(_)))
    {
        let message = "this route only rewrites the path and goes on, but nothing follows that could answer: put it above the routes that it is for, or give the site root = \"htdocs\"";
        document.complain(last.action_line, message);
    }
}

impl Placed {
    /// Whether the next route has the request after it.
    fn goes_on(&self) -> bool {
        matches!(self.action, Some(Action::Rewrite(_) | Action::Pass))
    }

    /// Whether both have the same regular expression; it is not known of others what they leave.
    fn has_regex_of(&self, other: &Placed) -> bool {
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

    /// The patterns of all paths for which the server takes it (`dispatch::route`); a regular expression may be for any.
    fn reach(&self) -> Vec<String> {
        let path = match &self.path {
            Some(Pattern::Wildcard(path)) => path.to_string(),
            Some(Pattern::Regex(_)) => "/*".to_owned(),
            None => return Vec::new(),
        };
        let below = match &self.action {
            // `*.cgi` with PATH_INFO behind it.
            Some(Action::Script(script)) if script.source == ScriptSource::Root => Some(format!("{path}/*")),
            // What is refused is so with all below it.
            Some(Action::Refuse(_)) => Some(format!("{path}/*")),
            _ => None,
        };
        // `/a/*` is also for `/a`.
        let bare = self.path.as_ref().and_then(Pattern::bare).map(str::to_owned);
        [path].into_iter().chain(below).chain(bare).collect()
    }

    /// Whether it is for everything that this pattern is for; none where that is not known.
    fn covers(&self, later: &str) -> Option<bool> {
        match &self.path {
            Some(Pattern::Regex(_)) if later.contains('*') => None,
            Some(Pattern::Regex(regex)) => Some(regex.is_match(later)),
            _ => Some(self.reach().iter().any(|own| covers(own, later))),
        }
    }

    /// The route that leaves nothing for this one.
    fn is_swallowed_by<'r>(&self, earlier: &'r [Placed]) -> Option<&'r Placed> {
        let reach = self.reach();
        // Above a rewriting a path is another one.
        let rewrites = |route: &Placed| matches!(route.action, Some(Action::Rewrite(_)));
        let since = earlier.iter().rposition(rewrites).map_or(0, |at| at + 1);
        let swallows = |first: &&Placed| {
            !first.goes_on()
                && (first.when.is_empty() || first.when == self.when)
                && (first.has_regex_of(self) || reach.iter().all(|path| first.covers(path) == Some(true)))
        };
        earlier[since..]
            .iter()
            .find(|first| !reach.is_empty() && swallows(first))
    }
}

/// Notes a redirect whose target leads back to it: clients go round for ever.
fn check_circle(document: &Document<'_>, routes: &[Placed], number: usize) {
    let start = &routes[number];
    let (Some(Action::Redirect { to, .. }), Some(pattern)) = (&start.action, &start.path) else {
        return;
    };
    let captures = match pattern {
        Pattern::Wildcard(path) => pattern.captures(&path.to_string()).map(own),
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
                    "redirect to \"{to}\" is matched by {} again and never ends: put a route for the target above it",
                    start.shown()
                ),
                Some(second) => format!(
                    "redirect to \"{to}\" leads to the one on line {}, and in the end back here: it never ends; let one of them lead elsewhere",
                    routes[*second].action_line
                ),
            };
            document.complain(start.action_line, message);
            return;
        }
        // A circle that does not come back here is told where it does.
        if visited.contains(&next) {
            return;
        }
        visited.push(next);
        let captures = routes[next]
            .path
            .as_ref()
            .and_then(|pattern| pattern.captures(&path).map(own));
        match captures.and_then(|captures| path_of(onward, &captures)) {
            Some(path) => target = path,
            None => return,
        }
    }
}

/// What answers for certain for a path in which stars stand for any run of characters, and the path that has led there.
fn answer(routes: &[Placed], path: &str) -> Option<(usize, String)> {
    let mut path = path.to_owned();
    for (number, route) in routes.iter().enumerate() {
        match route.covers(&path) {
            Some(true) if route.when.is_empty() => {}
            Some(false) => continue,
            _ => return None,
        }
        match &route.action {
            Some(Action::Pass) => {}
            Some(Action::Rewrite(to)) => {
                let captures = route.path.as_ref()?.captures(&path).map(own)?;
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

fn own(captures: Vec<&str>) -> Vec<String> {
    captures.into_iter().map(str::to_owned).collect()
}
