//! The reference page of the configuration, generated from the lists of keys.
//!
//! `docs/reference/configuration.md` is this text; a test compares them, and `UPDATE=1 cargo test -p sluice-config -p sluice --lib --bins` rewrites the file.

use std::fmt::Write;

use super::description::{Described, Entry, Fallback};

/// The text above the sections.
const OPENING: &str = "\
# Configuration

<!-- Generated from the keys in crates/sluice-config; `UPDATE=1 cargo test -p sluice-config -p sluice --lib --bins` rewrites it. -->

`sluice run -c sluice.toml` runs the server with a configuration; `sluice check -c sluice.toml` only reads it and reports what
is wrong, on which line, and what to write instead. An unknown key is an error; it is never ignored. Without `-c` both take
`sluice.toml` of the current directory, or else `/etc/sluice/sluice.toml`.

A small example:

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

[examples/sluice.toml](../../examples/sluice.toml) is a longer example.

**Values.** A *duration* is a number and a unit: `500ms`, `10s`, `5m`, `2h`, `1d`. A *size* is a number of bytes, or a number
and a unit: `65536`, `\"512k\"`, `\"4M\"`, `\"4MiB\"`, `\"1G\"`; units are powers of 1024. Durations and sizes with a unit are
written in quotes. A relative *path* starts from the directory of the file in which it is written. In every text, `${NAME}` is the
variable of this name (in upper case) in the environment of the server, `${NAME:-value}` the value if there is no such variable, and
`$${NAME}` the text itself: `address = \":${PORT:-8080}\"`.
";

/// The page, in Markdown: the keys of the main file, and those of included files.
pub(crate) fn page(root: &dyn Described, included: &dyn Described) -> String {
    let mut page = OPENING.to_owned();
    write_keys(&mut page, "The file", root);
    // The sections below its keys are those of the main file.
    write_keys(&mut page, "Included files", included);
    write_sections(&mut page, root);
    page
}

fn write_sections(page: &mut String, section: &dyn Described) {
    for below in section.keys().iter().filter_map(|key| key.below) {
        write_keys(page, &format!("`{}`", below.title()), below);
        write_sections(page, below);
    }
}

fn write_keys(page: &mut String, title: &str, section: &dyn Described) {
    let mut line = |text: String| writeln!(page, "{text}").expect("a String takes every text");
    line(format!("\n## {title}\n\n{}\n", section.text()));
    line("| key | value | default | |\n|---|---|---|---|".to_owned());
    let keys = section.keys();
    for key in &keys {
        line(format!(
            "| `{}` | {} | {} | {} |",
            key.name,
            key.value,
            default(key),
            description(key)
        ));
    }
}

fn default(key: &Entry) -> String {
    match key.default {
        Some(Fallback::Value(value)) => format!("`{value}`"),
        Some(Fallback::Words(words)) => words.to_owned(),
        None => "required".into(),
    }
}

fn description(key: &Entry) -> String {
    match key.below {
        Some(_) => key.text.to_owned(),
        None => format!("{} Example: `{} = {}`", key.text, key.name, key.example),
    }
}

#[cfg(test)]
mod tests {
    use super::super::included::INCLUDED;
    use super::super::root::ROOT;
    use super::*;
    use std::path::Path;

    #[test]
    fn the_page_in_the_manual_is_the_generated_one() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&file, page(&ROOT, &INCLUDED)).expect("the manual is writable");
        }
        let stored = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            stored == page(&ROOT, &INCLUDED),
            "{} is out of date: UPDATE=1 cargo test -p sluice-config -p sluice --lib --bins",
            file.display()
        );
    }
}
