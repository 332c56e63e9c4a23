//! Paths that belong to several users: whoever owns a link or directory on a path chooses what it leads to.
//!
//! The path is walked as the kernel walks it, one part after the other, and each part is judged by what was opened: its owner can exchange it a moment later.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, FsWord, Mode as FileMode, OFlags, ResolveFlags, Statx, StatxAttributes, StatxFlags, fstat,
    fstatfs, open, openat, openat2, readlinkat, statx,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::foreign::files::check_regular;

/// Symbolic links of one path, as in the kernel (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// File systems in which the kernel shows its own state: proc, sysfs, debugfs, tracefs, securityfs, cgroup and cgroup2 (statfs(2)).
const SHOWN_BY_KERNEL: [FsWord; 7] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x0027_e0eb,
    0x6367_7270,
];

const OTHERS_READ: u32 = 0o4;
const OTHERS_ENTER: u32 = 0o1;

/// A walk along a path.
struct Walk {
    /// The directories down to the present place; the first is the root.
    directories: Vec<OwnedFd>,
    /// The parts that follow, the next one last.
    rest: Vec<OsString>,
    links: usize,
    /// The path of the present place, without links.
    place: PathBuf,
    /// The links and directories.
    passed: Vec<Passed>,
    /// The holder of the path (`holder_of`).
    holder: Option<u64>,
    /// RESOLVE_CACHED: the walk ends where a file system would have to be asked.
    resolve: ResolveFlags,
}

/// A link or directory on a path.
struct Passed {
    path: PathBuf,
    owner: u32,
    is_link: bool,
    /// Whether everybody may pass it.
    is_open: bool,
}

/// Opens a regular file by name alone (O_PATH).
///
/// # Errors
/// Those of open(2), or the file is no regular file, or a link or directory of its path belongs to somebody who may not read it, and is neither its owner, nor root, nor the
/// user of this process; or the kernel shows its own state in the file, and the path is theirs.
pub(crate) fn open_for_owners(path: &Path) -> io::Result<OwnedFd> {
    let mut walk = Walk::begin(path)?;
    let file = walk.last()?.1.ok_or(Errno::NOENT)?;
    check_regular(&file)?;
    let about = fstat(&file)?;
    let trusted = [0, geteuid().as_raw(), about.st_uid];
    let may_read = |user: u32| {
        about.st_mode & OTHERS_READ != 0 && walk.passed.iter().all(|part| part.owner == user || part.is_open)
    };
    let mut owners = walk.passed.iter().map(|part| part.owner);
    let has_chosen = |owner: &u32| ![0, geteuid().as_raw()].contains(owner);
    if SHOWN_BY_KERNEL.contains(&fstatfs(&file)?.f_type)
        && let Some(owner) = owners.clone().find(has_chosen)
    {
        return Err(io::Error::other(format!(
            "what it holds depends on who reads it, and user {owner} owns a link or directory of its path: name a file of a disk"
        )));
    }
    match owners.find(|owner| !trusted.contains(owner) && !may_read(*owner)) {
        Some(owner) => Err(io::Error::other(format!(
            "belongs to user {}, and user {owner}, who owns a link or directory of its path, may not read it: name a path whose links and directories belong to root or to the owner of the file",
            about.st_uid
        ))),
        None => Ok(file),
    }
}

/// Opens a file for appending. One that does not exist is made, with this mode. The reader of a FIFO is not waited for (O_NONBLOCK).
///
/// # Errors
/// Those of open(2), or a link of the path, or the FIFO or device that it leads to, belongs neither to root nor to the user of this process: its owner could have the lines
/// written to any file, or have their writer wait.
pub fn open_to_append(path: &Path, mode: u32) -> io::Result<File> {
    let flags = OFlags::APPEND | OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mode = FileMode::from_raw_mode(mode);
    // Links below /proc lead to what has no path.
    if ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"]
        .iter()
        .any(|links| path.starts_with(links))
    {
        return Ok(open(path, flags, FileMode::empty())?.into());
    }
    let trusted = [0, geteuid().as_raw()];
    let mut walk = Walk::begin(path)?;
    let (name, _) = walk.last()?;
    let mut links = walk.passed.iter().filter(|part| part.is_link);
    if let Some(Passed { owner, .. }) = links.find(|link| !trusted.contains(&link.owner)) {
        return Err(io::Error::other(format!(
            "a link of its path belongs to user {owner}, who could have it lead to any file: name the file itself, or give the link to root (chown -h root)"
        )));
    }
    let directory = walk.directory();
    let flags = flags | OFlags::NOFOLLOW;
    // First one that is there: O_CREAT takes the lock of the directory, also when the file exists, and others can keep that.
    let file: File = match openat(directory, &name, flags, FileMode::empty()) {
        Err(Errno::NOENT) => openat(directory, &name, flags | OFlags::CREATE, mode)?.into(),
        opened => opened?.into(),
    };
    let about = fstat(&file)?;
    match FileType::from_raw_mode(about.st_mode) {
        FileType::RegularFile => Ok(file),
        _ if trusted.contains(&about.st_uid) => Ok(file),
        _ => Err(io::Error::other(format!(
            "is not a file, and belongs to user {}",
            about.st_uid
        ))),
    }
}

/// Whether a directory, and each link and directory on the path to it, belongs to root.
#[must_use]
pub fn is_path_of_root(directory: &Path) -> bool {
    let ask = || -> io::Result<bool> {
        let mut walk = Walk::begin(directory)?;
        let owner = match walk.last()? {
            (_, Some(found)) => fstat(&found)?.st_uid,
            (_, None) => return Ok(false),
        };
        Ok(owner == 0 && walk.passed.iter().all(|part| part.owner == 0))
    };
    ask().unwrap_or(false)
}

/// The first link or directory on a path that belongs to none of these users, and its owner. What the path leads to does not count, and need not exist.
///
/// # Errors
/// The path of this process cannot be walked.
pub fn first_part_of_another(path: &Path, trusted: &[u32]) -> io::Result<Option<(PathBuf, u32)>> {
    let mut walk = Walk::begin(path)?;
    // A path that leads nowhere counts as far as it can be walked.
    drop(walk.last());
    let mut passed = walk.passed.into_iter().map(|part| (part.path, part.owner));
    Ok(passed.find(|(_, owner)| !trusted.contains(owner)))
}

/// A number for whoever can keep a path from being answered for: the first on it who is neither root nor the user of this process, a user or a file system of
/// another process or machine (from 2³² on); 0 if there is none. Never waits, because it asks only the kernel's cache.
#[must_use]
pub fn holder_of(path: &Path) -> u64 {
    let walked = Walk::begin(path).map(|walk| Walk { resolve: ResolveFlags::CACHED, ..walk });
    let holder = walked.ok().and_then(|mut walk| {
        // Fails where the cache ends.
        drop(walk.last());
        walk.holder
    });
    holder.unwrap_or(0)
}

/// The holder of what lies behind a part of a path. The flag for immutable files says that the kernel has the file system itself; those without a device
/// and without it are FUSE, NFS and the like.
fn holder_behind(about: &Statx) -> Option<u64> {
    let is_foreign = about.stx_dev_major == 0 && !about.stx_attributes_mask.contains(StatxAttributes::IMMUTABLE);
    match about.stx_uid {
        _ if is_foreign => Some(1 << 32 | u64::from(about.stx_dev_minor)),
        user if user == 0 || user == geteuid().as_raw() => None,
        user => Some(user.into()),
    }
}

impl Walk {
    fn begin(path: &Path) -> io::Result<Walk> {
        let mut walk = Walk {
            directories: vec![open("/", OFlags::PATH | OFlags::CLOEXEC, FileMode::empty())?],
            rest: Vec::new(),
            links: 0,
            place: "/".into(),
            passed: Vec::new(),
            holder: None,
            resolve: ResolveFlags::empty(),
        };
        walk.push(&std::path::absolute(path)?);
        Ok(walk)
    }

    /// The directory of the last part.
    fn directory(&self) -> &OwnedFd {
        &self.directories[self.directories.len() - 1]
    }

    /// Puts the parts of a path before the rest.
    fn push(&mut self, path: &Path) {
        let parts = path.components().filter(|part| *part != Component::CurDir);
        let mut parts: Vec<OsString> = parts.map(|part| part.as_os_str().to_owned()).collect();
        parts.reverse();
        self.rest.append(&mut parts);
    }

    /// Walks to the last part, which is no link: its name, and what has this name. The root has none.
    fn last(&mut self) -> io::Result<(OsString, Option<OwnedFd>)> {
        while let Some(part) = self.rest.pop() {
            if part == "/" {
                self.directories.truncate(1);
                self.place = "/".into();
            } else if part == ".." {
                self.directories
                    .truncate(self.directories.len().saturating_sub(1).max(1));
                self.place.pop();
            } else if let Some(found) = self.step(&part)? {
                return Ok((part, found));
            }
        }
        Err(Errno::ISDIR.into())
    }

    fn open(&self, part: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
        match self.resolve.is_empty() {
            // Also where openat2(2) is not available, so that the check for it can report that.
            true => openat(self.directory(), part, flags, FileMode::empty()),
            false => openat2(self.directory(), part, flags, FileMode::empty(), self.resolve),
        }
    }

    /// The attributes of what was opened; those that the kernel has in its cache, if the walk is to wait for nobody.
    fn about(&self, found: &OwnedFd) -> io::Result<Statx> {
        let how = match self.resolve.is_empty() {
            true => AtFlags::EMPTY_PATH,
            false => AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC,
        };
        Ok(statx(found, c"", how, StatxFlags::BASIC_STATS)?)
    }

    fn pass(&mut self, path: PathBuf, about: &Statx) {
        let is_link = FileType::from_raw_mode(about.stx_mode.into()) == FileType::Symlink;
        self.passed.push(Passed {
            path,
            owner: about.stx_uid,
            is_link,
            is_open: is_link || u32::from(about.stx_mode) & OTHERS_ENTER != 0,
        });
    }

    /// Passes a link or directory. Returns what the last part leads to.
    fn step(&mut self, part: &OsStr) -> io::Result<Option<Option<OwnedFd>>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match self.open(part, flags) {
            Err(Errno::NOENT) if self.rest.is_empty() => return Ok(Some(None)),
            found => found?,
        };
        let about = self.about(&found)?;
        self.holder = self.holder.or_else(|| holder_behind(&about));
        if !self.resolve.is_empty() && self.holder.is_some() {
            // readlink(2) of a link may ask its file system.
            return Err(Errno::AGAIN.into());
        }
        match FileType::from_raw_mode(about.stx_mode.into()) {
            FileType::Symlink => {
                self.pass(self.place.join(part), &about);
                self.links += 1;
                if self.links > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                let target = readlinkat(&found, c"", Vec::new())?;
                self.push(&PathBuf::from(OsString::from_vec(target.into_bytes())));
            }
            _ if self.rest.is_empty() => return Ok(Some(Some(found))),
            FileType::Directory => {
                // Asked for as a directory, so that a file system is mounted on demand.
                let found = self.open(part, flags | OFlags::DIRECTORY)?;
                let about = self.about(&found)?;
                self.place.push(part);
                self.pass(self.place.clone(), &about);
                self.directories.push(found);
            }
            _ => return Err(Errno::NOTDIR.into()),
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use super::*;

    const ANN: u32 = 64_011;
    const BEN: u32 = 64_012;

    fn read(path: &Path) -> Result<(), String> {
        open_for_owners(path).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_of_the_kernel_is_read_only_by_a_path_of_root() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        symlink("/proc/self/maps", &link).unwrap();
        assert_eq!(read(&link), Ok(()));
        if lchown(&link, Some(ANN), None).is_ok() {
            assert!(
                read(&link)
                    .unwrap_err()
                    .contains("depends on who reads it, and user 64011")
            );
        }
    }

    #[test]
    fn paths_are_walked_as_by_the_kernel() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::write(path("a/file"), "text").unwrap();
        symlink("../file", path("a/b/up")).unwrap();
        symlink(path("a/b/up"), path("far")).unwrap();
        symlink("loop", path("loop")).unwrap();
        for name in ["a/file", "a/./b/../file", "a/b/up", "far", "a/b/../../far"] {
            assert_eq!(read(&path(name)), Ok(()), "{name}");
        }
        let kind = |name: &str| open_for_owners(&path(name)).unwrap_err().kind();
        assert_eq!(kind("none"), io::ErrorKind::NotFound);
        assert_eq!(kind("a/file/x"), io::ErrorKind::NotADirectory);
        assert_eq!(kind("a/b"), io::ErrorKind::IsADirectory);
        let endless = open_for_owners(&path("loop")).unwrap_err();
        assert_eq!(endless.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    }

    #[test]
    fn the_holder_of_a_path_is_the_first_user_on_it_who_is_not_trusted() {
        assert_ne!(holder_of(Path::new("/proc/self/none/below")), 0, "a file system");
        if !crate::is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("ann/ben")).unwrap();
        symlink(path("ann"), path("link")).unwrap();
        let [before, none] = ["ann/ben/none", "none"].map(|name| holder_of(&path(name)));
        assert_eq!(before, none);
        lchown(path("ann/ben"), Some(BEN), None).unwrap();
        assert_eq!(holder_of(&path("link/ben/none/below")), u64::from(BEN));
        lchown(path("ann"), Some(ANN), None).unwrap();
        assert_eq!(holder_of(&path("link/ben/none/below")), u64::from(ANN));
    }

    #[test]
    fn a_log_is_not_written_through_links_of_others_nor_to_their_fifos() {
        if !crate::is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("ann")).unwrap();
        lchown(path("ann"), Some(ANN), None).unwrap();
        let append = |name: &str| {
            open_to_append(&path(name), 0o640)
                .map(drop)
                .map_err(|error| error.to_string())
        };
        assert_eq!(append("ann/own.log"), Ok(()), "made");
        assert_eq!(append("ann/own.log"), Ok(()), "found");
        fs::write(path("other.log"), "").unwrap();
        symlink("../other.log", path("ann/link.log")).unwrap();
        assert_eq!(append("ann/link.log"), Ok(()), "a link of root");
        lchown(path("ann/link.log"), Some(ANN), None).unwrap();
        assert!(
            append("ann/link.log")
                .unwrap_err()
                .contains("a link of its path belongs to user 64011")
        );
        rustix::fs::mkfifoat(rustix::fs::CWD, path("ann/fifo"), FileMode::from_raw_mode(0o666)).unwrap();
        let _reader = open(path("ann/fifo"), OFlags::RDWR | OFlags::NONBLOCK, FileMode::empty()).unwrap();
        assert_eq!(append("ann/fifo"), Ok(()), "a FIFO of root");
        lchown(path("ann/fifo"), Some(ANN), None).unwrap();
        assert!(append("ann/fifo").unwrap_err().contains("is not a file"));
        assert!(open_to_append(Path::new("/dev/null"), 0o640).is_ok());
        assert!(is_path_of_root(Path::new("/usr/bin")) && !is_path_of_root(&path("ann")));
        symlink("..", path("ann/up")).unwrap();
        lchown(path("ann/up"), Some(ANN), None).unwrap();
        assert!(
            !is_path_of_root(&path("ann/up")),
            "by way of a directory and a link of another user"
        );
    }

    #[test]
    fn whoever_owns_a_part_of_a_path_must_be_allowed_to_read_the_file() {
        if !crate::is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mode = |name: &str, mode| fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(path("ann")).unwrap();
        fs::write(path("secret"), "of root").unwrap();
        mode("secret", 0o600);
        symlink("../secret", path("ann/page")).unwrap();
        assert_eq!(read(&path("ann/page")), Ok(()), "all is root's");
        for part in ["ann", "ann/page"] {
            lchown(path(part), Some(ANN), None).unwrap();
            let error = read(&path("ann/page")).unwrap_err();
            assert!(
                error.contains("user 64011, who owns a link or directory"),
                "{part}: {error}"
            );
            lchown(path(part), Some(0), None).unwrap();
        }
        lchown(path("ann"), Some(ANN), None).unwrap();
        mode("secret", 0o644);
        mode("ann", 0o700);
        assert_eq!(read(&path("ann/page")), Ok(()), "everybody may read it");
        fs::create_dir(path("closed")).unwrap();
        fs::rename(path("secret"), path("closed/secret")).unwrap();
        mode("closed", 0o700);
        fs::remove_file(path("ann/page")).unwrap();
        symlink("../closed/secret", path("ann/page")).unwrap();
        assert!(read(&path("ann/page")).is_err(), "nobody else may enter its directory");
        // Her own, and that of another user.
        fs::write(path("ann/own"), "hers").unwrap();
        mode("ann/own", 0o600);
        lchown(path("ann/own"), Some(ANN), None).unwrap();
        assert_eq!(read(&path("ann/own")), Ok(()));
        lchown(path("ann/own"), Some(BEN), None).unwrap();
        assert!(read(&path("ann/own")).is_err());
    }
}
