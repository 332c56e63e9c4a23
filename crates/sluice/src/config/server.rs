//! `[server]`: from the section of the file to the server's settings.

use std::num::NonZeroUsize;

use sluice_server::settings::{ForwardedField, Peers, ProxySettings};

use super::default_workers;
use super::section::Section;

/// What stands in `[server]`.
pub(super) struct Server {
    pub(super) workers: NonZeroUsize,
    pub(super) proxies: ProxySettings,
}

pub(super) fn read(root: &Section<'_>) -> Server {
    let mut server = Server {
        workers: default_workers(),
        proxies: ProxySettings::default(),
    };
    let Some(section) = root.table("server") else {
        return server;
    };
    if let Some(workers) = section.number("workers").and_then(|read| NonZeroUsize::new(read.value)) {
        server.workers = workers;
    }
    if let Some(trusted) = read_peers(&section, "trusted_proxies") {
        server.proxies.trusted = trusted;
    }
    if let Some(forwarded) = section.choice("forwarded") {
        server.proxies.forwarded = match forwarded.value {
            "forwarded" => ForwardedField::Forwarded,
            _ => ForwardedField::XForwardedFor,
        };
        if !section.has("trusted_proxies") {
            section.refuse(
                "forwarded",
                "nobody's word is taken: add trusted_proxies, or remove this",
            );
        }
    }
    server
}

/// Addresses, networks and `unix:`; those that are none are noted and left out.
pub(super) fn read_peers(section: &Section<'_>, name: &'static str) -> Option<Peers> {
    let mut peers = Peers::default();
    for text in section.texts(name)? {
        if let Err(mend) = peers.add(&text.value) {
            let message = format!("{name}: \"{}\": {mend}", text.value.escape_debug());
            section.document.complain(text.line, message);
        }
    }
    Some(peers)
}
