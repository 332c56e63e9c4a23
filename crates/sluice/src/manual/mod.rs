//! The manual pages and the completions of shells, below `packaging/`: made of the command line (`arguments`) and of the lists of keys
//! (`config`), as `--help` and the reference page are.
//!
//! Only tests are here: they compare the files with what is generated, and `UPDATE=1 cargo test -p sluice` rewrites them. So the
//! program itself needs no library for them, and a package no run of the program. `packaging/check` shows that they are right for
//! man(1) and for the shells.

mod commands;
mod keys;
mod page;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::aot::{Shell, generate};

use crate::arguments::Arguments;

/// Compares a directory of the repository with what is generated: a file that differs, is missing, or is no longer made, fails. With
/// `UPDATE=1` the directory becomes what is generated.
fn compare(directory: &str, generated: &BTreeMap<String, String>) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(directory);
    if std::env::var_os("UPDATE").is_some() {
        for name in stored(&directory)
            .into_keys()
            .filter(|name| !generated.contains_key(name))
        {
            std::fs::remove_file(directory.join(name)).expect("the repository is writable");
        }
        for (name, text) in generated {
            std::fs::write(directory.join(name), text).expect("the repository is writable");
        }
    }
    let stored = stored(&directory);
    let names = stored.keys().chain(generated.keys());
    let stale: Vec<PathBuf> = names
        .filter(|name| stored.get(*name) != generated.get(*name))
        .map(|name| directory.join(name))
        .collect();
    assert!(
        stale.is_empty(),
        "out of date: UPDATE=1 cargo test -p sluice: {stale:?}"
    );
}

/// The files of a directory, by name.
fn stored(directory: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(directory).expect("the directory is in the repository");
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("pages and completions are text");
        (
            path.file_name()
                .expect("an entry has a name")
                .to_string_lossy()
                .into_owned(),
            text,
        )
    };
    entries
        .map(|entry| read(entry.expect("the directory can be read").path()))
        .collect()
}

#[test]
fn manual_pages_are_the_generated_ones() {
    let mut pages = commands::pages(Arguments::command());
    pages.insert("sluice.toml.5".to_owned(), keys::page(&sluice_config::sections()));
    compare("packaging/man", &pages);
}

/// The command line without the commands that no page names: the generator would offer them.
fn shown(command: &Command) -> Command {
    let commands = command.get_subcommands().filter(|below| !below.is_hide_set());
    let mut shown = Command::new("sluice")
        .args(command.get_arguments().cloned())
        .subcommands(commands.cloned());
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if command.get_version().is_some() {
        shown = shown.version(env!("CARGO_PKG_VERSION"));
    }
    shown
}

#[test]
fn completions_are_the_generated_ones_and_offer_no_hidden_command() {
    let script = |shell: Shell| {
        let mut text = Vec::new();
        generate(shell, &mut shown(&Arguments::command()), "sluice", &mut text);
        String::from_utf8(text).expect("names and help are text")
    };
    // The names that each shell looks for.
    let files = [
        ("sluice".to_owned(), script(Shell::Bash)),
        ("_sluice".to_owned(), script(Shell::Zsh)),
        ("sluice.fish".to_owned(), script(Shell::Fish)),
    ];
    let command = Arguments::command();
    for hidden in command.get_subcommands().filter(|below| below.is_hide_set()) {
        let name = hidden.get_name();
        let offers: Vec<_> = files.iter().filter(|(_, text)| text.contains(name)).collect();
        assert!(offers.is_empty(), "{name}: {offers:?}");
    }
    compare("packaging/completions", &BTreeMap::from(files));
}
