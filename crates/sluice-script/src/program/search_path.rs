//! Programs that the configuration names: by their path, or by a name that is looked up in PATH.

use std::path::PathBuf;

use sluice_launch::deadline;

/// Finds a program: by its path if its name has a slash, or else in the PATH of the server.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    possible_programs(name).into_iter().find(|path| deadline::is_file(path))
}

/// Every path at which a program would be found, the first one before the others.
pub(crate) fn possible_programs(name: &str) -> Vec<PathBuf> {
    if name.contains('/') {
        return vec![PathBuf::from(name)];
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    directories.map(|directory| directory.join(name)).collect()
}
