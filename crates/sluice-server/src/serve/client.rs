//! The client of a request: its address and name, its scheme, and the server port that it addressed.
//!
//! They come from the connection or, if that is the connection of a trusted proxy, from the proxy's header fields. All later stages use `exchange.client`.

use std::future::Future;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, Uri, header};
use sluice_http::endpoints::{Endpoints, NamedBy, TlsInfo};
use sluice_http::forwarded::{self, ForwardedClient};
use sluice_net::connection::Connection;
use sluice_settings::ProxySettings;
use sluice_settings::rule::Scheme;

use sluice_net::reverse_dns::{Lookup, ReverseDns};

/// The default ports of the schemes (RFC 9110 §4.2), which URLs omit.
pub(crate) const HTTP_PORT: u16 = 80;
pub(crate) const HTTPS_PORT: u16 = 443;

pub(crate) struct Client {
    pub endpoints: Endpoints,
    /// The address at the other end of the connection: the client, or a proxy that forwards for it.
    pub peer: IpAddr,
    /// Whether the client uses https, to this server or to the proxy.
    pub is_https: bool,
    pub is_forwarded: bool,
    pub tls_info: Option<Rc<TlsInfo>>,
    name: Option<Arc<Lookup>>,
}

impl Client {
    /// The client of a connection, before it has sent a request.
    pub(crate) fn unresolved(endpoints: Endpoints) -> Client {
        Client {
            endpoints,
            peer: endpoints.client.ip(),
            is_https: false,
            is_forwarded: false,
            tls_info: None,
            name: None,
        }
    }

    /// The client of a request: that of the connection, or the one that a trusted proxy names. Starts the lookup of its name if names are looked up.
    pub(crate) fn resolve(
        connection: &Connection,
        proxies: &ProxySettings,
        reverse_dns: Option<&ReverseDns>,
        head: &Parts,
    ) -> Client {
        let mut client = Client::unresolved(connection.peer.endpoints());
        client.tls_info = connection.peer.tls_info().cloned();
        let is_encrypted = client.tls_info.is_some();
        client.is_forwarded = proxies.trusted.contains(&client.endpoints);
        let forwarded = if client.is_forwarded {
            forwarded::read(proxies.forwarded, |ip| proxies.trusted.has_address(ip), &head.headers)
        } else {
            ForwardedClient::default()
        };
        client.is_https = forwarded.is_https.unwrap_or(is_encrypted);
        if client.endpoints.is_unix || client.is_https != is_encrypted {
            let port = requested_port(&head.uri, &head.headers, client.is_https);
            client.endpoints.server.set_port(port);
        }
        if client.is_forwarded {
            client.endpoints.named_by = NamedBy::Nobody;
        }
        if let Some(address) = forwarded.client {
            client.endpoints.client = address;
            client.endpoints.is_unix = false;
            client.endpoints.named_by = NamedBy::Proxy;
        }
        if !client.endpoints.is_unix {
            client.name = reverse_dns.and_then(|dns| dns.look_up(client.endpoints.client.ip()));
        }
        client
    }

    /// Whether it is a process of this machine that has connected itself, as far as addresses say.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        let address = self.endpoints.known_client();
        address.is_some_and(|ip| ip.to_canonical().is_loopback())
    }

    pub(crate) fn scheme(&self) -> Scheme {
        match self.is_https {
            true => Scheme::Https,
            false => Scheme::Http,
        }
    }

    /// Waits a little for the client's name; `None` if names are not looked up.
    pub(crate) fn name(&self) -> Option<impl Future<Output = Option<Arc<str>>> + use<>> {
        self.name.clone().map(Lookup::wait)
    }

    pub(crate) fn known_name(&self) -> Option<Arc<str>> {
        self.name.as_ref().and_then(|lookup| lookup.name())
    }
}

/// The port that the client addressed, for scripts' URLs. Replaces the connection's port if that is a proxy's or does not exist (unix socket).
fn requested_port(uri: &Uri, fields: &HeaderMap, is_https: bool) -> u16 {
    let from_host = || {
        let host = fields.get(header::HOST)?.to_str().ok()?;
        let (_, port) = host.rsplit_once(':')?;
        port.parse().ok()
    };
    let port = match uri.authority() {
        Some(authority) => authority.port_u16(),
        None => from_host(),
    };
    port.unwrap_or(if is_https { HTTPS_PORT } else { HTTP_PORT })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn requested_port_is_that_of_the_host_or_the_default_of_the_scheme() {
        for (uri, host, is_https, expected) in [
            ("/", Some("a.test:8080"), false, 8080),
            ("/", Some("a.test"), false, 80),
            ("/", Some("a.test"), true, 443),
            ("/", Some("[::1]"), false, 80),
            ("/", Some("[::1]:81"), false, 81),
            ("/", Some("a.test:99999"), true, 443),
            ("/", None, false, 80),
            ("http://b.test:82/", Some("a.test:81"), false, 82),
            ("http://b.test/", Some("a.test:81"), false, 80),
        ] {
            let mut fields = HeaderMap::new();
            fields.extend(host.map(|host| (header::HOST, HeaderValue::from_static(host))));
            assert_eq!(
                requested_port(&Uri::from_static(uri), &fields, is_https),
                expected,
                "{uri} {host:?}"
            );
        }
    }
}
