//! One traced thread: where it is, and on whose behalf it works.
//!
//! A thread that returns from a wait because its timeout has passed works for the clock: ticks once a second, a log that is flushed after some
//! milliseconds. At the speed of single steps this would be counted for each request although it is shared by thousands, so it is
//! counted apart, until a wait of the thread ends by an event. Not here: the loop that steps threads (tracees.rs).

use nix::libc::{c_long, user_regs_struct};

/// What has caused the work of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A request, a connection, another thread.
    Event,
    /// The timeout of a wait.
    Clock,
}

/// A system call that waits for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// It returns how many things have happened: 0 means that the timeout has passed.
    Events,
    /// It returns `ETIMEDOUT` if the timeout has passed.
    Futex,
    /// It ends only when its time has passed.
    Sleep,
}

/// `futex` commands that wait, without the flags beside them (futex(2)).
const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAIT_BITSET: u64 = 9;
/// -`ETIMEDOUT` and -`EINTR`.
const TIMED_OUT: i64 = -110;
const INTERRUPTED: i64 = -4;
/// The kernel's own results of system calls that it begins again after a signal.
const AGAIN: [i64; 4] = [-512, -513, -514, -516];

/// A thread that is stepped.
#[derive(Debug)]
pub(crate) struct Thread {
    /// The memory that it runs in: an index of the spaces of the tracees.
    pub(crate) space: usize,
    /// The address of its next instruction.
    pub(crate) at: u64,
    /// What its work is counted for.
    pub(crate) cause: Cause,
    /// Whether it has been sent into a system call that has not returned.
    pub(crate) is_in_call: bool,
    /// The address at which the outermost function of an allocator returns.
    pub(crate) allocator_returns_at: Option<u64>,
    wait: Option<Wait>,
}

impl Thread {
    /// A thread that has stopped for the first time, in the system call at `at` or in front of an instruction.
    pub(crate) fn new(space: usize, at: u64, cause: Cause) -> Thread {
        Thread {
            space,
            at,
            cause,
            is_in_call: false,
            allocator_returns_at: None,
            wait: None,
        }
    }

    /// Notes a signal that ends its wait, whatever the kernel does then: a handler runs, or the call begins again.
    pub(crate) fn interrupt(&mut self) {
        self.wait = None;
        self.cause = Cause::Event;
    }

    /// Notes where a thread stands that has stopped for another reason than a step.
    pub(crate) fn stand(&mut self, registers: &user_regs_struct) {
        let call = registers.orig_rax.cast_signed();
        if call >= 0 && AGAIN.contains(&registers.rax.cast_signed()) {
            // The kernel goes back to the instruction, which is two bytes long.
            self.at = registers.rip - 2;
            self.enter(&user_regs_struct {
                rax: registers.orig_rax,
                ..*registers
            });
        } else {
            self.at = registers.rip;
        }
    }

    /// Notes the system call that the next step makes.
    pub(crate) fn enter(&mut self, registers: &user_regs_struct) {
        self.is_in_call = true;
        self.wait = wait_of(registers);
    }

    /// Notes the end of a system call; its result says why a wait has ended.
    pub(crate) fn leave(&mut self, registers: &user_regs_struct) {
        self.is_in_call = false;
        let Some(wait) = self.wait.take() else { return };
        let result = registers.rax.cast_signed();
        let is_over = match wait {
            Wait::Events => result == 0,
            Wait::Futex => result == TIMED_OUT,
            Wait::Sleep => true,
        };
        if is_over {
            self.cause = Cause::Clock;
        } else if result != INTERRUPTED {
            self.cause = Cause::Event;
        }
    }
}

/// The wait that a system call is; `None` for other calls, and for those that only look whether something has happened.
fn wait_of(registers: &user_regs_struct) -> Option<Wait> {
    let call = c_long::try_from(registers.rax).ok()?;
    // The timeout of poll and epoll_wait is an int: the upper half of the register is undefined.
    let is_zero = |milliseconds: u64| milliseconds.trailing_zeros() >= 32;
    match call {
        nix::libc::SYS_epoll_wait | nix::libc::SYS_epoll_pwait if !is_zero(registers.r10) => Some(Wait::Events),
        nix::libc::SYS_poll if !is_zero(registers.rdx) => Some(Wait::Events),
        nix::libc::SYS_epoll_pwait2 | nix::libc::SYS_ppoll | nix::libc::SYS_select | nix::libc::SYS_pselect6 => {
            Some(Wait::Events)
        }
        nix::libc::SYS_futex if matches!(registers.rsi & FUTEX_COMMAND, FUTEX_WAIT | FUTEX_WAIT_BITSET) => {
            Some(Wait::Futex)
        }
        nix::libc::SYS_nanosleep | nix::libc::SYS_clock_nanosleep => Some(Wait::Sleep),
        _ => None,
    }
}
