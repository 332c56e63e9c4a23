//! From text to TOML tables, or to one message for each line that is not TOML.

use toml::de::DeTable;

use super::document::Document;
use super::environment;
use super::foreign;

/// Parses a file. `None` if it is not TOML; its mistakes have been reported.
pub(super) fn parse<'d>(document: &'d Document<'_>) -> Option<DeTable<'d>> {
    let (table, errors) = DeTable::parse_recoverable(document.text);
    if errors.is_empty() {
        let mut table = table.into_inner();
        environment::substitute(&mut table, document);
        return Some(table);
    }
    report(document, &errors);
    None
}

/// Reports mistakes of TOML syntax, one for each line.
fn report(document: &Document<'_>, errors: &[toml::de::Error]) {
    let mut lines = Vec::new();
    for error in errors {
        let span = error.span().unwrap_or_default();
        let line = document.line(span.start);
        if lines.contains(&line) {
            continue;
        }
        lines.push(line);
        let message = message(error, &document.excerpt(span.clone()), document.line_text(span.start));
        document.report(line, message);
    }
}

/// The message about one mistake; `shown` is what is wrong, and `line` the line that it is in.
fn message(error: &toml::de::Error, shown: &str, line: &str) -> String {
    let reason = error.message();
    if reason == "duplicate key" {
        return format!("{shown} is written twice: remove one");
    }
    if reason.contains("escape") {
        return escape(line);
    }
    if let Some(hint) = foreign::syntax(line) {
        return hint;
    }
    if line.trim_end().ends_with(';') {
        return "a line does not end with a semicolon: remove it".to_owned();
    }
    if reason == "string values must be quoted, expected literal string" {
        return format!("{shown}: a text is written in quotes: \"{shown}\"");
    }
    format!("cannot be read as TOML: {reason}")
}

/// The message about a backslash that begins no escape sequence, as in a regular expression.
fn escape(line: &str) -> String {
    let reason = "a backslash in double quotes begins an escape such as \\n or \\u00e9";
    let parts: Vec<&str> = line.split('"').collect();
    match parts[..] {
        // One text, which is correct as it is between single quotes.
        [_, text, _] if !text.contains('\'') => format!("{reason}: write it in single quotes: '{text}'"),
        _ => format!("{reason}: write the text in single quotes, or each backslash twice"),
    }
}
