//! TLS: certificates and keys from files to a configuration of rustls, and which certificate a client gets.
//!
//! Here: what is read at the start, on reload and when the files change; nothing that happens on a connection
//! (`transport`). The ciphers, their order and all bounds of the handshake are rustls's own choice (TLS 1.2 and 1.3,
//! forward secrecy and authenticated encryption only). Tickets are the server's, not a configuration's: clients resume with
//! whichever worker they reach, also after a reload; their keys change by themselves. An address that asks for certificates of
//! clients has tickets of its own, made anew whenever certificates are read.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert, ServerConfig, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, SupportedProtocolVersion};
use sluice_settings::open_error::OpenError;
use sluice_settings::{
    ClientCertificates, IdentitySettings, IdentitySource, ListenAddress, Peers, Settings, SiteSettings, TlsSettings,
};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Bytes of a file of certificates or keys: a chain has some thousands, a list of all public authorities 250,000.
const PEM_BYTES_MAX: u64 = 4 << 20;

const ONLY_1_3: &[&SupportedProtocolVersion] = &[&TLS13];
const BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

/// What is spoken on an address; replaced as a whole on reload.
#[derive(Clone)]
pub struct ListenerProtocol {
    pub tls: Option<Arc<ServerConfig>>,
    pub http2: bool,
    /// Who must begin with a header of the PROXY protocol, where it is spoken; others are refused.
    pub proxy_protocol: Option<Arc<Peers>>,
    /// Every request is sent to this port of the same host.
    pub redirect_to_https: Option<u16>,
}

/// Makes the keys of tickets, for all workers.
pub fn tickets() -> Result<Arc<dyn ProducesTickets>, OpenError> {
    aws_lc_rs::Ticketer::new().map_err(|error| OpenError::new("", format!("TLS: {error}")))
}

/// Opens what the settings name, for each address in its order. An error is the administrator's.
pub fn open(settings: &Settings, tickets: &Arc<dyn ProducesTickets>) -> Result<Vec<ListenerProtocol>, OpenError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let is_needed = settings.listen.iter().any(|listen| listen.tls.is_some());
    let sites = if is_needed {
        SiteKeys::open(&settings.sites, &provider)?
    } else {
        SiteKeys::default()
    };
    let sites = Arc::new(sites);
    let protocol = settings.listen.iter().map(|listen| {
        let tls = listen.tls.as_ref();
        let config = tls.map(|tls| server_config(tls, listen.http2, &sites, &provider, tickets));
        Ok(ListenerProtocol {
            tls: config.transpose()?.map(Arc::new),
            http2: listen.http2,
            proxy_protocol: listen.proxy_protocol.clone().map(Arc::new),
            redirect_to_https: listen.redirect_to_https,
        })
    });
    protocol.collect()
}

/// Where the system has chosen the port for https, redirects learn it now.
pub fn fill_in_port(protocol: &mut [ListenerProtocol], addresses: &[ListenAddress]) {
    let https = protocol
        .iter()
        .zip(addresses)
        .find(|(protocol, address)| protocol.tls.is_some() && address.port().is_some());
    let https = https.and_then(|(_, address)| address.port());
    for redirecting in protocol
        .iter_mut()
        .filter(|protocol| protocol.redirect_to_https == Some(0))
    {
        redirecting.redirect_to_https = https;
    }
}

fn server_config(
    tls: &TlsSettings,
    http2: bool,
    sites: &Arc<SiteKeys>,
    provider: &Arc<CryptoProvider>,
    tickets: &Arc<dyn ProducesTickets>,
) -> Result<ServerConfig, OpenError> {
    let versions = if tls.is_1_3_only { ONLY_1_3 } else { BOTH };
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions)
        .map_err(|error| OpenError::new(&tls.identity.origin, format!("TLS: {error}")))?;
    let builder = match client_verifier(tls, provider)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(Resolver {
        sites: Arc::clone(sites),
        default: open_identity(&tls.identity, provider)?,
    }));
    config.alpn_protocols = if http2 {
        vec![b"h2".to_vec(), b"http/1.1".to_vec()]
    } else {
        vec![b"http/1.1".to_vec()]
    };
    config.ticketer = match tls.clients {
        ClientCertificates::Off => Arc::clone(tickets),
        // Who resumes is not asked for a certificate again: a ticket from elsewhere, or from before the authorities changed, must
        // not open this address.
        _ => self::tickets()?,
    };
    // Tickets do for both versions; a store would be a lock that all workers share.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

/// Who looks at clients' certificates, if they are asked for any.
fn client_verifier(
    tls: &TlsSettings,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, OpenError> {
    let (file, is_required) = match &tls.clients {
        ClientCertificates::Off => return Ok(None),
        ClientCertificates::Optional(file) => (file, false),
        ClientCertificates::Required(file) => (file, true),
    };
    let refuse = |reason: &dyn fmt::Display| {
        let text = format!("client_authorities {}: {reason}", file.display());
        OpenError::new(&tls.identity.origin, text)
    };
    let mut authorities = RootCertStore::empty();
    let text = read_pem(file).map_err(|reason| refuse(&reason))?;
    for certificate in certificates(&text).map_err(|reason| refuse(&reason))? {
        authorities.add(certificate).map_err(|error| refuse(&error))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(provider));
    let builder = if is_required {
        builder
    } else {
        builder.allow_unauthenticated()
    };
    builder.build().map(Some).map_err(|error| refuse(&error))
}

/// Reads a certificate and its key, and sees that they belong together.
fn open_identity(settings: &IdentitySettings, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, OpenError> {
    let refuse = |what: &dyn fmt::Display| OpenError::new(&settings.origin, what.to_string());
    let (chain, key, shown) = match &settings.source {
        IdentitySource::Files { certificate, key } => {
            let in_file = |file: &Path, reason: &dyn fmt::Display| format!("{}: {reason}", file.display());
            let chain = read_pem(certificate)
                .and_then(|text| certificates(&text))
                .map_err(|reason| refuse(&in_file(certificate, &reason)))?;
            let key = read_pem(key)
                .and_then(|text| private_key(&text))
                .map_err(|reason| refuse(&in_file(key, &reason)))?;
            (chain, key, certificate.display().to_string())
        }
        IdentitySource::Made { certificate, key } => (
            certificates(certificate.as_bytes()).map_err(|reason| refuse(&reason))?,
            private_key(key.as_bytes()).map_err(|reason| refuse(&reason))?,
            "the certificate that was made".to_owned(),
        ),
    };
    if let Some(warning) = chain.first().and_then(|leaf| out_of_date(leaf)) {
        tracing::warn!("{shown}: {warning}");
    }
    let certified = CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => refuse(&format!("{shown}: the key does not belong to this certificate")),
        error => refuse(&format!("{shown}: {error}")),
    })?;
    Ok(Arc::new(certified))
}

fn read_pem(file: &Path) -> Result<Vec<u8>, String> {
    let bytes = fs::metadata(file).map_err(|error| error.to_string())?.len();
    if bytes > PEM_BYTES_MAX {
        return Err(format!("has {bytes} bytes, more than a file of certificates or keys"));
    }
    fs::read(file).map_err(|error| error.to_string())
}

fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match read {
        Ok(certificates) if certificates.is_empty() => Err("holds no certificate in PEM form".to_owned()),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(format!("is no PEM file: {error}")),
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

/// What is wrong with a certificate's time.
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
#[derive(Default)]
struct SiteKeys {
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// By what follows the star, with its dot.
    below: Vec<(String, Arc<CertifiedKey>)>,
}

impl SiteKeys {
    fn open(sites: &[SiteSettings], provider: &CryptoProvider) -> Result<SiteKeys, OpenError> {
        let mut keys = SiteKeys::default();
        for site in sites {
            let Some(identity) = &site.identity else { continue };
            let key = open_identity(identity, provider)?;
            for host in &site.hosts {
                match host.strip_prefix('*') {
                    Some(suffix) => keys.below.push((suffix.to_owned(), Arc::clone(&key))),
                    None => drop(keys.exact.insert(host.clone(), Arc::clone(&key))),
                }
            }
        }
        Ok(keys)
    }

    /// The same choice as that of a site by its host.
    fn of(&self, host: &str) -> Option<&Arc<CertifiedKey>> {
        let below = || {
            let mut suffixes = self.below.iter();
            suffixes.find(|(suffix, _)| host.len() > suffix.len() && host.ends_with(suffix.as_str()))
        };
        self.exact.get(host).or_else(|| below().map(|(_, key)| key))
    }
}

/// Chooses the certificate for a client on one address.
struct Resolver {
    sites: Arc<SiteKeys>,
    default: Arc<CertifiedKey>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Resolver {
    /// rustls gives the name in lower case.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let key = hello.server_name().and_then(|host| self.sites.of(host));
        Some(Arc::clone(key.unwrap_or(&self.default)))
    }
}
