//! `interpreters` of `[[site.route]].script`: the programs that run scripts of a suffix, and the check that a script can be run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sluice_settings::Engine;

use super::document::{At, Document, Lack};
use super::engine::read_engines;
use super::file_kind::FileKind;
use super::key::Key;
use super::script_draft::Draft;

pub(super) const INTERPRETERS: Key<Draft> = Key::pairs("interpreters", |script, pairs, written| {
    let document = written.document();
    if script.settings.mode.has_engine() {
        script.settings.engines.by_suffix = read_engines(written.name, pairs, document);
    } else {
        script.settings.interpreters = read_interpreters(written.name, pairs, document);
    }
    Ok(())
});

/// The behaviour of the server with something else in place of a program.
pub(super) const UNTIL_CHANGED: &str = "until that changes its requests fail";

/// Reports a program that does not exist or cannot be executed.
pub(super) fn require_program(
    document: &Document<'_>,
    name: &str,
    path: &At<PathBuf>,
    interpreters: &BTreeMap<String, String>,
) {
    let shown = path.value.display();
    let message = match document.kind(&path.value) {
        FileKind::Program => return,
        FileKind::File if has_interpreter(&path.value, interpreters) => return,
        FileKind::File => {
            let message =
                format!("{name}: {shown} has no execute bit: chmod +x it, or name its interpreter in interpreters");
            return document.report_fault(path.line, &path.value, &message, "until it has one its requests fail");
        }
        FileKind::Directory => format!("{name}: {shown} is a directory: write directory = instead"),
        FileKind::Other => format!("{name}: {shown} is not a regular file"),
        FileKind::Missing(reason) => {
            let message = format!("{name}: no program {shown} ({reason}): put it there or fix the path");
            return document.report_missing(path.line, message);
        }
        FileKind::Denied(reason) => {
            return document.report_lack(Lack::Denied, path.line, format!("{name}: {shown}: {reason}"));
        }
    };
    document.report_fault(path.line, &path.value, &message, UNTIL_CHANGED);
}

/// Reports a script of an engine that does not exist.
pub(super) fn require_source(document: &Document<'_>, name: &str, path: &At<PathBuf>) {
    let shown = path.value.display();
    let message = match document.kind(&path.value) {
        FileKind::Program | FileKind::File => return,
        FileKind::Directory => format!("{name}: {shown} is a directory: write directory = instead"),
        FileKind::Other => format!("{name}: {shown} is not a regular file"),
        FileKind::Missing(reason) => {
            let message = format!("{name}: no script {shown} ({reason}): put it there or fix the path");
            return document.report_missing(path.line, message);
        }
        FileKind::Denied(reason) => {
            return document.report_lack(Lack::Denied, path.line, format!("{name}: {shown}: {reason}"));
        }
    };
    document.report_fault(path.line, &path.value, &message, UNTIL_CHANGED);
}

fn has_interpreter(path: &Path, interpreters: &BTreeMap<String, String>) -> bool {
    let name = path.to_string_lossy();
    interpreters.keys().any(|suffix| name.ends_with(suffix.as_str()))
}

/// Interpreters by suffix, as the value of `key` says; a name with a slash is a path.
pub(super) fn read_interpreters(
    key: &str,
    pairs: Vec<(String, At<String>)>,
    document: &Document<'_>,
) -> BTreeMap<String, String> {
    document.each_pair(pairs, |suffix, program| {
        let name = &program.value;
        let refuse = |message: &str| Err(format!("{key}: \"{suffix}\": {message}"));
        if !is_suffix(suffix) {
            return refuse("a suffix is written with its dot, as in \".pl\"");
        }
        if name.is_empty() || name.contains('\0') {
            return refuse("needs the name of a program, as in \"perl\"");
        }
        if name.contains('/') {
            let path = At::new(document.resolve(program.line, name), program.line);
            require_program(document, key, &path, &BTreeMap::new());
            return Ok(path.value.to_string_lossy().into_owned());
        }
        if document.is_missing(Path::new(name)) {
            let engine = match Engine::named(name) {
                Some(engine) => format!("; the engine {} needs mode = \"rte\"", engine.name()),
                None => String::new(),
            };
            let message = format!("no program {name} in PATH: install it, or write its path{engine}");
            document.report_missing(program.line, format!("{key}: \"{suffix}\": {message}"));
        }
        Ok(name.clone())
    })
}

/// Whether a text is the end of names of files, with its dot.
pub(super) fn is_suffix(text: &str) -> bool {
    text.len() >= 2 && text.starts_with('.') && !text.contains(['/', '\0'])
}
