//! The choice of the site for a host name: of a request (`Host`), or of a TLS handshake (SNI).
//!
//! Both are chosen here, so that a handshake asks for the certificate that the site of its requests wants.
//!
//! ```text
//! a site names the host ─▶ that site, on every address      its caller asks `is_on`
//! no site does          ─▶ the site for any host, or else the first one, of those that are served on the address
//! ```

use crate::address::ListenAddress;
use crate::settings::SiteSettings;

/// The host names and addresses of all sites, by the number of the site in the settings.
#[derive(Clone, Debug, Default)]
pub struct SiteNames {
    sites: Vec<Names>,
}

/// The host names of a site, and where it is served.
#[derive(Clone, Debug)]
struct Names {
    /// In lower case; empty for any host.
    hosts: Vec<String>,
    /// The numbers of its addresses; `None` for all.
    listeners: Option<Vec<usize>>,
}

/// How a site was chosen for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostMatch {
    /// The host is one of its names.
    Exact,
    /// The host is below one of its names.
    Wildcard,
    /// By a site without host names.
    AnyHost,
    /// By none: the first site serves the host.
    Default,
}

impl HostMatch {
    /// The reason of the choice, for people.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            HostMatch::Exact => "the host is one of its names",
            HostMatch::Wildcard => "the host is below one of its names",
            HostMatch::AnyHost => "no site has that name, and this one is for any host",
            HostMatch::Default => "no site has that name, and this is the first",
        }
    }
}

impl SiteNames {
    /// The names of these sites; a site's addresses become their numbers in `addresses`.
    #[must_use]
    pub fn new(sites: &[SiteSettings], addresses: &[ListenAddress]) -> SiteNames {
        let listeners = |site: &SiteSettings| {
            let numbers = addresses.iter().enumerate();
            let own = numbers.filter(|(_, address)| site.listen.contains(address));
            own.map(|(number, _)| number).collect()
        };
        let names = sites.iter().map(|site| Names {
            hosts: site.hosts.clone(),
            listeners: (!site.listen.is_empty()).then(|| listeners(site)),
        });
        SiteNames { sites: names.collect() }
    }

    /// The number of the site for a host, and how it was chosen. `listener` is the number of the address; without one, sites of every address are
    /// chosen. `None` if no site names the host, and none is served on the address.
    #[must_use]
    pub fn choose(&self, host: &str, listener: Option<usize>) -> Option<(usize, HostMatch)> {
        let is_here = |site: &Names| listener.is_none_or(|listener| site.is_on(listener));
        let find = |how: HostMatch, fits: &dyn Fn(&Names) -> bool| Some((self.sites.iter().position(fits)?, how));
        let exact = |site: &Names| site.hosts.iter().any(|name| name.eq_ignore_ascii_case(host));
        let wildcard = |site: &Names| site.hosts.iter().any(|name| is_below(host, name));
        find(HostMatch::Exact, &exact)
            .or_else(|| find(HostMatch::Wildcard, &wildcard))
            .or_else(|| find(HostMatch::AnyHost, &|site| site.hosts.is_empty() && is_here(site)))
            .or_else(|| find(HostMatch::Default, &is_here))
    }

    /// Whether a site is served on an address.
    #[must_use]
    pub fn is_on(&self, site: usize, listener: usize) -> bool {
        self.sites.get(site).is_some_and(|site| site.is_on(listener))
    }
}

impl Names {
    fn is_on(&self, listener: usize) -> bool {
        self.listeners.as_ref().is_none_or(|own| own.contains(&listener))
    }
}

/// Whether a host is one of these names, or below one.
#[must_use]
pub fn is_named(names: &[String], host: &str) -> bool {
    let mut names = names.iter();
    names.any(|name| name.eq_ignore_ascii_case(host) || is_below(host, name))
}

/// Whether the host is below a name: `*.example.org` stands for every host below example.org.
fn is_below(host: &str, name: &str) -> bool {
    name.strip_prefix('*').is_some_and(|suffix| {
        host.len() > suffix.len()
            && host
                .get(host.len() - suffix.len()..)
                .is_some_and(|end| end.eq_ignore_ascii_case(suffix))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sites: &[(&[&str], Option<&[usize]>)]) -> SiteNames {
        let sites = sites.iter().map(|(hosts, listeners)| Names {
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            listeners: listeners.map(<[_]>::to_vec),
        });
        SiteNames { sites: sites.collect() }
    }

    #[test]
    fn hosts_are_matched_exactly_then_by_wildcard_then_by_default() {
        let names = names(&[(&["one.example"], None), (&["*.example"], None), (&[], None)]);
        for (host, expected) in [
            ("one.example", (0, HostMatch::Exact)),
            ("ONE.example", (0, HostMatch::Exact)),
            ("two.example", (1, HostMatch::Wildcard)),
            ("a.b.example", (1, HostMatch::Wildcard)),
            ("example", (2, HostMatch::AnyHost)),
            ("", (2, HostMatch::AnyHost)),
        ] {
            assert_eq!(names.choose(host, Some(0)), Some(expected), "{host}");
        }
    }

    #[test]
    fn a_named_host_belongs_to_its_site_on_every_address_and_others_to_a_site_of_the_address() {
        let names = names(&[
            (&["admin.example"], Some(&[1])),
            (&["www.example"], None),
            (&[], Some(&[2])),
        ]);
        for (host, listener, expected) in [
            ("admin.example", 0, Some((0, HostMatch::Exact))),
            ("admin.example", 1, Some((0, HostMatch::Exact))),
            ("other.example", 0, Some((1, HostMatch::Default))),
            ("other.example", 1, Some((0, HostMatch::Default))),
            ("other.example", 2, Some((2, HostMatch::AnyHost))),
        ] {
            assert_eq!(names.choose(host, Some(listener)), expected, "{host} {listener}");
        }
        assert!(!names.is_on(0, 0) && names.is_on(0, 1) && names.is_on(1, 0) && !names.is_on(3, 0));
    }

    #[test]
    fn on_an_address_without_sites_no_site_is_chosen() {
        let names = names(&[(&[], Some(&[1]))]);
        assert_eq!(names.choose("a.example", Some(0)), None);
        assert_eq!(names.choose("a.example", None), Some((0, HostMatch::AnyHost)));
    }
}
