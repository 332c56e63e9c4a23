//! The routes that are tried for a request, for WATCH. `check --explain` shows the same (`explain`).

use std::fmt;

use sluice_http::target::Target;
use sluice_settings::rule::{Changes, Miss};
use sluice_watch::{Item, Subject};

use crate::dispatch::Site;
use crate::dispatch::resolve::{FallbackTo, Trace};
use crate::dispatch::route::Route;
use crate::serve::watched::module;

/// Notes each route as it is tried.
pub(crate) struct WatchedRoutes<'a> {
    site: &'a Site,
    subject: &'a Subject,
}

impl<'a> WatchedRoutes<'a> {
    pub(crate) fn new(site: &'a Site, subject: &'a Subject) -> WatchedRoutes<'a> {
        WatchedRoutes { site, subject }
    }

    fn note(&self, text: fmt::Arguments<'_>) {
        let masks = self.subject.masks();
        let masked = || masks.map(|masks| masks.text(&text.to_string()));
        self.subject
            .note(Item::Mapping, module::DECIDE, || masked().unwrap_or_default());
    }

    /// Notes what a route does. Its number counts from 1, as in the file.
    fn note_route(&self, route: &Route, effect: fmt::Arguments<'_>, changes: &[String]) {
        let mut routes = self.site.routes.iter();
        let number = routes
            .position(|other| std::ptr::eq(other, route))
            .map_or(0, |at| at + 1);
        let changes = match changes {
            [] => String::new(),
            changes => format!("\nset: {}", changes.join("; ")),
        };
        let Route {
            origin,
            pattern,
            comment,
            ..
        } = route;
        let comment = comment.as_ref().map(|comment| format!(", {comment:?}"));
        let comment = comment.unwrap_or_default();
        self.note(format_args!(
            "route {number} ({origin}{comment}) \"{pattern}\": {effect}{changes}"
        ));
    }
}

impl Trace for WatchedRoutes<'_> {
    fn begin(&mut self, path: &str) {
        self.note(format_args!("path {path:?}"));
    }

    fn skipped(&mut self, route: &Route, miss: Miss<'_>) {
        self.note_route(route, format_args!("skipped: {miss}"), &[]);
    }

    fn skipped_for_index(&mut self, route: &Route) {
        let why = "skipped: it leads from the index page to its directory";
        self.note_route(route, format_args!("{why}"), &[]);
    }

    fn required(&mut self, route: &Route) {
        let changes = Changes {
            client_certificates: route.changes.client_certificates,
            access: route.changes.access.clone(),
            ..Changes::default()
        };
        self.note_route(route, format_args!("only its access rules hold"), &changes.lines());
    }

    fn matched(&mut self, route: &Route, rewritten: Option<&Target>) {
        let changes = route.changes.lines();
        match (rewritten, route.kind()) {
            (Some(target), _) => self.note_route(route, format_args!("rewrites to {}", shown(target)), &changes),
            (None, None) => self.note_route(route, format_args!("matches; the next one is tried"), &changes),
            (None, Some(_)) => self.note_route(route, format_args!("answers"), &changes),
        }
    }

    fn falls_back(&mut self, route: &Route, to: FallbackTo<'_>) {
        match to {
            FallbackTo::Path(target) => {
                let to = shown(target);
                self.note_route(route, format_args!("nothing there; its fallback is {to}"), &[]);
            }
            FallbackTo::NextRoute => {
                self.note_route(
                    route,
                    format_args!("nothing there; its fallback is the next route"),
                    &[],
                );
            }
        }
    }
}

fn shown(target: &Target) -> String {
    match &target.query {
        Some(query) => format!("{}?{query}", target.path),
        None => target.path.clone(),
    }
}
