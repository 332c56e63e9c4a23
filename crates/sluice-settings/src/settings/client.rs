//! The settings by which the client of an exchange is identified: trusted proxies and reverse DNS.

use std::net::SocketAddr;
use std::time::Duration;

use sluice_http::forwarded::ForwardedField;

use crate::address::Peers;

/// The trusted proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// The proxies whose field is used; the field of any other peer is ignored.
    pub trusted: Peers,
    /// The field in which they name their clients.
    pub forwarded: ForwardedField,
}

/// Reverse DNS: the lookup of clients' names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsSettings {
    /// How long a script may wait for the name of its client, from the start of the lookup.
    pub timeout: Duration,
    /// The name server; `None` for the name servers of the system.
    pub server: Option<SocketAddr>,
}

impl DnsSettings {
    /// The default timeout: hardly noticeable for people, and long enough for most lookups.
    pub const TIMEOUT: Duration = Duration::from_millis(500);
}
