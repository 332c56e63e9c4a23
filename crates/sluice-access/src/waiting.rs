//! The requests that wait for a password to be hashed: those with the same password wait for the same thread.
//!
//! ```text
//! first request ─▶ join ─▶ a job for a thread ─▶ finish ─▶ all that wait for it
//! next ones     ─▶ join ─────────────────────────┘
//! ```
//! Not here: the threads (`verifier`), and whether a password is right (`control`).

use std::collections::HashMap;
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

/// A request that waits.
struct Waiter {
    ticket: Ticket,
    answer: oneshot::Sender<Outcome>,
}

impl Waiting {
    /// Adds a request; whether it is the first one, which needs a job.
    pub(crate) fn join(&self, of: Verification, ticket: Ticket) -> (oneshot::Receiver<Outcome>, bool) {
        let (answer, receiver) = oneshot::channel();
        let mut table = self.lock();
        let waiters = table.entry(of).or_default();
        waiters.push(Waiter { ticket, answer });
        (receiver, waiters.len() == 1)
    }

    /// Whether nobody waits any more.
    pub(crate) fn is_abandoned(&self, of: Verification) -> bool {
        let table = self.lock();
        let waiters = table.get(&of);
        waiters.is_none_or(|waiters| waiters.iter().all(|waiter| waiter.answer.is_closed()))
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
        let waiters = self.lock().remove(&of);
        // Not while the table is locked: tickets lock another one.
        drop(waiters);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Verification, Vec<Waiter>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
