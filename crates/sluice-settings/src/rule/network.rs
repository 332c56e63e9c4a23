//! A network in a list of words: `10.0.0.0/8`, `2001:db8::/32`, or one address alone.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::address::parse_network;
use crate::rule::glob::Word;

const NOTATION: &str = "must be an address or a network, as in \"192.0.2.1\", \"10.0.0.0/8\" or \"2001:db8::/32\"";

/// The addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network(IpNet);

impl Network {
    /// Whether the network contains an address. IPv4-mapped addresses count as IPv4 (RFC 4291 §2.5.5.2).
    pub(super) fn holds(&self, client: IpAddr) -> bool {
        self.0.contains(&client.to_canonical())
    }
}

impl From<IpNet> for Network {
    fn from(network: IpNet) -> Network {
        Network(network)
    }
}

impl Word for Network {
    fn read(text: &str) -> Result<Network, String> {
        let network = parse_network(text).ok_or(NOTATION)?;
        if network.trunc() != network {
            let bits = network.prefix_len();
            return Err(format!(
                "has bits beyond its first {bits}: write \"{}\"",
                network.trunc()
            ));
        }
        // Client addresses are converted to IPv4, so such a network would never match.
        if let IpNet::V6(mapped) = network
            && let Some(address) = mapped.addr().to_ipv4_mapped()
        {
            let bits = mapped.prefix_len().saturating_sub(96);
            return Err(match bits {
                32 => format!("is an address of IPv4: write \"{address}\""),
                bits => format!("is a network of IPv4: write \"{address}/{bits}\""),
            });
        }
        Ok(Network(network))
    }

    fn covers(&self, other: &Network) -> bool {
        self.0.contains(&other.0)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.prefix_len() == self.0.max_prefix_len() {
            true => self.0.addr().fmt(out),
            false => self.0.fmt(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        for (network, client, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "::1", true),
            ("::1", "::1", true),
        ] {
            let holds = Network::read(network).unwrap().holds(client.parse().unwrap());
            assert_eq!(holds, expected, "{network} {client}");
        }
    }

    #[test]
    fn an_invalid_network_is_refused_with_a_fix() {
        for (text, expected) in [
            ("example.org", "must be an address or a network"),
            ("10.0.0.0/33", "must be an address or a network"),
            ("10.0.0.0/", "must be an address or a network"),
            ("10.0.0.0/+8", "must be an address or a network"),
            ("010.0.0.0/8", "must be an address or a network"),
            ("010.0.0.1", "must be an address or a network"),
            ("fe80::1%eth0/64", "must be an address or a network"),
            ("10.1.2.3/8", "write \"10.0.0.0/8\""),
            ("2001:db8::1/32", "write \"2001:db8::/32\""),
            ("::ffff:127.0.0.1", "write \"127.0.0.1\""),
            ("::ffff:10.0.0.0/104", "write \"10.0.0.0/8\""),
            ("::ffff:0:0/96", "write \"0.0.0.0/0\""),
        ] {
            let error = Network::read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
