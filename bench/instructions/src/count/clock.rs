//! A clock that goes a thousand times slower for the traced threads, as they do.
//!
//! A server does some work once a second or every hundred milliseconds: dates, timers, files that are checked again. A request that is stepped takes
//! as long as ten thousand others, so it would be counted with the work of many moments. Programs read clocks by functions that the kernel maps into each
//! process, the vDSO (vdso(7)); here these calls are answered instead of executed. Waits until a point in time are prolonged accordingly. Not
//! here: when a thread waits (thread.rs).

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use nix::libc::{SYS_futex, c_long, user_regs_struct};
use nix::sys::ptrace;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};

use crate::count::Failure;
use crate::count::space::word;

/// By how much the clock is slower: a request of 50 µs takes some 50 to 500 ms here.
const SLOWER: i128 = 1000;
/// The instructions that reading a clock counts for; the kernel's function has as many, depending on the clock and the machine.
pub(crate) const CLOCK_INSTRUCTIONS: u64 = 50;
/// Clocks of the time; those of processor time are not slowed.
const CLOCKS: [i32; 7] = [
    nix::libc::CLOCK_REALTIME,
    nix::libc::CLOCK_MONOTONIC,
    nix::libc::CLOCK_MONOTONIC_RAW,
    nix::libc::CLOCK_REALTIME_COARSE,
    nix::libc::CLOCK_MONOTONIC_COARSE,
    nix::libc::CLOCK_BOOTTIME,
    nix::libc::CLOCK_TAI,
];
const BILLION: i128 = 1_000_000_000;
/// The command of futex(2) that waits until a point in time, and the flag for the clock of the day.
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_COMMAND: u64 = 0x7f;

/// A function of the vDSO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockCall {
    /// `clock_gettime(clock, &timespec)`.
    GetTime,
    /// `gettimeofday(&timeval, &zone)`.
    TimeOfDay,
    /// `time(&seconds)`.
    Time,
}

/// The slow clock; it began to be slower when tracing began. While all threads are asleep it goes as fast as others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowClock {
    began: i128,
    /// How long all threads have been asleep, nanoseconds.
    asleep: i128,
    asleep_since: Option<i128>,
}

impl SlowClock {
    pub(crate) fn start() -> Result<SlowClock, Failure> {
        Ok(SlowClock {
            began: now(nix::libc::CLOCK_MONOTONIC)?,
            asleep: 0,
            asleep_since: None,
        })
    }

    /// All threads are asleep: the clock goes on at full speed, because they may wait for it.
    pub(crate) fn fall_asleep(&mut self) -> Result<(), Failure> {
        if self.asleep_since.is_none() {
            self.asleep_since = Some(now(nix::libc::CLOCK_MONOTONIC)?);
        }
        Ok(())
    }

    /// A thread has woken up.
    pub(crate) fn wake_up(&mut self) -> Result<(), Failure> {
        if let Some(since) = self.asleep_since.take() {
            self.asleep += now(nix::libc::CLOCK_MONOTONIC)? - since;
        }
        Ok(())
    }

    /// By how much the slow clock is behind, nanoseconds.
    fn lag(self) -> Result<i128, Failure> {
        let passed = now(nix::libc::CLOCK_MONOTONIC)? - self.began - self.asleep;
        Ok(passed - passed / SLOWER)
    }

    /// Answers a call that a thread has just made, and lets it return. Returns whether it did.
    pub(crate) fn answer(
        self,
        thread: Pid,
        call: ClockCall,
        registers: &mut user_regs_struct,
    ) -> Result<bool, Failure> {
        let clock = match call {
            ClockCall::GetTime => i32::try_from(registers.rdi).unwrap_or(-1),
            ClockCall::TimeOfDay | ClockCall::Time => nix::libc::CLOCK_REALTIME,
        };
        if !CLOCKS.contains(&clock) {
            return Ok(false);
        }
        let time = now(clock)? - self.lag()?;
        let (seconds, nanoseconds) = (i64::try_from(time / BILLION)?, i64::try_from(time % BILLION)?);
        match call {
            ClockCall::GetTime => store(thread, registers.rsi, &[seconds, nanoseconds])?,
            ClockCall::TimeOfDay if registers.rdi != 0 => store(thread, registers.rdi, &[seconds, nanoseconds / 1000])?,
            ClockCall::Time if registers.rdi != 0 => store(thread, registers.rdi, &[seconds])?,
            ClockCall::TimeOfDay | ClockCall::Time => {}
        }
        registers.rax = if call == ClockCall::Time {
            seconds.cast_unsigned()
        } else {
            0
        };
        registers.rip = word(thread, registers.rsp)?;
        registers.rsp += 8;
        ptrace::setregs(thread, *registers)?;
        Ok(true)
    }

    /// Prolongs a wait until a point in time of the slow clock, which a thread is about to begin.
    pub(crate) fn delay(self, thread: Pid, registers: &user_regs_struct) -> Result<(), Failure> {
        let is_futex = c_long::try_from(registers.rax) == Ok(SYS_futex);
        let until = registers.r10;
        if is_futex && registers.rsi & FUTEX_COMMAND == FUTEX_WAIT_BITSET && until != 0 {
            let seconds = word(thread, until)?.cast_signed();
            let nanoseconds = word(thread, until + 8)?.cast_signed();
            let time = i128::from(seconds) * BILLION + i128::from(nanoseconds) + self.lag()?;
            store(
                thread,
                until,
                &[i64::try_from(time / BILLION)?, i64::try_from(time % BILLION)?],
            )?;
        }
        Ok(())
    }
}

fn now(clock: i32) -> Result<i128, Failure> {
    let time = clock_gettime(ClockId::from_raw(clock))?;
    Ok(i128::from(time.tv_sec()) * BILLION + i128::from(time.tv_nsec()))
}

/// Writes words to a stopped thread's memory.
fn store(thread: Pid, address: u64, words: &[i64]) -> Result<(), Failure> {
    for (at, word) in (address..).step_by(8).zip(words) {
        ptrace::write(thread, std::ptr::without_provenance_mut(usize::try_from(at)?), *word)?;
    }
    Ok(())
}

/// The addresses of these functions in a process.
pub(crate) fn clock_calls(process: Pid) -> Result<Vec<(u64, ClockCall)>, Failure> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else {
        return Ok(Vec::new());
    };
    let range = line.split(' ').next().and_then(|range| range.split_once('-'));
    let (start, end) = range.ok_or("/proc/PID/maps has a line without addresses")?;
    let (start, end) = (u64::from_str_radix(start, 16)?, u64::from_str_radix(end, 16)?);
    let mut image = vec![0; usize::try_from(end - start)?];
    File::open(format!("/proc/{process}/mem"))?.read_exact_at(&mut image, start)?;
    let file = ElfFile64::<Endianness>::parse(&*image)?;
    let calls = file.dynamic_symbols().filter_map(|symbol| {
        let call = match symbol.name().ok()? {
            "__vdso_clock_gettime" => ClockCall::GetTime,
            "__vdso_gettimeofday" => ClockCall::TimeOfDay,
            "__vdso_time" => ClockCall::Time,
            _ => return None,
        };
        Some((start + symbol.address(), call))
    });
    Ok(calls.collect())
}
