//! Throttles: how many requests of a route, a client or a user are answered at once; further ones wait in a queue.
//!
//! ```text
//! enter ─┬─ room ────────▶ Permit, until it is dropped ─▶ the first of the queue gets it
//!        ├─ queue ───────▶ QueuePlace, which becomes a Permit
//!        └─ queue full ──▶ refused
//! ```
//! A key has an entry only while a request holds or awaits a permit, so the table is as large as the requests that there are.

use std::collections::hash_map::{Entry, RandomState};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluice_report::access::{ThrottleReport, ThrottledKey, Whose};
use sluice_settings::rule::{ThrottlePer, ThrottleSettings};
use tokio::sync::oneshot;

use crate::failures::network_of;

/// Keys at most that a report names.
const REPORTED_MAX: usize = 50;

/// The requests of a route that are answered or wait.
#[derive(Debug, Default)]
pub struct Throttle {
    table: Mutex<Table>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Table {
    keys: HashMap<u64, Requests>,
    refused: u64,
    timed_out: u64,
}

#[derive(Debug)]
struct Requests {
    of: Whose,
    answered: usize,
    waiting: VecDeque<oneshot::Sender<Permit>>,
}

/// The right to be answered.
#[derive(Debug)]
pub struct Permit {
    /// `None` if another request has got it.
    throttle: Option<Arc<Throttle>>,
    key: u64,
}

/// A place in the queue.
#[derive(Debug)]
pub struct QueuePlace(oneshot::Receiver<Permit>);

/// The fate of a request.
#[derive(Debug)]
pub enum Entered {
    /// The request is answered.
    Permit(Permit),
    /// The request waits.
    Place(QueuePlace),
    /// The queue is full.
    Refused,
}

impl Throttle {
    /// Lets a request of a client and user enter.
    pub fn enter(self: &Arc<Throttle>, settings: &ThrottleSettings, client: IpAddr, user: Option<&str>) -> Entered {
        let client = network_of(client);
        let key = match (settings.per, user) {
            (ThrottlePer::Route, _) => 0,
            (ThrottlePer::User, Some(user)) => self.hasher.hash_one(user),
            (ThrottlePer::Client | ThrottlePer::User, _) => self.hasher.hash_one(client),
        };
        let mut table = self.lock();
        let requests = table.keys.entry(key).or_insert_with(|| Requests {
            of: match (settings.per, user) {
                (ThrottlePer::Route, _) => Whose::Route,
                (ThrottlePer::User, Some(user)) => Whose::User(user.to_owned()),
                (ThrottlePer::Client | ThrottlePer::User, _) => Whose::Client(client),
            },
            answered: 0,
            waiting: VecDeque::new(),
        });
        if requests.answered < settings.at_once {
            requests.answered += 1;
            return Entered::Permit(self.permit(key));
        }
        if requests.waiting.len() >= settings.queue {
            requests.waiting.retain(|place| !place.is_closed());
        }
        if requests.waiting.len() >= settings.queue {
            table.refused += 1;
            return Entered::Refused;
        }
        let (sender, place) = oneshot::channel();
        requests.waiting.push_back(sender);
        Entered::Place(QueuePlace(place))
    }

    /// Counts a request that has waited for too long.
    pub fn note_timeout(&self) {
        self.lock().timed_out += 1;
    }

    /// The state of the throttle. Any thread may call it.
    pub fn report(&self, settings: &ThrottleSettings) -> ThrottleReport {
        let table = self.lock();
        let keys = table.keys.values().map(|requests| ThrottledKey {
            of: requests.of.clone(),
            running: requests.answered,
            waiting: requests.waiting.iter().filter(|place| !place.is_closed()).count(),
        });
        let mut keys: Vec<_> = keys.collect();
        keys.sort_by_key(|key| std::cmp::Reverse((key.waiting, key.running)));
        let sum = |count: fn(&ThrottledKey) -> usize| keys.iter().map(count).sum();
        let (running, waiting) = (sum(|key| key.running), sum(|key| key.waiting));
        keys.truncate(REPORTED_MAX);
        ThrottleReport {
            route: settings.origin.clone(),
            limit: settings.to_string(),
            running,
            waiting,
            refused: table.refused,
            timed_out: table.timed_out,
            keys,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(self: &Arc<Throttle>, key: u64) -> Permit {
        Permit { throttle: Some(Arc::clone(self)), key }
    }

    /// Gives a permit to the first request of the queue whose client is still there.
    fn leave(self: &Arc<Throttle>, key: u64) {
        loop {
            let next = {
                let mut table = self.lock();
                let Entry::Occupied(mut entry) = table.keys.entry(key) else {
                    return;
                };
                match entry.get_mut().waiting.pop_front() {
                    Some(place) => place,
                    None => {
                        entry.get_mut().answered -= 1;
                        if entry.get().answered == 0 {
                            entry.remove();
                        }
                        return;
                    }
                }
            };
            // Without the lock, because dropping a permit takes it.
            match next.send(self.permit(key)) {
                Ok(()) => return,
                // Not dropped as it is, because it would be passed on by recursion, as deep as the queue is long.
                Err(mut permit) => permit.throttle = None,
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(throttle) = self.throttle.take() {
            throttle.leave(self.key);
        }
    }
}

impl QueuePlace {
    /// Waits for the permit. `None` if the server ends.
    pub async fn wait(self) -> Option<Permit> {
        self.0.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(per: ThrottlePer) -> ThrottleSettings {
        ThrottleSettings {
            origin: String::new(),
            at_once: 2,
            queue: 3,
            queue_timeout: std::time::Duration::from_secs(1),
            per,
        }
    }

    fn enter(throttle: &Arc<Throttle>, per: ThrottlePer, client: &str, user: Option<&str>) -> Entered {
        throttle.enter(&settings(per), client.parse().unwrap(), user)
    }

    #[test]
    fn permits_are_passed_on_in_the_order_of_the_queue() {
        let throttle = Arc::new(Throttle::default());
        let enter = || enter(&throttle, ThrottlePer::Route, "192.0.2.1", None);
        let (Entered::Permit(first), Entered::Permit(second)) = (enter(), enter()) else {
            panic!("no room")
        };
        let (Entered::Place(mut one), Entered::Place(gone), Entered::Place(mut two)) = (enter(), enter(), enter())
        else {
            panic!("no queue")
        };
        assert!(matches!(enter(), Entered::Refused));
        drop(gone);
        assert!(
            matches!(enter(), Entered::Place(_)),
            "the place of a client that has left is free"
        );
        let report = throttle.report(&settings(ThrottlePer::Route));
        assert_eq!((report.running, report.waiting, report.refused), (2, 2, 1));
        assert_eq!(report.keys[0].of, Whose::Route);
        drop(first);
        let permit = one.0.try_recv().unwrap();
        assert!(two.0.try_recv().is_err());
        drop(permit);
        drop(two.0.try_recv().unwrap());
        drop(second);
        assert!(throttle.lock().keys.is_empty());
    }

    #[test]
    fn requests_are_counted_by_client_or_user() {
        let throttle = Arc::new(Throttle::default());
        let mut held = Vec::new();
        let mut enters = |per, client, user| {
            let entered = enter(&throttle, per, client, user);
            let is_permit = matches!(entered, Entered::Permit(_));
            held.push(entered);
            is_permit
        };
        assert!(enters(ThrottlePer::Client, "2001:db8::1", None) && enters(ThrottlePer::Client, "2001:db8::2", None));
        assert!(!enters(ThrottlePer::Client, "2001:db8::3", None), "the same network");
        assert!(enters(ThrottlePer::Client, "192.0.2.1", None));
        assert!(
            enters(ThrottlePer::User, "192.0.2.9", Some("ann")) && enters(ThrottlePer::User, "192.0.2.8", Some("ann"))
        );
        assert!(!enters(ThrottlePer::User, "192.0.2.7", Some("ann")));
        assert!(enters(ThrottlePer::User, "192.0.2.7", Some("bob")));
        let report = throttle.report(&settings(ThrottlePer::User));
        assert_eq!((report.running, report.waiting, report.keys.len()), (6, 2, 4));
        let ann = ThrottledKey {
            of: Whose::User("ann".to_owned()),
            running: 2,
            waiting: 1,
        };
        assert!(report.keys[..2].contains(&ann), "{report:?}");
    }

    #[test]
    fn a_long_queue_of_clients_that_have_left_is_skipped_without_recursion() {
        let throttle = Arc::new(Throttle::default());
        let wide = ThrottleSettings {
            at_once: 1,
            queue: 200_000,
            ..settings(ThrottlePer::Route)
        };
        let enter = || throttle.enter(&wide, "::1".parse().unwrap(), None);
        let first = enter();
        let waiting: Vec<_> = (0..200_000).map(|_| enter()).collect();
        drop(waiting);
        drop(first);
        assert!(throttle.lock().keys.is_empty());
    }
}
