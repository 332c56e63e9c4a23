//! `[[site.route]].script`: from its section to the server's settings of a script.
//!
//! Here: which program, and what the keys mean together. Single values were checked against the table (`section`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sluice_settings::{Mailbox, Mode, RequestBody, ScriptSettings, ScriptSource};

use super::mistake::{At, Document, Found};
use super::route::require_star;
use super::section::Section;
use super::site::require_folder;

/// Variables that belong to a request (RFC 3875 §4.1, and those that Apache adds): nobody else may set them.
const REQUEST_VARIABLES: [&str; 32] = [
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "CONTEXT_DOCUMENT_ROOT",
    "CONTEXT_PREFIX",
    "DOCUMENT_ROOT",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REMOTE_ADDR",
    "REMOTE_HOST",
    "REMOTE_IDENT",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_TIME",
    "REQUEST_TIME_FLOAT",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SCRIPT_RTE",
    "SERVER_ADDR",
    "SERVER_ADMIN",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SIGNATURE",
    "SERVER_SOFTWARE",
    "UNIQUE_ID",
];
/// Beginnings of names that belong to requests (fields, WASD's additions) and to the mailbox and the memory buffer.
const REQUEST_PREFIXES: [&str; 3] = ["HTTP_", "WWW_", "CGIPLUS"];

/// Reads the section. None when it does not say which program runs, or its pattern fits none.
pub(crate) fn read(section: &Section<'_>, path: Option<&At<String>>, has_root: bool) -> Option<ScriptSettings> {
    let written_mode = section.choice("mode").map(|mode| mode.value);
    let mode = match written_mode {
        Some("cgiplus") => Mode::Cgiplus,
        _ => Mode::Cgi,
    };
    let interpreters = read_interpreters(section);
    let source = read_source(section, path, has_root, &interpreters);
    // The rest is read whatever the source is, for the mistakes in it.
    let mut script = ScriptSettings::new(source.clone().unwrap_or(ScriptSource::Root), mode);
    script.interpreters = interpreters;
    script.send_files = read_send_files(section);
    read_channel(section, &mut script);
    read_environment(section, &mut script);
    read_times(section, &mut script);
    read_pool(section, &mut script);
    put(&mut script.head_bytes_max, section.size("head_size"));
    put(&mut script.memory_buffer_max, section.size("memory_buffer_max"));
    script.memory_max = section.size("memory_max").map(|size| size.value);
    // What a mode forbids cannot be said of one that nobody knows.
    if written_mode.is_some() || !section.has("mode") {
        check_mode(section, &script);
    }
    source.map(|_| script)
}

/// Which program a path names.
fn read_source(
    section: &Section<'_>,
    path: Option<&At<String>>,
    has_root: bool,
    interpreters: &BTreeMap<String, String>,
) -> Option<ScriptSource> {
    if section.has("directory") && section.has("file") {
        section.refuse(
            "file",
            "the script has a directory already; keep directory for many programs, file for one",
        );
        return None;
    }
    if section.has("directory") {
        let directory = section.path("directory")?;
        require_folder(section.document, "directory", &directory);
        if let Some(path) = path {
            require_star(section, path, "a folder of scripts");
        }
        return Some(ScriptSource::Directory(directory.value));
    }
    if section.has("file") {
        let file = section.path("file")?;
        require_program(section.document, "file", &file, interpreters);
        return Some(ScriptSource::File(file.value));
    }
    let path = path?;
    if path.value.starts_with('/') {
        let message = format!(
            "[[site.route]].script does not say which program runs for \"{}\": give it directory = \"cgi-bin\" or file = \"…\"",
            path.value
        );
        section.document.complain(section.line, message);
        return None;
    }
    if !has_root {
        let message = format!(
            "path = \"{}\": means scripts among the site's files, but the site has no root: give it root = \"htdocs\"",
            path.value
        );
        section.document.complain(path.line, message);
    }
    Some(ScriptSource::Root)
}

/// Notes a program that is not there or cannot be run.
fn require_program(document: &Document<'_>, name: &str, path: &At<PathBuf>, interpreters: &BTreeMap<String, String>) {
    let shown = path.value.display();
    match (document.look)(&path.value) {
        Found::Program => {}
        Found::File if is_interpreted(&path.value, interpreters) => {}
        Found::File => document.complain(
            path.line,
            format!("{name}: {shown} has no run bit: chmod +x it, or name its interpreter in interpreters"),
        ),
        Found::Folder => document.complain(
            path.line,
            format!("{name}: {shown} is a folder: write directory = instead"),
        ),
        Found::Other => document.complain(path.line, format!("{name}: {shown} is no regular file")),
        Found::Nothing(reason) => {
            document.complain(
                path.line,
                format!("{name}: no program {shown} ({reason}): put it there or mend the path"),
            );
        }
    }
}

fn is_interpreted(path: &Path, interpreters: &BTreeMap<String, String>) -> bool {
    let name = path.to_string_lossy();
    interpreters.keys().any(|suffix| name.ends_with(suffix.as_str()))
}

/// Programs by suffix; those with a slash are paths.
fn read_interpreters(section: &Section<'_>) -> BTreeMap<String, String> {
    let document = section.document;
    let mut interpreters = BTreeMap::new();
    for (suffix, program) in section.pairs("interpreters").unwrap_or_default() {
        let complain =
            |message: &str| document.complain(program.line, format!("interpreters: \"{suffix}\": {message}"));
        if suffix.len() < 2 || !suffix.starts_with('.') || suffix.contains(['/', '\0']) {
            complain("a suffix is written with its dot, as in \".pl\"");
        } else if program.value.is_empty() || program.value.contains('\0') {
            complain("needs the name of a program, as in \"perl\"");
        } else if program.value.contains('/') {
            let path = At {
                value: document.resolve(&program.value),
                line: program.line,
            };
            require_program(document, "interpreters", &path, &BTreeMap::new());
            interpreters.insert(suffix, path.value.to_string_lossy().into_owned());
        } else {
            // A name without a folder is looked up in PATH.
            if let Found::Nothing(_) = (document.look)(Path::new(&program.value)) {
                complain(&format!(
                    "no program {} in PATH: install it, or write its path",
                    program.value
                ));
            }
            interpreters.insert(suffix, program.value);
        }
    }
    interpreters
}

/// Folders by the paths that scripts call them.
fn read_send_files(section: &Section<'_>) -> BTreeMap<String, PathBuf> {
    let document = section.document;
    let mut folders = BTreeMap::new();
    for (prefix, folder) in section.pairs("send_files").unwrap_or_default() {
        let key = format!("send_files: \"{}\"", prefix.escape_debug());
        if !prefix.starts_with('/') || !prefix.ends_with('/') {
            let message = "a path begins and ends with a slash, as in \"/protected/\"";
            document.complain(folder.line, format!("{key}: {message}"));
        } else if !is_plain(&prefix) {
            let message = "a path has no empty part, \".\", \"..\" or NUL";
            document.complain(folder.line, format!("{key}: {message}"));
        } else if folder.value.is_empty() || folder.value.contains('\0') {
            document.complain(folder.line, format!("{key}: needs the path of a folder"));
        } else {
            let path = At {
                value: document.resolve(&folder.value),
                line: folder.line,
            };
            require_folder(document, &key, &path);
            folders.insert(prefix, path.value);
        }
    }
    folders
}

/// Whether a decoded path can begin like this, which begins and ends with a slash.
fn is_plain(prefix: &str) -> bool {
    let names = prefix.trim_start_matches('/').split_terminator('/');
    !prefix.starts_with("//")
        && !prefix.contains('\0')
        && names.into_iter().all(|name| !matches!(name, "" | "." | ".."))
}

/// Mailbox and request body.
fn read_channel(section: &Section<'_>, script: &mut ScriptSettings) {
    if section
        .choice("mailbox")
        .is_some_and(|mailbox| mailbox.value == "record")
    {
        script.mailbox = Mailbox::Record;
    }
    put(&mut script.record_bytes_max, section.size("record_size"));
    if section
        .choice("request_body")
        .is_some_and(|body| body.value == "stream")
    {
        script.request_body = RequestBody::Stream;
    }
}

/// What holds only in one of the modes, and what does not hold together.
fn check_mode(section: &Section<'_>, script: &ScriptSettings) {
    let pool = &script.pool;
    if script.request_body == RequestBody::Stream && script.mode == Mode::Cgiplus {
        let message = "only a cgi script can do without CONTENT_LENGTH, for a process that lives on sees no end of its input: write \"spool\"";
        section.refuse("request_body", message);
    }
    if pool.min > 0 && script.mode == Mode::Cgi {
        section.refuse(
            "min",
            "a cgi process serves one request and cannot be kept ready: remove it, or write mode = \"cgiplus\"",
        );
    } else if pool.min > pool.max {
        section.refuse(
            "min",
            &format!("is more than max = {}: raise max or lower min", pool.max),
        );
    }
}

/// What stands in the environment, and under which names.
fn read_environment(section: &Section<'_>, script: &mut ScriptSettings) {
    if let Some(prefix) = section.text("variable_prefix") {
        let is_name = prefix
            .value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name || prefix.value.starts_with(|first: char| first.is_ascii_digit()) {
            section.refuse(
                "variable_prefix",
                "must be letters, digits and \"_\", and begin with no digit, as in \"WWW_\"",
            );
        }
        script.variable_prefix = prefix.value;
    }
    for (name, text) in section.pairs("environment").unwrap_or_default() {
        let refusal = check_variable(&name).err().or_else(|| {
            // A record of CGIplus ends at a newline, an entry of the environment at a NUL.
            text.value
                .contains(['\0', '\n'])
                .then(|| "its value cannot hold a newline or NUL".to_owned())
        });
        if let Some(message) = refusal {
            section
                .document
                .complain(text.line, format!("environment: {name:?}: {message}"));
        }
        script.environment.insert(name, text.value);
    }
    for name in section.texts("inherit").unwrap_or_default() {
        if let Err(message) = check_variable(&name.value) {
            section
                .document
                .complain(name.line, format!("inherit: {:?}: {message}", name.value));
        }
        script.inherit.push(name.value);
    }
}

/// Checks the name of a variable that is to be set for all requests.
fn check_variable(name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains(['=', '\0', '\n']) {
        return Err("the name of a variable is not empty and holds no \"=\", newline or NUL".into());
    }
    let upper = name.to_ascii_uppercase();
    let is_taken =
        REQUEST_VARIABLES.contains(&upper.as_str()) || REQUEST_PREFIXES.iter().any(|prefix| upper.starts_with(prefix));
    if is_taken {
        return Err("the server sets this variable itself for each request: choose another name".into());
    }
    Ok(())
}

fn read_times(section: &Section<'_>, script: &mut ScriptSettings) {
    put(&mut script.reply_timeout, section.duration("reply_timeout"));
    put(&mut script.output_timeout, section.duration("output_timeout"));
    script.deadline = section.duration("deadline").map(|deadline| deadline.value);
    put(&mut script.client_grace, section.duration("client_grace"));
    put(&mut script.kill_grace, section.duration("kill_grace"));
}

fn read_pool(section: &Section<'_>, script: &mut ScriptSettings) {
    let pool = &mut script.pool;
    put(&mut pool.max, section.number("max"));
    put(&mut pool.min, section.number("min"));
    put(&mut pool.idle, section.duration("idle"));
    pool.requests_max = section.number("requests").map(|requests| requests.value);
    put(&mut pool.queue_max, section.number("queue"));
    put(&mut pool.queue_timeout, section.duration("queue_timeout"));
}

/// Puts what was read, if anything was, in the place of a default.
pub(crate) fn put<T>(slot: &mut T, read: Option<At<T>>) {
    if let Some(read) = read {
        *slot = read.value;
    }
}
