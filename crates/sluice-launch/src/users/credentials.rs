//! The user of a script process.
//!
//! The child makes raw system calls: the C library's `setuid` changes every thread of the process (nptl(7)), here the server's threads.

use libc::c_long;
use serde::{Deserialize, Serialize};

use crate::syscall::checked;

/// A user and its groups, as numbers of passwd(5) and group(5).
///
/// The first change of user makes the *server* permanently undumpable (PR_SET_DUMPABLE in prctl(2)): no core dumps, and
/// only root can attach a debugger. This is necessary: between the change and the exec, a process of the script's user
/// shares the server's memory, and other processes of that user must not be able to read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// Real, effective and saved user.
    pub uid: u32,
    /// Real, effective and saved group.
    pub gid: u32,
    /// All supplementary groups; the server's own are dropped.
    pub groups: Vec<u32>,
}

impl Credentials {
    /// Changes to this user permanently. Called in the child: three system calls, nothing else.
    ///
    /// The groups are changed first, because the change of user drops the privilege to change groups.
    pub(crate) fn assume(&self) -> Result<(), i32> {
        // SAFETY: the pointer and the count describe `groups`; the kernel only reads.
        let done = unsafe { libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr()) };
        checked(done)?;
        // SAFETY: takes numbers only.
        let done = unsafe { libc::syscall(libc::SYS_setresgid, self.gid, self.gid, self.gid) };
        checked(done)?;
        // SAFETY: takes numbers only.
        let done: c_long = unsafe { libc::syscall(libc::SYS_setresuid, self.uid, self.uid, self.uid) };
        checked(done).map(drop)
    }
}
