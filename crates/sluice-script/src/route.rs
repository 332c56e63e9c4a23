//! What dispatch hands to this stage: a route that runs scripts, the program that was found there, and the map of the site.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sluice_settings::ScriptSettings;

use crate::lease::Pools;

/// A route that runs scripts, with the processes that it keeps.
pub struct ScriptRoute {
    pub settings: ScriptSettings,
    /// Suffix with its dot, and the program that runs such files.
    pub interpreters: Vec<(String, PathBuf)>,
    /// The site, for the log.
    pub site: String,
    pub pools: Pools,
}

/// The program behind a request.
#[derive(Clone, Debug)]
pub struct Script {
    /// SCRIPT_FILENAME, absolute.
    pub file: PathBuf,
    /// SCRIPT_NAME: the decoded path that leads to it.
    pub name: String,
    /// What of the decoded path is left; begins with a slash.
    pub path_info: Option<String>,
    /// Runs the file, if it does not run itself.
    pub interpreter: Option<PathBuf>,
    /// Tells whether the file is still the one that a kept process was started from.
    pub stamp: Stamp,
}

/// A file's identity and age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    bytes: u64,
}

impl Stamp {
    pub fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            bytes: metadata.len(),
        }
    }
}

/// How paths and files of a site belong together.
pub trait Map {
    /// DOCUMENT_ROOT; empty without one.
    fn document_root(&self) -> &Path;

    /// The file that a decoded path names, whether it exists or not (PATH_TRANSLATED, MAP-PATH). Where a script answers,
    /// that is the script's directory joined with the rest. `None` where no file belongs to the path.
    fn file_of(&self, path: &str) -> Option<PathBuf>;

    /// The path that leads to a file (MAP-FILE), if one does.
    fn path_of(&self, file: &str) -> Option<String>;
}
