//! The owner and the permissions of a script file, and of the directories that lead to it.
//!
//! Every name from the permitted directory down to the script is opened below the one before it, and links are not followed. The check
//! in `user_policy` then requires that nobody but the owner and root can write any of these directories, so nobody else can replace the
//! script between the check and its exec, which is by its path: an interpreter needs the path of a `#!` script, and many scripts find
//! their files by it. The directories above the permitted one are the administrator's business.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, FileType, Mode as FileMode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

use crate::policy::user_policy::{FailedCheck, Where};

/// A file or directory, as far as the check needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerAndMode {
    pub(crate) uid: u32,
    pub(crate) mode: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedScript {
    pub(crate) is_regular: bool,
    pub(crate) file: OwnerAndMode,
    /// The directory of the file, the one above, and so on up to the permitted one.
    pub(crate) directories: Vec<OwnerAndMode>,
}

impl OwnedScript {
    /// Examines a script by its absolute path, which must be below one of the directories.
    pub(crate) fn examine(script: &CStr, directories: &[CString]) -> Result<OwnedScript, FailedCheck> {
        let (permitted, below) = permitted(script, directories).ok_or(FailedCheck::Outside)?;
        let names: Vec<&[u8]> = below
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
            .collect();
        let is_plain = |name: &&[u8]| !matches!(*name, b"." | b"..");
        if names.is_empty() || !names.iter().all(is_plain) {
            return Err(FailedCheck::Outside);
        }
        let level = |above: usize| match above {
            0 => Where::Script,
            above => Where::Directory(u16::try_from(above - 1).unwrap_or(u16::MAX)),
        };
        let unreadable = |above: usize| move |errno: Errno| FailedCheck::Unreadable(level(above), errno.raw_os_error());
        // The administrator has named it, so a link to it is fine.
        let mut at = open(CWD, permitted, OFlags::DIRECTORY).map_err(unreadable(names.len()))?;
        let mut found = vec![fstat(&at).map_err(unreadable(names.len()))?];
        for (number, name) in names.iter().enumerate() {
            let above = names.len() - 1 - number;
            let kind = if above == 0 { OFlags::empty() } else { OFlags::DIRECTORY };
            let name = CString::new(*name).map_err(|_| FailedCheck::Outside)?;
            at = open(at.as_fd(), &name, OFlags::NOFOLLOW | kind).map_err(unreadable(above))?;
            found.push(fstat(&at).map_err(unreadable(above))?);
        }
        let file = found.pop().ok_or(FailedCheck::Outside)?;
        found.reverse();
        let entry = |about: Stat| OwnerAndMode { uid: about.st_uid, mode: about.st_mode & 0o7777 };
        Ok(OwnedScript {
            is_regular: FileType::from_raw_mode(file.st_mode) == FileType::RegularFile,
            file: entry(file),
            directories: found.into_iter().map(entry).collect(),
        })
    }
}

/// The directory below one of the permitted ones that leads to a script, such as a home: the scripts below it are taken for those of one owner. The
/// permitted directory itself if the script is there. `None` if it is below none of them. Opens no file.
pub(crate) fn share_of_owner(script: &CStr, directories: &[CString]) -> Option<CString> {
    let (permitted, below) = permitted(script, directories)?;
    let mut names = below.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let first = names.next().filter(|_| names.next().is_some()).unwrap_or_default();
    CString::new([permitted.to_bytes(), b"/", first].concat()).ok()
}

/// The longest permitted directory that a script is below, and the rest of its path.
fn permitted<'a>(script: &'a CStr, directories: &'a [CString]) -> Option<(&'a CString, &'a [u8])> {
    directories
        .iter()
        .filter_map(|directory| Some((directory, below(script.to_bytes(), directory.to_bytes())?)))
        .max_by_key(|(directory, _)| directory.to_bytes().len())
}

fn below<'a>(path: &'a [u8], directory: &[u8]) -> Option<&'a [u8]> {
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    path.strip_prefix(directory)?.strip_prefix(b"/")
}

fn open(at: BorrowedFd<'_>, path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat(at, path, OFlags::PATH | OFlags::CLOEXEC | flags, FileMode::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use super::*;

    fn text(path: &Path) -> CString {
        CString::new(path.as_os_str().as_bytes()).unwrap()
    }

    fn examine(script: &Path, directory: &Path) -> Result<OwnedScript, FailedCheck> {
        OwnedScript::examine(&text(script), &[text(directory)])
    }

    #[test]
    fn every_directory_down_to_the_script_is_examined() {
        let home = tempfile::tempdir().unwrap();
        let cgi = home.path().join("a/cgi");
        fs::create_dir_all(&cgi).unwrap();
        fs::set_permissions(&cgi, fs::Permissions::from_mode(0o751)).unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o710)).unwrap();
        let script = cgi.join("hello");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o744)).unwrap();
        let found = examine(&script, home.path()).unwrap();
        assert!(found.is_regular);
        assert_eq!(found.file.mode, 0o744);
        let modes: Vec<u32> = found.directories.iter().map(|directory| directory.mode).collect();
        assert_eq!((modes[0], modes[2], modes.len()), (0o751, 0o710, 3));
        assert!(!examine(&cgi, home.path()).unwrap().is_regular);
    }

    #[test]
    fn links_and_other_places_are_refused() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("script"), "").unwrap();
        symlink("script", home.path().join("link")).unwrap();
        symlink(".", home.path().join("loop")).unwrap();
        let path = |name: &str| home.path().join(name);
        assert!(examine(&path("script"), home.path()).is_ok());
        // It is opened as a link, which is no regular file.
        assert!(!examine(&path("link"), home.path()).unwrap().is_regular);
        assert_eq!(
            examine(&path("loop/script"), home.path()),
            Err(FailedCheck::Unreadable(Where::Directory(0), libc::ENOTDIR))
        );
        assert_eq!(
            examine(&path("missing"), home.path()),
            Err(FailedCheck::Unreadable(Where::Script, libc::ENOENT))
        );
        for outside in ["../x", "", ".", "a/../script"] {
            assert_eq!(
                examine(&path(outside), home.path()),
                Err(FailedCheck::Outside),
                "{outside}"
            );
        }
        for (script, share) in [
            ("/home/ann/cgi/a", Some(c"/home/ann")),
            ("/home//ann/a", Some(c"/home/ann")),
            ("/home/a", Some(c"/home/")),
            ("/srv/a", None),
        ] {
            let script = CString::new(script).unwrap();
            assert_eq!(share_of_owner(&script, &[c"/home".into()]).as_deref(), share);
        }
        let mut beside = home.path().as_os_str().to_owned();
        beside.push("-other/script");
        assert_eq!(examine(Path::new(&beside), home.path()), Err(FailedCheck::Outside));
    }
}
