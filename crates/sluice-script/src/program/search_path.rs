//! Programs that the configuration names, by a path or by a name that is looked up in PATH; and those of the server: engines and authentication agents.

use std::path::{Path, PathBuf};

use sluice_launch::deadline;

/// Finds a program: by its path if its name has a slash, or else in the PATH of the server.
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

/// The directories of an installed server, beside those that are found from the program.
const INSTALLED: [&str; 2] = ["/usr/local/lib/sluice", "/usr/lib/sluice"];

/// Where they are from the directory of the program: installed, and in a checkout.
const BESIDE_PROGRAM: [&str; 3] = ["../lib/sluice", "../../sdk", "../../../sdk"];

/// The first of these files that exists in the configured directory, or else in a usual one. If none exists: the files and directories, for a message.
pub(crate) fn find_shipped(sdk: Option<&Path>, names: &[&str]) -> Result<PathBuf, String> {
    let found = possible_files(sdk, names)
        .into_iter()
        .find(|path| deadline::is_file(path));
    found.ok_or_else(|| {
        let mut directories: Vec<_> = searched(sdk).iter().map(|path| path.display().to_string()).collect();
        directories.dedup();
        format!("{} in {}", names.join(" or "), directories.join(", "))
    })
}

/// Every path at which one of these files would be found, the first one before the others.
pub(crate) fn possible_files(sdk: Option<&Path>, names: &[&str]) -> Vec<PathBuf> {
    let directories = searched(sdk).into_iter();
    directories
        .flat_map(|directory| names.iter().map(move |name| directory.join(name)))
        .collect()
}

fn searched(sdk: Option<&Path>) -> Vec<PathBuf> {
    match sdk {
        Some(directory) => vec![directory.to_owned()],
        None => directories(),
    }
}

/// The directories in which they are searched, without `.` and `..`.
fn directories() -> Vec<PathBuf> {
    let program = std::env::current_exe().ok();
    let own = program.as_deref().and_then(Path::parent).unwrap_or(Path::new("/"));
    let beside = BESIDE_PROGRAM.iter().map(|path| {
        let ups = path.matches("../").count();
        let above = own.ancestors().nth(ups).unwrap_or(Path::new("/"));
        above.join(path.trim_start_matches("../"))
    });
    beside.chain(INSTALLED.iter().map(PathBuf::from)).collect()
}
