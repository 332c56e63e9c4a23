//! The address at which a hypothetical request arrives, and what a connection there shows of the client's certificate.

use std::net::IpAddr;

use sluice_http::host;
use sluice_settings::rule::{ClientCertificate, Scheme};
use sluice_settings::{ClientCertificates, ListenAddress, ListenSettings, SiteSettings};

use crate::serve::client::{HTTP_PORT, HTTPS_PORT};

/// The number of the address to which a client connects for a URL: that with its port and scheme. Of several, the one that the host names if it is an IP
/// address; otherwise one on which `is_served` holds. `None` if no address has the port, because a proxy or the router of a container may have it.
pub(super) fn listener_of(
    listen: &[ListenSettings],
    scheme: Scheme,
    host: &str,
    port: Option<u16>,
    is_served: impl Fn(usize) -> bool,
) -> Option<usize> {
    let port = port.unwrap_or(match scheme {
        Scheme::Http => HTTP_PORT,
        Scheme::Https => HTTPS_PORT,
    });
    let named = host::address(host);
    let is_candidate = |listen: &ListenSettings| {
        let ListenAddress::Inet(address) = &listen.address else {
            return false;
        };
        let may_reach = |named: IpAddr| address.ip().is_unspecified() || address.ip().to_canonical() == named;
        address.port() == port && listen.tls.is_some() == (scheme == Scheme::Https) && named.is_none_or(may_reach)
    };
    let numbered = || listen.iter().enumerate().filter(|(_, listen)| is_candidate(listen));
    let exact = |listen: &ListenSettings| named.is_some() && listen.address.ip().map(|ip| ip.to_canonical()) == named;
    numbered()
        .find(|(_, listen)| exact(listen))
        .or_else(|| numbered().find(|(number, _)| is_served(*number)))
        .or_else(|| numbered().next())
        .map(|(number, _)| number)
}

/// The state of the client's certificate that a connection shows: unknown in clear text, and if no handshake asks for it.
pub(super) fn shown(
    certificate: ClientCertificate,
    scheme: Scheme,
    listen: &[ListenSettings],
    listener: Option<usize>,
    site: &SiteSettings,
) -> ClientCertificate {
    let is_meant = |number: usize, listen: &ListenSettings| match listener {
        Some(listener) => number == listener,
        None => site.listen.is_empty() || site.listen.contains(&listen.address),
    };
    let asks = |listen: &ListenSettings| {
        listen
            .tls
            .as_ref()
            .is_some_and(|tls| site.client_authorities.is_some() || !matches!(tls.clients, ClientCertificates::Off))
    };
    let mut listen = listen.iter().enumerate();
    match scheme == Scheme::Https && listen.any(|(number, listen)| is_meant(number, listen) && asks(listen)) {
        true => certificate,
        false => ClientCertificate::NotAsked,
    }
}
