//! Requests that a pool refuses: the fault, its count for reports, and the question whether one would be refused.

use std::time::Instant;

use sluice_http::fault::{BackOff, Fault, FullPool, ScriptFault};

use super::SharedPool;
use crate::pool::{Pool, RareCount, Refusal};

impl SharedPool {
    /// The facts for the message about a pool without a free process.
    pub(super) fn full(&self, pool: &Pool) -> FullPool {
        FullPool {
            script: self.record.label.script.clone(),
            processes: pool.processes(),
            max: self.settings.max,
            queue_max: self.settings.queue_max,
            queue_timeout: self.settings.queue_timeout,
            client_requests_max: self.settings.client_requests_max,
        }
    }

    /// The fault of a refused request, and the count of such ones.
    pub(super) fn refused(&self, refusal: Refusal, pool: &Pool) -> (Fault, &RareCount) {
        let counts = &self.record.counts;
        let full = || Box::new(self.full(pool));
        let (fault, count) = match refusal {
            Refusal::QueueFull => (ScriptFault::QueueFull(full()), &counts.queue_full),
            Refusal::ClientShare => (ScriptFault::ClientShare(full()), &counts.client_share),
            Refusal::BackOff(wait) => {
                let script = self.record.label.script.clone();
                (
                    ScriptFault::BackOff(Box::new(BackOff { script, wait })),
                    &counts.backed_off,
                )
            }
        };
        (fault.into(), count)
    }

    /// Refuses a request that would be refused now, so that its body is not stored in vain. Another request may still take the last
    /// entry of the queue before this one. The fault is the script's, a 503.
    pub(crate) fn check_room(&self) -> Result<(), Fault> {
        let state = self.lock();
        let Some(refusal) = state.pool.refusal(Instant::now()) else {
            return Ok(());
        };
        let (fault, _) = self.refused(refusal, &state.pool);
        drop(state);
        self.report_waiting();
        Err(fault)
    }
}
