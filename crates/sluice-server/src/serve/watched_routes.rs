//! The routes that are tried for a request, for WATCH. `check --explain` shows the same (`explain`).

use sluice_http::fault::Absent;
use sluice_http::target::Target;
use sluice_settings::rule::{Adjustments, Miss};
use sluice_watch::{Item, Pattern, Tracer};

use crate::dispatch::Site;
use crate::dispatch::resolve::{FallbackTo, Trace};
use crate::dispatch::route::Route;
use crate::serve::watched::module;

/// Notes each route as it is tried, for `show`: a decision that was left to another thread is made once more.
pub(crate) struct WatchedRoutes<'a> {
    site: &'a Site,
    tracer: &'a Tracer,
    path: String,
    lines: Vec<String>,
}

impl<'a> WatchedRoutes<'a> {
    pub(crate) fn new(site: &'a Site, tracer: &'a Tracer) -> WatchedRoutes<'a> {
        WatchedRoutes {
            site,
            tracer,
            path: String::new(),
            lines: Vec::new(),
        }
    }

    pub(crate) fn show(self) {
        for line in self.lines {
            self.tracer.note(Item::Mapping, module::DECIDE, || line);
        }
    }

    fn note(&mut self, text: &str) {
        let masked = self.tracer.masks().map(|masks| masks.text(text));
        self.lines.push(masked.unwrap_or_default());
    }

    /// Notes what a route does. Its number counts from 1, as in the file.
    fn note_route(&mut self, route: &Route, effect: &str, changes: &[String]) {
        let mut routes = self.site.routes.iter();
        let place = routes.position(|other| std::ptr::eq(other, route));
        let number = place.map_or(0, |place| place + 1);
        let changes = match changes {
            [] => String::new(),
            changes => format!("\nset: {}", changes.join("; ")),
        };
        let Route { origin, pattern, comment, .. } = route;
        let comment = comment.as_ref().map(|comment| format!(", {comment:?}"));
        let comment = comment.unwrap_or_default();
        self.note(&format!(
            "route {number} ({origin}{comment}) \"{pattern}\": {effect}{changes}"
        ));
    }
}

impl Trace for WatchedRoutes<'_> {
    fn begin(&mut self, path: &str) {
        path.clone_into(&mut self.path);
        self.note(&format!("path {path:?}"));
    }

    fn skipped(&mut self, route: &Route, miss: Miss<'_>) {
        let nearly = match miss {
            Miss::Path => near_miss(&route.pattern.to_string(), &self.path),
            _ => "",
        };
        self.note_route(route, &format!("skipped: {miss}{nearly}"), &[]);
    }

    fn skipped_for_index(&mut self, route: &Route) {
        self.note_route(route, "skipped: it leads from the index page to its directory", &[]);
    }

    fn required(&mut self, route: &Route) {
        let changes = Adjustments {
            client_certificates: route.changes.client_certificates,
            access: route.changes.access.clone(),
            ..Adjustments::default()
        };
        self.note_route(route, "only its access rules hold", &changes.lines());
    }

    fn matched(&mut self, route: &Route, rewritten: Option<&Target>) {
        let effect = match (rewritten, route.kind()) {
            (Some(target), _) => format!("rewrites to {target}"),
            (None, None) => "matches; the next one is tried".to_owned(),
            (None, Some(_)) => "answers".to_owned(),
        };
        self.note_route(route, &effect, &route.changes.lines());
    }

    fn refuses_link(&mut self, route: &Route, link: &Absent) {
        self.note_route(route, &link.to_string(), &[]);
    }

    fn falls_back(&mut self, route: &Route, to: FallbackTo<'_>) {
        let next = match to {
            FallbackTo::Path(target) => target.to_string(),
            FallbackTo::NextRoute => "the next route".to_owned(),
        };
        self.note_route(route, &format!("nothing there; its fallback is {next}"), &[]);
    }
}

/// How a path would match the pattern of a route that it does not match, for the usual mistakes.
fn near_miss(pattern: &str, path: &str) -> &'static str {
    let matches = |pattern: &str, path: &str| Pattern::new(pattern).matches(path);
    if matches(pattern, path) {
        // Stars of routes may be bound to a part of a path.
        return "";
    }
    let (pattern_in_lower_case, path_in_lower_case) = (pattern.to_ascii_lowercase(), path.to_ascii_lowercase());
    if matches(&pattern_in_lower_case, &path_in_lower_case) {
        return "; it would but for upper and lower case";
    }
    if matches(pattern, &format!("{path}/")) {
        return "; it would with a slash at its end";
    }
    match path.strip_suffix('/') {
        Some(path) if matches(pattern, path) => "; it would without the slash at its end",
        _ if matches(&format!("{}/*", pattern.trim_end_matches('/')), path) => {
            "; it would if the route's path ended with /*"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_miss_is_named() {
        for (pattern, path, expected) in [
            ("/Wiki/*", "/wiki/Main", "; it would but for upper and lower case"),
            ("/wiki/*", "/wiki", "; it would with a slash at its end"),
            ("/wiki", "/wiki/", "; it would without the slash at its end"),
            ("/wiki", "/wiki/Main", "; it would if the route's path ended with /*"),
            ("/other/*", "/wiki/Main", ""),
            ("/wiki/*", "/wiki/Main", ""),
        ] {
            assert_eq!(near_miss(pattern, path), expected, "{pattern} {path}");
        }
    }
}
