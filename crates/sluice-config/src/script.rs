//! `[[site.route]].script`: which program runs, and how.
//!
//! Here: the keys of a script, and how they go together. Not here: the names of variables (`variables`), interpreters and
//! programs (`interpreters`), engines (`engine`), processes (`pool`), what a process may use (`script_limits`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use sluice_settings::{Mailbox, Mode, RequestBody, ScriptSettings, ScriptSource};

use super::description::Fallback::{Value, Words};
use super::document::At;
use super::engine::{
    APP, ENGINE, FRESH, PHP_ADMIN_VALUE, PHP_VALUE, VIRTUALENV, check_app, check_engines, report_missing_engines,
};
use super::interpreters::{INTERPRETERS, require_program, require_source};
use super::key::{ANY, Bounds, Key, Kind, Section, at_least};
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
use super::table::{Table, Written, expect_directory, require_star};
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

pub(super) static SCRIPT: Section<Draft> = Section {
    title: "[[site.route]].script",
    text: "Runs a script. `directory` or `file` names it; a pattern such as `*.cgi` needs neither. Each script of a route has a process \
           pool and a queue of its own.",
    keys: &[
        DIRECTORY,
        FILE,
        MODE,
        ENGINE,
        INTERPRETERS,
        APP,
        FRESH,
        VIRTUALENV,
        PHP_VALUE,
        PHP_ADMIN_VALUE,
        SEND_FILES,
        MAILBOX,
        RECORD_SIZE,
        REQUEST_BODY,
        ARGUMENTS,
        VARIABLE_PREFIX,
        ENVIRONMENT,
        INHERIT,
        REPLY_TIMEOUT,
        OUTPUT_TIMEOUT,
        DEADLINE,
        CLIENT_GRACE,
        KILL_GRACE,
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
        HEAD_SIZE,
        MEMORY_BUFFER_MAX,
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

const DIRECTORY: Key<Draft> = Key {
    name: "directory",
    kind: Kind::Path(|script, path, written| {
        expect_directory(written.document(), written.name, &written.at(path.clone()));
        script.directory = Some(path);
        Ok(())
    }),
    default: Words("none"),
    text: "The directory of the scripts: the path names a file below it, and the rest of the path is PATH_INFO.",
    example: "\"cgi-bin\"",
};

const FILE: Key<Draft> = Key {
    name: "file",
    kind: Kind::Path(|script, path, written| {
        script.file = Some(written.at(path));
        Ok(())
    }),
    default: Words("none"),
    text: "One program for every path that matches. If the pattern ends with its only `*`, the path is split: PATH_INFO begins at the first \
           slash after the text before the `*` (with `/app/*`, the path `/app/x` is split into `/app` and `/x`). With any other pattern \
           the whole path is SCRIPT_NAME.",
    example: "\"bin/wiki\"",
};

/// The one place that lists the modes by name.
const MODE: Key<Draft> = Key {
    name: "mode",
    kind: Kind::Choice(&[
        (Mode::Cgi.name(), |script| script.set_mode(Mode::Cgi)),
        (Mode::Cgiplus.name(), |script| script.set_mode(Mode::Cgiplus)),
        (Mode::Rte.name(), |script| script.set_mode(Mode::Rte)),
    ]),
    default: Value("\"cgi\""),
    text: "`cgi` starts a process for each request; `cgiplus` keeps the process and gives it one request after the other; \
           `rte` keeps an interpreter, the `engine`, and runs many scripts in it ([RTE](../guides/rte.md)).",
    example: "\"cgiplus\"",
};

const SEND_FILES: Key<Draft> = Key {
    name: "send_files",
    kind: Kind::Pairs(|script, pairs, written| {
        script.settings.send_files = read_send_files(pairs, written);
        Ok(())
    }),
    default: Words("none: a reply with `X-Sendfile` or `X-Accel-Redirect` is an error (502)"),
    text: "Directories of files that the server may send instead of a script's body, each with a path of its own. The script names the \
           file with `X-Accel-Redirect: /protected/a.pdf` or `X-Sendfile: /srv/private/a.pdf` in the head of its reply. Clients cannot request these paths.",
    example: "{ \"/protected/\" = \"/srv/private\" }",
};

const MAILBOX: Key<Draft> = Key {
    name: "mailbox",
    kind: Kind::Choice(&[
        ("stream", |script| script.settings.output.mailbox = Mailbox::Stream),
        ("record", |script| script.settings.output.mailbox = Mailbox::Record),
        ("pipe", |script| script.settings.output.mailbox = Mailbox::Pipe),
    ]),
    default: Value("\"stream\""),
    text: "The channel for output. `stream` passes bytes unchanged. With `record` each write is a record, and records of text are lines: \
           they get a newline if they have none. Full output buffers of programs are recognized and get no newline. `pipe` is for scripts that open their output by a name, as \
           `tee /dev/stdout` does: the other two are sockets, for which that fails (`No such device or address`). It is slower.",
    example: "\"record\"",
};

const RECORD_SIZE: Key<Draft> = Key {
    name: "record_size",
    kind: Kind::Size(
        Bounds {
            least: 512,
            most: 128 << 10,
            hint: "for more at once use a stream or the memory buffer",
        },
        |script, size| script.settings.output.record_bytes_max = to_usize(size),
    ),
    default: Value("\"64KiB\""),
    text: "Largest record of a record mailbox; scripts get it as WWW_GATEWAY_MRS. A larger one is an error (502).",
    example: "\"16KiB\"",
};

const REQUEST_BODY: Key<Draft> = Key {
    name: "request_body",
    kind: Kind::Choice(&[
        ("spool", |script| script.settings.request_body = RequestBody::Spool),
        ("stream", |script| script.settings.request_body = RequestBody::Stream),
    ]),
    default: Value("\"spool\""),
    text: "How a script gets a request body without a length: `spool` stores it first, so that CONTENT_LENGTH is exact; `stream` passes it on \
           as it arrives, without CONTENT_LENGTH (`cgi` only).",
    example: "\"stream\"",
};

const ARGUMENTS: Key<Draft> = Key {
    name: "arguments",
    kind: Kind::Flag(|script, is_on| script.settings.passes_arguments = is_on),
    default: Value("false"),
    text: "Whether the keywords of an ISINDEX query (`?word+word`, without `=`) become command line arguments, as in RFC 3875 §4.4 (`cgi` \
           only). Many programs treat an argument as the name of a file, and Perl's `<>` even as a command, so use it only for scripts \
           that expect it. The keywords are always in `WWW_KEY_1`, `WWW_KEY_2` and so on.",
    example: "true",
};

const REPLY_TIMEOUT: Key<Draft> = Key {
    name: "reply_timeout",
    kind: Kind::Duration(at_least(1, "no script is that fast"), |script, timeout| {
        script.settings.timeouts.reply = timeout;
    }),
    default: Value("\"1m\""),
    text: "Longest wait for the head of a reply. After it: 504, and the process is killed with all its children.",
    example: "\"10s\"",
};

const OUTPUT_TIMEOUT: Key<Draft> = Key {
    name: "output_timeout",
    kind: Kind::Duration(at_least(1, "no script is that fast"), |script, timeout| {
        script.settings.timeouts.output = timeout;
    }),
    default: Value("\"5m\""),
    text: "Longest time without output in the body of a reply. After it the response is aborted and the process is killed.",
    example: "\"1h\"",
};

const DEADLINE: Key<Draft> = Key {
    name: "deadline",
    kind: Kind::Duration(at_least(1, "leave it out for no deadline"), |script, deadline| {
        script.settings.timeouts.deadline = Some(deadline);
    }),
    default: Words("none"),
    text: "Longest time for a whole exchange. After it: 504, or the response is aborted if it has begun; the process is killed.",
    example: "\"10m\"",
};

const CLIENT_GRACE: Key<Draft> = Key {
    name: "client_grace",
    kind: Kind::Duration(ANY, |script, grace| script.settings.timeouts.client_grace = Some(grace)),
    default: Words("5 s in modes that keep processes; in mode `cgi` a script is stopped at once"),
    text: "How long a script may continue after its client has disconnected; its output is discarded. Then it is stopped.",
    example: "\"30s\"",
};

const KILL_GRACE: Key<Draft> = Key {
    name: "kill_grace",
    kind: Kind::Duration(ANY, |script, grace| script.settings.timeouts.kill_grace = grace),
    default: Value("\"2s\""),
    text: "Time between SIGTERM and SIGKILL.",
    example: "\"10s\"",
};

const HEAD_SIZE: Key<Draft> = Key {
    name: "head_size",
    kind: Kind::Size(
        Bounds {
            least: 1 << 10,
            most: 16 << 20,
            hint: "a head is a few lines, and it is held in memory",
        },
        |script, size| script.settings.output.head_bytes_max = to_usize(size),
    ),
    default: Value("\"64KiB\""),
    text: "Largest head of a reply. A larger one is an error (502).",
    example: "\"16KiB\"",
};

const MEMORY_BUFFER_MAX: Key<Draft> = Key {
    name: "memory_buffer_max",
    kind: Kind::Size(ANY, |script, size| script.settings.output.memory_buffer_max = size),
    default: Value("\"256MiB\""),
    text: "Largest memory buffer that a script may request; 0 for none and for no output regions: everything goes through the mailbox.",
    example: "\"1GiB\"",
};

/// Directories by the path prefix under which scripts name their files.
fn read_send_files(pairs: Vec<(String, At<String>)>, written: &Written<'_>) -> BTreeMap<String, PathBuf> {
    let document = written.document();
    let mut directories = BTreeMap::new();
    for (prefix, directory) in pairs {
        let key = format!("send_files: \"{}\"", prefix.escape_debug());
        let report = |message: &str| document.report(directory.line, format!("{key}: {message}"));
        if !prefix.starts_with('/') || !prefix.ends_with('/') {
            report("a path begins and ends with a slash, as in \"/protected/\"");
        } else if !is_plain(&prefix) {
            report("a path has no empty segment, \".\", \"..\" or NUL");
        } else if directory.value.is_empty() || directory.value.contains('\0') {
            report("needs the path of a directory");
        } else {
            let path = At {
                value: document.resolve(directory.line, &directory.value),
                line: directory.line,
            };
            expect_directory(document, &key, &path);
            directories.insert(prefix, path.value);
        }
    }
    directories
}

/// Whether a decoded path can begin with this prefix, which begins and ends with a slash.
fn is_plain(prefix: &str) -> bool {
    let segments = prefix.trim_start_matches('/').split_terminator('/');
    !prefix.starts_with("//")
        && !prefix.contains('\0')
        && segments.into_iter().all(|segment| !matches!(segment, "" | "." | ".."))
}
