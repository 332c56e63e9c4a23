//! Which file systems are local, and what the kernel says of a path without asking anybody.
//!
//! A path is looked up in the kernel's cache of names (RESOLVE_CACHED in openat2(2)), as a mere name (O_PATH). This enters no file system. If the
//! mount that it leads to is known to be local, its metadata are asked for, too.

use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::fs::{
    AtFlags, CWD, FsWord, Mode as FileMode, OFlags, ResolveFlags, Statx, StatxFlags, fstatfs, openat2, statx,
};
use rustix::io::Errno;
use sluice_launch::LookupShare;

use crate::foreign::{just_waits, leaves, leaves_uncached, left};

/// Types of file systems that the kernel serves from its own disks and memory (statfs(2), `linux/magic.h`). Any other is taken for one of another process or
/// machine: threads serve its files, which is slower, never wrong. So is proc, because reading `/proc/PID/environ` waits for the memory of that process.
const LOCAL: [FsWord; 25] = [
    0xEF53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683E, // Btrfs
    0xCA45_1A4E, // bcachefs
    0xF2F5_2010, // F2FS
    0x2FC1_2FC1, // ZFS
    0x3153_464A, // JFS
    0x5265_4973, // ReiserFS
    0x3434,      // NILFS2
    0x0102_1994, // tmpfs
    0x8584_58F6, // ramfs
    0x794C_7630, // overlayfs
    0x7371_7368, // SquashFS
    0xE0F5_E1E2, // EROFS
    0x28CD_3D45, // cramfs
    0x7275,      // romfs
    0x9660,      // ISO 9660
    0x1501_3346, // UDF
    0x4D44,      // FAT
    0x2011_BAB0, // exFAT
    0x7366_746E, // ntfs3
    0x482B,      // HFS+
    0x2405_1905, // UBIFS
    0x72B6,      // JFFS2
    0xF15F,      // eCryptfs
];

/// Mounts that are remembered as local. With more, the oldest are forgotten, and found again by a lookup.
const MOUNTS: usize = 64;

/// Mounts of local file systems, by `mount_of`; 0 for none.
static KNOWN: [AtomicU64; MOUNTS] = [const { AtomicU64::new(0) }; MOUNTS];

/// The next one to be replaced.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// STATX_MNT_ID_UNIQUE (Linux 6.8): a number that no later mount gets.
const UNIQUE_MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// Attempts to open a file that is replaced each time.
pub(crate) const OPENS_MAX: usize = 16;

/// Directories above a file that are asked for their owner.
const ANCESTORS_MAX: usize = 16;

/// Whether a symbolic link at the end of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Followed.
    Followed,
    /// The link itself is meant.
    Shown,
}

/// A number for whoever can keep lookups from being answered: a user, a file system of the administrator, or a directory that somebody holds. The
/// threads that may be lost are bounded for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(LookupShare);

impl Share {
    pub(crate) const UNKNOWN: Share = Share(LookupShare::UNKNOWN);

    /// The share of what lies at `place` in a directory of this user. What root and the server's user made has its own shares: they harm only themselves.
    pub(crate) fn of(user: u32, place: &Path) -> Share {
        if user != 0 && user != rustix::process::geteuid().as_raw() {
            return Share(LookupShare::Foreign(user.into()));
        }
        Share(LookupShare::Foreign(hash_of(place) | 1 << 63))
    }

    /// The share of a directory of a local file system, or of a link in it, in which a name is looked up.
    pub(crate) fn local(place: impl Hash) -> Share {
        Share(LookupShare::Local(hash_of(place)))
    }

    pub(crate) fn is_local(self) -> bool {
        matches!(self.0, LookupShare::Local(_))
    }

    pub(crate) fn threads(self) -> LookupShare {
        self.0
    }

    /// The share of a path of the whole machine: that of the nearest directory above it that is known to be in a local file system; or of its owner,
    /// if what follows is not known to be.
    pub(crate) fn of_path(path: &Path) -> Share {
        let (mut place, mut is_local) = (path, true);
        for above in path.ancestors().take(ANCESTORS_MAX) {
            match cached(above, Links::Followed) {
                Ok(Cached::Local(..)) if above == path => {}
                Ok(Cached::Local(_, found)) if is_local => return Share::local(found.identity),
                Ok(Cached::Local(_, found)) => return Share::of(found.user, place),
                Ok(Cached::Unknown) => is_local = false,
                Ok(Cached::No) | Err(_) => {}
            }
            place = above;
        }
        Share::of(0, place)
    }

    pub(crate) fn number(self) -> u64 {
        self.0.number()
    }
}

fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Whether an open file lies in a local file system, whose mount is remembered then. Waits for the file system of another process or machine.
pub(crate) fn learn(file: impl AsFd) -> bool {
    let is_local = fstatfs(&file).is_ok_and(|status| LOCAL.contains(&status.f_type));
    if is_local
        && let Some(mount) = status_of(&file).as_ref().and_then(mount_of)
        && !is_known(mount)
    {
        // Relaxed, here and below: a number that is seen late is looked up once more.
        let at = NEXT.fetch_add(1, Ordering::Relaxed) % MOUNTS;
        KNOWN[at].store(mount, Ordering::Relaxed);
    }
    is_local
}

fn is_known(mount: u64) -> bool {
    KNOWN.iter().any(|known| known.load(Ordering::Relaxed) == mount)
}

/// The attributes that the kernel knows of an open file or name without asking its file system.
fn status_of(file: impl AsFd) -> Option<Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID | UNIQUE_MOUNT;
    statx(file, c"", flags, wanted).ok()
}

/// A number for the mount of a file. `None` if a later mount may have the same one: the numbers of older kernels are used again, so there only
/// those of disks count, which have numbers of their own.
fn mount_of(status: &Statx) -> Option<u64> {
    if status.stx_mask & UNIQUE_MOUNT.bits() != 0 {
        return Some(status.stx_mnt_id);
    }
    let is_disk = status.stx_mask & StatxFlags::MNT_ID.bits() != 0 && status.stx_dev_major != 0;
    is_disk.then(|| hash_of((status.stx_mnt_id, status.stx_dev_major, status.stx_dev_minor)) | 1 << 63)
}

struct CachedStatus {
    user: u32,
    identity: (u32, u32, u64),
}

/// A path as the kernel has it in its cache.
enum Cached {
    /// A path in a file system that is known to be local.
    Local(OwnedFd, CachedStatus),
    /// A path in another file system.
    Unknown,
    /// The kernel would have to ask a file system.
    No,
}

impl Links {
    fn flags(self) -> OFlags {
        match self {
            Links::Followed => OFlags::PATH | OFlags::CLOEXEC,
            Links::Shown => OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        }
    }
}

fn cached(path: &Path, links: Links) -> io::Result<Cached> {
    match openat2(CWD, path, links.flags(), FileMode::empty(), ResolveFlags::CACHED) {
        Ok(named) => {
            let status = status_of(&named).filter(|status| mount_of(status).is_some_and(is_known));
            Ok(status.map_or(Cached::Unknown, |status| {
                let place = CachedStatus {
                    user: status.stx_uid,
                    identity: (status.stx_dev_major, status.stx_dev_minor, status.stx_ino),
                };
                Cached::Local(named, place)
            }))
        }
        Err(error @ (Errno::NOENT | Errno::NOTDIR)) => Err(error.into()),
        // EAGAIN: it is not in the cache. EINVAL: Linux before 5.12.
        Err(_) => Ok(Cached::No),
    }
}

/// Opens a path below an open directory. An event loop opens it only if the kernel has the path in its cache. If not, the error is EAGAIN, and a thread of `share`
/// opens it later. EAGAIN is also the error if another process holds a lease on the file.
pub(crate) fn open_below(
    directory: impl AsFd,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
    share: impl FnOnce() -> Share,
) -> Result<OwnedFd, Errno> {
    let open = |resolve| openat2(&directory, path, flags | OFlags::CLOEXEC, FileMode::empty(), resolve);
    if !leaves_uncached() || !has_cached() {
        return retry(|| open(resolve));
    }
    match open(resolve | ResolveFlags::CACHED) {
        Err(error @ (Errno::AGAIN | Errno::INTR)) => {
            leaves(share);
            Err(error)
        }
        opened => opened,
    }
}

/// Calls again, on a thread that may wait, what fails because of a signal, or because of a concurrent rename, so that the kernel could not be sure (EAGAIN of openat2(2)).
/// A file on which another process holds a lease gives EAGAIN, too, for as long as that process likes (F_SETLEASE in fcntl(2)).
pub(crate) fn retry(call: impl Fn() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    let mut opened = call();
    for _ in 1..OPENS_MAX {
        match opened {
            Err(Errno::AGAIN | Errno::INTR) => opened = call(),
            other => return other,
        }
    }
    opened
}

fn has_cached() -> bool {
    static HAS: LazyLock<bool> = LazyLock::new(|| {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let opened = openat2(CWD, "/", flags, FileMode::empty(), ResolveFlags::CACHED);
        opened.err() != Some(Errno::INVAL)
    });
    *HAS
}

/// Looks up a path below an open directory in the kernel's cache. `None` if it is not there, or its file system is not known to be local.
pub(crate) fn cached_below(directory: impl AsFd, path: &Path, resolve: ResolveFlags) -> Option<OwnedFd> {
    let (flags, resolve) = (OFlags::PATH | OFlags::CLOEXEC, resolve | ResolveFlags::CACHED);
    let named = openat2(directory, path, flags, FileMode::empty(), resolve).ok()?;
    let mount = status_of(&named).as_ref().and_then(mount_of);
    mount.is_some_and(is_known).then_some(named)
}

/// Names a path of the whole machine (O_PATH). An event loop leaves it if a file system might have to be asked.
///
/// # Errors
/// Of the system; that the lookup was left.
pub(crate) fn name(path: &Path, links: Links) -> io::Result<OwnedFd> {
    if !just_waits() {
        if let Cached::Local(named, _) = cached(path, links)? {
            return Ok(named);
        }
        if leaves(|| Share::of_path(path)) {
            return Err(left());
        }
    }
    let named = rustix::fs::open(path, links.flags(), FileMode::empty())?;
    if !just_waits() {
        learn(&named);
    }
    Ok(named)
}

/// The metadata of a path of the whole machine. An event loop leaves it if a file system might have to be asked.
///
/// # Errors
/// Of the system; that the lookup was left (`is_left`).
pub fn metadata(path: &Path, links: Links) -> io::Result<Metadata> {
    match (just_waits(), links) {
        (true, Links::Followed) => path.metadata(),
        (true, Links::Shown) => path.symlink_metadata(),
        (false, links) => File::from(name(path, links)?).metadata(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::{Answers, here, noting};

    #[test]
    fn a_script_is_found_in_the_cache_of_the_kernel_once_its_file_system_is_known() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("run");
        std::fs::write(&path, "").unwrap();
        if status_of(File::open(&path).unwrap())
            .as_ref()
            .and_then(mount_of)
            .is_none()
        {
            // Linux before 6.8, and no disk: no mount is remembered.
            return;
        }
        let look = || metadata(&path, Links::Shown);
        drop(noting(Share::UNKNOWN, look));
        let (found, left) = here(Answers::default(), look);
        assert!(found.unwrap().is_file() && left.is_none());
        let proc = || metadata(Path::new("/proc/sys/kernel/ostype"), Links::Shown);
        drop(noting(Share::UNKNOWN, proc));
        assert!(here(Answers::default(), proc).1.is_some());
    }
}
