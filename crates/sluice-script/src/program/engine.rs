//! The engines of a route in mode `rte`: programs that are kept and run many scripts.
//!
//! SDK is what the configuration says, or else the first of the usual directories that has the engine (`search_path`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_http::fault::{Fault, ServerFault};
use sluice_settings::{Engine, EngineSettings, ScriptSettings, ScriptSource, module_files};

use crate::program::python_modules::module_directories;
use crate::program::search_path::{find_program, find_shipped, possible_files, possible_programs};
use crate::program::source_files::SourcePath;
use crate::program::stamp::Stamp;

/// An engine of a route.
#[derive(Debug)]
pub struct EngineProgram {
    engine: Engine,
    settings: EngineSettings,
    /// Identifies it among the engines of its route, for the pools.
    key: PathBuf,
    /// Found when the route was opened, or else why it is missing, and what to do.
    found: Result<Command, String>,
    /// Where an application in Python is that is not in the directory of its route.
    modules: Vec<PathBuf>,
}

#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// The file that is the engine, for messages: the program, or what it runs.
    pub file: PathBuf,
}

/// The engines of a route, opened.
#[derive(Debug, Default)]
pub struct Engines {
    /// The engine of the files without one of their own.
    engine: Option<Arc<EngineProgram>>,
    /// Suffixes with their dot.
    by_suffix: Vec<(String, Arc<EngineProgram>)>,
}

impl Engines {
    /// Finds the engines that the settings name. One that is missing is searched again when it is needed.
    pub fn open(settings: &EngineSettings) -> Engines {
        let mut programs: Vec<Arc<EngineProgram>> = Vec::new();
        let mut open = |engine: &Engine| {
            if let Some(known) = programs.iter().find(|known| known.engine == *engine) {
                return Arc::clone(known);
            }
            let program = Arc::new(EngineProgram {
                engine: engine.clone(),
                settings: settings.clone(),
                key: format!("{} {}", engine.name(), programs.len()).into(),
                found: find(engine, settings),
                modules: settings.app.iter().flat_map(|_| module_directories(settings)).collect(),
            });
            programs.push(Arc::clone(&program));
            program
        };
        let engine = settings.engine.as_ref().map(&mut open);
        let by_suffix = settings.by_suffix.iter();
        let mut by_suffix: Vec<_> = by_suffix
            .map(|(suffix, engine)| (suffix.clone(), open(engine)))
            .collect();
        by_suffix.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
        Engines { engine, by_suffix }
    }

    /// The engine of an application, and the files of which one is its SCRIPT_FILENAME.
    pub fn of_app<'a>(
        &'a self,
        directory: &Path,
        app: &'a str,
    ) -> Option<(&'a Arc<EngineProgram>, impl Iterator<Item = PathBuf> + use<'a>)> {
        let engine = self.engine.as_ref()?;
        let own = engine.engine.app_files(directory, app);
        let installed = engine.modules.iter();
        let installed = installed.flat_map(move |directory| module_files(directory, app));
        Some((engine, own.into_iter().chain(installed)))
    }

    /// The engine of the route for a file that the configuration names.
    pub fn of_named_file(&self, name: &str) -> Option<&Arc<EngineProgram>> {
        self.of_suffix(name).or(self.engine.as_ref())
    }

    /// The engine that runs a file with this name. `None` if none does: a file without an execute bit must have a suffix of the
    /// engine's language, and no file is run as another language than its suffix says.
    pub fn of_found_file(&self, name: &str, is_executable: bool) -> Option<&Arc<EngineProgram>> {
        if let Some(engine) = self.of_suffix(name) {
            return Some(engine);
        }
        let engine = self.engine.as_ref()?;
        let has_suffix_of = |engine: &Engine| engine.script_suffixes().iter().any(|suffix| name.ends_with(suffix));
        let is_run = match &engine.engine {
            Engine::Program { .. } => true,
            own if has_suffix_of(own) => true,
            // PHP sends what is not PHP as it is.
            Engine::Php => false,
            _ => is_executable && !Engine::OWN.iter().any(has_suffix_of),
        };
        is_run.then_some(engine)
    }

    pub(crate) fn programs(&self) -> impl Iterator<Item = &Arc<EngineProgram>> {
        let by_suffix = self.by_suffix.iter().map(|(_, engine)| engine);
        let mut all: Vec<_> = self.engine.iter().chain(by_suffix).collect();
        all.sort_by_key(|engine| engine.key());
        all.dedup_by_key(|engine| engine.key());
        all.into_iter()
    }

    /// The engine of the suffix of a name; the longest suffix counts.
    pub fn of_suffix(&self, name: &str) -> Option<&Arc<EngineProgram>> {
        let mut engines = self.by_suffix.iter();
        engines
            .find(|(suffix, _)| name.ends_with(suffix.as_str()))
            .map(|(_, engine)| engine)
    }
}

impl EngineProgram {
    /// SCRIPT_RTE.
    pub fn name(&self) -> &str {
        self.engine.name()
    }

    /// Identifies it among the engines of its route.
    pub(crate) fn key(&self) -> &Path {
        &self.key
    }

    pub(crate) fn is_php(&self) -> bool {
        self.engine == Engine::Php
    }

    /// Whether its processes know what an end-of-file within a body means: that the client has left. To a script in Perl it would look like
    /// the end of the body, because it reads a pipe itself.
    pub(crate) fn knows_cut_bodies(&self) -> bool {
        match self.engine {
            Engine::Python | Engine::Php => true,
            Engine::Perl => self.settings.app.is_some(),
            Engine::Program { .. } => false,
        }
    }

    /// Whether its processes put large replies into the output region of the request, and keep the variable that announces it from their scripts.
    pub(crate) fn uses_regions(&self) -> bool {
        matches!(self.engine, Engine::Python | Engine::Php)
    }

    /// How it is started; a 503 if it is still missing.
    pub(crate) fn command(&self) -> Result<Cow<'_, Command>, Fault> {
        match &self.found {
            Ok(command) => Ok(Cow::Borrowed(command)),
            Err(_) => find(&self.engine, &self.settings)
                .map(Cow::Owned)
                .map_err(|missing| ServerFault::NoEngine(missing.into()).into()),
        }
    }
}

/// The files whose changes replace the processes of a route: those of the configuration or, of engines, the sources below the directory of
/// the scripts; and the engines themselves.
pub(crate) fn source_paths(settings: &ScriptSettings, engines: &Engines) -> Vec<SourcePath> {
    let all = |path: PathBuf| SourcePath { path, suffixes: &[] };
    let mut sources: Vec<_> = settings.reload_on.iter().flatten().cloned().map(all).collect();
    let directory = match &settings.source {
        ScriptSource::Directory(directory) | ScriptSource::App { directory, .. } => Some(directory.as_path()),
        ScriptSource::File(file) => file.parent(),
        ScriptSource::Root => None,
    };
    for engine in engines.programs() {
        sources.extend(engine.found.iter().map(|command| all(command.file.clone())));
        // PHP compiles a changed file again itself, except in an application, which stays loaded.
        let is_kept = engine.engine != Engine::Php || settings.engines.app.is_some();
        let suffixes = engine.engine.source_suffixes();
        if let Some(directory) = directory.filter(|_| is_kept && !suffixes.is_empty() && settings.reload_on.is_none()) {
            sources.push(SourcePath { path: directory.to_owned(), suffixes });
        }
    }
    sources
}

/// Whether the scripts of two routes of a site can share processes: both are run by the same engines, with the same settings.
pub fn can_share_processes(one: &ScriptSettings, other: &ScriptSettings) -> bool {
    // What belongs to the route alone.
    let compared = |settings: &ScriptSettings| ScriptSettings {
        source: match &settings.source {
            app @ ScriptSource::App { .. } => app.clone(),
            ScriptSource::Directory(_) | ScriptSource::File(_) | ScriptSource::Root => ScriptSource::Root,
        },
        is_directory_optional: false,
        send_files: BTreeMap::new(),
        reload_on: None,
        ..settings.clone()
    };
    // A process that is restricted to files has those of its own route.
    let is_restricted = one.confinement.files.is_some();
    one.mode.has_engine() && !is_restricted && compared(one) == compared(other)
}

/// The stamp of scripts that an engine runs: it compiles a changed file again itself, so its process stays.
pub const ENGINE_STAMP: Stamp = Stamp::NONE;

/// The engines of a route that cannot be started: why, and what to do.
pub fn missing_engines(settings: &EngineSettings) -> Vec<String> {
    let engines = settings.all();
    engines.filter_map(|engine| find(engine, settings).err()).collect()
}

/// A command of an engine, with every path at which its parts would be found.
pub(crate) struct PossibleCommand {
    pub(crate) programs: Vec<PathBuf>,
    /// The file that the program runs. Empty if the program is the engine.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) options: Vec<String>,
}

/// The commands of the engines of a route, wherever their files may be when one is started.
pub(crate) fn possible_commands(settings: &EngineSettings) -> Vec<PossibleCommand> {
    let possible = |engine: &Engine| {
        let files = possible_files(settings.sdk.as_deref(), files_of(engine));
        let (programs, files) = match (engine, runner_of(engine), &settings.virtualenv) {
            (Engine::Program { program, .. }, ..) => (possible_programs(program), Vec::new()),
            (_, None, _) => (files, Vec::new()),
            (Engine::Python, Some(_), Some(virtualenv)) => (vec![virtualenv.join("bin/python")], files),
            (_, Some(runner), _) => (possible_programs(runner), files),
        };
        let own = match engine {
            Engine::Program { arguments, .. } => arguments.clone(),
            Engine::Python | Engine::Perl | Engine::Php => Vec::new(),
        };
        PossibleCommand {
            programs,
            files,
            options: own.into_iter().chain(options(engine, settings)).collect(),
        }
    };
    settings.all().map(possible).collect()
}

/// The files of which one is the engine, below the directory of engines. Empty for a program of the administrator.
fn files_of(engine: &Engine) -> &'static [&'static str] {
    match engine {
        Engine::Python => &["python/engine.py"],
        Engine::Perl => &["perl/engine.pl"],
        Engine::Php => &["php/build/sluice-php", "php/sluice-php"],
        Engine::Program { .. } => &[],
    }
}

/// The program that runs the file of an engine.
pub(super) fn runner_of(engine: &Engine) -> Option<&'static str> {
    match engine {
        Engine::Python => Some("python3"),
        Engine::Perl => Some("perl"),
        Engine::Php | Engine::Program { .. } => None,
    }
}

pub(super) fn find(engine: &Engine, settings: &EngineSettings) -> Result<Command, String> {
    let file = match engine {
        Engine::Program { program, .. } => find_runner(engine, program)?,
        own => find_file(own, settings)?,
    };
    let runner = match (engine, runner_of(engine), &settings.virtualenv) {
        (Engine::Python, Some(_), Some(virtualenv)) => Some(find_in_virtualenv(virtualenv)?),
        (_, Some(runner), _) => Some(find_runner(engine, runner)?),
        (_, None, _) => None,
    };
    let mut arguments = Vec::new();
    if runner.is_some() {
        arguments.push(file.clone().into_os_string());
    }
    if let Engine::Program { arguments: own, .. } = engine {
        arguments.extend(own.iter().map(OsString::from));
    }
    arguments.extend(options(engine, settings).map(OsString::from));
    Ok(Command {
        program: runner.unwrap_or_else(|| file.clone()),
        arguments,
        file,
    })
}

/// The options by which the server configures an engine on its command line.
fn options(engine: &Engine, settings: &EngineSettings) -> impl Iterator<Item = String> {
    let app = settings.app.iter().map(|app| format!("--app={app}"));
    let fresh = settings.is_forking.then(|| "--fresh=fork".to_owned());
    let values = |option: &'static str, values: &BTreeMap<String, String>| -> Vec<String> {
        let texts = values.iter().map(|(name, value)| format!("{option}={name}={value}"));
        texts.filter(|_| *engine == Engine::Php).collect()
    };
    let php = values("--php-value", &settings.php_values);
    let php_admin = values("--php-admin-value", &settings.php_admin_values);
    app.chain(fresh).chain(php).chain(php_admin)
}

fn find_in_virtualenv(virtualenv: &Path) -> Result<PathBuf, String> {
    let python = virtualenv.join("bin/python");
    python.to_str().and_then(find_program).ok_or_else(|| {
        let (python, virtualenv) = (python.display(), virtualenv.display());
        format!(
            "virtualenv: there is no {python}: make the environment (python3 -m venv {virtualenv}), or fix the path, which is relative to the \
             configuration file"
        )
    })
}

/// The program that runs an engine, or is one: in a directory of PATH, or at its path.
fn find_runner(engine: &Engine, program: &str) -> Result<PathBuf, String> {
    let name = engine.name();
    find_program(program).ok_or_else(|| match Path::new(program).components().count() {
        1 if Engine::named(name).is_none() => format!(
            "the engine {program} is in no directory of PATH: the path of a program of your own has a slash, as in \"./{program}\" or \
             \"bin/{program}\", relative to the configuration file"
        ),
        1 => format!(
            "the engine {name} needs the program {program}, which is in no directory of PATH: install the package {program}"
        ),
        _ => format!(
            "the engine {name} needs the program {program}, which does not exist: put it there or fix the path"
        ),
    })
}

fn find_file(engine: &Engine, settings: &EngineSettings) -> Result<PathBuf, String> {
    find_shipped(settings.sdk.as_deref(), files_of(engine)).map_err(|places| {
        let name = engine.name();
        let package = if *engine == Engine::Php { "sluice-php" } else { "sluice" };
        format!(
            "the engine of {name} is not there ({places}): install it (apt install {package}; from the sources make sdk), or name its \
             directory: sdk = \"…\" in [server], or sluice serve --sdk DIR"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engines(engine: Option<Engine>, by_suffix: &[(&str, Engine)]) -> Engines {
        Engines::open(&EngineSettings {
            engine,
            by_suffix: by_suffix
                .iter()
                .map(|(suffix, engine)| ((*suffix).to_owned(), engine.clone()))
                .collect(),
            ..EngineSettings::default()
        })
    }

    #[test]
    fn no_file_is_run_by_the_wrong_engine() {
        let python = engines(Some(Engine::Python), &[]);
        let by_suffix = engines(None, &[(".py", Engine::Python), (".pl", Engine::Perl)]);
        let program = Engine::Program {
            program: "/bin/lua-engine".into(),
            arguments: Vec::new(),
        };
        let own = engines(Some(program), &[]);
        for (engines, name, is_executable, expected) in [
            (&python, "a.py", false, Some("python")),
            (&python, "a.cgi", false, Some("python")),
            (&python, "a.txt", false, None),
            (&python, "a", false, None),
            (&python, "a", true, Some("python")),
            (&python, "a.pl", true, None),
            (&python, "a.php", false, None),
            (&by_suffix, "a.py", false, Some("python")),
            (&by_suffix, "a.pl", false, Some("perl")),
            (&by_suffix, "a", true, None),
            (&by_suffix, "a.php", true, None),
            (&own, "a", false, Some("lua-engine")),
        ] {
            let found = engines.of_found_file(name, is_executable).map(|engine| engine.name());
            assert_eq!(found, expected, "{name}");
        }
        assert_eq!(python.of_named_file("a").map(|engine| engine.name()), Some("python"));
    }

    #[test]
    fn an_engine_is_found_in_the_directory_of_the_configuration_only() {
        let sdk = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(sdk.path().join("php")).unwrap();
        let mut settings = EngineSettings {
            engine: Some(Engine::Php),
            sdk: Some(sdk.path().to_owned()),
            ..EngineSettings::default()
        };
        let Err(missing) = find(&Engine::Php, &settings) else {
            panic!("there is no engine");
        };
        let expected = format!(
            "the engine of php is not there (php/build/sluice-php or php/sluice-php in {}): install it (apt install sluice-php; from the sources make sdk), or name its directory: \
             sdk = \"…\" in [server], or sluice serve --sdk DIR",
            sdk.path().display()
        );
        assert_eq!(missing.to_string(), expected);
        std::fs::write(sdk.path().join("php/sluice-php"), "").unwrap();
        let command = find(&Engine::Php, &settings).unwrap();
        assert_eq!(command.program, sdk.path().join("php/sluice-php"));
        assert_eq!(command.arguments, Vec::<OsString>::new());
        settings.app = Some("worker.php".into());
        settings.is_forking = true;
        settings.php_values = [("memory_limit".to_owned(), "1G".to_owned())].into();
        settings.php_admin_values = [("open_basedir".to_owned(), "/srv".to_owned())].into();
        let command = find(&Engine::Php, &settings).unwrap();
        let expected = [
            "--app=worker.php",
            "--fresh=fork",
            "--php-value=memory_limit=1G",
            "--php-admin-value=open_basedir=/srv",
        ];
        assert_eq!(command.arguments, expected);
        settings.engine = Some(Engine::Program {
            program: "no-such-program".into(),
            arguments: Vec::new(),
        });
        assert_eq!(missing_engines(&settings).len(), 1);
    }
}
