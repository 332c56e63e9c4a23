//! The overview: the state of the server at a glance.

use serde::Serialize;

use crate::status::Status;

#[derive(Clone, Debug, Serialize)]
pub struct Overview {
    pub uptime_seconds: u64,
    pub pid: u32,
    /// The configuration file; `None` if the command line says everything.
    pub configuration: Option<String>,
    pub minute: LastMinute,
    #[serde(flatten)]
    pub status: Status,
}

/// The activity in each of the last seconds, at most 60, the oldest first.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LastMinute {
    /// Requests whose head was read.
    pub requests: Vec<u64>,
    /// Responses with a status of 500 or more.
    pub server_errors: Vec<u64>,
    pub body_bytes: Vec<u64>,
}

impl LastMinute {
    /// The average of the last seconds of a list, at most 10.
    #[must_use]
    pub fn now(values: &[u64]) -> f64 {
        const SECONDS: usize = 10;
        let last = &values[values.len().saturating_sub(SECONDS)..];
        // Exact below 2^53.
        #[allow(clippy::cast_precision_loss)]
        let average = last.iter().sum::<u64>() as f64 / last.len().max(1) as f64;
        average
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        for (values, expected) in [
            (&[][..], 0.0),
            (&[4, 6], 5.0),
            (&[1000, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], 1.0),
        ] {
            assert!((LastMinute::now(values) - expected).abs() < 1e-9, "{values:?}");
        }
    }
}
