//! The pool of one script as pure state: events in, decisions out, the time as an argument.
//!
//! ```text
//!             request: start                released
//!   (nothing) ─────────────▶ busy ────────────────────────▶ idle ◀── ready ── being started in advance ◀── min, replacement
//!                 ▲            ▲  │ given to a waiter        │ idle too long, script changed,
//!                 │            └──┴──────── request ─────────┤ its successor is ready
//!                 └── ended, while a request waits ◀─────────┴──▶ (nothing)
//! ```
//! A process that is *due* (requests, lifetime, memory) serves on until its successor is ready. Only for the successor there may be one
//! process more than `max`; there are never more busy ones. A busy process gets further requests up to `at_once`; where it would be retired,
//! it gets none any more, and leaves with its last one.

mod advance;
mod backoff;
mod decision;
mod lending;
mod queue;
mod slot;
mod view;

use std::time::{Duration, Instant};

use sluice_settings::PoolSettings;

use crate::pool::{ClientId, RecentScripts};
use crate::process::Reason;
pub(crate) use advance::{TimeUse, Trial};
use backoff::Backoff;
pub(crate) use decision::{Action, Cause, Claim, Decision, Departure, Idle, Need, Refusal, Release, Room};
pub(crate) use queue::Ticket;
use queue::{Queue, Waiting};
use slot::{Advance, Slot};
pub(crate) use slot::{Applicant, ProcessId};
pub(crate) use view::{Career, PoolView, SlotView};

/// A process of another worker is used instead of starting a new one, if it has been idle for this long. Its own worker needs
/// it if it was busy more recently: under load every worker soon has processes of its own, and none moves.
const SPARE_AFTER: Duration = Duration::from_millis(10);

/// The processes of one script and the requests that wait for them.
#[derive(Debug)]
pub(crate) struct Pool {
    settings: PoolSettings,
    /// Requests that a process serves at once.
    at_once: usize,
    /// Whether processes that end before their first reply delay the next start.
    backs_off: bool,
    prepares: bool,
    /// The script is not there: no process is started in advance.
    is_gone: bool,
    /// For the jitter of limits.
    random: u64,
    processes: Vec<Slot>,
    queue: Queue,
    last_number: u64,
    backoff: Backoff,
    /// The delay of starts in advance, after failures of any start.
    backoff_in_advance: Backoff,
    last_departure: Option<Departure>,
    is_closed: bool,
}

impl Pool {
    /// An empty pool, whose processes serve so many requests at once.
    pub(crate) fn new(settings: PoolSettings, at_once: usize) -> Pool {
        Pool {
            settings,
            at_once,
            backs_off: false,
            prepares: false,
            is_gone: false,
            random: 0,
            processes: Vec::new(),
            queue: Queue::default(),
            last_number: 0,
            backoff: Backoff::default(),
            backoff_in_advance: Backoff::default(),
            last_departure: None,
            is_closed: false,
        }
    }

    /// Processes that end before their first reply delay the next start.
    pub(crate) fn with_backoff(self) -> Pool {
        Pool { backs_off: true, ..self }
    }

    /// A request needs a process. In this order: an idle one of its own worker, one that another worker can spare, a busy one that serves
    /// several at once, a new one, any idle one, an entry in the queue. Of engines, other workers can spare every idle one, and one of the first two that has run
    /// the script comes before both.
    pub(crate) fn request(&mut self, applicant: Applicant, now: Instant, room: Room<'_>) -> Decision {
        let Applicant { worker, script, .. } = applicant;
        let spare_since = now.checked_sub(SPARE_AFTER);
        let is_own = |slot: &Slot| slot.worker == worker;
        // The start of an engine costs more than its move from another worker, which may want it back soon.
        let is_spare = |slot: &Slot| script.is_some() || slot.idle_since <= spare_since;
        let has_run = |slot: &Slot| slot.recent.has(script);
        if script.is_some()
            && let Some(id) = self
                .lend_youngest(applicant, now, |slot| is_own(slot) && has_run(slot))
                .or_else(|| self.lend_youngest(applicant, now, |slot| is_spare(slot) && has_run(slot)))
        {
            return Decision::Use(id);
        }
        if let Some(id) = self
            .lend_youngest(applicant, now, is_own)
            .or_else(|| self.lend_youngest(applicant, now, is_spare))
        {
            return Decision::Use(id);
        }
        if let Some(id) = self.share(applicant, now) {
            return Decision::Use(id);
        }
        if self.processes.len() < self.settings.max {
            if let Some(wait) = self.backoff.wait(now) {
                return Decision::Refuse(Refusal::BackOff(wait));
            }
            let (need, cause) = match self.processes.is_empty() {
                true => (Need::First, Cause::First),
                false => (Need::Further, Cause::AllBusy),
            };
            if room(need) {
                return Decision::Start(self.add(applicant, cause, now));
            }
        }
        if let Some(id) = self.lend_youngest(applicant, now, |_| true) {
            return Decision::Use(id);
        }
        if let Some(refusal) = self.full_queue(applicant) {
            return Decision::Refuse(refusal);
        }
        let ticket = Ticket(self.next_number());
        self.queue.push(Waiting { ticket, applicant, since: now });
        Decision::Wait(ticket)
    }

    /// Why a request cannot wait.
    fn full_queue(&self, applicant: Applicant) -> Option<Refusal> {
        let queue_max = self.settings.queue_max;
        if self.queue.len() >= queue_max {
            return Some(Refusal::QueueFull);
        }
        let (client, client_max) = (applicant.client?, self.settings.client_requests_max?);
        let own = self.busy_for(client) + self.queue.of_client(client);
        (own >= client_max && 2 * self.queue.len() >= queue_max).then_some(Refusal::ClientShare)
    }

    /// Why a request would be refused now; `None` if it would get a process or wait. Nothing changes.
    pub(crate) fn refusal(&self, now: Instant) -> Option<Refusal> {
        let may_serve = |slot: &Slot| slot.idle_since.is_some() || slot.has_room(self.at_once);
        if self.processes.iter().any(may_serve) {
            return None;
        }
        if self.processes.len() < self.settings.max {
            return self.backoff.wait(now).map(Refusal::BackOff);
        }
        (self.queue.len() >= self.settings.queue_max).then_some(Refusal::QueueFull)
    }

    pub(crate) fn processes(&self) -> usize {
        self.processes.len()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn cancel(&mut self, ticket: Ticket) {
        self.queue.cancel(ticket);
    }

    /// A process has replied completely and could serve again. `memory_bytes` is what it uses, if that matters. It is ended if others
    /// have a claim to its room, unless that leaves fewer than `min`; its successor is started if it is due.
    pub(crate) fn release(
        &mut self,
        id: ProcessId,
        memory_bytes: Option<u64>,
        now: Instant,
        claim: Claim,
        room: Room<'_>,
    ) -> (Release, Vec<Action>) {
        self.excuse();
        let is_closed = self.is_closed;
        let uses_too_much_memory =
            matches!((memory_bytes, self.settings.memory_bytes_max), (Some(bytes), Some(max)) if bytes > max);
        let gives_room = self.processes.len() > self.settings.min
            && (claim == Claim::Old || claim == Claim::Young && self.queue.is_empty());
        let Some(slot) = self.slot(id) else {
            return (Release::Retire(Reason::Shutdown), Vec::new());
        };
        slot.in_use = slot.in_use.saturating_sub(1);
        if slot.is_ending {
            // Another of its requests has failed, and it is being stopped.
            return (Release::Retire(Reason::Shutdown), Vec::new());
        }
        let is_shared = slot.in_use > 0;
        slot.served += 1;
        let is_proof = slot.served == 1 && slot.advance != Advance::No;
        slot.note_due(now, uses_too_much_memory);
        let is_due = slot.due.is_some();
        let stale = slot.stale;
        if is_proof {
            self.backoff_in_advance.excuse();
        }
        let reason = match stale {
            _ if is_closed => Some(Reason::Shutdown),
            Some(reason) => Some(reason),
            None if gives_room => Some(Reason::RoomForOthers),
            None => None,
        };
        let mut actions = Vec::new();
        let reason = match reason {
            None if is_due => self.replace(id, now, room, &mut actions),
            reason => reason,
        };
        match reason {
            Some(reason) if is_shared => {
                if let Some(slot) = self.slot(id) {
                    slot.stale = Some(reason);
                }
                (Release::Keep, actions)
            }
            Some(reason) => {
                self.remove(id);
                self.last_departure = Some(Departure::Retired(reason));
                self.fill(now, room, &mut actions);
                (Release::Retire(reason), actions)
            }
            None => {
                let release = self.keep(id, now);
                if self.at_once > 1 {
                    // After its first reply it can get more than one.
                    actions.extend(std::iter::from_fn(|| self.hand_idle(now)));
                }
                (release, actions)
            }
        }
    }

    /// A process was leased and not used.
    pub(crate) fn give_back(&mut self, id: ProcessId, now: Instant, room: Room<'_>) -> (Release, Vec<Action>) {
        let mut actions = Vec::new();
        let Some(slot) = self.slot(id) else {
            return (Release::Retire(Reason::Shutdown), actions);
        };
        slot.in_use = slot.in_use.saturating_sub(1);
        let (is_shared, stale) = (slot.in_use > 0, slot.stale);
        let reason = stale.or(self.is_closed.then_some(Reason::Shutdown));
        if let Some(reason) = reason.filter(|_| !is_shared) {
            self.remove(id);
            self.fill(now, room, &mut actions);
            return (Release::Retire(reason), actions);
        }
        (self.keep(id, now), actions)
    }

    pub(crate) fn not_started(&mut self, id: ProcessId, now: Instant, room: Room<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(slot) = self.remove(id) {
            // Whoever waits for another gets the fault, and the next request tries again.
            if slot.advance == Advance::Starting {
                self.fail_in_advance(now);
            }
            self.fill(now, room, &mut actions);
        }
        actions
    }

    /// A process is about to be stopped: it gets no further request, and its end is not a failure.
    pub(crate) fn ending(&mut self, id: ProcessId) {
        if let Some(slot) = self.slot(id) {
            slot.is_ending = true;
            slot.idle_since = None;
        }
    }

    pub(crate) fn ended(&mut self, id: ProcessId, now: Instant, room: Room<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(slot) = self.remove(id) {
            self.last_departure = Some(Departure::Ended);
            match slot.has_failed(now) {
                true if slot.advance == Advance::No => self.fail(now),
                true => self.fail_in_advance(now),
                false => {}
            }
            self.fill(now, room, &mut actions);
        }
        actions
    }

    /// Whether the end of this process, now, is the failure of a start.
    pub(crate) fn would_fail(&mut self, id: ProcessId, now: Instant) -> bool {
        self.slot(id).is_some_and(|slot| slot.has_failed(now))
    }

    /// A process that was started for a request has failed.
    fn fail(&mut self, now: Instant) {
        if self.backs_off {
            self.backoff.fail(now);
            self.backoff_in_advance.fail(now);
        }
    }

    /// A process that was started in advance has failed, which says nothing about requests: PROCTOR may have caused it.
    fn fail_in_advance(&mut self, now: Instant) {
        if self.backs_off {
            self.backoff_in_advance.fail(now);
        }
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
        self.backoff_in_advance.excuse();
        self.is_gone = false;
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

    /// Time has passed: ends processes that were idle for too long, replaces those that are due, and starts delayed and missing ones.
    pub(crate) fn tick(&mut self, now: Instant, room: Room<'_>) -> Vec<Action> {
        let (idle, min) = (self.settings.idle, self.settings.min);
        let idle_now = self.processes.iter().filter(|slot| slot.idle_since.is_some()).count();
        let spare = idle_now.saturating_sub(min);
        let mut actions = self.retire_idle(spare, Reason::Idle, |slot| {
            let limit = slot.lifetime.unwrap_or(Some(idle));
            match (limit, slot.idle_since) {
                (Some(limit), Some(since)) => now.duration_since(slot.unused_since.unwrap_or(since)) >= limit,
                _ => false,
            }
        });
        self.replace_due(now, room, &mut actions);
        while let Some(action) = self.start_for_waiting(now, room) {
            actions.push(action);
        }
        self.fill(now, room, &mut actions);
        actions
    }

    /// The time since which its oldest idle process has been idle. `None` if there is no such process.
    pub(crate) fn idle_since(&self, which: Idle) -> Option<Instant> {
        let idle = || self.processes.iter().filter_map(|slot| slot.idle_since);
        let kept = match which {
            Idle::Spare => self.settings.min,
            Idle::Any => 0,
        };
        idle().min().filter(|_| idle().count() > kept)
    }

    pub(crate) fn end_idle(&mut self, which: Idle, reason: Reason) -> Option<Action> {
        let oldest = self.idle_since(which)?;
        let actions = self.retire_idle(1, reason, |slot| slot.idle_since == Some(oldest));
        actions.into_iter().next()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.queue.is_empty()
    }

    fn keep(&mut self, id: ProcessId, now: Instant) -> Release {
        let is_closed = self.is_closed;
        let Some(slot) = self.slot(id) else {
            return Release::Retire(Reason::Shutdown);
        };
        // One that others use may be on its way out.
        let (worker, gets_more) = (slot.worker, slot.stale.is_none() && !slot.is_ending && !is_closed);
        // Of more processes than `max` one is a successor, which waits until one of the others is free.
        let may_serve = self.processes.len() <= self.settings.max || self.busy() <= self.settings.max;
        if gets_more
            && may_serve
            && let Some(waiting) = self.take_waiting(worker, now)
            && let Some(slot) = self.slot(id)
        {
            slot.lend(waiting.applicant, now);
            return Release::Hand(waiting.ticket);
        }
        if let Some(slot) = self.slot(id)
            && slot.in_use == 0
        {
            slot.idle_since = Some(now);
            slot.client = None;
        }
        Release::Keep
    }

    fn take_waiting(&mut self, worker: usize, now: Instant) -> Option<Waiting> {
        if self.queue.is_empty() {
            return None;
        }
        let crowding = self.crowding();
        self.queue.take_next(worker, now, &crowding)
    }

    /// The clients with so many processes that their further requests wait behind those of others.
    fn crowding(&self) -> Vec<ClientId> {
        let Some(client_max) = self.settings.client_requests_max else {
            return Vec::new();
        };
        let mut clients: Vec<_> = self.processes.iter().filter_map(|slot| slot.client).collect();
        clients.retain(|client| self.busy_for(*client) >= client_max);
        clients
    }

    fn busy_for(&self, client: ClientId) -> usize {
        self.processes.iter().filter(|slot| slot.client == Some(client)).count()
    }

    /// Processes that work for requests, or end.
    fn busy(&self) -> usize {
        self.processes.iter().filter(|slot| slot.is_busy()).count()
    }

    /// Fills the place of a process that has left: waiters get idle processes, or start one, and processes are started up to `min`.
    fn fill(&mut self, now: Instant, room: Room<'_>, actions: &mut Vec<Action>) {
        while let Some(action) = self.hand_idle(now) {
            actions.push(action);
        }
        actions.extend(self.start_for_waiting(now, room));
        self.start_missing(now, room, actions);
    }

    /// Starts a process for the oldest waiter, if there is one and a process may be started.
    pub(crate) fn start_for_waiting(&mut self, now: Instant, room: Room<'_>) -> Option<Action> {
        let is_full = self.processes.len() >= self.settings.max;
        if self.queue.is_empty() || is_full || self.backoff.wait(now).is_some() {
            return None;
        }
        let need = match self.processes.is_empty() {
            true => Need::First,
            false => Need::Further,
        };
        if !room(need) {
            return None;
        }
        let crowding = self.crowding();
        let waiting = self.queue.take_oldest(&crowding)?;
        let id = self.add(waiting.applicant, Cause::Waited, now);
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

    fn add(&mut self, applicant: Applicant, cause: Cause, now: Instant) -> ProcessId {
        let id = ProcessId(self.next_number());
        let mut recent = RecentScripts::default();
        recent.add(applicant.script);
        let (requests_max, ends_at) = self.limits_of_next(now);
        self.processes.push(Slot {
            id,
            worker: applicant.worker,
            in_use: 1,
            idle_since: None,
            was_idle_since: None,
            unused_since: None,
            busy_since: now,
            started: now,
            cause,
            client: applicant.client,
            lifetime: None,
            served: 0,
            requests_max,
            ends_at,
            recent,
            due: None,
            due_since: None,
            successor: None,
            advance: Advance::No,
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
        let removed = self.processes.remove(at);
        // A successor that is not there any more replaces nothing.
        for slot in &mut self.processes {
            slot.successor = slot.successor.filter(|successor| *successor != id);
        }
        Some(removed)
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

#[cfg(test)]
#[path = "pure_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "pure_simulation_tests.rs"]
mod simulation;

#[cfg(test)]
mod at_once_tests;
