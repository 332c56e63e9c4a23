//! Names of variables and of hosts: which are valid, and who may set them.
//!
//! These rules ensure that a request controls only the values of its own variables.

use std::net::Ipv6Addr;

use http::HeaderName;

/// The host in a `Host` field, without port: a name, an IPv4 address, or an IPv6 address in brackets (RFC 3875 §4.1.14). `None` if the field is not a
/// valid host, which is checked because scripts paste SERVER_NAME into pages and links.
pub fn host_name(host: &str) -> Option<&str> {
    let (name, port) = match host.find(']') {
        Some(bracket) => host.split_at(bracket + 1),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    let is_host = match name.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            !name.is_empty() && name.len() <= 255 && name.bytes().all(is_host_byte)
        }
    };
    (is_port && is_host).then_some(name)
}

/// Whether RFC 3875 §4.1 defines a request variable of this name; the name has no prefix.
pub(crate) fn is_of_rfc(name: &str) -> bool {
    const NAMES: [&str; 17] = [
        "AUTH_TYPE",
        "CONTENT_LENGTH",
        "CONTENT_TYPE",
        "GATEWAY_INTERFACE",
        "PATH_INFO",
        "PATH_TRANSLATED",
        "QUERY_STRING",
        "REMOTE_ADDR",
        "REMOTE_HOST",
        "REMOTE_IDENT",
        "REMOTE_USER",
        "REQUEST_METHOD",
        "SCRIPT_NAME",
        "SERVER_NAME",
        "SERVER_PORT",
        "SERVER_PROTOCOL",
        "SERVER_SOFTWARE",
    ];
    name.starts_with("HTTP_") || NAMES.contains(&name)
}

/// Whether a name belongs to the protocol between server and script, so that neither route nor environment may set it.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.starts_with("CGIPLUS") || name.starts_with("WWW_GATEWAY_")
}

/// Whether a name is valid in an environment (environ(7)) and in a request record.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0', '\n'])
}

pub(crate) fn becomes_variable(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is_withheld = matches!(
        name,
        // Programs would use HTTP_PROXY as their proxy (CVE-2016-5385).
        "proxy"
            // Secrets between client and server (RFC 3875 §4.1.18); AUTH_TYPE and REMOTE_USER have the result.
            | "authorization"
            | "proxy-authorization"
            // These have variables of their own.
            | "content-type"
            | "content-length"
            // About the connection, and about a framing that the script does not see.
            | "connection"
            | "transfer-encoding"
    );
    // Any other character, above all an underscore, could fold to the name of another field.
    !is_withheld && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Folds a byte to a character of a variable's name: upper case, and `_` for all but letters and digits.
pub(crate) fn folded(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() {
        byte.to_ascii_uppercase()
    } else {
        b'_'
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_host_loses_its_port() {
        for (host, name) in [
            ("example.org", "example.org"),
            ("example.org:8080", "example.org"),
            ("example.org:", "example.org"),
            ("192.0.2.1:80", "192.0.2.1"),
            ("[2001:db8::1]:443", "[2001:db8::1]"),
            ("[::1]", "[::1]"),
            ("my_host", "my_host"),
        ] {
            assert_eq!(host_name(host), Some(name));
        }
    }

    #[test]
    fn an_invalid_host_is_rejected() {
        for host in [
            "", ":80", "a b", "<b>", "a\"", "a:b", "::1", "[::1", "[x]", "[]", "[::1]x", "a]", "a/b", "a@b", "ä",
        ] {
            assert_eq!(host_name(host), None, "{host}");
        }
        assert_eq!(host_name(&"a".repeat(256)), None);
    }

    #[test]
    fn secret_and_ambiguous_fields_become_no_variables() {
        for name in [
            "proxy",
            "authorization",
            "connection",
            "content-type",
            "x_real_ip",
            "x.a",
            "x~a",
        ] {
            assert!(
                !becomes_variable(&HeaderName::from_bytes(name.as_bytes()).unwrap()),
                "{name}"
            );
        }
        for name in ["host", "x-real-ip", "proxy-status", "sec-websocket-version"] {
            assert!(
                becomes_variable(&HeaderName::from_bytes(name.as_bytes()).unwrap()),
                "{name}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_host_name_is_safe_in_html(host in "[\\PC]{0,20}|[a-z\\[\\]:.0-9<]{0,12}") {
            if let Some(name) = host_name(&host) {
                prop_assert!(host.starts_with(name));
                prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte)));
            }
        }
    }
}
