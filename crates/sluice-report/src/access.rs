//! The state of access control: wrong passwords, and the limits on requests.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AccessReport {
    /// Wrong passwords.
    pub failures: FailureReport,
    pub throttles: Vec<ThrottleReport>,
    pub rates: Vec<RateReport>,
}

/// The wrong passwords of which is known who has sent them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureReport {
    /// Wrong passwords and tokens since the start of the server.
    pub wrong: u64,
    /// Requests that were refused (429) since then, because there had been too many wrong ones.
    pub refused: u64,
    /// The senders of wrong passwords, the latest first; only the latest thousand are kept.
    pub senders: Vec<FailedSender>,
}

/// A user or client that has sent wrong passwords.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedSender {
    /// The name, whether there is such a user or not. `None` for a token.
    pub user: Option<String>,
    /// The address; for IPv6 the address of its network of 64 bits.
    pub client: IpAddr,
    /// The realm in which it was last tried.
    pub realm: String,
    /// Wrong ones, since the sender has been in this list.
    pub wrong: u64,
    pub refused: u64,
    /// When the last wrong one was sent, seconds since 1970.
    pub last: u64,
    /// The time until which further ones are refused, seconds since 1970. `None` if they are not refused.
    pub refused_until: Option<u64>,
}

/// The requests that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Whose {
    Route,
    /// The requests from an address; for IPv6 from a network of 64 bits, by its address.
    Client(IpAddr),
    User(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrottleReport {
    pub route: String,
    /// The settings, for people.
    pub limit: String,
    pub running: usize,
    pub waiting: usize,
    /// Requests that were refused (503) since the start or the last reload, because the queue was full.
    pub refused: u64,
    /// Requests that were refused (503) because they had waited for too long.
    pub timed_out: u64,
    /// The users or clients with requests, the busiest first; at most fifty.
    pub keys: Vec<ThrottledKey>,
}

/// The requests that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrottledKey {
    pub of: Whose,
    pub running: usize,
    pub waiting: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateReport {
    pub route: String,
    /// The limit: `20/s`.
    pub limit: String,
    /// Clients whose allowance is not full.
    pub clients: usize,
    /// Requests that were refused (429) since the start or the last reload.
    pub refused: u64,
    /// The clients that would be refused now, those that must wait longest first; of more than fifty only these.
    pub limited: Vec<LimitedClient>,
}

/// A client that has no request left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitedClient {
    /// The address; for IPv6 the address of its network of 64 bits.
    pub client: IpAddr,
    /// The time until it has one again.
    pub wait_millis: u64,
}
