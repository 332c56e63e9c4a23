//! `[server]`: from the section of the file to the server's settings.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;

use sluice_settings::{DnsSettings, ForwardedField, Peers, ProxySettings};

use super::default_workers;
use super::script::put;
use super::section::Section;

/// Where name servers listen.
const DNS_PORT: u16 = 53;

/// What stands in `[server]`.
pub(super) struct Server {
    pub(super) workers: NonZeroUsize,
    pub(super) proxies: ProxySettings,
    pub(super) dns: Option<DnsSettings>,
}

pub(super) fn read(root: &Section<'_>) -> Server {
    let mut server = Server {
        workers: default_workers(),
        proxies: ProxySettings::default(),
        dns: None,
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
    server.dns = read_dns(&section);
    server
}

fn read_dns(section: &Section<'_>) -> Option<DnsSettings> {
    let mut dns = DnsSettings {
        timeout: DnsSettings::TIMEOUT,
        server: None,
    };
    put(&mut dns.timeout, section.duration("dns_timeout"));
    if let Some(server) = section.text("dns_server") {
        dns.server = parse_server(&server.value);
        if dns.server.is_none() {
            let message =
                "must be an address, as in \"192.0.2.53\", or one with its port, \"192.0.2.53:5353\" or \"[::1]:5353\"";
            section.refuse("dns_server", message);
        }
    }
    let is_on = section.flag("dns_lookup").is_some_and(|flag| flag.value);
    for name in ["dns_timeout", "dns_server"] {
        if section.has(name) && !section.has("dns_lookup") {
            section.refuse(name, "is for dns_lookup = true: add that, or remove this");
        }
    }
    if is_on && !cfg!(feature = "reverse-dns") {
        let message =
            "this program was built without the cargo feature reverse-dns: build it with that, or remove this";
        section.refuse("dns_lookup", message);
    }
    is_on.then_some(dns)
}

fn parse_server(text: &str) -> Option<SocketAddr> {
    let address = text.parse().map(|address: IpAddr| SocketAddr::new(address, DNS_PORT));
    address
        .ok()
        .or_else(|| text.parse().ok())
        .filter(|server| server.port() != 0)
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
