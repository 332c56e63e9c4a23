//! The phases of the server's life.

use tokio::sync::watch;

/// A phase of the server's life; phases only advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Connections are accepted.
    Serving,
    /// No connection is accepted, because another server does. Those that are open may still send a request.
    Replaced,
    /// Exchanges under way may finish; no new one begins.
    Draining,
    /// Everything ends at once.
    Ending,
}

/// Waits until the server has reached a phase.
pub async fn reached(phases: &watch::Receiver<Phase>, phase: Phase) {
    // An error means that the server itself is gone.
    let _ = phases.clone().wait_for(|now| *now >= phase).await;
}
