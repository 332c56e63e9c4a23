//! The configuration: from a TOML file to the server's settings, or to every mistake in it with its line and what to write instead. Floor 5, safe Rust.
//!
//! ```text
//! file ─▶ document (text, lines, mistakes) ─▶ section: each table read with its list of keys ─▶ root ─▶ Settings ─▶ describe
//!              │                                                   │                            ▲
//!              └─▶ include ─▶ included: sites and routes ──────────┼────────────────────────────┘
//!                                                                  └─▶ reference page, answers to unknown keys
//! ```
//! A key is one entry (`key`) in the file of its section: its name, kind of value and setter. What users read about it is in `keys.md`.
//! Nothing here opens a socket or starts a process, so a configuration can be read while a server runs with an older one.
#![forbid(unsafe_code)]

mod access;
mod access_warnings;
mod agents;
mod asgi;
mod block_places;
mod blocks;
mod cache;
mod changes;
mod client_certificates;
mod compression;
mod conditions;
mod confinement_warnings;
mod control_key;
mod default_file;
mod describe;
mod description;
mod directory;
mod document;
mod engine;
mod environment;
mod file_kind;
mod files;
mod foreign;
mod include;
mod included;
mod interpreters;
mod key;
mod limits;
mod listen;
mod log;
mod media_type;
mod mistake;
mod pages;
mod path_owners;
mod pattern;
mod permissions;
mod pool;
mod redirect;
mod reference;
mod report;
mod reports;
mod root;
mod route;
mod route_lint;
mod script;
mod script_draft;
mod script_limits;
mod section;
mod server;
mod server_watch;
mod site;
mod sites;
mod source_files;
mod start;
mod suggest;
mod syntax;
mod table;
#[cfg(test)]
mod tests;
mod texts;
mod throttle;
mod users;
mod variables;
mod warnings;
mod watch;

use std::path::Path;

use sluice_settings::Settings;
use sluice_settings::source::Source;

pub use control_key::control_socket;
pub use default_file::choose_file;
pub use describe::{addresses, describe, summary};
pub use description::{Described, Entry, Fallback};
pub use listen::DEFAULT as DEFAULT_ADDRESS;
pub use mistake::{ConfigErrors, Mistake};
pub use permissions::{ServerUsers, script_warnings, unusable};
pub use report::report;
pub use server::default_workers;
pub use site::{INDEX, parse_host};
pub use start::{contents, sources};
pub use users::parse_user;
pub use warnings::{warnings, warnings_for};

use blocks::Blocks;
use document::Document;
use included::INCLUDED;
use root::{ROOT, Root};
use source_files::{SourceFiles, read_text};

/// Reads a configuration file and checks that the directories and files that it names exist.
///
/// # Errors
/// Every mistake in the file, in the order of its lines; the user's to fix.
pub fn load(path: &Path) -> Result<Settings, ConfigErrors> {
    read(path, &Source::DISK, |_| {})
}

/// Reads a configuration file as `load` does, for a server. Programs and directories may be missing: `warn` gets a line about each.
///
/// # Errors
/// Every mistake in the file, except missing programs and directories.
pub fn load_to_run(path: &Path, warn: impl FnMut(&str)) -> Result<Settings, ConfigErrors> {
    load_from(path, &Source::DISK, warn)
}

/// Reads a configuration as `load_to_run` does, from the files of a source, which the settings keep for certificates and keys.
///
/// # Errors
/// The same as for `load_to_run`.
pub fn load_from(path: &Path, source: &Source, mut warn: impl FnMut(&str)) -> Result<Settings, ConfigErrors> {
    read(path, source, |document| {
        document.take_lacks().iter().for_each(|line| warn(line));
    })
}

/// Reads a configuration file; `look_at` sees the document before its mistakes are collected.
fn read(path: &Path, source: &Source, look_at: impl FnOnce(&Document<'_>)) -> Result<Settings, ConfigErrors> {
    let name = path.display().to_string();
    let (text, directory) = read_text(path, source)?;
    let files = SourceFiles(source.clone());
    interpret(Document::new(&ROOT, &name, &text, &directory, &files), look_at)
}

/// The lists of keys of the main file, and of included files.
#[must_use]
pub fn sections() -> [&'static dyn Described; 2] {
    [&ROOT, &INCLUDED]
}

/// The reference page of all keys, in Markdown.
#[must_use]
pub fn reference() -> String {
    reference::page(&ROOT, &INCLUDED)
}

/// Makes settings of a document and the files that it includes, or reports their mistakes.
fn interpret(document: Document<'_>, look_at: impl FnOnce(&Document<'_>)) -> Result<Settings, ConfigErrors> {
    let Some(mut table) = syntax::parse(&document) else {
        // What could be read around such mistakes would only give false ones.
        return Err(document.finish(()).expect_err("a mistake was reported"));
    };
    let blocks = Blocks::replace(&mut table, &document, None);
    let mut root = Root::read(&document, &table);
    included::read(&mut root, &document, &blocks);
    root.settings.warnings.extend(blocks.unused(&document));
    let settings = root.finish(&document);
    look_at(&document);
    document.finish(settings)
}
