//! The host of a request: the target's authority or the field Host in, the name that sites are found by out.
//!
//! Properties: a host is a name or a literal in brackets, without user, port, path or blank; a literal is an IPv6 address in its
//! canonical form; a port changes nothing; the target's authority replaces the field.

use std::net::Ipv6Addr;

use http::{HeaderMap, HeaderValue, Uri, Version, header};
use sluice_http::host::host;

use crate::input::Input;

/// Input: a byte for the version, a line with the target, then a line for each field Host.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let version = [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2][usize::from(input.byte() % 3)];
    let uri = Uri::try_from(input.line()).unwrap_or_else(|_| Uri::from_static("/"));
    let mut fields = HeaderMap::new();
    while !input.is_empty() {
        if let Ok(value) = HeaderValue::from_bytes(input.line()) {
            fields.append(header::HOST, value);
        }
    }
    let sent: Vec<HeaderValue> = fields.get_all(header::HOST).iter().cloned().collect();
    let Ok(host) = host(version, &uri, &mut fields) else {
        return;
    };
    assert!(sent.len() <= 1, "two fields are refused");
    let named = match uri.authority() {
        Some(authority) => {
            assert_eq!(
                fields.get(header::HOST),
                HeaderValue::from_str(authority.as_str()).ok().as_ref()
            );
            authority.as_str()
        }
        None => sent
            .first()
            .map_or("", |value| value.to_str().expect("a host is ASCII")),
    };
    assert!(
        !sent.is_empty() || version != Version::HTTP_11,
        "HTTP/1.1 demands the field"
    );
    check_host(&host, named);
    if !named.contains(':') {
        check_port(&host, named);
    }
}

fn check_host(host: &str, named: &str) {
    let is_safe = |byte: u8| byte.is_ascii_graphic() && !b"/?#@<>\"\\^`{|}".contains(&byte);
    assert!(host.bytes().all(is_safe), "{host:?}");
    if let Some(literal) = host.strip_prefix('[') {
        let literal = literal.strip_suffix(']').expect("brackets are closed");
        let address: Ipv6Addr = literal.parse().expect("an IPv6 address");
        assert_eq!(address.to_string(), literal);
        return;
    }
    assert!(!host.contains([':', '[', ']']), "{host:?}");
    let (name, port) = named.split_once(':').unwrap_or((named, ""));
    assert!(port.bytes().all(|digit| digit.is_ascii_digit()), "{named:?}");
    assert_eq!(name.strip_suffix('.').unwrap_or(name), host);
}

/// The same host with a port is the same host.
fn check_port(expected: &str, named: &str) {
    if named.is_empty() {
        return;
    }
    for port in [":", ":80", ":65535"] {
        let value = HeaderValue::try_from(format!("{named}{port}")).expect("it was a value without the port");
        let mut fields = HeaderMap::from_iter([(header::HOST, value)]);
        let host = host(Version::HTTP_11, &Uri::from_static("/"), &mut fields);
        assert_eq!(host.ok().as_deref(), Some(expected), "{named}{port}");
    }
}
