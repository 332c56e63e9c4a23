//! The scripts among the files of a directory: which part of a path names one, and the division into SCRIPT_NAME and PATH_INFO.
//!
//! As RFC 3875 §4.1.5 says, for scripts that are known by the endings of their names. The first part of the path with such an ending that is a file is the
//! script, so `/uploads/x.jpg/y.php` runs nothing: no file lies below a file, and finding that out starts no program.

use std::sync::Arc;

use sluice_files::directory::Directory;
use sluice_http::fault::Fault;
use sluice_http::path_text::path_of;
use sluice_script::route::{Script, ScriptRoute};
use sluice_settings::open_error::OpenError;
use sluice_settings::suffix_of;

use crate::dispatch::program::{Runner, check, fault_of};
use crate::dispatch::route::open_script;

pub(crate) struct SuffixScripts {
    suffixes: Vec<String>,
    /// The index pages that are scripts: `index.php`. They come after those of the site.
    pub index: Vec<String>,
    pub route: Arc<ScriptRoute>,
}

impl SuffixScripts {
    /// Opens what the settings name. An error is the administrator's.
    pub(crate) fn open(
        settings: &sluice_settings::SuffixScripts,
        site: &str,
        origin: &str,
    ) -> Result<SuffixScripts, OpenError> {
        let suffixes = settings.suffixes.clone();
        Ok(SuffixScripts {
            index: suffixes.iter().map(|suffix| format!("index{suffix}")).collect(),
            suffixes,
            route: Arc::new(open_script(&settings.script, site, origin)?),
        })
    }

    /// Finds the script in the part of a path below `directory`; `prefix` is the part before it. `None` if no part of it has the name of a script, or only
    /// directories have one. Errors: the client's fault: 404 if there is no such script. The script author's: 403 if it cannot be run.
    pub(crate) fn locate(&self, directory: &Directory, prefix: &str, below: &str) -> Option<Result<Script, Fault>> {
        let mut begin = 0;
        loop {
            let end = below[begin..].find('/').map_or(below.len(), |at| begin + at);
            if let Some(suffix) = suffix_of(&self.suffixes, &below[begin..end]) {
                let (part, rest) = below.split_at(end);
                match directory.find_program(part) {
                    Err(error) => return Some(Err(fault_of(&directory.path().join(path_of(part)), error))),
                    Ok(found) if found.metadata.is_dir() => {}
                    Ok(found) => {
                        let name = format!("{prefix}{part}");
                        let runner = Runner::of_suffix(&self.route, suffix);
                        let user = &self.route.settings.confinement.user;
                        return Some(check(found.path, runner, &name, rest, &found.metadata, user));
                    }
                }
            }
            if end == below.len() {
                return None;
            }
            begin = end + 1;
        }
    }
}
