//! The keys of `[[site.route]].script` for engines: which of them run the scripts of a route in mode `rte`, and how.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sluice_settings::{Engine, ScriptSettings, module_files};

use super::asgi::is_asgi;
use super::document::{At, Document};
use super::file_kind::FileKind;
use super::interpreters::{UNTIL_CHANGED, is_suffix};
use super::key::{Key, Section, set};
use super::script_draft::Draft;
use super::suggest;
use super::table::Table;

/// The program of an engine while it is read.
#[derive(Default)]
pub(super) struct ProgramDraft {
    program: Option<String>,
    arguments: Vec<String>,
}

/// A program that is an engine.
static PROGRAM: Section<ProgramDraft> = Section {
    title: "[site.route.script.engine]",
    keys: &[
        Key::required(Key::text("program", |engine: &mut ProgramDraft, program, written| {
            engine.program = Some(read_program(&program, written.document(), written.line, "program")?);
            Ok(())
        })),
        Key::texts("arguments", |engine, arguments, _| {
            engine.arguments = arguments.into_iter().map(|argument| argument.value).collect();
            Ok(())
        }),
    ],
};

pub(super) const ENGINE: Key<Draft> = Key::text_or_table(
    "engine",
    |script, name, written| {
        script.settings.engines.engine = Some(read_engine(&name, written.document(), written.line)?);
        Ok(())
    },
    &PROGRAM,
    |script, table| {
        let engine = PROGRAM.read(table, ProgramDraft::default());
        script.settings.engines.engine = engine
            .program
            .map(|program| Engine::Program { program, arguments: engine.arguments });
    },
);

pub(super) const APP: Key<Draft> = Key::text("app", |script, app, _| {
    if app.is_empty() || app.starts_with('/') || app.contains(['\n', '\r']) {
        return Err(
            "must be the name of an application in the directory, as in \"shop:app\" or \"app.psgi\"".to_owned(),
        );
    }
    script.settings.engines.app = Some(app);
    Ok(())
});

pub(super) const FRESH: Key<Draft> =
    Key::choice("fresh", &[("fork", |script| script.settings.engines.is_forking = true)]);

pub(super) const VIRTUALENV: Key<Draft> = Key::path("virtualenv", |script, path, _| {
    set(&mut script.settings.engines.virtualenv, path)
});

pub(super) const PHP_VALUE: Key<Draft> = Key::pairs("php_value", |script, pairs, written| {
    script.settings.engines.php_values = read_php_values(written.name, pairs, written.document());
    Ok(())
});

pub(super) const PHP_ADMIN_VALUE: Key<Draft> = Key::pairs("php_admin_value", |script, pairs, written| {
    script.settings.engines.php_admin_values = read_php_values(written.name, pairs, written.document());
    Ok(())
});

/// Settings of PHP by name.
fn read_php_values(key: &str, pairs: Vec<(String, At<String>)>, document: &Document<'_>) -> BTreeMap<String, String> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    document.each_pair(pairs, |name, value| {
        if let Some(message) = php_mistake(name, &value.value) {
            return Err(format!("{key}: {message}"));
        }
        if name.is_empty() || !name.bytes().all(is_letter) || value.value.contains(['\0', '\n', '\r']) {
            let message = "must be the name of a setting of PHP, with a value of one line";
            return Err(format!("{key}: \"{}\": {message}", name.escape_debug()));
        }
        Ok(value.value.clone())
    })
}

/// Settings of PHP that are often written. PHP says nothing of a name that it does not know.
const PHP_SETTINGS: [&str; 17] = [
    "allow_url_fopen",
    "auto_prepend_file",
    "date.timezone",
    "default_charset",
    "disable_functions",
    "display_errors",
    "error_reporting",
    "include_path",
    "max_execution_time",
    "max_file_uploads",
    "max_input_vars",
    "memory_limit",
    "open_basedir",
    "post_max_size",
    "session.save_path",
    "upload_max_filesize",
    "upload_tmp_dir",
];

/// The mistake in a setting of PHP that PHP would not report: the misspelled name of a common one, or a size in another notation.
fn php_mistake(name: &str, value: &str) -> Option<String> {
    const LETTERS_MAX: usize = 2;
    let meant = PHP_SETTINGS
        .iter()
        .find(|known| strsim::osa_distance(name, known) <= LETTERS_MAX);
    if let Some(meant) = meant.filter(|known| **known != name) {
        return Some(format!("\"{}\": did you mean \"{meant}\"?", name.escape_debug()));
    }
    let (number, unit) = value.split_at(value.find(|letter: char| !letter.is_ascii_digit())?);
    let letter = unit
        .trim_start()
        .strip_suffix('B')
        .map(|unit| unit.trim_end_matches('i'));
    let letter = letter.filter(|letter| !number.is_empty() && matches!(*letter, "K" | "M" | "G"))?;
    Some(format!(
        "{name} = \"{}\": PHP takes this as {number} bytes: write \"{number}{letter}\"",
        value.escape_debug()
    ))
}

/// The engine with a name, or that is the program at a path.
fn read_engine(name: &str, document: &Document<'_>, line: usize) -> Result<Engine, String> {
    if let Some(engine) = Engine::named(name) {
        return Ok(engine);
    }
    if name.contains('/') {
        if let Some(message) = interpreter_message(name) {
            return Err(message);
        }
        return Ok(Engine::Program {
            program: read_program(name, document, line, "engine")?,
            arguments: Vec::new(),
        });
    }
    let names = Engine::OWN.map(|engine| format!("\"{}\"", engine.name()));
    Err(format!(
        "is no engine of this server: write {}, or the path of a program of your own (engine = {{ program = \"…\" }})",
        suggest::alternatives(&names)
    ))
}

/// Interpreters that people name where an engine is wanted, without the digits and dots of a version.
const INTERPRETERS: [&str; 13] = [
    "python", "perl", "php", "php-cgi", "php-fpm", "ruby", "lua", "tclsh", "node", "sh", "bash", "dash", "zsh",
];

/// The message about the path of an interpreter, which reads a script by its name and knows no requests. `None` for any other program.
fn interpreter_message(path: &str) -> Option<String> {
    let file = path.rsplit('/').next().unwrap_or(path);
    let name = file.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let known = INTERPRETERS.iter().find(|known| **known == name)?;
    let own = known.split('-').next().and_then(Engine::named);
    Some(match own {
        Some(engine) => format!("is an interpreter, and no engine: write \"{}\"", engine.name()),
        None => "is an interpreter, and no engine: name a program that speaks the engine protocol (docs/reference/engine-protocol.md), or write \
                 mode = \"cgi\""
            .to_owned(),
    })
}

/// A program by its path or name; reports one that does not exist.
fn read_program(program: &str, document: &Document<'_>, line: usize, key: &str) -> Result<String, String> {
    if program.is_empty() {
        return Err("needs the path of a program".to_owned());
    }
    if !program.contains('/') {
        return Ok(program.to_owned());
    }
    let path = document.resolve(line, program);
    let shown = path.display();
    let message = match document.kind(&path) {
        FileKind::Program | FileKind::Missing(_) | FileKind::Denied(_) => None,
        FileKind::File => Some(format!("{key}: {shown} has no execute bit: chmod +x it")),
        FileKind::Directory | FileKind::Other => Some(format!("{key}: {shown} is not a regular file")),
    };
    if let Some(message) = message {
        document.report_fault(line, &path, &message, UNTIL_CHANGED);
    }
    Ok(path.to_string_lossy().into_owned())
}

/// Engines by suffix, as the value of `key` says.
pub(super) fn read_engines(
    key: &str,
    pairs: Vec<(String, At<String>)>,
    document: &Document<'_>,
) -> BTreeMap<String, Engine> {
    document.each_pair(pairs, |suffix, name| {
        let refuse = |message: &str| Err(format!("{key}: \"{suffix}\": {message}"));
        if !is_suffix(suffix) {
            return refuse("a suffix is written with its dot, as in \".py\"");
        }
        match read_engine(&name.value, document, name.line) {
            Ok(engine) => {
                if let Some(language) = engine.foreign_suffix(suffix) {
                    // The engine stays, so that what else is wrong is judged by the one that was meant.
                    document.report(
                        name.line,
                        format!(
                            "{key}: \"{suffix}\": \"{}\" would not run a file of {language}, or would send its text: write \"{language}\"",
                            engine.name()
                        ),
                    );
                }
                Ok(engine)
            }
            Err(message) => refuse(&format!("\"{}\" {message}", name.value.escape_debug())),
        }
    })
}

/// Reports keys of engines in another mode or with another engine, and a mode `rte` without an engine. `key` is the one that names engines by suffix.
pub(super) fn check_engines(script: &ScriptSettings, table: &Table<'_>, key: &'static str) {
    if !script.mode.has_engine() {
        for name in ["engine", "app", "fresh", "virtualenv", "php_value", "php_admin_value"] {
            table.refuse(name, "only mode = \"rte\" has engines: add that, or remove this");
        }
        return;
    }
    // The engines of scripts among files are not known yet.
    if key == "scripts" {
        return;
    }
    if script.engines.all().next().is_none() && !table.has("engine") && !table.has("interpreters") {
        table.refuse(
            "mode",
            "which engine runs the scripts? Add engine = \"python\", or interpreters = { \".py\" = \"python\", \".pl\" = \"perl\" }",
        );
    }
    let lacks = |engine: &Engine| script.engines.all().all(|other| other != engine);
    if lacks(&Engine::Python) {
        table.refuse(
            "virtualenv",
            "only engine = \"python\" has virtual environments: remove it",
        );
    }
    if lacks(&Engine::Php) {
        for name in ["php_value", "php_admin_value"] {
            table.refuse(name, "only engine = \"php\" has settings of PHP: remove it");
        }
    }
    if script.engines.app.is_some() {
        table.refuse(
            "interpreters",
            "an application has one engine, and no scripts beside it: write engine = \"…\", and another route for the scripts",
        );
    }
}

/// Reports an application in a form that its engine does not have, or whose file does not exist.
pub(super) fn check_app(script: &ScriptSettings, directory: &Path, app: &str, table: &Table<'_>) {
    if !script.mode.has_engine() || table.has("interpreters") {
        return;
    }
    let Some(engine) = &script.engines.engine else {
        return;
    };
    let message = match engine {
        _ if foreign_app(engine, app).is_some() => foreign_app(engine, app),
        Engine::Python if !app.contains(':') => Some(format!(
            "names the module and what is called in it: write app = \"{}:app\"",
            module_of(directory, app, table.document)
        )),
        Engine::Python if is_file_name(app) => {
            let (file, called) = app.split_once(':').unwrap_or((app, "app"));
            Some(format!(
                "names a module, as import does, and no file: write app = \"{}:{called}\"",
                module_of(directory, file, table.document)
            ))
        }
        Engine::Perl | Engine::Php if app.contains(':') => Some(format!(
            "names a file, as in app = \"{}\"",
            if *engine == Engine::Php {
                "worker.php"
            } else {
                "app.psgi"
            }
        )),
        _ => None,
    };
    if let Some(message) = message {
        return table.refuse("app", &message);
    }
    let files = engine.app_files(directory, app);
    let installed = match engine {
        Engine::Python => table.document.files.module_directories(&script.engines),
        _ => Vec::new(),
    };
    let all_files = files.iter().cloned();
    let all_files = all_files.chain(installed.iter().flat_map(|directory| module_files(directory, app)));
    let is_there = |file: &PathBuf| !table.document.is_missing(file);
    let Some(file) = all_files.into_iter().find(is_there) else {
        let shown: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        let elsewhere = if installed.is_empty() {
            ""
        } else {
            ", and no such module is installed"
        };
        let message = format!(
            "app: no {}{elsewhere}: put it there or fix the name",
            shown.join(" and no ")
        );
        return table.document.report_missing(table.line_of("app"), message);
    };
    let Some((module, called)) = app.split_once(':').filter(|_| *engine == Engine::Python) else {
        return;
    };
    if table
        .document
        .files
        .read_module(&file)
        .is_some_and(|text| is_asgi(&text, called))
    {
        let message = format!(
            "{called} is an ASGI application, and the engine runs WSGI: wrap it by a2wsgi (pip install a2wsgi), in a module wsgi.py: from a2wsgi import \
             ASGIMiddleware; from {module} import {called} as asgi; app = ASGIMiddleware(asgi), and write app = \"wsgi:app\""
        );
        table.refuse("app", &message);
    }
}

/// The message about an application of another language.
fn foreign_app(engine: &Engine, app: &str) -> Option<String> {
    let of = [(".psgi", Engine::Perl), (".php", Engine::Php)];
    let (suffix, other) = of.into_iter().find(|(suffix, _)| app.ends_with(suffix))?;
    let is_foreign = matches!(engine, Engine::Python | Engine::Perl | Engine::Php) && *engine != other;
    is_foreign.then(|| {
        format!(
            "is for another engine: {suffix} belongs to engine = \"{}\"",
            other.name()
        )
    })
}

/// Whether the part of a text before the colon is the name of a file instead of a module.
fn is_file_name(app: &str) -> bool {
    let module = app.split(':').next().unwrap_or(app);
    module.contains('/') || module.ends_with(".py")
}

/// The module that a file name probably means. The directory's own name, often written before it, is left out if the module is there without it.
fn module_of(directory: &Path, file: &str, document: &Document<'_>) -> String {
    let name = file.trim_end_matches(".py").trim_start_matches("./");
    let last = name.rsplit('/').next().unwrap_or(name);
    let is_there = |name: &str| {
        let files = Engine::Python.app_files(directory, &name.replace('/', "."));
        files.iter().any(|file| !document.is_missing(file))
    };
    let name = if !is_there(name) && is_there(last) { last } else { name };
    name.replace('/', ".")
}

/// Reports engines that cannot be started, at the line of their key: a mistake for `check`, but a server starts without them.
pub(super) fn report_missing_engines(script: &ScriptSettings, document: &Document<'_>, line: usize) {
    if script.mode.has_engine() {
        for missing in document.files.missing_engines(&script.engines) {
            document.report_missing(line, missing);
        }
    }
}
