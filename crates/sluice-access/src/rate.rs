//! Rates: how many requests a client may send in a time, by the generic cell rate algorithm (ITU-T I.371).
//!
//! Of each client only the time is kept at which its allowance is full again, so that a client that has been quiet needs no memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sluice_report::access::{LimitedClient, RateReport};
use sluice_settings::rule::RateSettings;

use crate::failures::{make_room, network_of};

/// Clients at most that are counted at once. When there are as many, those whose allowance is nearly full are forgotten.
const CLIENTS_MAX: usize = 50_000;

/// Clients at most that a report names.
const REPORTED_MAX: usize = 50;

/// The requests of the clients of a route.
#[derive(Debug, Default)]
pub struct RateTable(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    full_at: HashMap<IpAddr, Instant>,
    refused: u64,
}

impl RateTable {
    /// Counts a request of a client.
    ///
    /// # Errors
    /// The client has none left; it has one again after this time.
    pub fn count(&self, settings: &RateSettings, client: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut table = self.lock();
        let full_at = &mut table.full_at;
        if full_at.len() >= CLIENTS_MAX {
            make_room(full_at, CLIENTS_MAX, now, |full| *full);
        }
        let client = network_of(client);
        let full = full_at.get(&client).copied();
        if let Some(excess) = excess(settings, full, now) {
            table.refused += 1;
            return Err(excess);
        }
        let full = full.filter(|full| *full > now).unwrap_or(now);
        full_at.insert(client, full + one(settings));
        Ok(())
    }

    /// The state of the table. Any thread may call it.
    pub fn report(&self, settings: &RateSettings, now: Instant) -> RateReport {
        let table = self.lock();
        let waiting = table.full_at.iter().filter_map(|(client, full)| {
            let wait = excess(settings, Some(*full), now)?;
            Some((*client, wait))
        });
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort_unstable_by_key(|(client, wait)| (std::cmp::Reverse(*wait), *client));
        waiting.truncate(REPORTED_MAX);
        let limited = waiting.into_iter().map(|(client, wait)| LimitedClient {
            client,
            wait_millis: wait.as_millis().try_into().unwrap_or(u64::MAX),
        });
        RateReport {
            route: settings.origin.clone(),
            limit: settings.to_string(),
            clients: table.full_at.values().filter(|full| **full > now).count(),
            refused: table.refused,
            limited: limited.collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time that one request costs of the allowance.
fn one(settings: &RateSettings) -> Duration {
    settings.per / settings.requests.max(1)
}

/// The time until a client has a request. `None` if it has one now.
fn excess(settings: &RateSettings, full: Option<Instant>, now: Instant) -> Option<Duration> {
    let full = full.filter(|full| *full > now).unwrap_or(now);
    let excess = (full + one(settings)).checked_duration_since(now + settings.per)?;
    Some(excess).filter(|excess| !excess.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_requests_at_once_and_then_one_after_the_other() {
        let table = RateTable::default();
        let settings = RateSettings {
            origin: String::new(),
            requests: 4,
            per: Duration::from_secs(1),
        };
        let client = "192.0.2.1".parse().unwrap();
        let begin = Instant::now();
        let count = |millis| table.count(&settings, client, begin + Duration::from_millis(millis));
        for _ in 0..4 {
            assert_eq!(count(0), Ok(()));
        }
        assert_eq!(count(0), Err(Duration::from_millis(250)));
        assert_eq!(
            count(100),
            Err(Duration::from_millis(150)),
            "a refused request counts nothing"
        );
        assert_eq!(count(250), Ok(()));
        assert!(count(250).is_err());
        assert_eq!(
            table.count(&settings, "192.0.2.2".parse().unwrap(), begin),
            Ok(()),
            "another client"
        );
        (0..4).for_each(|_| assert_eq!(count(5000), Ok(())));
        assert!(count(5000).is_err());
        let report = table.report(&settings, begin + Duration::from_millis(5000));
        assert_eq!((report.limit.as_str(), report.clients, report.refused), ("4/s", 1, 4));
        let limited = LimitedClient { client, wait_millis: 250 };
        assert_eq!(report.limited, [limited]);
    }

    #[test]
    fn the_number_of_clients_is_bounded() {
        let table = RateTable::default();
        let settings = RateSettings {
            origin: String::new(),
            requests: 1,
            per: Duration::from_secs(3600),
        };
        let now = Instant::now();
        for number in 0..u32::try_from(CLIENTS_MAX + 10).unwrap() {
            let _ = table.count(
                &settings,
                IpAddr::V4(number.into()),
                now + Duration::from_millis(number.into()),
            );
        }
        let left = table.lock().full_at.len();
        assert!(left <= CLIENTS_MAX && left > CLIENTS_MAX / 2, "{left}");
    }
}
