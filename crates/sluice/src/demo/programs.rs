//! What of the demo is not embedded: the programs in C, which are built apart, and the interpreters of scripts.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where the programs in C lie once the server is installed, from the folder that holds it.
const INSTALLED: &str = "../libexec/sluice/demo";

/// Where `make sdk` leaves them, from the top of the source tree.
const IN_SOURCE_TREE: &str = "sdk/c/build";

/// The folder of the programs in C, if there is one: beside the installed server, or in the source tree that it was built in.
pub(crate) fn built() -> Option<PathBuf> {
    built_for(&std::env::current_exe().ok()?)
}

fn built_for(server: &Path) -> Option<PathBuf> {
    let home = server.parent()?;
    // No other folder above is asked: it could be one that anybody may write to, and these are run.
    let target = home
        .ancestors()
        .find(|folder| folder.file_name() == Some(OsStr::new("target")));
    let in_tree = target.and_then(Path::parent).map(|top| top.join(IN_SOURCE_TREE));
    [Some(home.join(INSTALLED)), in_tree]
        .into_iter()
        .flatten()
        .find(|folder| folder.is_dir())?
        .canonicalize()
        .ok()
}

/// Whether a script whose first line names this interpreter will find it.
pub(crate) fn is_interpreter(name: &str) -> bool {
    if name.contains('/') {
        return is_program(Path::new(name));
    }
    std::env::var_os("PATH").is_some_and(|path| is_in(&path, name))
}

fn is_in(path: &OsStr, name: &str) -> bool {
    std::env::split_paths(path).any(|folder| is_program(&folder.join(name)))
}

/// Whether this is a file with a run bit.
pub(crate) fn is_program(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn programs_are_found_beside_an_installed_server_and_in_a_source_tree() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let top = folder.path().canonicalize().expect("that folder");
        let server = |path: &str| built_for(&top.join(path));
        fs::create_dir_all(top.join("usr/bin")).expect("room for a folder");
        assert_eq!(server("usr/bin/sluice"), None);
        fs::create_dir_all(top.join("usr/libexec/sluice/demo")).expect("room for a folder");
        assert_eq!(server("usr/bin/sluice"), Some(top.join("usr/libexec/sluice/demo")));
        let built = top.join("tree/sdk/c/build");
        fs::create_dir_all(&built).expect("room for a folder");
        assert_eq!(server("tree/target/release/sluice"), Some(built));
        assert_eq!(server("tree/elsewhere/sluice"), None);
    }

    #[test]
    fn an_interpreter_is_a_file_with_a_run_bit_in_a_folder_of_path() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = std::env::join_paths([Path::new("/nowhere"), folder.path()]).expect("no colon");
        let file = folder.path().join("perl");
        fs::write(&file, "").expect("room for a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("a file of ours");
        assert!(!is_in(&path, "perl"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a file of ours");
        assert!(is_in(&path, "perl"));
        assert!(!is_in(&path, "python3"));
    }
}
