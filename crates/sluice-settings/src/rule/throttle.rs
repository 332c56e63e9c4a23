//! How many requests are answered: at once (`throttle`) and in a time (`rate`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The limit of a route, or an exception from an earlier route's limit.
#[derive(Clone, Debug)]
pub enum LimitUse<T> {
    /// There is no limit.
    Unlimited,
    /// A limit.
    Limited(Arc<T>),
}

impl<T> LimitUse<T> {
    /// The limit, if there is one.
    #[must_use]
    pub fn limit(&self) -> Option<&Arc<T>> {
        match self {
            LimitUse::Unlimited => None,
            LimitUse::Limited(limit) => Some(limit),
        }
    }
}

/// How many requests are answered at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThrottleSettings {
    /// The place in the configuration.
    pub origin: String,
    /// Requests that are answered at once, at least one.
    pub at_once: usize,
    /// Further requests that wait.
    pub queue: usize,
    /// How long they wait at most.
    pub queue_timeout: Duration,
    /// The requests that are counted together.
    pub per: ThrottlePer,
}

impl ThrottleSettings {
    /// Whether another one allows the same, wherever it is written.
    #[must_use]
    pub fn is_same_limit(&self, other: &ThrottleSettings) -> bool {
        let limit =
            |settings: &ThrottleSettings| (settings.at_once, settings.queue, settings.queue_timeout, settings.per);
        limit(self) == limit(other)
    }
}

/// The requests that are counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThrottlePer {
    /// All requests of the route.
    #[default]
    Route,
    /// The requests of one address (IPv6: of one network of 64 bits).
    Client,
    /// The requests of one user; without a user, of one address.
    User,
}

/// How many requests a client may send in a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateSettings {
    /// The place in the configuration.
    pub origin: String,
    /// Requests, at least one.
    pub requests: u32,
    /// The time.
    pub per: Duration,
}

impl RateSettings {
    /// Whether another one allows the same, wherever it is written.
    #[must_use]
    pub fn is_same_limit(&self, other: &RateSettings) -> bool {
        (self.requests, self.per) == (other.requests, other.per)
    }
}

const UNITS: [(&str, u64); 3] = [("s", 1), ("m", 60), ("h", 3600)];

/// The highest number of requests in a rate.
const REQUESTS_MAX: u32 = 1_000_000;

impl RateSettings {
    /// Parses a rate: `20/s`, `100/m`, `1000/h`.
    ///
    /// # Errors
    /// What to write instead.
    pub fn parse(text: &str, origin: String) -> Result<RateSettings, String> {
        let wrong = || "must be a number of requests and a time, as in \"20/s\", \"100/m\" or \"1000/h\"".to_owned();
        let (number, unit) = text.split_once('/').ok_or_else(wrong)?;
        let (_, seconds) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        match number.parse::<u32>() {
            Ok(0) => Err("no request would be answered: write refuse = { status = 403 } for that".to_owned()),
            Ok(requests) if is_number && requests <= REQUESTS_MAX => Ok(RateSettings {
                origin,
                requests,
                per: Duration::from_secs(seconds),
            }),
            _ if is_number => Err(format!("must be at most {REQUESTS_MAX} requests")),
            _ => Err(wrong()),
        }
    }
}

/// Writes the rate as the configuration has it: `20/s`.
impl fmt::Display for RateSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.per.as_secs();
        let unit = UNITS.into_iter().find(|(_, length)| *length == seconds);
        write!(out, "{}/{}", self.requests, unit.map_or("s", |(name, _)| name))
    }
}

impl fmt::Display for ThrottleSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per = match self.per {
            ThrottlePer::Route => "",
            ThrottlePer::Client => " of each client",
            ThrottlePer::User => " of each user",
        };
        let requests = if self.at_once == 1 { "request" } else { "requests" };
        write!(out, "{} {requests}{per} at once", self.at_once)?;
        match self.queue {
            0 => Ok(()),
            1 => out.write_str(", 1 more waits"),
            more => write!(out, ", {more} more wait"),
        }
    }
}

impl fmt::Display for LimitUse<ThrottleSettings> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit() {
            Some(throttle) => throttle.fmt(out),
            None => out.write_str("any number of requests at once"),
        }
    }
}

impl fmt::Display for LimitUse<RateSettings> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit() {
            Some(rate) => write!(out, "{rate} requests of each client"),
            None => out.write_str("requests at any rate"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throttle_is_shown_as_a_sentence() {
        let shown = |at_once, queue, per| {
            ThrottleSettings {
                origin: String::new(),
                at_once,
                queue,
                queue_timeout: Duration::ZERO,
                per,
            }
            .to_string()
        };
        assert_eq!(shown(1, 0, ThrottlePer::Route), "1 request at once");
        assert_eq!(
            shown(1, 1, ThrottlePer::Client),
            "1 request of each client at once, 1 more waits"
        );
        assert_eq!(
            shown(2, 3, ThrottlePer::User),
            "2 requests of each user at once, 3 more wait"
        );
    }

    #[test]
    fn rates_are_read_and_shown_as_they_are_written() {
        for text in ["1/s", "20/s", "100/m", "1000/h"] {
            assert_eq!(RateSettings::parse(text, String::new()).unwrap().to_string(), text);
        }
        for (text, expected) in [
            ("20", "must be a number of requests and a time"),
            ("20/d", "must be a number of requests and a time"),
            ("+2/s", "must be a number of requests and a time"),
            ("/s", "must be a number of requests and a time"),
            ("0/s", "no request would be answered"),
            ("99999999999/s", "must be at most 1000000 requests"),
        ] {
            let error = RateSettings::parse(text, String::new()).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
