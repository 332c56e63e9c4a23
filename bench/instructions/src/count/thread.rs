//! One traced thread: where it is, and on whose behalf it works.
//!
//! A thread that returns from a wait because its timeout has passed works for the clock: ticks once a second, a log that is flushed after some
//! milliseconds. At the speed of single steps this would be counted for each request although it is shared by thousands, so it is
//! counted apart, until a wait of the thread ends by an event. A lock that it waits for after the timeout is no event: threads of a pool whose
//! timeouts pass at the same time wait for each other. Not here: the loop that steps threads (tracees.rs).

use nix::libc::{c_long, user_regs_struct};

/// The cause of a thread's work.
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
    /// A call that returns how many things have happened: 0 means that the timeout has passed.
    Events,
    /// A call that returns `ETIMEDOUT` if the timeout has passed, on the futex at this address.
    Futex(u64),
    /// The same without a timeout.
    UntimedFutex(u64),
    /// A call that ends only when its time has passed.
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
    /// The cause of its present work.
    pub(crate) cause: Cause,
    /// Whether it has been sent into a system call that has not returned.
    pub(crate) is_in_call: bool,
    /// The address at which the outermost function of an allocator returns.
    pub(crate) allocator_returns_at: Option<u64>,
    wait: Option<Wait>,
    /// The futex of its last wait, if the timeout has passed.
    timed_out: Option<u64>,
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
            timed_out: None,
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
            self.enter(&user_regs_struct { rax: registers.orig_rax, ..*registers });
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
        let (is_over, futex) = match wait {
            Wait::Events => (result == 0, None),
            Wait::Futex(futex) => (result == TIMED_OUT, Some(futex)),
            // The lock of a condition variable is another futex than the variable.
            Wait::UntimedFutex(lock) => (self.timed_out.is_some_and(|futex| futex != lock), self.timed_out),
            Wait::Sleep => (true, None),
        };
        if is_over {
            self.timed_out = futex;
            self.cause = Cause::Clock;
        } else if result != INTERRUPTED {
            self.timed_out = None;
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
            Some(if registers.r10 == 0 {
                Wait::UntimedFutex(registers.rdi)
            } else {
                Wait::Futex(registers.rdi)
            })
        }
        nix::libc::SYS_nanosleep | nix::libc::SYS_clock_nanosleep => Some(Wait::Sleep),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use nix::libc::{SYS_epoll_wait, SYS_futex, user_regs_struct};

    use super::{Cause, Thread};

    /// Registers of a thread in front of a system call, or behind it.
    fn registers(rax: i64, rsi: u64, r10: u64) -> user_regs_struct {
        user_regs_struct { rax: rax.cast_unsigned(), rsi, r10, ..NONE }
    }

    const NONE: user_regs_struct = user_regs_struct {
        r15: 0,
        r14: 0,
        r13: 0,
        r12: 0,
        rbp: 0,
        rbx: 0,
        r11: 0,
        r10: 0,
        r9: 0,
        r8: 0,
        rax: 0,
        rcx: 0,
        rdx: 0,
        rsi: 0,
        rdi: 0,
        orig_rax: 0,
        rip: 0,
        cs: 0,
        eflags: 0,
        rsp: 0,
        ss: 0,
        fs_base: 0,
        gs_base: 0,
        ds: 0,
        es: 0,
        fs: 0,
        gs: 0,
    };

    fn cause_after(call: user_regs_struct, result: i64, before: Cause) -> Cause {
        let mut thread = Thread::new(0, 0, before);
        thread.enter(&call);
        thread.leave(&registers(result, 0, 0));
        thread.cause
    }

    #[test]
    fn a_wait_that_has_timed_out_is_work_of_the_clock() {
        let wait = registers(SYS_epoll_wait, 0, 1000);
        assert_eq!(cause_after(wait, 0, Cause::Event), Cause::Clock);
        assert_eq!(cause_after(wait, 1, Cause::Clock), Cause::Event);
        let futex = registers(SYS_futex, 9, 0x1000);
        let lock = registers(SYS_futex, 9, 0);
        assert_eq!(cause_after(lock, 0, Cause::Clock), Cause::Event);
        assert_eq!(cause_after(futex, -110, Cause::Event), Cause::Clock);
        assert_eq!(cause_after(futex, 0, Cause::Clock), Cause::Event);
    }

    #[test]
    fn a_lock_that_a_thread_waits_for_after_a_timeout_is_work_of_the_clock() {
        let mut thread = Thread::new(0, 0, Cause::Event);
        const CONDITION: u64 = 0x100;
        const LOCK: u64 = 0x104;
        for (futex, timeout, result, cause) in [
            (CONDITION, 0x1000, -110, Cause::Clock),
            (LOCK, 0, 0, Cause::Clock),
            (CONDITION, 0, 0, Cause::Event),
            (LOCK, 0, 0, Cause::Event),
        ] {
            let call = user_regs_struct { rdi: futex, ..registers(SYS_futex, 9, timeout) };
            thread.enter(&call);
            thread.leave(&registers(result, 0, 0));
            assert_eq!(thread.cause, cause, "{futex:#x} with the timeout {timeout:#x}");
        }
    }

    #[test]
    fn a_look_that_does_not_wait_changes_nothing() {
        assert_eq!(
            cause_after(registers(SYS_epoll_wait, 0, 0), 0, Cause::Event),
            Cause::Event
        );
    }

    #[test]
    fn a_call_that_begins_again_stands_at_its_instruction() {
        let mut thread = Thread::new(0, 0, Cause::Clock);
        let mut stopped = registers(-512, 9, 0);
        (stopped.orig_rax, stopped.rip) = (SYS_futex.cast_unsigned(), 102);
        thread.stand(&stopped);
        assert_eq!((thread.at, thread.is_in_call), (100, true));
    }
}
