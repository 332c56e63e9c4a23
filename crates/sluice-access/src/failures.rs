//! Wrong passwords, counted by user and address: they are answered late, and past a limit no longer verified for a time.
//!
//! Each wrong password has two counters: of the user from the address, and of the address, which is allowed more because many people may share it. None counts
//! a user from every address, because anybody could lock the user out. IPv6 addresses count by their first 64 bits, the network of one customer.
//!
//! Passwords that are being verified count as if they were wrong, so that many guesses at once are no more than one after the other. The
//! same password several times counts once: a browser sends it with each of its requests.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hash};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use sluice_report::access::{FailedSender, FailureReport};

/// Counters at most. When there are as many, those that are over are removed, and then the oldest.
const COUNTERS_MAX: usize = 50_000;

/// Senders at most of which the report knows the name. When there are as many, those that were quiet for longest are removed; their counters stay.
const NAMED_MAX: usize = 1000;

/// How many times as many wrong passwords an address may send as one user from it.
const ADDRESS_FACTOR: u32 = 10;

/// The delay of the answer to the first wrong password, and to later ones.
pub(crate) const DELAY_LEAST: Duration = Duration::from_millis(300);
pub(crate) const DELAY_MOST: Duration = Duration::from_secs(3);

/// How many wrong passwords are allowed, and for how long further ones are refused.
#[derive(Clone, Copy, Debug)]
pub struct FailureLimit {
    /// The failures of one user from one address.
    pub failures_max: u32,
    /// The time for which further ones are refused, and after which a counter begins again.
    pub refused_for: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Failures {
    table: Mutex<Table>,
    hasher: RandomState,
}

/// By what a password is known here: something that only this password of this user has.
pub(crate) type PasswordId = [u8; 32];

#[derive(Debug, Default)]
struct Table {
    counters: HashMap<u64, Counter>,
    /// The passwords that are being verified, by counter, each with the number of its requests. Bounded by the requests in progress.
    attempts: HashMap<u64, HashMap<PasswordId, u32>>,
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

/// The sender of a password, and the realm that it is for.
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
    /// The number of the counter of the user, from the address.
    pub user: u64,
    address: u64,
}

impl Sender {
    fn counters(self) -> [u64; 2] {
        [self.user, self.address]
    }
}

impl Failures {
    /// The counters of a user, from an address. `scope` separates users of the same name.
    pub(crate) fn sender(&self, scope: (u64, usize), user: &str, client: IpAddr) -> Sender {
        let network = network_of(client);
        Sender {
            user: self.hasher.hash_one((scope, user, network)),
            address: self.hasher.hash_one((scope, network)),
        }
    }

    /// Begins to verify a password of a sender, until `end`.
    ///
    /// # Errors
    /// It is refused for this long: too many were wrong, or may be wrong. Counts that it was.
    pub(crate) fn begin(
        &self,
        sender: Sender,
        password: &PasswordId,
        limit: FailureLimit,
        now: Instant,
    ) -> Result<(), Duration> {
        let mut table = self.lock();
        let Some(rest) = table.refused_for(sender, Some(password), limit, now) else {
            for key in sender.counters() {
                *table.attempts.entry(key).or_default().entry(*password).or_default() += 1;
            }
            return Ok(());
        };
        table.refused += 1;
        if let Some(named) = table.named.get_mut(&sender.user) {
            named.refused += 1;
        }
        Err(rest)
    }

    pub(crate) fn end(&self, sender: Sender, password: &PasswordId) {
        self.lock().end(sender, password);
    }

    /// Counts a password that was wrong, and ends what `begin` has begun; returns how long its answer is delayed.
    pub(crate) fn count(
        &self,
        sender: Sender,
        password: &PasswordId,
        who: &Who,
        limit: FailureLimit,
        now: Instant,
    ) -> Duration {
        let mut table = self.lock();
        table.end(sender, password);
        table.wrong += 1;
        table.note(sender, who, limit, now);
        let counters = &mut table.counters;
        if counters.len() >= COUNTERS_MAX {
            make_room(counters, COUNTERS_MAX, now, |counter| counter.ends);
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

    pub(crate) fn forget(&self, sender: Sender) {
        self.lock().counters.remove(&sender.user);
    }

    /// The clients that have sent wrong passwords. `clock` is the time of day at `now`.
    pub(crate) fn report(&self, now: Instant, clock: SystemTime) -> FailureReport {
        let table = self.lock();
        let mut named: Vec<&Named> = table.named.values().collect();
        named.sort_unstable_by_key(|named| std::cmp::Reverse(named.last));
        let seconds = |time: Option<SystemTime>| {
            let since = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
            since.unwrap_or_default().as_secs()
        };
        let of = |named: &Named| {
            let rest = table.refused_for(named.sender, None, named.limit, now);
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
    /// How long passwords of a sender are refused; with a password, also because of others that are being verified.
    fn refused_for(
        &self,
        sender: Sender,
        password: Option<&PasswordId>,
        limit: FailureLimit,
        now: Instant,
    ) -> Option<Duration> {
        let rest = |key: u64, most: u32| {
            let counter = self.counters.get(&key).filter(|counter| counter.ends > now);
            let failures = counter.map_or(0, |counter| counter.failures);
            if failures >= most {
                return counter.map(|counter| counter.ends.saturating_duration_since(now));
            }
            let others = self.attempts.get(&key).zip(password).map_or(0, |(attempts, password)| {
                attempts.len() - usize::from(attempts.contains_key(password))
            });
            // Their verdicts come soon, and the slowest answer to a wrong one is this late.
            (others >= (most - failures) as usize).then_some(DELAY_MOST)
        };
        let of_address = rest(sender.address, limit.failures_max.saturating_mul(ADDRESS_FACTOR));
        rest(sender.user, limit.failures_max).max(of_address)
    }

    fn end(&mut self, sender: Sender, password: &PasswordId) {
        for key in sender.counters() {
            let Some(attempts) = self.attempts.get_mut(&key) else {
                continue;
            };
            if let Some(requests) = attempts.get_mut(password) {
                *requests -= 1;
                if *requests == 0 {
                    attempts.remove(password);
                }
            }
            if attempts.is_empty() {
                self.attempts.remove(&key);
            }
        }
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
            remove_eighth(&mut self.named, |named| named.last);
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

/// The network that counts as one client: an address, of IPv6 the network of its first 64 bits.
pub(crate) fn network_of(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

/// Removes the entries of a table of at most so many whose time is over, and at least an eighth of them: those whose time comes first.
pub(crate) fn make_room<K: Eq + Hash, V>(
    table: &mut HashMap<K, V>,
    most: usize,
    now: Instant,
    time: impl Fn(&V) -> Instant,
) {
    table.retain(|_, value| time(value) > now);
    if table.len() >= most / 8 * 7 {
        remove_eighth(table, time);
    }
}

/// Removes an eighth of a table: the entries with the earliest times.
fn remove_eighth<K: Eq + Hash, V>(table: &mut HashMap<K, V>, time: impl Fn(&V) -> Instant) {
    let mut times: Vec<_> = table.values().map(&time).collect();
    let (_, limit, _) = times.select_nth_unstable(table.len() / 8);
    let limit = *limit;
    table.retain(|_, value| time(value) > limit);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: FailureLimit = FailureLimit {
        failures_max: 3,
        refused_for: Duration::from_secs(60),
    };

    /// A password that is always the same.
    const GUESS: PasswordId = [0; 32];

    fn refused(failures: &Failures, sender: Sender, now: Instant) -> Option<Duration> {
        let begun = failures.begin(sender, &GUESS, LIMIT, now);
        begun.is_ok().then(|| failures.end(sender, &GUESS));
        begun.err()
    }

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
        let (ann, bob) = (
            failures.sender((0, 0), "ann", address),
            failures.sender((0, 0), "bob", address),
        );
        let begin = Instant::now();
        for millis in [300, 600, 1200] {
            assert_eq!(refused(&failures, ann, begin), None);
            assert_eq!(
                failures.count(ann, &GUESS, &who("ann"), LIMIT, begin),
                Duration::from_millis(millis)
            );
        }
        assert_eq!(refused(&failures, ann, begin), Some(Duration::from_secs(60)));
        assert_eq!(refused(&failures, bob, begin), None, "another user");
        let elsewhere = failures.sender((0, 0), "ann", "192.0.2.2".parse().unwrap());
        assert_eq!(refused(&failures, elsewhere, begin), None, "another address");
        let later = begin + Duration::from_secs(61);
        assert_eq!(refused(&failures, ann, later), None);
        assert_eq!(
            failures.count(ann, &GUESS, &who("ann"), LIMIT, later),
            DELAY_LEAST,
            "the counter began again"
        );
        failures.forget(ann);
        assert_eq!(failures.count(ann, &GUESS, &who("ann"), LIMIT, later), DELAY_LEAST);
    }

    #[test]
    fn passwords_that_are_being_verified_count_once_each() {
        let failures = Failures::default();
        let now = Instant::now();
        let ann = failures.sender((0, 0), "ann", "192.0.2.1".parse().unwrap());
        let begin = |guess: u8| failures.begin(ann, &[guess; 32], LIMIT, now);
        for guess in [1, 2, 2, 2, 3] {
            assert_eq!(begin(guess), Ok(()), "{guess}");
        }
        assert_eq!(begin(4), Err(DELAY_MOST), "a fourth guess at once");
        assert_eq!(begin(2), Ok(()), "a browser's next request with the same password");
        failures.end(ann, &[1; 32]);
        assert_eq!(begin(4), Ok(()), "its request has left");
        for guess in [2, 3, 4] {
            failures.count(ann, &[guess; 32], &who("ann"), LIMIT, now);
        }
        assert_eq!(begin(2), Err(LIMIT.refused_for));
        for guess in [2, 2, 2] {
            failures.end(ann, &[guess; 32]);
        }
        assert!(failures.lock().attempts.is_empty());
    }

    #[test]
    fn an_address_that_tries_many_users_is_refused() {
        let failures = Failures::default();
        let now = Instant::now();
        let sender = |user: u32, last: u32| {
            let address = format!("2001:db8::{last:x}").parse().unwrap();
            failures.sender((0, 0), &user.to_string(), address)
        };
        for user in 0..30 {
            assert_eq!(refused(&failures, sender(user, user), now), None);
            failures.count(sender(user, user), &GUESS, &who("many"), LIMIT, now);
        }
        assert!(refused(&failures, sender(99, 99), now).is_some(), "the same network");
    }

    #[test]
    fn the_number_of_counters_is_bounded() {
        let failures = Failures::default();
        let now = Instant::now();
        for number in 0..u32::try_from(COUNTERS_MAX).unwrap() {
            let address = IpAddr::V4(number.into());
            failures.count(
                failures.sender((0, 0), "ann", address),
                &GUESS,
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
        let sender = |user| failures.sender((0, 0), user, "2001:db8::1".parse().unwrap());
        let who = |user: &str| Who {
            client: "2001:db8::1".parse().unwrap(),
            ..who(user)
        };
        for second in 0..3 {
            failures.count(
                sender("ann"),
                &GUESS,
                &who("ann"),
                LIMIT,
                begin + Duration::from_secs(second),
            );
        }
        failures.count(sender("token"), &GUESS, &who(""), LIMIT, begin);
        let now = begin + Duration::from_secs(10);
        assert!(refused(&failures, sender("ann"), now).is_some());
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
