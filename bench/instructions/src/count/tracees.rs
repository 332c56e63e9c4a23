//! The threads of a server, which run one instruction after the other under ptrace(2).
//!
//! Here: attaching to them and to what they start, stepping, and the counts. A program that a traced process executes is let go: it is a script.
//! If this program ends without detaching, the kernel kills the traced processes. Not here: what a thread waits for (thread.rs), what an address
//! means (space.rs), the requests (requests.rs).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::thread::yield_now;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc::{PTRACE_EVENT_CLONE, PTRACE_EVENT_EXEC, PTRACE_EVENT_FORK, PTRACE_EVENT_VFORK, user_regs_struct};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::count::Failure;
use crate::count::clock::{CLOCK_INSTRUCTIONS, SlowClock};
use crate::count::space::{Executed, Meaning, Space, word};
use crate::count::thread::{Cause, Thread};

/// How long all threads must be asleep until a request counts as finished. More than a script takes to end after its reply, and than the
/// server collects lines of its log (10 ms).
const QUIET: Duration = Duration::from_millis(15);

/// The counts of requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) instructions: u64,
    /// Calls of an allocator that give memory.
    pub(crate) allocations: u64,
    /// Bytes that memcpy and memmove have copied.
    pub(crate) copied: u64,
    /// Instructions that were executed because time had passed.
    pub(crate) by_the_clock: u64,
}

impl Counts {
    fn add(&mut self, cause: Cause, instruction: &mut Executed, instructions: u64) {
        match cause {
            Cause::Event => {
                instruction.count += instructions;
                self.instructions += instructions;
            }
            Cause::Clock => self.by_the_clock += instructions,
        }
    }
}

/// The traced threads.
#[derive(Debug)]
pub(crate) struct Tracees {
    threads: HashMap<Pid, Thread>,
    spaces: Vec<Space>,
    /// Threads that have stopped before the thread that has started them has reported it.
    early: HashSet<Pid>,
    clock: SlowClock,
    counts: Counts,
}

impl Tracees {
    /// Attaches to all threads of the processes. They stand still until `run_until`.
    pub(crate) fn attach(processes: &[Pid]) -> Result<Tracees, Failure> {
        let mut tracees = Tracees {
            threads: HashMap::new(),
            spaces: Vec::new(),
            early: HashSet::new(),
            clock: SlowClock::start()?,
            counts: Counts::default(),
        };
        for process in processes {
            tracees.attach_to(*process)?;
        }
        Ok(tracees)
    }

    fn attach_to(&mut self, process: Pid) -> Result<(), Failure> {
        let options = Options::PTRACE_O_EXITKILL
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK
            | Options::PTRACE_O_TRACEEXEC;
        let space = self.spaces.len();
        // Threads that are started meanwhile are attached to by the kernel, or seen here.
        while let Some(thread) = threads_of(process)?
            .into_iter()
            .find(|thread| !self.threads.contains_key(thread) && !self.early.contains(thread))
        {
            ptrace::seize(thread, options).map_err(|error| format!("process {process} cannot be traced: {error}"))?;
            ptrace::interrupt(thread)?;
            let WaitStatus::PtraceEvent(..) = waitpid(thread, Some(WaitPidFlag::__WALL))? else {
                return Err(format!("thread {thread} has ended").into());
            };
            if self.spaces.len() == space {
                self.spaces.push(Space::of(process)?);
            }
            let at = ptrace::getregs(thread)?.rip;
            self.threads.insert(thread, Thread::new(space, at, Cause::Clock));
        }
        let ours: Vec<Pid> = self.threads_in(space);
        for thread in ours {
            self.step(thread, None)?;
        }
        Ok(())
    }

    fn threads_in(&self, space: usize) -> Vec<Pid> {
        let ours = self.threads.iter().filter(|(_, thread)| thread.space == space);
        ours.map(|(pid, _)| *pid).collect()
    }

    /// Steps all threads until `is_done` holds and all of them have been asleep for a while. `is_done` is called often.
    pub(crate) fn run_until(&mut self, mut is_done: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
        let mut quiet_since = None;
        loop {
            // A thread in front of an ordinary instruction will stop in a moment: waiting for it costs less than asking.
            let flags = if self.threads.values().all(|thread| thread.is_in_call) {
                WaitPidFlag::__WALL | WaitPidFlag::WNOHANG
            } else {
                WaitPidFlag::__WALL
            };
            let status = match waitpid(None, Some(flags)) {
                Err(Errno::ECHILD) => return Err("the server has ended".into()),
                Err(Errno::EINTR) => continue,
                status => status?,
            };
            if status != WaitStatus::StillAlive {
                quiet_since = None;
                self.clock.wake_up()?;
                self.go_on(status)?;
                continue;
            }
            let is_done = is_done()?;
            if self.are_asleep() {
                self.clock.fall_asleep()?;
                if is_done && quiet_since.get_or_insert_with(Instant::now).elapsed() >= QUIET {
                    return Ok(());
                }
            } else {
                quiet_since = None;
            }
            yield_now();
        }
    }

    /// Returns the counts since the last call.
    pub(crate) fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// The work since the last counts, and a line for each thread: its name, its state, its system call, its function (proc(5)).
    pub(crate) fn describe(&self) -> String {
        let mut lines = vec![format!("{:?}", self.counts)];
        let mut threads: Vec<_> = self.threads.iter().collect();
        threads.sort_by_key(|(pid, _)| **pid);
        for (pid, thread) in threads {
            let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
            let function = self.spaces[thread.space].name_of(thread.at);
            let (name, call) = (read("comm"), read("syscall"));
            lines.push(format!(
                "{pid} {} {} {:?} {} {function}",
                name.trim(),
                state_of(*pid).unwrap_or('-'),
                thread.cause,
                call.trim()
            ));
        }
        lines.join("\n")
    }

    /// Clears the profile.
    pub(crate) fn clear_profile(&mut self) {
        for space in &mut self.spaces {
            space
                .executed
                .values_mut()
                .for_each(|instruction| instruction.count = 0);
        }
    }

    /// Instructions of each function.
    pub(crate) fn profile(&self) -> BTreeMap<String, u64> {
        let mut functions = BTreeMap::new();
        for space in &self.spaces {
            for (address, instruction) in space.executed.iter().filter(|(_, instruction)| instruction.count > 0) {
                *functions.entry(space.name_of(*address)).or_default() += instruction.count;
            }
        }
        functions
    }

    /// Lets all threads go.
    pub(crate) fn detach(mut self) -> Result<(), Failure> {
        for thread in self.threads.keys() {
            match ptrace::interrupt(*thread) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        while !self.threads.is_empty() {
            match waitpid(None, Some(WaitPidFlag::__WALL))? {
                WaitStatus::PtraceEvent(thread, ..) => {
                    self.threads.remove(&thread);
                    ptrace::detach(thread, None)?;
                }
                WaitStatus::Stopped(thread, signal) => {
                    self.threads.remove(&thread);
                    ptrace::detach(thread, Some(signal).filter(|signal| *signal != Signal::SIGTRAP))?;
                }
                status => self.threads.retain(|thread, _| Some(*thread) != status.pid()),
            }
        }
        Ok(())
    }

    /// Acts on a thread that has stopped or ended.
    fn go_on(&mut self, status: WaitStatus) -> Result<(), Failure> {
        match status {
            WaitStatus::Stopped(thread, Signal::SIGTRAP) => self.note_step(thread),
            WaitStatus::Stopped(thread, signal) => self.step(thread, Some(signal)),
            WaitStatus::PtraceEvent(thread, _, PTRACE_EVENT_EXEC) => {
                // The thread that has called execve has the number of the process now.
                self.threads.remove(&thread);
                Ok(ptrace::detach(thread, None)?)
            }
            WaitStatus::PtraceEvent(thread, _, PTRACE_EVENT_CLONE | PTRACE_EVENT_FORK | PTRACE_EVENT_VFORK) => {
                self.track(thread, Pid::from_raw(ptrace::getevent(thread)?.try_into()?))?;
                self.step(thread, None)
            }
            WaitStatus::PtraceEvent(thread, ..) if !self.threads.contains_key(&thread) => {
                self.early.insert(thread);
                Ok(())
            }
            WaitStatus::PtraceEvent(thread, ..) => self.step(thread, None),
            WaitStatus::Exited(thread, _) | WaitStatus::Signaled(thread, ..) => {
                self.threads.remove(&thread);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Tracks a thread or a process that a tracked thread has started.
    fn track(&mut self, parent: Pid, child: Pid) -> Result<(), Failure> {
        let parent = self
            .threads
            .get(&parent)
            .ok_or("an unknown thread has started another")?;
        // A child begins behind the system call, which belongs to its parent.
        let child_thread = Thread::new(parent.space, 0, parent.cause);
        self.threads.insert(child, child_thread);
        if self.early.remove(&child) {
            self.step(child, None)?;
        }
        Ok(())
    }

    /// Counts the instruction that a thread has executed, and lets it execute the next one.
    fn note_step(&mut self, pid: Pid) -> Result<(), Failure> {
        let mut registers = ptrace::getregs(pid)?;
        // A repeated string instruction stops after each repetition, at the same address: it is one instruction.
        if self.thread(pid)?.at != registers.rip {
            self.note_executed(pid, &registers)?;
            self.note_entry(pid, &mut registers)?;
        }
        let clock = self.clock;
        let thread = self.threads.get_mut(&pid).ok_or("an unknown thread has stopped")?;
        if self.spaces[thread.space].instruction(pid, registers.rip).meaning == Meaning::SystemCall {
            clock.delay(pid, &registers)?;
            thread.enter(&registers);
        }
        Ok(ignore_end(ptrace::step(pid, None))?)
    }

    fn thread(&mut self, pid: Pid) -> Result<&mut Thread, Failure> {
        Ok(self.threads.get_mut(&pid).ok_or("an unknown thread has stopped")?)
    }

    /// Counts the instruction that a thread has executed to get to another one.
    fn note_executed(&mut self, pid: Pid, registers: &user_regs_struct) -> Result<(), Failure> {
        let thread = self.threads.get_mut(&pid).ok_or("an unknown thread has stopped")?;
        if thread.at > 0 {
            let executed = self.spaces[thread.space].instruction(pid, thread.at);
            self.counts.add(thread.cause, executed, 1);
        }
        if thread.is_in_call {
            thread.leave(registers);
        }
        thread.at = registers.rip;
        if thread.allocator_returns_at == Some(registers.rip) {
            thread.allocator_returns_at = None;
        }
        Ok(())
    }

    /// Acts on a function that a thread has just called. A clock is read here, and the function left.
    fn note_entry(&mut self, pid: Pid, registers: &mut user_regs_struct) -> Result<(), Failure> {
        let thread = self.threads.get_mut(&pid).ok_or("an unknown thread has stopped")?;
        let is_counted = thread.cause == Cause::Event;
        let instruction = self.spaces[thread.space].instruction(pid, registers.rip);
        match instruction.meaning {
            Meaning::Copy if is_counted => self.counts.copied += registers.rdx,
            // One function of the allocator may call another.
            Meaning::Allocate if thread.allocator_returns_at.is_none() => {
                self.counts.allocations += u64::from(is_counted);
                thread.allocator_returns_at = Some(word(pid, registers.rsp)?);
            }
            Meaning::Clock(call) if self.clock.answer(pid, call, registers)? => {
                self.counts.add(thread.cause, instruction, CLOCK_INSTRUCTIONS);
                thread.at = registers.rip;
            }
            _ => {}
        }
        Ok(())
    }

    /// Lets a thread execute one instruction, or go on with its system call.
    fn step(&mut self, pid: Pid, signal: Option<Signal>) -> Result<(), Failure> {
        if let Some(thread) = self.threads.get_mut(&pid) {
            if signal.is_some() {
                thread.interrupt();
            }
            if !thread.is_in_call {
                let registers = ptrace::getregs(pid)?;
                thread.stand(&registers);
                if self.spaces[thread.space].instruction(pid, registers.rip).meaning == Meaning::SystemCall {
                    thread.enter(&registers);
                }
            }
        }
        Ok(ignore_end(ptrace::step(pid, signal))?)
    }

    fn are_asleep(&self) -> bool {
        self.threads.keys().all(|thread| state_of(*thread) == Some('S'))
    }
}

/// The letter of a thread's state (proc(5)); `None` if it has ended.
fn state_of(thread: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// A thread may be killed while it stands: its end is reported by the next wait.
fn ignore_end(result: nix::Result<()>) -> nix::Result<()> {
    match result {
        Err(Errno::ESRCH) => Ok(()),
        result => result,
    }
}

fn threads_of(process: Pid) -> Result<Vec<Pid>, Failure> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).map_err(|error| format!("process {process}: {error}"))?;
    let names = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    Ok(names.map(Pid::from_raw).collect())
}
