//! `[[site.route]]`: from sections of the file to the server's settings of what paths mean.
//!
//! Here: which route is for which path, and what it does. Not here: the form of patterns (`pattern`), conditions and what a
//! route changes (`rule`), scripts (`script`), what routes mean together (`reach`).

use sluice_settings::rule::{Pattern, Replacement};
use sluice_settings::{Action, CacheUse, CompressionSettings, Convert, RecordSettings, RefusalSettings, RouteSettings};

use super::mistake::{At, Document};
use super::reach::{self, Placed};
use super::section::Section;
use super::site::require_folder;
use super::{compression, pages, pattern, rule, script};

/// The keys that say what a route does; it does one of it.
const ACTIONS: [&str; 5] = ["files", "script", "redirect", "refuse", "rewrite"];

/// The keys that change something for whatever answers.
const SETTERS: [&str; 6] = ["headers", "expires", "limits", "compress", "cache", "log"];

/// Reads the routes of a site in their order, and finds the mistakes that they are together.
pub(crate) fn read_all(
    document: &Document<'_>,
    sections: &[Section<'_>],
    has_root: bool,
    compression: &CompressionSettings,
) -> Vec<RouteSettings> {
    let mut placed = Vec::new();
    let mut routes = Vec::new();
    for section in sections {
        let when = rule::read_when(section);
        let pattern = read_pattern(section);
        let action = read_action(section, pattern.as_ref(), has_root);
        let compress = compression::read_route(section, action.as_ref(), compression);
        let changes = rule::read_changes(section, compress, read_cache_use(section, action.as_ref()));
        rule::check_refusal(section, action.as_ref(), &changes);
        let line = pattern.as_ref().map_or(section.line, |pattern| pattern.line);
        let path = pattern.map(|pattern| pattern.value);
        if let (Some(path), Some(action)) = (&path, &action) {
            routes.push(RouteSettings {
                origin: document.origin(section.line),
                path: path.clone(),
                when: when.clone(),
                action: action.clone(),
                changes,
            });
        }
        placed.push(Placed {
            line,
            action_line: action_line(section),
            action,
            path,
            when,
        });
    }
    reach::check(document, &placed, has_root);
    routes
}

/// How files are kept in the cache, be they of this route or of a later one.
fn read_cache_use(section: &Section<'_>, action: Option<&Action>) -> Option<CacheUse> {
    let cache = pages::read_cache_use(section);
    if matches!(
        action,
        Some(Action::Script(_) | Action::Redirect { .. } | Action::Refuse(_))
    ) {
        section.refuse(
            "cache",
            "only files are kept in the cache: a route with files = { … } has this key, or one that leads on to files",
        );
    }
    cache
}

/// The line of what a route does.
fn action_line(section: &Section<'_>) -> usize {
    let done = ACTIONS.into_iter().find(|name| section.has(name));
    done.map_or(section.line, |name| section.line_of(name))
}

/// Which paths a route is for.
fn read_pattern(section: &Section<'_>) -> Option<At<Pattern>> {
    if section.has("regex") {
        if section.has("path") {
            section.refuse("regex", "the route has a path already: keep one of them");
        }
        let regex = section.text("regex")?;
        return match Pattern::regex(&regex.value) {
            Ok(value) => Some(At {
                value,
                line: regex.line,
            }),
            Err(message) => {
                section.refuse("regex", &message);
                None
            }
        };
    }
    if !section.has("path") && section.has("when") {
        return Some(At {
            value: Pattern::any(),
            line: section.line,
        });
    }
    let path = section.required_text("path")?;
    match pattern::check(&path.value) {
        Ok(()) => Some(At {
            value: Pattern::from(path.value.as_str()),
            line: path.line,
        }),
        Err(message) => {
            section.refuse("path", &message);
            None
        }
    }
}

fn read_action(section: &Section<'_>, pattern: Option<&At<Pattern>>, has_root: bool) -> Option<Action> {
    let named: Vec<&str> = ACTIONS.into_iter().filter(|name| section.has(name)).collect();
    match named.as_slice() {
        [] if SETTERS.into_iter().any(|name| section.has(name)) => Some(Action::Pass),
        [] => {
            let message = "[[site.route]] does nothing: give it files = { directory = \"…\" }, script = { … }, redirect = { to = \"…\" }, \
                           refuse = { status = 403 } or rewrite = \"/…\", or something to set: headers, expires, limits, compress, cache, log";
            section.document.complain(section.line, message);
            None
        }
        [one] => read_one(section, one, pattern, has_root),
        several => {
            let message = format!(
                "[[site.route]] has {}: a route does one thing, so make two routes of it",
                several.join(" and ")
            );
            section.document.complain(section.line, message);
            // Read all the same, for the mistakes within.
            for name in several {
                read_one(section, name, pattern, has_root);
            }
            None
        }
    }
}

fn read_one(section: &Section<'_>, name: &str, pattern: Option<&At<Pattern>>, has_root: bool) -> Option<Action> {
    match name {
        "redirect" => read_redirect(&section.table("redirect")?, pattern),
        "refuse" => Some(read_refusal(&section.table("refuse")?)),
        "rewrite" => read_rewrite(section, pattern),
        _ => {
            let path = pattern.map(|pattern| At {
                value: pattern.value.to_string(),
                line: pattern.line,
            });
            if let Some(At {
                value: Pattern::Regex(_),
                line,
            }) = pattern
            {
                let message = format!(
                    "regex: {name} needs a path, by whose \"*\" something is found: rewrite = \"/…\" to such a path, and write a route for it below"
                );
                section.document.complain(*line, message);
                return None;
            }
            match name {
                "files" => read_files(&section.table("files")?, path.as_ref()),
                _ => {
                    let script = script::read(&section.table("script")?, path.as_ref(), has_root)?;
                    Some(Action::Script(Box::new(script)))
                }
            }
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

fn read_redirect(section: &Section<'_>, pattern: Option<&At<Pattern>>) -> Option<Action> {
    let status = section.code("status").map_or(302, |status| status.value);
    let to = section.required_text("to")?.value;
    match Replacement::redirect(&to, &pattern?.value) {
        Ok(to) => Some(Action::Redirect { to, status }),
        Err(message) => {
            section.refuse("to", &message);
            None
        }
    }
}

fn read_rewrite(section: &Section<'_>, pattern: Option<&At<Pattern>>) -> Option<Action> {
    let to = section.text("rewrite")?.value;
    match Replacement::rewrite(&to, &pattern?.value) {
        Ok(to) => Some(Action::Rewrite(to)),
        Err(message) => {
            section.refuse("rewrite", &message);
            None
        }
    }
}

fn read_refusal(section: &Section<'_>) -> Action {
    Action::Refuse(RefusalSettings {
        status: section.number("status").map_or(403, |status| status.value),
        text: section.text("text").map(|text| text.value),
        retry_after: section.duration("retry_after").map(|after| after.value),
    })
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
