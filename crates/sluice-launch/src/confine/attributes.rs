//! A script that may change no file: a filter of system calls (seccomp(2)) for what Landlock does not restrict, which are permissions, owners,
//! times and extended attributes (landlock(7), "Current limitations").
//!
//! The filter cannot tell by which path a file is meant, so it is for processes that may write nowhere. The calls fail with EPERM. Parts that both
//! filters need are in `network`. The filter is a constant, so the child has nothing to build.

use std::ffi::c_long;

use crate::confine::network::{
    ARCH, Filter, IF_AT_LEAST, IF_EQUAL, LOAD, NATIVE, NUMBER, RETURN, X32_CALLS, apply, jump, number, plain,
};

/// Calls that the C library does not know yet; their numbers are the same on all architectures.
const FCHMODAT2: c_long = 452;
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const FILE_SETATTR: c_long = 469;

const CALLS: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
    // Newer architectures do not have these.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Instructions before those for each call, and after them.
const BEFORE: usize = 6;
const AFTER: usize = 3;
const INSTRUCTIONS: usize = BEFORE + CALLS.len() + AFTER;

static FILTER: [libc::sock_filter; INSTRUCTIONS] = filter();

#[expect(clippy::cast_possible_truncation, reason = "the filter has some 30 instructions")]
static PROGRAM: Filter = Filter(libc::sock_fprog {
    len: INSTRUCTIONS as u16,
    filter: (&raw const FILTER).cast_mut().cast(),
});

/// Refuses the calling process, and all that it starts, every change of a file's attributes. It must have `no_new_privs`. In the child: one system call.
pub(crate) fn forbid() -> Result<(), i32> {
    apply(&PROGRAM)
}

const fn filter() -> [libc::sock_filter; INSTRUCTIONS] {
    let unknown = plain(RETURN, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned());
    let mut filter = [unknown; INSTRUCTIONS];
    filter[0] = plain(LOAD, ARCH);
    filter[1] = jump(IF_EQUAL, NATIVE, 1, 0);
    filter[2] = plain(RETURN, libc::SECCOMP_RET_KILL_PROCESS);
    filter[3] = plain(LOAD, NUMBER);
    let (allowed, refused, unknown) = (INSTRUCTIONS - 3, INSTRUCTIONS - 2, INSTRUCTIONS - 1);
    filter[4] = jump(IF_AT_LEAST, X32_CALLS, distance(4, unknown), 0);
    // It can set extended attributes without these calls.
    filter[5] = jump(IF_EQUAL, number(libc::SYS_io_uring_setup), distance(5, unknown), 0);
    let mut at = BEFORE;
    while at < allowed {
        filter[at] = jump(IF_EQUAL, number(CALLS[at - BEFORE]), distance(at, refused), 0);
        at += 1;
    }
    filter[allowed] = plain(RETURN, libc::SECCOMP_RET_ALLOW);
    filter[refused] = plain(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned());
    filter
}

#[expect(clippy::cast_possible_truncation, reason = "the filter has some 30 instructions")]
const fn distance(from: usize, to: usize) -> u8 {
    (to - from - 1) as u8
}
