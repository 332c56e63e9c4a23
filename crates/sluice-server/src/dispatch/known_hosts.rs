//! The hosts that requests of a worker have named, with their sites: clients send the same field Host, or authority, with each request.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use http::{HeaderMap, HeaderValue, Uri, Version, header};
use sluice_http::protocol::Protocol;

/// Hosts that are remembered. Each text has one place, by its bytes; another one with the same place replaces it.
const HOSTS: usize = 16;

/// The longest text that is remembered: a name and a port (RFC 1035 §2.3.4).
const TEXT_BYTES_MAX: usize = 262;

/// The hosts of the last requests, for one configuration `C`.
pub(crate) struct KnownHosts<C>(RefCell<Hosts<C>>);

struct Hosts<C> {
    /// The configuration that has chosen the sites. It is not held, because a replaced one is dropped with its last exchange.
    config: Weak<C>,
    hosts: [Option<Entry>; HOSTS],
}

struct Entry {
    listener: usize,
    known: Rc<KnownHost>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KnownHost {
    /// The text that names it, as the field Host of the request that scripts get.
    pub field: HeaderValue,
    /// The host as `sluice_http::host::host` reads it.
    pub host: Rc<str>,
    pub site: usize,
}

/// The text that names the host of a request: in HTTP/2 the authority of its target, if it has one, otherwise the field Host. `None` if there are several such
/// fields, or if the target of HTTP/1 has an authority.
pub(crate) fn text<'f>(version: Version, uri: &'f Uri, fields: &'f HeaderMap) -> Option<&'f [u8]> {
    let text = match uri.authority() {
        Some(authority) if version.is_multiplexed() => authority.as_str().as_bytes(),
        Some(_) => return None,
        None => fields.get(header::HOST)?.as_bytes(),
    };
    // Usually no field is there twice.
    let is_only = || fields.len() == fields.keys_len() || fields.get_all(header::HOST).iter().nth(1).is_none();
    (text.len() <= TEXT_BYTES_MAX && is_only()).then_some(text)
}

impl<C> Default for KnownHosts<C> {
    fn default() -> KnownHosts<C> {
        KnownHosts(RefCell::new(Hosts::of(Weak::new())))
    }
}

impl<C> Hosts<C> {
    fn of(config: Weak<C>) -> Hosts<C> {
        Hosts { config, hosts: Default::default() }
    }
}

impl<C> KnownHosts<C> {
    pub(crate) fn find(&self, config: &Rc<C>, listener: usize, text: &[u8]) -> Option<Rc<KnownHost>> {
        let hosts = self.0.borrow();
        if hosts.config.as_ptr() != Rc::as_ptr(config) {
            return None;
        }
        let entry = hosts.hosts[place(text)].as_ref()?;
        (entry.listener == listener && entry.known.field.as_bytes() == text).then(|| Rc::clone(&entry.known))
    }

    /// Remembers what the text in `known.field` leads to. It must name the host of its request, and the host be served on the listener.
    pub(crate) fn remember(&self, config: &Rc<C>, listener: usize, known: KnownHost) {
        let mut hosts = self.0.borrow_mut();
        if hosts.config.as_ptr() != Rc::as_ptr(config) {
            // As long as it is referred to, no other configuration has its address.
            *hosts = Hosts::of(Rc::downgrade(config));
        }
        let place = place(known.field.as_bytes());
        hosts.hosts[place] = Some(Entry { listener, known: Rc::new(known) });
    }
}

/// The place of a text. Not a good hash, but hosts of one server differ in length or at their ends.
fn place(text: &[u8]) -> usize {
    let byte = |at: Option<&u8>| at.copied().map_or(0, usize::from);
    let middle = text.get(text.len() / 2);
    (text.len() + byte(text.first()) + 3 * byte(text.last()) + 5 * byte(middle)) % HOSTS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(hosts: &[&'static str]) -> HeaderMap {
        let mut fields = HeaderMap::new();
        for host in hosts {
            fields.append(header::HOST, HeaderValue::from_static(host));
        }
        fields
    }

    fn known(text: &'static str) -> KnownHost {
        KnownHost {
            field: HeaderValue::from_static(text),
            host: "a.test".into(),
            site: 2,
        }
    }

    #[test]
    fn a_host_is_known_for_its_listener_and_configuration_alone() {
        let hosts = KnownHosts::default();
        let (first, second) = (Rc::new(1), Rc::new(1));
        assert_eq!(hosts.find(&first, 0, b"a.test"), None);
        hosts.remember(&first, 0, known("a.test"));
        assert_eq!(hosts.find(&first, 0, b"a.test").as_deref(), Some(&known("a.test")));
        assert_eq!(hosts.find(&first, 1, b"a.test"), None);
        assert_eq!(hosts.find(&first, 0, b"b.test"), None);
        assert_eq!(hosts.find(&second, 0, b"a.test"), None);
        hosts.remember(&second, 0, known("b.test"));
        assert_eq!(hosts.find(&first, 0, b"a.test"), None);
    }

    #[test]
    fn the_text_is_the_only_field_or_the_authority_of_http_2() {
        let path = Uri::from_static("/a");
        let of_path = |named: &[&'static str]| text(Version::HTTP_11, &path, &fields(named)).map(<[u8]>::to_vec);
        assert_eq!(of_path(&["a.test:80"]).unwrap(), b"a.test:80");
        assert_eq!(of_path(&["a.test", "a.test"]), None);
        assert_eq!(of_path(&[]), None);
        let whole = Uri::from_static("http://b.test/a");
        assert_eq!(text(Version::HTTP_11, &whole, &fields(&["a.test"])), None);
        for (named, expected) in [
            (&[][..], Some(&b"b.test"[..])),
            (&["a.test"], Some(b"b.test")),
            (&["a.test", "b.test"], None),
        ] {
            assert_eq!(text(Version::HTTP_2, &whole, &fields(named)), expected);
        }
        let long: &'static str = "a".repeat(TEXT_BYTES_MAX + 1).leak();
        assert_eq!(of_path(&[long]), None);
    }
}
