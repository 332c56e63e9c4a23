//! Where the time of a request went: the moments at which it went on, as an event of the item `timing`.
//!
//! ```text
//! 12.345 ms
//!        at        took
//!     0.120 ms   0.120 ms  decided
//!    12.345 ms  12.225 ms  end
//! ```
//! The text can be read back, so that a page draws it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::named::named;

named! {
    /// A moment at which a request goes on. What took the time before it is its description.
    pub enum Phase {
        Unwatched = "unwatched", "before the watch";
        Decided = "decided", "routes and files";
        Identified = "identified", "verification of the password";
        Admitted = "admitted", "queue of the throttle";
        Delayed = "delayed", "delay of the answer to a wrong password";
        Granted = "granted", "access rules and limits";
        Stored = "stored", "request body received";
        Process = "process", "script process found or started";
        FirstByte = "first-byte", "script worked until its first byte";
        Head = "head", "head of the reply, to its end";
        LastByte = "last-byte", "body produced and taken by the client";
        Aborted = "aborted", "body, until it was broken off";
        End = "end", "end";
    }
}

/// Where the time of a request went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// The moments, in their order. One may occur several times: a script's local redirect is decided on again.
    pub moments: Vec<Moment>,
}

/// A moment of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Which one.
    pub phase: Phase,
    /// When, in microseconds after the request's head was complete.
    pub at_us: u64,
}

impl Timing {
    /// Moments of one request at most.
    pub const MOMENTS_MAX: usize = 100;

    /// Adds a moment, so much time after the request's head was complete.
    pub fn add(&mut self, phase: Phase, at: Duration) {
        let at_us = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        // The last one is always the end.
        if self.moments.len() < Timing::MOMENTS_MAX || phase == Phase::End {
            self.moments.push(Moment { phase, at_us });
        }
    }

    /// The time in all, microseconds.
    #[must_use]
    pub fn total_us(&self) -> u64 {
        self.moments.last().map_or(0, |moment| moment.at_us)
    }
}

/// A time in milliseconds, from microseconds.
struct Millis(u64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Millis(micros) = self;
        f.pad(&format!("{}.{:03}", micros / 1000, micros % 1000))
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", Millis(self.total_us()))?;
        let mut before = 0;
        for Moment { phase, at_us } in &self.moments {
            let took = at_us.saturating_sub(before);
            let (at, took) = (Millis(*at_us), Millis(took));
            write!(
                f,
                "\n{at:>10} ms {took:>10} ms  {:<10}  {}",
                phase.name(),
                phase.description()
            )?;
            before = *at_us;
        }
        Ok(())
    }
}

/// A text that is not a [`Timing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotATiming;

impl fmt::Display for NotATiming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the times of a request")
    }
}

impl std::error::Error for NotATiming {}

impl FromStr for Timing {
    type Err = NotATiming;

    /// Reads the text back.
    fn from_str(text: &str) -> Result<Timing, NotATiming> {
        let moments = text.lines().skip(1).map(|line| {
            let mut words = line.split_whitespace();
            let at_us = micros(words.next()?)?;
            let name = words.nth(3)?;
            let phase = Phase::ALL.into_iter().find(|phase| phase.name() == name)?;
            Some(Moment { phase, at_us })
        });
        let moments: Option<Vec<Moment>> = moments.collect();
        Ok(Timing { moments: moments.ok_or(NotATiming)? })
    }
}

/// `12.345` → 12345
fn micros(text: &str) -> Option<u64> {
    let (whole, parts) = text.split_once('.').filter(|(_, parts)| parts.len() == 3)?;
    let (whole, parts): (u64, u64) = (whole.parse().ok()?, parts.parse().ok()?);
    whole.checked_mul(1000)?.checked_add(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_can_be_read_back() {
        let mut timing = Timing::default();
        for (number, phase) in Phase::ALL.into_iter().enumerate() {
            timing.add(phase, Duration::from_micros(number as u64 * 1234));
        }
        let text = timing.to_string();
        assert!(
            text.starts_with("14.808 ms\n     0.000 ms      0.000 ms  unwatched "),
            "{text}"
        );
        assert_eq!(text.parse(), Ok(timing.clone()));
        assert_eq!(timing.total_us(), 14_808);
        let json = serde_json::to_string(&timing.moments[1]).unwrap();
        assert_eq!(json, r#"{"phase":"decided","at_us":1234}"#);
        assert_eq!("1 ms\nx".parse::<Timing>(), Err(NotATiming));
    }

    #[test]
    fn a_request_with_very_many_moments_still_has_its_end() {
        let mut timing = Timing::default();
        for _ in 0..1000 {
            timing.add(Phase::Decided, Duration::ZERO);
        }
        timing.add(Phase::End, Duration::from_secs(1));
        assert_eq!((timing.moments.len(), timing.total_us()), (101, 1_000_000));
    }
}
