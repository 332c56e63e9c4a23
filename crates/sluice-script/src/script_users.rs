//! The users that scripts may have: the settings, as the launcher takes them.
//!
//! Not here: the decision (`sluice_launch`).

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sluice_launch::{NamedUser, OwnedPrograms, OwnerPolicy, ScriptUsers};
use sluice_settings::{OwnedScriptSettings, OwnerSettings, ScriptUserSettings};

use crate::process::default_environment::default_environment;

/// The policy for the launcher.
#[must_use]
pub fn policy(settings: &ScriptUserSettings) -> ScriptUsers {
    ScriptUsers {
        usual: settings.usual.as_ref().map(|user| user.credentials.clone()),
        named: settings
            .named
            .iter()
            .map(|user| NamedUser {
                name: user.name.clone(),
                credentials: user.credentials.clone(),
            })
            .collect(),
        owners: settings
            .owners
            .as_ref()
            .map(|owners| owner_policy(owners, &settings.owned)),
        roots: settings.roots.iter().filter_map(|root| c_string(root)).collect(),
    }
}

fn owner_policy(owners: &OwnerSettings, owned: &OwnedScriptSettings) -> OwnerPolicy {
    OwnerPolicy {
        programs: programs(owned),
        uid_min: owners.uid_min,
        is_for_all: owners.is_for_all,
        users: owners.users.iter().map(|user| user.credentials.clone()).collect(),
        groups: owners.groups.clone(),
        directories: owners.directories.iter().flat_map(|path| spellings(path)).collect(),
    }
}

/// The programs that may run as owners. An interpreter without a path may be in any directory of the search path, because it may be installed later.
fn programs(owned: &OwnedScriptSettings) -> OwnedPrograms {
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&search_path)
        .filter(|directory| directory.is_absolute())
        .collect();
    let paths = |program: &str| match program.contains('/') {
        true => vec![PathBuf::from(program)],
        false => directories.iter().map(|directory| directory.join(program)).collect(),
    };
    let interpreters = owned.interpreters.iter().flat_map(|(suffix, program)| {
        let paths = paths(program).into_iter();
        paths.filter_map(move |path| Some((suffix.clone(), c_string(&path)?)))
    });
    let entry = |name: &str, value: &[u8]| [name.as_bytes(), b"=", value].concat();
    let set = owned
        .variables
        .iter()
        .map(|(name, value)| entry(name, value.as_bytes()));
    let inherited = owned
        .inherited
        .iter()
        .filter_map(|name| Some(entry(name, std::env::var_os(name)?.as_bytes())));
    // Those of the user belong to the launcher, which knows the owner.
    let usual = default_environment().iter().filter(|(name, _)| *name == "PATH");
    let usual = usual.map(|(name, value)| entry(name, value));
    OwnedPrograms {
        interpreters: interpreters.collect(),
        directories: owned.directories.iter().filter_map(|path| c_string(path)).collect(),
        variables: set.chain(inherited).chain(usual).collect(),
    }
}

/// A directory as it is written, and without links: a script may be known by either path.
fn spellings(directory: &Path) -> Vec<CString> {
    let mut paths = vec![directory.to_owned()];
    paths.extend(directory.canonicalize().ok().filter(|path| path != directory));
    paths.iter().filter_map(|path| c_string(path)).collect()
}

fn c_string(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}
