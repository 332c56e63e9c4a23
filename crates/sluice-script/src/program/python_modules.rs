//! The directories in which Python has installed modules: an application may be one of these.
//!
//! They are derived from the place of the interpreter, as its module `site` does. Nothing is executed: root, too, reads a configuration.

use std::fs;
use std::path::{Path, PathBuf};

use sluice_launch::deadline;
use sluice_settings::{Engine, EngineSettings};

use crate::program::search_path::find_program;

/// The directories of installed modules for the Python engine of a route; none for another engine.
pub fn module_directories(settings: &EngineSettings) -> Vec<PathBuf> {
    if settings.engine != Some(Engine::Python) {
        return Vec::new();
    }
    let Some(virtualenv) = &settings.virtualenv else {
        let python = find_program("python3").and_then(|python| deadline::canonicalize(&python).ok());
        return python.map_or_else(Vec::new, |python| of_interpreter(&python));
    };
    let python = deadline::canonicalize(&virtualenv.join("bin/python")).unwrap_or_default();
    let mut directories = below(virtualenv, &python);
    if has_system_modules(virtualenv) {
        directories.extend(of_interpreter(&python));
    }
    directories
}

/// The directories of an interpreter that is `PREFIX/bin/python3.11`.
fn of_interpreter(python: &Path) -> Vec<PathBuf> {
    let prefix = python.parent().and_then(Path::parent).unwrap_or(Path::new("/usr"));
    // Debian: modules of pip, and of packages.
    let mut directories = below(&prefix.join("local"), python);
    directories.extend(below(prefix, python));
    directories.push(prefix.join("lib/python3/dist-packages"));
    directories
}

/// The directories below a prefix, for the version of an interpreter: `PREFIX/lib/python3.11/site-packages`.
fn below(prefix: &Path, python: &Path) -> Vec<PathBuf> {
    let library = prefix.join("lib");
    let version = python.file_name().and_then(|name| name.to_str());
    let versions = match version.filter(|name| name.starts_with("python3.")) {
        Some(version) => vec![library.join(version)],
        None => versions_in(&library),
    };
    let kinds = |version: PathBuf| ["site-packages", "dist-packages"].map(|kind| version.join(kind));
    versions.into_iter().flat_map(kinds).collect()
}

fn versions_in(library: &Path) -> Vec<PathBuf> {
    let is_version = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("python3."))
    };
    let asked = library.to_owned();
    let entries = move || {
        Ok(fs::read_dir(asked)?
            .flatten()
            .map(|entry| entry.path())
            .collect::<Vec<_>>())
    };
    let entries = deadline::ask(library, entries).unwrap_or_default();
    let mut versions: Vec<_> = entries.into_iter().filter(is_version).collect();
    versions.sort();
    versions
}

/// Whether a virtual environment has the modules of its interpreter, too.
fn has_system_modules(virtualenv: &Path) -> bool {
    let file = virtualenv.join("pyvenv.cfg");
    let asked = file.clone();
    let text = deadline::ask(&file, move || fs::read_to_string(asked)).unwrap_or_default();
    let mut settings = text.lines().filter_map(|line| line.split_once('='));
    settings
        .any(|(name, value)| name.trim() == "include-system-site-packages" && value.trim().eq_ignore_ascii_case("true"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_virtual_environment_has_its_own_modules_and_those_of_its_interpreter_if_it_says_so() {
        let place = tempfile::tempdir().unwrap();
        let (system, virtualenv) = (place.path().join("usr"), place.path().join("venv"));
        fs::create_dir_all(system.join("bin")).unwrap();
        fs::create_dir_all(virtualenv.join("bin")).unwrap();
        fs::write(system.join("bin/python3.11"), "").unwrap();
        symlink(system.join("bin/python3.11"), virtualenv.join("bin/python")).unwrap();
        let mut settings = EngineSettings {
            engine: Some(Engine::Python),
            virtualenv: Some(virtualenv.clone()),
            ..EngineSettings::default()
        };
        let own = virtualenv.join("lib/python3.11/site-packages");
        let of_system = system.canonicalize().unwrap().join("lib/python3/dist-packages");
        let found = module_directories(&settings);
        assert!(found.contains(&own) && !found.contains(&of_system), "{found:?}");
        fs::write(
            virtualenv.join("pyvenv.cfg"),
            "home = /usr/bin\ninclude-system-site-packages = true\n",
        )
        .unwrap();
        let found = module_directories(&settings);
        assert!(found.contains(&own) && found.contains(&of_system), "{found:?}");
        settings.engine = Some(Engine::Perl);
        assert!(module_directories(&settings).is_empty());
    }
}
