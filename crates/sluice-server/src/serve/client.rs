//! Who the client of a request is, and where it has come to: what the exchange says of both endpoints.
//!
//! Here: what a connection does not say by itself, and whose word is taken about it. Everything behind this file knows the client
//! by `exchange.endpoints.client` alone. Not here: the connection (`listener`, `protocol`), and what proxies write (`forwarded`).

use http::{HeaderMap, Uri, header};
use sluice_net::connection::Connection;
use sluice_settings::ProxySettings;
use sluice_settings::address::are_meant;

use crate::serve::exchange::Exchange;
use crate::serve::forwarded;
use crate::serve::forwarded::ForwardedClient;

/// The ports of the schemes (RFC 9110 §4.2), which addresses leave out.
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// Tells the exchange who its client is.
pub(crate) fn resolve_client(
    exchange: &mut Exchange,
    connection: &Connection,
    proxies: &ProxySettings,
    fields: &HeaderMap,
) {
    exchange.tls_info = connection.tls_info().cloned();
    let is_encrypted = exchange.tls_info.is_some();
    let told = if are_meant(&proxies.trusted, &exchange.endpoints) {
        forwarded::read(proxies, fields)
    } else {
        ForwardedClient::default()
    };
    exchange.is_https = told.is_https.unwrap_or(is_encrypted);
    if exchange.endpoints.is_unix || exchange.is_https != is_encrypted {
        let port = port_asked_for(&exchange.uri, fields, exchange.is_https);
        exchange.endpoints.server.set_port(port);
    }
    if let Some(client) = told.client {
        exchange.endpoints.client = client;
        exchange.endpoints.is_unix = false;
    }
    exchange.look_up_client();
}

/// The port that the client has asked for, where the connection's own is none or that of a proxy: scripts write it into addresses,
/// after the host, which is also the one that was asked for.
fn port_asked_for(uri: &Uri, fields: &HeaderMap, is_https: bool) -> u16 {
    let of_field = || {
        let host = fields.get(header::HOST)?.to_str().ok()?;
        let (_, port) = host.rsplit_once(':')?;
        port.parse().ok()
    };
    let port = match uri.authority() {
        Some(authority) => authority.port_u16(),
        None => of_field(),
    };
    port.unwrap_or(if is_https { HTTPS_PORT } else { HTTP_PORT })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_port_is_that_of_the_host_or_of_the_scheme() {
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
                port_asked_for(&Uri::from_static(uri), &fields, is_https),
                expected,
                "{uri} {host:?}"
            );
        }
    }
}
