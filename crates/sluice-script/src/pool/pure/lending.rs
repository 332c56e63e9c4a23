//! Lending a process to a request: which one, of those that can serve it.

use std::time::Instant;

use super::slot::{Applicant, ProcessId, Slot};
use super::{Action, Pool};

impl Pool {
    /// Whether an idle process may get a request.
    pub(super) fn may_lend(&self) -> bool {
        self.processes.len() <= self.settings.max || self.busy() < self.settings.max
    }

    /// Lends the idle process that was busy last, of those that are meant.
    pub(super) fn lend_youngest(
        &mut self,
        applicant: Applicant,
        now: Instant,
        which: impl Fn(&Slot) -> bool,
    ) -> Option<ProcessId> {
        if !self.may_lend() {
            return None;
        }
        let idle = self.processes.iter_mut();
        let idle = idle.filter(|slot| slot.idle_since.is_some() && which(slot));
        let youngest = idle.max_by_key(|slot| slot.idle_since)?;
        Some(youngest.lend(applicant, now))
    }

    /// Lends the busy process that serves the fewest requests, if one can get another.
    pub(super) fn share(&mut self, applicant: Applicant, now: Instant) -> Option<ProcessId> {
        if self.at_once == 1 || !self.may_lend() {
            return None;
        }
        let at_once = self.at_once;
        let shared = self.processes.iter_mut().filter(|slot| slot.has_room(at_once));
        let least = shared.min_by_key(|slot| slot.in_use)?;
        Some(least.lend(applicant, now))
    }

    /// Gives an idle process, or one that can serve another request, to a waiter. There are both only while there are more processes than
    /// `max`, or after a process has made room for several.
    pub(super) fn hand_idle(&mut self, now: Instant) -> Option<Action> {
        if self.queue.is_empty() || !self.may_lend() {
            return None;
        }
        let at_once = self.at_once;
        let may_serve = |slot: &&Slot| slot.idle_since.is_some() || slot.has_room(at_once);
        let free = self.processes.iter().find(may_serve)?;
        let (id, worker) = (free.id, free.worker);
        let waiting = self.take_waiting(worker, now)?;
        self.slot(id)?.lend(waiting.applicant, now);
        Some(Action::Hand(waiting.ticket, id))
    }
}
