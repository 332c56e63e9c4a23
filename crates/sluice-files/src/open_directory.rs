//! A directory that is open: opening below it, in its own file system and elsewhere, and the directories in it that are private.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode as FileMode, OFlags, ResolveFlags, Stat, fstat, openat2};
use rustix::io::Errno;
use sluice_http::path_text::{path_of, text_of_path};
use sluice_launch::deadline;
use sluice_settings::permission::{self, Use};

use crate::foreign::file_system::{Share, cached_below, learn, open_below};
use crate::foreign::served_file::ServedFile;
use crate::foreign::{self, Links, leaves, leaves_path, left};
use crate::links;
use crate::withheld::WithheldFile;

/// Parts of a path that are asked for their owner.
const SHARE_PARTS_MAX: usize = 16;

const OPENAT2_IS_MISSING: &str = "the system call openat2(2) is not available: the kernel is older than Linux 5.6, or a filter of system calls \
     refuses it (RestrictSUIDSGID= in a unit of systemd, an old container engine)";

pub(crate) struct OpenDirectory {
    /// Without symbolic links.
    pub(crate) path: PathBuf,
    pub(crate) descriptor: OwnedFd,
    pub(crate) is_foreign: bool,
    pub(crate) private: Vec<PrivateDirectory>,
    /// Paths of directories whose files will never be served, but which do not exist yet: they may become symbolic links.
    pub(crate) private_later: Vec<PathBuf>,
    /// The same for those whose file systems did not answer. No request asks whether there is a link.
    pub(crate) private_unanswered: Vec<PathBuf>,
    /// Files that are never served, by path; by identity `WithheldFiles` knows them.
    pub(crate) withheld_below: Vec<WithheldFile>,
}

pub(crate) struct PrivateDirectory {
    /// Relative to the served one.
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl OpenDirectory {
    pub(crate) fn open(path: &Path) -> io::Result<OpenDirectory> {
        let asked = path.to_owned();
        deadline::ask(path, move || OpenDirectory::open_answered(&asked))
    }

    /// Opens a directory, and waits for its file system.
    fn open_answered(path: &Path) -> io::Result<OpenDirectory> {
        // Before requests need it.
        sluice_launch::own_descriptors();
        let path = path.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(&path, flags, FileMode::empty())?;
        let opened = OpenDirectory {
            path,
            is_foreign: !learn(&descriptor),
            descriptor,
            private: Vec::new(),
            private_later: Vec::new(),
            private_unanswered: Vec::new(),
            withheld_below: Vec::new(),
        };
        match opened.open_with(".", flags, ResolveFlags::empty()) {
            // Otherwise each request for a file would fail. EPERM: older filters of container engines.
            Err(Errno::NOSYS | Errno::PERM) => Err(io::Error::other(OPENAT2_IS_MISSING)),
            _ => Ok(opened),
        }
    }

    pub(crate) fn withhold(&mut self, other: &Path) {
        let real = match deadline::canonicalize(other) {
            Ok(real) => real,
            Err(error) if deadline::is_unanswered(&error) => {
                return self.private_unanswered.push(real_or_future_path(other));
            }
            Err(_) => return self.private_later.push(real_or_future_path(other)),
        };
        if let Ok(inside) = real.strip_prefix(&self.path)
            && !inside.as_os_str().is_empty()
            && let Ok(metadata) = deadline::metadata(&real)
        {
            self.private.push(PrivateDirectory {
                path: inside.to_owned(),
                device: metadata.dev(),
                inode: metadata.ino(),
            });
        }
    }

    pub(crate) fn open_with(&self, name: &str, access: OFlags, more: ResolveFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | more;
        let path = path_of(name);
        open_below(&self.descriptor, &path, access, resolve, || {
            self.share_of_uncached(&path)
        })
    }

    /// Opens a path as `open_with` does, but enters no other file system (EXDEV).
    pub(crate) fn open_within(&self, name: &str, access: OFlags, more: ResolveFlags) -> Result<OwnedFd, Errno> {
        self.open_with(name, access, more | ResolveFlags::NO_XDEV)
    }

    /// Opens a path without symbolic links that `open_within` has refused with `error`: in another file system, or with the reason of a refusal.
    pub(crate) fn open_across(
        &self,
        path: &Path,
        name: &str,
        access: OFlags,
        wanted: Use,
        error: Errno,
    ) -> io::Result<ServedFile> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        if error == Errno::XDEV
            && let Some(named) = cached_below(&self.descriptor, &path_of(name), resolve)
            && let Ok(file) = links::reopen(named.into(), access)
        {
            return Ok(ServedFile::local(file));
        }
        if leaves(|| self.share(path)) {
            return Err(left());
        }
        let opened = match error {
            Errno::XDEV => self.open_with(name, access, ResolveFlags::NO_SYMLINKS),
            error => Err(error),
        };
        let opened = opened.map_err(|error| self.explained(path, wanted, error))?;
        Ok(ServedFile::anywhere(opened.into()))
    }

    /// A file that was opened in the file system of this directory.
    pub(crate) fn served(&self, file: OwnedFd) -> ServedFile {
        match self.is_foreign {
            false => ServedFile::local(file.into()),
            true => ServedFile::anywhere(file.into()),
        }
    }

    /// The share of a lookup below this directory: that of the owner of the last directory or link on the path that lies in the file system of this directory.
    pub(crate) fn share(&self, path: &Path) -> Share {
        let (mut owner, mut place) = (0, PathBuf::new());
        if !self.is_foreign {
            owner = fstat(&self.descriptor).map_or(0, |status| status.st_uid);
            for part in path.components().take(SHARE_PARTS_MAX) {
                place.push(part);
                let name = text_of_path(&place);
                match self.open_within(&name, OFlags::PATH | OFlags::NOFOLLOW, ResolveFlags::empty()) {
                    Ok(named) => owner = fstat(named).map_or(owner, |status| status.st_uid),
                    Err(_) => break,
                }
            }
        }
        Share::of(owner, &self.path.join(place))
    }

    /// The share of a lookup of a name that is not in the kernel's cache: that of the last directory on the path that is; or of the link there.
    fn share_of_uncached(&self, path: &Path) -> Share {
        let identity = |status: Stat| (status.st_dev, status.st_ino);
        let named = |place: &Path, more| {
            let resolve =
                ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV | ResolveFlags::CACHED;
            let flags = OFlags::PATH | OFlags::CLOEXEC | more;
            let named = openat2(&self.descriptor, place, flags, FileMode::empty(), resolve);
            named.and_then(fstat).map(identity).ok()
        };
        let mut last = fstat(&self.descriptor).map(identity).ok();
        let (mut place, mut parts) = (PathBuf::new(), path.components().take(SHARE_PARTS_MAX).peekable());
        while let Some(part) = parts.next() {
            place.push(part);
            match parts.peek().and_then(|_| named(&place, OFlags::DIRECTORY)) {
                Some(directory) => last = Some(directory),
                None => return Share::local((last, named(&place, OFlags::NOFOLLOW))),
            }
        }
        Share::local((last, None::<(u64, u64)>))
    }

    pub(crate) fn is_in(&self, inside: &Path, private: &PrivateDirectory) -> bool {
        let (mut parts, mut above) = (inside.components(), PathBuf::new());
        let mut is_exact = true;
        for own in private.path.components() {
            let Some(part) = parts.next() else { return false };
            if !part.as_os_str().eq_ignore_ascii_case(own.as_os_str()) {
                return false;
            }
            is_exact &= part == own;
            above.push(part);
        }
        // In other letters it is the same directory only on a file system that ignores case.
        let name = text_of_path(&above);
        let found = || match self.open_within(&name, OFlags::PATH, ResolveFlags::empty()) {
            Err(Errno::XDEV) if leaves(|| self.share(&above)) => Err(Errno::XDEV),
            Err(Errno::XDEV) => self.open_with(&name, OFlags::PATH, ResolveFlags::empty()),
            other => other,
        };
        is_exact
            || found()
                .and_then(fstat)
                .is_ok_and(|found| (found.st_dev, found.st_ino) == (private.device, private.inode))
    }

    /// Whether a path lies at a path of the whole machine.
    pub(crate) fn is_in_path(&self, inside: &Path, other: &Path) -> bool {
        other.strip_prefix(&self.path).is_ok_and(|own| begins_with(inside, own))
    }

    /// Whether a path lies at a path that did not exist, or where the symbolic link leads that was made there.
    pub(crate) fn is_in_later(&self, inside: &Path, link: &Path) -> bool {
        if self.is_in_path(inside, link) {
            return true;
        }
        // Most often it is not there.
        foreign::metadata(link, Links::Shown).is_ok_and(|found| found.is_symlink())
            && !leaves_path(link)
            && link.canonicalize().is_ok_and(|target| {
                let target = target.strip_prefix(&self.path);
                target.is_ok_and(|target| inside.starts_with(target))
            })
    }

    /// The error of opening a file below this directory: if permissions refuse it, with those of the file.
    fn explained(&self, path: &Path, wanted: Use, error: Errno) -> io::Error {
        match error {
            Errno::ACCESS => permission::explained(&self.path.join(path), wanted, error.into()),
            _ => error.into(),
        }
    }
}

/// The path without symbolic links; of a path that does not exist, or whose file system does not answer, that of its directory with its name.
#[must_use]
pub fn real_or_future_path(path: &Path) -> PathBuf {
    let beside = || Some(deadline::canonicalize(path.parent()?).ok()?.join(path.file_name()?));
    let real = deadline::canonicalize(path).ok().or_else(beside);
    real.unwrap_or_else(|| path.to_owned())
}

/// Whether a path is another one or lies below it. The case of letters does not matter, because a file system may ignore it.
fn begins_with(path: &Path, other: &Path) -> bool {
    let mut parts = path.components();
    !other.as_os_str().is_empty()
        && other.components().all(|own| {
            let part = parts.next();
            part.is_some_and(|part| part.as_os_str().eq_ignore_ascii_case(own.as_os_str()))
        })
}
