//! Parses the fields in which proxies name the client: `X-Forwarded-For`, or `Forwarded` (RFC 7239).
//!
//! Each proxy appends the address of its own client to the list that it has received. So the lists are read from their end, as long as the addresses
//! are those of trusted proxies: the first other address is the client. Anybody can have written the elements before it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName, HeaderValue};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Largest number of elements that are read; if all are trusted proxies, the last one read is the client.
const PROXIES_MAX: usize = 32;

/// The field in which a proxy names its client. Only one is used: a proxy passes on the other as its client sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedField {
    /// `X-Forwarded-For` and `X-Forwarded-Proto`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// The statements of trusted proxies about the client.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ForwardedClient {
    /// The client's address; port 0 if unknown.
    pub client: Option<SocketAddr>,
    /// Whether the client uses https; `None` if unknown.
    pub is_https: Option<bool>,
}

/// Reads the field `named` that a trusted proxy has sent: it wrote it, or appended to it. `is_trusted` says which addresses are those of proxies.
pub fn read(named: ForwardedField, is_trusted: impl Fn(IpAddr) -> bool, fields: &HeaderMap) -> ForwardedClient {
    let mut forwarded = ForwardedClient::default();
    match named {
        ForwardedField::XForwardedFor => {
            follow(is_trusted, elements(fields, &X_FORWARDED_FOR), |address| {
                forwarded.client = Some(node(address)?);
                forwarded.client
            });
            let scheme = elements(fields, &X_FORWARDED_PROTO).next();
            forwarded.is_https = scheme.as_deref().and_then(is_https);
        }
        ForwardedField::Forwarded => follow(is_trusted, elements(fields, &FORWARDED), |element| {
            forwarded = forwarded_element(element)?;
            forwarded.client
        }),
    }
    forwarded
}

/// Calls `read` for each element, up to and including the first that is not the address of a trusted proxy.
fn follow(
    is_trusted: impl Fn(IpAddr) -> bool,
    elements: impl Iterator<Item = String>,
    mut read: impl FnMut(&str) -> Option<SocketAddr>,
) {
    for element in elements.take(PROXIES_MAX) {
        match read(&element) {
            Some(address) if is_trusted(address.ip()) => {}
            _ => return,
        }
    }
}

/// The elements of a list, the last first, of all its fields (RFC 9110 §5.3), without empty ones (§5.6.1).
fn elements(fields: &HeaderMap, name: &HeaderName) -> impl Iterator<Item = String> {
    let lines = fields.get_all(name).iter().rev().map(HeaderValue::as_bytes);
    lines
        .flat_map(FromEnd)
        // Invalid UTF-8 makes only its own element invalid, because proxies append to the line that a client has sent.
        .map(|element| String::from_utf8_lossy(element).trim_matches([' ', '\t']).to_owned())
        .filter(|element| !element.is_empty())
}

/// Splits a list at its commas, from its end: an open quotation mark of a client does not hide what a proxy has appended.
struct FromEnd<'a>(&'a [u8]);

impl<'a> Iterator for FromEnd<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let bytes = self.0;
        let mut is_quoted = false;
        for (at, byte) in bytes.iter().enumerate().rev() {
            match byte {
                b'"' if !(is_quoted && is_escaped(bytes, at)) => is_quoted = !is_quoted,
                b',' if !is_quoted => {
                    let element = &self.0[at + 1..];
                    self.0 = &self.0[..at];
                    return Some(element);
                }
                _ => {}
            }
        }
        Some(std::mem::take(&mut self.0))
    }
}

/// Whether the byte at `at` follows an odd number of backslashes.
fn is_escaped(bytes: &[u8], at: usize) -> bool {
    let backslashes = bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
    backslashes % 2 == 1
}

/// Parses `for=192.0.2.60;proto=https;by=203.0.113.43` (RFC 7239 §4). `None` if it is invalid or has no address.
fn forwarded_element(element: &str) -> Option<ForwardedClient> {
    let (mut client, mut scheme) = (None, None);
    let mut rest = element;
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let (value, after) = value(after)?;
        let parameter = match name.trim_matches([' ', '\t']) {
            name if name.eq_ignore_ascii_case("for") => Some(&mut client),
            name if name.eq_ignore_ascii_case("proto") => Some(&mut scheme),
            _ => None,
        };
        // A parameter must not occur twice (§4).
        if let Some(parameter) = parameter
            && parameter.replace(value).is_some()
        {
            return None;
        }
        rest = match after.trim_start_matches([' ', '\t']) {
            "" => "",
            after => after.strip_prefix(';')?,
        };
    }
    Some(ForwardedClient {
        client: Some(node(&client?)?),
        is_https: scheme.as_deref().and_then(is_https),
    })
}

/// Splits off a token or a quoted string (RFC 9110 §5.6.4); returns its value and the rest.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([';', ' ', '\t']).unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(letters.next()?.1),
            letter => value.push(letter),
        }
    }
    None
}

/// Parses an address with or without a port: `192.0.2.43`, `192.0.2.43:47011`, `[2001:db8::17]:47011`, and `2001:db8::17`,
/// which occurs in `X-Forwarded-For`. `None` for `unknown` and obfuscated identifiers (RFC 7239 §6.2, §6.3).
fn node(text: &str) -> Option<SocketAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(address.to_canonical(), 0));
    }
    let (address, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            (IpAddr::V6(address.parse::<Ipv6Addr>().ok()?), port)
        }
        None => {
            let (address, port) = text.split_at(text.find(':')?);
            (IpAddr::V4(address.parse::<Ipv4Addr>().ok()?), port)
        }
    };
    let port = match port {
        "" => 0,
        port => self::port(port.strip_prefix(':')?)?,
    };
    Some(SocketAddr::new(address.to_canonical(), port))
}

/// Parses a port. An obfuscated port (RFC 7239 §6.3) is valid, but unknown: 0.
fn port(text: &str) -> Option<u16> {
    match text.strip_prefix('_') {
        Some(name) if !name.is_empty() => Some(0),
        _ if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

fn is_https(scheme: &str) -> Option<bool> {
    match scheme {
        scheme if scheme.eq_ignore_ascii_case("https") => Some(true),
        scheme if scheme.eq_ignore_ascii_case("http") => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
