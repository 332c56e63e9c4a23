//! The parts of a site that scripts need: the route, and the map of paths and files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_settings::{ScriptLimits, ScriptSettings, ScriptSource};

use crate::pool::Pools;
use crate::program::engine::{ENGINE_STAMP, Engines, source_paths};
pub use crate::program::script::Script;

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
    /// Limits on what the processes may use and reach; `None`: the same as the server (`job_limits::of_route`).
    pub confinement: Option<Arc<ScriptLimits>>,
    /// The processes of its scripts.
    pub pools: Pools,
}

impl ScriptRoute {
    /// Stands for each of its engines, before a script of it is requested. The file need not exist in the directory of the scripts.
    pub fn engine_scripts(&self, document_root: &Path) -> impl Iterator<Item = Script> {
        let directory = match &self.settings.source {
            ScriptSource::Directory(directory) | ScriptSource::App { directory, .. } => directory.as_path(),
            ScriptSource::File(file) => file.parent().unwrap_or(Path::new("/")),
            ScriptSource::Root => document_root,
        };
        let file = directory.join("engine");
        self.engines.programs().map(move |engine| Script {
            file: file.clone(),
            name: String::new(),
            path_info: None,
            interpreter: None,
            engine: Some(Arc::clone(engine)),
            stamp: ENGINE_STAMP,
        })
    }

    /// The files and directories that the configuration names for its processes. `document_root` is that of its site.
    pub fn used_paths(&self, document_root: &Path) -> Vec<PathBuf> {
        let ScriptSettings { source, confinement, .. } = &self.settings;
        let mut paths: Vec<PathBuf> = self.interpreters.iter().map(|(_, program)| program.clone()).collect();
        paths.push(match source {
            ScriptSource::Directory(path) | ScriptSource::App { directory: path, .. } | ScriptSource::File(path) => {
                path.clone()
            }
            ScriptSource::Root => document_root.to_owned(),
        });
        paths.extend(
            source_paths(&self.settings, &self.engines)
                .into_iter()
                .map(|source| source.path),
        );
        paths.extend(confinement.working_directory.clone());
        paths.extend(confinement.chroot.clone());
        let permitted = confinement
            .files
            .iter()
            .flat_map(|files| files.read.iter().chain(&files.write));
        paths.extend(permitted.cloned());
        paths
    }

    /// How a script of this route is run in another mode, for its author; `script` is its file.
    pub(crate) fn mode_advice(&self, script: &str) -> String {
        let below = match &self.settings.source {
            ScriptSource::Directory(directory) => Path::new(script).strip_prefix(directory).ok(),
            ScriptSource::File(_) | ScriptSource::App { .. } | ScriptSource::Root => None,
        };
        match (&self.other_mode, below) {
            (Some(prefix), Some(below)) => format!("request {prefix}{} instead", below.display()),
            _ => format!(
                "write mode = \"{}\" for its route ({})",
                self.settings.mode.alternative().name(),
                self.origin
            ),
        }
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
