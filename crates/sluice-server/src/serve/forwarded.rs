//! What proxies say of the client before them: `X-Forwarded-For`, or `Forwarded` (RFC 7239).
//!
//! Each proxy adds, at the end, the address that it was spoken to from; what stands before it is what that one has said. So the
//! lists are read from their end, and only as far as the addresses are those of proxies that are trusted: the first other one is
//! the client, and what stands before it anybody can have written. Not here: whether the one that sent them is trusted (`client`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName, HeaderValue};
use sluice_settings::{ForwardedField, ProxySettings};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Proxies in a row that are looked through; the one at the bound is taken for the client.
const PROXIES_MAX: usize = 32;

/// What is believed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ForwardedClient {
    /// The client; port 0 where none is told.
    pub client: Option<SocketAddr>,
    /// Whether it speaks https.
    pub is_https: Option<bool>,
}

/// Reads what a trusted proxy has sent: fields that it has added to or passed on.
#[must_use]
pub fn read(settings: &ProxySettings, fields: &HeaderMap) -> ForwardedClient {
    let mut told = ForwardedClient::default();
    match settings.forwarded {
        ForwardedField::XForwardedFor => {
            follow(settings, elements(fields, &X_FORWARDED_FOR), |address| {
                told.client = Some(node(address)?);
                told.client
            });
            let scheme = elements(fields, &X_FORWARDED_PROTO).next();
            told.is_https = scheme.as_deref().and_then(is_https);
        }
        ForwardedField::Forwarded => follow(settings, elements(fields, &FORWARDED), |element| {
            let hop = forwarded_element(element)?;
            told = hop;
            told.client
        }),
    }
    told
}

/// Reads elements as long as they tell the address of a trusted proxy.
fn follow(
    settings: &ProxySettings,
    elements: impl Iterator<Item = String>,
    mut read: impl FnMut(&str) -> Option<SocketAddr>,
) {
    for element in elements.take(PROXIES_MAX) {
        match read(&element) {
            Some(address) if settings.trusted.has_address(address.ip()) => {}
            _ => return,
        }
    }
}

/// The elements of a list, which may stand in several fields (RFC 9110 §5.3), the last first. Empty ones are none (§5.6.1).
fn elements(fields: &HeaderMap, name: &HeaderName) -> impl Iterator<Item = String> {
    let lines = fields.get_all(name).iter().rev().map(HeaderValue::as_bytes);
    lines
        .flat_map(FromEnd)
        // Bytes that are no text are an element's own affair: proxies add to the line that a client has begun with them.
        .map(|element| String::from_utf8_lossy(element).trim_matches([' ', '\t']).to_owned())
        .filter(|element| !element.is_empty())
}

/// Cuts a list at its commas, from its end: a quote that a client has opened and not closed is met last, and hides nothing that
/// a proxy has added.
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

/// Whether an odd number of backslashes stands before a byte.
fn is_escaped(bytes: &[u8], at: usize) -> bool {
    let backslashes = bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
    backslashes % 2 == 1
}

/// `for=192.0.2.60;proto=https;by=203.0.113.43` (RFC 7239 §4). None where it names no address, or is none.
fn forwarded_element(element: &str) -> Option<ForwardedClient> {
    let (mut client, mut scheme) = (None, None);
    let mut rest = element;
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let (value, after) = value(after)?;
        let place = match name.trim_matches([' ', '\t']) {
            name if name.eq_ignore_ascii_case("for") => Some(&mut client),
            name if name.eq_ignore_ascii_case("proto") => Some(&mut scheme),
            _ => None,
        };
        // A parameter stands once (§4).
        if let Some(place) = place
            && place.replace(value).is_some()
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

/// A token or a quoted string (RFC 9110 §5.6.4), and what follows it.
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

/// An address with or without a port: `192.0.2.43`, `192.0.2.43:47011`, `[2001:db8::17]:47011`, and `2001:db8::17`, which stands
/// in `X-Forwarded-For`. `unknown` and made-up names (RFC 7239 §6.2, §6.3) are none.
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

/// A number, or a made-up name for it (RFC 7239 §6.3), which is no number that could be told.
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
