//! A network of addresses in a list of words: `10.0.0.0/8`, `2001:db8::/32`, or one address alone.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::glob::Word;

/// How it is written, for messages.
const FORM: &str = "must be an address or a network, as in \"192.0.2.1\", \"10.0.0.0/8\" or \"2001:db8::/32\"";

/// The addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network(IpNet);

impl Network {
    /// Whether it holds an address. An IPv4 client of an IPv6 socket is the IPv4 client that it is (RFC 4291 §2.5.5.2).
    pub(super) fn holds(&self, client: IpAddr) -> bool {
        self.0.contains(&client.to_canonical())
    }
}

impl Word for Network {
    fn read(text: &str) -> Result<Network, String> {
        let network: IpNet = match text.contains('/') {
            true => text.parse().map_err(|_| FORM.to_owned())?,
            false => text.parse::<IpAddr>().map_err(|_| FORM.to_owned())?.into(),
        };
        if network.trunc() != network {
            let bits = network.prefix_len();
            return Err(format!(
                "has bits beyond its first {bits}: write \"{}\"",
                network.trunc()
            ));
        }
        // Its clients are known as IPv4, so it would hold nobody.
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
    fn a_network_holds_what_begins_as_it_does() {
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
    fn what_is_no_network_is_told_the_form() {
        for (text, told) in [
            ("example.org", "must be an address or a network"),
            ("10.0.0.0/33", "must be an address or a network"),
            ("10.0.0.0/", "must be an address or a network"),
            ("10.1.2.3/8", "write \"10.0.0.0/8\""),
            ("2001:db8::1/32", "write \"2001:db8::/32\""),
            ("::ffff:127.0.0.1", "write \"127.0.0.1\""),
            ("::ffff:10.0.0.0/104", "write \"10.0.0.0/8\""),
            ("::ffff:0:0/96", "write \"0.0.0.0/0\""),
        ] {
            let error = Network::read(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
