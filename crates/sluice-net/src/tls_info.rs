//! The result of a TLS handshake as variables for scripts, named as in Apache's `mod_ssl`.
//!
//! Created once per connection.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::{HandshakeKind, ProtocolVersion, ServerConnection};
use sluice_http::endpoints::TlsInfo;
use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::prelude::{ASN1Time, AttributeTypeAndValue, FromDer, X509Certificate, X509Name};

/// The reason why a handshake failed, if the client's certificate was invalid or missing.
pub(crate) fn client_certificate_error(error: &io::Error) -> Option<&rustls::Error> {
    let tls_error = error.get_ref()?.downcast_ref()?;
    match tls_error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => Some(tls_error),
        _ => None,
    }
}

pub(crate) fn describe(connection: &ServerConnection) -> TlsInfo {
    let resumed = match connection.handshake_kind() {
        Some(HandshakeKind::Resumed) => "Resumed",
        _ => "Initial",
    };
    let mut variables = vec![
        ("SSL_PROTOCOL", protocol(connection).to_owned()),
        ("SSL_SESSION_RESUMED", resumed.to_owned()),
    ];
    if let Some(suite) = connection.negotiated_cipher_suite() {
        let name = suite.suite().as_str().unwrap_or_default();
        variables.push(("SSL_CIPHER", openssl_name(name)));
    }
    if let Some(host) = connection.server_name() {
        variables.push(("SSL_TLS_SNI", host.to_owned()));
    }
    match connection.peer_certificates().and_then(<[_]>::first) {
        // Otherwise rustls would have failed the handshake.
        Some(certificate) => {
            variables.push(("SSL_CLIENT_VERIFY", "SUCCESS".to_owned()));
            add_client(&mut variables, certificate);
        }
        None => variables.push(("SSL_CLIENT_VERIFY", "NONE".to_owned())),
    }
    TlsInfo { protocol: protocol(connection), variables }
}

fn protocol(connection: &ServerConnection) -> &'static str {
    match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "TLSv1.3",
    }
}

fn add_client(variables: &mut Vec<(&'static str, String)>, certificate: &CertificateDer<'_>) {
    variables.push(("SSL_CLIENT_CERT", pem(certificate)));
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return;
    };
    let validity = certificate.validity();
    variables.extend([
        ("SSL_CLIENT_M_SERIAL", format!("{:X}", certificate.serial)),
        ("SSL_CLIENT_S_DN", distinguished_name(certificate.subject())),
        ("SSL_CLIENT_I_DN", distinguished_name(certificate.issuer())),
        ("SSL_CLIENT_V_START", time(&validity.not_before)),
        ("SSL_CLIENT_V_END", time(&validity.not_after)),
    ]);
    let mut attributes = certificate.subject().iter_attributes();
    if let Some(name) = attributes.find(|attribute| abbreviation(attribute) == "CN") {
        variables.push(("SSL_CLIENT_S_DN_CN", name.as_str().unwrap_or_default().to_owned()));
    }
}

/// The abbreviation of an attribute's type (`CN`, `O`), or its OID if it has none.
fn abbreviation(attribute: &AttributeTypeAndValue<'_>) -> String {
    let kind = attribute.attr_type();
    oid2abbrev(kind, oid_registry()).map_or_else(|_| kind.to_id_string(), str::to_owned)
}

/// Writes a name as RFC 4514 and Apache do: last part first, `CN=Ann,O=Example`. Control characters become spaces.
fn distinguished_name(name: &X509Name<'_>) -> String {
    const SPECIAL: &str = ",+\"\\<>;=";
    let mut parts = Vec::new();
    for attribute in name.iter_attributes() {
        let mut part = format!("{}=", abbreviation(attribute));
        for letter in attribute.as_str().unwrap_or_default().chars() {
            if SPECIAL.contains(letter) {
                part.push('\\');
            }
            part.push(if letter.is_control() { ' ' } else { letter });
        }
        parts.push(part);
    }
    parts.reverse();
    parts.join(",")
}

/// Writes a time as OpenSSL does: `Nov 21 07:00:00 2026 GMT`.
fn time(time: &ASN1Time) -> String {
    let text =
        jiff::Timestamp::from_second(time.timestamp()).map(|time| time.strftime("%b %e %H:%M:%S %Y GMT").to_string());
    text.unwrap_or_else(|_| time.to_string())
}

/// PEM (RFC 7468) on one line, with spaces, as Apache puts it into a header field: a variable holds no newline.
fn pem(certificate: &[u8]) -> String {
    let text = STANDARD.encode(certificate);
    format!("-----BEGIN CERTIFICATE----- {text} -----END CERTIFICATE-----")
}

/// OpenSSL's name of a cipher suite, which programs expect: `ECDHE-RSA-AES128-GCM-SHA256` for
/// `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`. Suites of TLS 1.3 have the same name everywhere.
fn openssl_name(name: &str) -> String {
    let name = name.replace("TLS13_", "TLS_");
    let Some((exchange, cipher)) = name.strip_prefix("TLS_").and_then(|name| name.split_once("_WITH_")) else {
        return name;
    };
    let cipher = match cipher {
        "CHACHA20_POLY1305_SHA256" => "CHACHA20-POLY1305".to_owned(),
        cipher => cipher.replace("AES_", "AES").replace('_', "-"),
    };
    format!("{}-{cipher}", exchange.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cipher_suites_have_openssl_names() {
        for (name, expected) in [
            ("TLS13_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
            ("TLS13_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
            ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
            (
                "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
                "ECDHE-ECDSA-CHACHA20-POLY1305",
            ),
        ] {
            assert_eq!(openssl_name(name), expected);
        }
    }
}
