//! The system call that makes a child: `clone3` where the kernel has it and lets it pass, else the C library's `clone`.
//!
//! `clone3` can take the parent's signal handlers from the child (CLONE_CLEAR_SIGHAND, Linux 5.5), which would else set the
//! disposition of each signal by a call of its own; those that are ignored stay so and are left to it. The C library has no wrapper for it, and a child on a stack of its own cannot return through
//! a function call of its parent's: hence a few lines of assembler, for `x86_64`. Containers' filters may refuse `clone3`,
//! as they cannot look into its arguments: then, and elsewhere, it is `clone`.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

/// The child's first function. It must not return.
pub(crate) type Entry = extern "C" fn(*mut c_void) -> c_int;

/// The child shares the memory and the table of descriptors, and its parent stands still until it has left the memory.
const FLAGS: c_int = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::CLONE_PIDFD;

/// Numbers of signals end here (signal(7)); the kernel's signal set is 64 bits.
pub(crate) const SIGNAL_MAX: c_int = 64;

/// Signals by their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignalSet(u64);

impl SignalSet {
    pub(crate) const ALL: SignalSet = SignalSet(u64::MAX);

    /// Those that this process ignores now.
    fn ignored() -> SignalSet {
        const NEW: usize = 0;
        let mut set = 0;
        for signal in 1..=SIGNAL_MAX {
            // struct kernel_sigaction: the handler first, then flags, restorer and mask, at most 4 words.
            let mut action = [0_usize; 4];
            // The C library's wrapper would refuse the signals that it uses itself.
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

/// Makes the children of one launcher thread, one after the other.
#[derive(Debug)]
pub(crate) struct Cloner {
    stack: Stack,
    has_clone3: bool,
    ignored: SignalSet,
}

impl Cloner {
    /// For as long as this process ignores the signals that it ignores now.
    pub(crate) fn prepare() -> io::Result<Cloner> {
        Ok(Cloner {
            stack: Stack::map()?,
            has_clone3: cfg!(target_arch = "x86_64"),
            ignored: SignalSet::ignored(),
        })
    }

    /// Makes a child, which calls `entry` with what `argument` gives; when this returns, it has left this memory. `argument`
    /// is told the signals whose disposition the child has to set.
    ///
    /// # Safety
    /// `entry` is sound for that argument, in a child that shares this memory, and never returns.
    pub(crate) unsafe fn clone(
        &mut self,
        entry: Entry,
        argument: impl Fn(SignalSet) -> *mut c_void,
    ) -> io::Result<(libc::pid_t, OwnedFd)> {
        if self.has_clone3 {
            // SAFETY: as this function.
            match unsafe { self.clone3(entry, argument(self.ignored)) } {
                // Unknown to the kernel, or to it but not its flag, or refused by a filter: for good.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL | libc::EPERM)) => {
                    self.has_clone3 = false;
                }
                cloned => return cloned,
            }
        }
        let mut pidfd: c_int = -1;
        let argument = argument(SignalSet::ALL);
        // SAFETY: the child runs on the stack of its own, and this thread stands still meanwhile. CLONE_PIDFD writes the one
        // number. For the rest the caller answers.
        let pid = unsafe { libc::clone(entry, self.stack.top(), FLAGS | libc::SIGCHLD, argument, &raw mut pidfd) };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it, and nobody else knows it.
        Ok((pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
    }

    #[cfg(target_arch = "x86_64")]
    unsafe fn clone3(&mut self, entry: Entry, argument: *mut c_void) -> io::Result<(libc::pid_t, OwnedFd)> {
        /// Also by its number, which is the same on every 64-bit machine.
        const CLEAR_SIGHAND: u64 = 0x1_0000_0000;
        let mut pidfd: c_int = -1;
        // struct clone_args (clone(2)), in its first version.
        let arguments: [u64; 8] = [
            u64::from(FLAGS.cast_unsigned()) | CLEAR_SIGHAND,
            (&raw mut pidfd).expose_provenance() as u64,
            0, // child_tid
            0, // parent_tid
            u64::from(libc::SIGCHLD.cast_unsigned()),
            self.stack.base.expose_provenance() as u64 + Stack::GUARD_BYTES as u64,
            Stack::BYTES as u64,
            0, // tls
        ];
        let done: i64;
        // SAFETY: the kernel reads the arguments and writes the one number. In the parent the call changes rax, rcx and r11.
        // The child goes on at the same place with the same registers, but with the top of its own empty stack, which is
        // aligned as the call wants; it calls `entry`, which does not return. For that the caller answers.
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
                in("rsi") size_of_val(&arguments),
                in("r12") argument,
                in("r13") entry,
                lateout("rcx") _,
                lateout("r11") _,
            );
        }
        match i32::try_from(done) {
            Ok(pid @ 1..) => {
                // SAFETY: the kernel has just made it, and nobody else knows it.
                Ok((pid, unsafe {
                    OwnedFd::from_raw_fd(ptr::from_ref(&pidfd).read_volatile())
                }))
            }
            Ok(errno) => Err(io::Error::from_raw_os_error(-errno)),
            Err(_) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[expect(clippy::unused_self, reason = "elsewhere it is used")]
    unsafe fn clone3(&mut self, _: Entry, _: *mut c_void) -> io::Result<(libc::pid_t, OwnedFd)> {
        Err(io::Error::from_raw_os_error(libc::ENOSYS))
    }
}

/// The stack of the children of one launcher thread, one after the other.
#[derive(Debug)]
struct Stack {
    base: *mut c_void,
}

// SAFETY: memory that this value alone owns.
unsafe impl Send for Stack {}

impl Stack {
    /// The child's functions need about 1 KiB, unoptimised a few.
    const BYTES: usize = 64 * 1024;
    /// Below the stack, inaccessible: an overflow must not reach the server's memory. A whole page everywhere.
    const GUARD_BYTES: usize = 64 * 1024;

    /// Maps a stack with its guard.
    fn map() -> io::Result<Stack> {
        // SAFETY: a fresh private mapping.
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
        // SAFETY: the lower part of the mapping just made, which nothing refers to.
        if unsafe { libc::mprotect(base, Stack::GUARD_BYTES, libc::PROT_NONE) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stack)
    }

    /// Where a child's stack begins: it grows down. Aligned to pages, so to whatever the machine asks for.
    fn top(&mut self) -> *mut c_void {
        // SAFETY: one past the end of the mapping.
        unsafe { self.base.byte_add(Stack::GUARD_BYTES + Stack::BYTES) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`; no child is on it, since `start` returns after the child has left.
        unsafe { libc::munmap(self.base, Stack::GUARD_BYTES + Stack::BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::pidfd::{Exit, reap};

    extern "C" fn leave(code: *mut c_void) -> c_int {
        loop {
            // SAFETY: takes a number, and does not return.
            unsafe { libc::syscall(libc::SYS_exit_group, code.addr()) };
        }
    }

    #[test]
    fn both_calls_make_a_child_and_say_which_signals_it_must_reset() {
        let mut cloner = Cloner::prepare().unwrap();
        for has_clone3 in [cloner.has_clone3, false] {
            cloner.has_clone3 = has_clone3;
            let argument = |signals: SignalSet| {
                // Rust's runtime ignores the one, and nobody the other.
                assert!(signals.has(libc::SIGPIPE));
                assert_eq!(signals.has(libc::SIGWINCH), !has_clone3);
                ptr::without_provenance_mut(7)
            };
            // SAFETY: `leave` takes any number, and never returns.
            let (_, pidfd) = unsafe { cloner.clone(leave, argument) }.unwrap();
            // It is gone: its parent stood still until then.
            let exit = std::iter::repeat_with(|| reap(pidfd.as_fd()).unwrap()).flatten().next();
            assert_eq!(exit, Some(Exit::Code(7)));
        }
    }
}
