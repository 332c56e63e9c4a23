//! Warnings about files that would be sent and are probably not meant to be: programs; and for `sluice serve` private keys, configurations, logs.
//!
//! `serve` is given a directory by hand, perhaps one in which somebody works. They are sent all the same, because a site may publish certificates or logs.

use std::io::{self, Read};
use std::path::Path;

use sluice_launch::{deadline, open_regular};
use sluice_server::ExposedPrograms;
use sluice_settings::Settings;

/// Entries of the directory that are read; a larger one is not a directory in which somebody works by hand.
const ENTRIES_MAX: usize = 10_000;

const NAMES_MAX: usize = 5;

/// Bytes of a PEM file that are searched for a key. Keys come first or after a chain of certificates of some KiB.
const PEM_BYTES_MAX: u64 = 64 << 10;

/// Entries of each directory that are searched for programs. `check` may take its time; a start must not.
const SEARCHED_BY_CHECK_MAX: usize = 100_000;
const SEARCHED_AT_START_MAX: usize = 2_000;

pub(crate) fn program_warnings(settings: &Settings) -> Vec<String> {
    let advice = "run them by scripts = { \".php\" = \"php-cgi\" } (or what they are) in a route for their directory, or refuse them";
    describe(settings, SEARCHED_BY_CHECK_MAX, advice)
}

pub(crate) fn program_warnings_of_serve(settings: &Settings) -> Vec<String> {
    let advice = "`sluice serve` runs the programs in cgi-bin; others need a configuration with, for instance, scripts = { \".php\" = \"php-cgi\" }, or \
                  \"\" in place of \"php-cgi\" for programs that run themselves";
    describe(settings, SEARCHED_AT_START_MAX, advice)
}

fn describe(settings: &Settings, searched_max: usize, advice: &str) -> Vec<String> {
    let found = sluice_server::exposed_programs(settings, searched_max).unwrap_or_default();
    let line = |programs: &ExposedPrograms| {
        format!(
            "{}: clients can read the text of programs in {}: {}: {advice}",
            programs.origin,
            programs.directory.display(),
            listed(&programs.names, programs.count)
        )
    };
    found.iter().map(line).collect()
}

/// The first of so many names.
fn listed(names: &[String], count: usize) -> String {
    match count.saturating_sub(names.len()) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// A warning about files at the top of a directory that is served; `None` if there are none. `own_log` is not sent.
pub(crate) fn warning(directory: &Path, own_log: Option<&Path>) -> Option<String> {
    let (asked, own_log) = (directory.to_owned(), own_log.map(Path::to_owned));
    let look = move || private_names(&asked, own_log.as_deref());
    let mut names = deadline::ask(directory, look).ok()?;
    if names.is_empty() {
        return None;
    }
    names.sort();
    let shown = listed(&names[..names.len().min(NAMES_MAX)], names.len());
    let directory = directory.display();
    Some(format!(
        "clients can read {shown} in {directory}: serve another directory if they should not"
    ))
}

fn private_names(directory: &Path, own_log: Option<&Path>) -> io::Result<Vec<String>> {
    let entries = std::fs::read_dir(directory)?.take(ENTRIES_MAX).flatten();
    let files = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_file() && Some(path.as_path()) != own_log);
    let exposed = files.filter(|path| is_private(path));
    let names = exposed.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    Ok(names.collect())
}

fn is_private(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let name = name.to_ascii_lowercase();
    match name.rsplit_once('.') {
        // Names with a leading dot are not sent.
        Some(("", _)) => false,
        Some((_, "key" | "log")) => true,
        Some((_, "pem")) => has_private_key(path),
        _ => name == "sluice.toml",
    }
}

/// Whether a PEM file contains a private key, and not certificates alone, which may be published.
fn has_private_key(path: &Path) -> bool {
    let mut text = Vec::new();
    let read = open_regular(path).and_then(|file| file.take(PEM_BYTES_MAX).read_to_end(&mut text));
    read.is_ok() && String::from_utf8_lossy(&text).contains("PRIVATE KEY-----")
}
