//! From text to TOML tables, or to one message for each line that is not TOML.

use toml::de::DeTable;

use super::document::Document;
use super::foreign;

/// Parses a file. `None` if it is not TOML; its mistakes have been reported.
pub(super) fn parse<'d>(document: &'d Document<'_>) -> Option<DeTable<'d>> {
    let (table, errors) = DeTable::parse_recoverable(document.text);
    if errors.is_empty() {
        return Some(table.into_inner());
    }
    report(document, &errors);
    None
}

/// Reports what is not TOML, one mistake per line.
fn report(document: &Document<'_>, errors: &[toml::de::Error]) {
    let mut lines = Vec::new();
    for error in errors {
        let span = error.span().unwrap_or_default();
        let line = document.line(span.start);
        if lines.contains(&line) {
            continue;
        }
        lines.push(line);
        let hint = foreign::syntax(document.line_text(span.start));
        let message = match error.message() {
            "duplicate key" => format!("{} is written twice: remove one", document.excerpt(span)),
            "string values must be quoted, expected literal string" if hint.is_none() => {
                let shown = document.excerpt(span);
                format!("{shown}: a text is written in quotes: \"{shown}\"")
            }
            other => match hint {
                Some(hint) => hint.to_owned(),
                None => format!("cannot be read as TOML: {other}"),
            },
        };
        document.report(line, message);
    }
}
