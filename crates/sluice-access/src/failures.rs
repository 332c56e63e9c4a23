//! Wrong passwords, counted by user and address: they are answered late, and past a limit no longer verified for a time.
//!
//! Two counters for each wrong password: that of the user from the address, and that of the address, which is allowed more because an
//! address may stand for many people. There is none for a user from every address, because anybody could lock the user out. IPv6
//! addresses count by their first 64 bits, the network of one customer.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use sluice_report::access::{FailedSender, FailureReport};

/// Counters at most. When there are as many, those that are over are removed, and then the oldest.
const COUNTERS_MAX: usize = 50_000;

/// Senders at most of which the report knows the name. When there are as many, those that were quiet for longest are removed; their
/// counters stay.
const NAMED_MAX: usize = 1000;

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
    table: Mutex<Table>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Table {
    counters: HashMap<u64, Counter>,
    /// Who they are, by the counter of the user.
    named: HashMap<u64, Named>,
    wrong: u64,
    refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    failures: u32,
    /// When the counter begins again; while it is at its limit, also the end of the refusal.
    ends: Instant,
}

/// A sender of wrong passwords, for the report.
#[derive(Debug)]
struct Named {
    who: Who,
    sender: Sender,
    limit: FailureLimit,
    wrong: u64,
    refused: u64,
    last: Instant,
}

/// Who sends a password, and for what.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    /// The name; empty for a token.
    pub user: Box<str>,
    pub client: IpAddr,
    pub realm: Box<str>,
}

/// The counters of somebody who has sent a password.
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

    /// How long passwords of a sender are refused; counts that one was. `None` if they are verified.
    pub(crate) fn refused_for(&self, sender: Sender, limit: FailureLimit, now: Instant) -> Option<Duration> {
        let mut table = self.lock();
        let rest = table.refused_for(sender, limit, now)?;
        table.refused += 1;
        if let Some(named) = table.named.get_mut(&sender.user) {
            named.refused += 1;
        }
        Some(rest)
    }

    /// Counts a wrong password; returns how long its answer is delayed.
    pub(crate) fn count(&self, sender: Sender, who: &Who, limit: FailureLimit, now: Instant) -> Duration {
        let mut table = self.lock();
        table.wrong += 1;
        table.note(sender, who, limit, now);
        let counters = &mut table.counters;
        if counters.len() >= COUNTERS_MAX {
            make_room(counters, now);
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
        let mut table = self.lock();
        table.counters.remove(&sender.user);
    }

    /// Who has sent wrong passwords. `clock` is the time of day at `now`.
    pub(crate) fn report(&self, now: Instant, clock: SystemTime) -> FailureReport {
        let table = self.lock();
        let mut named: Vec<&Named> = table.named.values().collect();
        named.sort_unstable_by_key(|named| std::cmp::Reverse(named.last));
        let seconds = |time: Option<SystemTime>| {
            let since = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
            since.map_or(0, |since| since.as_secs())
        };
        let of = |named: &Named| {
            let rest = table.refused_for(named.sender, named.limit, now);
            FailedSender {
                user: Some(String::from(&*named.who.user)).filter(|user| !user.is_empty()),
                client: network_of(named.who.client),
                realm: String::from(&*named.who.realm),
                wrong: named.wrong,
                refused: named.refused,
                last: seconds(clock.checked_sub(now.saturating_duration_since(named.last))),
                refused_until: rest.map(|rest| seconds(clock.checked_add(rest))),
            }
        };
        FailureReport {
            wrong: table.wrong,
            refused: table.refused,
            senders: named.into_iter().map(of).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn refused_for(&self, sender: Sender, limit: FailureLimit, now: Instant) -> Option<Duration> {
        let rest = |key: u64, most: u32| {
            let counter = self.counters.get(&key).filter(|counter| counter.failures >= most)?;
            counter.ends.checked_duration_since(now)
        };
        let of_address = rest(sender.address, limit.failures_max.saturating_mul(ADDRESS_FACTOR));
        rest(sender.user, limit.failures_max).max(of_address)
    }

    /// Notes for the report who has sent a wrong password.
    fn note(&mut self, sender: Sender, who: &Who, limit: FailureLimit, now: Instant) {
        if let Some(named) = self.named.get_mut(&sender.user) {
            (named.limit, named.last) = (limit, now);
            named.wrong += 1;
            if named.who.realm != who.realm {
                named.who.realm.clone_from(&who.realm);
            }
            return;
        }
        if self.named.len() >= NAMED_MAX {
            let mut times: Vec<_> = self.named.values().map(|named| named.last).collect();
            let (_, oldest, _) = times.select_nth_unstable(NAMED_MAX / 8);
            let oldest = *oldest;
            self.named.retain(|_, named| named.last > oldest);
        }
        let named = Named {
            who: who.clone(),
            sender,
            limit,
            wrong: 1,
            refused: 0,
            last: now,
        };
        self.named.insert(sender.user, named);
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

    fn who(user: &str) -> Who {
        Who {
            user: user.into(),
            client: "192.0.2.1".parse().unwrap(),
            realm: "Staff".into(),
        }
    }

    #[test]
    fn wrong_passwords_are_delayed_and_then_refused_for_a_time() {
        let failures = Failures::default();
        let address = "192.0.2.1".parse().unwrap();
        let (ann, bob) = (failures.sender(0, "ann", address), failures.sender(0, "bob", address));
        let begin = Instant::now();
        for millis in [300, 600, 1200] {
            assert_eq!(failures.refused_for(ann, LIMIT, begin), None);
            assert_eq!(
                failures.count(ann, &who("ann"), LIMIT, begin),
                Duration::from_millis(millis)
            );
        }
        assert_eq!(failures.refused_for(ann, LIMIT, begin), Some(Duration::from_secs(60)));
        assert_eq!(failures.refused_for(bob, LIMIT, begin), None, "another user");
        let elsewhere = failures.sender(0, "ann", "192.0.2.2".parse().unwrap());
        assert_eq!(failures.refused_for(elsewhere, LIMIT, begin), None, "another address");
        let later = begin + Duration::from_secs(61);
        assert_eq!(failures.refused_for(ann, LIMIT, later), None);
        assert_eq!(
            failures.count(ann, &who("ann"), LIMIT, later),
            DELAY_LEAST,
            "the counter began again"
        );
        failures.forget(ann);
        assert_eq!(failures.count(ann, &who("ann"), LIMIT, later), DELAY_LEAST);
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
            failures.count(sender(user, user), &who("many"), LIMIT, now);
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
                &who("ann"),
                LIMIT,
                now + Duration::from_millis(number.into()),
            );
        }
        let table = failures.table.lock().unwrap();
        let left = table.counters.len();
        assert!(left <= COUNTERS_MAX && left > COUNTERS_MAX / 2, "{left}");
        let named = table.named.len();
        assert!(named <= NAMED_MAX && named > NAMED_MAX / 2, "{named}");
    }

    #[test]
    fn the_report_says_who_has_sent_wrong_passwords_and_who_is_refused() {
        let failures = Failures::default();
        let (begin, clock) = (Instant::now(), SystemTime::UNIX_EPOCH + Duration::from_secs(1000));
        let sender = |user| failures.sender(0, user, "2001:db8::1".parse().unwrap());
        let who = |user: &str| Who {
            client: "2001:db8::1".parse().unwrap(),
            ..who(user)
        };
        for second in 0..3 {
            failures.count(sender("ann"), &who("ann"), LIMIT, begin + Duration::from_secs(second));
        }
        failures.count(sender("token"), &who(""), LIMIT, begin);
        let now = begin + Duration::from_secs(10);
        assert!(failures.refused_for(sender("ann"), LIMIT, now).is_some());
        let report = failures.report(now, clock);
        assert_eq!((report.wrong, report.refused, report.senders.len()), (4, 1, 2));
        let expected = FailedSender {
            user: Some("ann".to_owned()),
            client: "2001:db8::".parse().unwrap(),
            realm: "Staff".to_owned(),
            wrong: 3,
            refused: 1,
            last: 992,
            refused_until: Some(1052),
        };
        assert_eq!(report.senders[0], expected);
        assert_eq!(
            (&report.senders[1].user, report.senders[1].refused_until),
            (&None, None)
        );
        failures.forget(sender("ann"));
        assert_eq!(failures.report(now, clock).senders[0].refused_until, None);
    }
}
