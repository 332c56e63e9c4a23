//! `[[site.route]].script`: which program runs, and how.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sluice_settings::{Mailbox, Mode, RequestBody, ScriptSettings, ScriptSource};

use super::document::At;
use super::engine::{
    APP, ENGINE, FRESH, PHP_ADMIN_VALUE, PHP_VALUE, VIRTUALENV, check_app, check_engines, report_missing_engines,
};
use super::interpreters::{INTERPRETERS, require_program, require_source};
use super::key::{ANY, Bounds, Key, Section, at_least, between, set};
use super::pool::{
    IDLE, LIFETIME, MAX, MEMORY_SOFT, MIN, PROCESSES, PROCTOR, QUEUE, QUEUE_TIMEOUT, REQUESTS, REQUESTS_PER_CLIENT,
    check_pool,
};
use super::route_lint::SiteRoot;
use super::script_draft::Draft;
use super::script_limits::{
    CGROUP_CPU, CGROUP_CPU_WEIGHT, CGROUP_MEMORY, CGROUP_PROCESSES, CHROOT, CPU_TIME, FILE_SIZE, IO_PRIORITY,
    MEMORY_MAX, NETWORK, NICE, OPEN_FILES, PRIVATE_TMP, READ, UMASK, USER_PROCESSES, WORKING_DIRECTORY, WRITE,
    check_confinement,
};
use super::section::to_usize;
use super::table::{Table, Written, expect_directory, require_star, set_directory};
use super::users::{RUN_AS, check_user};
use super::variables::{ENVIRONMENT, INHERIT, VARIABLE_PREFIX};
use super::watch::WATCH;

impl Draft {
    /// The settings of scripts among files, which are found by the keys of their route.
    pub(super) fn finish_among_files(self, table: &Table<'_>) -> ScriptSettings {
        if self.is_mode_known || !table.has("mode") {
            check_mode(&self.settings, table, "scripts");
        }
        for name in ["directory", "file"] {
            table.refuse(
                name,
                "scripts of the route says which files are run: remove this, and write directory = \"…\" in the route",
            );
        }
        table.refuse(
            "app",
            "scripts of the route says which files are run: make a route of its own for the application",
        );
        table.refuse(
            "interpreters",
            "write the interpreters into scripts of the route, as in scripts = { \".php\" = \"php-cgi\" }",
        );
        self.settings
    }

    /// `None` if it is not clear which program runs; that has been reported.
    pub(super) fn finish(self, path: Option<&At<String>>, root: SiteRoot, table: &Table<'_>) -> Option<ScriptSettings> {
        // What an unknown mode would forbid is not known.
        if self.is_mode_known || !table.has("mode") {
            check_mode(&self.settings, table, "interpreters");
        }
        let mut settings = self.settings;
        settings.engines.sdk = table.document.sdk();
        let key = if table.has("engine") { "engine" } else { "interpreters" };
        report_missing_engines(&settings, table.document, table.line_of(key));
        settings.source = match (self.directory, self.file) {
            _ if table.has("directory") && table.has("file") => {
                let message = "the script has a directory already; keep directory for many programs, file for one";
                table.refuse("file", message);
                return None;
            }
            (Some(directory), _) => {
                if let Some(path) = path {
                    require_star(table.document, path, "scripts");
                }
                match settings.engines.app.clone() {
                    Some(name) => {
                        check_app(&settings, &directory, &name, table);
                        ScriptSource::App { directory, name }
                    }
                    None => ScriptSource::Directory(directory),
                }
            }
            (None, None) if table.has("app") => {
                let message =
                    "in which directory is it? Add directory = \"…\", from which the application loads its modules";
                table.refuse("app", message);
                return None;
            }
            (None, Some(file)) => {
                table.refuse("app", "an application has directory = \"…\" instead of file");
                if settings.mode.has_engine() {
                    require_source(table.document, "file", &file);
                } else {
                    require_program(table.document, "file", &file, &settings.interpreters);
                }
                ScriptSource::File(file.value)
            }
            _ if table.has("directory") || table.has("file") => return None,
            _ => source_in_root(path?, root, table)?,
        };
        check_confinement(&settings, table);
        Some(settings)
    }
}

/// A script without `directory` and `file` is a file of the site, such as `*.cgi`.
fn source_in_root(path: &At<String>, root: SiteRoot, table: &Table<'_>) -> Option<ScriptSource> {
    if path.value.starts_with('/') {
        table.report(&format!(
            "[[site.route]].script does not say which program runs for \"{}\": give it directory = \"cgi-bin\" or file = \"…\"",
            path.value
        ));
        return None;
    }
    if root == SiteRoot::Absent {
        let message = format!(
            "path = \"{}\": means scripts among the site's files, but the site has no root: give it root = \"htdocs\"",
            path.value
        );
        table.document.report(path.line, message);
    }
    Some(ScriptSource::Root)
}

/// Reports values that do not go with the mode, or with each other; `key` names interpreters and engines by suffix.
fn check_mode(script: &ScriptSettings, table: &Table<'_>, key: &'static str) {
    check_engines(script, table, key);
    if script.mode.keeps_process() && script.request_body == RequestBody::Stream {
        let message = "only a cgi script can do without CONTENT_LENGTH, because a process that serves further requests sees no end of its input: write \"spool\"";
        table.refuse("request_body", message);
    }
    if script.mode.keeps_process() && script.passes_arguments {
        let message =
            "only a cgi script is started for each request and has arguments: remove it, or write mode = \"cgi\"";
        table.refuse("arguments", message);
    }
    if !script.mode.keeps_process() && script.reload_on.is_some() {
        table.refuse(
            "watch",
            "a cgi script is started for each request and always loads what is there: remove it, or write mode = \"cgiplus\"",
        );
    }
    check_pool(script, table);
    check_user(script, table);
}

/// The bounds of a time that scripts have.
const SCRIPT_TIME: Bounds = at_least(1, "no script is that fast");

pub(super) static SCRIPT: Section<Draft> = Section {
    title: "[[site.route]].script",
    keys: &[
        Key::path("directory", |script, path, written| {
            set_directory(&mut script.directory, path, written)
        }),
        Key::path("file", |script, path, written| set(&mut script.file, written.at(path))),
        // The one place that lists the modes by name.
        Key::choice(
            "mode",
            &[
                (Mode::Cgi.name(), |script| script.set_mode(Mode::Cgi)),
                (Mode::Cgiplus.name(), |script| script.set_mode(Mode::Cgiplus)),
                (Mode::Rte.name(), |script| script.set_mode(Mode::Rte)),
            ],
        ),
        ENGINE,
        INTERPRETERS,
        APP,
        FRESH,
        VIRTUALENV,
        PHP_VALUE,
        PHP_ADMIN_VALUE,
        Key::pairs("send_files", |script, pairs, written| {
            set(&mut script.settings.send_files, read_send_files(pairs, written))
        }),
        Key::choice(
            "mailbox",
            &[
                ("stream", |script| script.settings.output.mailbox = Mailbox::Stream),
                ("record", |script| script.settings.output.mailbox = Mailbox::Record),
                ("pipe", |script| script.settings.output.mailbox = Mailbox::Pipe),
            ],
        ),
        Key::size(
            "record_size",
            between(512, 128 << 10, "for more at once use a stream or the memory buffer"),
            |script, size| script.settings.output.record_bytes_max = to_usize(size),
        ),
        Key::choice(
            "request_body",
            &[
                ("spool", |script| script.settings.request_body = RequestBody::Spool),
                ("stream", |script| script.settings.request_body = RequestBody::Stream),
            ],
        ),
        Key::flag("arguments", |script, is_on| script.settings.passes_arguments = is_on),
        VARIABLE_PREFIX,
        ENVIRONMENT,
        INHERIT,
        Key::duration("reply_timeout", SCRIPT_TIME, |script, timeout| {
            script.settings.timeouts.reply = timeout;
        }),
        Key::duration("output_timeout", SCRIPT_TIME, |script, timeout| {
            script.settings.timeouts.output = timeout;
        }),
        Key::duration(
            "deadline",
            at_least(1, "leave it out for no deadline"),
            |script, deadline| {
                script.settings.timeouts.deadline = Some(deadline);
            },
        ),
        Key::duration("client_grace", ANY, |script, grace| {
            script.settings.timeouts.client_grace = Some(grace);
        }),
        Key::duration("kill_grace", ANY, |script, grace| {
            script.settings.timeouts.kill_grace = grace;
        }),
        MAX,
        PROCESSES,
        MIN,
        PROCTOR,
        WATCH,
        IDLE,
        REQUESTS,
        LIFETIME,
        MEMORY_SOFT,
        QUEUE,
        QUEUE_TIMEOUT,
        REQUESTS_PER_CLIENT,
        Key::size(
            "head_size",
            between(1 << 10, 16 << 20, "a head is a few lines, and it is held in memory"),
            |script, size| script.settings.output.head_bytes_max = to_usize(size),
        ),
        Key::size("memory_buffer_max", ANY, |script, size| {
            script.settings.output.memory_buffer_max = size;
        }),
        RUN_AS,
        CPU_TIME,
        MEMORY_MAX,
        OPEN_FILES,
        USER_PROCESSES,
        FILE_SIZE,
        CGROUP_MEMORY,
        CGROUP_PROCESSES,
        CGROUP_CPU,
        CGROUP_CPU_WEIGHT,
        NICE,
        IO_PRIORITY,
        UMASK,
        WORKING_DIRECTORY,
        PRIVATE_TMP,
        CHROOT,
        READ,
        WRITE,
        NETWORK,
    ],
};

/// Directories by the path prefix under which scripts name their files.
fn read_send_files(pairs: Vec<(String, At<String>)>, written: &Written<'_>) -> BTreeMap<String, PathBuf> {
    let document = written.document();
    document.each_pair(pairs, |prefix, directory| {
        let key = format!("send_files: \"{}\"", prefix.escape_debug());
        let mistake = if !prefix.starts_with('/') || !prefix.ends_with('/') {
            "a path begins and ends with a slash, as in \"/protected/\""
        } else if !is_plain(prefix) {
            "a path has no empty segment, \".\", \"..\" or NUL"
        } else if directory.value.is_empty() || directory.value.contains('\0') {
            "needs the path of a directory"
        } else {
            let path = At::new(document.resolve(directory.line, &directory.value), directory.line);
            expect_directory(document, &key, &path);
            return Ok(path.value);
        };
        Err(format!("{key}: {mistake}"))
    })
}

/// Whether a decoded path can begin with this prefix, which begins and ends with a slash.
fn is_plain(prefix: &str) -> bool {
    let segments = prefix.trim_start_matches('/').split_terminator('/');
    !prefix.starts_with("//")
        && !prefix.contains('\0')
        && segments.into_iter().all(|segment| !matches!(segment, "" | "." | ".."))
}
