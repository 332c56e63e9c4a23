//! Addresses as settings have them: where to listen, and whose connections are meant by a list of networks.
//!
//! Plain values, read and shown. Not here: binding (`accept::listener`), and what is believed of whom (`accept::client`).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use sluice_http::endpoints::Endpoints;

/// What stands before the path of a unix socket.
pub const UNIX: &str = "unix:";

/// Bytes of the path of a unix socket: `sun_path` has one more, for the NUL (unix(7)).
pub const UNIX_PATH_BYTES_MAX: usize = 107;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// Address and port; port 0 lets the system choose.
    Inet(SocketAddr),
    /// A unix socket, by the file that clients connect to.
    Unix(PathBuf),
}

impl ListenAddress {
    /// The address, where it is one of a network.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            ListenAddress::Inet(address) => Some(address.ip()),
            ListenAddress::Unix(_) => None,
        }
    }

    /// The port, where there is one.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            ListenAddress::Inet(address) => Some(address.port()),
            ListenAddress::Unix(_) => None,
        }
    }

    /// The file of a unix socket.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            ListenAddress::Inet(_) => None,
            ListenAddress::Unix(path) => Some(path),
        }
    }

    /// Whether two would be one: a port that the system is to choose is another each time.
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

/// Whose connections are meant: those from some networks, and those to unix sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    networks: Vec<IpNet>,
    has_unix: bool,
}

impl Peers {
    /// Adds an address, a network (`10.0.0.0/8`) or `unix:`.
    ///
    /// # Errors
    /// It is none of these: what to write instead.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        if text == UNIX {
            self.has_unix = true;
            return Ok(());
        }
        let network = match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address),
            Err(_) => text.parse().map_err(
                |_| "write an address, a network as in \"10.0.0.0/8\", or \"unix:\" for all who come by a unix socket",
            )?,
        };
        if network.trunc() != network {
            return Err(format!("has bits after its prefix: write \"{}\"", network.trunc()));
        }
        // Such addresses are known as IPv4.
        if let IpNet::V6(network) = network
            && let Some(address) = network.addr().to_ipv4_mapped()
        {
            let length = network.prefix_len().saturating_sub(96);
            return Err(format!("is a network of IPv4: write \"{address}/{length}\""));
        }
        self.networks.push(network);
        Ok(())
    }

    /// Nobody is meant.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && !self.has_unix
    }

    /// Whether the address is in one of the networks.
    #[must_use]
    pub fn has_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// Whether connections to unix sockets are meant.
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

/// Whether a list of peers has the client's end of a connection.
pub fn are_meant(peers: &Peers, ends: &Endpoints) -> bool {
    if ends.is_unix {
        peers.has_unix()
    } else {
        peers.has_address(ends.client.ip())
    }
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
    fn networks_have_their_addresses_in_either_form() {
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
    fn unix_sockets_are_meant_only_by_their_name() {
        let peers = peers(&["unix:"]).unwrap();
        assert!(peers.has_unix() && !peers.is_empty() && !peers.has_address(IpAddr::from([127, 0, 0, 1])));
        assert!(!super::tests::peers(&["0.0.0.0/0", "::/0"]).unwrap().has_unix());
    }

    #[test]
    fn what_is_no_network_is_told_its_mend() {
        for (text, mend) in [
            ("10.0.0.1/8", "has bits after its prefix: write \"10.0.0.0/8\""),
            ("::ffff:10.0.0.0/104", "is a network of IPv4: write \"10.0.0.0/8\""),
            ("::ffff:10.0.0.1", "is a network of IPv4: write \"10.0.0.1/32\""),
        ] {
            assert_eq!(peers(&[text]), Err(mend.to_owned()), "{text}");
        }
        for text in [
            "",
            "10.0.0.0/33",
            "proxy.example",
            "unix",
            "10.0.0.1:80",
            "10.0.0.0-10.0.0.9",
        ] {
            let told = peers(&[text]).unwrap_err();
            assert!(told.starts_with("write an address, a network as in"), "{text}: {told}");
        }
    }
}
