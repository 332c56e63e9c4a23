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
use std::sync::{Arc, Mutex, PoisonError};

use sluice_settings::rule::{ThrottlePer, ThrottleSettings};
use tokio::sync::oneshot;

use crate::failures::network_of;

/// The requests of a route that are answered or wait.
#[derive(Debug, Default)]
pub struct Throttle {
    keys: Mutex<HashMap<u64, Requests>>,
    hasher: RandomState,
}

/// The requests of one key.
#[derive(Debug, Default)]
struct Requests {
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

/// What becomes of a request.
#[derive(Debug)]
pub enum Entered {
    /// It is answered.
    Permit(Permit),
    /// It waits.
    Place(QueuePlace),
    /// The queue is full.
    Refused,
}

impl Throttle {
    /// Lets a request of a client and user enter.
    pub fn enter(self: &Arc<Throttle>, settings: &ThrottleSettings, client: IpAddr, user: Option<&str>) -> Entered {
        let key = match (settings.per, user) {
            (ThrottlePer::Route, _) => 0,
            (ThrottlePer::User, Some(user)) => self.hasher.hash_one(user),
            (ThrottlePer::Client | ThrottlePer::User, _) => self.hasher.hash_one(network_of(client)),
        };
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let requests = keys.entry(key).or_default();
        if requests.answered < settings.at_once {
            requests.answered += 1;
            return Entered::Permit(self.permit(key));
        }
        if requests.waiting.len() >= settings.queue {
            requests.waiting.retain(|place| !place.is_closed());
        }
        if requests.waiting.len() >= settings.queue {
            return Entered::Refused;
        }
        let (sender, place) = oneshot::channel();
        requests.waiting.push_back(sender);
        Entered::Place(QueuePlace(place))
    }

    fn permit(self: &Arc<Throttle>, key: u64) -> Permit {
        Permit {
            throttle: Some(Arc::clone(self)),
            key,
        }
    }

    /// Gives a permit to the first request of the queue whose client is still there.
    fn leave(self: &Arc<Throttle>, key: u64) {
        loop {
            let next = {
                let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
                let Entry::Occupied(mut entry) = keys.entry(key) else {
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
        drop(first);
        let permit = one.0.try_recv().unwrap();
        assert!(two.0.try_recv().is_err());
        drop(permit);
        drop(two.0.try_recv().unwrap());
        drop(second);
        assert!(throttle.keys.lock().unwrap().is_empty());
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
        assert!(throttle.keys.lock().unwrap().is_empty());
    }
}
