//! The statistics: counts and times of the exchanges since the start, or since the last reset.

use serde::Serialize;

use crate::traffic::Traffic;

/// The statistics.
#[derive(Clone, Debug, Serialize)]
pub struct Statistics {
    /// The moment for which they hold, seconds since 1970.
    pub now: u64,
    /// The exchanges.
    #[serde(flatten)]
    pub traffic: Traffic,
}
