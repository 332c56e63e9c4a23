//! The starts that wait for a launcher thread, and those in progress: which one is next, and which one hangs.
//!
//! ```text
//!           a thread takes it             SLOW_AFTER              timeout                  GRACE
//!  waiting ───────────────────▶ in progress ──────▶ slow ─────────────────▶ is killed ──────────────▶ given up
//!     │                                        another thread may                     its thread is left to itself, and
//!     └─ refused, if all places of its          take its place                        the start is reported as failed
//!        share hang
//! ```
//! A fixed number of starts are in progress at once, not counting the slow ones: a start that hangs costs the others no more than `SLOW_AFTER`. A share
//! (the starts of one user) has so many places for slow ones; as long as it has any, it leaves a thread to the others.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::policy::share::Share;

/// The time after which another thread takes the place of one that still starts. A usual start takes a millisecond; a longer one costs a thread more.
pub(crate) const SLOW_AFTER: Duration = Duration::from_millis(100);

/// The time between the kill of a start and giving it up. SIGKILL takes effect at once, unless the process waits for a disk or a silent file system.
const GRACE: Duration = Duration::from_secs(1);

/// Slow starts of one share; further ones of it wait, or are refused if these have been given up.
const SLOW_OF_SHARE_MAX: usize = 8;

/// Threads beyond the usual ones: the places of eight shares whose starts hang.
const FURTHER_THREADS_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Label {
    /// The number of its process.
    pub(crate) number: u64,
    pub(crate) share: Share,
}

#[derive(Debug)]
pub(crate) struct StartQueue<Job> {
    waiting: VecDeque<Waiting<Job>>,
    /// By the number of the thread.
    threads: Vec<Thread>,
    /// Threads for starts that are not slow.
    usual: usize,
    timeout: Duration,
    /// How many of `threads` have a start in progress that is not slow, and one that is.
    fresh: usize,
    slow: usize,
    /// When a thread has taken a start, or there was none to take.
    moved: Instant,
}

#[derive(Debug)]
struct Waiting<Job> {
    label: Label,
    since: Instant,
    job: Job,
}

#[derive(Debug)]
enum Thread {
    Idle,
    Busy(Progress),
    Ended,
    /// The system has refused this thread, and another one may have its number.
    Vacant,
}

#[derive(Debug)]
struct Progress {
    label: Label,
    since: Instant,
    is_slow: bool,
    is_given_up: bool,
}

#[derive(Debug)]
pub(crate) struct Found<Job> {
    /// The threads whose starts have taken too long.
    pub(crate) late: Vec<usize>,
    /// The starts that have not ended when they were killed. Their threads are left to themselves.
    pub(crate) given_up: Vec<Label>,
    /// Starts that found no place, because so many of their share hang.
    pub(crate) refused: Vec<Refused<Job>>,
    /// How many threads there should be more: one for each slow start.
    pub(crate) needed_threads: usize,
}

/// A start that found no place.
#[derive(Debug)]
pub(crate) struct Refused<Job> {
    pub(crate) label: Label,
    /// How many of its share hang.
    pub(crate) hanging: u32,
    /// Dropped by the caller, outside of its lock.
    pub(crate) job: Job,
}

impl<Job> StartQueue<Job> {
    pub(crate) fn new(usual: usize, timeout: Duration, now: Instant) -> StartQueue<Job> {
        StartQueue {
            waiting: VecDeque::new(),
            threads: Vec::with_capacity(usual),
            usual,
            timeout,
            fresh: 0,
            slow: 0,
            moved: now,
        }
    }

    /// Adds a thread; returns its number, which is the next one or that of a thread that was refused.
    pub(crate) fn add_thread(&mut self) -> usize {
        let is_vacant = |thread: &Thread| matches!(thread, Thread::Vacant);
        if let Some(number) = self.threads.iter().position(is_vacant) {
            self.threads[number] = Thread::Idle;
            return number;
        }
        self.threads.push(Thread::Idle);
        self.threads.len() - 1
    }

    /// The system has refused this thread, which was to be added.
    pub(crate) fn refuse_thread(&mut self, thread: usize) {
        self.threads[thread] = Thread::Vacant;
    }

    pub(crate) fn push(&mut self, label: Label, now: Instant, job: Job) {
        if self.waiting.is_empty() {
            self.moved = now;
        }
        self.waiting.push_back(Waiting { label, since: now, job });
    }

    /// The start of this thread is over, if it had one.
    pub(crate) fn finish(&mut self, thread: usize) {
        if let Thread::Busy(progress) = std::mem::replace(&mut self.threads[thread], Thread::Idle) {
            match progress.is_slow {
                true => self.slow -= 1,
                false => self.fresh -= 1,
            }
        }
    }

    /// The next start for a thread that has none; `None` if none may begin now.
    pub(crate) fn take(&mut self, thread: usize, now: Instant) -> Option<Job> {
        let place = self.next()?;
        let Waiting { label, job, .. } = self.waiting.remove(place)?;
        self.moved = now;
        self.fresh += 1;
        self.threads[thread] = Thread::Busy(Progress {
            label,
            since: now,
            is_slow: false,
            is_given_up: false,
        });
        Some(job)
    }

    pub(crate) fn end_thread(&mut self, thread: usize) {
        self.threads[thread] = Thread::Ended;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a thread, other than this one, may still be waited for.
    pub(crate) fn has_threads_beside(&self, own: Option<usize>) -> bool {
        let mut threads = self.threads.iter().enumerate();
        threads.any(|(number, thread)| Some(number) != own && !thread.is_gone())
    }

    /// Whether a thread has ended or was left to itself.
    pub(crate) fn has_ended(&self, thread: usize) -> bool {
        matches!(self.threads[thread], Thread::Ended)
    }

    /// From now on every start has taken too long.
    pub(crate) fn hurry(&mut self) {
        self.timeout = Duration::ZERO;
    }

    /// Checks every start. Called now and then, as long as there is any.
    pub(crate) fn check(&mut self, now: Instant) -> Found<Job> {
        let mut found = Found {
            late: Vec::new(),
            given_up: Vec::new(),
            refused: Vec::new(),
            needed_threads: 0,
        };
        for (number, thread) in self.threads.iter_mut().enumerate() {
            let Thread::Busy(progress) = thread else { continue };
            let age = now.saturating_duration_since(progress.since);
            if !progress.is_slow && age >= SLOW_AFTER {
                progress.is_slow = true;
                self.fresh -= 1;
                self.slow += 1;
            }
            if age < self.timeout {
                continue;
            }
            // Also one that was given up: its child may have been made since.
            found.late.push(number);
            if !progress.is_given_up && age >= self.timeout + GRACE {
                progress.is_given_up = true;
                found.given_up.push(progress.label.clone());
            }
        }
        if self.slow > 0 {
            found.refused = self.refuse(now);
            found.needed_threads = self.needed_threads();
        }
        found
    }

    /// Whether starts hang that nobody has dealt with, so that this launcher is of no use. A start that was given up does not count while others go on.
    pub(crate) fn is_stuck(&self, now: Instant) -> bool {
        let bound = self.timeout + GRACE + GRACE;
        let is_overdue = |thread: &Thread| match thread {
            Thread::Busy(progress) => !progress.is_given_up && now.saturating_duration_since(progress.since) >= bound,
            Thread::Idle | Thread::Ended | Thread::Vacant => false,
        };
        let is_standing = !self.waiting.is_empty() && now.saturating_duration_since(self.moved) >= bound;
        is_standing || self.threads.iter().any(is_overdue)
    }

    fn next(&self) -> Option<usize> {
        if self.fresh >= self.usual {
            return None;
        }
        if self.slow == 0 {
            return (!self.waiting.is_empty()).then_some(0);
        }
        self.waiting
            .iter()
            .position(|waiting| self.may_begin(&waiting.label.share))
    }

    /// Whether a start of this share may begin, with regard to the slow ones that it has.
    fn may_begin(&self, share: &Share) -> bool {
        let of_share = || self.progress().filter(|progress| progress.label.share == *share);
        match of_share().filter(|progress| progress.is_slow).count() {
            0 => true,
            slow if slow >= SLOW_OF_SHARE_MAX => false,
            // One thread is left to the others.
            _ => of_share().filter(|progress| !progress.is_slow).count() < (self.usual - 1).max(1),
        }
    }

    fn progress(&self) -> impl Iterator<Item = &Progress> {
        self.threads.iter().filter_map(|thread| match thread {
            Thread::Busy(progress) => Some(progress),
            Thread::Idle | Thread::Ended | Thread::Vacant => None,
        })
    }

    /// Takes out the starts that would wait for too long: each place of their share is taken by one that hangs.
    fn refuse(&mut self, now: Instant) -> Vec<Refused<Job>> {
        let mut refused = Vec::new();
        let mut place = 0;
        while let Some(waiting) = self.waiting.get(place) {
            let slow = || {
                self.progress()
                    .filter(|progress| progress.is_slow && progress.label.share == waiting.label.share)
            };
            let has_no_place = slow().count() >= SLOW_OF_SHARE_MAX;
            let are_given_up = slow().all(|progress| progress.is_given_up);
            let has_waited = now.saturating_duration_since(waiting.since) >= self.timeout;
            if has_no_place && (are_given_up || has_waited) {
                let hanging = u32::try_from(slow().count()).unwrap_or(u32::MAX);
                refused.extend(self.waiting.remove(place).map(|waiting| Refused {
                    label: waiting.label,
                    hanging,
                    job: waiting.job,
                }));
            } else {
                place += 1;
            }
        }
        if self.waiting.is_empty() {
            self.moved = now;
        }
        refused
    }

    /// How many threads are missing, so that the usual number of them have no slow start.
    fn needed_threads(&self) -> usize {
        let count = |is_counted: fn(&Thread) -> bool| self.threads.iter().filter(|thread| is_counted(thread)).count();
        let threads = count(|thread| !matches!(thread, Thread::Vacant));
        let ready = threads - count(|thread| matches!(thread, Thread::Ended)) - self.slow;
        let room = (self.usual + FURTHER_THREADS_MAX).saturating_sub(threads);
        self.usual.saturating_sub(ready).min(room)
    }
}

impl Thread {
    /// Whether it will take no start any more, as far as is known.
    fn is_gone(&self) -> bool {
        match self {
            Thread::Idle => false,
            Thread::Busy(progress) => progress.is_given_up,
            Thread::Ended | Thread::Vacant => true,
        }
    }
}

#[cfg(test)]
#[path = "start_queue_tests.rs"]
mod tests;
