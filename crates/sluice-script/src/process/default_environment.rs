//! The environment that every script gets: LANG and TZ of the server, HOME and USER of its user, and a search path.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;

use sluice_launch::own_user;

/// Without a search path, `#!/usr/bin/env` and shell scripts would find no program.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The variables, made once: the entry of the user may come from a directory server.
pub(crate) fn default_environment() -> &'static [(&'static str, Vec<u8>)] {
    static VARIABLES: OnceLock<Vec<(&'static str, Vec<u8>)>> = OnceLock::new();
    VARIABLES.get_or_init(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own_home = own_user().map(|user| user.home);
        let left = home_of_starter().filter(|home| Some(home) != own_home.as_ref());
        let mut variables = vec![("PATH", search_path(&path, left.as_deref()))];
        for name in ["LANG", "TZ"] {
            variables.extend(std::env::var_os(name).map(|value| (name, value.into_vec())));
        }
        match own_user().filter(|user| user.home.starts_with(b"/")) {
            Some(user) => {
                variables.push(("HOME", user.home));
                variables.push(("USER", user.name.clone()));
                variables.push(("LOGNAME", user.name));
            }
            // A user without an entry, as in some containers. Programs that look for their files there must find no others.
            None => variables.push(("HOME", b"/".to_vec())),
        }
        variables
    })
}

pub(crate) fn path_of_scripts() -> &'static OsStr {
    let path = default_environment().iter().find(|(name, _)| *name == "PATH");
    path.map_or(OsStr::new(DEFAULT_PATH), |(_, path)| OsStr::from_bytes(path))
}

/// The search paths that processes of this server may give to scripts: whether directories are left out depends on their user.
pub(crate) fn possible_search_paths() -> [Vec<u8>; 2] {
    let path = std::env::var_os("PATH").unwrap_or_default();
    [None, home_of_starter()].map(|left| search_path(&path, left.as_deref()))
}

/// The search path of a server process with another user than this one: without the directories below the home of this user, which are of no use for the other.
pub fn search_path_of_another_user() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    OsString::from_vec(search_path(&path, home_of_starter().as_deref()))
}

/// The home of the user who has started the server.
fn home_of_starter() -> Option<Vec<u8>> {
    let home = std::env::var_os("HOME").map(OsString::into_vec);
    home.filter(|home| home.starts_with(b"/") && home.len() > 1)
}

/// The absolute directories of the server's search path. The others would lie below the directory of each script. Those below `left`, the home
/// of the user whose shell has started the server, are of no use for another user.
fn search_path(path: &OsStr, left: Option<&[u8]>) -> Vec<u8> {
    let is_left = |directory: &[u8]| {
        let below = left.and_then(|home| directory.strip_prefix(home.strip_suffix(b"/").unwrap_or(home)));
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    let directories = path.as_bytes().split(|byte| *byte == b':');
    let is_used = |directory: &&[u8]| directory.starts_with(b"/") && !is_left(directory);
    let absolute: Vec<&[u8]> = directories.filter(is_used).collect();
    match absolute.as_slice() {
        [] => OsString::from(DEFAULT_PATH).into_vec(),
        absolute => absolute.join(&b':'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_path_has_absolute_directories_only() {
        for (path, expected) in [
            ("/a:/b/c", "/a:/b/c"),
            (":/a::.:b:./c:/d:", "/a:/d"),
            ("", DEFAULT_PATH),
            (".:bin", DEFAULT_PATH),
        ] {
            assert_eq!(search_path(path.as_ref(), None), expected.as_bytes(), "{path}");
        }
    }

    #[test]
    fn directories_of_the_user_who_has_started_the_server_are_left_out() {
        let path = "/root/.cargo/bin:/usr/bin:/root:/rooted/bin:/bin".as_ref();
        for home in ["/root", "/root/"] {
            let left = Some(home.as_bytes());
            assert_eq!(search_path(path, left), b"/usr/bin:/rooted/bin:/bin", "{home}");
        }
        assert_eq!(
            search_path("/root/bin".as_ref(), Some(b"/root")),
            DEFAULT_PATH.as_bytes()
        );
    }

    #[test]
    fn every_script_has_a_home() {
        assert!(default_environment().iter().any(|(name, _)| *name == "HOME"));
    }
}
