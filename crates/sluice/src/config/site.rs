//! `[[site]]`: from sections of the file to the server's settings of virtual hosts.
//!
//! Here: hosts, root and index. Not here: what paths mean (`route`), what the server itself shows (`pages`), the site's log
//! (`log`).

use std::path::PathBuf;

use sluice_settings::rule::{check_bracketed, covers};
use sluice_settings::{AccessLog, CompressionSettings, SiteSettings};

use super::listen;
use super::mistake::{At, Document, Found};
use super::section::Section;
use super::{compression, log, pages, route};

/// Names of files that are tried for a folder when a site does not say.
pub(crate) const INDEX: &str = "index.html";

/// Reads all sites and finds hosts that two of them claim.
pub(crate) fn read_all(
    document: &Document<'_>,
    sections: &[Section<'_>],
    log: &AccessLog,
    compression: &CompressionSettings,
) -> Vec<SiteSettings> {
    let mut claimed: Vec<At<String>> = Vec::new();
    let mut open_to_all: Option<usize> = None;
    let mut shared_logs = log::Shared::default();
    let mut sites = Vec::new();
    for section in sections {
        let hosts = read_hosts(section);
        if hosts.is_empty() && !section.has("hosts") {
            match open_to_all {
                Some(line) => document.complain(
                    section.line,
                    format!("[[site]] without hosts stands for any host, as the one on line {line} does: give it hosts = [\"example.org\"]"),
                ),
                None => open_to_all = Some(section.line),
            }
        }
        refuse_swallowed(document, &claimed, &hosts);
        for host in &hosts {
            match claimed.iter().find(|earlier| earlier.value == host.value) {
                Some(earlier) if earlier.line == host.line => {
                    document.complain(host.line, format!("host \"{}\" is named twice: remove one", host.value));
                }
                Some(earlier) => document.complain(
                    host.line,
                    format!(
                        "host \"{}\" is already named on line {}: a host belongs to one site",
                        host.value, earlier.line
                    ),
                ),
                None => claimed.push(host.clone()),
            }
        }
        let site = read(section, hosts, log, compression);
        shared_logs.check(section, site.log.as_ref());
        sites.push(site);
    }
    sites
}

/// Notes names with a star that a star of an earlier site stands for already: the first that fits decides.
fn refuse_swallowed(document: &Document<'_>, claimed: &[At<String>], hosts: &[At<String>]) {
    for host in hosts.iter().filter(|host| host.value.starts_with('*')) {
        let swallows = |earlier: &&At<String>| earlier.value != host.value && covers(&earlier.value, &host.value);
        if let Some(earlier) = claimed.iter().find(swallows) {
            let message = format!(
                "host \"{}\": is never reached, because \"{}\" on line {} comes first: put this site above that one",
                host.value, earlier.value, earlier.line
            );
            document.complain(host.line, message);
        }
    }
}

fn read(
    section: &Section<'_>,
    hosts: Vec<At<String>>,
    log: &AccessLog,
    compression: &CompressionSettings,
) -> SiteSettings {
    let document = section.document;
    let compression = compression::read_site(section, compression);
    let root = section.path("root");
    if let Some(root) = &root {
        require_folder(document, "root", root);
    }
    let has_root = section.has("root");
    let sections = section.tables("route");
    let routes = route::read_all(document, &sections, has_root, &compression);
    if !has_root && sections.is_empty() {
        let message = "[[site]] serves nothing: give it files, root = \"htdocs\", or a [[site.route]]";
        document.complain(section.line, message);
    }
    SiteSettings {
        origin: document.origin(section.line),
        hosts: hosts.into_iter().map(|host| host.value).collect(),
        root: root.map(|root| root.value),
        identity: section.table("tls").and_then(|tls| listen::read_identity(&tls)),
        hsts: section.duration("hsts").map(|hsts| hsts.value),
        index: read_index(section),
        routes,
        files: pages::read_files(section),
        compression,
        errors: pages::read_errors(section),
        log: log::read_site(section, log),
    }
}

/// The host names, in lower case; those that cannot be one are noted and left out.
fn read_hosts(section: &Section<'_>) -> Vec<At<String>> {
    let hosts = section.texts("hosts");
    if hosts.as_ref().is_some_and(Vec::is_empty) {
        section.refuse("hosts", "an empty list names no host; leave hosts out for any host");
    }
    let mut good = Vec::new();
    for host in hosts.unwrap_or_default() {
        match check_host(&host.value) {
            Ok(()) => good.push(At {
                value: host.value.to_lowercase(),
                line: host.line,
            }),
            Err(message) => section
                .document
                .complain(host.line, format!("host \"{}\": {message}", host.value)),
        }
    }
    good
}

fn check_host(host: &str) -> Result<(), String> {
    if let Some((_, after)) = host.split_once("://") {
        let name = after.split('/').next().unwrap_or_default();
        return Err(format!("a host is a name alone: write \"{name}\""));
    }
    if host.starts_with('[') {
        return check_bracketed("", host);
    }
    if let Some((name, _)) = host.split_once(':') {
        return Err(format!("a host is written without port: write \"{name}\""));
    }
    if host == "*" {
        return Err("leave hosts out for any host".into());
    }
    if let Some(name) = host.strip_suffix('.').filter(|name| !name.is_empty()) {
        return Err(format!(
            "a host is compared without the dot at its end: write \"{name}\""
        ));
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    if name.contains('*') {
        return Err("\"*\" may only stand before the first dot, as in \"*.example.org\"".into());
    }
    if !name.is_ascii() {
        return Err("browsers send such a name in its ASCII form: write that, \"xn--…\"".into());
    }
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_letter) {
        return Err("a host name has letters, digits, \"-\" and \".\"".into());
    }
    Ok(())
}

fn read_index(section: &Section<'_>) -> Vec<String> {
    let Some(names) = section.texts("index") else {
        return vec![INDEX.to_owned()];
    };
    for name in &names {
        if name.value.is_empty() || name.value.contains('/') || [".", ".."].contains(&name.value.as_str()) {
            let message = format!("index \"{}\": must be the name of a file within the folder", name.value);
            section.document.complain(name.line, message);
        }
    }
    names.into_iter().map(|name| name.value).collect()
}

/// Notes a folder that is not there.
pub(crate) fn require_folder(document: &Document<'_>, name: &str, path: &At<PathBuf>) {
    let shown = path.value.display();
    match (document.look)(&path.value) {
        Found::Folder => {}
        Found::Nothing(reason) => {
            document.complain(
                path.line,
                format!("{name}: no folder {shown} ({reason}): make it or mend the path"),
            );
        }
        _ => document.complain(
            path.line,
            format!("{name}: {shown} is no folder: name the folder that holds it"),
        ),
    }
}
