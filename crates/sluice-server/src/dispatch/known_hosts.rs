//! The hosts that requests of a worker have named, with their sites: clients send the same field Host with each request.
//!
//! Here: finding the field again, by its bytes. Not here: reading it for the first time (`serve::request`, `sluice_http::host`), and what depends on
//! the connection, such as the client's certificate.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use http::{HeaderMap, HeaderValue, Uri, header};

/// Hosts that are remembered. Each field has one place, by its bytes; another one with the same place replaces it.
const HOSTS: usize = 16;

/// The longest field that is remembered: a name and a port (RFC 1035 §2.3.4).
const FIELD_BYTES_MAX: usize = 262;

/// The hosts of the last requests, for one configuration `C`.
pub(crate) struct KnownHosts<C>(RefCell<Hosts<C>>);

struct Hosts<C> {
    /// The configuration that has chosen the sites. It is not held, because a replaced one is dropped with its last exchange.
    config: Weak<C>,
    hosts: [Option<Entry>; HOSTS],
}

struct Entry {
    field: Box<[u8]>,
    /// The number of the listener.
    listener: usize,
    known: KnownHost,
}

/// A host that is served, and its site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownHost {
    /// The host as `sluice_http::host::host` reads it.
    pub host: Rc<str>,
    /// The number of its site.
    pub site: usize,
}

/// The field Host that names the host of a request; `None` if its target does, or if there is not exactly one field.
pub(crate) fn field<'f>(uri: &Uri, fields: &'f HeaderMap) -> Option<&'f HeaderValue> {
    if uri.authority().is_some() {
        return None;
    }
    let mut hosts = fields.get_all(header::HOST).iter();
    let field = hosts.next().filter(|field| field.len() <= FIELD_BYTES_MAX)?;
    hosts.next().is_none().then_some(field)
}

impl<C> Default for KnownHosts<C> {
    fn default() -> KnownHosts<C> {
        KnownHosts(RefCell::new(Hosts::of(Weak::new())))
    }
}

impl<C> Hosts<C> {
    fn of(config: Weak<C>) -> Hosts<C> {
        Hosts {
            config,
            hosts: Default::default(),
        }
    }
}

impl<C> KnownHosts<C> {
    /// The host and site that this field has led to before, on this listener and by this configuration.
    pub(crate) fn find(&self, config: &Rc<C>, listener: usize, field: &[u8]) -> Option<KnownHost> {
        let hosts = self.0.borrow();
        if hosts.config.as_ptr() != Rc::as_ptr(config) {
            return None;
        }
        let entry = hosts.hosts[place(field)].as_ref()?;
        (entry.listener == listener && *entry.field == *field).then(|| entry.known.clone())
    }

    /// Remembers what a field leads to. The field must name the host of its request, and the host be served on the listener.
    pub(crate) fn remember(&self, config: &Rc<C>, listener: usize, field: &[u8], known: &KnownHost) {
        let mut hosts = self.0.borrow_mut();
        if hosts.config.as_ptr() != Rc::as_ptr(config) {
            // As long as it is referred to, no other configuration has its address.
            *hosts = Hosts::of(Rc::downgrade(config));
        }
        hosts.hosts[place(field)] = Some(Entry {
            field: field.into(),
            listener,
            known: known.clone(),
        });
    }
}

/// The place of a field. Not a good hash, but hosts of one server differ in length or at their ends.
fn place(field: &[u8]) -> usize {
    let byte = |at: Option<&u8>| at.copied().map_or(0, usize::from);
    let middle = field.get(field.len() / 2);
    (field.len() + byte(field.first()) + 3 * byte(field.last()) + 5 * byte(middle)) % HOSTS
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

    #[test]
    fn a_host_is_known_for_its_listener_and_configuration_alone() {
        let hosts = KnownHosts::default();
        let (first, second) = (Rc::new(1), Rc::new(1));
        let known = KnownHost {
            host: "a.test".into(),
            site: 2,
        };
        assert_eq!(hosts.find(&first, 0, b"a.test"), None);
        hosts.remember(&first, 0, b"a.test", &known);
        assert_eq!(hosts.find(&first, 0, b"a.test"), Some(known.clone()));
        assert_eq!(hosts.find(&first, 1, b"a.test"), None);
        assert_eq!(hosts.find(&first, 0, b"b.test"), None);
        assert_eq!(hosts.find(&second, 0, b"a.test"), None);
        hosts.remember(&second, 0, b"b.test", &known);
        assert_eq!(hosts.find(&first, 0, b"a.test"), None);
    }

    #[test]
    fn the_field_names_the_host_if_it_is_the_only_one_and_the_target_has_none() {
        let path = Uri::from_static("/a");
        assert_eq!(field(&path, &fields(&["a.test:80"])).unwrap(), "a.test:80");
        assert_eq!(field(&path, &fields(&["a.test", "a.test"])), None);
        assert_eq!(field(&path, &fields(&[])), None);
        assert_eq!(field(&Uri::from_static("http://b.test/a"), &fields(&["a.test"])), None);
        let long: &'static str = "a".repeat(FIELD_BYTES_MAX + 1).leak();
        assert_eq!(field(&path, &fields(&[long])), None);
    }
}
