//! Script sources: files that routes run as scripts, and that no site sends as files.

use std::path::{Path, PathBuf};

use sluice_files::directory::{Directory, Program, real_or_future_path, without_coding};
use sluice_http::path_text::text_of_path;
use sluice_launch::deadline;
use sluice_settings::open_error::OpenError;
use sluice_settings::rule::Pattern;
use sluice_settings::{Action, Engine, ScriptSettings, ScriptSource, Settings, SiteSettings, suffix_of};

use crate::dispatch::paths_below::leading_parts;

/// The script sources of all sites. They are withheld by every site, whichever of them runs the scripts.
pub(crate) struct ScriptSources {
    /// Script directories and single scripts, with the suffixes that have an interpreter.
    paths: Vec<SourcePath>,
    /// Directories whose files are sent, except those with one of these suffixes, which are scripts.
    suffixes: Vec<SuffixSources>,
    /// The root of a site, and a pattern of request paths below it that are scripts.
    patterns: Vec<(PathBuf, Pattern)>,
}

struct SourcePath {
    path: PathBuf,
    /// The suffixes of the files in it that need no execute bit to be run, or are loaded by those that are run.
    suffixes: Vec<String>,
    is_any_file: bool,
}

struct SuffixSources {
    /// Without symbolic links.
    directory: PathBuf,
    suffixes: Vec<String>,
}

impl ScriptSources {
    /// Collects the script sources of the settings. Errors of the administrator: `send_files` names a script directory, or a directory within one, and
    /// nothing could be sent from it.
    pub(crate) fn of(settings: &Settings) -> Result<ScriptSources, OpenError> {
        let sources = ScriptSources {
            paths: settings.sites.iter().flat_map(source_paths).collect(),
            suffixes: settings.sites.iter().flat_map(suffix_sources).collect(),
            patterns: settings.sites.iter().flat_map(script_patterns).collect(),
        };
        sources.check_send_files(settings)?;
        Ok(sources)
    }

    pub(crate) fn withhold_from(&self, directory: &mut Directory) {
        for source in &self.paths {
            directory.withhold(&source.path);
            // Of a script directory that a route also serves files of, the files are sent that are no scripts.
            if real_or_future_path(&source.path) == directory.path() {
                directory.withholds_executables = true;
                let (suffixes, is_any_file) = (source.suffixes.clone(), source.is_any_file);
                directory
                    .programs
                    .push(Box::new(move |path| is_any_file || is_source(path, &suffixes)));
            }
        }
        for sources in &self.suffixes {
            if let Some(is_script) = sources_below(directory.path(), sources) {
                directory.programs.push(is_script);
                // Where links that leave the directory are followed, what they lead to is a script by its suffix, too.
                let suffixes = sources.suffixes.clone();
                directory
                    .programs_outside
                    .push(Box::new(move |path| is_source(path, &suffixes)));
            }
            if let Some(is_script) = sources_below(Path::new("/"), sources) {
                directory.programs_outside.push(is_script);
            }
        }
        for (root, pattern) in &self.patterns {
            if let Some(is_script) = scripts_below(directory.path(), root, pattern) {
                directory.programs.push(is_script);
            }
            if let Some(is_script) = scripts_below(Path::new("/"), root, pattern) {
                directory.programs_outside.push(is_script);
            }
        }
    }

    fn check_send_files(&self, settings: &Settings) -> Result<(), OpenError> {
        let path = |source: &SourcePath| deadline::canonicalize(&source.path).ok();
        let paths: Vec<_> = self.paths.iter().filter_map(path).collect();
        for route in settings.sites.iter().flat_map(|site| &site.routes) {
            let Some(script) = route.action.script() else {
                continue;
            };
            for directory in script.send_files.values() {
                let is_source = |directory: PathBuf| paths.iter().any(|path| directory.starts_with(path));
                if deadline::canonicalize(directory).is_ok_and(is_source) {
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

fn source_paths(settings: &SiteSettings) -> impl Iterator<Item = SourcePath> {
    let source = |script: &ScriptSettings, path: &PathBuf| {
        let engines = script.engines.all();
        let engines = engines.flat_map(|engine| [engine.script_suffixes(), engine.source_suffixes()]);
        let interpreted = script.interpreters.keys().cloned();
        let interpreted = interpreted.chain(script.engines.by_suffix.keys().cloned());
        SourcePath {
            path: path.clone(),
            suffixes: interpreted.chain(engines.flatten().map(ToString::to_string)).collect(),
            is_any_file: matches!(script.engines.engine, Some(Engine::Program { .. })),
        }
    };
    settings.routes.iter().filter_map(move |route| match &route.action {
        Action::Script(script) => match &script.source {
            ScriptSource::Directory(path) | ScriptSource::App { directory: path, .. } | ScriptSource::File(path) => {
                Some(source(script, path))
            }
            ScriptSource::Root => None,
        },
        _ => None,
    })
}

fn suffix_sources(settings: &SiteSettings) -> impl Iterator<Item = SuffixSources> {
    settings.routes.iter().filter_map(|route| match &route.action {
        Action::Files(files) => Some(SuffixSources {
            // One that is missing is served once it exists.
            directory: deadline::canonicalize(&files.path)
                .or_else(|_| std::path::absolute(&files.path))
                .ok()?,
            suffixes: files.scripts.as_ref()?.suffixes.clone(),
        }),
        _ => None,
    })
}

fn script_patterns(settings: &SiteSettings) -> Vec<(PathBuf, Pattern)> {
    let Some(root) = settings.root.as_deref().map(real_or_future_path) else {
        return Vec::new();
    };
    let is_root = |action: &Action| matches!(action, Action::Script(script) if script.source == ScriptSource::Root);
    let routes = settings.routes.iter().filter(|route| is_root(&route.action));
    routes.map(|route| (root.clone(), route.path.clone())).collect()
}

/// A predicate for the paths below a directory that are scripts by a pattern of paths below a root. `None` if neither directory lies in the other.
fn scripts_below(directory: &Path, root: &Path, pattern: &Pattern) -> Option<Program> {
    let pattern = pattern.clone();
    let is_script = move |path: &str| leading_parts(path).any(|part| pattern.matches(part).is_some());
    if let Ok(below) = directory.strip_prefix(root) {
        if below.as_os_str().is_empty() {
            return Some(Box::new(is_script));
        }
        let above = format!("/{}", text_of_path(below));
        return Some(Box::new(move |path| is_script(&format!("{above}{path}"))));
    }
    let above = format!("/{}", text_of_path(root.strip_prefix(directory).ok()?));
    Some(Box::new(move |path| {
        path.strip_prefix(above.as_str())
            .is_some_and(|path| path.starts_with('/') && is_script(path))
    }))
}

/// A predicate for paths below a directory that are scripts by suffix, in it, above or below. `None` if neither of the directories lies in the other.
fn sources_below(directory: &Path, sources: &SuffixSources) -> Option<Program> {
    let suffixes = sources.suffixes.clone();
    if directory.starts_with(&sources.directory) {
        return Some(Box::new(move |path| is_source(path, &suffixes)));
    }
    let above = format!("/{}", text_of_path(sources.directory.strip_prefix(directory).ok()?));
    Some(Box::new(move |path| {
        let below = path.strip_prefix(above.as_str());
        below.is_some_and(|below| below.starts_with('/') && is_source(below, &suffixes))
    }))
}

/// Whether a path ends with the name of a script, or of a compressed one.
fn is_source(path: &str, suffixes: &[String]) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    suffix_of(suffixes, without_coding(name).unwrap_or(name)).is_some()
}
