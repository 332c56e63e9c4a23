//! Processes that are started in advance: so many that there are `min`, and the successors of those that are due.
//!
//! A process is due when it has served its number of requests, has run for its lifetime, or uses too much memory. Its limits are up to a
//! tenth lower than those of the pool, by chance, so that processes that were started together are not replaced together. Without room for
//! a successor in the bounds that pools share, a process that is due is ended first; and so is one whose successors have failed for long.

use std::time::{Duration, Instant};

use super::slot::{Advance, Slot};
use super::{Action, Applicant, Cause, Departure, Need, Pool, ProcessId, Release, Room};
use crate::process::Reason;

/// The part of a limit by which that of one process may be lower.
const JITTER: u64 = 10;

/// The processor time that a process has used, and that after which it is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeUse {
    pub used: Duration,
    pub max: Duration,
}

/// Whether a process has shown that it works before it gets the first request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trial {
    /// The process has answered a request of the server (PROCTOR).
    Passed,
    /// The process was only started.
    None,
}

impl Pool {
    /// Processes are started in advance. `random` chooses the limits of each process.
    pub(crate) fn with_preparation(self, random: u64) -> Pool {
        Pool { prepares: true, random, ..self }
    }

    /// Whether it has processes even if there is no request.
    pub(crate) fn keeps_processes(&self) -> bool {
        self.prepares && self.settings.min > 0 && !self.is_gone && !self.is_closed
    }

    /// The script is not there: no process is started in advance until it is there again.
    pub(crate) fn set_gone(&mut self) {
        self.is_gone = true;
    }

    pub(crate) fn set_there(&mut self) {
        self.is_gone = false;
    }

    /// A process is about to be released that has used so much of the processor time after which the kernel ends it. It is due after half of
    /// it; one that might not finish the next request gets none.
    pub(crate) fn note_time(&mut self, id: ProcessId, time: TimeUse, now: Instant) {
        let Some(slot) = self.slot(id) else { return };
        let requests = u32::try_from(slot.served + 1).unwrap_or(u32::MAX);
        let next = time.used / requests * 2;
        if time.used >= time.max * 3 / 4 || time.used + next >= time.max {
            slot.stale = slot.stale.or(Some(Reason::ProcessorTime));
        } else if time.used >= time.max / 2 && slot.due.is_none() {
            (slot.due, slot.due_since) = (Some(Reason::ProcessorTime), Some(now));
        }
    }

    /// A process that was started in advance can serve, on this worker. What becomes of it.
    pub(crate) fn ready(
        &mut self,
        id: ProcessId,
        worker: usize,
        trial: Trial,
        now: Instant,
        room: Room<'_>,
    ) -> (Release, Vec<Action>) {
        let is_closed = self.is_closed;
        let Some(slot) = self.slot(id) else {
            return (Release::Retire(Reason::Shutdown), Vec::new());
        };
        slot.worker = worker;
        slot.advance = match trial {
            Trial::Passed => Advance::No,
            Trial::None => Advance::Ready,
        };
        let reason = slot.stale.or(is_closed.then_some(Reason::Shutdown));
        if trial == Trial::Passed {
            self.backoff_in_advance.excuse();
        }
        let mut actions = Vec::new();
        if let Some(reason) = reason {
            self.remove(id);
            self.fill(now, room, &mut actions);
            return (Release::Retire(reason), actions);
        }
        actions.extend(self.retire_predecessor(id));
        let release = self.keep(id, now);
        // After a failure one is started after the other.
        self.start_missing(now, room, &mut actions);
        (release, actions)
    }

    /// A process that was started in advance has failed before it could serve, and is about to be stopped.
    pub(crate) fn failed(&mut self, id: ProcessId, now: Instant) {
        self.ending(id);
        self.fail_in_advance(now);
    }

    /// The process that this one replaces gets no further request.
    fn retire_predecessor(&mut self, id: ProcessId) -> Option<Action> {
        let old = self.processes.iter_mut().find(|slot| slot.successor == Some(id))?;
        old.successor = None;
        let (old_id, reason) = (old.id, old.due.unwrap_or(Reason::Requests));
        let Some(since) = old.idle_since else {
            old.stale = old.stale.or(Some(reason));
            return None;
        };
        let since = old.unused_since.unwrap_or(since);
        self.remove(old_id);
        self.last_departure = Some(Departure::Retired(reason));
        if let Some(slot) = self.slot(id) {
            slot.unused_since = Some(since);
        }
        Some(Action::Retire(old_id, reason))
    }

    /// Starts the successor of a process that is due, if that is possible now. The reason to end the process first, if it can have none.
    pub(super) fn replace(
        &mut self,
        id: ProcessId,
        now: Instant,
        room: Room<'_>,
        actions: &mut Vec<Action>,
    ) -> Option<Reason> {
        let (is_full, is_delayed) = (
            self.processes.len() > self.settings.max,
            self.backoff_in_advance.wait_in_advance(now).is_some(),
        );
        let prepares = self.prepares;
        let slot = self.slot(id)?;
        let reason = slot.due?;
        if slot.is_overdue(now) {
            return Some(reason);
        }
        if prepares && (slot.successor.is_some() || is_full || is_delayed) {
            return None;
        }
        let worker = slot.worker;
        if !prepares || !room(Need::Advance) {
            return Some(reason);
        }
        let successor = self.prepare(worker, Cause::Replacement(reason), now);
        self.slot(id)?.successor = Some(successor);
        actions.push(Action::Prepare(successor));
        None
    }

    /// Replaces the processes that are due, as far as that is possible now. Busy ones that can have no successor end after their reply.
    pub(super) fn replace_due(&mut self, now: Instant, room: Room<'_>, actions: &mut Vec<Action>) {
        for slot in &mut self.processes {
            if slot.is_ending || slot.advance == Advance::Starting {
                continue;
            }
            slot.note_due(now, false);
        }
        let due = self.processes.iter();
        let due = due.filter(|slot| slot.due.is_some() && slot.stale.is_none() && !slot.is_ending);
        let due: Vec<_> = due.map(|slot| (slot.id, slot.idle_since.is_some())).collect();
        for (id, is_idle) in due {
            if !is_idle && !self.prepares {
                continue;
            }
            if let Some(reason) = self.replace(id, now, room, actions).filter(|_| is_idle) {
                self.remove(id);
                self.last_departure = Some(Departure::Retired(reason));
                actions.push(Action::Retire(id, reason));
            }
        }
    }

    /// Starts the processes that `min` lacks, as far as that is possible now.
    pub(super) fn start_missing(&mut self, now: Instant, room: Room<'_>, actions: &mut Vec<Action>) {
        if !self.keeps_processes() {
            return;
        }
        let count = self.processes.iter().filter(|slot| slot.counts()).count();
        for _ in count..self.settings.min {
            let is_full = self.processes.len() >= self.settings.max;
            let is_delayed = self.backoff_in_advance.wait_in_advance(now).is_some();
            // After a failure one process at a time shows whether the script works again.
            let is_starting = |slot: &Slot| slot.advance == Advance::Starting && !slot.is_ending;
            let is_probed = self.backoff_in_advance.has_failed() && self.processes.iter().any(is_starting);
            if is_full || is_delayed || is_probed || !room(Need::Advance) {
                return;
            }
            // Of the other workers, each takes one that is idle.
            let id = self.prepare(0, Cause::Min, now);
            actions.push(Action::Prepare(id));
        }
    }

    fn prepare(&mut self, worker: usize, cause: Cause, now: Instant) -> ProcessId {
        let applicant = Applicant { worker, ..Applicant::default() };
        let id = self.add(applicant, cause, now);
        if let Some(slot) = self.slot(id) {
            slot.advance = Advance::Starting;
            slot.in_use = 0;
        }
        id
    }

    /// The number of requests and the end of the lifetime of the next process.
    pub(super) fn limits_of_next(&mut self, now: Instant) -> (u64, Option<Instant>) {
        let requests = self.settings.requests_max;
        let requests = requests.map_or(u64::MAX, |most| most - self.random_up_to(most / JITTER));
        let ends_at = self.settings.lifetime_max.and_then(|lifetime| {
            let most = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX) / JITTER;
            now.checked_add(lifetime - Duration::from_millis(self.random_up_to(most)))
        });
        (requests, ends_at)
    }

    /// A number from 0 to `most`, by SplitMix64.
    fn random_up_to(&mut self, most: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most.saturating_add(1)
    }
}
