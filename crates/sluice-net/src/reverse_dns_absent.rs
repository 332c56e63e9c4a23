//! Reverse DNS in a program that is built without the cargo feature `reverse-dns`: there are no client names.
//!
//! Here: the types of `reverse_dns` without values, so that its callers need no conditions. Not here: the lookups
//! (`reverse_dns`).

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use sluice_settings::DnsSettings;

/// Never constructed.
pub struct ReverseDns(Infallible);

/// Never constructed.
pub struct Lookup(Infallible);

impl ReverseDns {
    /// Always fails with `Unsupported`; `sluice check` refuses such a configuration earlier.
    pub fn start(_: &DnsSettings) -> io::Result<ReverseDns> {
        let text = "this program was built without the cargo feature reverse-dns";
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }

    /// Cannot be called.
    pub fn look_up(&self, _: IpAddr) -> Option<Arc<Lookup>> {
        match self.0 {}
    }
}

impl Lookup {
    /// Cannot be called.
    pub fn name(&self) -> Option<Arc<str>> {
        match self.0 {}
    }

    /// Cannot be called.
    pub async fn wait(self: Arc<Self>) -> Option<Arc<str>> {
        match self.0 {}
    }
}
