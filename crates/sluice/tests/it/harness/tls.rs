//! TLS as a client sees it: certificates made for the test, and a connection that tells what it was shown.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore, StreamOwned};

use super::DEADLINE;
use super::program::spawn;

/// The attribute CN of a subject (RFC 4519 §2.3).
const NAME: &[u64] = &[2, 5, 4, 3];

/// Who signs the certificates of a test.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::from_oid(NAME), "Test Authority");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Authority {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// One that this one stands for.
    pub(crate) fn below(&self) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::from_oid(NAME), "Test Authority Below");
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Authority {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Its own certificate, in PEM form.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for these hosts and its key, both in PEM form.
    pub(crate) fn issue(&self, hosts: &[&str]) -> (String, String) {
        self.issue_with(hosts, |_| {})
    }

    /// The same, with changes to the certificate.
    pub(crate) fn issue_with(&self, hosts: &[&str], change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
        self.issue_for(hosts, &KeyPair::generate().unwrap(), change)
    }

    /// The same, with a key of any kind.
    pub(crate) fn issue_for(
        &self,
        hosts: &[&str],
        key: &KeyPair,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (String, String) {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts.clone()).unwrap();
        params.distinguished_name.push(DnType::from_oid(NAME), hosts[0].clone());
        change(&mut params);
        let certificate = params.signed_by(key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// Writes a certificate and its key into one file.
    pub(crate) fn issue_to(&self, file: &Path, hosts: &[&str]) {
        let (certificate, key) = self.issue(hosts);
        std::fs::write(file, certificate + &key).unwrap();
    }

    /// What a client needs that believes this authority; several connections of one configuration resume.
    pub(crate) fn client(&self, versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConfig {
        self.client_with(versions, None)
    }

    /// The same, with a certificate and its key in PEM form.
    pub(crate) fn client_with(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        identity: Option<(String, String)>,
    ) -> ClientConfig {
        use rustls::pki_types::pem::PemObject;
        let mut authorities = RootCertStore::empty();
        authorities.add(self.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(authorities);
        match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).map(Result::unwrap);
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain.collect(), key).unwrap()
            }
        }
    }
}

/// A connection over TLS.
pub(crate) struct TlsClient(StreamOwned<ClientConnection, TcpStream>);

impl TlsClient {
    /// Connects, names a host, and believes the certificate or fails.
    pub(crate) fn connect(address: SocketAddr, host: &str, config: &Arc<ClientConfig>) -> std::io::Result<TlsClient> {
        TlsClient::connect_after(b"", address, host, config)
    }

    /// The same, after some bytes in clear.
    pub(crate) fn connect_after(
        first: &[u8],
        address: SocketAddr,
        host: &str,
        config: &Arc<ClientConfig>,
    ) -> std::io::Result<TlsClient> {
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
        let mut socket = TcpStream::connect_timeout(&address, DEADLINE)?;
        socket.set_read_timeout(Some(DEADLINE))?;
        socket.write_all(first)?;
        let mut stream = StreamOwned::new(connection, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(TlsClient(stream))
    }

    /// `GET path`, and all that comes until the server has closed; an error if it closed without a word of TLS.
    pub(crate) fn get(&mut self, path: &str, host: &str) -> std::io::Result<String> {
        write!(
            self.0,
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )?;
        self.rest()
    }

    /// All that comes until the server has closed.
    pub(crate) fn rest(&mut self) -> std::io::Result<String> {
        let mut all = Vec::new();
        self.0.read_to_end(&mut all)?;
        Ok(String::from_utf8_lossy(&all).into_owned())
    }

    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.0.conn.protocol_version()
    }

    /// What is spoken inside, if anything was agreed on (ALPN).
    pub(crate) fn protocol(&self) -> Option<String> {
        let name = self.0.conn.alpn_protocol()?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.0.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The certificate that the server showed.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        self.0.conn.peer_certificates().unwrap()[0].to_vec()
    }
}

/// What curl, which speaks HTTP/2, prints with these arguments; fails the test if curl fails.
#[track_caller]
pub(crate) fn curl(arguments: &[&str]) -> String {
    let mut command = Command::new("curl");
    command
        .args(["--silent", "--show-error", "--max-time", "20"])
        .args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = spawn(&mut command).unwrap().wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "curl {arguments:?}: {errors}");
    String::from_utf8_lossy(&ended.stdout).into_owned()
}
