//! The other end of a connection, and how it came to the server.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;

use sluice_http::endpoints::{Endpoints, TlsInfo};

use crate::client_certificates::ShownCertificate;

/// The client of a connection, and the listener that accepted it.
pub struct Peer {
    pub(crate) endpoints: Cell<Endpoints>,
    /// Empty in clear text, and until the handshake is done.
    pub(crate) tls_info: OnceCell<Rc<TlsInfo>>,
    /// The number of its listener.
    pub(crate) listener: Cell<usize>,
    /// Empty if the handshake did not ask for a certificate.
    pub(crate) certificate: OnceCell<Box<ShownCertificate>>,
    /// The port to which every request is redirected, if any.
    pub(crate) https_port: Cell<Option<u16>>,
    /// The client is a proxy: which clients its requests come from is known only by these.
    pub(crate) is_proxy: Cell<bool>,
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

    /// The result of the TLS handshake. `None` in clear text.
    pub fn tls_info(&self) -> Option<&Rc<TlsInfo>> {
        self.tls_info.get()
    }

    /// The number of the listener that accepted the connection, in the order of the listeners.
    pub fn listener(&self) -> usize {
        self.listener.get()
    }

    /// The port of the same host to which requests are redirected instead of being served; `None` if they are served.
    pub fn https_port(&self) -> Option<u16> {
        self.https_port.get()
    }
}
