//! The names of clients in a program that is built without the cargo feature `reverse-dns`: there are none.
//!
//! Here: the types of `reverse_dns`, without values, so that its callers are the same in both programs. Not here: the lookups.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use sluice_settings::DnsSettings;

/// Never constructed.
pub(crate) struct Names(Infallible);

/// Never constructed.
pub(crate) struct Lookup(Infallible);

impl Names {
    /// The error is always `Unsupported`; `sluice check` refuses such a configuration before it comes to that.
    pub(crate) fn start(_: &DnsSettings) -> io::Result<Names> {
        let text = "this program was built without the cargo feature reverse-dns";
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }

    pub(crate) fn of(&self, _: IpAddr) -> Option<Arc<Lookup>> {
        match self.0 {}
    }
}

impl Lookup {
    pub(crate) fn name(&self) -> Option<Arc<str>> {
        match self.0 {}
    }

    pub(crate) async fn wait(self: Arc<Self>) -> Option<Arc<str>> {
        match self.0 {}
    }
}
