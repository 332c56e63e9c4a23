//! Wrong passwords, counted by user and address: they are answered late, and past a limit no longer verified for a time.
//!
//! Two counters for each wrong password: that of the user from the address, and that of the address, which is allowed more because an
//! address may stand for many people. There is none for a user from every address, because anybody could lock the user out. IPv6
//! addresses count by their first 64 bits, the network of one customer.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Counters at most. When there are as many, those that are over are removed, and then the oldest.
const COUNTERS_MAX: usize = 50_000;

/// How many times as many wrong passwords an address may send as one user from it.
const ADDRESS_FACTOR: u32 = 10;

/// The delay of the answer to the first wrong password, and to later ones.
const DELAY_LEAST: Duration = Duration::from_millis(300);
const DELAY_MOST: Duration = Duration::from_secs(3);

/// How many wrong passwords are allowed, and for how long further ones are refused.
#[derive(Clone, Copy, Debug)]
pub struct FailureLimit {
    /// Of one user from one address.
    pub failures_max: u32,
    /// The time for which further ones are refused, and after which a counter begins again.
    pub refused_for: Duration,
}

/// The counters of all workers.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    counters: Mutex<HashMap<u64, Counter>>,
    hasher: RandomState,
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    failures: u32,
    /// When the counter begins again; while it is at its limit, also the end of the refusal.
    ends: Instant,
}

/// Who has sent a wrong password.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    user: u64,
    address: u64,
}

impl Failures {
    /// The counters of a user of a store, from an address.
    pub(crate) fn sender(&self, store: u64, user: &str, client: IpAddr) -> Sender {
        let network = network_of(client);
        Sender {
            user: self.hasher.hash_one((store, user, network)),
            address: self.hasher.hash_one((store, network)),
        }
    }

    /// How long passwords of a sender are refused. `None` if they are verified.
    pub(crate) fn refused_for(&self, sender: Sender, limit: FailureLimit, now: Instant) -> Option<Duration> {
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = |key: u64, most: u32| {
            let counter = counters.get(&key).filter(|counter| counter.failures >= most)?;
            counter.ends.checked_duration_since(now)
        };
        let of_address = rest(sender.address, limit.failures_max.saturating_mul(ADDRESS_FACTOR));
        rest(sender.user, limit.failures_max).max(of_address)
    }

    /// Counts a wrong password; returns how long its answer is delayed.
    pub(crate) fn count(&self, sender: Sender, limit: FailureLimit, now: Instant) -> Duration {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if counters.len() >= COUNTERS_MAX {
            make_room(&mut counters, now);
        }
        let mut count = |key: u64| {
            let counter = counters.entry(key).or_insert(Counter { failures: 0, ends: now });
            if counter.ends <= now {
                counter.failures = 0;
            }
            counter.failures = counter.failures.saturating_add(1);
            counter.ends = now + limit.refused_for;
            counter.failures
        };
        count(sender.address);
        let failures = count(sender.user);
        DELAY_LEAST
            .saturating_mul(1 << failures.saturating_sub(1).min(8))
            .min(DELAY_MOST)
    }

    /// Forgets the wrong passwords of a user who has sent the right one.
    pub(crate) fn forget(&self, sender: Sender) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.remove(&sender.user);
    }
}

/// What counts as one client: an address, of IPv6 the network of its first 64 bits.
pub(crate) fn network_of(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

/// Removes the counters that are over, and at least an eighth of them: those that end first.
fn make_room(counters: &mut HashMap<u64, Counter>, now: Instant) {
    counters.retain(|_, counter| counter.ends > now);
    if counters.len() < COUNTERS_MAX / 8 * 7 {
        return;
    }
    let mut ends: Vec<_> = counters.values().map(|counter| counter.ends).collect();
    let (_, limit, _) = ends.select_nth_unstable(COUNTERS_MAX / 8);
    let limit = *limit;
    counters.retain(|_, counter| counter.ends > limit);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: FailureLimit = FailureLimit {
        failures_max: 3,
        refused_for: Duration::from_secs(60),
    };

    #[test]
    fn wrong_passwords_are_delayed_and_then_refused_for_a_time() {
        let failures = Failures::default();
        let address = "192.0.2.1".parse().unwrap();
        let (ann, bob) = (failures.sender(0, "ann", address), failures.sender(0, "bob", address));
        let begin = Instant::now();
        for millis in [300, 600, 1200] {
            assert_eq!(failures.refused_for(ann, LIMIT, begin), None);
            assert_eq!(failures.count(ann, LIMIT, begin), Duration::from_millis(millis));
        }
        assert_eq!(failures.refused_for(ann, LIMIT, begin), Some(Duration::from_secs(60)));
        assert_eq!(failures.refused_for(bob, LIMIT, begin), None, "another user");
        let elsewhere = failures.sender(0, "ann", "192.0.2.2".parse().unwrap());
        assert_eq!(failures.refused_for(elsewhere, LIMIT, begin), None, "another address");
        let later = begin + Duration::from_secs(61);
        assert_eq!(failures.refused_for(ann, LIMIT, later), None);
        assert_eq!(
            failures.count(ann, LIMIT, later),
            DELAY_LEAST,
            "the counter began again"
        );
        failures.forget(ann);
        assert_eq!(failures.count(ann, LIMIT, later), DELAY_LEAST);
    }

    #[test]
    fn an_address_that_tries_many_users_is_refused() {
        let failures = Failures::default();
        let now = Instant::now();
        let sender = |user: u32, last: u32| {
            let address = format!("2001:db8::{last:x}").parse().unwrap();
            failures.sender(0, &user.to_string(), address)
        };
        for user in 0..30 {
            assert_eq!(failures.refused_for(sender(user, user), LIMIT, now), None);
            failures.count(sender(user, user), LIMIT, now);
        }
        assert!(
            failures.refused_for(sender(99, 99), LIMIT, now).is_some(),
            "the same network"
        );
    }

    #[test]
    fn the_number_of_counters_is_bounded() {
        let failures = Failures::default();
        let now = Instant::now();
        for number in 0..u32::try_from(COUNTERS_MAX).unwrap() {
            let address = IpAddr::V4(number.into());
            failures.count(
                failures.sender(0, "ann", address),
                LIMIT,
                now + Duration::from_millis(number.into()),
            );
        }
        let left = failures.counters.lock().unwrap().len();
        assert!(left <= COUNTERS_MAX && left > COUNTERS_MAX / 2, "{left}");
    }
}
