//! The manual pages and shell completions below `packaging/`: made of the command line (`arguments`) and the lists of keys (`config`), as `--help` is.
//!
//! Only tests are here: they compare the files with what is generated, and `UPDATE=1 cargo test -p sluice` rewrites them. So the program itself needs no
//! library for them, and a package no run of the program. `packaging/check` shows that they are right for man(1) and for the shells.

mod commands;
mod keys;
mod page;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::aot::{Shell, generate};
use sluice_watch::{Item, Items};

use crate::arguments::Arguments;

/// Compares a directory of the repository with what is generated, and fails if they differ. With `UPDATE=1` the directory becomes what is generated.
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

/// The completions that are made of the command line.
fn completions(shell: Shell) -> String {
    let mut text = Vec::new();
    generate(shell, &mut shown(&Arguments::command()), "sluice", &mut text);
    String::from_utf8(text).expect("names and help are text")
}

/// Functions that complete values in bash: the generator knows only commands and options.
fn values() -> String {
    let items = Item::ALL.iter().map(|item| item.name());
    let groups = Items::GROUPS.iter().map(|(name, _)| *name);
    let words: Vec<&str> = items.chain(groups).collect();
    include_str!("values.bash").replace("@ITEMS@", &words.join(" "))
}

/// The words that bash offers for the last of these, in a directory; `sluice` is a program that prints `output`.
fn offered(directory: &Path, words: &[&str], output: &str) -> Vec<String> {
    let script = directory.join("completions");
    std::fs::write(&script, completions(Shell::Bash) + &values()).expect("a file");
    let program = directory.join("sluice");
    std::fs::write(&program, format!("#!/bin/sh\ncat <<'END'\n{output}\nEND\n")).expect("a program");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    let commands = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _sluice_values \"$1\" \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = std::process::Command::new("bash");
    bash.args(["--norc", "-c", commands, "bash"])
        .arg(script)
        .arg(program)
        .args(words)
        .current_dir(directory);
    let ran = bash.output().expect("bash");
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "");
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    text.lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn bash_completes_items_scripts_ids_and_users() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("users"), "# staff:\nann:$hash\nbob:$hash\n").expect("a file");
    let top = r#"{"requests":{"requests":[{"id":"Ab1","script":"/srv/a.py"},{"id": "Ac2"}]},"scripts":[{"script": "/srv/b.py"}]}"#;
    let cases: [(&[&str], &str, &[&str]); 8] = [
        (&["watch", "--items", "mapp"], "", &["mapping"]),
        (&["watch", "-i", "usual,-mapp"], "", &["usual,-mapping"]),
        (&["end", "A"], top, &["Ab1", "Ac2"]),
        (&["end", "Ab"], top, &["Ab1"]),
        (&["retire", "/srv"], top, &["/srv/a.py", "/srv/b.py"]),
        (&["retire", "--server", "12", "/srv/b"], top, &["/srv/b.py"]),
        (&["passwd", "users", ""], "", &["ann", "bob"]),
        (&["passwd", "--delete", "users", "b"], "", &["bob"]),
    ];
    for (words, output, expected) in cases {
        assert_eq!(offered(directory.path(), words, output), expected, "{words:?}");
    }
    // Without a server there is nothing to offer; options are those of the generator.
    assert_eq!(offered(directory.path(), &["retire", "/srv"], "no server").len(), 0);
    assert!(offered(directory.path(), &["retire", "--ser"], top).contains(&"--server".to_owned()));
}

#[test]
fn completions_are_the_generated_ones_and_offer_no_hidden_command() {
    // The names that each shell looks for.
    let files = [
        ("sluice".to_owned(), completions(Shell::Bash) + &values()),
        ("_sluice".to_owned(), completions(Shell::Zsh)),
        ("sluice.fish".to_owned(), completions(Shell::Fish)),
    ];
    let command = Arguments::command();
    for hidden in command.get_subcommands().filter(|below| below.is_hide_set()) {
        let name = hidden.get_name();
        let offers: Vec<_> = files.iter().filter(|(_, text)| text.contains(name)).collect();
        assert!(offers.is_empty(), "{name}: {offers:?}");
    }
    compare("packaging/completions", &BTreeMap::from(files));
}
