//! The signals that end a script process: SIGTERM, then SIGKILL.

use std::time::Duration;

use sluice_launch::{RemoteProcess, Signal};
use tokio::time::Instant;

/// Least time after SIGKILL before a process gives up its place in the pool. SIGKILL takes effect at once, except for a
/// process that waits for a disk.
const UNKILLABLE_AFTER: Duration = Duration::from_secs(2);

/// The next signal, and when.
#[derive(Clone, Copy)]
pub(crate) enum Escalation {
    None,
    Term(Instant),
    Kill(Instant),
    /// No signal has helped.
    GiveUp(Instant),
}

impl Escalation {
    /// Waits until it is time for it.
    pub(crate) async fn due(&self) {
        match self {
            Escalation::None => std::future::pending().await,
            Escalation::Term(time) | Escalation::Kill(time) | Escalation::GiveUp(time) => {
                tokio::time::sleep_until(*time).await;
            }
        }
    }

    /// SIGTERM at this time, unless a signal is due already.
    pub(crate) fn or_term(self, time: Instant) -> Escalation {
        match self {
            Escalation::None => Escalation::Term(time),
            other => other,
        }
    }

    /// Asks the process group to end, unless that was done before.
    pub(crate) fn terminate(self, process: &RemoteProcess, kill_grace: Duration) -> Escalation {
        if let Escalation::Kill(_) | Escalation::GiveUp(_) = self {
            return self;
        }
        process.signal(Signal::Terminate);
        Escalation::Kill(Instant::now() + kill_grace)
    }

    pub(crate) fn kill(process: &RemoteProcess, kill_grace: Duration) -> Escalation {
        process.signal(Signal::Kill);
        Escalation::GiveUp(Instant::now() + kill_grace.max(UNKILLABLE_AFTER))
    }
}
