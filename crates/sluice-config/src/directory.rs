//! `directory`, `scripts` and `fallback` of a `[[site.route]]`: a directory of files and scripts, and what answers where a path leads to nothing in it.

use std::path::{Path, PathBuf};

use sluice_http::target;
use sluice_settings::rule::{Pattern, Replacement};
use sluice_settings::{Action, DirectorySettings, Fallback, ScriptSettings, ScriptSource, SuffixScripts};

use super::document::At;
use super::engine::{read_engines, report_missing_engines};
use super::interpreters::{is_suffix, read_interpreters};
use super::key::{Key, set};
use super::route;
use super::table::{Table, expect_directory, require_star, set_directory};

/// The value in `fallback` that means the next route. Other values are paths.
const NEXT_ROUTE: &str = "next";

/// The keys of a directory while they are read.
#[derive(Default)]
pub(super) struct Draft {
    /// Which of the keys the route has.
    has_directory: bool,
    has_scripts: bool,
    has_fallback: bool,
    directory: Option<PathBuf>,
    suffixes: Option<Suffixes>,
    fallback: Vec<Fallback>,
    /// `script`, which says how the scripts of `scripts` run.
    script: Option<ScriptSettings>,
}

/// The directory that a route names beside `files`.
pub(super) enum RouteDirectory {
    /// The value of `directory`.
    Named(PathBuf),
    /// The directory that the path of the route stands for below the root of the site.
    BelowRoot(PathBuf),
    /// The value of `directory` is wrong, which has been reported.
    Wrong,
    Absent,
}

/// The value of `scripts`.
struct Suffixes {
    all: Vec<String>,
    /// The interpreters or, in mode `rte`, the engines, by suffix. Scripts with other suffixes run themselves.
    runners: Vec<(String, At<String>)>,
}

impl Draft {
    pub(super) fn new(route: &Table<'_>) -> Draft {
        Draft {
            has_directory: route.has("directory"),
            has_scripts: route.has("scripts"),
            has_fallback: route.has("fallback"),
            ..Draft::default()
        }
    }

    /// Whether `script` of the route says how the scripts among its files run.
    pub(super) fn has_scripts(&self) -> bool {
        self.has_scripts
    }

    /// Whether `script` of the route must be a mistake, because there is a directory without scripts.
    pub(super) fn refuses_script(&self) -> bool {
        self.has_directory && !self.has_scripts
    }

    /// Sets how the scripts among the files run.
    pub(super) fn set_script(&mut self, script: ScriptSettings) {
        self.script = Some(script);
    }

    /// The directory that the keys of the route name.
    pub(super) fn path(&self, path: Option<&At<String>>, root: Option<&Path>) -> RouteDirectory {
        if self.has_directory {
            return self
                .directory
                .clone()
                .map_or(RouteDirectory::Wrong, RouteDirectory::Named);
        }
        let below_root = || {
            let prefix = path?.value.split('*').next()?.trim_matches('/');
            Some(root?.join(prefix).components().collect())
        };
        match self.has_scripts || self.has_fallback {
            true => below_root().map_or(RouteDirectory::Absent, RouteDirectory::BelowRoot),
            false => RouteDirectory::Absent,
        }
    }

    /// The action of the route; `files` is what the key of this name says. `None` without a directory; that has been reported.
    pub(super) fn finish(
        self,
        files: Option<DirectorySettings>,
        path: Option<&At<String>>,
        root: Option<&Path>,
        route: &Table<'_>,
    ) -> Option<Action> {
        let mut settings = match files {
            Some(files) => files,
            None if route.has("files") => return None,
            None => {
                let directory = match self.path(path, root) {
                    RouteDirectory::Named(directory) | RouteDirectory::BelowRoot(directory) => directory,
                    RouteDirectory::Wrong => return None,
                    RouteDirectory::Absent => {
                        report_missing(root, route);
                        return None;
                    }
                };
                if let Some(path) = path {
                    require_star(route.document, path, "files");
                }
                if !self.has_directory {
                    let line = route.line_of(if self.has_scripts { "scripts" } else { "fallback" });
                    let directory = At::new(directory.clone(), line);
                    expect_directory(route.document, "directory of the path below root", &directory);
                }
                DirectorySettings::new(directory)
            }
        };
        let source = ScriptSource::Directory(settings.path.clone());
        let script = self.script;
        settings.scripts = self.suffixes.map(|suffixes| {
            let script = script.unwrap_or_else(|| ScriptSettings::cgi(source.clone()));
            suffixes.finish(ScriptSettings { source, ..script }, route)
        });
        settings.fallback = self.fallback;
        Some(Action::Files(Box::new(settings)))
    }
}

impl Suffixes {
    fn finish(self, mut script: ScriptSettings, route: &Table<'_>) -> SuffixScripts {
        let Suffixes { all, runners } = self;
        let document = route.document;
        if script.mode.has_engine() {
            if let Some(suffix) = all
                .iter()
                .find(|suffix| runners.iter().all(|(other, _)| other != *suffix))
            {
                let message = format!("\"{suffix}\" needs an engine in mode = \"rte\", as in {{ \".php\" = \"php\" }}");
                route.refuse("scripts", &message);
            }
            script.engines.by_suffix = read_engines("scripts", runners, document);
            script.engines.sdk = document.sdk();
            report_missing_engines(&script, document, route.line_of("scripts"));
        } else {
            script.interpreters = read_interpreters("scripts", runners, document);
        }
        SuffixScripts { suffixes: all, script }
    }
}

fn report_missing(root: Option<&Path>, route: &Table<'_>) {
    if root.is_none() {
        route.report(
            "[[site.route]] does not say in which directory its files are: give it directory = \"…\", or the site root = \"htdocs\"",
        );
    }
}

pub(super) const DIRECTORY: Key<route::Draft> = Key::path("directory", |route, path, written| {
    set_directory(&mut route.served.directory, path, written)
});

pub(super) const SCRIPTS: Key<route::Draft> = Key::pairs("scripts", |route, pairs, _| {
    set(&mut route.served.suffixes, read_suffixes(pairs))
});

pub(super) const FALLBACK: Key<route::Draft> = Key::words("fallback", |route, candidates, _| {
    if let Some(pattern) = route.pattern() {
        route.served.fallback = read_fallback(&candidates, pattern)?;
    }
    check_next(&route.served.fallback)
});

/// The suffixes of scripts, in lower case.
fn read_suffixes(pairs: Vec<(String, At<String>)>) -> Suffixes {
    let mut all = Vec::new();
    let mut runners = Vec::new();
    for (suffix, program) in pairs {
        let suffix = suffix.to_ascii_lowercase();
        if is_suffix(&suffix) {
            all.push(suffix.clone());
        }
        if !program.value.is_empty() || !is_suffix(&suffix) {
            runners.push((suffix, program));
        }
    }
    // Longer ones first: of ".cgi" and ".x.cgi" the latter is meant.
    all.sort_by_key(|suffix| std::cmp::Reverse(suffix.len()));
    Suffixes { all, runners }
}

fn read_fallback(candidates: &[String], pattern: &Pattern) -> Result<Vec<Fallback>, String> {
    if candidates.is_empty() {
        return Err("an empty list has no candidate: leave it out for 404".to_owned());
    }
    candidates
        .iter()
        .map(|candidate| {
            let refuse = |message: String| match candidates.len() {
                1 => message,
                _ => format!("\"{candidate}\": {message}"),
            };
            read_candidate(candidate, pattern).map_err(refuse)
        })
        .collect()
}

fn read_candidate(text: &str, pattern: &Pattern) -> Result<Fallback, String> {
    if text == NEXT_ROUTE {
        return Ok(Fallback::NextRoute);
    }
    if text == "$0" || text == "${0}" {
        return Err("the path itself is tried first: remove it".to_owned());
    }
    if text.starts_with('=') {
        return Err("a status is no candidate: where none leads to anything the answer is 404; remove it".to_owned());
    }
    if text.starts_with('@') {
        return Err(format!(
            "is a name of nginx: write a path of another route, or \"{NEXT_ROUTE}\" for the routes below"
        ));
    }
    for (foreign, own) in [
        ("$uri", "$0"),
        ("$document_uri", "$0"),
        ("$request_uri", "$0"),
        ("$is_args$args", "?${query}"),
        ("$args", "${query}"),
        ("$query_string", "${query}"),
    ] {
        if text.contains(foreign) {
            return Err(format!(
                "{foreign} is a variable of nginx: write {own}; the query is kept if none is written"
            ));
        }
    }
    let whole = text.strip_prefix("$0").or_else(|| text.strip_prefix("${0}"));
    match (whole, pattern.begin()) {
        // A replacement begins with a slash: that of the text before the star.
        (Some(rest), Some(begin)) => {
            let begin = target::encode(begin).replace('$', "$$");
            Replacement::rewrite(&format!("{begin}${{1}}{rest}"), pattern).map(Fallback::Path)
        }
        _ => Replacement::rewrite(text, pattern).map(Fallback::Path),
    }
}

/// Reports candidates after the next route, which are never tried.
fn check_next(fallback: &[Fallback]) -> Result<(), String> {
    let next = fallback.iter().position(|candidate| *candidate == Fallback::NextRoute);
    if next.is_some_and(|at| at + 1 < fallback.len()) {
        return Err(format!(
            "a candidate after \"{NEXT_ROUTE}\" is never tried: put \"{NEXT_ROUTE}\" at the end"
        ));
    }
    Ok(())
}
