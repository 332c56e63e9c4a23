//! The parts of a site that scripts need: the route, the program that it leads to, and the map of paths and files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_settings::{Mode, ScriptSettings, ScriptSource};

use crate::engine::{EngineProgram, Engines};
use crate::pools::Pools;
use crate::stamp::Stamp;

/// A route that runs scripts, with their processes.
pub struct ScriptRoute {
    /// How its scripts run.
    pub settings: ScriptSettings,
    /// Suffixes with their dot, and the program that runs such files. A name without a slash was in no directory of PATH.
    pub interpreters: Vec<(String, PathBuf)>,
    /// The engines that run its scripts, in mode `rte`.
    pub engines: Engines,
    /// The site, for the log.
    pub site: String,
    /// The place of the route in the configuration.
    pub origin: String,
    /// The begin of the paths by which another route runs the scripts of the same directory in another mode, if one does.
    pub other_mode: Option<String>,
    /// The processes of its scripts.
    pub pools: Pools,
}

impl ScriptRoute {
    /// How a script of this route is run in another mode, for its author; `script` is its file.
    pub(crate) fn mode_advice(&self, script: &str) -> String {
        let mode = match self.settings.mode {
            Mode::Cgi => Mode::Cgiplus,
            // An engine is never in the wrong mode.
            Mode::Cgiplus | Mode::Rte => Mode::Cgi,
        };
        let below = match &self.settings.source {
            ScriptSource::Directory(directory) => Path::new(script).strip_prefix(directory).ok(),
            ScriptSource::File(_) | ScriptSource::App { .. } | ScriptSource::Root => None,
        };
        match (&self.other_mode, below) {
            (Some(prefix), Some(below)) => format!("request {prefix}{} instead", below.display()),
            _ => format!("write mode = \"{}\" for its route ({})", mode.name(), self.origin),
        }
    }
}

/// The program behind a request.
#[derive(Clone, Debug)]
pub struct Script {
    /// SCRIPT_FILENAME, absolute.
    pub file: PathBuf,
    /// SCRIPT_NAME: the part of the decoded path that names it.
    pub name: String,
    /// PATH_INFO: the rest of the decoded path; begins with a slash.
    pub path_info: Option<String>,
    /// The program that runs the file. `None` if the file is executed itself.
    pub interpreter: Option<PathBuf>,
    /// The engine that runs the file. `None` in other modes than `rte`.
    pub engine: Option<Arc<EngineProgram>>,
    /// Shows whether the file is still the one from which a kept process was started.
    pub stamp: Stamp,
}

impl Script {
    /// Identifies its pool among those of its route: scripts of one engine share a pool.
    pub(crate) fn pool_key(&self) -> &Path {
        self.engine.as_ref().map_or(&self.file, |engine| engine.key())
    }

    /// Whether PHP runs it: by its engine, by an interpreter of the route, because the program itself is PHP, or by the `#!` line of a file `*.php`.
    pub(crate) fn is_php(&self) -> bool {
        if let Some(engine) = &self.engine {
            return engine.is_php();
        }
        let name = |path: &Path| path.file_name().map(|name| name.as_encoded_bytes().to_owned());
        let program = name(self.interpreter.as_ref().unwrap_or(&self.file)).unwrap_or_default();
        program.starts_with(b"php") || (self.interpreter.is_none() && program.ends_with(b".php"))
    }
}

/// The mapping between the paths and the files of a site.
pub trait Map {
    /// DOCUMENT_ROOT; empty without one.
    fn document_root(&self) -> &Path;

    /// The file that a decoded path names, whether it exists or not (PATH_TRANSLATED, MAP-PATH). For the path of a script this is
    /// the script's directory joined with the rest of the path. `None` if the path names no file.
    fn file_of(&self, path: &str) -> Option<PathBuf>;

    /// The path that leads to a file (MAP-FILE), if one does.
    fn path_of(&self, file: &str) -> Option<String>;
}
