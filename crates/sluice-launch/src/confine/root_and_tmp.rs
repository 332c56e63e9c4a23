//! The places of a script process: its root (chroot(2)) and its own `/tmp` (a mount namespace).

use std::ffi::{CStr, c_char};
use std::ptr;

use rustix::thread::{CapabilitySet, capabilities};

use crate::syscall::checked;

/// Mounts to make in a mount namespace of the child's own.
#[derive(Debug)]
pub(crate) struct PrivateTmp<'a> {
    pub(crate) directory: &'a CStr,
    /// The directories that it takes the place of. The first must exist.
    pub(crate) targets: &'a [&'a CStr],
}

impl PrivateTmp<'_> {
    /// Creates the namespace and mounts the directory. In the child, which then shares no namespace of mounts: system calls, nothing else.
    pub(crate) fn mount(&self) -> Result<(), i32> {
        // SAFETY: takes numbers only.
        checked(unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_NEWNS) })?;
        // What is mounted here must not appear elsewhere; what is mounted elsewhere still appears here.
        mount(None, c"/", libc::MS_REC | libc::MS_SLAVE)?;
        let Some((first, others)) = self.targets.split_first() else {
            return Ok(());
        };
        mount(Some(self.directory), first, libc::MS_BIND)?;
        for target in others {
            // From the first place, because the path of the directory itself may lead through it, and is covered then.
            match mount(Some(first), target, libc::MS_BIND) {
                // A system without /var/tmp has nothing there to keep apart.
                Err(libc::ENOENT) => {}
                done => done?,
            }
        }
        Ok(())
    }
}

fn mount(source: Option<&CStr>, target: &CStr, flags: libc::c_ulong) -> Result<(), i32> {
    const NOTHING: *const c_char = ptr::null();
    let source = source.map_or(NOTHING, CStr::as_ptr);
    // SAFETY: both are NUL-terminated or null; a bind mount and a change of propagation read neither type nor data.
    checked(unsafe { libc::syscall(libc::SYS_mount, source, target.as_ptr(), NOTHING, flags, NOTHING) }).map(drop)
}

/// Makes a directory the root of the calling process, and its working directory. In the child: two system calls.
pub(crate) fn change_root(directory: &CStr) -> Result<(), i32> {
    // SAFETY: the path is NUL-terminated. Root and working directory are the child's own (no CLONE_FS).
    checked(unsafe { libc::syscall(libc::SYS_chroot, directory.as_ptr()) })?;
    // SAFETY: the path is NUL-terminated. A working directory outside would be a way out.
    checked(unsafe { libc::syscall(libc::SYS_chdir, c"/".as_ptr()) }).map(drop)
}

/// Whether this process may mount file systems (CAP_SYS_ADMIN).
#[must_use]
pub fn may_mount() -> bool {
    has_capability(CapabilitySet::SYS_ADMIN)
}

/// Whether this process may change its root (CAP_SYS_CHROOT).
#[must_use]
pub fn may_change_root() -> bool {
    has_capability(CapabilitySet::SYS_CHROOT)
}

pub(crate) fn has_capability(capability: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
}
