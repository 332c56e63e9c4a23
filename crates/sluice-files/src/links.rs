//! Symbolic links that leave the directory in which they are found.
//!
//! By default they are refused. `follow_links` allows all, or those that belong to the owner of their target. A file that is sent is the one that was checked:
//! each step of a path is an open descriptor (O_PATH), so replacing a link meanwhile changes nothing. A script is checked in the same way, but started by its
//! path: who may write to its directory can replace it in between, as with Apache's SymLinksIfOwnerMatch, and could write a script there as well.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode as FileMode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat};
use rustix::io::Errno;
use sluice_http::fault::{Absent, LinkProblem, RefusedLink};
use sluice_launch::{OWN_DESCRIPTORS, own_descriptors};
use sluice_settings::FollowLinks;

use crate::foreign::file_system::{OPENS_MAX, Share, name, open_below, retry};
use crate::foreign::{self, Links, leaves_path, left};

/// Links that are followed on one path, as in the kernel (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// The end of the path of a file that was removed (proc(5)).
const DELETED: &[u8] = b" (deleted)";

/// Names a step of a path: opens nothing, follows nothing.
const STEP: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The fault of a link that may not be followed. `None` if the error is another one.
#[must_use]
pub fn refused_link(error: &io::Error) -> Option<Absent> {
    let refused = error.get_ref()?.downcast_ref::<RefusedLink>()?;
    Some(Absent::Link(Box::new(refused.clone())))
}

/// Finds a script in a script directory: its path, and what the system says about the file now. One system call for a file directly in it.
///
/// # Errors
/// `NotFound` also for a link that may not be followed (`refused_link`); otherwise the error of the system.
pub fn find_script(directory: &Path, below: &Path, follow: FollowLinks) -> io::Result<(PathBuf, Metadata)> {
    let file = directory.join(below);
    if follow == FollowLinks::Yes {
        let metadata = foreign::metadata(&file, Links::Followed)?;
        return Ok((file, metadata));
    }
    if below.components().count() == 1 {
        let metadata = foreign::metadata(&file, Links::Shown)?;
        if !metadata.is_symlink() {
            return Ok((file, metadata));
        }
    }
    let metadata = metadata_behind_links(directory, below, follow)?;
    Ok((file, metadata))
}

/// The metadata of the file of a path with links, as far as `follow` allows them.
fn metadata_behind_links(directory: &Path, below: &Path, follow: FollowLinks) -> io::Result<Metadata> {
    let descriptor = name(directory, Links::Followed)?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let path = OFlags::PATH | OFlags::CLOEXEC;
    let within = resolve | ResolveFlags::NO_XDEV;
    let share = || Share::of_path(&directory.join(below));
    match open_below(&descriptor, below, path, within, share) {
        Err(Errno::XDEV | Errno::ACCESS) => {}
        other => return File::from(other?).metadata(),
    }
    if leaves_path(&directory.join(below)) {
        return Err(left());
    }
    match retry(|| openat2(&descriptor, below, path, FileMode::empty(), resolve)) {
        Err(Errno::XDEV) => {}
        other => return File::from(other?).metadata(),
    }
    let directory = directory.canonicalize()?;
    let open = || open_leaving(descriptor.as_fd(), &directory, below, follow);
    open_unreplaced(open)?.0.metadata()
}

/// Opens a path, with links that leave `directory`, as far as `follow` allows it. `descriptor` is that directory, whose path is real.
/// The result is only a name for the file (O_PATH), and the file's real path.
pub(crate) fn open_leaving(
    descriptor: BorrowedFd<'_>,
    directory: &Path,
    name: &Path,
    follow: FollowLinks,
) -> io::Result<(File, PathBuf)> {
    let refuse = |problem, target: Option<PathBuf>| {
        let refused = RefusedLink {
            name: name.into(),
            directory: directory.into(),
            target: target.map(PathBuf::into_boxed_path),
            problem,
        };
        io::Error::new(io::ErrorKind::NotFound, refused)
    };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = retry(|| openat2(descriptor, name, flags, FileMode::empty(), ResolveFlags::NO_MAGICLINKS));
    let file = match opened {
        Ok(file) => File::from(file),
        // What an unreadable directory elsewhere holds is nobody's business.
        Err(Errno::ACCESS) if follow == FollowLinks::No => return Err(refuse(LinkProblem::Leaves, None)),
        Err(Errno::LOOP) => return Err(io::ErrorKind::NotFound.into()),
        Err(error) => return Err(error.into()),
    };
    let real = real_path(&file)?;
    // An absolute link may lead back into the directory.
    if follow == FollowLinks::Yes || real.starts_with(directory) {
        return Ok((file, real));
    }
    if follow == FollowLinks::No {
        return Err(refuse(LinkProblem::Leaves, Some(real)));
    }
    let walked = Walk { links: 0 }.resolve(descriptor.try_clone_to_owned()?, name);
    let Some(file) = walked? else {
        return Err(refuse(LinkProblem::OtherOwner, Some(real)));
    };
    let file = File::from(file);
    let real = real_path(&file)?;
    Ok((file, real))
}

/// Opens a file that is only named, for reading. What is neither a file nor a directory stays as it is, because opening a device may have an effect.
pub(crate) fn reopen(file: File, access: OFlags) -> io::Result<File> {
    let metadata = file.metadata()?;
    if access.contains(OFlags::PATH) || !(metadata.is_file() || metadata.is_dir()) {
        return Ok(file);
    }
    sluice_launch::reopen(&file, access)
}

/// The path of an open file, without symbolic links.
///
/// # Errors
/// `StaleNetworkFileHandle` (ESTALE) if the file has no path any more: it was removed or replaced after it was opened. The path would
/// then end with " (deleted)" (proc(5)), so that it could not be compared with those of scripts and logs.
pub(crate) fn real_path(file: &File) -> io::Result<PathBuf> {
    let path = named_path(file)?;
    if path.as_os_str().as_bytes().ends_with(DELETED) {
        let (own, found) = (file.metadata()?, foreign::metadata(&path, Links::Shown));
        // A file may have such a name.
        if !found.is_ok_and(|found| (found.dev(), found.ino()) == (own.dev(), own.ino())) {
            return Err(Errno::STALE.into());
        }
    }
    Ok(path)
}

pub(crate) fn named_path(file: &File) -> io::Result<PathBuf> {
    let number = file.as_raw_fd();
    let Some(own) = own_descriptors() else {
        return std::fs::read_link(format!("{OWN_DESCRIPTORS}/{number}"));
    };
    let path = readlinkat(own, number.to_string(), Vec::new())?;
    Ok(OsString::from_vec(path.into_bytes()).into())
}

/// Opens a path again if what it leads to was replaced meanwhile.
///
/// # Errors
/// Those of `open`; `NotFound` if it was replaced each time.
pub(crate) fn open_unreplaced<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..OPENS_MAX {
        match open() {
            Err(error) if error.kind() == io::ErrorKind::StaleNetworkFileHandle => {}
            other => return other,
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// A walk along a path, step by step, that compares the owner of each link with that of what it leads to.
struct Walk {
    links: usize,
}

impl Walk {
    /// The target of a path. `None` if one of its links has another owner than its target.
    fn resolve(&mut self, start: OwnedFd, path: &Path) -> io::Result<Option<OwnedFd>> {
        let mut at = match path.has_root() {
            true => openat(CWD, "/", STEP, FileMode::empty())?,
            false => start,
        };
        let parts = path.as_os_str().as_bytes().split(|byte| *byte == b'/');
        for part in parts.filter(|part| !part.is_empty()) {
            let next = openat(&at, part, STEP, FileMode::empty())?;
            let status = fstat(&next)?;
            if FileType::from_raw_mode(status.st_mode) != FileType::Symlink {
                at = next;
                continue;
            }
            self.links += 1;
            if self.links > LINKS_MAX {
                return Err(io::ErrorKind::NotFound.into());
            }
            let target = readlinkat(&next, "", Vec::new())?;
            let target = Path::new(std::ffi::OsStr::from_bytes(target.as_bytes())).to_owned();
            let Some(found) = self.resolve(at, &target)? else {
                return Ok(None);
            };
            if fstat(&found)?.st_uid != status.st_uid {
                return Ok(None);
            }
            at = found;
        }
        Ok(Some(at))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_that_was_removed_has_no_path() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let path = root.join("x.php");
        let file = File::create(&path).unwrap();
        assert_eq!(real_path(&file).unwrap(), path);
        // A second name does not matter: the path is that by which it was opened.
        fs::hard_link(&path, root.join("other")).unwrap();
        fs::remove_file(&path).unwrap();
        let is_stale = |file| real_path(file).unwrap_err().kind() == io::ErrorKind::StaleNetworkFileHandle;
        assert!(is_stale(&file));
        let named = root.join("x.php (deleted)");
        let other = File::create(&named).unwrap();
        assert!(is_stale(&file));
        assert_eq!(real_path(&other).unwrap(), named);
        let mut attempts = 0;
        let error = open_unreplaced(|| {
            attempts += 1;
            real_path(&file)
        });
        assert_eq!(
            (error.unwrap_err().kind(), attempts),
            (io::ErrorKind::NotFound, OPENS_MAX)
        );
    }

    #[test]
    fn a_script_behind_a_link_is_found_as_far_as_links_are_followed() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("bin/sub")).unwrap();
        fs::create_dir(at("other")).unwrap();
        for name in ["bin/own", "bin/sub/deep", "other/tool"] {
            fs::write(at(name), "x").unwrap();
        }
        symlink("own", at("bin/stays")).unwrap();
        symlink(at("bin/own"), at("bin/absolute")).unwrap();
        symlink("../other/tool", at("bin/leaves")).unwrap();
        symlink("../../other", at("bin/sub/out")).unwrap();
        symlink("/bin/sh", at("bin/shell")).unwrap();
        let owner = fs::metadata(at("bin")).unwrap().uid();
        let is_same = fs::metadata("/bin/sh").unwrap().uid() == owner;
        let found = |name: &str, follow| find_script(&at("bin"), Path::new(name), follow);
        for name in ["own", "sub/deep", "stays", "absolute"] {
            for follow in [FollowLinks::No, FollowLinks::SameOwner, FollowLinks::Yes] {
                assert!(
                    found(name, follow)
                        .is_ok_and(|(file, metadata)| file == at("bin").join(name) && metadata.is_file()),
                    "{name} {follow:?}"
                );
            }
        }
        for name in ["leaves", "sub/out/tool"] {
            let error = found(name, FollowLinks::No).unwrap_err();
            assert!(refused_link(&error).is_some(), "{name}: {error}");
            assert!(error.to_string().contains("follow_links"), "{error}");
            assert!(found(name, FollowLinks::SameOwner).is_ok(), "{name}");
            assert!(found(name, FollowLinks::Yes).is_ok(), "{name}");
        }
        assert_eq!(found("shell", FollowLinks::SameOwner).is_ok(), is_same);
        for name in ["none", "sub/none", "own/x"] {
            assert!(
                refused_link(&found(name, FollowLinks::No).unwrap_err()).is_none(),
                "{name}"
            );
        }
    }
}
