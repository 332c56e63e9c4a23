//! The program that a route leads to.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_http::target::Target;

use crate::program::engine::EngineProgram;
use crate::program::stamp::Stamp;

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

/// A script of a route that is run in advance.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The program.
    pub script: Script,
    /// The target of the PROCTOR request. `None` if the process is only started.
    pub target: Option<Target>,
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
        let program = self.interpreter.as_ref().unwrap_or(&self.file);
        let program = program.file_name().map(OsStr::as_encoded_bytes).unwrap_or_default();
        program.starts_with(b"php") || (self.interpreter.is_none() && program.ends_with(b".php"))
    }
}
