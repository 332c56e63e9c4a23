//! The protocols of a listener: TLS, HTTP/2, the PROXY protocol, or a redirect to https.

use std::sync::Arc;

use rustls::server::ProducesTickets;
use sluice_settings::open_error::OpenError;
use sluice_settings::{ListenAddress, Peers, Settings};

use crate::tls::{self, ListenerTls};

/// The protocols of one listener; replaced as a whole on reload.
#[derive(Clone)]
pub struct ListenerProtocol {
    /// TLS. `None` in clear text.
    pub tls: Option<Arc<ListenerTls>>,
    /// Whether HTTP/2 is offered besides HTTP/1.1.
    pub http2: bool,
    /// The proxies that connections must come from, if they begin with a header of the PROXY protocol.
    pub proxy_protocol: Option<Arc<Peers>>,
    /// The port of the same host to which every request is redirected.
    pub redirect_to_https: Option<u16>,
}

/// The protocols of each listener, in the order of the settings. An error is the administrator's fault: a certificate or key.
pub fn open(settings: &Settings, tickets: &Arc<dyn ProducesTickets>) -> Result<Vec<ListenerProtocol>, OpenError> {
    let configs = tls::open(settings, tickets)?;
    let protocols = settings
        .listen
        .iter()
        .zip(configs)
        .map(|(listen, tls)| ListenerProtocol {
            tls: tls.map(Arc::new),
            http2: listen.http2,
            proxy_protocol: listen.proxy_protocol.clone().map(Arc::new),
            redirect_to_https: listen.redirect_to_https,
        });
    Ok(protocols.collect())
}

/// Sets the port of redirects to https where the system has chosen that port. `addresses` are the bound ones.
pub fn fill_in_port(protocols: &mut [ListenerProtocol], addresses: &[ListenAddress]) {
    let https = protocols
        .iter()
        .zip(addresses)
        .find(|(protocol, address)| protocol.tls.is_some() && address.port().is_some());
    let https = https.and_then(|(_, address)| address.port());
    let needs_port = |protocol: &&mut ListenerProtocol| protocol.redirect_to_https == Some(0);
    for redirecting in protocols.iter_mut().filter(needs_port) {
        redirecting.redirect_to_https = https;
    }
}
