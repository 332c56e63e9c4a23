//! The settings of a listening address: the protocols on it, TLS, and certificates.

use std::path::PathBuf;

use crate::address::{ListenAddress, Peers};

/// An address to listen on, and its protocols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenSettings {
    /// An address and port, or a unix socket.
    pub address: ListenAddress,
    /// The permissions of a unix socket's file: which processes may connect (unix(7)).
    pub socket_mode: u32,
    /// The proxies whose connections begin with a header of the PROXY protocol; other peers are then refused. `None` without the PROXY protocol.
    pub proxy_protocol: Option<Peers>,
    /// TLS; `None` for clear text.
    pub tls: Option<TlsSettings>,
    /// Whether HTTP/2 is supported: negotiated over TLS (ALPN), or with prior knowledge in clear text (RFC 9113 §3.3).
    pub http2: bool,
    /// The port of the https URL to which every request is redirected; `None` if requests are served.
    pub redirect_to_https: Option<u16>,
}

impl ListenSettings {
    /// The default permissions of a unix socket: the server's user and group.
    pub const SOCKET_MODE: u32 = 0o660;

    /// An address with clear text and HTTP/1.1 alone.
    #[must_use]
    pub fn clear(address: ListenAddress) -> ListenSettings {
        ListenSettings {
            address,
            socket_mode: ListenSettings::SOCKET_MODE,
            proxy_protocol: None,
            tls: None,
            http2: false,
            redirect_to_https: None,
        }
    }
}

/// TLS on an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate for clients that name no host, or a host of no site with a certificate.
    pub identity: IdentitySettings,
    /// Whether TLS 1.2 is disabled.
    pub is_1_3_only: bool,
    /// Whether clients are asked for a certificate.
    pub clients: ClientCertificates,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentitySettings {
    /// The place in the configuration, for messages.
    pub origin: String,
    /// The place of the certificate and the key.
    pub source: IdentitySource,
}

/// The place of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentitySource {
    /// Files in PEM format, which may be the same file.
    Files {
        /// The certificate, then the intermediate certificates.
        certificate: PathBuf,
        /// The key: PKCS #8, PKCS #1 or SEC 1.
        key: PathBuf,
    },
    /// Generated for this start of the server, in PEM format.
    Made {
        /// The certificate.
        certificate: String,
        /// The key.
        key: String,
    },
}

impl IdentitySource {
    /// The files; none of a certificate that this process has made.
    #[must_use]
    pub fn files(&self) -> Vec<&PathBuf> {
        match self {
            IdentitySource::Files { certificate, key } => vec![certificate, key],
            IdentitySource::Made { .. } => Vec::new(),
        }
    }
}

/// Whether clients are asked for a certificate, and the authorities that must have signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Clients are not asked.
    Off,
    /// Clients are asked and may have none; an invalid certificate is rejected.
    Optional(AuthoritySettings),
    /// Clients must have one.
    Required(AuthoritySettings),
}

impl ClientCertificates {
    /// The authorities; `None` if clients are not asked.
    #[must_use]
    pub fn authorities(&self) -> Option<&AuthoritySettings> {
        match self {
            ClientCertificates::Off => None,
            ClientCertificates::Optional(authorities) | ClientCertificates::Required(authorities) => Some(authorities),
        }
    }
}

/// The authorities that sign client certificates, and what they have revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthoritySettings {
    /// The place in the configuration, for messages.
    pub origin: String,
    /// Their certificates, in PEM format.
    pub certificates: PathBuf,
    /// Their revocation lists (RFC 5280 §5), in PEM or DER format. Without any, nothing is revoked.
    pub revocation_lists: Vec<PathBuf>,
}
