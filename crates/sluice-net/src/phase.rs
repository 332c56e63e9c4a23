//! How far the server's life has come.

use tokio::sync::watch;

/// A step of the server's life; it never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Connections are accepted.
    Serving,
    /// Nothing new begins; what is under way may end.
    Draining,
    /// Everything ends at once.
    Ending,
}

/// Waits until the server has reached a phase.
pub async fn reached(phases: &watch::Receiver<Phase>, phase: Phase) {
    // An error means that the server itself is gone.
    let _ = phases.clone().wait_for(|now| *now >= phase).await;
}
