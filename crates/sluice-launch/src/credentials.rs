//! The user that a script process becomes.
//!
//! The child calls the kernel itself: the C library's `setuid` changes every thread of the process it believes to be
//! in (nptl(7)), and the child of a clone with shared memory would take the server's threads along.

use libc::c_long;

/// A user and its groups; the numbers of passwd(5) and group(5).
///
/// The first change of user makes the *server* undumpable for good (PR_SET_DUMPABLE in prctl(2)): no core dumps, no
/// debugger but root's. That is as it must be: between the change and the exec a process of the script's user has the
/// server's memory, and another process of that user must not be able to look into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Real, effective and saved user.
    pub uid: u32,
    /// Real, effective and saved group.
    pub gid: u32,
    /// The supplementary groups, all of them: the server's own are dropped.
    pub groups: Vec<u32>,
}

impl Credentials {
    /// Becomes this user for good. Called in the child: three system calls, nothing else.
    ///
    /// Groups first: once the user is changed, the right to change groups is gone.
    pub(crate) fn assume(&self) -> Result<(), i32> {
        // SAFETY: the pointer and the count describe `groups`; the kernel only reads.
        let done = unsafe { libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr()) };
        crate::child::checked(done)?;
        // SAFETY: takes numbers only.
        let done = unsafe { libc::syscall(libc::SYS_setresgid, self.gid, self.gid, self.gid) };
        crate::child::checked(done)?;
        // SAFETY: takes numbers only.
        let done: c_long = unsafe { libc::syscall(libc::SYS_setresuid, self.uid, self.uid, self.uid) };
        crate::child::checked(done).map(drop)
    }
}
