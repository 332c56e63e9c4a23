//! Client certificates: the authorities that must have signed them, revocations, and the certificate that a connection has shown.
//!
//! A client's certificate is checked again when authorities or revocation lists have changed, at a resumption, and for a site with other authorities.

use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, HandshakeKind, RootCertStore, ServerConnection};
use sluice_settings::AuthoritySettings;
use sluice_settings::open_error::OpenError;
use sluice_settings::rule::ClientCertificate;
use sluice_settings::source::Source;
use x509_parser::prelude::{ASN1Time, CertificateRevocationList, FromDer};

use crate::tls::{certificates, read_pem};

/// Bytes of a file of revocation lists, at most: a list has some 40 bytes for each certificate.
const LISTS_BYTES_MAX: u64 = 32 << 20;

/// The authorities of client certificates, and what they have revoked, as of one reading of their files.
#[derive(Debug)]
pub(crate) struct ClientAuthorities {
    pub(crate) optional: Arc<dyn ClientCertVerifier>,
    pub(crate) required: Arc<dyn ClientCertVerifier>,
}

impl ClientAuthorities {
    /// Reads the files. With revocation lists, an unexpired list of its issuer must cover each certificate of a chain, as in nginx and Apache.
    pub(crate) fn open(
        settings: &AuthoritySettings,
        source: &Source,
        provider: &Arc<CryptoProvider>,
    ) -> Result<ClientAuthorities, OpenError> {
        let file = settings.certificates.display();
        let refuse = |reason: &dyn fmt::Display| {
            OpenError::new(&settings.origin, format!("client_authorities {file}: {reason}"))
        };
        let mut authorities = RootCertStore::empty();
        let text = read_pem(&settings.certificates, source).map_err(|reason| refuse(&reason))?;
        for certificate in certificates(&text).map_err(|reason| refuse(&reason))? {
            authorities.add(certificate).map_err(|error| refuse(&error))?;
        }
        let mut lists = Vec::new();
        for file in &settings.revocation_lists {
            let read = read_lists(file, source);
            let refuse = |reason| OpenError::new(&settings.origin, format!("client_crl {}: {reason}", file.display()));
            lists.extend(read.map_err(refuse)?);
        }
        let required = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(provider))
            .with_crls(lists)
            .enforce_revocation_expiration();
        let optional = required.clone().allow_unauthenticated();
        Ok(ClientAuthorities {
            optional: optional.build().map_err(|error| refuse(&error))?,
            required: required.build().map_err(|error| refuse(&error))?,
        })
    }

    /// Checks a chain as a handshake does, without the proof that the client has its key.
    fn verify(&self, chain: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
        let (leaf, intermediates) = chain.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
        let verified = self.required.verify_client_cert(leaf, intermediates, UnixTime::now());
        verified.map(drop)
    }
}

/// Reads the revocation lists of a file, in PEM or DER format; warns of those that have expired.
fn read_lists(file: &Path, source: &Source) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    const PEM: &[u8] = b"-----BEGIN ";
    let read = source.read(file, LISTS_BYTES_MAX).map_err(|error| error.to_string())?;
    let content = read.ok_or_else(|| format!("has more than {LISTS_BYTES_MAX} bytes"))?;
    let lists = match memchr::memmem::find(&content, PEM) {
        None => vec![CertificateRevocationListDer::from(content)],
        Some(_) => CertificateRevocationListDer::pem_slice_iter(&content)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| format!("is not a PEM file: {error}"))?,
    };
    if lists.is_empty() {
        return Err("holds no revocation list (X509 CRL) in PEM form".to_owned());
    }
    for list in &lists {
        let (_, list) = CertificateRevocationList::from_der(list)
            .map_err(|_| "is not a revocation list in PEM or DER form".to_owned())?;
        if let Some(end) = list.next_update().filter(|end| *end < ASN1Time::now()) {
            tracing::warn!(
                "client_crl {}: the list has expired on {end}: certificates of its authority are rejected until there is a new one",
                file.display()
            );
        }
    }
    Ok(lists)
}

/// The certificate that a client has shown in a handshake that asked for one.
#[derive(Debug)]
pub(crate) struct ShownCertificate {
    asked_for: Arc<ClientAuthorities>,
    /// The client's certificate and the intermediate ones; empty if it has sent none.
    chain: Vec<CertificateDer<'static>>,
    /// The authorities that the chain was checked against, with the results; the latest check is the last.
    checks: RefCell<Vec<(Arc<ClientAuthorities>, ClientCertificate)>>,
}

/// Checks that a connection remembers: one for each site with authorities of its own that a client uses in turn.
const CHECKS_MAX: usize = 8;

impl ShownCertificate {
    /// Notes what a handshake has shown. The certificate of a resumed session is checked again: it may have expired (an error).
    pub(crate) fn of(
        connection: &ServerConnection,
        authorities: &Arc<ClientAuthorities>,
    ) -> Result<ShownCertificate, rustls::Error> {
        let chain: Vec<_> = connection.peer_certificates().unwrap_or_default().to_vec();
        if !chain.is_empty() && connection.handshake_kind() == Some(HandshakeKind::Resumed) {
            authorities.verify(&chain)?;
        }
        let state = match chain.is_empty() {
            true => ClientCertificate::Absent,
            false => ClientCertificate::Verified,
        };
        Ok(ShownCertificate {
            asked_for: Arc::clone(authorities),
            chain,
            checks: RefCell::new(vec![(Arc::clone(authorities), state)]),
        })
    }

    /// The state of the certificate for these authorities, which are not those of the handshake after a reload, or for a site whose host it did not name.
    pub(crate) fn state(&self, wanted: &Arc<ClientAuthorities>) -> ClientCertificate {
        let mut checks = self.checks.borrow_mut();
        if let Some((_, state)) = checks.iter().find(|(checked, _)| Arc::ptr_eq(checked, wanted)) {
            return *state;
        }
        let state = match self.chain.is_empty() {
            // The client might have sent one to a handshake that named these authorities.
            true if !Arc::ptr_eq(&self.asked_for, wanted) => ClientCertificate::NotAsked,
            true => ClientCertificate::Absent,
            false => match wanted.verify(&self.chain) {
                Ok(()) => ClientCertificate::Verified,
                Err(_) => ClientCertificate::NotAsked,
            },
        };
        if checks.len() == CHECKS_MAX {
            checks.remove(0);
        }
        checks.push((Arc::clone(wanted), state));
        state
    }
}

/// The fix for a certificate that was rejected, for the log; empty if the error says enough.
pub(crate) fn fix(error: &rustls::Error) -> &'static str {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownRevocationStatus) => {
            ": client_crl has no list of its issuer"
        }
        rustls::Error::InvalidCertificate(
            CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. },
        ) => ": renew the list in client_crl",
        _ => "",
    }
}
