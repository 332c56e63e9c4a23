//! Addresses as settings have them: where to listen, and whose connections are meant by a list of networks.
//!
//! Plain values, read and shown. Not here: binding (`accept::listener`), and what is believed of whom (`accept::proxies`).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

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
