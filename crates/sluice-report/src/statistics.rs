//! The statistics: counts and times of the exchanges since the start, or since the last reset.

use serde::Serialize;

use crate::traffic::Traffic;

#[derive(Clone, Debug, Serialize)]
pub struct Statistics {
    /// The moment for which they hold, seconds since 1970.
    pub now: u64,
    #[serde(flatten)]
    pub traffic: Traffic,
}
