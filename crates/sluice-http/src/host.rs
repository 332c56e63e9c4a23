//! The host that a request names: the target's authority or the field Host (RFC 9112 §3.2).

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Uri, Version, header};
use thiserror::Error;

use crate::protocol::Protocol;

/// Why a request names no valid host (400).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HostError {
    /// Several fields Host.
    #[error("field Host: more than one")]
    Several,
    /// HTTP/1.1 without the field Host.
    #[error("field Host: missing")]
    Missing,
    /// HTTP/2 with neither an authority in the target nor the field Host.
    #[error("field Host: missing, and the target names no host")]
    MissingEverywhere,
    /// The text is not a host with an optional port.
    #[error("field Host: not a host")]
    NotAHost,
    /// Brackets around what is not an IPv6 address.
    #[error("field Host: not an IPv6 address")]
    NotIpv6,
}

/// Reads the requested host, without port, from the target or the field Host, which HTTP/1.1 requires once (RFC 9112 §3.2). An error is the client's (400).
pub fn host(version: Version, uri: &Uri, fields: &mut HeaderMap) -> Result<String, HostError> {
    let mut hosts = fields.get_all(header::HOST).iter();
    let field = match (hosts.next(), hosts.next()) {
        (_, Some(_)) => return Err(HostError::Several),
        // In HTTP/2 the host is a part of the target (RFC 9113 §8.3.1).
        (None, None) if version == Version::HTTP_11 => return Err(HostError::Missing),
        (None, None) if version.is_multiplexed() && uri.authority().is_none() => {
            return Err(HostError::MissingEverywhere);
        }
        (field, None) => field,
    };
    if let Some(authority) = uri.authority() {
        let host = match plain_host(authority.as_str().as_bytes()) {
            Some(host) => host,
            None if is_host_and_port(authority) => authority.host(),
            None => return Err(HostError::NotAHost),
        };
        // The target's host replaces the field, for scripts too (RFC 9112 §3.2.2).
        if let Ok(value) = HeaderValue::from_str(authority.as_str()) {
            fields.insert(header::HOST, value);
        }
        return compared(host);
    }
    let text = field.map_or(&b""[..], HeaderValue::as_bytes);
    if text.is_empty() {
        return Ok(String::new());
    }
    if let Some(host) = plain_host(text) {
        return compared(host);
    }
    match Authority::try_from(text) {
        Ok(authority) if is_host_and_port(&authority) => compared(authority.host()),
        _ => Err(HostError::NotAHost),
    }
}

/// The host of a request as it is compared. No label of a name is empty (RFC 1034 §3.1), except that of the root at its end.
fn compared(host: &str) -> Result<String, HostError> {
    let host = as_compared(host).ok_or(HostError::NotIpv6)?;
    if host.is_empty() || host.starts_with('.') || host.ends_with('.') || host.contains("..") {
        return Err(HostError::NotAHost);
    }
    Ok(host.into_owned())
}

/// The host in the notation in which sites and routes compare it: `example.org.` and `[0:0::1]` become `example.org` and `[::1]`. Scripts get it as
/// sent, in HTTP_HOST. `None` for brackets around anything but an IPv6 address; the IPvFuture of RFC 3986 §3.2.2 has never been used.
pub fn as_compared(host: &str) -> Option<Cow<'_, str>> {
    let Some(literal) = host.strip_prefix('[') else {
        // The dot of the root (RFC 1034 §3.1).
        return Some(Cow::Borrowed(host.strip_suffix('.').unwrap_or(host)));
    };
    let address: Ipv6Addr = literal.strip_suffix(']')?.parse().ok()?;
    Some(Cow::Owned(format!("[{address}]")))
}

/// The address that a host is, if it is not a name.
pub fn address(host: &str) -> Option<IpAddr> {
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let address: Option<IpAddr> = literal.unwrap_or(host).parse().ok();
    // Only an IPv6 address is written in brackets, and only with them.
    address
        .filter(|address| address.is_ipv6() == literal.is_some())
        .map(|address| address.to_canonical())
}

/// Whether a host is this machine for every client on it: `localhost`, a name below it (RFC 6761 §6.3), or a loopback address.
pub fn is_local(host: &str) -> bool {
    const LOCALHOST: &str = "localhost";
    let last = host.rsplit('.').next().unwrap_or_default();
    last.eq_ignore_ascii_case(LOCALHOST) || address(host).is_some_and(|address| address.is_loopback())
}

/// The host of the usual case, found in one pass: a name or IPv4 address and perhaps a port. Otherwise `None`.
fn plain_host(text: &[u8]) -> Option<&str> {
    let is_name_byte = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let end = text.iter().position(|byte| !is_name_byte(byte)).unwrap_or(text.len());
    let (host, port) = text.split_at(end);
    let is_port = match port {
        [] => true,
        // Of five digits, the order of texts is that of numbers. More may begin with zeros: the full parser knows.
        [b':', digits @ ..] => {
            let is_in_range = digits.len() < 5 || (digits.len() == 5 && digits <= &b"65535"[..]);
            is_in_range && digits.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    };
    std::str::from_utf8(host)
        .ok()
        .filter(|host| is_port && !host.is_empty())
}

/// Whether an authority has no user information, and nothing, a colon or a port after the host (RFC 9110 §4.2.1).
///
/// `Authority` is more liberal. It accepts brackets anywhere, where RFC 3986 §3.2.2 allows them only around the whole host; it
/// takes the part before the first colon for the host even if that colon is inside brackets; and it accepts a port with a sign.
fn is_host_and_port(authority: &Authority) -> bool {
    let host = authority.host();
    if !host.starts_with('[') && host.contains(['[', ']']) {
        return false;
    }
    match authority.as_str().strip_prefix(host) {
        Some("" | ":") => true,
        Some(port) => {
            let digits = port.strip_prefix(':').unwrap_or_default();
            digits.bytes().all(|digit| digit.is_ascii_digit()) && digits.parse::<u16>().is_ok()
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_of_field(value: &'static str) -> Result<String, HostError> {
        let mut fields = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(value))]);
        host(Version::HTTP_11, &Uri::from_static("/"), &mut fields)
    }

    #[test]
    fn a_host_with_brackets_is_a_literal_as_a_whole() {
        assert_eq!(host_of_field("[0:0::1]:80").ok().as_deref(), Some("[::1]"));
        for value in ["v[x2.]", "a[::1]", "extra[::1]:80", "[::1]a", "a[]:80", ":[::1]a:443"] {
            assert!(host_of_field(value).is_err(), "{value}");
        }
    }

    #[test]
    fn no_label_of_a_host_is_empty() {
        for value in [".", "..", ".a", "a..", "a..b", "a..b:80", "a_b..c"] {
            assert!(host_of_field(value).is_err(), "{value}");
        }
        assert_eq!(host_of_field("a.b.:80").ok().as_deref(), Some("a.b"));
        assert_eq!(host_of_field("").ok().as_deref(), Some(""));
    }

    #[test]
    fn local_hosts_are_names_below_localhost_and_loopback_addresses() {
        for host in [
            "localhost",
            "LOCALHOST",
            "a.localhost",
            "127.0.0.1",
            "127.9.9.9",
            "[::1]",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "",
            "localhost.a.test",
            "127.0.0.1.a.test",
            "notlocalhost",
            "192.0.2.1",
            "[::2]",
            "::1",
            "[127.0.0.1]",
            "0.0.0.0",
            "2130706433",
            "0x7f.1",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn a_port_is_a_number_without_a_sign() {
        for value in ["a:", "a:0", "a_b:00443", "a:65535"] {
            assert!(host_of_field(value).is_ok(), "{value}");
        }
        for value in ["t:+0", "[::1]:+80", "a:65536", "a:-1", "a:8 0"] {
            assert!(host_of_field(value).is_err(), "{value}");
        }
    }

    #[test]
    fn a_host_found_in_one_pass_is_that_of_the_full_parser() {
        let hosts = ["a", "a.test", "127.0.0.1", "A-b.test.", ""];
        let ports = [
            "", ":", ":0", ":443", ":8080", ":00443", ":18081", ":65535", ":65536", ":70000", ":99999", ":1808a",
        ];
        let long = [":000443", ":123456", ":+8081", ":-8081"];
        for text in hosts
            .iter()
            .flat_map(|host| ports.iter().chain(&long).map(move |port| format!("{host}{port}")))
        {
            let parsed = Authority::try_from(text.as_str()).ok();
            let full = parsed.as_ref().filter(|authority| is_host_and_port(authority));
            if let Some(plain) = plain_host(text.as_bytes()) {
                assert_eq!(Some(plain), full.map(Authority::host), "{text}");
            }
        }
        // The usual case needs no full parser, whatever the number of the port.
        assert_eq!(plain_host(b"127.0.0.1:65535"), Some("127.0.0.1"));
    }

    #[test]
    fn a_target_with_brackets_inside_its_host_is_refused() {
        let uri = Uri::try_from("http://v[x2.]/").expect("the library accepts it");
        assert!(
            host(
                Version::HTTP_11,
                &uri,
                &mut HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("a"))])
            )
            .is_err()
        );
    }
}
