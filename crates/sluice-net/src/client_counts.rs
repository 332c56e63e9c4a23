//! The open connections of each client address, for all workers together.
//!
//! One user of IPv6 has a network of 64 bits at least (RFC 6177), so its addresses count as one.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Bits of an IPv6 address that one user can choose.
const IPV6_HOST_BITS: u32 = 64;

/// The counts, and their limit.
pub struct ClientCounts {
    /// Connections of each client; 0 counts nothing.
    pub(crate) connections_max: u32,
    counts: Mutex<HashMap<IpAddr, u32>>,
}

/// A connection that is counted. Dropping this ends it.
pub(crate) struct Counted {
    counts: Arc<ClientCounts>,
    client: IpAddr,
}

impl ClientCounts {
    /// Counts with a limit of connections for each client; 0 counts nothing.
    pub fn new(connections_max: u32) -> ClientCounts {
        ClientCounts { connections_max, counts: Mutex::default() }
    }

    /// Counts a connection of this client. `None` if it has as many as it may have.
    pub(crate) fn count(self: &Arc<Self>, client: IpAddr) -> Option<Counted> {
        let client = network_of(client);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(client).or_default();
        if *count >= self.connections_max {
            return None;
        }
        *count += 1;
        Some(Counted { counts: Arc::clone(self), client })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.counts.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

pub(crate) fn network_of(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> IPV6_HOST_BITS << IPV6_HOST_BITS).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_user_count_together() {
        let counts = Arc::new(ClientCounts::new(2));
        let count = |client: &str| counts.count(client.parse().unwrap());
        let first = count("2001:db8:1:2::1").unwrap();
        let second = count("2001:db8:1:2:ffff::").unwrap();
        assert!(count("2001:db8:1:2::3").is_none());
        let other = count("2001:db8:1:3::1").unwrap();
        drop(first);
        let third = count("2001:db8:1:2::3").unwrap();
        let v4 = [count("192.0.2.1").unwrap(), count("::ffff:192.0.2.1").unwrap()];
        assert!(count("192.0.2.1").is_none());
        drop((second, other, third, v4));
        assert!(counts.counts.lock().unwrap().is_empty());
    }
}
