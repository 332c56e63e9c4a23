//! `[log]` and `[site.log]`: access logs, and the server log.

use std::path::Path;

use sluice_settings::{AccessLog, LogFormat, LogLevel, LogTarget, ServerLog, Settings};

use super::document::{At, Document};
use super::file_kind::FileKind;
use super::key::{Key, Section, at_least};
use super::section::to_usize;
use super::table::{Table, Written, require_parent};

/// The keys about rotation.
const ROTATION: [&str; 3] = ["rotate", "rotate_size", "keep"];

/// `[log]` or `[site.log]` while it is read.
pub(super) struct Logs {
    pub(super) access: AccessLog,
    /// The server log, which only `[log]` has.
    pub(super) server: ServerLog,
    /// The key `diagnostics` as in the file.
    pub(super) diagnostics: Option<At<String>>,
}

impl Logs {
    /// The logs of a section that is empty.
    pub(super) fn new(access: AccessLog) -> Logs {
        Logs {
            access,
            server: ServerLog::default(),
            diagnostics: None,
        }
    }
}

/// Reports that the server log has the file of an access log, because each would rotate it without the other. `key` names the file.
pub(super) fn check_diagnostics(key: Option<At<String>>, settings: &Settings, document: &Document<'_>) {
    let of_sites = settings.sites.iter().filter_map(|site| site.log.as_ref());
    let mut logs = of_sites.chain([&settings.access_log]);
    let own = settings.server_log.file.as_ref();
    let is_shared = logs.any(|log| matches!(&log.target, LogTarget::File(file) if Some(file) == own));
    if let Some(key) = key.filter(|_| is_shared) {
        let message = format!("{}: is the file of an access log: name another", key.value);
        document.report(key.line, message);
    }
}

pub(super) static LOG: Section<Logs> = Section {
    title: "[log]",
    keys: &[
        ACCESS,
        FORMAT,
        ROTATE,
        ROTATE_SIZE,
        KEEP,
        Key::path("diagnostics", |log, file, written| {
            check_file(&file, written)?;
            log.server.file = Some(file);
            log.diagnostics = Some(written.shown());
            Ok(())
        }),
        Key::choice(
            "level",
            &[
                ("error", |log| log.server.level = LogLevel::Error),
                ("warn", |log| log.server.level = LogLevel::Warn),
                ("info", |log| log.server.level = LogLevel::Info),
                ("debug", |log| log.server.level = LogLevel::Debug),
            ],
        ),
        Key::flag("json", |log, is_json| log.server.is_json = is_json),
    ],
};

pub(super) static SITE_LOG: Section<Logs> = Section {
    title: "[site.log]",
    keys: &[ACCESS, FORMAT, ROTATE, ROTATE_SIZE, KEEP],
};

const ACCESS: Key<Logs> = Key::word_or_path(
    "access",
    &[
        ("-", |log| log.access.target = LogTarget::Stdout),
        ("off", |log| log.access.target = LogTarget::Off),
    ],
    |log, file, written| {
        check_file(&file, written)?;
        log.access.target = LogTarget::File(file);
        Ok(())
    },
);

const FORMAT: Key<Logs> = Key::text("format", |log, text, _| {
    log.access.format = LogFormat::parse(&text).map_err(|error| error.to_string())?;
    Ok(())
});

const ROTATE: Key<Logs> = Key::choice(
    "rotate",
    &[
        ("never", |log| log.access.rotation.is_daily = false),
        ("daily", |log| log.access.rotation.is_daily = true),
    ],
);

const ROTATE_SIZE: Key<Logs> = Key::size(
    "rotate_size",
    at_least(4096, "a file for every few lines helps nobody"),
    |log, size| {
        log.access.rotation.bytes_max = Some(size);
    },
);

const KEEP: Key<Logs> = Key::number(
    "keep",
    "files",
    at_least(1, "leave it out to keep all of them"),
    |log, files| log.access.rotation.keep = Some(to_usize(files)),
);

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
pub(super) fn stray_rotation(log: &Logs, table: &Table<'_>) -> Option<At<String>> {
    if matches!(log.access.target, LogTarget::File(_)) || log.server.file.is_some() {
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
            None => self.0.push(At::new(log.clone(), line)),
        }
    }
}

/// Checks that a file can be created or appended to.
fn check_file(file: &Path, written: &Written<'_>) -> Result<(), String> {
    let document = written.document();
    if written.table.title == SITE_LOG.title && document.files.source().tolerates(&[file]) {
        // The server reports it when it opens the file, and goes on.
        return Ok(());
    }
    require_parent(document, written.name, &written.at(file.to_path_buf()));
    match document.files.kind(file) {
        FileKind::Directory => Err("is a directory: name a file in it".to_owned()),
        _ => Ok(()),
    }
}
