//! The users that scripts may have: the settings, as the launcher takes them.
//!
//! Not here: the decision (`sluice_launch`).

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sluice_launch::{NamedUser, OwnerPolicy, ScriptUsers};
use sluice_settings::{OwnerSettings, ScriptUserSettings};

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
        owners: settings.owners.as_ref().map(owners),
    }
}

fn owners(owners: &OwnerSettings) -> OwnerPolicy {
    OwnerPolicy {
        uid_min: owners.uid_min,
        is_for_all: owners.is_for_all,
        users: owners.users.iter().map(|user| user.credentials.clone()).collect(),
        groups: owners.groups.clone(),
        directories: owners.directories.iter().flat_map(|path| spellings(path)).collect(),
    }
}

/// A directory as it is written, and without links: a script may be known by either path.
fn spellings(directory: &Path) -> Vec<CString> {
    let mut paths = vec![directory.to_owned()];
    paths.extend(directory.canonicalize().ok().filter(|path| path != directory));
    let text = |path: PathBuf| CString::new(path.as_os_str().as_bytes()).ok();
    paths.into_iter().filter_map(text).collect()
}
