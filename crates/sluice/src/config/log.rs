//! `[log]` and `[site.log]`: from sections of the file to the server's settings of access logs.
//!
//! Here: what a site's log has from the server's, files that cannot be one, and rotation of what cannot be rotated. Not here:
//! the notation of formats (the server's `log_format`).

use std::path::{Path, PathBuf};

use sluice_settings::{AccessLog, LogFormat, LogTarget, Rotation};

use super::mistake::{At, Found};
use super::section::Section;
use super::site::require_folder;

/// The keys that are about rotation.
const ROTATION: [&str; 3] = ["rotate", "rotate_size", "keep"];

/// Reads the server's log; `sites` may have their own.
pub(crate) fn read(root: &Section<'_>, sites: &[Section<'_>]) -> AccessLog {
    let mut log = AccessLog::new(LogTarget::Stdout);
    if root.is_off("log") {
        log.target = LogTarget::Off;
    } else if let Some(section) = root.table("log") {
        read_keys(&section, &mut log);
        let is_file = matches!(log.target, LogTarget::File(_)) || sites.iter().any(|site| site.has("log"));
        if let Some(name) = ROTATION.into_iter().find(|name| section.has(name) && !is_file) {
            section.refuse(name, "only a file can be rotated: add access = \"access.log\"");
        }
    }
    log
}

/// Reads the log of a site; none if it has none of its own.
pub(crate) fn read_site(site: &Section<'_>, server: &AccessLog) -> Option<AccessLog> {
    let mut log = server.clone();
    if site.is_off("log") {
        log.target = LogTarget::Off;
        return Some(log);
    }
    let section = site.table("log")?;
    read_keys(&section, &mut log);
    let is_otherwise = log.target == server.target && log.rotation != server.rotation;
    if let Some(name) = ROTATION.into_iter().find(|name| section.has(name) && is_otherwise) {
        section.refuse(
            name,
            "the file is that of [log], where it is rotated otherwise: remove it here",
        );
    }
    Some(log)
}

/// The logs of sites so far, by their files.
#[derive(Default)]
pub(crate) struct Shared(Vec<At<AccessLog>>);

impl Shared {
    /// Notes a file that two sites would rotate in different ways.
    pub(crate) fn check(&mut self, site: &Section<'_>, log: Option<&AccessLog>) {
        let Some(log) = log.filter(|log| matches!(log.target, LogTarget::File(_))) else {
            return;
        };
        let line = site.line_of("log");
        let shares = |earlier: &&At<AccessLog>| earlier.value.target == log.target;
        match self.0.iter().find(shares) {
            Some(earlier) if earlier.value.rotation != log.rotation => {
                let message = format!(
                    "log: the file is that of the site on line {}, where it is rotated otherwise: write the same there",
                    earlier.line
                );
                site.document.complain(line, message);
            }
            Some(_) => {}
            None => self.0.push(At {
                value: log.clone(),
                line,
            }),
        }
    }
}

/// Puts in what the section has.
fn read_keys(section: &Section<'_>, log: &mut AccessLog) {
    if let Some(access) = section.text("access") {
        log.target = match access.value.as_str() {
            "-" => LogTarget::Stdout,
            "off" => LogTarget::Off,
            _ => LogTarget::File(read_file(section)),
        };
    }
    if let Some(format) = section.text("format") {
        match LogFormat::parse(&format.value) {
            Ok(format) => log.format = format,
            Err(mistake) => section.refuse("format", &mistake.to_string()),
        }
    }
    read_rotation(section, &mut log.rotation);
}

fn read_rotation(section: &Section<'_>, rotation: &mut Rotation) {
    if let Some(rotate) = section.choice("rotate") {
        rotation.is_daily = rotate.value == "daily";
    }
    if let Some(size) = section.size("rotate_size") {
        rotation.bytes_max = Some(size.value);
    }
    if let Some(keep) = section.number("keep") {
        rotation.keep = Some(keep.value);
    }
    if section.has("keep") && !rotation.is_daily && rotation.bytes_max.is_none() && !section.has("rotate_size") {
        section.refuse(
            "keep",
            "no file is put aside: add rotate = \"daily\" or rotate_size = \"100MiB\"",
        );
    }
}

/// The file of a log: it is made when it is missing, its folder is not.
fn read_file(section: &Section<'_>) -> PathBuf {
    let Some(file) = section.path("access") else {
        return PathBuf::new();
    };
    if let Some(folder) = file.value.parent().map(Path::to_owned) {
        let folder = At {
            value: folder,
            line: file.line,
        };
        require_folder(section.document, "access", &folder);
    }
    if (section.document.look)(&file.value) == Found::Folder {
        section.refuse("access", "is a folder: name a file in it");
    }
    file.value
}
