//! The confinement of a script process, besides its resource limits: plain values, and their form for the child.
//!
//! Everything here is prepared before the clone; the child (`child`) only makes system calls with it.

use std::ffi::CString;

use serde::{Deserialize, Serialize};

use crate::confine::cgroup_limits::CgroupLimits;
use crate::confine::file_rules::FileRules;

/// The umask of a script whose route has none: files that it creates are writable by their owner only.
pub(crate) const UMASK: u32 = 0o022;

/// Limits on what a script process may use and reach. `Default`: the same as the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// The number that is added to the server's nice value (nice(2)); 19 is the largest.
    pub nice: u8,
    /// The priority when the process reads and writes disks (ioprio_set(2)); `None`: the server's.
    pub io_priority: Option<IoPriority>,
    /// The permissions that new files do not get (umask(2)); `None`: 022.
    pub umask: Option<u32>,
    /// Whether the process has a directory for temporary files of its own ([`crate::TemporaryDirectories`]).
    pub has_private_tmp: bool,
    /// Whether it also takes the place of `/tmp` and `/var/tmp`, where the server may mount. Not if the program itself is there.
    pub covers_tmp: bool,
    /// The directory that becomes the root of the process (chroot(2)). The paths of the program are those below it.
    pub chroot: Option<CString>,
    /// The files that the process may use (landlock(7)); `None`: all that its user may.
    pub files: Option<FileRules>,
    /// Whether the process may create local sockets only (seccomp(2)).
    pub is_offline: bool,
    /// The limits of the cgroup, for the process and all its descendants together (cgroups(7)).
    pub cgroup: CgroupLimits,
}

/// The priority of a process among those that use a disk (ioprio_set(2)). Only some schedulers of disks honour it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IoPriority {
    /// The lowest of the usual class.
    Low,
    /// Only while nobody else uses the disk.
    Idle,
}
