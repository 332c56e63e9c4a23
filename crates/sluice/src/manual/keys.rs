//! sluice.toml(5): the keys of the configuration, from the same lists as the reference page.

use clap_mangen::roff::{Inline, Roff, bold, roman};

use super::page::{begin, inlines, item, literal, section};
use sluice_config::{Described, Entry, Fallback};

const EXAMPLE: &str = "\
[[listen]]
address = \"0.0.0.0:80\"

[[site]]
hosts = [\"example.org\"]
root = \"htdocs\"

  [[site.route]]
  path = \"/cgi-bin/*\"
  script = { directory = \"cgi-bin\" }";

/// The page: the keys of the main file, those of included files, and the sections below them.
pub(super) fn page([root, included]: &[&'static dyn Described; 2]) -> String {
    let mut page = begin("SLUICE.TOML", "5");
    section(&mut page, "NAME");
    page.text([roman("sluice.toml - configuration of the web server sluice")]);
    section(&mut page, "DESCRIPTION");
    page.text(inlines(
        "`sluice run -c sluice.toml` runs the server with a configuration; `sluice check -c sluice.toml` only reads it and reports \
         what is wrong, on which line, and what to write instead. An unknown key is an error; it is never ignored. Without `-c` both take \
         `sluice.toml` of the current directory, or else `/etc/sluice/sluice.toml`.",
    ));
    page.control("PP", []);
    literal(&mut page, EXAMPLE.lines());
    section(&mut page, "VALUES");
    page.text(inlines(
        "A *duration* is a number and a unit: `500ms`, `10s`, `5m`, `2h`, `1d`. A *size* is a number of bytes, or a number and a unit: \
         `65536`, `\"512k\"`, `\"4M\"`, `\"4MiB\"`, `\"1G\"`; units are powers of 1024. Durations and sizes with a unit are written in \
         quotes. A relative *path* starts from the directory of the file in which it is written.",
    ));
    write_keys(&mut page, "THE FILE", *root);
    write_keys(&mut page, "INCLUDED FILES", *included);
    write_sections(&mut page, *root);
    section(&mut page, "FILES");
    item(
        &mut page,
        vec![bold("/etc/sluice/sluice.toml")],
        "The default, and the file of the service.",
    );
    section(&mut page, "SEE ALSO");
    page.text(inlines(
        "`sluice`(1), `sluice-check`(1), `sluice-run`(1), `sluice-reload`(1)",
    ));
    page.to_roff()
}

fn write_sections(page: &mut Roff, described: &dyn Described) {
    for below in described.keys().iter().filter_map(|key| key.below) {
        write_keys(page, below.title(), below);
        write_sections(page, below);
    }
}

fn write_keys(page: &mut Roff, title: &str, described: &dyn Described) {
    section(page, title);
    page.text(inlines(described.text()));
    for key in described.keys() {
        item(page, term(&key), &description(&key));
    }
}

/// The key, and what its value may be.
fn term(key: &Entry) -> Vec<Inline> {
    let mut term = vec![bold(key.name), roman(" = ")];
    term.extend(inlines(&key.value));
    term
}

fn description(key: &Entry) -> String {
    let default = match key.default {
        Some(Fallback::Value(value)) => format!(" Default: `{value}`."),
        Some(Fallback::Words(words)) => format!(" Default: {words}."),
        None => " Required.".to_owned(),
    };
    match key.below {
        Some(_) => format!("{}{default}", key.text),
        None => format!("{}{default} Example: `{} = {}`", key.text, key.name, key.example),
    }
}
