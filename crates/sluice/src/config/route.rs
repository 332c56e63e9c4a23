//! `[[site.route]]`: from sections of the file to the server's settings of what paths mean.
//!
//! Here: which route does what, and which can never match. Not here: the form of patterns (`pattern`), scripts (`script`).

use sluice_server::settings::{Action, CompressionSettings, Convert, RecordSettings, RouteSettings, ScriptSource};

use super::mistake::At;
use super::section::Section;
use super::site::require_folder;
use super::{compression, pages, pattern, script};

/// An earlier route, when a later one is compared with it.
struct Earlier {
    path: String,
    line: usize,
    reach: Vec<String>,
}

/// Reads the routes of a site in their order, and finds those that can never match.
pub(crate) fn read_all(
    sections: &[Section<'_>],
    has_root: bool,
    compression: &CompressionSettings,
) -> Vec<RouteSettings> {
    let mut earlier: Vec<Earlier> = Vec::new();
    let mut routes = Vec::new();
    for section in sections {
        let path = read_pattern(section);
        let action = read_action(section, path.as_ref(), has_root);
        let is_logged = section.flag("log").is_none_or(|log| log.value);
        let compress = compression::read_route(section, action.as_ref(), compression);
        let cache = pages::read_cache_use(section);
        if cache.is_some() && !section.has("files") {
            section.refuse(
                "cache",
                "only files are kept in the cache: a route with files = { … } has this key",
            );
        }
        let Some(At { value: path, line }) = path else {
            continue;
        };
        let reach = reach(&path, action.as_ref());
        if let Some(first) = earlier.iter().find(|first| first.swallows(&reach)) {
            let message = format!(
                "path = \"{path}\": never matches, because \"{}\" on line {} comes first: put this route above it",
                first.path, first.line
            );
            section.document.complain(line, message);
        } else if let Some(Action::Redirect { to, .. }) = &action {
            check_circle(section, &path, to, &earlier);
        }
        earlier.push(Earlier {
            path: path.clone(),
            line,
            reach,
        });
        if let Some(action) = action {
            let origin = section.document.origin(section.line);
            routes.push(RouteSettings {
                origin,
                path,
                action,
                is_logged,
                compress,
                cache,
            });
        }
    }
    routes
}

fn read_pattern(section: &Section<'_>) -> Option<At<String>> {
    let path = section.required_text("path")?;
    match pattern::check(&path.value) {
        Ok(()) => Some(path),
        Err(message) => {
            section.refuse("path", &message);
            None
        }
    }
}

impl Earlier {
    /// Whether this route leaves nothing for a later one.
    fn swallows(&self, later: &[String]) -> bool {
        later.iter().all(|path| self.covers(path))
    }

    fn covers(&self, path: &str) -> bool {
        self.reach.iter().any(|pattern| pattern::covers(pattern, path))
    }
}

/// The patterns of all paths for which the server takes a route (`dispatch::route`).
fn reach(path: &str, action: Option<&Action>) -> Vec<String> {
    let mut reach = vec![path.to_owned()];
    let prefix = path.split('*').next().unwrap_or_default();
    let answers_without_slash = || prefix.strip_suffix('/').filter(|bare| !bare.is_empty());
    match action {
        // `*.cgi` with PATH_INFO behind it.
        Some(Action::Script(script)) if script.source == ScriptSource::Root => reach.push(format!("{path}/*")),
        Some(Action::Script(script)) if matches!(script.source, ScriptSource::Directory(_)) => {}
        Some(Action::Files { .. } | Action::Script(_)) => reach.extend(answers_without_slash().map(str::to_owned)),
        Some(Action::Redirect { .. }) | None => {}
    }
    reach
}

fn read_action(section: &Section<'_>, path: Option<&At<String>>, has_root: bool) -> Option<Action> {
    let named: Vec<&str> = ["files", "script", "redirect"]
        .into_iter()
        .filter(|name| section.has(name))
        .collect();
    match named.as_slice() {
        ["files"] => read_files(&section.table("files")?, path),
        ["script"] => {
            let script = script::read(&section.table("script")?, path, has_root)?;
            Some(Action::Script(Box::new(script)))
        }
        ["redirect"] => read_redirect(&section.table("redirect")?, path),
        [] => {
            let message = "[[site.route]] does nothing: give it files = { directory = \"…\" }, script = { … } or redirect = { to = \"…\" }";
            section.document.complain(section.line, message);
            None
        }
        several => {
            let message = format!(
                "[[site.route]] has {}: a route does one thing, so make two routes of it",
                several.join(" and ")
            );
            section.document.complain(section.line, message);
            // Read all the same, for the mistakes within.
            for name in several {
                match *name {
                    "files" => drop(section.table("files").map(|files| read_files(&files, path))),
                    "script" => drop(
                        section
                            .table("script")
                            .map(|script| script::read(&script, path, has_root)),
                    ),
                    _ => drop(section.table("redirect").map(|redirect| read_redirect(&redirect, path))),
                }
            }
            None
        }
    }
}

fn read_files(section: &Section<'_>, path: Option<&At<String>>) -> Option<Action> {
    let records = read_records(section);
    section.required_text("directory")?;
    let directory = section.path("directory")?;
    require_folder(section.document, "directory", &directory);
    if let Some(path) = path {
        require_star(section, path, "a folder");
    }
    Some(Action::Files {
        directory: directory.value,
        records,
        listing: section.flag("listing").map(|flag| flag.value),
    })
}

/// How the files of a folder are stored; None where they are sent as they are.
fn read_records(section: &Section<'_>) -> Option<RecordSettings> {
    let convert = match section.choice("convert").map(|convert| convert.value) {
        Some("cache") => Convert::Cache,
        Some("rewrite") => Convert::Rewrite,
        _ => Convert::Off,
    };
    let format = section.text("record_format").map(|format| format.value);
    match format.as_deref() {
        None if section.has("record_format") => None,
        None | Some("stream" | "stream_lf" | "stream_cr" | "undefined") => {
            if convert != Convert::Off {
                let message = "there are no records to convert: say what they are, record_format = \"variable\", \"vfc\" or \"fixed:80\"";
                section.refuse("convert", message);
            }
            None
        }
        Some(text) => match text.parse() {
            Ok(format) => Some(RecordSettings { format, convert }),
            Err(message) => {
                let message = format!(
                    "{message}; \"stream\", \"stream_lf\", \"stream_cr\" and \"undefined\" are bytes as they are"
                );
                section.refuse("record_format", &message);
                None
            }
        },
    }
}

fn read_redirect(section: &Section<'_>, path: Option<&At<String>>) -> Option<Action> {
    let status = section.code("status").map_or(302, |status| status.value);
    let to = section.required_text("to")?.value;
    if !to.starts_with('/') && !to.starts_with("http://") && !to.starts_with("https://") {
        section.refuse("to", "must be a path (\"/…\") or a whole address (\"https://…\")");
        return None;
    }
    if to.bytes().any(|byte| !byte.is_ascii_graphic()) {
        section.refuse(
            "to",
            "must be written as it is sent: \"%20\" for a blank, percent-encoded UTF-8 for other letters",
        );
        return None;
    }
    match to.matches('*').count() {
        1 if path.is_some_and(|path| !path.value.contains('*')) => {
            section.refuse(
                "to",
                "its \"*\" receives what the \"*\" of path matched, but path has none",
            );
        }
        0 | 1 => {}
        _ => section.refuse(
            "to",
            "only one \"*\" can receive what path matched: write another as \"%2A\"",
        ),
    }
    Some(Action::Redirect { to, status })
}

/// A redirect whose target matches its own pattern again sends clients round for ever, unless an earlier route steps in.
fn check_circle(section: &Section<'_>, path: &str, to: &str, earlier: &[Earlier]) {
    let target = to.split(['?', '#']).next().unwrap_or_default();
    let comes_back = target.starts_with('/') && pattern::covers(path, target);
    if comes_back && !earlier.iter().any(|first| first.covers(target)) {
        let message = format!(
            "redirect to \"{to}\" is matched by path = \"{path}\" again and never ends: put a route for the target above it"
        );
        section.document.complain(section.line_of("redirect"), message);
    }
}

/// Notes a pattern that leaves no part of the path to find something in a folder by.
pub(crate) fn require_star(section: &Section<'_>, path: &At<String>, whose: &str) {
    if !path.value.contains('*') {
        let mend = format!("{}/*", path.value.trim_end_matches('/'));
        let message = format!(
            "path = \"{}\": {whose} needs a \"*\" for the path within it: write \"{mend}\"",
            path.value
        );
        section.document.complain(path.line, message);
    }
}
