//! The reference page of the configuration, made from the table of keys.
//!
//! `docs/reference/configuration.md` is this text; a test compares them, and `UPDATE=1 cargo test -p sluice` writes it anew.

use std::fmt::Write;
use std::time::Duration;

use super::keys::{Bounds, Fallback, Key, Kind, ROOT, Section};
use super::value::{format_duration, format_size};

/// What stands above the keys.
const OPENING: &str = "\
# Configuration

<!-- Made from the table of keys in crates/sluice/src/config/keys.rs; `UPDATE=1 cargo test -p sluice` writes it anew. -->

`sluice run -c sluice.toml` serves what a configuration says; `sluice check -c sluice.toml` only reads it and tells what is
wrong, on which line, and what to write instead. A key that does not exist is a mistake, never ignored.

A small one:

```toml
[[listen]]
address = \"0.0.0.0:80\"

[[site]]
hosts = [\"example.org\"]
root = \"htdocs\"

  [[site.route]]
  path = \"/cgi-bin/*\"
  script = { directory = \"cgi-bin\" }
```

[examples/sluice.toml](../../examples/sluice.toml) is a longer one.

**Values.** A *duration* is a number and a unit: `500ms`, `10s`, `5m`, `2h`, `1d`. A *size* is a number of bytes, or a number
and a unit: `65536`, `\"512k\"`, `\"4M\"`, `\"4MiB\"`, `\"1G\"`; units are powers of 1024. Durations and sizes with a unit stand in
quotes. A *path* that is not absolute starts from the folder of the configuration.
";

/// The page, in Markdown.
pub(crate) fn reference() -> String {
    let mut page = OPENING.to_owned();
    write_section(&mut page, &ROOT);
    page
}

fn write_section(page: &mut String, section: &Section) {
    let title = match section.title {
        "" => "The file".to_owned(),
        title => format!("`{title}`"),
    };
    let mut text = |line: String| writeln!(page, "{line}").expect("a String takes every text");
    text(format!("\n## {title}\n\n{}\n", section.text));
    text("| key | value | default | |\n|---|---|---|---|".to_owned());
    for key in section.keys {
        text(format!(
            "| `{}` | {} | {} | {} |",
            key.name,
            value(key),
            default(key),
            meaning(key)
        ));
    }
    for key in section.keys {
        if let Kind::Table(below) | Kind::Tables(below) = key.kind {
            write_section(page, below);
        }
    }
}

/// What may be written, with its unit and bounds.
fn value(key: &Key) -> String {
    let millis = |bound| format_duration(Duration::from_millis(bound));
    match &key.kind {
        Kind::Text => "text".into(),
        Kind::Path => "path".into(),
        Kind::Address => "address".into(),
        Kind::Flag => "`true`, `false`".into(),
        Kind::Texts => "list of texts".into(),
        Kind::Words => "text, or list of texts".into(),
        Kind::Pairs => "table of texts".into(),
        Kind::Number { unit, bounds } => format!("number of {unit}{}", range(bounds, |bound| bound.to_string())),
        Kind::Duration(bounds) => format!("duration{}", range(bounds, millis)),
        Kind::Size(bounds) => format!("size{}", range(bounds, format_size)),
        Kind::Choice(words) => quoted(words.iter().map(|word| format!("\"{word}\""))),
        Kind::Code(codes) => quoted(codes.iter().map(ToString::to_string)),
        Kind::Table(below) => format!("[section](#{})", anchor(below)),
        Kind::Tables(below) => format!("[sections](#{})", anchor(below)),
    }
}

fn range(bounds: &Bounds, show: impl Fn(u64) -> String) -> String {
    match (bounds.least, bounds.most) {
        (0, u64::MAX) => String::new(),
        (least, u64::MAX) => format!(", at least {}", show(least)),
        (0, most) => format!(", at most {}", show(most)),
        (least, most) => format!(", {} to {}", show(least), show(most)),
    }
}

fn quoted(words: impl Iterator<Item = String>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn default(key: &Key) -> String {
    match key.default {
        Fallback::Value(value) => format!("`{value}`"),
        Fallback::Said(words) => words.to_owned(),
        Fallback::Required => "must be given".into(),
    }
}

fn meaning(key: &Key) -> String {
    match key.kind {
        Kind::Table(_) | Kind::Tables(_) => key.text.to_owned(),
        _ => format!("{} For instance `{} = {}`", key.text, key.name, key.example),
    }
}

/// The anchor that Markdown readers give the heading of a section.
fn anchor(section: &Section) -> String {
    let letters = section
        .title
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_');
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_page_in_the_manual_is_the_table() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&page, reference()).expect("the manual is writable");
        }
        let stands = std::fs::read_to_string(&page).unwrap_or_default();
        assert!(
            stands == reference(),
            "{} is old: UPDATE=1 cargo test -p sluice",
            page.display()
        );
    }
}
