//! The engines of a route in mode `rte`: interpreters that are kept and run many scripts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// How the engines of a route run its scripts; empty in the other modes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineSettings {
    /// The engine of all scripts. `None` if the suffix says which.
    pub engine: Option<Engine>,
    /// Engines by the suffix of the script's name.
    pub by_suffix: BTreeMap<String, Engine>,
    /// The application that the engine loads, instead of scripts.
    pub app: Option<String>,
    /// Whether a new process, forked from the engine that has loaded the script, answers each request.
    pub is_forking: bool,
    /// The virtual environment of Python.
    pub virtualenv: Option<PathBuf>,
    /// Settings of PHP that scripts may change.
    pub php_values: BTreeMap<String, String>,
    /// Settings of PHP that scripts cannot change.
    pub php_admin_values: BTreeMap<String, String>,
    /// The directory of the engines. `None`: searched beside the program, then where it is installed.
    pub sdk: Option<PathBuf>,
}

/// A program that runs scripts one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// Python, of this server.
    Python,
    /// Perl, of this server.
    Perl,
    /// PHP, of this server.
    Php,
    /// A program of the administrator: a path, or a name that is looked up in PATH.
    Program {
        /// The program.
        program: String,
        /// The arguments, before those of the server.
        arguments: Vec<String>,
    },
}

/// The properties of an engine of this server.
struct EngineTraits {
    name: &'static str,
    script_suffixes: &'static [&'static str],
    source_suffixes: &'static [&'static str],
}

impl Engine {
    /// The engines of this server.
    pub const OWN: [Engine; 3] = [Engine::Python, Engine::Perl, Engine::Php];

    const fn traits(&self) -> Option<EngineTraits> {
        Some(match self {
            Engine::Python => EngineTraits {
                name: "python",
                script_suffixes: &[".py", ".cgi"],
                source_suffixes: &[".py"],
            },
            Engine::Perl => EngineTraits {
                name: "perl",
                script_suffixes: &[".pl", ".cgi"],
                source_suffixes: &[".pl", ".pm", ".cgi", ".psgi"],
            },
            Engine::Php => EngineTraits {
                name: "php",
                script_suffixes: &[".php"],
                source_suffixes: &[".php", ".inc"],
            },
            Engine::Program { .. } => return None,
        })
    }

    /// The engine of this server with this name.
    pub fn named(name: &str) -> Option<Engine> {
        Engine::OWN.into_iter().find(|engine| engine.name() == name)
    }

    /// The name: SCRIPT_RTE, and the word of the configuration. For a program, the name of its file without its suffix.
    pub fn name(&self) -> &str {
        match (self, self.traits()) {
            (_, Some(traits)) => traits.name,
            (Engine::Program { program, .. }, None) => {
                let file = program.rsplit('/').next().unwrap_or(program);
                match file.rsplit_once('.') {
                    // `lua5.4` has a version, `engine.lua` a suffix.
                    Some((name, suffix)) if !name.is_empty() && !suffix.starts_with(|c: char| c.is_ascii_digit()) => {
                        name
                    }
                    _ => file,
                }
            }
            (_, None) => "",
        }
    }

    /// The suffixes of scripts that it runs without an execute bit. Empty for a program: it runs every file.
    pub fn script_suffixes(&self) -> &'static [&'static str] {
        self.traits().map_or(&[], |traits| traits.script_suffixes)
    }

    /// The name of the engine to which a suffix belongs, if this is another engine of this server, and cannot run such files.
    pub fn foreign_suffix(&self, suffix: &str) -> Option<&'static str> {
        let own = self.traits()?;
        if own.script_suffixes.contains(&suffix) {
            return None;
        }
        let all = Engine::OWN.iter().filter_map(Engine::traits);
        all.filter(|other| other.script_suffixes.contains(&suffix))
            .map(|other| other.name)
            .next()
    }

    /// The files of which one is SCRIPT_FILENAME of an application.
    pub fn app_files(&self, directory: &Path, app: &str) -> Vec<PathBuf> {
        match self {
            Engine::Python => module_files(directory, app).into(),
            Engine::Perl | Engine::Php | Engine::Program { .. } => vec![directory.join(app)],
        }
    }

    /// The suffixes of the files that it loads: scripts and modules. Empty for a program: they are not known.
    pub fn source_suffixes(&self) -> &'static [&'static str] {
        self.traits().map_or(&[], |traits| traits.source_suffixes)
    }
}

impl EngineSettings {
    /// All engines of the route.
    pub fn all(&self) -> impl Iterator<Item = &Engine> {
        self.engine.iter().chain(self.by_suffix.values())
    }
}

/// The files of which one is the module of an application in Python, if it is in this directory.
#[must_use]
pub fn module_files(directory: &Path, app: &str) -> [PathBuf; 2] {
    let module = app.split(':').next().unwrap_or(app).replace('.', "/");
    let package = directory.join(&module).join("__init__.py");
    [directory.join(format!("{module}.py")), package]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_has_the_name_of_its_language_or_of_its_file() {
        let program = |program: &str| Engine::Program { program: program.to_owned(), arguments: Vec::new() };
        for (engine, name) in [
            (Engine::Python, "python"),
            (program("/opt/engines/engine.lua"), "engine"),
            (program("ruby-engine"), "ruby-engine"),
            (program("lua5.4"), "lua5.4"),
            (program("/x/.hidden"), ".hidden"),
        ] {
            assert_eq!(engine.name(), name);
        }
        let files = Engine::Python.app_files(Path::new("/srv"), "shop.web:app");
        let expected = ["/srv/shop/web.py", "/srv/shop/web/__init__.py"].map(PathBuf::from);
        assert_eq!(files, expected);
        assert_eq!(Engine::named("perl"), Some(Engine::Perl));
        assert_eq!(Engine::named("ruby"), None);
    }
}
