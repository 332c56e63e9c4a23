//! Visitors of the reports: users or clients, their tokens, and the number of live pages.
//!
//! Without its visitor's token no action is carried out, and a page of another site cannot read it. The token is a MAC of the visitor, with a
//! key of the process. So it holds until the server ends, and that of one visitor is useless for another.

use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::sync::Arc;

use aws_lc_rs::hmac;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Live pages at once; further ones get 503.
const LIVE_MAX: usize = 64;

/// Makes the input different from that of other MACs.
const PURPOSE: &[u8] = b"sluice report action\0";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Visitor {
    User(Box<str>),
    Client(IpAddr),
}

/// Shows a visitor as the log does: `user ann`, `client 127.0.0.1`.
impl fmt::Display for Visitor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Visitor::User(name) => write!(out, "user {name}"),
            Visitor::Client(address) => write!(out, "client {address}"),
        }
    }
}

pub(crate) struct Visitors {
    token_key: hmac::Key,
    live: Arc<Semaphore>,
}

impl Visitors {
    /// Makes the key. Errors: the system gives no random bytes.
    pub(crate) fn new() -> Result<Visitors, String> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &aws_lc_rs::rand::SystemRandom::new());
        Ok(Visitors {
            token_key: key.map_err(|_| "no random bytes for the tokens of the reports".to_owned())?,
            live: Arc::new(Semaphore::new(LIVE_MAX)),
        })
    }

    pub(super) fn token_of(&self, visitor: &Visitor) -> String {
        let tag = hmac::sign(&self.token_key, &input(visitor));
        let mut text = String::with_capacity(2 * tag.as_ref().len());
        for byte in tag.as_ref() {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Whether a token is the one of a visitor. Takes the same time wherever they differ.
    pub(super) fn is_token_of(&self, visitor: &Visitor, token: &str) -> bool {
        let expected = self.token_of(visitor);
        // The MACs of both are compared, which takes constant time.
        let tag = hmac::sign(&self.token_key, expected.as_bytes());
        hmac::verify(&self.token_key, token.as_bytes(), tag.as_ref()).is_ok()
    }

    /// The right to one live page. `None` if there are as many as there may be.
    pub(super) fn live_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.live).try_acquire_owned().ok()
    }
}

fn input(visitor: &Visitor) -> Vec<u8> {
    [PURPOSE, visitor.to_string().as_bytes()].concat()
}
