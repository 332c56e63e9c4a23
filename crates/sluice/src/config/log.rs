//! `[log]` and `[site.log]`: access logs.
//!
//! Here: what a site takes from the server's log, files that cannot be a log, and rotation of logs that are not files. Not here:
//! the notation of formats (`sluice_settings::log_format`).

use std::path::Path;

use sluice_settings::{AccessLog, LogFormat, LogTarget};

use super::description::Fallback::{self, Value, Words};
use super::document::{At, FileKind};
use super::key::{Key, Kind, Section, at_least};
use super::section::to_usize;
use super::table::{Table, Written, require_parent};

/// The keys about rotation.
const ROTATION: [&str; 3] = ["rotate", "rotate_size", "keep"];

pub(super) static LOG: Section<AccessLog> = Section {
    title: "[log]",
    text: "The access log: one line for each exchange. See [Logs](../guides/logs.md).",
    keys: &[
        access(Value("\"-\""), "\"access.log\""),
        format(Value("\"combined\""), "\"json\""),
        rotate(Value("\"never\"")),
        rotate_size(Words("no limit")),
        keep(Words("all")),
    ],
};

pub(super) static SITE_LOG: Section<AccessLog> = Section {
    title: "[site.log]",
    text: "The access log of a site. Keys that are absent are taken from `[log]`.",
    keys: &[
        access(AS_SERVER, "\"example.org.log\""),
        format(AS_SERVER, "'%h %t \"%r\" %>s %B'"),
        rotate(AS_SERVER),
        rotate_size(AS_SERVER),
        keep(AS_SERVER),
    ],
};

const AS_SERVER: Fallback = Words("as in `[log]`");

const fn access(default: Fallback, example: &'static str) -> Key<AccessLog> {
    Key {
        name: "access",
        kind: Kind::WordOrPath(
            &[
                ("-", |log| log.target = LogTarget::Stdout),
                ("off", |log| log.target = LogTarget::Off),
            ],
            |log, file, written| {
                check_file(&file, written)?;
                log.target = LogTarget::File(file);
                Ok(())
            },
        ),
        default,
        text: "The file to which lines are appended, reopened on SIGUSR1; `-` for standard output; `off` for no log.",
        example,
    }
}

const fn format(default: Fallback, example: &'static str) -> Key<AccessLog> {
    Key {
        name: "format",
        kind: Kind::Text(|log, text, _| {
            log.format = LogFormat::parse(&text).map_err(|error| error.to_string())?;
            Ok(())
        }),
        default,
        text: "The format of a line: `common`, `combined` (Apache's, followed by the UNIQUE_ID of the exchange), `vhost-combined` (the \
               same after the site's name and port), `json` (one object per line), or a format string in the notation of Apache's \
               mod_log_config ([all directives](../guides/logs.md#format-strings)).",
        example,
    }
}

const fn rotate(default: Fallback) -> Key<AccessLog> {
    Key {
        name: "rotate",
        kind: Kind::Choice(&[
            ("never", |log| log.rotation.is_daily = false),
            ("daily", |log| log.rotation.is_daily = true),
        ]),
        default,
        text: "`daily` rotates the file at the first line after midnight: `access.log` is renamed to `access.log.20261121-235958`, the \
               time of its last line.",
        example: "\"daily\"",
    }
}

const fn rotate_size(default: Fallback) -> Key<AccessLog> {
    Key {
        name: "rotate_size",
        kind: Kind::Size(
            at_least(4096, "a file for every few lines helps nobody"),
            |log, size| {
                log.rotation.bytes_max = Some(size);
            },
        ),
        default,
        text: "The file is rotated before it would exceed this size.",
        example: "\"100MiB\"",
    }
}

const fn keep(default: Fallback) -> Key<AccessLog> {
    Key {
        name: "keep",
        kind: Kind::Number {
            unit: "files",
            bounds: at_least(1, "leave it out to keep all of them"),
            set: |log, files| log.rotation.keep = Some(to_usize(files)),
        },
        default,
        text: "How many rotated files are kept; older ones are removed.",
        example: "14",
    }
}

/// Reports `keep` in a log that is not rotated.
pub(super) fn check_keep(log: &AccessLog, table: &Table<'_>) {
    let rotation = &log.rotation;
    if !rotation.is_daily && rotation.bytes_max.is_none() && !table.has("rotate_size") {
        table.refuse(
            "keep",
            "the file is never rotated: add rotate = \"daily\" or rotate_size = \"100MiB\"",
        );
    }
}

/// A key about rotation in a log that is not a file.
pub(super) fn stray_rotation(log: &AccessLog, table: &Table<'_>) -> Option<At<String>> {
    if matches!(log.target, LogTarget::File(_)) {
        return None;
    }
    let written = ROTATION.into_iter().find_map(|name| table.written(name))?;
    Some(written.shown())
}

/// Completes the log of a site: reports rotation of the server's file in another way than the server's.
pub(super) fn check_site_log(log: &AccessLog, server: &AccessLog, table: &Table<'_>) {
    check_keep(log, table);
    let conflicts = log.target == server.target && log.rotation != server.rotation;
    if let Some(name) = ROTATION.into_iter().find(|name| table.has(name) && conflicts) {
        table.refuse(
            name,
            "the file is that of [log], which rotates it differently: remove this here",
        );
    }
}

/// The log files of the sites so far.
#[derive(Default)]
pub(super) struct SharedLogs(Vec<At<AccessLog>>);

impl SharedLogs {
    /// Reports a file that two sites rotate in different ways.
    pub(super) fn check(&mut self, log: Option<&AccessLog>, site: &Table<'_>) {
        let Some(log) = log.filter(|log| matches!(log.target, LogTarget::File(_))) else {
            return;
        };
        let line = site.line_of("log");
        match self.0.iter().find(|earlier| earlier.value.target == log.target) {
            Some(earlier) if earlier.value.rotation != log.rotation => {
                let message = format!(
                    "log: the file is that of the site on {}, which rotates it differently: write the same there",
                    site.document.shown_line(earlier.line)
                );
                site.document.report(line, message);
            }
            Some(_) => {}
            None => self.0.push(At {
                value: log.clone(),
                line,
            }),
        }
    }
}

/// Checks that a file can be created or appended to.
fn check_file(file: &Path, written: &Written<'_>) -> Result<(), String> {
    let document = written.document();
    require_parent(document, written.name, &written.at(file.to_path_buf()));
    match (document.inspect)(file) {
        FileKind::Directory => Err("is a directory: name a file in it".to_owned()),
        _ => Ok(()),
    }
}
