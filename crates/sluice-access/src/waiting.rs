//! The requests that wait for a password to be hashed: those with the same password wait for the same thread.
//!
//! ```text
//! first request ─▶ join ─▶ a job for a thread ─▶ finish ─▶ all that wait for it
//! next ones     ─▶ join ─────────────────────────┘
//! ```

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::control::{Outcome, Ticket};
use crate::failures::PasswordId;
use crate::rules::User;

/// A password, and the state of the files by which it is verified.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Verification {
    pub password: PasswordId,
    pub generation: u64,
}

/// The passwords that are being hashed, each with the requests that wait for it.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<HashMap<Verification, Vec<Waiter>>>);

struct Waiter {
    ticket: Ticket,
    answer: oneshot::Sender<Outcome>,
}

impl Waiting {
    /// Adds a request; whether it is the first one, which needs a job.
    pub(crate) fn join(&self, of: Verification, ticket: Ticket) -> (oneshot::Receiver<Outcome>, bool) {
        let (answer, receiver) = oneshot::channel();
        let mut table = self.lock();
        let (waiters, is_first) = match table.entry(of) {
            Entry::Occupied(entry) => (entry.into_mut(), false),
            Entry::Vacant(entry) => (entry.insert(Vec::new()), true),
        };
        if waiters.len() == waiters.capacity() {
            // Before more memory is taken: clients that send a password and leave, again and again, must not fill it.
            waiters.retain(|waiter| !waiter.answer.is_closed());
        }
        waiters.push(Waiter { ticket, answer });
        (receiver, is_first)
    }

    /// Whether nobody waits any more. Then the password is forgotten, and the next request with it is a first one again.
    pub(crate) fn is_abandoned(&self, of: Verification) -> bool {
        let mut table = self.lock();
        let is_left = |waiters: &Vec<Waiter>| waiters.iter().all(|waiter| waiter.answer.is_closed());
        let is_abandoned = table.get(&of).is_none_or(is_left);
        if is_abandoned {
            table.remove(&of);
        }
        is_abandoned
    }

    /// Gives the result, the user or nobody, to all that wait. A wrong password counts once, however many requests had it.
    pub(crate) fn finish(&self, of: Verification, user: Option<User>) {
        let mut waiters = self.lock().remove(&of).unwrap_or_default();
        let Some(first) = waiters.first_mut() else {
            return;
        };
        let outcome = match user {
            Some(user) => {
                first.ticket.right(&user);
                Outcome::Right(user)
            }
            None => Outcome::Wrong(first.ticket.wrong()),
        };
        for Waiter { ticket, answer } in waiters {
            // First, so that the password is no longer one of those that are being verified.
            drop(ticket);
            // Its client may have left.
            let _ = answer.send(outcome.clone());
        }
    }

    /// Forgets those that wait; they notice it.
    pub(crate) fn abandon(&self, of: Verification) {
        self.lock().remove(&of);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Verification, Vec<Waiter>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::control::{AccessControl, Check, Question};
    use crate::credentials::Credentials;
    use crate::failures::FailureLimit;
    use crate::store::UserStore;

    #[test]
    fn clients_that_leave_take_no_memory() {
        let control = AccessControl::new().unwrap();
        let store = Arc::new(UserStore::open(&Arc::default()).unwrap());
        let question = Question {
            store: &store,
            realm: "r",
            site: 0,
            scheme: "Basic",
            credentials: Credentials {
                name: "ann".to_owned(),
                password: b"guess".to_vec(),
            },
            client: "192.0.2.1".parse().unwrap(),
            lifetime: Duration::ZERO,
            limit: FailureLimit {
                failures_max: 2,
                refused_for: Duration::from_secs(60),
            },
        };
        let waiting = Waiting::default();
        let of = Verification { password: [0; 32], generation: 0 };
        for number in 0..10_000 {
            let Check::Unknown(ticket) = control.check(&question) else {
                panic!("known or refused")
            };
            let (answer, is_first) = waiting.join(of, ticket);
            drop(answer);
            assert_eq!(is_first, number == 0);
        }
        assert!(waiting.lock()[&of].capacity() < 16);
        assert!(waiting.is_abandoned(of));
        assert!(waiting.lock().is_empty());
    }
}
