//! sluice(1) and a page for each of its commands, from the table of the command line.

use std::collections::BTreeMap;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::page::{begin, inlines, item, literal, section};

/// The signals in sluice(1): a term and its explanation.
const SIGNALS: [(&str, &str); 4] = [
    (
        "SIGHUP",
        "The configuration is read again, as by `sluice reload`. An invalid one is reported and changes nothing.",
    ),
    ("SIGUSR1", "The logs are opened again, as by `sluice log reopen`."),
    (
        "SIGTERM, SIGINT",
        "The server accepts nothing more, and ends after the requests in progress (`drain_timeout`).",
    ),
    ("SIGUSR2", "The file cache is emptied, as by `sluice purge`."),
];

const FILES: [(&str, &str); 3] = [
    (
        "sluice.toml, /etc/sluice/sluice.toml",
        "The configuration of `run` and `check` without `-c`: that of the current directory, or else that of the system. See `sluice.toml`(5).",
    ),
    (
        "$XDG_RUNTIME_DIR/sluice, /run/user/UID/sluice, /run/sluice-root",
        "Where servers have the sockets by which `status`, `reload` and other commands reach them, unless `control` says otherwise.",
    ),
    (
        "/usr/lib/sluice, /usr/local/lib/sluice",
        "The engines that run scripts of Python, Perl, PHP and Lua, and the libraries for scripts.",
    ),
];

const ENVIRONMENT: [(&str, &str); 2] = [
    (
        "RUST_LOG",
        "Which messages are logged, by module and level, as `level` in `[log]`.",
    ),
    ("SLUICE_RUNTIME_DIR", "Another directory for the sockets of servers."),
];

const STATUS: [(&str, &str); 3] = [
    ("0", "The command did what was asked."),
    ("1", "It failed; the message says why."),
    ("2", "The command line is wrong."),
];

/// The pages by the names of their files: sluice.1, sluice-serve.1 …
pub(super) fn pages(command: Command) -> BTreeMap<String, String> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = BTreeMap::new();
    add(&mut pages, &command, &[]);
    pages
}

/// Adds the page of a command, and those of its own commands. `above` has the names of the commands that it belongs to.
fn add(pages: &mut BTreeMap<String, String>, command: &Command, above: &[String]) {
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned();
    let visible: Vec<&Command> = command.get_subcommands().filter(|below| !below.is_hide_set()).collect();
    let siblings = visible
        .iter()
        .filter_map(|below| below.get_display_name().map(str::to_owned));
    let related: Vec<String> = above.iter().cloned().chain(siblings).collect();
    pages.insert(format!("{name}.1"), page(command, &name, &related));
    let mut path = above.to_vec();
    path.push(name);
    for below in visible {
        add(pages, below, &path);
    }
}

fn page(command: &Command, name: &str, related: &[String]) -> String {
    let mut page = begin(&name.to_uppercase(), "1");
    section(&mut page, "NAME");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    page.text([roman(format!("{name} - {}", about.trim_end_matches('.')))]);
    let mut text = page.to_roff() + &from_clap(command);
    let mut rest = Roff::new();
    if let Some(after) = command.get_after_help() {
        write_after(&mut rest, &after.to_string());
    }
    if name == "sluice" {
        write_items(&mut rest, "SIGNALS", &SIGNALS);
        write_items(&mut rest, "FILES", &FILES);
        write_items(&mut rest, "ENVIRONMENT", &ENVIRONMENT);
    }
    write_items(&mut rest, "EXIT STATUS", &STATUS);
    section(&mut rest, "SEE ALSO");
    let mut related: Vec<String> = related.iter().map(|name| format!("`{name}`(1)")).collect();
    related.push("`sluice.toml`(5)".to_owned());
    rest.text(inlines(&related.join(", ")));
    text.push_str(&rest.to_roff());
    text
}

/// Synopsis, description, options and commands, as clap's own library writes them.
fn from_clap(command: &Command) -> String {
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    let mut written = man.render_synopsis_section(&mut text);
    written = written.and_then(|()| man.render_description_section(&mut text));
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        written = written.and_then(|()| man.render_options_section(&mut text));
    }
    if command.has_subcommands() {
        written = written.and_then(|()| man.render_subcommands_section(&mut text));
    }
    written.expect("a Vec takes every text");
    let text = String::from_utf8(text).expect("names and help are text");
    // A `.br` beside an empty line changes nothing, and mandoc warns about it.
    text.replace("\n.br\n\n.br\n", "\n\n")
}

/// The text below the options: paragraphs, and `Examples:` with indented lines.
fn write_after(page: &mut Roff, text: &str) {
    let (notes, examples) = text.split_once("Examples:\n").unwrap_or((text, ""));
    if !notes.trim().is_empty() {
        section(page, "NOTES");
        for (index, paragraph) in notes.trim().split("\n\n").enumerate() {
            if index > 0 {
                page.control("PP", []);
            }
            page.text([roman(paragraph.replace('\n', " "))]);
        }
    }
    if !examples.is_empty() {
        section(page, "EXAMPLES");
        literal(
            page,
            examples.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)),
        );
    }
}

fn write_items(page: &mut Roff, title: &str, items: &[(&str, &str)]) {
    section(page, title);
    for (term, text) in items {
        item(page, vec![bold(*term)], text);
    }
}
