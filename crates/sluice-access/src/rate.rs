//! Rates: how many requests a client may send in a time, by the generic cell rate algorithm (ITU-T I.371).
//!
//! Of each client only the time is kept at which its allowance is full again, so that a client that has been quiet needs no memory.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sluice_settings::rule::RateSettings;

use crate::failures::network_of;

/// Clients at most that are counted at once. When there are as many, those whose allowance is nearly full are forgotten.
const CLIENTS_MAX: usize = 50_000;

/// The requests of the clients of a route.
#[derive(Debug, Default)]
pub struct RateTable {
    /// When the allowance of a client is full again.
    full_at: Mutex<HashMap<u64, Instant>>,
    hasher: RandomState,
}

impl RateTable {
    /// Counts a request of a client.
    ///
    /// # Errors
    /// The client has none left; it has one again after this time.
    pub fn count(&self, settings: &RateSettings, client: IpAddr, now: Instant) -> Result<(), Duration> {
        let key = self.hasher.hash_one(network_of(client));
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        if full_at.len() >= CLIENTS_MAX {
            make_room(&mut full_at, now);
        }
        let one = settings.per / settings.requests.max(1);
        let full = full_at.get(&key).copied().filter(|full| *full > now).unwrap_or(now);
        let after = full + one;
        match after.checked_duration_since(now + settings.per) {
            Some(excess) if !excess.is_zero() => Err(excess),
            _ => {
                full_at.insert(key, after);
                Ok(())
            }
        }
    }
}

/// Removes those whose allowance is full, and at least an eighth: those that are next.
fn make_room(full_at: &mut HashMap<u64, Instant>, now: Instant) {
    full_at.retain(|_, full| *full > now);
    if full_at.len() < CLIENTS_MAX / 8 * 7 {
        return;
    }
    let mut times: Vec<_> = full_at.values().copied().collect();
    let (_, limit, _) = times.select_nth_unstable(CLIENTS_MAX / 8);
    let limit = *limit;
    full_at.retain(|_, full| *full > limit);
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
        let left = table.full_at.lock().unwrap().len();
        assert!(left <= CLIENTS_MAX && left > CLIENTS_MAX / 2, "{left}");
    }
}
