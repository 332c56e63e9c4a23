//! The parts of the demo that are not embedded: C programs, which are built separately, the interpreters of scripts, and engines.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sluice_settings::{Engine, EngineSettings};

use super::files::Needs;

/// Where the C programs of an installed server are, relative to the directory of the server's binary.
const INSTALLED: &str = "../libexec/sluice/demo";

/// Where `make sdk` puts them, relative to the top of the source tree.
const IN_SOURCE_TREE: &str = "sdk/c/build";

/// The directory of the C programs, if there is one: beside the installed server, or in the source tree in which the server was built.
pub(crate) fn built() -> Option<PathBuf> {
    built_for(&std::env::current_exe().ok()?)
}

fn built_for(server: &Path) -> Option<PathBuf> {
    let home = server.parent()?;
    // Other parent directories are not searched: anybody might be able to write to one, and these programs are run.
    let target = home
        .ancestors()
        .find(|directory| directory.file_name() == Some(OsStr::new("target")));
    let in_tree = target.and_then(Path::parent).map(|top| top.join(IN_SOURCE_TREE));
    [Some(home.join(INSTALLED)), in_tree]
        .into_iter()
        .flatten()
        .find(|directory| directory.is_dir())?
        .canonicalize()
        .ok()
}

/// Whether the interpreter that a script's first line names is there, or an engine with the interpreter that it needs. C programs are not asked for here.
pub(crate) fn is_there(needs: Needs, sdk: Option<&Path>) -> bool {
    match needs {
        Needs::Interpreter(name) if name.contains('/') => is_program(Path::new(name)),
        Needs::Interpreter(name) => std::env::var_os("PATH").is_some_and(|path| is_in(&path, name)),
        Needs::Engine(name) => {
            let settings = EngineSettings {
                engine: Engine::named(name),
                sdk: sdk.map(Path::to_owned),
                ..EngineSettings::default()
            };
            settings.engine.is_some() && sluice_script::program::engine::missing_engines(&settings).is_empty()
        }
        Needs::Build => false,
    }
}

fn is_in(path: &OsStr, name: &str) -> bool {
    std::env::split_paths(path).any(|directory| is_program(&directory.join(name)))
}

pub(crate) fn is_program(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn programs_are_found_beside_an_installed_server_and_in_a_source_tree() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let top = directory.path().canonicalize().expect("that directory");
        let server = |path: &str| built_for(&top.join(path));
        fs::create_dir_all(top.join("usr/bin")).expect("room for a directory");
        assert_eq!(server("usr/bin/sluice"), None);
        fs::create_dir_all(top.join("usr/libexec/sluice/demo")).expect("room for a directory");
        assert_eq!(server("usr/bin/sluice"), Some(top.join("usr/libexec/sluice/demo")));
        let built = top.join("tree/sdk/c/build");
        fs::create_dir_all(&built).expect("room for a directory");
        assert_eq!(server("tree/target/release/sluice"), Some(built));
        assert_eq!(server("tree/elsewhere/sluice"), None);
    }

    #[test]
    fn an_interpreter_is_an_executable_file_in_a_directory_of_path() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = std::env::join_paths([Path::new("/nowhere"), directory.path()]).expect("no colon");
        let file = directory.path().join("perl");
        fs::write(&file, "").expect("room for a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("a file of ours");
        assert!(!is_in(&path, "perl"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a file of ours");
        assert!(is_in(&path, "perl"));
        assert!(!is_in(&path, "python3"));
    }
}
