//! TLS: the configuration of rustls from certificates and keys in files, and the choice of a certificate for a client.
//!
//! rustls chooses the cipher suites, their order and all limits of the handshake (TLS 1.2 and 1.3, only with forward secrecy and authenticated
//! encryption). The keys of session tickets belong to the server, not to a configuration: a client can resume with any worker, and after a reload;
//! rustls rotates them. A configuration that asks for client certificates has ticket keys of its own, created again whenever certificates are read.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::SupportedProtocolVersion;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use sluice_settings::open_error::OpenError;
use sluice_settings::site_choice::SiteNames;
use sluice_settings::source::Source;
use sluice_settings::{
    AuthoritySettings, ClientCertificates, IdentitySettings, IdentitySource, ListenAddress, ListenSettings, Settings,
    TlsSettings,
};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::client_certificates::ClientAuthorities;

/// Plaintext bytes of the records that the server sends, 64 less than the most that is allowed (RFC 8446 §5.1). rustls copies them after the 5 bytes of
/// the record's header. With 16 KiB that would be 5 bytes after the same place of a page each time, which makes `rep movsb` fifteen times as slow on AMD's
/// Zen 3 and 4, where glibc 2.36 (Debian 12) uses it (glibc bug 30994; docs/internals/performance.md, "What can be gained over TLS").
pub(crate) const RECORD_BYTES: usize = (16 << 10) - 64;

/// Bytes of a record's header, which rustls counts as part of the fragment (RFC 8446 §5.1).
const RECORD_HEADER_BYTES: usize = 5;

/// Plaintext bytes that are encrypted before the socket takes any.
pub(crate) const ENCRYPTED_BYTES_MAX: usize = 4 * RECORD_BYTES;

/// Bytes of a file of certificates or keys, at most: a chain has some thousands, a list of all public CAs 250,000.
const PEM_BYTES_MAX: u64 = 4 << 20;

/// Bytes of a certificate with its chain, at most. Each handshake sends all of it, and OpenSSL's clients refuse more than 100 KiB.
const CHAIN_BYTES_MAX: usize = 100 << 10;

const TLS_1_3_ONLY: &[&SupportedProtocolVersion] = &[&TLS13];
const TLS_1_2_AND_1_3: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

/// Creates the keys of session tickets, for all workers. An error: the system has no random bytes.
pub fn tickets() -> Result<Arc<dyn ProducesTickets>, OpenError> {
    aws_lc_rs::Ticketer::new().map_err(|error| OpenError::new("", format!("TLS: {error}")))
}

/// TLS on one listener. What a handshake asks of a client depends on the site whose host the client names (SNI).
pub struct ListenerTls {
    names: Arc<SiteNames>,
    /// The number of the listener in `names`.
    listener: usize,
    /// The configuration for sites without authorities of their own.
    default: Arc<HandshakeConfig>,
    /// The configurations for sites with authorities of their own, by their number in `names`.
    by_site: HashMap<usize, Arc<HandshakeConfig>>,
}

/// The configuration of a handshake.
pub(crate) struct HandshakeConfig {
    pub(crate) rustls: Arc<ServerConfig>,
    /// The authorities whose certificates the client is asked for; `None` if it is not asked.
    pub(crate) authorities: Option<Arc<ClientAuthorities>>,
    /// Whether it must send one.
    pub(crate) is_required: bool,
}

impl ListenerTls {
    /// The configuration of every handshake; `None` if it depends on the host.
    pub(crate) fn only(&self) -> Option<&Arc<HandshakeConfig>> {
        self.by_site.is_empty().then_some(&self.default)
    }

    /// The configuration of a handshake with a client that names this host; empty if it names none.
    pub(crate) fn of_host(&self, host: &str) -> &Arc<HandshakeConfig> {
        if let Some(only) = self.only() {
            return only;
        }
        let site = self.names.choose(host, Some(self.listener));
        site.and_then(|(site, _)| self.by_site.get(&site))
            .unwrap_or(&self.default)
    }
}

/// Opens TLS of each listener, in the order of the settings. An error is the administrator's fault.
pub(crate) fn open(
    settings: &Settings,
    tickets: &Arc<dyn ProducesTickets>,
) -> Result<Vec<Option<ListenerTls>>, OpenError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let is_needed = settings.listen.iter().any(|listen| listen.tls.is_some());
    let sites = match is_needed {
        true => SiteKeys::open(settings, &provider)?,
        false => SiteKeys::default(),
    };
    let addresses: Vec<ListenAddress> = settings.listen.iter().map(|listen| listen.address.clone()).collect();
    let mut opener = Opener {
        names: Arc::new(SiteNames::new(&settings.sites, &addresses)),
        sites: Arc::new(sites),
        provider,
        tickets,
        authorities: Vec::new(),
    };
    let listeners = settings.listen.iter().enumerate();
    let opened = listeners.map(|(number, listen)| match &listen.tls {
        Some(tls) => opener.open(settings, number, listen, tls).map(Some),
        None => Ok(None),
    });
    opened.collect()
}

/// The state that opening all listeners of one configuration shares.
struct Opener<'a> {
    names: Arc<SiteNames>,
    sites: Arc<SiteKeys>,
    provider: Arc<CryptoProvider>,
    tickets: &'a Arc<dyn ProducesTickets>,
    /// The authorities that were opened: each once, so that sites with the same ones can be recognized.
    authorities: Vec<(AuthoritySettings, Arc<ClientAuthorities>)>,
}

impl Opener<'_> {
    fn open(
        &mut self,
        settings: &Settings,
        number: usize,
        listen: &ListenSettings,
        tls: &TlsSettings,
    ) -> Result<ListenerTls, OpenError> {
        let resolver = Arc::new(Resolver {
            sites: Arc::clone(&self.sites),
            default: open_identity(&tls.identity, &settings.source, &self.provider)?,
        });
        let authorities = tls
            .clients
            .authorities()
            .map(|authorities| self.authorities(authorities, &settings.source))
            .transpose()?;
        let default = self.handshake(listen, tls, &resolver, authorities)?;
        let mut by_site = HashMap::new();
        for (site, site_settings) in settings.sites.iter().enumerate() {
            if let Some(authorities) = &site_settings.client_authorities
                && self.names.is_on(site, number)
            {
                let authorities = self.authorities(authorities, &settings.source)?;
                by_site.insert(site, self.handshake(listen, tls, &resolver, Some(authorities))?);
            }
        }
        Ok(ListenerTls {
            names: Arc::clone(&self.names),
            listener: number,
            default,
            by_site,
        })
    }

    fn authorities(
        &mut self,
        settings: &AuthoritySettings,
        source: &Source,
    ) -> Result<Arc<ClientAuthorities>, OpenError> {
        let is_same = |opened: &AuthoritySettings| {
            opened.certificates == settings.certificates && opened.revocation_lists == settings.revocation_lists
        };
        if let Some((_, opened)) = self.authorities.iter().find(|(opened, _)| is_same(opened)) {
            return Ok(Arc::clone(opened));
        }
        let opened = Arc::new(ClientAuthorities::open(settings, source, &self.provider)?);
        self.authorities.push((settings.clone(), Arc::clone(&opened)));
        Ok(opened)
    }

    fn handshake(
        &self,
        listen: &ListenSettings,
        tls: &TlsSettings,
        resolver: &Arc<Resolver>,
        authorities: Option<Arc<ClientAuthorities>>,
    ) -> Result<Arc<HandshakeConfig>, OpenError> {
        let versions = if tls.is_1_3_only { TLS_1_3_ONLY } else { TLS_1_2_AND_1_3 };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(versions)
            .map_err(|error| OpenError::new(&tls.identity.origin, format!("TLS: {error}")))?;
        let is_required = matches!(tls.clients, ClientCertificates::Required(_));
        let builder = match &authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) if is_required => builder.with_client_cert_verifier(Arc::clone(&authorities.required)),
            Some(authorities) => builder.with_client_cert_verifier(Arc::clone(&authorities.optional)),
        };
        let mut config = builder.with_cert_resolver(Arc::<Resolver>::clone(resolver));
        config.ticketer = match authorities {
            None => Arc::clone(self.tickets),
            // A client that resumes is not asked again, so tickets of other listeners, sites and authorities are not valid here.
            Some(_) => self::tickets()?,
        };
        // Tickets suffice for both versions; a session store would be a lock that all workers share.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        let alpn: &[&[u8]] = if listen.http2 {
            &[b"h2", b"http/1.1"]
        } else {
            &[b"http/1.1"]
        };
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config.max_fragment_size = Some(RECORD_BYTES + RECORD_HEADER_BYTES);
        Ok(Arc::new(HandshakeConfig {
            rustls: Arc::new(config),
            authorities,
            is_required,
        }))
    }
}

/// Whether a certificate chain and its key can be used.
///
/// # Errors
/// The administrator's fault: a file cannot be read, is not PEM, or the key does not belong to the certificate.
pub fn check_identity(settings: &IdentitySettings, source: &Source) -> Result<(), OpenError> {
    read_identity(settings, source, &aws_lc_rs::default_provider()).map(drop)
}

/// Whether the authorities for client certificates, and their revocation lists, can be used.
///
/// # Errors
/// The administrator's fault: a file cannot be read, or is not what its key asks for.
pub fn check_authorities(settings: &AuthoritySettings, source: &Source) -> Result<(), OpenError> {
    ClientAuthorities::open(settings, source, &Arc::new(aws_lc_rs::default_provider())).map(drop)
}

/// Reads a certificate chain and its key, and warns if the certificate is not valid now.
fn open_identity(
    settings: &IdentitySettings,
    source: &Source,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, OpenError> {
    let (certified, name) = read_identity(settings, source, provider)?;
    if let Some(warning) = certified.cert.first().and_then(|leaf| out_of_date(leaf)) {
        tracing::warn!("{name}: {warning}");
    }
    Ok(Arc::new(certified))
}

/// Reads a certificate chain and its key, and checks that they belong together. Returns the name of the certificate, too.
fn read_identity(
    settings: &IdentitySettings,
    source: &Source,
    provider: &CryptoProvider,
) -> Result<(CertifiedKey, String), OpenError> {
    let refuse = |what: &dyn fmt::Display| OpenError::new(&settings.origin, what.to_string());
    let (chain, key, name) = match &settings.source {
        IdentitySource::Files { certificate, key } => {
            let in_file = |file: &Path, reason: &dyn fmt::Display| format!("{}: {reason}", file.display());
            let chain = read_pem(certificate, source)
                .and_then(|text| certificates(&text))
                .map_err(|reason| refuse(&in_file(certificate, &reason)))?;
            let key = read_pem(key, source)
                .and_then(|text| private_key(&text))
                .map_err(|reason| refuse(&in_file(key, &reason)))?;
            (chain, key, certificate.display().to_string())
        }
        IdentitySource::Made { certificate, key } => (
            certificates(certificate.as_bytes()).map_err(|reason| refuse(&reason))?,
            private_key(key.as_bytes()).map_err(|reason| refuse(&reason))?,
            "the generated certificate".to_owned(),
        ),
    };
    let bytes: usize = chain.iter().map(|certificate| certificate.len()).sum();
    if bytes > CHAIN_BYTES_MAX {
        return Err(refuse(&format!(
            "{name}: the certificate and its chain have {bytes} bytes, of which each client gets all: {CHAIN_BYTES_MAX} at most"
        )));
    }
    match CertifiedKey::from_der(chain, key, provider) {
        Ok(certified) => Ok((certified, name)),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(refuse(&format!("{name}: the key does not belong to this certificate")))
        }
        Err(error) => Err(refuse(&format!("{name}: {error}"))),
    }
}

pub(crate) fn read_pem(file: &Path, source: &Source) -> Result<Vec<u8>, String> {
    let read = source.read(file, PEM_BYTES_MAX).map_err(|error| error.to_string())?;
    read.ok_or_else(|| format!("has more than {PEM_BYTES_MAX} bytes: it is no file of certificates or keys"))
}

pub(crate) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match read {
        Ok(certificates) if certificates.is_empty() => Err("holds no certificate in PEM form".to_owned()),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(format!("is not a PEM file: {error}")),
    }
}

fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    const ENCRYPTED: &[u8] = b"ENCRYPTED";
    PrivateKeyDer::from_pem_slice(text).map_err(|error| {
        if memchr::memmem::find(text, ENCRYPTED).is_some() {
            "the key has a pass phrase: remove it (openssl pkey)".to_owned()
        } else {
            format!("holds no key in PEM form: {error}")
        }
    })
}

/// Describes why a certificate is not valid now. `None` if it is valid.
fn out_of_date(certificate: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let now = i64::try_from(now.as_secs()).ok()?;
    let validity = certificate.validity();
    if validity.not_after.timestamp() < now {
        Some(format!("the certificate has expired on {}", validity.not_after))
    } else if validity.not_before.timestamp() > now {
        Some(format!("the certificate is not valid before {}", validity.not_before))
    } else {
        None
    }
}

/// The certificates of sites, by host.
#[derive(Debug, Default)]
struct SiteKeys {
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// Certificates by the part of the host after the `*`, with its dot.
    wildcard: Vec<(String, Arc<CertifiedKey>)>,
}

impl SiteKeys {
    fn open(settings: &Settings, provider: &CryptoProvider) -> Result<SiteKeys, OpenError> {
        let mut keys = SiteKeys::default();
        for site in &settings.sites {
            let Some(identity) = &site.identity else { continue };
            let key = match open_identity(identity, &settings.source, provider) {
                Ok(key) => {
                    settings.source.forget_fault(&identity.origin);
                    key
                }
                Err(error) => {
                    let line = || {
                        format!("{error}; clients of this site get the certificate of the address until it can be used")
                    };
                    let files = identity.source.files();
                    match settings.source.tolerate(&identity.origin, &files, line) {
                        true => continue,
                        false => return Err(error),
                    }
                }
            };
            for host in &site.hosts {
                match host.strip_prefix('*') {
                    Some(suffix) => keys.wildcard.push((suffix.to_owned(), Arc::clone(&key))),
                    None => drop(keys.exact.insert(host.clone(), Arc::clone(&key))),
                }
            }
        }
        Ok(keys)
    }

    /// Chooses as a site is chosen by its host.
    fn of(&self, host: &str) -> Option<&Arc<CertifiedKey>> {
        let wildcard = || {
            let mut suffixes = self.wildcard.iter();
            suffixes.find(|(suffix, _)| host.len() > suffix.len() && host.ends_with(suffix.as_str()))
        };
        self.exact.get(host).or_else(|| wildcard().map(|(_, key)| key))
    }
}

/// Chooses the certificate for a client of one listener.
#[derive(Debug)]
struct Resolver {
    sites: Arc<SiteKeys>,
    default: Arc<CertifiedKey>,
}

impl ResolvesServerCert for Resolver {
    /// The name is in lower case: rustls converts it.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let key = hello.server_name().and_then(|host| self.sites.of(host));
        Some(Arc::clone(key.unwrap_or(&self.default)))
    }
}
