//! Programs that the configuration names: by their path, or by a name that is looked up in PATH.

use std::path::PathBuf;

/// Finds a program: by its path if its name has a slash, or else in the PATH of the server.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
}
