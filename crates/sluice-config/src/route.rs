//! `[[site.route]]`: which requests a route matches and what is done with them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_settings::rule::{
    Access, AccessUse, Adjustments, CertificateUse, Conditions, LimitUse, Pattern, RateSettings, Replacement,
};
use sluice_settings::{Action, CacheUse, CompressionSettings, DirectorySettings, FollowLinks, RouteSettings};

use super::access::{self, ACCESS};
use super::changes::{self, BODY_LIMITS, Fields, HEADERS};
use super::conditions::{self, CONDITIONS};
use super::directory::{self, DIRECTORY, FALLBACK, SCRIPTS};
use super::document::At;
use super::files::{self, FILES};
use super::key::{Key, Section, set};
use super::pattern;
use super::redirect::{self, REDIRECT, REFUSE};
use super::reports;
use super::route_lint::{ParsedRoute, SiteRoot};
use super::script::SCRIPT;
use super::script_draft;
use super::table::Table;
use super::throttle::{self, THROTTLE};

/// The role of a key in a route. Messages, the check of the action and a test of the guide are made of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Says which requests the route matches.
    Matches,
    /// A part of one action: serving a directory.
    Serves,
    /// An action, of which a route has one.
    Acts,
    /// Changes something in whatever answers.
    Changes,
    /// Adds to the rest of the route.
    Adds,
}

/// The role of a key, by its name.
fn role(name: &str) -> Role {
    match name {
        "path" | "regex" | "when" => Role::Matches,
        "directory" | "scripts" | "fallback" | "files" => Role::Serves,
        "script" | "redirect" | "refuse" | "reports" | "rewrite" => Role::Acts,
        "comment" | "use" | "follow_links" => Role::Adds,
        _ => Role::Changes,
    }
}

/// The names of the keys with one of these roles, in the order in which the reference shows them.
pub(super) fn names(roles: &[Role]) -> impl Iterator<Item = &'static str> {
    let names = ROUTE.keys.iter().map(|key| key.name);
    names.filter(|name| roles.contains(&role(name)))
}

/// The names of the keys of actions.
pub(super) fn actions() -> impl Iterator<Item = &'static str> {
    names(&[Role::Serves, Role::Acts])
}

/// A route while it is read.
pub(super) struct Draft {
    root: SiteRoot,
    /// The root of the site, if it is known.
    root_path: Option<PathBuf>,
    /// The directory that it serves, if it does.
    pub(super) served: directory::Draft,
    /// The value of `files`.
    files: Option<DirectorySettings>,
    /// `None` if it is absent or wrong.
    pattern: Option<At<Pattern>>,
    when: Conditions,
    /// The action that was read last; `None` if it is absent or wrong.
    action: Option<Action>,
    follow_links: Option<FollowLinks>,
    changes: Adjustments,
    comment: Option<String>,
    blocks: Vec<String>,
}

impl Draft {
    pub(super) fn new(root: SiteRoot, root_path: Option<&Path>, table: &Table<'_>) -> Draft {
        let matches_any_path = table.has("when") && !table.has("path") && !table.has("regex");
        Draft {
            root,
            root_path: root_path.map(Path::to_owned),
            served: directory::Draft::new(table),
            files: None,
            pattern: matches_any_path.then(|| At::new(Pattern::any(), table.line)),
            when: Conditions::default(),
            action: None,
            follow_links: None,
            changes: Adjustments::default(),
            comment: None,
            blocks: Vec::new(),
        }
    }

    /// The pattern. `None` if it is absent or wrong.
    pub(super) fn pattern(&self) -> Option<&Pattern> {
        self.pattern.as_ref().map(|pattern| &pattern.value)
    }

    /// The pattern by which files and scripts are found. `None` if it is absent, wrong or a regular expression.
    fn wildcard(&self) -> Option<At<String>> {
        let pattern = self.pattern.as_ref()?;
        match &pattern.value {
            Pattern::Wildcard(_) => Some(At::new(pattern.value.to_string(), pattern.line)),
            Pattern::Regex(_) => None,
        }
    }

    /// Completes the route: checks its keys together. The settings are `None` if the pattern or the action is wrong.
    pub(super) fn finish(
        mut self,
        compression: &CompressionSettings,
        table: &Table<'_>,
    ) -> (Option<RouteSettings>, ParsedRoute) {
        if !table.has("path") && !table.has("regex") && !table.has("when") {
            table.report_missing("path");
        }
        self.finish_action(table);
        self.check_changes(compression, table);
        redirect::check_refusal(self.action.as_ref(), &self.changes, table);
        reports::check(self.action.as_ref(), self.pattern(), &self.changes, table);
        let line = self.pattern.as_ref().map_or(table.line, |pattern| pattern.line);
        let path = self.pattern.map(|pattern| pattern.value);
        let settings = match (&path, &self.action) {
            (Some(path), Some(action)) => Some(RouteSettings {
                origin: table.document.origin(table.line),
                comment: self.comment,
                blocks: self.blocks,
                path: path.clone(),
                when: self.when.clone(),
                action: action.clone(),
                follow_links: self.follow_links,
                changes: self.changes,
            }),
            _ => None,
        };
        let action_key = actions().find(|name| table.has(name));
        let parsed = ParsedRoute {
            line,
            action_line: action_key.map_or(table.line, |name| table.line_of(name)),
            action: self.action,
            path,
            when: self.when,
        };
        (settings, parsed)
    }

    /// Checks that there is one action, and that it goes with the pattern.
    fn finish_action(&mut self, table: &Table<'_>) {
        let of_directory = names(&[Role::Serves]).find(|name| table.has(name));
        // `script` beside `scripts` says how those run.
        let is_other = |name: &&str| table.has(name) && (*name != "script" || !table.has("scripts"));
        let others = names(&[Role::Acts]).filter(is_other);
        let named: Vec<&str> = of_directory.into_iter().chain(others).collect();
        match named.as_slice() {
            [] if names(&[Role::Changes]).any(|name| table.has(name)) => self.action = Some(Action::Pass),
            // The key that was meant is misspelt, which is reported.
            [] if table.has_unknown(&ROUTE) => {}
            [] => table.report(&format!(
                "[[site.route]] does nothing: give it an action ({}), as in files = {{ directory = \"…\" }}, or something to change ({})",
                actions().collect::<Vec<_>>().join(", "),
                names(&[Role::Changes]).collect::<Vec<_>>().join(", "),
            )),
            [one] => {
                let needs_star = of_directory.is_some() || *one == "script";
                if let (Some(At { value: Pattern::Regex(_), line }), true) = (&self.pattern, needs_star) {
                    let message = format!(
                        "regex: {one} needs a path with a \"*\", which says what to look up: use rewrite = \"/…\" here, and a route with such a path below"
                    );
                    table.document.report(*line, message);
                    self.action = None;
                } else if of_directory.is_some() {
                    let served = std::mem::take(&mut self.served);
                    let path = self.wildcard();
                    self.action = served.finish(self.files.take(), path.as_ref(), self.root_path.as_deref(), table);
                }
            }
            ["directory", "script"] => {
                table.refuse("directory", "for a directory of scripts write it into script = { directory = \"…\" }, for scripts among files scripts = { \".php\" = \"php-cgi\" }");
                self.action = None;
            }
            several => {
                let of_block = |name: &&str| table.document.blocks().named(name, table.line_of(name));
                table.report(&format!(
                    "[[site.route]] has {}: a route has one action, so make two routes of it",
                    several.iter().map(of_block).collect::<Vec<_>>().join(" and ")
                ));
                self.action = None;
            }
        }
    }

    /// Reports changes that have no effect on the action.
    fn check_changes(&self, compression: &CompressionSettings, table: &Table<'_>) {
        let without_content = match self.action {
            Some(Action::Redirect { .. }) => Some("a redirect"),
            Some(Action::Refuse(_)) => Some("an error"),
            Some(Action::Reports) => Some("a report"),
            Some(Action::Files(_) | Action::Script(_) | Action::Rewrite(_) | Action::Pass) | None => None,
        };
        if let Some(answer) = without_content {
            table.refuse("compress", &format!("{answer} is not compressed: remove this"));
        } else if self.changes.compress == Some(true) && compression.encodings.is_empty() {
            table.refuse(
                "compress",
                "compression is off here: remove compression = false, or list some encodings",
            );
        }
        if !matches!(self.action, None | Some(Action::Files { .. } | Action::Script(_))) {
            table.refuse(
                "follow_links",
                "only files and scripts lie in directories: set this in a route with files = { … } or script = { … }, or in [[site]]",
            );
        }
        if without_content.is_some() || matches!(self.action, Some(Action::Script(_))) {
            table.refuse(
                "cache",
                "only files are cached: set this in a route with files = { … }, or in one that other routes follow",
            );
        }
    }
}

pub(super) static ROUTE: Section<Draft> = Section {
    title: "[[site.route]]",
    keys: &[
        Key::text("path", |route, path, written| {
            pattern::check(&path)?;
            route.pattern = Some(written.at(Pattern::from(path.as_str())));
            Ok(())
        }),
        Key::text("regex", |route, regex, written| {
            if written.table.has("path") {
                return Err("the route has a path already: keep one of them".to_owned());
            }
            route.pattern = Some(written.at(Pattern::regex(&regex)?));
            Ok(())
        }),
        Key::table("when", &CONDITIONS, |route, table| {
            let when = CONDITIONS.read(table, Conditions::default());
            conditions::check(&when, table);
            route.when = when;
        }),
        DIRECTORY,
        SCRIPTS,
        FALLBACK,
        Key::table("files", &FILES, |route, table| {
            let files = FILES.read(table, files::Draft::default());
            let path = route.wildcard();
            let beside = route.served.path(path.as_ref(), route.root_path.as_deref());
            route.files = files.finish(path.as_ref(), beside, table);
        }),
        Key::table("script", &SCRIPT, |route, table| {
            let script = SCRIPT.read(table, script_draft::Draft::new());
            if route.served.has_scripts() {
                route.served.set_script(script.finish_among_files(table));
                return;
            }
            if route.served.refuses_script() {
                return;
            }
            let script = script.finish(route.wildcard().as_ref(), route.root, table);
            route.action = script.map(|script| Action::Script(Box::new(script)));
        }),
        Key::table("redirect", &REDIRECT, |route, table| {
            let redirect = REDIRECT.read(table, redirect::Draft::default());
            let pattern = route.pattern.as_ref().map(|pattern| &pattern.value);
            route.action = redirect.finish(pattern, table);
        }),
        Key::table("refuse", &REFUSE, |route, table| {
            let refusal = REFUSE.read(table, redirect::default_refusal());
            route.action = Some(Action::Refuse(refusal));
        }),
        Key::flag("reports", |route, is_on| {
            route.action = is_on.then_some(Action::Reports);
        }),
        Key::text("rewrite", |route, to, _| {
            if let Some(pattern) = &route.pattern {
                route.action = Some(Action::Rewrite(Replacement::rewrite(&to, &pattern.value)?));
            }
            Ok(())
        }),
        Key::table("headers", &HEADERS, |route, table| {
            let fields = HEADERS.read(table, Fields::default());
            route.changes.head.fields = fields.finish();
        }),
        Key::text("expires", |route, text, _| {
            set(&mut route.changes.head.expiry, changes::parse_expiry(&text)?)
        }),
        Key::table("limits", &BODY_LIMITS, |route, table| {
            route.changes.body = BODY_LIMITS.read(table, route.changes.body);
        }),
        Key::flag("log", |route, is_logged| route.changes.is_logged = Some(is_logged)),
        Key::text("comment", |route, comment, _| {
            set(&mut route.comment, Some(comment).filter(|comment| !comment.is_empty()))
        }),
        Key::words("use", |route, names, _| set(&mut route.blocks, names)),
        Key::flag("compress", |route, compress| route.changes.compress = Some(compress)),
        Key::choice(
            "cache",
            &[
                ("on", |route| route.changes.cache = Some(CacheUse::On)),
                ("off", |route| route.changes.cache = Some(CacheUse::Off)),
                ("permanent", |route| route.changes.cache = Some(CacheUse::Permanent)),
            ],
        ),
        Key::choice(
            "client_certificates",
            &[
                ("optional", |route| {
                    route.changes.client_certificates = Some(CertificateUse::Optional);
                }),
                ("required", |route| {
                    route.changes.client_certificates = Some(CertificateUse::Required);
                }),
            ],
        ),
        Key::table_or_off(
            "access",
            &ACCESS,
            |route| route.changes.access = Access::of(AccessUse::Open),
            |route, table| {
                let access = ACCESS.read(table, access::Draft::default());
                let settings = access.finish(table);
                route.changes.access.own = settings.map(|settings| AccessUse::Limited(Arc::new(settings)));
            },
        ),
        Key::flag("pass_authorization", |route, is_passed| {
            route.changes.pass_authorization = Some(is_passed);
        }),
        Key::table_or_off(
            "throttle",
            &THROTTLE,
            |route| route.changes.throttle = Some(LimitUse::Unlimited),
            |route, table| {
                let throttle = THROTTLE.read(table, throttle::begin());
                let settings = throttle::finish(throttle, table);
                route.changes.throttle = settings.map(|settings| LimitUse::Limited(Arc::new(settings)));
            },
        ),
        Key::text("rate", |route, text, written| {
            route.changes.rate = Some(match text.as_str() {
                "off" => LimitUse::Unlimited,
                text => {
                    let origin = written.table.document.origin(written.at(()).line);
                    LimitUse::Limited(Arc::new(RateSettings::parse(text, origin)?))
                }
            });
            Ok(())
        }),
        Key::flag_or_word(
            "follow_links",
            |route, follow| route.follow_links = Some(if follow { FollowLinks::Yes } else { FollowLinks::No }),
            &[("same-owner", |route| route.follow_links = Some(FollowLinks::SameOwner))],
        ),
    ],
};
