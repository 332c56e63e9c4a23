//! The pool of one script as pure state: events in, decisions out, the time as an argument.
//!
//! Here: which request gets which process, waits or is refused, and which process ends and why. Not here: processes, locks and
//! timers (`shared_pool`), so that a simulation can test all of this.
//!
//! ```text
//!             request: start                released
//!   (nothing) ─────────────▶ busy ────────────────────────▶ idle
//!                 ▲            ▲  │ given to a waiter        │ idle too long, script changed,
//!                 │            └──┴──────── request ─────────┤ requests served
//!                 └── ended, while a request waits ◀─────────┴──▶ (nothing)
//! ```

mod backoff;
mod queue;
mod reason;
mod slot;
mod view;

use std::time::{Duration, Instant};

use sluice_settings::PoolSettings;

use crate::recent_scripts::{RecentScripts, ScriptId};
use backoff::Backoff;
pub(crate) use queue::Ticket;
use queue::{Queue, Waiting};
pub(crate) use reason::{Cause, Departure, Reason};
pub(crate) use slot::ProcessId;
use slot::Slot;
pub(crate) use view::{Career, PoolView, SlotView};

/// A process of another worker is used instead of starting a new one, if it has been idle for this long. Its own worker needs
/// it if it was busy more recently: under load every worker soon has processes of its own, and none moves.
const SPARE_AFTER: Duration = Duration::from_millis(10);

/// Asked just before a process would be started: whether there is room for it in the bounds that pools share. If so, the room is
/// taken.
pub(crate) type Room<'a> = &'a mut dyn FnMut() -> bool;

/// Whether requests for other scripts wait for room in the bounds that pools share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// None waits.
    None,
    /// Some wait: they get a process for which none of its own script waits.
    Young,
    /// Some have waited for long: they get the next process.
    Old,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// This idle process.
    Use(ProcessId),
    /// Permission to start a process with this id.
    Start(ProcessId),
    /// An entry in the queue.
    Wait(Ticket),
    /// Neither a process nor an entry in the queue.
    Refuse(Refusal),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The queue is full.
    QueueFull,
    /// The last processes ended before their first reply; the next start is after this delay.
    BackOff(Duration),
}

/// The fate of a process whose exchange is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// It becomes idle.
    Keep,
    /// It serves this waiter.
    Hand(Ticket),
    /// It is ended.
    Retire(Reason),
}

/// A consequence of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// End this idle process.
    Retire(ProcessId, Reason),
    /// This waiter may start a process with this id.
    Start(Ticket, ProcessId),
}

/// The processes of one script and the requests that wait for them.
#[derive(Debug)]
pub(crate) struct Pool {
    settings: PoolSettings,
    /// Whether processes that end before their first reply delay the next start.
    backs_off: bool,
    processes: Vec<Slot>,
    queue: Queue,
    last_number: u64,
    backoff: Backoff,
    last_departure: Option<Departure>,
    is_closed: bool,
}

impl Pool {
    /// An empty pool.
    pub(crate) fn new(settings: PoolSettings) -> Pool {
        Pool {
            settings,
            backs_off: false,
            processes: Vec::new(),
            queue: Queue::default(),
            last_number: 0,
            backoff: Backoff::default(),
            last_departure: None,
            is_closed: false,
        }
    }

    /// Processes that end before their first reply delay the next start.
    pub(crate) fn with_backoff(self) -> Pool {
        Pool {
            backs_off: true,
            ..self
        }
    }

    /// A request on `worker` needs a process. In this order: an idle one of its own worker, one that another worker can spare, a
    /// new one, any idle one, an entry in the queue. `script` is what an engine is to run: of engines, other workers can spare every idle
    /// one, and one of the first two that has run it comes before both.
    pub(crate) fn request(
        &mut self,
        worker: usize,
        script: Option<ScriptId>,
        now: Instant,
        room: Room<'_>,
    ) -> Decision {
        let spare_since = now.checked_sub(SPARE_AFTER);
        let is_own = |slot: &Slot| slot.worker == worker;
        // The start of an engine costs more than its move from another worker, which may want it back soon.
        let is_spare = |slot: &Slot| script.is_some() || slot.idle_since <= spare_since;
        let has_run = |slot: &Slot| slot.recent.has(script);
        if script.is_some()
            && let Some(id) = self
                .lend_youngest(worker, script, now, |slot| is_own(slot) && has_run(slot))
                .or_else(|| self.lend_youngest(worker, script, now, |slot| is_spare(slot) && has_run(slot)))
        {
            return Decision::Use(id);
        }
        if let Some(id) = self
            .lend_youngest(worker, script, now, is_own)
            .or_else(|| self.lend_youngest(worker, script, now, is_spare))
        {
            return Decision::Use(id);
        }
        if self.processes.len() < self.settings.max {
            if let Some(wait) = self.backoff.wait(now) {
                return Decision::Refuse(Refusal::BackOff(wait));
            }
            if room() {
                let cause = match self.processes.is_empty() {
                    true => Cause::First,
                    false => Cause::AllBusy,
                };
                return Decision::Start(self.add(worker, script, cause, now));
            }
        }
        if let Some(id) = self.lend_youngest(worker, script, now, |_| true) {
            return Decision::Use(id);
        }
        if self.queue.len() >= self.settings.queue_max {
            return Decision::Refuse(Refusal::QueueFull);
        }
        let ticket = Ticket(self.next_number());
        self.queue.push(Waiting {
            ticket,
            worker,
            script,
            since: now,
        });
        Decision::Wait(ticket)
    }

    /// Why a request would be refused now; `None` if it would get a process or wait. Nothing changes.
    pub(crate) fn refusal(&self, now: Instant) -> Option<Refusal> {
        if self.processes.iter().any(|slot| slot.idle_since.is_some()) {
            return None;
        }
        if self.processes.len() < self.settings.max {
            return self.backoff.wait(now).map(Refusal::BackOff);
        }
        (self.queue.len() >= self.settings.queue_max).then_some(Refusal::QueueFull)
    }

    /// Processes, of any state.
    pub(crate) fn processes(&self) -> usize {
        self.processes.len()
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// A waiting request has gone.
    pub(crate) fn cancel(&mut self, ticket: Ticket) {
        self.queue.cancel(ticket);
    }

    /// A process has replied completely and could serve again. It is ended if others have a claim to its room, unless that leaves
    /// fewer than `min`.
    pub(crate) fn release(
        &mut self,
        id: ProcessId,
        now: Instant,
        claim: Claim,
        room: Room<'_>,
    ) -> (Release, Option<Action>) {
        self.excuse();
        let requests_max = self.settings.requests_max.unwrap_or(u64::MAX);
        let is_closed = self.is_closed;
        let gives_room = self.processes.len() > self.settings.min
            && (claim == Claim::Old || claim == Claim::Young && self.queue.is_empty());
        let Some(slot) = self.slot(id) else {
            return (Release::Retire(Reason::Shutdown), None);
        };
        slot.served += 1;
        let reason = match slot {
            _ if is_closed => Some(Reason::Shutdown),
            slot if slot.stale.is_some() => slot.stale,
            slot if slot.served >= requests_max => Some(Reason::Requests),
            _ if gives_room => Some(Reason::RoomForOthers),
            _ => None,
        };
        if let Some(reason) = reason {
            self.remove(id);
            self.last_departure = Some(Departure::Retired(reason));
            return (Release::Retire(reason), self.start_for_waiting(now, room));
        }
        (self.keep(id, now), None)
    }

    /// A process was leased and not used.
    pub(crate) fn give_back(&mut self, id: ProcessId, now: Instant) -> Release {
        if self.is_closed && self.remove(id).is_some() {
            return Release::Retire(Reason::Shutdown);
        }
        self.keep(id, now)
    }

    /// A process was never started.
    pub(crate) fn not_started(&mut self, id: ProcessId, now: Instant, room: Room<'_>) -> Option<Action> {
        self.remove(id)?;
        self.start_for_waiting(now, room)
    }

    /// A process is about to be stopped: it gets no further request, and its end is not a failure.
    pub(crate) fn ending(&mut self, id: ProcessId) {
        if let Some(slot) = self.slot(id) {
            slot.is_ending = true;
            slot.idle_since = None;
        }
    }

    /// A process has ended by itself.
    pub(crate) fn ended(&mut self, id: ProcessId, now: Instant, room: Room<'_>) -> Option<Action> {
        let slot = self.remove(id)?;
        self.last_departure = Some(Departure::Ended);
        if self.backs_off && slot.served == 0 && slot.idle_since.is_none() && !slot.is_ending {
            self.backoff.fail(now);
        }
        self.start_for_waiting(now, room)
    }

    /// The last processes did not fail by themselves: the next start is not delayed.
    pub(crate) fn excuse(&mut self) {
        self.backoff.excuse();
    }

    /// Sets a process's own idle lifetime; `None` is without limit.
    pub(crate) fn set_lifetime(&mut self, id: ProcessId, lifetime: Option<Duration>) {
        if let Some(slot) = self.slot(id) {
            slot.lifetime = Some(lifetime);
        }
    }

    /// The script's file, or one that it has loaded, has changed: processes that were started before get no further requests.
    pub(crate) fn replace_all(&mut self, reason: Reason) -> Vec<Action> {
        self.excuse();
        for slot in &mut self.processes {
            slot.stale = Some(reason);
        }
        self.retire_idle(usize::MAX, reason, |_| true)
    }

    /// The pool is no longer used: idle processes end now, busy ones after their reply.
    pub(crate) fn close(&mut self) -> Vec<Action> {
        self.is_closed = true;
        self.retire_idle(usize::MAX, Reason::Shutdown, |_| true)
    }

    /// Time has passed: ends processes that were idle for too long, and starts those that were delayed.
    pub(crate) fn tick(&mut self, now: Instant, room: Room<'_>) -> Vec<Action> {
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
        while let Some(action) = self.start_for_waiting(now, room) {
            actions.push(action);
        }
        actions
    }

    /// Since when its oldest idle process has been idle. `None` if there are no more idle ones than `min`.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let idle = || self.processes.iter().filter_map(|slot| slot.idle_since);
        idle().min().filter(|_| idle().count() > self.settings.min)
    }

    /// Ends that process, to make room for others.
    pub(crate) fn end_idle(&mut self) -> Option<Action> {
        let oldest = self.idle_since()?;
        let actions = self.retire_idle(1, Reason::RoomForOthers, |slot| slot.idle_since == Some(oldest));
        actions.into_iter().next()
    }

    /// Whether there is no process and no waiter.
    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.queue.is_empty()
    }

    fn keep(&mut self, id: ProcessId, now: Instant) -> Release {
        let Some(worker) = self.slot(id).map(|slot| slot.worker) else {
            return Release::Retire(Reason::Shutdown);
        };
        if let Some(waiting) = self.queue.take_next(worker, now)
            && let Some(slot) = self.slot(id)
        {
            slot.lend(waiting.worker, waiting.script, now);
            return Release::Hand(waiting.ticket);
        }
        if let Some(slot) = self.slot(id) {
            slot.idle_since = Some(now);
        }
        Release::Keep
    }

    /// Starts a process for the oldest waiter, if there is one and a process may be started.
    pub(crate) fn start_for_waiting(&mut self, now: Instant, room: Room<'_>) -> Option<Action> {
        let is_full = self.processes.len() >= self.settings.max;
        if self.queue.is_empty() || is_full || self.backoff.wait(now).is_some() || !room() {
            return None;
        }
        let waiting = self.queue.take_oldest()?;
        let id = self.add(waiting.worker, waiting.script, Cause::Waited, now);
        Some(Action::Start(waiting.ticket, id))
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
        if !retired.is_empty() {
            self.last_departure = Some(Departure::Retired(reason));
        }
        retired
    }

    /// Lends the idle process that was busy last, of those that are meant.
    fn lend_youngest(
        &mut self,
        worker: usize,
        script: Option<ScriptId>,
        now: Instant,
        which: impl Fn(&Slot) -> bool,
    ) -> Option<ProcessId> {
        let idle = self.processes.iter_mut();
        let idle = idle.filter(|slot| slot.idle_since.is_some() && which(slot));
        let youngest = idle.max_by_key(|slot| slot.idle_since)?;
        Some(youngest.lend(worker, script, now))
    }

    fn add(&mut self, worker: usize, script: Option<ScriptId>, cause: Cause, now: Instant) -> ProcessId {
        let id = ProcessId(self.next_number());
        let mut recent = RecentScripts::default();
        recent.add(script);
        self.processes.push(Slot {
            id,
            worker,
            idle_since: None,
            was_idle_since: None,
            busy_since: now,
            started: now,
            cause,
            lifetime: None,
            served: 0,
            recent,
            stale: None,
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

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
