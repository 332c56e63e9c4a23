//! A script without a network: a filter of system calls (seccomp(2)) that lets a process create local sockets only.
//!
//! The filter refuses socket(2) and socketpair(2) of every family but AF_UNIX with EAFNOSUPPORT, as a kernel without that family would. io_uring can create
//! sockets without these calls, so it is refused too (ENOSYS, and programs do without). So are the calls that take a socket out of another process or make
//! it act (pidfd_getfd(2), ptrace(2), process_vm_writev(2): EPERM). Programs of another architecture (32 bits) have other numbers for the same calls and are
//! ended with SIGSYS. A filter, not a network namespace, because it works for every user, and because creating and removing a namespace costs milliseconds.
//!
//! The filter is a constant, so the child has nothing to build.

use crate::syscall::checked;

/// The architecture of this program in `seccomp_data` (include/uapi/linux/audit.h); `None` if the filter does not know it.
#[cfg(target_arch = "x86_64")]
pub(crate) const ARCHITECTURE: Option<u32> = Some(0xC000_003E);
#[cfg(target_arch = "aarch64")]
pub(crate) const ARCHITECTURE: Option<u32> = Some(0xC000_00B7);
#[cfg(target_arch = "riscv64")]
pub(crate) const ARCHITECTURE: Option<u32> = Some(0xC000_00F3);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub(crate) const ARCHITECTURE: Option<u32> = None;
pub(crate) const NATIVE: u32 = match ARCHITECTURE {
    Some(architecture) => architecture,
    None => 0,
};

/// Calls above this number are those of x32, which has numbers of its own (`__X32_SYSCALL_BIT`).
pub(crate) const X32_CALLS: u32 = 0x4000_0000;

/// Offsets in `seccomp_data`: the number of the call, the architecture, the lower half of the first argument.
pub(crate) const NUMBER: u32 = 0;
pub(crate) const ARCH: u32 = 4;
const FIRST_ARGUMENT: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };

pub(crate) const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
pub(crate) const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
pub(crate) const IF_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
pub(crate) const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

const INSTRUCTIONS: u16 = 18;

/// The program of the filter. A jump counts the instructions that are left out.
static FILTER: [libc::sock_filter; INSTRUCTIONS as usize] = [
    plain(LOAD, ARCH),
    jump(IF_EQUAL, NATIVE, 1, 0),
    plain(RETURN, libc::SECCOMP_RET_KILL_PROCESS),
    plain(LOAD, NUMBER),
    jump(IF_AT_LEAST, X32_CALLS, 11, 0),
    jump(IF_EQUAL, number(libc::SYS_io_uring_setup), 10, 0),
    jump(IF_EQUAL, number(libc::SYS_pidfd_getfd), 10, 0),
    jump(IF_EQUAL, number(libc::SYS_ptrace), 9, 0),
    jump(IF_EQUAL, number(libc::SYS_process_vm_writev), 8, 0),
    jump(IF_EQUAL, number(libc::SYS_socket), 2, 0),
    jump(IF_EQUAL, number(libc::SYS_socketpair), 1, 0),
    plain(RETURN, libc::SECCOMP_RET_ALLOW),
    plain(LOAD, FIRST_ARGUMENT),
    jump(IF_EQUAL, libc::AF_UNIX.cast_unsigned(), 0, 1),
    plain(RETURN, libc::SECCOMP_RET_ALLOW),
    plain(RETURN, libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT.cast_unsigned()),
    plain(RETURN, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned()),
    plain(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned()),
];

/// A filter program, as prctl(2) takes it.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Filter(pub(crate) libc::sock_fprog);

// SAFETY: the kernel only reads the program, which never changes.
unsafe impl Sync for Filter {}

static PROGRAM: Filter = Filter(libc::sock_fprog {
    len: INSTRUCTIONS,
    filter: (&raw const FILTER).cast_mut().cast(),
});

/// Refuses the calling process, and all that it starts, every socket but local ones. It must have `no_new_privs`. In the child: one system call.
pub(crate) fn forbid() -> Result<(), i32> {
    apply(&PROGRAM)
}

/// Applies a filter to the calling process and all that it starts. It must have `no_new_privs`. In the child: one system call.
pub(crate) fn apply(filter: &Filter) -> Result<(), i32> {
    if ARCHITECTURE.is_none() {
        return Err(libc::EOPNOTSUPP);
    }
    // SAFETY: the program is valid, and is only read.
    let done = unsafe {
        libc::syscall(
            libc::SYS_prctl,
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const filter.0,
        )
    };
    checked(done).map(drop)
}

pub(crate) const fn plain(code: u32, value: u32) -> libc::sock_filter {
    jump(code, value, 0, 0)
}

#[expect(clippy::cast_possible_truncation, reason = "codes have 16 bits")]
pub(crate) const fn jump(code: u32, value: u32, yes: u8, no: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: yes, jf: no, k: value }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of system calls are small"
)]
pub(crate) const fn number(call: libc::c_long) -> u32 {
    call as u32
}
