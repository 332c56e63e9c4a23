//! The system call that creates a child: `clone3` where the kernel supports and permits it, otherwise the C library's `clone`.
//!
//! `clone3` can reset the parent's signal handlers in the child (CLONE_CLEAR_SIGHAND, Linux 5.5); without it the child needs a system call for each
//! signal. Ignored signals stay ignored, so the child resets those. The C library has no wrapper for `clone3`, and a child on a stack of its own cannot
//! return through its parent's call frame; hence a few lines of assembler, for `x86_64`. On other architectures, and where a container's seccomp filter
//! refuses `clone3` because it cannot inspect its arguments, `clone` is used.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// The child's first function. It must not return.
pub(crate) type ChildMain = extern "C" fn(*mut c_void) -> c_int;

/// The child shares memory and descriptor table; its parent is suspended until it has left the memory.
const FLAGS: c_int = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::CLONE_PIDFD;

/// The highest signal number (signal(7)): the kernel's signal set has 64 bits.
pub(crate) const SIGNAL_MAX: c_int = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct SignalSet(u64);

impl SignalSet {
    pub(crate) const ALL: SignalSet = SignalSet(u64::MAX);

    fn ignored() -> SignalSet {
        const NEW: usize = 0;
        let mut set = 0;
        for signal in 1..=SIGNAL_MAX {
            // struct kernel_sigaction: the handler first, then flags, restorer and mask, at most 4 words.
            let mut action = [0_usize; 4];
            // A raw system call, because the C library's wrapper refuses the signals that it uses itself.
            // SAFETY: the kernel reads nothing from a null pointer, and writes a sigaction of its own layout.
            unsafe {
                libc::syscall(
                    libc::SYS_rt_sigaction,
                    signal,
                    NEW,
                    action.as_mut_ptr(),
                    size_of::<u64>(),
                )
            };
            if action[0] == libc::SIG_IGN {
                set |= 1 << (signal - 1);
            }
        }
        SignalSet(set)
    }

    /// Whether a signal, from 1 to `SIGNAL_MAX`, is in the set. Safe in the child.
    pub(crate) const fn has(self, signal: c_int) -> bool {
        self.0.rotate_right(signal.cast_unsigned().wrapping_sub(1)) & 1 == 1
    }
}

/// Steps that the clone has not done, so that the child must.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undone {
    /// The signals whose disposition is to be reset.
    pub(crate) signals: SignalSet,
    /// Whether the child is still outside its cgroup.
    pub(crate) is_outside_cgroup: bool,
}

#[derive(Debug)]
pub(crate) struct Cloner {
    stack: Stack,
    has_clone3: bool,
    ignored: SignalSet,
}

impl Cloner {
    /// Maps the stack and records which signals the process ignores; that must not change while the cloner is in use.
    pub(crate) fn prepare() -> io::Result<Cloner> {
        Ok(Cloner {
            stack: Stack::map()?,
            has_clone3: cfg!(target_arch = "x86_64"),
            ignored: SignalSet::ignored(),
        })
    }

    /// From now on as on a system without clone3.
    #[cfg(test)]
    pub(crate) fn forget_clone3(&mut self) {
        self.has_clone3 = false;
    }

    /// Creates a child, in a cgroup if one is given, which calls `entry` with the result of `argument`; returns its pid and
    /// pidfd after the child has left this memory. `argument` receives what the child must do itself. The kernel writes the pidfd to `place` before
    /// the child runs, so that another thread can kill a child that does not leave.
    ///
    /// # Safety
    /// `entry` must be sound for that argument in a child that shares this memory, and must never return.
    pub(crate) unsafe fn clone(
        &mut self,
        entry: ChildMain,
        cgroup: Option<BorrowedFd<'_>>,
        place: &AtomicI32,
        argument: impl Fn(Undone) -> *mut c_void,
    ) -> io::Result<(libc::pid_t, OwnedFd)> {
        if self.has_clone3 {
            let argument = argument(Undone { signals: self.ignored, is_outside_cgroup: false });
            // SAFETY: the caller guarantees what `clone3` requires, which is the same.
            match unsafe { self.clone3(entry, cgroup, place, argument) } {
                // The kernel lacks the call or a flag, or a filter refuses it; that does not change.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL | libc::EPERM)) => {
                    // If the cgroup may be the reason, only this child is created without.
                    self.has_clone3 = cgroup.is_some() && error.raw_os_error() != Some(libc::ENOSYS);
                }
                cloned => return cloned,
            }
        }
        let argument = argument(Undone { signals: SignalSet::ALL, is_outside_cgroup: true });
        // SAFETY: the child runs on a stack of its own, and this thread is suspended meanwhile. CLONE_PIDFD writes one
        // number, to `place`. The caller guarantees the rest.
        let pid = unsafe { libc::clone(entry, self.stack.top(), FLAGS | libc::SIGCHLD, argument, place.as_ptr()) };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just created it; nothing else owns it.
        Ok((pid, unsafe { OwnedFd::from_raw_fd(place.load(Ordering::Relaxed)) }))
    }

    /// Creates a child as [`Cloner::clone`] does, by the system call `clone3`.
    ///
    /// # Safety
    /// The same as for [`Cloner::clone`].
    #[cfg(target_arch = "x86_64")]
    unsafe fn clone3(
        &mut self,
        entry: ChildMain,
        cgroup: Option<BorrowedFd<'_>>,
        place: &AtomicI32,
        argument: *mut c_void,
    ) -> io::Result<(libc::pid_t, OwnedFd)> {
        /// `CLONE_INTO_CGROUP` (clone(2)), Linux 5.7.
        const INTO_CGROUP: u64 = 0x2_0000_0000;
        /// Words of `struct clone_args` in its first version, which has no cgroup.
        const WORDS_WITHOUT_CGROUP: usize = 8;
        /// `CLONE_CLEAR_SIGHAND` (clone(2)); the value is the same on every 64-bit architecture.
        const CLEAR_SIGHAND: u64 = 0x1_0000_0000;
        let in_cgroup = if cgroup.is_some() { INTO_CGROUP } else { 0 };
        // struct clone_args (clone(2)).
        let arguments: [u64; 11] = [
            u64::from(FLAGS.cast_unsigned()) | CLEAR_SIGHAND | in_cgroup,
            place.as_ptr().expose_provenance() as u64,
            0, // child_tid
            0, // parent_tid
            u64::from(libc::SIGCHLD.cast_unsigned()),
            self.stack.base.expose_provenance() as u64 + Stack::GUARD_BYTES as u64,
            Stack::BYTES as u64,
            0, // tls
            0, // set_tid
            0, // set_tid_size
            cgroup.map_or(0, |cgroup| u64::from(cgroup.as_raw_fd().cast_unsigned())),
        ];
        let bytes = match cgroup {
            Some(_) => size_of_val(&arguments),
            None => WORDS_WITHOUT_CGROUP * size_of::<u64>(),
        };
        let done: i64;
        // SAFETY: the kernel reads the arguments and writes one number, to `place`. In the parent the call changes rax, rcx and r11. The child
        // continues at the same instruction with the same registers, but with the top of its own empty stack, which is aligned as the call requires; it
        // calls `entry`, which does not return: the caller guarantees that.
        unsafe {
            std::arch::asm!(
                "syscall",
                "test rax, rax",
                "jnz 2f",
                "xor ebp, ebp",
                "mov rdi, r12",
                "call r13",
                "ud2",
                "2:",
                inlateout("rax") libc::SYS_clone3 => done,
                in("rdi") arguments.as_ptr(),
                in("rsi") bytes,
                in("r12") argument,
                in("r13") entry,
                lateout("rcx") _,
                lateout("r11") _,
            );
        }
        match i32::try_from(done) {
            Ok(pid @ 1..) => {
                // SAFETY: the kernel has just created it; nothing else owns it.
                Ok((pid, unsafe { OwnedFd::from_raw_fd(place.load(Ordering::Relaxed)) }))
            }
            Ok(errno) => Err(io::Error::from_raw_os_error(-errno)),
            Err(_) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[expect(clippy::unused_self, reason = "the x86_64 version uses it")]
    unsafe fn clone3(
        &mut self,
        _: ChildMain,
        _: Option<BorrowedFd<'_>>,
        _: &AtomicI32,
        _: *mut c_void,
    ) -> io::Result<(libc::pid_t, OwnedFd)> {
        Err(io::Error::from_raw_os_error(libc::ENOSYS))
    }
}

#[derive(Debug)]
struct Stack {
    base: *mut c_void,
}

// SAFETY: this value alone owns the memory.
unsafe impl Send for Stack {}

impl Stack {
    /// Size of the stack. The child's functions need about 1 KiB, unoptimised a few KiB.
    const BYTES: usize = 64 * 1024;
    /// Size of the inaccessible guard below the stack, at least one page everywhere, so that an overflow cannot reach the server's memory.
    const GUARD_BYTES: usize = 64 * 1024;

    fn map() -> io::Result<Stack> {
        // SAFETY: a new private mapping touches no existing memory.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                Stack::GUARD_BYTES + Stack::BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Stack { base };
        // SAFETY: the lower part of the mapping just created, which nothing refers to.
        if unsafe { libc::mprotect(base, Stack::GUARD_BYTES, libc::PROT_NONE) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stack)
    }

    /// The initial stack pointer of a child: the stack grows down. It is page-aligned, which every architecture accepts.
    fn top(&mut self) -> *mut c_void {
        // SAFETY: one past the end of the mapping.
        unsafe { self.base.byte_add(Stack::GUARD_BYTES + Stack::BYTES) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping created in `map`; no child uses it, because `clone` returns after the child has left.
        unsafe { libc::munmap(self.base, Stack::GUARD_BYTES + Stack::BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::end::pidfd::{Exit, reap};

    extern "C" fn leave(code: *mut c_void) -> c_int {
        loop {
            // SAFETY: takes a number, and does not return.
            unsafe { libc::syscall(libc::SYS_exit_group, code.addr()) };
        }
    }

    #[test]
    fn both_calls_create_a_child_and_pass_the_signals_to_reset() {
        let mut cloner = Cloner::prepare().unwrap();
        for has_clone3 in [cloner.has_clone3, false] {
            cloner.has_clone3 = has_clone3;
            let argument = |undone: Undone| {
                // Rust's runtime ignores SIGPIPE; nothing ignores SIGWINCH.
                assert!(undone.signals.has(libc::SIGPIPE));
                assert_eq!(undone.signals.has(libc::SIGWINCH), !has_clone3);
                assert_eq!(undone.is_outside_cgroup, !has_clone3);
                ptr::without_provenance_mut(7)
            };
            // SAFETY: `leave` takes any number, and never returns.
            let (_, pidfd) = unsafe { cloner.clone(leave, None, &AtomicI32::new(-1), argument) }.unwrap();
            // It has exited: its parent was suspended until then.
            let exit = std::iter::repeat_with(|| reap(pidfd.as_fd()).unwrap()).flatten().next();
            assert_eq!(exit, Some(Exit::Code(7)));
        }
    }
}
