//! The demo site.
use std::net::SocketAddr;
use sluice_server::settings::Settings;

pub(crate) struct Site;
impl Site {
    pub(crate) fn unpack() -> Result<Site, String> {
        Err("not yet".into())
    }
    pub(crate) fn settings(&self, _listen: Vec<SocketAddr>) -> Settings {
        unreachable!()
    }
}
