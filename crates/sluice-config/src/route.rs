//! `[[site.route]]`: which requests a route matches and what is done with them.
//!
//! Here: the keys of a route, and how they go together. Not here: the sections below it (`conditions`, `files`, `script`, `redirect`,
//! `changes`), the syntax of patterns (`pattern`), and how the routes of a site go together (`route_lint`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_settings::rule::{
    Access, AccessUse, Adjustments, CertificateUse, Conditions, LimitUse, Pattern, RateSettings, Replacement,
};
use sluice_settings::{Action, CacheUse, CompressionSettings, DirectorySettings, FollowLinks, RouteSettings};

use super::access::{self, ACCESS};
use super::blocks;
use super::changes::{self, BODY_LIMITS, Fields, HEADERS};
use super::conditions::{self, CONDITIONS};
use super::description::Fallback::Words;
use super::directory::{self, DIRECTORY, FALLBACK, SCRIPTS};
use super::document::At;
use super::files::{self, FILES};
use super::key::{Key, Kind, Nested, Section};
use super::pattern;
use super::redirect::{self, REDIRECT, REFUSE};
use super::reports;
use super::route_lint::{ParsedRoute, SiteRoot};
use super::table::Table;
use super::throttle::{self, THROTTLE};
use super::{script::SCRIPT, script_draft};

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

/// The keys of a route with their roles, in the order in which the reference shows them.
static KEYS: [(Role, Key<Draft>); 26] = [
    (Role::Matches, PATH),
    (Role::Matches, REGEX),
    (Role::Matches, WHEN),
    (Role::Serves, DIRECTORY),
    (Role::Serves, SCRIPTS),
    (Role::Serves, FALLBACK),
    (Role::Serves, FILES_KEY),
    (Role::Acts, SCRIPT_KEY),
    (Role::Acts, REDIRECT_KEY),
    (Role::Acts, REFUSE_KEY),
    (Role::Acts, REPORTS),
    (Role::Acts, REWRITE),
    (Role::Changes, HEADERS_KEY),
    (Role::Changes, EXPIRES),
    (Role::Changes, LIMITS),
    (Role::Changes, LOG),
    (Role::Adds, COMMENT),
    (Role::Adds, USE),
    (Role::Changes, COMPRESS),
    (Role::Changes, CACHE),
    (Role::Changes, CLIENT_CERTIFICATES),
    (Role::Changes, ACCESS_KEY),
    (Role::Changes, PASS_AUTHORIZATION),
    (Role::Changes, THROTTLE_KEY),
    (Role::Changes, RATE),
    (Role::Adds, FOLLOW_LINKS),
];

/// The keys alone.
static KEYS_ALONE: [Key<Draft>; KEYS.len()] = {
    let mut keys = [PATH; KEYS.len()];
    let mut index = 0;
    while index < keys.len() {
        keys[index] = KEYS[index].1;
        index += 1;
    }
    keys
};

/// The names of the keys with one of these roles.
pub(super) fn names(roles: &[Role]) -> impl Iterator<Item = &'static str> {
    let has_role = |(role, _): &&(Role, Key<Draft>)| roles.contains(role);
    KEYS.iter().filter(has_role).map(|(_, key)| key.name)
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
            pattern: matches_any_path.then(|| At {
                value: Pattern::any(),
                line: table.line,
            }),
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
            Pattern::Wildcard(_) => Some(At {
                value: pattern.value.to_string(),
                line: pattern.line,
            }),
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
            PATH.report_missing(table);
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
    text: "The answer to requests for some paths. Routes are tried once, in the order of the file. The first matching one that \
           has an answer decides. Matching routes that only rewrite the path or change something take effect, and the next routes are tried; a later \
           change overrides an earlier one. [Routes](../guides/routes.md#order-of-evaluation) lists actions and changes, with examples; \
           `sluice check --explain URL` shows what happens to a request.",
    keys: &KEYS_ALONE,
};

/// The description of `follow_links` of a site and of a route.
pub(super) const FOLLOW_LINKS_TEXT: &str = "Whether [symbolic links](../guides/routes.md#symbolic-links) that leave a directory are \
    followed, for files, listings and scripts. `false`: never; the answer is 404, and the log names the link. `\"same-owner\"`: if a \
    link belongs to the owner of its target. `true`: always.";

const FOLLOW_LINKS: Key<Draft> = Key {
    name: "follow_links",
    kind: Kind::FlagOrWord(
        |route, follow| route.follow_links = Some(if follow { FollowLinks::Yes } else { FollowLinks::No }),
        &[("same-owner", |route| route.follow_links = Some(FollowLinks::SameOwner))],
    ),
    default: Words("as the site says"),
    text: FOLLOW_LINKS_TEXT,
    example: "true",
};

const COMMENT: Key<Draft> = Key {
    name: "comment",
    kind: Kind::Text(|route, comment, _| {
        route.comment = Some(comment).filter(|comment| !comment.is_empty());
        Ok(())
    }),
    default: Words("none"),
    text: "The purpose of the route. `sluice check`, `check --explain` and WATCH show it with the route.",
    example: "\"links of the old shop\"",
};

const USE: Key<Draft> = Key {
    name: "use",
    kind: Kind::Words(|route, names, _| {
        route.blocks = names;
        Ok(())
    }),
    default: Words("none"),
    text: blocks::USE_TEXT,
    example: "\"php\"",
};

const PATH: Key<Draft> = Key {
    name: "path",
    kind: Kind::Text(|route, path, written| {
        pattern::check(&path)?;
        route.pattern = Some(written.at(Pattern::from(path.as_str())));
        Ok(())
    }),
    default: Words("any path if there is a `when`, or else required"),
    text: "The pattern that the path must match: `/exact`, `/prefix/*` or, for scripts among the files under `root`, `*.cgi`. \
           `*` matches any characters, slashes included; there may be several. `/prefix/*` also matches `/prefix`.",
    example: "\"/cgi-bin/*\"",
};

const REGEX: Key<Draft> = Key {
    name: "regex",
    kind: Kind::Text(|route, regex, written| {
        if written.table.has("path") {
            return Err("the route has a path already: keep one of them".to_owned());
        }
        route.pattern = Some(written.at(Pattern::regex(&regex)?));
        Ok(())
    }),
    default: Words("none: `path` is matched"),
    text: "A regular expression instead of `path`, in the [syntax](https://docs.rs/regex/latest/regex/#syntax) of Rust's regex crate. \
           It is searched for in the decoded path; `^` and `$` match the ends. Matching takes time linear in the path length. Not for \
           `files` and `script`: rewrite to a path for which there is such a route.",
    example: "'^/user/(\\d+)$'",
};

const WHEN: Key<Draft> = Key {
    name: "when",
    kind: Kind::Table(&Nested {
        section: &CONDITIONS,
        off: None,
        begin: |_: &Draft, _| Conditions::default(),
        end: |route, when, table| {
            conditions::check(&when, table);
            route.when = when;
        },
    }),
    default: Words("none"),
    text: "Further conditions on the request.",
    example: "{ method = \"POST\", client = [\"10.0.0.0/8\", \"::1\"] }",
};

const FILES_KEY: Key<Draft> = Key {
    name: "files",
    kind: Kind::Table(&Nested {
        section: &FILES,
        off: None,
        begin: |_: &Draft, _| files::Draft::default(),
        end: |route, files, table| {
            let path = route.wildcard();
            let beside = route.served.path(path.as_ref(), route.root_path.as_deref());
            route.files = files.finish(path.as_ref(), beside, table);
        },
    }),
    default: Words("none"),
    text: "Serves files from a directory; beside `directory`, how its files are sent.",
    example: "{ directory = \"pictures\" }",
};

const SCRIPT_KEY: Key<Draft> = Key {
    name: "script",
    kind: Kind::Table(&Nested {
        section: &SCRIPT,
        off: None,
        begin: |_: &Draft, _| script_draft::Draft::new(),
        end: |route, script, table| {
            if route.served.has_scripts() {
                route.served.set_script(script.finish_among_files(table));
                return;
            }
            if route.served.refuses_script() {
                return;
            }
            let script = script.finish(route.wildcard().as_ref(), route.root, table);
            route.action = script.map(|script| Action::Script(Box::new(script)));
        },
    }),
    default: Words("none"),
    text: "Runs a script; beside `scripts`, how those run.",
    example: "{ directory = \"cgi-bin\", mode = \"cgi\" }",
};

const REDIRECT_KEY: Key<Draft> = Key {
    name: "redirect",
    kind: Kind::Table(&Nested {
        section: &REDIRECT,
        off: None,
        begin: |_: &Draft, _| redirect::Draft::default(),
        end: |route, redirect, table| {
            let pattern = route.pattern.as_ref().map(|pattern| &pattern.value);
            route.action = redirect.finish(pattern, table);
        },
    }),
    default: Words("none"),
    text: "Redirects the client.",
    example: "{ to = \"/new\", status = 301 }",
};

const REFUSE_KEY: Key<Draft> = Key {
    name: "refuse",
    kind: Kind::Table(&Nested {
        section: &REFUSE,
        off: None,
        begin: |_: &Draft, _| redirect::default_refusal(),
        end: |route, refusal, _| route.action = Some(Action::Refuse(refusal)),
    }),
    default: Words("none"),
    text: "Answers with an error. Paths below a matching one are refused too: a route for `/a.cgi` also refuses `/a.cgi/more`, and a \
           `regex` refuses a path if it matches one of the first 32 leading parts of it.",
    example: "{ status = 410, text = \"This page is gone for good.\" }",
};

const REPORTS: Key<Draft> = Key {
    name: "reports",
    kind: Kind::Flag(|route, is_on| route.action = is_on.then_some(Action::Reports)),
    default: Words("none"),
    text: "Shows the [reports](../guides/reports.md) about the server, for browsers and programs, and carries out actions that are asked for \
           there. The path ends with `/*`, and the same route needs `access`. Clients of this machine get neither actions nor logs nor single requests unless they are \
           users, or `allow_write` names their network.",
    example: "true",
};

const REWRITE: Key<Draft> = Key {
    name: "rewrite",
    kind: Kind::Text(|route, to, _| {
        if let Some(pattern) = &route.pattern {
            route.action = Some(Action::Rewrite(Replacement::rewrite(&to, &pattern.value)?));
        }
        Ok(())
    }),
    default: Words("none"),
    text: "Replaces the path, and the query if the new path has one; then the next routes are tried. `$1`, `${name}` and `*` \
           are replaced as in a redirect. Scripts get the new path; REQUEST_URI remains the requested one.",
    example: "\"/app/$1?full=1\"",
};

const HEADERS_KEY: Key<Draft> = Key {
    name: "headers",
    kind: Kind::Table(&Nested {
        section: &HEADERS,
        off: None,
        begin: |_: &Draft, _| Fields::default(),
        end: |route, fields, _| route.changes.head.fields = fields.finish(),
    }),
    default: Words("none"),
    text: "Changes the head of every response to matching requests, whatever answers, error pages included (except Content-Type and \
           Content-Disposition, which are changed only if the status is 2xx).",
    example: "{ set = { X-Frame-Options = \"DENY\" }, remove = [\"Server\"] }",
};

const EXPIRES: Key<Draft> = Key {
    name: "expires",
    kind: Kind::Text(|route, text, _| {
        route.changes.head.expiry = Some(changes::parse_expiry(&text)?);
        Ok(())
    }),
    default: Words("none"),
    text: "How long browsers and caches may keep a response (`Cache-Control`): a duration; `no-cache` (kept, but revalidated each \
           time); `no-store`; `immutable` (a year, for names that change with their content); `off`, which cancels an earlier route. \
           Sent with statuses 2xx and 304, unless a script or a listing sends its own; `headers` can remove that.",
    example: "\"1h\"",
};

const LIMITS: Key<Draft> = Key {
    name: "limits",
    kind: Kind::Table(&Nested {
        section: &BODY_LIMITS,
        off: None,
        begin: |route: &Draft, _| route.changes.body,
        end: |route, limits, _| route.changes.body = limits,
    }),
    default: Words("those of `[limits]`"),
    text: "Other limits for such requests.",
    example: "{ body_size = \"4GiB\" }",
};

const LOG: Key<Draft> = Key {
    name: "log",
    kind: Kind::Flag(|route, is_logged| route.changes.is_logged = Some(is_logged)),
    default: Words("`true`, or as an earlier route says"),
    text: "Whether matching requests are written to the access log. Errors are reported on standard error in any case.",
    example: "false",
};

const COMPRESS: Key<Draft> = Key {
    name: "compress",
    kind: Kind::Flag(|route, compress| route.changes.compress = Some(compress)),
    default: Words("as `compression` says for files, `false` for scripts"),
    text: "Whether the content of responses is compressed. Read the [guide](../guides/compression.md) before you set it for a script: the \
           size of a compressed page that contains both a secret and input of the visitor reveals the secret.",
    example: "true",
};

const CACHE: Key<Draft> = Key {
    name: "cache",
    kind: Kind::Choice(&[
        ("on", |route| route.changes.cache = Some(CacheUse::On)),
        ("off", |route| route.changes.cache = Some(CacheUse::Off)),
        ("permanent", |route| route.changes.cache = Some(CacheUse::Permanent)),
    ]),
    default: Words("as the site says"),
    text: "Use of the file cache for such requests: `on`, `off` or `permanent`, as for a site.",
    example: "\"permanent\"",
};

const CLIENT_CERTIFICATES: Key<Draft> = Key {
    name: "client_certificates",
    kind: Kind::Choice(&[
        ("optional", |route| {
            route.changes.client_certificates = Some(CertificateUse::Optional);
        }),
        ("required", |route| {
            route.changes.client_certificates = Some(CertificateUse::Required);
        }),
    ]),
    default: Words("as the site says"),
    text: "Whether a client needs a certificate for such requests: `required`, or `optional`, which cancels a requirement of the site or \
           an earlier route. See [TLS](../guides/tls.md#client-certificates).",
    example: "\"required\"",
};

const ACCESS_KEY: Key<Draft> = Key {
    name: "access",
    kind: Kind::Table(&Nested {
        section: &ACCESS,
        off: Some(|route: &mut Draft| route.changes.access = Access::of(AccessUse::Open)),
        begin: |_: &Draft, _| access::Draft::default(),
        end: |route, access, table| {
            let settings = access.finish(table);
            route.changes.access.own = settings.map(|settings| AccessUse::Limited(Arc::new(settings)));
        },
    }),
    default: Words("everybody, or as an earlier route says"),
    text: "Restricts access to all answers: files, listings, scripts, redirects, errors. `false` cancels the rules of an earlier route. See [Access control](../guides/access.md).",
    example: "{ users = \"users.htpasswd\", allow = [\"any-user\"] }",
};

const PASS_AUTHORIZATION: Key<Draft> = Key {
    name: "pass_authorization",
    kind: Kind::Flag(|route, is_passed| route.changes.pass_authorization = Some(is_passed)),
    default: Words("`false`, or as an earlier route says"),
    text: "Whether scripts get the field Authorization as `HTTP_AUTHORIZATION`: for scripts that verify passwords or tokens themselves. \
           Other scripts should not get it, because it contains the password.",
    example: "true",
};

const THROTTLE_KEY: Key<Draft> = Key {
    name: "throttle",
    kind: Kind::Table(&Nested {
        section: &THROTTLE,
        off: Some(|route: &mut Draft| route.changes.throttle = Some(LimitUse::Unlimited)),
        begin: |_: &Draft, _| throttle::begin(),
        end: |route, throttle, table| {
            let settings = throttle::finish(throttle, table);
            route.changes.throttle = settings.map(|settings| LimitUse::Limited(Arc::new(settings)));
        },
    }),
    default: Words("any number, or as an earlier route says"),
    text: "How many requests are answered at once. `false` cancels the throttle of an earlier route.",
    example: "{ at_once = 10, queue = 50, per = \"client\" }",
};

const RATE: Key<Draft> = Key {
    name: "rate",
    kind: Kind::Text(|route, text, written| {
        route.changes.rate = Some(match text.as_str() {
            "off" => LimitUse::Unlimited,
            text => {
                let origin = written.table.document.origin(written.at(()).line);
                LimitUse::Limited(Arc::new(RateSettings::parse(text, origin)?))
            }
        });
        Ok(())
    }),
    default: Words("any, or as an earlier route says"),
    text: "How many requests a client may send in a second (`20/s`), a minute (`100/m`) or an hour (`1000/h`). This many may come at \
           once, and then one after each fraction of the time. Further requests get 429 with Retry-After. A client is an IPv4 address or \
           an IPv6 network of 64 bits. `off` cancels the rate of an earlier route.",
    example: "\"20/s\"",
};
