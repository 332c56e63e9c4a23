//! The other end of a connection, and how it came to the server.
//!
//! Here: addresses, the listener, and what the TLS handshake has shown. Not here: the socket (`stream`).

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use sluice_http::endpoints::{Endpoints, TlsInfo};

use crate::client_certificates::ShownCertificate;

/// The client of a connection, and the listener that accepted it.
pub struct Peer {
    endpoints: Cell<Endpoints>,
    /// Empty in clear text, and until the handshake is done.
    tls_info: OnceCell<Rc<TlsInfo>>,
    /// The number of its listener.
    listener: Cell<usize>,
    /// Empty if the handshake did not ask for a certificate.
    certificate: OnceCell<Box<ShownCertificate>>,
    /// The port to which every request is redirected, if any.
    https_port: Cell<Option<u16>>,
    /// The client is a proxy: which clients its requests come from is known only by these.
    is_proxy: Cell<bool>,
}

impl Peer {
    pub(crate) fn new(endpoints: Endpoints) -> Peer {
        Peer {
            endpoints: Cell::new(endpoints),
            tls_info: OnceCell::new(),
            listener: Cell::new(0),
            certificate: OnceCell::new(),
            https_port: Cell::new(None),
            is_proxy: Cell::new(false),
        }
    }

    /// The two ends of the connection: those of the socket, or those that a proxy has named (PROXY protocol).
    pub fn endpoints(&self) -> Endpoints {
        self.endpoints.get()
    }

    pub(crate) fn set_endpoints(&self, endpoints: Endpoints) {
        self.endpoints.set(endpoints);
    }

    /// Stores the result of the handshake; call it once.
    pub(crate) fn set_tls_info(&self, tls_info: TlsInfo) {
        let _ = self.tls_info.set(Rc::new(tls_info));
    }

    /// The result of the TLS handshake. `None` in clear text.
    pub fn tls_info(&self) -> Option<&Rc<TlsInfo>> {
        self.tls_info.get()
    }

    /// Stores what the client has shown of its certificate; call it once.
    pub(crate) fn set_certificate(&self, certificate: ShownCertificate) {
        let _ = self.certificate.set(Box::new(certificate));
    }

    /// The part of its certificate that the client has shown. `None` if the handshake did not ask for it.
    pub(crate) fn certificate(&self) -> Option<&ShownCertificate> {
        self.certificate.get().map(|certificate| &**certificate)
    }

    pub(crate) fn set_listener(&self, listener: usize) {
        self.listener.set(listener);
    }

    /// The number of the listener that accepted the connection, in the order of the listeners.
    pub fn listener(&self) -> usize {
        self.listener.get()
    }

    pub(crate) fn set_https_port(&self, port: Option<u16>) {
        self.https_port.set(port);
    }

    /// The port of the same host to which requests are redirected instead of being served; `None` if they are served.
    pub fn https_port(&self) -> Option<u16> {
        self.https_port.get()
    }

    /// Notes whether the client is a proxy whose requests name their clients.
    pub(crate) fn set_proxy(&self, is_proxy: bool) {
        self.is_proxy.set(is_proxy);
    }

    pub(crate) fn is_proxy(&self) -> bool {
        self.is_proxy.get()
    }
}
