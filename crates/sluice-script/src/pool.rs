//! The pool of one script, as pure state: events in, decisions out, the time as an argument.
//!
//! Here: who gets which process, who waits, who is refused, which process ends and why. Not here: processes, locks and
//! timers (`lease`), so that all of this is tested by simulation.
//!
//! ```text
//!             request: start                released
//!   (nothing) ─────────────▶ busy ────────────────────────▶ idle
//!                 ▲            ▲  │ handed to who waits      │ idle too long, script changed,
//!                 │            └──┴──────── request ─────────┤ requests served
//!                 └── ended, while somebody waits ◀──────────┴──▶ (nothing)
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use sluice_settings::PoolSettings;

/// An idle process of another worker is taken rather than a new one started, once it has been idle for so long. Younger
/// ones are needed where they are: under load every worker soon has its own, and none moves.
const SPARE_AFTER: Duration = Duration::from_millis(10);

/// A waiter older than this gets the next process whatever its worker; younger ones leave it to their own worker's.
const FAIRNESS: Duration = Duration::from_millis(5);

/// How many waiters are looked at for one of the same worker.
const LOOK_AHEAD: usize = 32;

/// Processes in a row that ended before their first reply until starts are put off.
const FAILURES_FREE: u32 = 3;
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Names a process within its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessId(u64);

/// Names a request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(u64);

/// What a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// This idle process.
    Use(ProcessId),
    /// Leave to start a process under this name.
    Start(ProcessId),
    /// A place in the queue.
    Wait(Ticket),
    Refuse(Refusal),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    QueueFull,
    /// The last processes ended before their first reply; another is tried after so long.
    BackOff(Duration),
}

/// What becomes of a process whose exchange is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    Keep,
    /// It serves the one who waited.
    Hand(Ticket),
    Retire(Reason),
}

/// Why a process is ended in good order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Idle,
    Requests,
    ScriptChanged,
    /// The server ends, or has another configuration.
    Shutdown,
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Reason::Idle => "idle for its lifetime",
            Reason::Requests => "served its number of requests",
            Reason::ScriptChanged => "its file has changed",
            Reason::Shutdown => "the server ends or has another configuration",
        })
    }
}

/// What is to be done besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Retire(ProcessId, Reason),
    /// The one who waited may start a process under this name.
    Start(Ticket, ProcessId),
}

/// The processes of one script and the requests that wait for them.
#[derive(Debug)]
pub(crate) struct Pool {
    settings: PoolSettings,
    /// Whether a process that ends before its first reply puts off the next start.
    backs_off: bool,
    processes: Vec<Slot>,
    queue: VecDeque<Waiting>,
    named: u64,
    failures: u32,
    not_before: Option<Instant>,
    is_closed: bool,
}

#[derive(Debug)]
struct Slot {
    id: ProcessId,
    worker: usize,
    idle_since: Option<Instant>,
    /// Replaces the pool's idle lifetime (callout LIFETIME): `Some(None)` is without end.
    lifetime: Option<Option<Duration>>,
    served: u64,
    is_stale: bool,
    /// Told to end, or about to: it counts until it has.
    is_ending: bool,
}

impl Slot {
    fn lend(&mut self, worker: usize) -> ProcessId {
        self.idle_since = None;
        self.worker = worker;
        self.id
    }
}

#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    worker: usize,
    since: Instant,
}

impl Pool {
    pub(crate) fn new(settings: PoolSettings, backs_off: bool) -> Pool {
        Pool {
            settings,
            backs_off,
            processes: Vec::new(),
            queue: VecDeque::new(),
            named: 0,
            failures: 0,
            not_before: None,
            is_closed: false,
        }
    }

    /// A request on `worker` wants a process: its own worker's idle one, one that another worker can spare, a new one, any
    /// idle one, a place in the queue.
    pub(crate) fn request(&mut self, worker: usize, now: Instant) -> Decision {
        if let Some(slot) = self.youngest_idle(|slot| slot.worker == worker) {
            return Decision::Use(slot.lend(worker));
        }
        let spare_since = now.checked_sub(SPARE_AFTER);
        if let Some(slot) = self.youngest_idle(|slot| slot.idle_since <= spare_since) {
            return Decision::Use(slot.lend(worker));
        }
        if self.processes.len() < self.settings.max {
            return match self.backoff(now) {
                Some(wait) => Decision::Refuse(Refusal::BackOff(wait)),
                None => Decision::Start(self.add(worker)),
            };
        }
        if let Some(slot) = self.youngest_idle(|_| true) {
            return Decision::Use(slot.lend(worker));
        }
        if self.queue.len() >= self.settings.queue_max {
            return Decision::Refuse(Refusal::QueueFull);
        }
        let ticket = Ticket(self.name());
        self.queue.push_back(Waiting {
            ticket,
            worker,
            since: now,
        });
        Decision::Wait(ticket)
    }

    /// A waiting request gave up.
    pub(crate) fn cancel(&mut self, ticket: Ticket) {
        self.queue.retain(|waiting| waiting.ticket != ticket);
    }

    /// A process has answered completely and could serve again.
    pub(crate) fn release(&mut self, id: ProcessId, now: Instant) -> (Release, Option<Action>) {
        self.failures = 0;
        self.not_before = None;
        let requests_max = self.settings.requests_max.unwrap_or(u64::MAX);
        let is_closed = self.is_closed;
        let Some(slot) = self.slot(id) else {
            return (Release::Retire(Reason::Shutdown), None);
        };
        slot.served += 1;
        let reason = match slot {
            _ if is_closed => Some(Reason::Shutdown),
            slot if slot.is_stale => Some(Reason::ScriptChanged),
            slot if slot.served >= requests_max => Some(Reason::Requests),
            _ => None,
        };
        if let Some(reason) = reason {
            self.remove(id);
            return (Release::Retire(reason), self.start_for_waiting(now));
        }
        (self.keep(id, now), None)
    }

    /// A process was taken and not used.
    pub(crate) fn give_back(&mut self, id: ProcessId, now: Instant) -> Release {
        if self.is_closed && self.remove(id).is_some() {
            return Release::Retire(Reason::Shutdown);
        }
        self.keep(id, now)
    }

    /// A process was never started.
    pub(crate) fn not_started(&mut self, id: ProcessId, now: Instant) -> Option<Action> {
        self.remove(id)?;
        self.start_for_waiting(now)
    }

    /// A process is of no more use and will end: it takes no further request, and no blame.
    pub(crate) fn ending(&mut self, id: ProcessId) {
        if let Some(slot) = self.slot(id) {
            slot.is_ending = true;
            slot.idle_since = None;
        }
    }

    /// A process has ended by itself.
    pub(crate) fn ended(&mut self, id: ProcessId, now: Instant) -> Option<Action> {
        let slot = self.remove(id)?;
        if self.backs_off && slot.served == 0 && slot.idle_since.is_none() && !slot.is_ending {
            self.failures += 1;
            if self.failures > FAILURES_FREE {
                let doublings = (self.failures - FAILURES_FREE - 1).min(8);
                let wait = BACKOFF_MIN * 2_u32.pow(doublings);
                self.not_before = Some(now + wait.min(BACKOFF_MAX));
            }
        }
        self.start_for_waiting(now)
    }

    /// A process asked for an idle lifetime of its own; `None` is without end.
    pub(crate) fn set_lifetime(&mut self, id: ProcessId, lifetime: Option<Duration>) {
        if let Some(slot) = self.slot(id) {
            slot.lifetime = Some(lifetime);
        }
    }

    /// The script's file is another one now: no process started from the old one takes a further request.
    pub(crate) fn renew(&mut self) -> Vec<Action> {
        self.failures = 0;
        self.not_before = None;
        for slot in &mut self.processes {
            slot.is_stale = true;
        }
        self.retire_idle(usize::MAX, Reason::ScriptChanged, |_| true)
    }

    /// The pool is not used any more: what is idle ends, and what is at work after its reply.
    pub(crate) fn close(&mut self) -> Vec<Action> {
        self.is_closed = true;
        self.retire_idle(usize::MAX, Reason::Shutdown, |_| true)
    }

    /// Time has passed: ends what was idle too long, starts what was put off.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<Action> {
        let (idle, min) = (self.settings.idle, self.settings.min);
        let idle_now = self.processes.iter().filter(|slot| slot.idle_since.is_some()).count();
        let spare = idle_now.saturating_sub(min);
        let mut actions = self.retire_idle(spare, Reason::Idle, |slot| {
            let limit = slot.lifetime.unwrap_or(Some(idle));
            match (limit, slot.idle_since) {
                (Some(limit), Some(since)) => now.duration_since(since) >= limit,
                _ => false,
            }
        });
        while let Some(action) = self.start_for_waiting(now) {
            actions.push(action);
        }
        actions
    }

    /// Nothing is kept and nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.queue.is_empty()
    }

    fn keep(&mut self, id: ProcessId, now: Instant) -> Release {
        let Some(worker) = self.slot(id).map(|slot| slot.worker) else {
            return Release::Retire(Reason::Shutdown);
        };
        if let Some(waiting) = self.next_waiting(worker, now)
            && let Some(slot) = self.slot(id)
        {
            slot.worker = waiting.worker;
            return Release::Hand(waiting.ticket);
        }
        if let Some(slot) = self.slot(id) {
            slot.idle_since = Some(now);
        }
        Release::Keep
    }

    /// The oldest waiter, unless it is young and one of the process's own worker waits too: moving a process between event
    /// loops costs more than the wait.
    fn next_waiting(&mut self, worker: usize, now: Instant) -> Option<Waiting> {
        let oldest = self.queue.front()?;
        if now.duration_since(oldest.since) < FAIRNESS
            && let Some(at) = self
                .queue
                .iter()
                .take(LOOK_AHEAD)
                .position(|waiting| waiting.worker == worker)
        {
            return self.queue.remove(at);
        }
        self.queue.pop_front()
    }

    fn start_for_waiting(&mut self, now: Instant) -> Option<Action> {
        if self.queue.is_empty() || self.processes.len() >= self.settings.max || self.backoff(now).is_some() {
            return None;
        }
        let waiting = self.queue.pop_front()?;
        Some(Action::Start(waiting.ticket, self.add(waiting.worker)))
    }

    fn retire_idle(&mut self, most: usize, reason: Reason, which: impl Fn(&Slot) -> bool) -> Vec<Action> {
        let mut retired = Vec::new();
        self.processes.retain(|slot| {
            let ends = slot.idle_since.is_some() && retired.len() < most && which(slot);
            if ends {
                retired.push(Action::Retire(slot.id, reason));
            }
            !ends
        });
        retired
    }

    fn backoff(&self, now: Instant) -> Option<Duration> {
        self.not_before
            .and_then(|time| time.checked_duration_since(now))
            .filter(|wait| !wait.is_zero())
    }

    fn youngest_idle(&mut self, which: impl Fn(&Slot) -> bool) -> Option<&mut Slot> {
        self.processes
            .iter_mut()
            .filter(|slot| slot.idle_since.is_some() && which(slot))
            .max_by_key(|slot| slot.idle_since)
    }

    fn add(&mut self, worker: usize) -> ProcessId {
        let id = ProcessId(self.name());
        self.processes.push(Slot {
            id,
            worker,
            idle_since: None,
            lifetime: None,
            served: 0,
            is_stale: false,
            is_ending: false,
        });
        id
    }

    fn slot(&mut self, id: ProcessId) -> Option<&mut Slot> {
        self.processes.iter_mut().find(|slot| slot.id == id)
    }

    fn remove(&mut self, id: ProcessId) -> Option<Slot> {
        let at = self.processes.iter().position(|slot| slot.id == id)?;
        Some(self.processes.remove(at))
    }

    fn name(&mut self) -> u64 {
        self.named += 1;
        self.named
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
