//! The two ends of a connection, and what TLS found out about it: values that logs, rules and scripts share.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The two ends of a connection, or of an exchange on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The client's address, by which logs, scripts and rules know it.
    pub client: SocketAddr,
    pub server: SocketAddr,
    /// The client has connected to a unix socket, and has no address of its own.
    pub is_unix: bool,
}

impl Endpoints {
    /// The ends of a connection to a unix socket. Its client is a process of this machine: so that is its address, as scripts
    /// must have one (RFC 3875 §4.1.8). No port is 0.
    pub const UNIX: Endpoints = Endpoints {
        client: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        server: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        is_unix: true,
    };
}

/// What TLS has found out.
#[derive(Debug)]
pub struct TlsInfo {
    /// Variables for scripts, by their names.
    pub variables: Vec<(&'static str, String)>,
}
