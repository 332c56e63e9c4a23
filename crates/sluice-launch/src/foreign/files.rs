//! Files of a configuration whose owners can exchange them at any moment: opened only if they are regular files, and compared without waiting.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::LazyLock;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode as FileMode, OFlags, ResolveFlags, Statx, StatxFlags, fstat, open, openat, openat2,
    statx,
};
use rustix::io::Errno;
use rustix::process::{Pid, getpid};

use crate::foreign::{deadline, owners};

/// Links to the open files of this process (proc(5)).
pub const OWN_DESCRIPTORS: &str = "/proc/self/fd";

/// The directory of this process's descriptors, open because others may hold the directories above it, but not this one. `None` if it cannot be opened.
pub fn own_descriptors() -> Option<BorrowedFd<'static>> {
    static OWN: LazyLock<Option<(Pid, OwnedFd)>> = LazyLock::new(|| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Some((getpid(), open(OWN_DESCRIPTORS, flags, FileMode::empty()).ok()?))
    });
    // It is not that of a child.
    OWN.as_ref()
        .filter(|(process, _)| *process == getpid())
        .map(|(_, own)| own.as_fd())
}

/// Opens a file that is only named (O_PATH), whatever happens to its path: its link below /proc leads to the file itself (proc(5)).
///
/// # Errors
/// Those of open(2); `NotFound` without /proc.
pub fn reopen(named: &impl AsRawFd, access: OFlags) -> io::Result<File> {
    let (number, flags) = (named.as_raw_fd(), access | OFlags::CLOEXEC);
    let opened = match own_descriptors() {
        Some(own) => openat(own, number.to_string(), flags, FileMode::empty()),
        None => openat(CWD, format!("{OWN_DESCRIPTORS}/{number}"), flags, FileMode::empty()),
    };
    Ok(opened?.into())
}

/// Opens a regular file for reading, for those who have a part in its path.
///
/// Opening something else has effects, for which a link in its place is enough: a terminal becomes that of the process, whose keys then end it, a FIFO waits
/// for its writer, and a device may do anything. And whoever owns a link or directory on the path chooses the file, so it must be one that they may read.
///
/// # Errors
/// Those of open(2), or the path leads to something else than a regular file, or somebody who may not read the file can exchange it for another one.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let named = owners::open_for_owners(path)?;
    reopen(&named, OFlags::RDONLY | OFlags::NOCTTY)
}

pub(crate) fn check_regular(file: &OwnedFd) -> io::Result<()> {
    match FileType::from_raw_mode(fstat(file)?.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Errno::ISDIR.into()),
        _ => Err(io::Error::other("is not a file")),
    }
}

/// The members of stat(2) that change with the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    device: (u32, u32),
    inode: u64,
    owner: u32,
    bytes: u64,
    modified: (i64, u32),
    changed: (i64, u32),
}

impl FileStamp {
    /// The stamp of the file that a path leads to. `None` for a missing file, and for one that is not answered for (`deadline::ask`).
    #[must_use]
    pub fn of(path: &Path) -> Option<FileStamp> {
        let asked = path.to_owned();
        let about = move || Ok(statx(CWD, &asked, AtFlags::empty(), StatxFlags::BASIC_STATS)?);
        Some(FileStamp::from_statx(&deadline::ask(path, about).ok()?))
    }

    /// The stamp by what the kernel has in its cache. `None` if it would have to ask the file system. Never waits.
    #[must_use]
    pub fn cached(path: &Path) -> Option<Option<FileStamp>> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        match openat2(CWD, path, flags, FileMode::empty(), ResolveFlags::CACHED) {
            Ok(file) => {
                let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
                let about = statx(file.as_fd(), c"", how, StatxFlags::BASIC_STATS).ok()?;
                Some(Some(FileStamp::from_statx(&about)))
            }
            Err(Errno::NOENT) => Some(None),
            Err(_) => None,
        }
    }

    /// The number of its user.
    #[must_use]
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Whether the file may be that of another machine or process, of which the kernel's cache can be out of date: its file system has no device.
    #[must_use]
    pub fn may_be_foreign(&self) -> bool {
        self.device.0 == 0
    }

    fn from_statx(about: &Statx) -> FileStamp {
        FileStamp {
            device: (about.stx_dev_major, about.stx_dev_minor),
            inode: about.stx_ino,
            owner: about.stx_uid,
            bytes: about.stx_size,
            modified: (about.stx_mtime.tv_sec, about.stx_mtime.tv_nsec),
            changed: (about.stx_ctime.tv_sec, about.stx_ctime.tv_nsec),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("file"), "text").unwrap();
        symlink("file", path("link")).unwrap();
        assert_eq!(
            io::read_to_string(open_regular(&path("link")).unwrap()).unwrap(),
            "text"
        );
        rustix::fs::mkfifoat(CWD, path("fifo"), FileMode::RUSR | FileMode::WUSR).unwrap();
        symlink("/dev/ptmx", path("terminal")).unwrap();
        for name in ["fifo", "terminal"] {
            let error = open_regular(&path(name)).unwrap_err();
            assert_eq!(error.to_string(), "is not a file", "{name}");
        }
        assert_eq!(
            open_regular(directory.path()).unwrap_err().kind(),
            io::ErrorKind::IsADirectory
        );
        assert_eq!(open_regular(&path("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_cached_stamp_is_that_of_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let before = FileStamp::of(file.path());
        assert_eq!(FileStamp::cached(file.path()), Some(before));
        std::fs::write(file.path(), "more").unwrap();
        assert_eq!(FileStamp::cached(file.path()), Some(FileStamp::of(file.path())));
        assert_ne!(FileStamp::of(file.path()), before);
    }
}
