//! Where the control sockets of a user's servers are, and what they keep over a restart.
//!
//! The directory belongs to the user and lets nobody else in, or is not used. A server that was killed leaves its socket, which the next search removes.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use sluice_settings::StateDirectory;

/// The variable that names another directory.
const VARIABLE: &str = "SLUICE_RUNTIME_DIR";

/// The variable that names another directory for what is kept over a restart.
pub const STATE_VARIABLE: &str = "SLUICE_STATE_DIR";

/// The directory for the sockets of this user. It need not exist.
#[must_use]
pub fn directory() -> PathBuf {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    if let Some(named) = absolute(VARIABLE) {
        return named;
    }
    let own = geteuid().as_raw();
    // Root's commands must not depend on a variable that `sudo` may have kept.
    if own == 0 {
        // Not /run/sluice, which a service has for itself, often with another user.
        return "/run/sluice-root".into();
    }
    let usual = || Some(PathBuf::from(format!("/run/user/{own}"))).filter(|path| path.is_dir());
    match absolute("XDG_RUNTIME_DIR").or_else(usual) {
        Some(directory) => directory.join("sluice"),
        None => format!("/tmp/sluice-{own}").into(),
    }
}

/// The directory for the state that a server of this user keeps over a restart. It need not exist. `None` if no state is kept, or there is no place for it.
#[must_use]
pub fn state_directory(settings: &StateDirectory) -> Option<PathBuf> {
    match settings {
        StateDirectory::Off => None,
        StateDirectory::Path(path) => Some(path.clone()),
        StateDirectory::Usual => usual_state_directory(geteuid().is_root(), |name| std::env::var_os(name)),
    }
}

/// The usual one, by the variables of the environment.
fn usual_state_directory(is_root: bool, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // Several are separated by colons (systemd.exec(5)).
    let first = |name: &str| {
        let paths = variable(name)?;
        std::env::split_paths(&paths).find(|path| path.is_absolute())
    };
    if let Some(named) = absolute(STATE_VARIABLE).or_else(|| first("STATE_DIRECTORY")) {
        return Some(named);
    }
    // Root's servers must not depend on a variable that `sudo` may have kept.
    if is_root {
        return Some("/var/lib/sluice".into());
    }
    let home = || Some(absolute("HOME")?.join(".local/state"));
    Some(absolute("XDG_STATE_HOME").or_else(home)?.join("sluice"))
}

/// The file with the last rating of the machine by this user.
#[must_use]
pub fn rating_file() -> PathBuf {
    directory().join("rating.json")
}

/// The socket of the server with this process id.
#[must_use]
pub fn socket_of(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("{pid}.sock"))
}

/// Makes the directory, if it does not exist.
///
/// # Errors
/// One line: it cannot be made, or others have access to it.
pub fn create(directory: &Path) -> Result<(), String> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(format!("{}: {error}", directory.display())),
        _ => check(directory),
    }
}

/// Checks that a directory is this user's alone.
///
/// # Errors
/// One line: it does not exist, or others have access to it.
pub(super) fn check(directory: &Path) -> Result<(), String> {
    let shown = directory.display();
    let metadata = fs::symlink_metadata(directory).map_err(|error| format!("{shown}: {error}"))?;
    if !metadata.is_dir() {
        return Err(format!("{shown} is not a directory"));
    }
    if metadata.uid() != geteuid().as_raw() {
        return Err(format!(
            "{shown} belongs to user {}, but the control sockets of this user's servers need a directory of its own (SLUICE_RUNTIME_DIR names \
             another one)",
            metadata.uid()
        ));
    }
    // Those who may only read it cannot put a socket into it.
    if metadata.mode() & 0o022 != 0 {
        return Err(format!("{shown} can be changed by others: chmod 700 {shown}"));
    }
    Ok(())
}

/// The sockets in a directory, with the process ids of their servers.
pub(super) fn sockets(directory: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((name.strip_suffix(".sock")?.parse().ok()?, entry.path()))
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_a_directory_of_this_user_alone_is_used() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("sluice");
        create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(create(&path).unwrap_err().contains("chmod 700"));
        let link = root.path().join("link");
        symlink(root.path(), &link).unwrap();
        assert!(create(&link).unwrap_err().contains("not a directory"));
        assert!(create(&root.path().join("none/none")).is_err());
    }

    #[test]
    fn the_state_is_kept_where_service_or_user_have_a_place_for_it() {
        for (is_root, variables, expected) in [
            (true, &[][..], Some("/var/lib/sluice")),
            (true, &[("XDG_STATE_HOME", "/home/ann/state")], Some("/var/lib/sluice")),
            (
                true,
                &[("STATE_DIRECTORY", "/var/lib/a:/var/lib/b")],
                Some("/var/lib/a"),
            ),
            (
                false,
                &[("STATE_DIRECTORY", "/var/lib/a"), ("HOME", "/home/ann")],
                Some("/var/lib/a"),
            ),
            (false, &[("HOME", "/home/ann")], Some("/home/ann/.local/state/sluice")),
            (
                false,
                &[("HOME", "/home/ann"), ("XDG_STATE_HOME", "relative")],
                Some("/home/ann/.local/state/sluice"),
            ),
            (
                false,
                &[("HOME", "/home/ann"), ("XDG_STATE_HOME", "/s")],
                Some("/s/sluice"),
            ),
            (
                false,
                &[("SLUICE_STATE_DIR", "/x"), ("XDG_STATE_HOME", "/s")],
                Some("/x"),
            ),
            (false, &[], None),
        ] {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            let found = usual_state_directory(is_root, variable);
            assert_eq!(found, expected.map(PathBuf::from), "{is_root} {variables:?}");
        }
    }

    #[test]
    fn sockets_are_found_by_their_names() {
        let root = tempfile::tempdir().unwrap();
        for name in ["12.sock", "7.sock", "x.sock", "9.txt"] {
            fs::write(root.path().join(name), "").unwrap();
        }
        let pids: Vec<u32> = sockets(root.path()).into_iter().map(|(pid, _)| pid).collect();
        assert_eq!(pids, [7, 12]);
    }
}
