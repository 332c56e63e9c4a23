//! The addresses of a connection, and the results of its TLS handshake: values that logs, routes and scripts share.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

/// The addresses of both ends of a connection, or of an exchange on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The client's address, for logs, scripts and routes; behind a trusted proxy the one that the proxy names.
    pub client: SocketAddr,
    /// The server's own address.
    pub server: SocketAddr,
    /// The client has connected to a unix socket and has no address of its own.
    pub is_unix: bool,
    /// Where the client's address comes from.
    pub named_by: NamedBy,
}

/// Where the address of a client comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The connection: the address of its other end.
    Connection,
    /// A proxy.
    Proxy,
    /// Nobody: a proxy has passed on a request without the address of its client. The address is the proxy's.
    Nobody,
}

impl Endpoints {
    /// The addresses of a unix socket's connection: loopback, as the client is on this machine and scripts need REMOTE_ADDR (RFC 3875 §4.1.8). Port 0: none.
    pub const UNIX: Endpoints = Endpoints {
        client: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        server: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        is_unix: true,
        named_by: NamedBy::Connection,
    };

    /// The address of the client, for rules about addresses. `None` if it is not known: behind a unix socket, or a proxy that does not
    /// name it. A loopback address that a proxy names belongs to the proxy's machine, and there usually to another proxy.
    pub fn known_client(&self) -> Option<IpAddr> {
        let client = self.client.ip();
        let is_known = match self.named_by {
            NamedBy::Connection => !self.is_unix,
            NamedBy::Proxy => !client.to_canonical().is_loopback(),
            NamedBy::Nobody => false,
        };
        is_known.then_some(client)
    }
}

/// The results of a TLS handshake.
#[derive(Debug)]
pub struct TlsInfo {
    /// The version of TLS: `TLSv1.3`.
    pub protocol: &'static str,
    /// Variables for scripts: name and value.
    pub variables: Vec<(&'static str, String)>,
}

/// The prefix of the variables about the client's certificate, and the one that says whether there is one.
const CLIENT: &str = "SSL_CLIENT_";
const CLIENT_VERIFY: &str = "SSL_CLIENT_VERIFY";

impl TlsInfo {
    /// The same TLS facts, without the client certificate: for a site whose authorities have not signed it.
    pub fn without_certificate(self: &Rc<TlsInfo>) -> Rc<TlsInfo> {
        let is_about_client = |name: &str| name.starts_with(CLIENT) && name != CLIENT_VERIFY;
        if !self.variables.iter().any(|(name, _)| is_about_client(name)) {
            return Rc::clone(self);
        }
        let kept = self.variables.iter().filter(|(name, _)| !is_about_client(name));
        let variables = kept.map(|(name, value)| match *name {
            CLIENT_VERIFY => (*name, "NONE".to_owned()),
            name => (name, value.clone()),
        });
        Rc::new(TlsInfo {
            protocol: self.protocol,
            variables: variables.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_of_the_client_itself_is_known() {
        let ends = |client: &str, named_by| Endpoints {
            client: SocketAddr::new(client.parse().unwrap(), 0),
            named_by,
            is_unix: false,
            ..Endpoints::UNIX
        };
        assert_eq!(Endpoints::UNIX.known_client(), None);
        for (client, named_by, is_known) in [
            ("127.0.0.1", NamedBy::Connection, true),
            ("192.0.2.7", NamedBy::Proxy, true),
            ("127.0.0.1", NamedBy::Proxy, false),
            ("::ffff:127.0.0.1", NamedBy::Proxy, false),
            ("::1", NamedBy::Proxy, false),
            ("192.0.2.7", NamedBy::Nobody, false),
        ] {
            assert_eq!(
                ends(client, named_by).known_client().is_some(),
                is_known,
                "{client} {named_by:?}"
            );
        }
    }
}
