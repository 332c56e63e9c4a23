//! `${NAME}` in texts of a configuration: the variable of this name in the environment of the server.
//!
//! Names are in upper case, unlike variables of rewritings and templates (`${query}`, `${1}`). A variable's value becomes a part of the text, not TOML.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::document::Document;

/// Replaces `${NAME}` in all texts of a file, and reports variables that do not exist.
pub(super) fn substitute(table: &mut DeTable<'_>, document: &Document<'_>) {
    for (_, value) in table.iter_mut() {
        replace_in(value, document);
    }
}

fn replace_in(value: &mut Spanned<DeValue<'_>>, document: &Document<'_>) {
    let line = document.line(value.span().start);
    match value.as_mut() {
        DeValue::String(text) if text.contains("${") => {
            match expand(text, &|name| document.files.source().variable(name)) {
                Ok(expanded) => *text = Cow::Owned(expanded),
                Err(message) => document.report(line, message),
            }
        }
        DeValue::Array(items) => items.iter_mut().for_each(|item| replace_in(item, document)),
        DeValue::Table(table) => substitute(table, document),
        _ => {}
    }
}

/// A text with its variables replaced; `$${NAME}` is the text `${NAME}`. The error is a message.
fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, found) = rest.split_at(at);
        let Some((name, fallback, length)) = reference(found) else {
            expanded.push_str(&rest[..at + 2]);
            rest = &rest[at + 2..];
            continue;
        };
        rest = &found[length..];
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str(&found[..length]);
            continue;
        }
        expanded.push_str(before);
        let value = variable(name).or_else(|| fallback.map(str::to_owned)).ok_or_else(|| {
            format!(
                "${{{name}}}: the environment of the server has no variable {name}: set it (Environment= in a unit), or write ${{{name}:-…}} with a \
                 value for this case; $${{{name}}} is the text itself"
            )
        })?;
        expanded.push_str(&value);
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// The name, the value for a missing variable, and the length of `${NAME}` or `${NAME:-value}` at the beginning of a text; `None` if that is something else.
fn reference(text: &str) -> Option<(&str, Option<&str>, usize)> {
    let inner = text.strip_prefix("${")?;
    let end = inner.find('}')?;
    let (name, fallback) = match inner[..end].split_once(":-") {
        Some((name, fallback)) => (name, Some(fallback)),
        None => (&inner[..end], None),
    };
    let is_letter = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
    let is_name =
        name.bytes().next().is_some_and(is_letter) && name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit());
    is_name.then_some((name, fallback, end + 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_and_everything_else_is_kept() {
        let variable = |name: &str| match name {
            "PORT" => Some("8080".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        for (text, expected) in [
            (":${PORT}", ":8080"),
            ("${PORT}${PORT}/x", "80808080/x"),
            ("a${EMPTY}b", "ab"),
            ("${NONE:-/srv}/htdocs", "/srv/htdocs"),
            ("${PORT:-1}", "8080"),
            ("${NONE:-}", ""),
            ("$${PORT}", "${PORT}"),
            ("/new/${1}?${query}&$0", "/new/${1}?${query}&$0"),
            ("${lower} ${} ${1A} ${A-B} ${PORT", "${lower} ${} ${1A} ${A-B} ${PORT"),
        ] {
            assert_eq!(expand(text, &variable).as_deref(), Ok(expected), "{text}");
        }
        let message = expand("x${NONE}", &variable).unwrap_err();
        assert!(
            message.starts_with("${NONE}: the environment of the server has no variable NONE"),
            "{message}"
        );
    }
}
