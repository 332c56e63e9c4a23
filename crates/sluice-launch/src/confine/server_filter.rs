//! The system calls that a server process does not need: a filter (seccomp(2)) refuses them, so that whoever gets control of it can neither
//! execute a program nor change users, mounts, namespaces or the kernel.
//!
//! The launcher is another process, and has no such filter. The list names what is refused, not what is allowed: a library that uses a new
//! harmless call goes on working. Calls fail with EPERM, as for a process without a privilege. Programs of another architecture, which have other numbers
//! for the same calls, are ended.

use std::io;

use crate::confine::network::{
    ARCH, ARCHITECTURE, IF_AT_LEAST, IF_EQUAL, LOAD, NUMBER, RETURN, X32_CALLS, jump, number, plain,
};
use crate::syscall::checked;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
const REFUSED: [libc::c_long; 52] = [
    // Other programs, and other processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Users and privileges.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    libc::SYS_personality,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_mknodat,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    // The kernel and the machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_acct,
    libc::SYS_open_by_handle_at,
];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const REFUSED: [libc::c_long; 0] = [];

/// Refuses every thread of this process, and all that it starts, the calls that a server does not need, for good. Set-user-ID programs have no effect then.
///
/// # Errors
/// This kernel has no such filters, or the architecture is not known: the process can run without.
pub fn refuse_needless_calls() -> io::Result<()> {
    let Some(architecture) = ARCHITECTURE else {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    };
    let filter = filter(architecture)?;
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(io::Error::other)?,
        filter: filter.as_ptr().cast_mut(),
    };
    let failed = io::Error::from_raw_os_error;
    const ON: libc::c_ulong = 1;
    const UNUSED: libc::c_ulong = 0;
    // SAFETY: takes numbers only.
    let done = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, ON, UNUSED, UNUSED, UNUSED) };
    checked(done).map_err(failed)?;
    // SAFETY: the program is valid, and is only read. TSYNC: other threads have it too, or none has.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    match checked(done).map_err(failed)? {
        0 => Ok(()),
        // The number of a thread that cannot have it.
        _ => Err(failed(libc::ESRCH)),
    }
}

/// The program: architecture, then a comparison for each call. A jump counts the instructions that are left out.
fn filter(architecture: u32) -> io::Result<Vec<libc::sock_filter>> {
    let count = u8::try_from(REFUSED.len()).map_err(io::Error::other)?;
    let mut program = vec![
        plain(LOAD, ARCH),
        jump(IF_EQUAL, architecture, 1, 0),
        plain(RETURN, libc::SECCOMP_RET_KILL_PROCESS),
        plain(LOAD, NUMBER),
        jump(IF_AT_LEAST, X32_CALLS, count + 1, 0),
    ];
    for (index, call) in (0..count).zip(REFUSED) {
        program.push(jump(IF_EQUAL, number(call), count - index, 0));
    }
    program.push(plain(RETURN, libc::SECCOMP_RET_ALLOW));
    program.push(plain(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned()));
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refused_call_jumps_to_the_refusal() {
        let program = filter(1).unwrap();
        let last = program.len() - 1;
        for (index, instruction) in program.iter().enumerate().skip(4).take(REFUSED.len() + 1) {
            assert_eq!(index + 1 + usize::from(instruction.jt), last, "{index}");
            assert_eq!(instruction.jf, 0);
        }
        assert_eq!(program[last - 1].k, libc::SECCOMP_RET_ALLOW);
    }
}
