//! A client as pools tell it from others: its address.

use std::net::{IpAddr, Ipv6Addr};

/// Bits of an IPv6 address that name a network; the owner of the network chooses the others.
const NETWORK_BITS: u32 = 64;

/// Stands for a client. An IPv6 network of 64 bits is one client, because it has as many addresses as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientId(IpAddr);

impl ClientId {
    pub(crate) fn of(address: IpAddr) -> ClientId {
        ClientId(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                let network = address.to_bits() >> NETWORK_BITS << NETWORK_BITS;
                Ipv6Addr::from_bits(network).into()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let id = |address: &str| ClientId::of(address.parse().unwrap());
        assert_eq!(id("2001:db8::1"), id("2001:db8::ffff:1"));
        assert_ne!(id("2001:db8::1"), id("2001:db8:0:1::1"));
        assert_eq!(id("::ffff:192.0.2.1"), id("192.0.2.1"));
        assert_ne!(id("192.0.2.1"), id("192.0.2.2"));
    }
}
