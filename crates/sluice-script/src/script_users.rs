//! The users that scripts may have: the settings, as the launcher takes them.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sluice_launch::{NamedUser, OwnerPolicy, ScriptUsers, deadline};
use sluice_settings::{OwnerSettings, ScriptUserSettings};

pub use crate::process::default_environment::search_path_of_another_user;
use crate::script_programs;

/// The policy for the launcher. `open_files_max` is the limit of scripts whose route says none: that with which the server was started.
#[must_use]
pub fn policy(settings: &ScriptUserSettings, open_files_max: Option<u64>) -> ScriptUsers {
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
        owners: settings.owners.as_ref().map(owner_policy),
        programs: script_programs::of(settings, open_files_max),
    }
}

fn owner_policy(owners: &OwnerSettings) -> OwnerPolicy {
    OwnerPolicy {
        uid_min: owners.uid_min,
        is_for_all: owners.is_for_all,
        users: owners.users.iter().map(|user| user.credentials.clone()).collect(),
        groups: owners.groups.clone(),
        directories: owners.directories.iter().flat_map(|path| spellings(path)).collect(),
    }
}

/// A directory as it is written, and without links: a script may be known by either path.
pub(crate) fn spellings(directory: &Path) -> Vec<CString> {
    let mut paths = vec![directory.to_owned()];
    paths.extend(deadline::canonicalize(directory).ok().filter(|path| path != directory));
    paths.iter().filter_map(|path| c_string(path)).collect()
}

pub(crate) fn c_string(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}
