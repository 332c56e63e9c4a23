//! Script sources: files that routes run as scripts, and that no site sends as files.
//!
//! Here: which directories, files and path patterns these are, over all sites of the settings. Not here: the check when a file is
//! opened (`sluice_files::directory`).

use std::path::{Path, PathBuf};

use sluice_files::directory::{Directory, Program};
use sluice_settings::open_error::OpenError;
use sluice_settings::rule::Pattern;
use sluice_settings::{Action, ScriptSource, Settings, SiteSettings};

use crate::dispatch::route::leading_parts;

/// The script sources of all sites. They are withheld by every site, whichever of them runs the scripts.
pub(crate) struct ScriptSources {
    /// Script directories and single scripts.
    paths: Vec<PathBuf>,
    /// The root of a site, and a pattern of request paths below it that are scripts.
    patterns: Vec<(PathBuf, Pattern)>,
}

impl ScriptSources {
    /// Collects the script sources of the settings.
    ///
    /// # Errors
    /// The administrator's: `send_files` names a script directory, or a directory within one, and nothing could be sent from it.
    pub(crate) fn of(settings: &Settings) -> Result<ScriptSources, OpenError> {
        let sources = ScriptSources {
            paths: settings.sites.iter().flat_map(source_paths).collect(),
            patterns: settings.sites.iter().flat_map(script_patterns).collect(),
        };
        sources.check_send_files(settings)?;
        Ok(sources)
    }

    /// Withholds the script sources that lie below a directory from which files are sent.
    pub(crate) fn withhold_from(&self, directory: &mut Directory) {
        self.paths.iter().for_each(|path| directory.withhold(path));
        for (root, pattern) in &self.patterns {
            if let Some(is_script) = scripts_below(directory.path(), root, pattern) {
                directory.withhold_programs(is_script);
            }
        }
    }

    fn check_send_files(&self, settings: &Settings) -> Result<(), OpenError> {
        let paths: Vec<_> = self.paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
        for route in settings.sites.iter().flat_map(|site| &site.routes) {
            let Action::Script(script) = &route.action else {
                continue;
            };
            for directory in script.send_files.values() {
                let is_source = |directory: PathBuf| paths.iter().any(|path| directory.starts_with(path));
                if directory.canonicalize().is_ok_and(is_source) {
                    let text = format!(
                        "send_files: {} is a directory of scripts, whose text is never sent: choose another",
                        directory.display()
                    );
                    return Err(OpenError::new(&route.origin, text));
                }
            }
        }
        Ok(())
    }
}

/// The script directories and single scripts of a site.
fn source_paths(settings: &SiteSettings) -> impl Iterator<Item = PathBuf> {
    settings.routes.iter().filter_map(|route| match &route.action {
        Action::Script(script) => match &script.source {
            ScriptSource::Directory(path) | ScriptSource::File(path) => Some(path.clone()),
            ScriptSource::Root => None,
        },
        _ => None,
    })
}

/// The root of a site, with each pattern of paths below it that are scripts.
fn script_patterns(settings: &SiteSettings) -> Vec<(PathBuf, Pattern)> {
    let Some(root) = settings.root.as_ref().and_then(|root| root.canonicalize().ok()) else {
        return Vec::new();
    };
    let is_root = |action: &Action| matches!(action, Action::Script(script) if script.source == ScriptSource::Root);
    let routes = settings.routes.iter().filter(|route| is_root(&route.action));
    routes.map(|route| (root.clone(), route.path.clone())).collect()
}

/// A predicate for the paths below a directory that are scripts because of a pattern of paths below a root. `None` if neither of
/// the two directories lies in the other.
fn scripts_below(directory: &Path, root: &Path, pattern: &Pattern) -> Option<Program> {
    let pattern = pattern.clone();
    let is_script = move |path: &str| leading_parts(path).any(|part| pattern.matches(part).is_some());
    if let Ok(below) = directory.strip_prefix(root) {
        if below.as_os_str().is_empty() {
            return Some(Box::new(is_script));
        }
        let above = format!("/{}", below.display());
        return Some(Box::new(move |path| is_script(&format!("{above}{path}"))));
    }
    let above = format!("/{}", root.strip_prefix(directory).ok()?.display());
    Some(Box::new(move |path| {
        path.strip_prefix(above.as_str())
            .is_some_and(|path| path.starts_with('/') && is_script(path))
    }))
}
