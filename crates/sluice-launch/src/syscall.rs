//! The result of a raw system call, as the child needs it.
//!
//! The files that the child runs use this: it makes no call into the C library but `__errno_location`, takes no lock and allocates nothing (`child`).

use std::ffi::c_long;

/// The result of a raw system call, or its `errno` value if it failed. Safe in the child.
pub(crate) fn checked(result: c_long) -> Result<c_long, i32> {
    if result < 0 {
        // SAFETY: the address of this thread's errno; in the child, of the launcher thread's, which is suspended.
        return Err(unsafe { *libc::__errno_location() });
    }
    Ok(result)
}
