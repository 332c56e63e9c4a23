//! The configuration: from a TOML file to the server's settings, or to every mistake in it with its line and what to write instead.
//!
//! ```text
//! file ─▶ document (text, lines, mistakes) ─▶ section: each table read with its list of keys ─▶ root ─▶ Settings ─▶ describe
//!                                                                  │
//!                                                                  └─▶ reference page, answers to unknown keys
//! ```
//! A key is one entry (`key`) in the file of its section: its name, kind of value, setter, default and description. Nothing here
//! opens a socket or starts a process, so a configuration can be read while a server runs with an older one.

mod cache;
mod changes;
mod client_certificates;
mod compression;
mod conditions;
mod describe;
mod description;
mod directory;
mod document;
mod files;
mod key;
mod limits;
mod listen;
mod log;
mod media_type;
mod pages;
mod pattern;
mod redirect;
mod reference;
mod root;
mod route;
mod route_lint;
mod script;
mod section;
mod server;
mod site;
mod suggest;
mod table;
#[cfg(test)]
mod tests;
mod value;
mod variables;
mod warnings;

use std::path::Path;

use sluice_settings::Settings;
use toml::de::DeTable;

pub(crate) use describe::{describe, summary};
pub(crate) use document::{ConfigErrors, reason};
#[cfg(test)]
pub(crate) use listen::DEFAULT as LISTEN;
pub(crate) use server::default_workers;
pub(crate) use site::{INDEX, parse_host};
pub(crate) use value::{format_duration, parse_address, parse_duration};
pub(crate) use warnings::warnings;

use document::Document;
use root::ROOT;

/// Reads a configuration file and checks that the directories and files that it names exist.
///
/// # Errors
/// Every mistake in the file, in the order of its lines; the user's to fix.
pub(crate) fn load(path: &Path) -> Result<Settings, ConfigErrors> {
    let name = path.display().to_string();
    let refuse = |reason: String| ConfigErrors::one(format!("{name}: {reason}"));
    let bytes = std::fs::read(path).map_err(|error| refuse(format!("cannot be read: {}", reason(&error))))?;
    let absolute =
        std::path::absolute(path).map_err(|error| refuse(format!("has no absolute path: {}", reason(&error))))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        ConfigErrors::one(format!("{name}:{line}: is not UTF-8 text: save the file in UTF-8"))
    })?;
    let directory = absolute.parent().unwrap_or(Path::new("/"));
    let mut settings = interpret(Document::new(&ROOT, &name, &text, directory))?;
    settings.config_files.push(absolute.clone());
    Ok(settings)
}

/// The reference page of all keys, in Markdown.
pub(crate) fn reference() -> String {
    reference::page(&ROOT)
}

/// Makes settings of a document, or reports its mistakes.
fn interpret(document: Document<'_>) -> Result<Settings, ConfigErrors> {
    let (table, errors) = DeTable::parse_recoverable(document.text);
    if !errors.is_empty() {
        report_syntax_errors(&document, &errors);
        // What could be read around such mistakes would only give false ones.
        return Err(document.finish(()).expect_err("a mistake was reported"));
    }
    let table = table.into_inner();
    let settings = root::read(&document, &table);
    document.finish(settings)
}

/// Reports what is not TOML, one mistake per line.
fn report_syntax_errors(document: &Document<'_>, errors: &[toml::de::Error]) {
    let mut lines = Vec::new();
    for error in errors {
        let span = error.span().unwrap_or_default();
        let line = document.line(span.start);
        if lines.contains(&line) {
            continue;
        }
        lines.push(line);
        let message = match error.message() {
            "duplicate key" => format!("{} is written twice: remove one", document.excerpt(span)),
            "string values must be quoted, expected literal string" => {
                let shown = document.excerpt(span);
                format!("{shown}: a text is written in quotes: \"{shown}\"")
            }
            other => format!("cannot be read as TOML: {other}"),
        };
        document.report(line, message);
    }
}
