//! Addresses in settings: where to listen, and lists of peers, such as trusted proxies.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use sluice_http::endpoints::{Endpoints, NamedBy};

/// The prefix of the path of a unix socket.
pub const UNIX: &str = "unix:";

/// Longest path of a unix socket, bytes: `sun_path` has one more, for the NUL (unix(7)).
pub const UNIX_PATH_BYTES_MAX: usize = 107;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// Address and port; port 0 lets the system choose.
    Inet(SocketAddr),
    /// The file of a unix socket.
    Unix(PathBuf),
}

impl ListenAddress {
    /// The IP address; `None` for a unix socket.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            ListenAddress::Inet(address) => Some(address.ip()),
            ListenAddress::Unix(_) => None,
        }
    }

    /// The port; `None` for a unix socket.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            ListenAddress::Inet(address) => Some(address.port()),
            ListenAddress::Unix(_) => None,
        }
    }

    /// The file of a unix socket; `None` for an IP address.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            ListenAddress::Inet(_) => None,
            ListenAddress::Unix(path) => Some(path),
        }
    }

    /// Whether both cannot be bound at once. Port 0 is a different port each time.
    #[must_use]
    pub fn is_same(&self, other: &ListenAddress) -> bool {
        self == other && self.port() != Some(0)
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> ListenAddress {
        ListenAddress::Inet(address)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Inet(address) => address.fmt(out),
            ListenAddress::Unix(path) => write!(out, "{UNIX}{}", path.display()),
        }
    }
}

/// A list of peers: networks, and clients of unix sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    networks: Vec<IpNet>,
    has_unix: bool,
}

impl Peers {
    /// Adds an address, a network (`10.0.0.0/8`) or `unix:`.
    ///
    /// # Errors
    /// The text is neither an address, nor a network, nor `unix:`. The message says what to write instead.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        if text == UNIX {
            self.has_unix = true;
            return Ok(());
        }
        let network = parse_network(text)
            .ok_or("write an address, a network as in \"10.0.0.0/8\", or \"unix:\" for all clients of unix sockets")?;
        if network.trunc() != network {
            return Err(format!("has bits after its prefix: write \"{}\"", network.trunc()));
        }
        // The addresses of clients are converted to IPv4 before they are compared.
        if let IpNet::V6(network) = network
            && let Some(address) = network.addr().to_ipv4_mapped()
        {
            let length = network.prefix_len().saturating_sub(96);
            return Err(format!("is a network of IPv4: write \"{address}/{length}\""));
        }
        self.networks.push(network);
        Ok(())
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && !self.has_unix
    }

    /// Whether the list contains the client of a connection. Never if nobody knows who it is: its bytes may be anybody's.
    #[must_use]
    pub fn contains(&self, endpoints: &Endpoints) -> bool {
        match endpoints.named_by {
            NamedBy::Nobody => false,
            _ if endpoints.is_unix => self.has_unix(),
            _ => self.has_address(endpoints.client.ip()),
        }
    }

    /// Whether one of the networks contains the address.
    #[must_use]
    pub fn has_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// Whether the list contains clients of unix sockets.
    #[must_use]
    pub fn has_unix(&self) -> bool {
        self.has_unix
    }
}

impl fmt::Display for Peers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unix = self.has_unix.then(|| UNIX.to_owned());
        let all: Vec<String> = self.networks.iter().map(IpNet::to_string).chain(unix).collect();
        out.write_str(&all.join(" "))
    }
}

/// Parses an address alone or with a number of bits. Not by `IpNet`, which takes `010.0.0.0/8`: other programs read that as octal.
pub(crate) fn parse_network(text: &str) -> Option<IpNet> {
    let Some((address, bits)) = text.split_once('/') else {
        return Some(text.parse::<IpAddr>().ok()?.into());
    };
    let is_number = (1..=3).contains(&bits.len()) && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits = bits.parse().ok().filter(|_| is_number)?;
    IpNet::new(address.parse().ok()?, bits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(texts: &[&str]) -> Result<Peers, String> {
        let mut peers = Peers::default();
        texts.iter().try_for_each(|text| peers.add(text))?;
        Ok(peers)
    }

    #[test]
    fn networks_contain_their_addresses_in_both_notations() {
        let peers = peers(&["10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "::1"]).unwrap();
        for address in ["10.255.0.1", "::ffff:10.0.0.1", "192.0.2.7", "2001:db8:ffff::1", "::1"] {
            assert!(peers.has_address(address.parse().unwrap()), "{address}");
        }
        for address in ["11.0.0.1", "192.0.2.8", "2001:db9::1", "::2", "127.0.0.1"] {
            assert!(!peers.has_address(address.parse().unwrap()), "{address}");
        }
        assert!(!peers.has_unix() && super::Peers::default().is_empty());
        assert_eq!(peers.to_string(), "10.0.0.0/8 192.0.2.7/32 2001:db8::/32 ::1/128");
    }

    #[test]
    fn unix_sockets_are_listed_only_by_name() {
        let peers = peers(&["unix:"]).unwrap();
        assert!(peers.has_unix() && !peers.is_empty() && !peers.has_address(IpAddr::from([127, 0, 0, 1])));
        assert!(!super::tests::peers(&["0.0.0.0/0", "::/0"]).unwrap().has_unix());
    }

    #[test]
    fn an_invalid_network_is_refused_with_a_fix() {
        for (text, fix) in [
            ("10.0.0.1/8", "has bits after its prefix: write \"10.0.0.0/8\""),
            ("::ffff:10.0.0.0/104", "is a network of IPv4: write \"10.0.0.0/8\""),
            ("::ffff:10.0.0.1", "is a network of IPv4: write \"10.0.0.1/32\""),
        ] {
            assert_eq!(peers(&[text]), Err(fix.to_owned()), "{text}");
        }
        for text in [
            "",
            "10.0.0.0/33",
            "proxy.example",
            "unix",
            "10.0.0.1:80",
            "010.0.0.0/8",
            "10.0.0.0/+8",
            "10.0.0.0-10.0.0.9",
        ] {
            let message = peers(&[text]).unwrap_err();
            assert!(
                message.starts_with("write an address, a network as in"),
                "{text}: {message}"
            );
        }
    }
}
