//! The configuration: from a file in TOML to the server's settings, or to every mistake in it with its line and mend.
//!
//! ```text
//! file → document (text, lines, mistakes) → sections checked against `keys` → sites, routes, scripts → Settings
//!                                                └→ reference page                                   └→ describe
//! ```
//! Nothing here opens a socket or starts anything: reading a configuration is safe while a server runs from an older one.

mod compression;
mod describe;
mod keys;
mod listen;
mod log;
mod mistake;
mod pages;
mod pattern;
mod reach;
mod reference;
mod route;
mod rule;
mod script;
mod section;
mod server;
mod site;
mod suggest;
#[cfg(test)]
mod tests;
mod value;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::Path;

use sluice_settings::limits::Limits;
use sluice_settings::{CacheSettings, ListenAddress, Settings};
use toml::de::DeTable;

pub(crate) use describe::{describe, summary};
pub(crate) use mistake::{ConfigErrors, reason};
pub(crate) use reference::reference;
pub(crate) use site::INDEX;
pub(crate) use value::parse_address;

use mistake::{Document, Found};
use script::put;
use section::Section;

/// Where a server listens that was not told: this machine alone.
pub(crate) const LISTEN: ListenAddress = ListenAddress::Inet(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080));

/// Reads a configuration and checks that the folders and files it names exist.
///
/// # Errors
/// Every mistake in the file, in the order of its lines; the user's to mend.
pub(crate) fn load(path: &Path) -> Result<Settings, ConfigErrors> {
    let name = path.display().to_string();
    let refuse = |reason: String| ConfigErrors::one(format!("{name}: {reason}"));
    let bytes = std::fs::read(path).map_err(|error| refuse(format!("cannot be read: {}", reason(&error))))?;
    let absolute =
        std::path::absolute(path).map_err(|error| refuse(format!("has no absolute path: {}", reason(&error))))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        ConfigErrors::one(format!("{name}:{line}: is no UTF-8 text: save the file in UTF-8"))
    })?;
    let folder = absolute.parent().unwrap_or(Path::new("/"));
    interpret(Document::new(&name, &text, folder, &Found::at))
}

/// The threads of a server that was not told: one for each processor this process may use.
pub(crate) fn default_workers() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Makes settings from a document, or tells its mistakes.
fn interpret(document: Document<'_>) -> Result<Settings, ConfigErrors> {
    let (table, errors) = DeTable::parse_recoverable(document.text);
    if !errors.is_empty() {
        complain_of_syntax(&document, &errors);
        // What could be read around such mistakes would only bring false ones.
        return Err(document.finish(()).expect_err("a mistake was noted"));
    }
    let table = table.into_inner();
    let settings = read(&document, &table);
    document.finish(settings)
}

fn read<'a>(document: &'a Document<'a>, table: &'a DeTable<'a>) -> Settings {
    let root = Section::open(document, &keys::ROOT, table, 0);
    let sites = root.tables("site");
    let listed = table.get("site").map(|list| list.get_ref().as_array());
    if listed.is_none_or(|list| list.is_some_and(|items| items.is_empty())) {
        document.complain(
            0,
            "has no [[site]], so nothing would be served: add [[site]] and root = \"htdocs\" below it",
        );
    }
    let access_log = log::read(&root, &sites);
    let server = server::read(&root);
    Settings {
        listen: listen::read_all(&root),
        workers: server.workers,
        proxies: server.proxies,
        dns: server.dns,
        sites: site::read_all(document, &sites, &access_log, &compression::read(&root)),
        limits: root
            .table("limits")
            .map_or_else(Limits::default, |limits| read_limits(&limits)),
        cache: root
            .table("cache")
            .map_or_else(|| Some(CacheSettings::default()), |cache| read_cache(&cache)),
        access_log,
    }
}

/// None where the cache is switched off.
fn read_cache(section: &Section<'_>) -> Option<CacheSettings> {
    let mut cache = CacheSettings::default();
    put(&mut cache.bytes_max, section.size("size"));
    put(&mut cache.entries_max, section.number("files"));
    put(&mut cache.file_bytes_max, section.size("file_size"));
    put(&mut cache.revalidate_after, section.duration("revalidate"));
    (cache.bytes_max > 0).then_some(cache)
}

fn read_limits(section: &Section<'_>) -> Limits {
    let mut limits = Limits::default();
    put(&mut limits.connections_max, section.number("connections"));
    put(&mut limits.head_bytes_max, section.size("head_size"));
    put(&mut limits.head_fields_max, section.number("head_fields"));
    put(&mut limits.body_bytes_max, section.size("body_size"));
    put(&mut limits.head_timeout, section.duration("head_timeout"));
    put(&mut limits.body_timeout, section.duration("body_timeout"));
    put(&mut limits.body_bytes_per_second_min, section.size("body_rate"));
    put(&mut limits.send_timeout, section.duration("send_timeout"));
    put(&mut limits.drain_timeout, section.duration("drain_timeout"));
    limits
}

/// Notes what the TOML reader could not read, one mistake a line.
fn complain_of_syntax(document: &Document<'_>, errors: &[toml::de::Error]) {
    let mut lines = Vec::new();
    for error in errors {
        let span = error.span().unwrap_or_default();
        let line = document.line(span.start);
        if lines.contains(&line) {
            continue;
        }
        lines.push(line);
        let message = match error.message() {
            "duplicate key" => format!("{} stands there twice: remove one", document.excerpt(span)),
            "string values must be quoted, expected literal string" => {
                let shown = document.excerpt(span);
                format!("{shown}: a text is written in quotes: \"{shown}\"")
            }
            other => format!("cannot be read as TOML: {other}"),
        };
        document.complain(line, message);
    }
}
