//! The settings by which the client of an exchange is identified: trusted proxies and reverse DNS.

use std::net::SocketAddr;
use std::time::Duration;

use crate::address::Peers;

/// The trusted proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// The proxies whose field is used; the field of any other peer is ignored.
    pub trusted: Peers,
    /// The field in which they name their clients.
    pub forwarded: ForwardedField,
}

/// The field in which a proxy names its client. Only one is used, because a proxy that sets one of them passes on the other
/// as its client has sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedField {
    /// `X-Forwarded-For` and `X-Forwarded-Proto`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
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
