//! TLS of the client: which certificates of servers are trusted, and which version of HTTP is offered.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use sluice_settings::notation;

use super::client::Protocol;

/// Where systems keep the authorities that they trust: Debian and Ubuntu, Fedora and its relatives, SUSE, Alpine.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

#[derive(Clone, Copy, Debug)]
pub(super) enum Trust<'a> {
    /// Certificates of the system's authorities, or of those in the file that SSL_CERT_FILE names.
    System,
    /// Certificates of the authorities in this PEM file.
    File(&'a Path),
    Anything,
}

/// The client's side of TLS 1.2 and 1.3. Connections resume sessions with tickets, as browsers do.
pub(super) fn configuration(trust: Trust<'_>, protocol: Protocol) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?;
    let builder = match trust {
        Trust::Anything => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))),
        Trust::File(file) => builder.with_root_certificates(read(file)?),
        Trust::System => builder.with_root_certificates(read(&system_file()?)?),
    };
    let mut client = builder.with_no_client_auth();
    client.alpn_protocols = vec![protocol.alpn().to_vec()];
    Ok(Arc::new(client))
}

fn system_file() -> Result<PathBuf, String> {
    if let Some(file) = std::env::var_os("SSL_CERT_FILE").filter(|file| !file.is_empty()) {
        return Ok(file.into());
    }
    let known = SYSTEM_AUTHORITIES.iter().map(PathBuf::from);
    known.into_iter().find(|file| file.is_file()).ok_or_else(|| {
        "this system has no file of trusted authorities (Debian: install ca-certificates): give --ca FILE, or --insecure".to_owned()
    })
}

fn read(file: &Path) -> Result<RootCertStore, String> {
    let shown = file.display();
    let text = std::fs::read(file).map_err(|error| format!("{shown}: {}", notation::reason(&error)))?;
    let mut store = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(&text).filter_map(Result::ok);
    let (added, _) = store.add_parsable_certificates(certificates);
    match added {
        0 => Err(format!("{shown}: has no certificate of an authority in PEM form")),
        _ => Ok(store),
    }
}

/// Accepts every certificate, but not a handshake that its key has not signed.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
