//! Facts about the certificates of a configuration: the hosts of each, when it expires, and the hosts of sites that none covers.
//!
//! For the administrator: `status`, reports, warnings.

use std::net::IpAddr;

use rustls::pki_types::CertificateDer;
use sluice_settings::{IdentitySettings, IdentitySource, ListenSettings, Settings, SiteSettings};
use x509_parser::der_parser::oid;
use x509_parser::der_parser::oid::Oid;
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

use crate::tls::{certificates, read_pem};

/// Facts about a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The file, or a phrase for one that was made for this start.
    pub file: String,
    /// The host names and addresses that it is for.
    pub hosts: Vec<String>,
    /// When it expires, seconds since 1970.
    pub expires: u64,
}

/// The facts about each certificate of a configuration, in the order of addresses and then of sites, if it can be read.
pub fn certificate_facts(settings: &Settings) -> Vec<CertificateFacts> {
    let mut found: Vec<CertificateFacts> = Vec::new();
    for identity in identities(settings) {
        if let Some(facts) = facts_of(identity, settings)
            && !found.contains(&facts)
        {
            found.push(facts);
        }
    }
    found
}

/// The hosts of sites for which clients would get a certificate of other hosts, a line for each.
pub fn uncovered_hosts(settings: &Settings) -> Vec<String> {
    let mut lines = Vec::new();
    for listen in &settings.listen {
        let Some(tls) = &listen.tls else { continue };
        for site in settings.sites.iter().filter(|site| is_on(site, listen)) {
            for host in &site.hosts {
                let identity = identity_for(host, site, settings).unwrap_or(&tls.identity);
                let Some(facts) = facts_of(identity, settings) else {
                    continue;
                };
                if !facts.hosts.iter().any(|covered| covers(covered, host)) {
                    lines.push(format!(
                        "{}: no certificate covers {host}, so clients of https://{host}/ on {} refuse {} ({}): add the name to it, or give the site \
                         its own, tls = {{ certificate = \"…\", key = \"…\" }}",
                        site.origin,
                        listen.address,
                        facts.file,
                        shown(&facts.hosts)
                    ));
                }
            }
        }
    }
    lines.dedup();
    lines
}

/// Certificate files without the intermediate certificates that clients need, a line for each: the authority names the address of its own certificate in them
/// (RFC 5280 §4.2.2.1), as public ones do whose root does not sign servers itself, and the file has no other certificate.
pub fn incomplete_chains(settings: &Settings) -> Vec<String> {
    let mut lines = Vec::new();
    for identity in identities(settings) {
        let IdentitySource::Files { certificate, .. } = &identity.source else {
            continue;
        };
        let chain = read_pem(certificate, &settings.source).and_then(|text| certificates(&text));
        if let Ok([leaf]) = chain.as_deref()
            && names_issuer(leaf) == Some(true)
        {
            lines.push(format!(
                "{}: {} has the certificate without its chain, so most clients refuse it: append the intermediate certificates of the authority (certbot: use \
                 fullchain.pem, not cert.pem)",
                identity.origin,
                certificate.display()
            ));
        }
    }
    lines.dedup();
    lines
}

/// Whether a certificate that another one has signed names the address of that one.
fn names_issuer(certificate: &CertificateDer<'_>) -> Option<bool> {
    const AUTHORITY_INFORMATION: Oid<'_> = oid!(1.3.6.1.5.5.7.1.1);
    const ISSUERS: Oid<'_> = oid!(1.3.6.1.5.5.7.48.2);
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let extension = certificate.get_extension_unique(&AUTHORITY_INFORMATION).ok()??;
    let ParsedExtension::AuthorityInfoAccess(access) = extension.parsed_extension() else {
        return None;
    };
    let names_it = access.accessdescs.iter().any(|access| access.access_method == ISSUERS);
    Some(names_it && certificate.subject() != certificate.issuer())
}

/// The certificates of a configuration: those of its addresses, then those of its sites.
fn identities(settings: &Settings) -> impl Iterator<Item = &IdentitySettings> {
    let of_addresses = settings
        .listen
        .iter()
        .filter_map(|listen| Some(&listen.tls.as_ref()?.identity));
    of_addresses.chain(settings.sites.iter().filter_map(|site| site.identity.as_ref()))
}

fn shown(hosts: &[String]) -> String {
    const SHOWN_MAX: usize = 5;
    match hosts.len() {
        0 => "for no host".to_owned(),
        count if count > SHOWN_MAX => format!("for {} and {} more", hosts[..SHOWN_MAX].join(", "), count - SHOWN_MAX),
        _ => format!("for {}", hosts.join(", ")),
    }
}

fn is_on(site: &SiteSettings, listen: &ListenSettings) -> bool {
    site.listen.is_empty() || site.listen.contains(&listen.address)
}

/// The certificate of the site with this host, or of another one whose hosts include it by a wildcard.
fn identity_for<'a>(host: &str, site: &'a SiteSettings, settings: &'a Settings) -> Option<&'a IdentitySettings> {
    let by_wildcard = || {
        let others = settings.sites.iter().filter(|other| other.identity.is_some());
        let mut matching = others.filter(|other| {
            let mut suffixes = other.hosts.iter().filter_map(|pattern| pattern.strip_prefix('*'));
            suffixes.any(|suffix| host.len() > suffix.len() && host.ends_with(suffix))
        });
        matching.next()?.identity.as_ref()
    };
    site.identity.as_ref().or_else(by_wildcard)
}

fn facts_of(identity: &IdentitySettings, settings: &Settings) -> Option<CertificateFacts> {
    let (text, file) = match &identity.source {
        IdentitySource::Files { certificate, .. } => (
            read_pem(certificate, &settings.source).ok()?,
            certificate.display().to_string(),
        ),
        IdentitySource::Made { certificate, .. } => {
            (certificate.clone().into_bytes(), "the generated certificate".to_owned())
        }
    };
    let chain = certificates(&text).ok()?;
    parse(chain.first()?, file)
}

fn parse(leaf: &CertificateDer<'_>, file: String) -> Option<CertificateFacts> {
    let (_, certificate) = X509Certificate::from_der(leaf).ok()?;
    let mut hosts = Vec::new();
    if let Ok(Some(names)) = certificate.subject_alternative_name() {
        for name in &names.value.general_names {
            match name {
                GeneralName::DNSName(name) => hosts.push(name.to_ascii_lowercase()),
                GeneralName::IPAddress(bytes) => hosts.extend(address(bytes).map(|address| address.to_string())),
                _ => {}
            }
        }
    }
    Some(CertificateFacts {
        file,
        hosts,
        // One that has expired before 1970 has expired.
        expires: u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0),
    })
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let of_four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    of_four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// Whether a name of a certificate covers a host (RFC 6125 §6.4.3): a wildcard stands for one label. The wildcard of a site is covered by the same one.
fn covers(name: &str, host: &str) -> bool {
    let by_wildcard = || {
        let (label, rest) = host.split_once('.')?;
        Some(!label.is_empty() && label != "*" && name.strip_prefix("*.")? == rest)
    };
    name == host || host.trim_matches(['[', ']']) == name || by_wildcard().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_covers_one_label() {
        for (name, host, expected) in [
            ("example.org", "example.org", true),
            ("example.org", "www.example.org", false),
            ("*.example.org", "www.example.org", true),
            ("*.example.org", "a.b.example.org", false),
            ("*.example.org", "example.org", false),
            ("*.example.org", "*.example.org", true),
            ("www.example.org", "*.example.org", false),
            ("2001:db8::1", "[2001:db8::1]", true),
        ] {
            assert_eq!(covers(name, host), expected, "{name} {host}");
        }
    }
}
