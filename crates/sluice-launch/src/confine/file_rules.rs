//! The files that a script process may use: Landlock rules (landlock(7)).
//!
//! The parent prepares the paths and rights; the child opens each path and adds its rule, so that they mean what they mean for the script: below its
//! root, with its temporary directory. A path that does not exist, or is out of the server's reach, gets no rule: then the script can use less.
//!
//! Beside the configured paths a script may read and execute what interpreters and shared libraries need (`BASE`), and use harmless devices. It has no
//! access to `/tmp`, `/home`, `/root`, `/srv`, `/var`, `/run`, and of `/etc` only to the files that the C library, TLS libraries and interpreters read.
//! From version 6 on, Landlock also keeps it from signalling processes that it has not started, such as the server.

use std::ffi::{CStr, CString, c_int, c_long};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::few_strings::few_strings;
use crate::syscall::checked;

/// Rights (landlock(7), "Filesystem flags").
const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
/// Removing directories and files; making directories, files, sockets, FIFOs and symbolic links.
const CHANGE_DIRECTORY: u64 = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12;
/// Moving files between directories.
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEVICE: u64 = 1 << 15;

const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
/// The rights of a path for writing: files that were written there cannot be executed.
const WRITE: u64 = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | CHANGE_DIRECTORY | REFER;
const DEVICE: u64 = READ_FILE | WRITE_FILE | IOCTL_DEVICE;
/// The rights that a rule for a file, not a directory, may have.
const OF_FILES: u64 = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEVICE;

/// Rights by the version of Landlock that brought them: version 1, 2, 3 and 4, 5 and later.
const RIGHTS: [u64; 6] = [0, 0x1fff, 0x3fff, 0x7fff, 0x7fff, 0xffff];
/// Processes outside cannot be signalled (`LANDLOCK_SCOPE_SIGNAL`), since version 6.
const SCOPE_SIGNAL: u64 = 1 << 1;

/// Paths that interpreters and shared libraries need, for reading and executing. The files of `/etc` are those of the C library
/// (users, hosts, time, services), of TLS libraries, and of interpreters; `python3` stands for all of its versions.
const BASE: &str = "\
    /usr /bin /sbin /lib /lib32 /lib64 /nix/store /gnu/store /opt \
    /proc /sys/devices/system/cpu /sys/kernel/mm/transparent_hugepage \
    /etc/alternatives /etc/ca-certificates /etc/crypto-policies /etc/fonts /etc/group /etc/host.conf /etc/hosts \
    /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /etc/ld.so.preload /etc/locale.alias /etc/localtime \
    /etc/machine-id /etc/magic /etc/mime.types /etc/nsswitch.conf /etc/passwd /etc/perl /etc/php /etc/pki/tls/certs \
    /etc/protocols /etc/resolv.conf /etc/services /etc/timezone";
/// Paths that TLS libraries need, each by itself because a directory beside them holds private keys.
const TLS_BASE: [&str; 2] = ["/etc/ssl/certs", "/etc/ssl/openssl.cnf"];

/// Devices that hold nothing of anybody.
const DEVICES: &str = "/dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty";

/// The files that a script process may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRules {
    /// Files, and directories with all that is below them, that it may read and execute.
    #[serde(deserialize_with = "few_strings")]
    pub read: Vec<CString>,
    /// The same, that it may read, change, create and remove.
    #[serde(deserialize_with = "few_strings")]
    pub write: Vec<CString>,
}

/// The version of Landlock of this kernel; 0 if it has none, or if it is switched off.
#[must_use]
pub fn landlock_version() -> u32 {
    static VERSION: LazyLock<u32> = LazyLock::new(|| {
        const NO_ATTRIBUTES: usize = 0;
        const NO_SIZE: usize = 0;
        const ASK_VERSION: u32 = 1;
        // SAFETY: takes numbers only.
        let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, NO_ATTRIBUTES, NO_SIZE, ASK_VERSION) };
        u32::try_from(version).unwrap_or(0)
    });
    *VERSION
}

/// Rules for the child: `struct landlock_ruleset_attr`, and a path with its rights for each rule.
#[derive(Debug)]
pub(crate) struct PreparedRules<'a> {
    /// Rights that are refused unless a rule allows them; rights of networks: none; the scope.
    attributes: [u64; 3],
    size: usize,
    base: &'static [(CString, u64)],
    rules: &'a FileRules,
    /// Further paths to write to.
    writable: &'a [&'a CStr],
}

/// A rule, as the kernel reads it (`struct landlock_path_beneath_attr`).
#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: c_int,
}

impl FileRules {
    /// Makes the rules ready for a start, with further paths to write to. `None` if this kernel has no Landlock.
    pub(crate) fn prepare<'a>(&'a self, writable: &'a [&'a CStr]) -> Option<PreparedRules<'a>> {
        static ALL: LazyLock<Vec<(CString, u64)>> = LazyLock::new(base);
        let version = landlock_version() as usize;
        let handled = *RIGHTS
            .get(version.min(RIGHTS.len() - 1))
            .filter(|rights| **rights > 0)?;
        let has_scope = version >= 6;
        Some(PreparedRules {
            attributes: [handled, 0, if has_scope { SCOPE_SIGNAL } else { 0 }],
            // Earlier versions refuse what they do not know.
            size: if has_scope { 24 } else { 8 },
            base: &ALL,
            rules: self,
            writable,
        })
    }
}

impl PreparedRules<'_> {
    /// Whether the process may change no file at all. Safe in the child.
    pub(crate) fn forbids_changes(&self) -> bool {
        self.rules.write.is_empty() && self.writable.is_empty()
    }

    /// Creates the ruleset; returns its descriptor, which is close-on-exec. Called in the child: system calls, nothing else.
    pub(crate) fn create(&self) -> Result<c_int, i32> {
        const FLAGS: c_int = 0;
        // SAFETY: the kernel reads `size` bytes of the attributes, which are at least as long.
        let ruleset = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                self.attributes.as_ptr(),
                self.size,
                FLAGS,
            )
        };
        let ruleset = checked(ruleset)?;
        for (path, rights) in self.base {
            self.add(ruleset, path, *rights)?;
        }
        for path in &self.rules.read {
            self.add(ruleset, path, READ)?;
        }
        for path in &self.rules.write {
            self.add(ruleset, path, WRITE)?;
        }
        for path in self.writable {
            self.add(ruleset, path, WRITE)?;
        }
        // A descriptor, so it fits.
        c_int::try_from(ruleset).map_err(|_| libc::EBADF)
    }

    fn add(&self, ruleset: c_long, path: &CStr, rights: u64) -> Result<(), i32> {
        const FLAGS: c_int = libc::O_PATH | libc::O_CLOEXEC;
        // SAFETY: the path is NUL-terminated.
        let opened = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), FLAGS) };
        let opened = match checked(opened) {
            Ok(opened) => opened,
            Err(libc::ENOENT | libc::ENOTDIR | libc::EACCES | libc::ELOOP) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        let [handled, ..] = self.attributes;
        let allow = |rights: u64| {
            const PATH_BENEATH: c_int = 1;
            const FLAGS: c_int = 0;
            let rule = PathBeneath {
                allowed: rights & handled,
                // A descriptor, so it fits.
                parent: c_int::try_from(opened).unwrap_or(-1),
            };
            // SAFETY: the kernel reads a rule of this layout.
            let done = unsafe {
                libc::syscall(
                    libc::SYS_landlock_add_rule,
                    ruleset,
                    PATH_BENEATH,
                    &raw const rule,
                    FLAGS,
                )
            };
            checked(done).map(drop)
        };
        // A file cannot have the rights of directories (EINVAL).
        let done = allow(rights).or_else(|errno| match errno {
            libc::EINVAL => allow(rights & OF_FILES),
            _ => Err(errno),
        });
        // SAFETY: takes a number; nothing else uses this descriptor of the child.
        unsafe { libc::syscall(libc::SYS_close, opened) };
        done
    }
}

/// Applies a ruleset to the calling process and all that it starts, and closes it. It must have `no_new_privs`. In the child: two system calls.
pub(crate) fn restrict(ruleset: c_int) -> Result<(), i32> {
    const FLAGS: c_int = 0;
    // SAFETY: takes numbers only.
    checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, FLAGS) })?;
    // SAFETY: takes a number; nothing else uses this descriptor of the child.
    unsafe { libc::syscall(libc::SYS_close, ruleset) };
    Ok(())
}

fn base() -> Vec<(CString, u64)> {
    let with = |path: &str, rights| Some((CString::new(path).ok()?, rights));
    let fixed = BASE
        .split_whitespace()
        .chain(TLS_BASE)
        .filter_map(|path| with(path, READ));
    let devices = DEVICES.split_whitespace().filter_map(|path| with(path, DEVICE));
    // Debian's Python reads /etc/python3.11/sitecustomize.py.
    let entries = fs::read_dir("/etc").into_iter().flatten().flatten();
    let pythons = entries.filter(|entry| entry.file_name().as_bytes().starts_with(b"python3"));
    let pythons = pythons.filter_map(|entry| with(entry.path().to_str()?, READ));
    fixed.chain(devices).chain(pythons).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_passwords_are_not_in_the_base() {
        for (path, _) in base() {
            let path = path.to_str().expect("text");
            for secret in [
                "/etc/shadow",
                "/etc/ssl/private/key.pem",
                "/etc/sluice/sluice.toml",
                "/root/.ssh",
                "/tmp/a",
                "/home/a",
            ] {
                assert!(
                    !std::path::Path::new(secret).starts_with(path),
                    "{path} allows {secret}"
                );
            }
        }
    }
}
