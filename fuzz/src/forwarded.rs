//! Forwarded and X-Forwarded-For: what proxies say of the client before them.
//!
//! Properties: whatever a client writes into the field before its request reaches the first trusted proxy, the address that this
//! proxy adds is found to be the client's; an address is in its canonical form.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::{HeaderMap, HeaderName, HeaderValue};
use sluice_http::forwarded::{ForwardedClient, ForwardedField, read};
use sluice_settings::ProxySettings;
use sluice_settings::address::Peers;

use crate::input::Input;

/// The fields of a client, and whether the trusted proxies write them on one line with theirs.
struct Client<'a> {
    fields: HeaderMap,
    shares_line: bool,
    address: SocketAddr,
    /// Text that the proxies repeat in quotes, such as the host.
    quoted: &'a str,
}

/// Input: a byte of flags (1: Forwarded, 2: fields on lines of their own, 4: IPv6, 8: with port; above: how many proxies), the
/// address and port, a line that proxies quote, then a line for each field of the client's.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let flags = input.byte();
    let settings = settings(flags);
    let name = match settings.forwarded {
        ForwardedField::Forwarded => HeaderName::from_static("forwarded"),
        ForwardedField::XForwardedFor => HeaderName::from_static("x-forwarded-for"),
    };
    let address = address(&mut input, flags);
    let quoted = str::from_utf8(input.line()).unwrap_or_default();
    let mut fields = HeaderMap::new();
    while !input.is_empty() {
        if let Ok(value) = HeaderValue::from_bytes(input.line()) {
            fields.append(name.clone(), value);
        }
    }
    let result = read_trusted(&settings, &fields);
    let found = result.client.map(|address| address.ip());
    assert_eq!(found, found.map(|address| address.to_canonical()));
    if settings.trusted.has_address(address.ip()) {
        return;
    }
    let client = Client {
        fields,
        shares_line: flags & 2 == 0,
        address,
        quoted,
    };
    let chain = chain(&client, settings.forwarded, flags >> 4);
    let result = read_trusted(&settings, &after_proxies(&client, &name, &chain));
    assert_eq!(result.client, Some(address), "behind {chain:?}");
    if settings.forwarded == ForwardedField::Forwarded {
        assert_eq!(result.is_https, Some(true));
    }
}

fn read_trusted(settings: &ProxySettings, fields: &HeaderMap) -> ForwardedClient {
    read(settings.forwarded, |ip| settings.trusted.has_address(ip), fields)
}

fn settings(flags: u8) -> ProxySettings {
    let mut trusted = Peers::default();
    for network in ["10.0.0.0/8", "fd00::/8"] {
        trusted.add(network).expect("a network");
    }
    let forwarded = if flags & 1 == 0 {
        ForwardedField::XForwardedFor
    } else {
        ForwardedField::Forwarded
    };
    ProxySettings { trusted, forwarded }
}

fn address(input: &mut Input<'_>, flags: u8) -> SocketAddr {
    let address: IpAddr = if flags & 4 == 0 {
        Ipv4Addr::from_bits(u32::from(input.short()) << 16 | u32::from(input.short())).into()
    } else {
        Ipv6Addr::from_bits(u128::from(input.long()) << 64 | u128::from(input.long())).into()
    };
    let port = if flags & 8 == 0 { 0 } else { input.short() };
    SocketAddr::new(address.to_canonical(), port)
}

/// The elements that the trusted proxies add: the first the client's address, each other one that of the proxy before it.
fn chain(client: &Client<'_>, field: ForwardedField, proxies: u8) -> String {
    let mut elements = vec![element(client, client.address, field)];
    for proxy in 0..proxies % 8 {
        let address = SocketAddr::from(([10, 0, 0, proxy], 0));
        elements.push(element(client, address, field));
    }
    elements.join(", ")
}

fn element(client: &Client<'_>, address: SocketAddr, field: ForwardedField) -> String {
    let node = match (address.port(), address.ip()) {
        (0, IpAddr::V4(address)) => address.to_string(),
        (0, IpAddr::V6(address)) if field == ForwardedField::Forwarded => format!("[{address}]"),
        (0, IpAddr::V6(address)) => address.to_string(),
        _ => address.to_string(),
    };
    if field == ForwardedField::XForwardedFor {
        return node;
    }
    let host: String = client.quoted.chars().filter(|letter| !letter.is_control()).collect();
    let host = host.replace('\\', "\\\\").replace('"', "\\\"");
    format!("for=\"{node}\";host=\"{host}\";proto=https")
}

/// The client's fields, and behind them what the proxies have added: to its last line, or on a line of their own.
fn after_proxies(client: &Client<'_>, name: &HeaderName, chain: &str) -> HeaderMap {
    let mut lines: Vec<Vec<u8>> = client
        .fields
        .get_all(name)
        .iter()
        .map(|value| value.as_bytes().to_vec())
        .collect();
    match lines.last_mut() {
        Some(last) if client.shares_line => {
            last.extend_from_slice(b", ");
            last.extend_from_slice(chain.as_bytes());
        }
        _ => lines.push(chain.as_bytes().to_vec()),
    }
    let value = |line: &Vec<u8>| HeaderValue::from_bytes(line).expect("no control characters");
    lines.iter().map(|line| (name.clone(), value(line))).collect()
}
