//! The keys of `[[site.route]].script` for engines: which of them run the scripts of a route in mode `rte`, and how.
//!
//! Not here: where the files of an engine are (`sluice_server`), and the other keys of a script (`script`).

use std::collections::BTreeMap;

use sluice_settings::{Engine, Mode, ScriptSettings};

use super::description::Fallback::{Required, Words};
use super::document::{At, Document, FileKind};
use super::key::{Key, Kind, Nested, Section};
use super::script::{Draft, is_suffix};
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
    text: "A program of your own that runs scripts ([RTE](../guides/rte.md)), instead of the name of an engine.",
    keys: &[
        Key {
            name: "program",
            kind: Kind::Text(|engine: &mut ProgramDraft, program, written| {
                engine.program = Some(read_program(&program, written.document(), written.line, "program")?);
                Ok(())
            }),
            default: Required,
            text: "The program. A name without a slash is looked up in PATH.",
            example: "\"bin/wiki\"",
        },
        Key {
            name: "arguments",
            kind: Kind::Texts(|engine, arguments, _| {
                engine.arguments = arguments.into_iter().map(|argument| argument.value).collect();
                Ok(())
            }),
            default: Words("none"),
            text: "Its first arguments; those that other keys of the route make come after them.",
            example: "[\"-v\"]",
        },
    ],
};

pub(super) const ENGINE: Key<Draft> = Key {
    name: "engine",
    kind: Kind::TextOrTable(
        |script, name, written| {
            script.settings.engines.engine = Some(read_engine(&name, written.document(), written.line)?);
            Ok(())
        },
        &Nested {
            section: &PROGRAM,
            off: None,
            begin: |_: &Draft, _| ProgramDraft::default(),
            end: |script, engine, _| {
                script.settings.engines.engine = engine.program.map(|program| Engine::Program {
                    program,
                    arguments: engine.arguments,
                });
            },
        },
    ),
    default: Words("in mode `rte`: those of `interpreters` or `scripts`; otherwise none"),
    text: "The engine that runs the scripts of a route in mode `rte`: `python`, `perl`, `php`, or a program of your own. A file with one of the \
           suffixes of the language (`.py`, `.pl`, `.cgi`, `.php`) needs no execute bit; other names do. All scripts of the engine share its \
           processes.",
    example: "\"python\"",
};

/// The engine with a name, or that is the program at a path.
fn read_engine(name: &str, document: &Document<'_>, line: usize) -> Result<Engine, String> {
    if let Some(engine) = Engine::named(name) {
        return Ok(engine);
    }
    if name.contains('/') {
        return Ok(Engine::Program {
            program: read_program(name, document, line, "engine")?,
            arguments: Vec::new(),
        });
    }
    let names = Engine::OWN.map(|engine| format!("\"{}\"", engine.name()));
    Err(format!(
        "is no engine of this server: write {}, or engine = {{ program = \"…\" }} for one of your own",
        suggest::alternatives(&names)
    ))
}

/// A program by its path or name; reports one that does not exist.
fn read_program(program: &str, document: &Document<'_>, line: usize, key: &str) -> Result<String, String> {
    if program.is_empty() {
        return Err("needs the path of a program".to_owned());
    }
    if !program.contains('/') {
        return Ok(program.to_owned());
    }
    let path = document.resolve(program);
    let shown = path.display();
    match (document.inspect)(&path) {
        FileKind::Program | FileKind::Missing(_) => {}
        FileKind::File => document.report(line, format!("{key}: {shown} has no execute bit: chmod +x it")),
        FileKind::Directory | FileKind::Other => {
            document.report(line, format!("{key}: {shown} is not a regular file"));
        }
    }
    Ok(path.to_string_lossy().into_owned())
}

/// Engines by suffix, as the value of `key` says.
pub(super) fn read_engines(
    key: &str,
    pairs: Vec<(String, At<String>)>,
    document: &Document<'_>,
) -> BTreeMap<String, Engine> {
    let mut engines = BTreeMap::new();
    for (suffix, name) in pairs {
        let report = |message: &str| document.report(name.line, format!("{key}: \"{suffix}\": {message}"));
        if !is_suffix(&suffix) {
            report("a suffix is written with its dot, as in \".py\"");
            continue;
        }
        match read_engine(&name.value, document, name.line) {
            Ok(engine) => {
                engines.insert(suffix, engine);
            }
            Err(message) => report(&format!("\"{}\" {message}", name.value.escape_debug())),
        }
    }
    engines
}

/// Reports keys of engines in another mode, and a mode `rte` without an engine; `key` is the one that names engines by suffix.
pub(super) fn check_engines(script: &ScriptSettings, table: &Table<'_>, key: &'static str) {
    if script.mode != Mode::Rte {
        table.refuse("engine", "only mode = \"rte\" has engines: add that, or remove this");
        return;
    }
    let has_engine_key = table.has("engine") || table.has("interpreters") || key == "scripts";
    if script.engines.all().next().is_none() && !has_engine_key {
        table.refuse(
            "mode",
            "which engine runs the scripts? Add engine = \"python\", or interpreters = { \".py\" = \"python\", \".pl\" = \"perl\" }",
        );
    }
}

/// Reports engines that cannot be started: a mistake for `check`, but a server starts without them. The line is that of their key.
pub(super) fn report_missing_engines(script: &ScriptSettings, document: &Document<'_>, line: usize) {
    if script.mode == Mode::Rte {
        for missing in (document.missing_engines)(&script.engines) {
            document.report_missing(line, missing);
        }
    }
}
