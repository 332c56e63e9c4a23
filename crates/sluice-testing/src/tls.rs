//! TLS as a client sees it: certificates issued for the test, and a connection that shows what was negotiated.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rcgen::{
    CertificateParams, CertificateRevocationListParams, DnType, Issuer, KeyIdMethod, KeyPair, RevokedCertParams,
    SerialNumber,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore, StreamOwned};

use crate::DEADLINE;
use crate::program::spawn;

/// The object identifier of the attribute CN (RFC 4519 §2.3).
const COMMON_NAME_OID: &[u64] = &[2, 5, 4, 3];

/// A certificate authority for a test.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

impl Default for Authority {
    fn default() -> Authority {
        Authority::new()
    }
}

impl Authority {
    /// Creates an authority with a new key.
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::from_oid(COMMON_NAME_OID), "Test Authority");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Authority {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// An intermediate authority signed by this one.
    pub fn issue_intermediate(&self) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::from_oid(COMMON_NAME_OID), "Test Authority Below");
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Authority {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    /// The certificate of the authority, as PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for these hosts and its key, both as PEM.
    pub fn issue(&self, hosts: &[&str]) -> (String, String) {
        self.issue_with(hosts, |_| {})
    }

    /// A certificate and its key as `issue` makes them, with changes to the certificate.
    pub fn issue_with(&self, hosts: &[&str], change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
        self.issue_for(hosts, &KeyPair::generate().unwrap(), change)
    }

    /// A certificate as `issue_with` makes it, for a given key.
    pub fn issue_for(
        &self,
        hosts: &[&str],
        key: &KeyPair,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (String, String) {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts.clone()).unwrap();
        params
            .distinguished_name
            .push(DnType::from_oid(COMMON_NAME_OID), hosts[0].clone());
        change(&mut params);
        let certificate = params.signed_by(key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// A revocation list, as DER, that revokes these serial numbers and expires in the year `end`.
    pub fn revoke(&self, numbers: &[u64], end: i32) -> Vec<u8> {
        let revoked = numbers.iter().map(|number| RevokedCertParams {
            serial_number: SerialNumber::from(*number),
            revocation_time: rcgen::date_time_ymd(2001, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2001, 1, 1),
            next_update: rcgen::date_time_ymd(end, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().der().to_vec()
    }

    /// Writes a certificate and its key into one file.
    pub fn issue_to(&self, file: &Path, hosts: &[&str]) {
        let (certificate, key) = self.issue(hosts);
        std::fs::write(file, certificate + &key).unwrap();
    }

    /// A client configuration that trusts this authority. Connections with the same configuration resume sessions.
    pub fn client(&self, versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConfig {
        self.client_with(versions, None)
    }

    /// A client configuration as `client` makes it, with a client certificate and its key as PEM.
    pub fn client_with(
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
pub struct TlsClient(StreamOwned<ClientConnection, TcpStream>);

impl TlsClient {
    /// Connects with this host as SNI and verifies the server's certificate.
    pub fn connect(address: SocketAddr, host: &str, config: &Arc<ClientConfig>) -> std::io::Result<TlsClient> {
        TlsClient::connect_after(b"", address, host, config)
    }

    /// Connects as `connect` does, after sending some bytes in clear text.
    pub fn connect_after(
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

    /// Sends `GET path` and reads until the server closes; an error if it closes without close_notify.
    pub fn get(&mut self, path: &str, host: &str) -> std::io::Result<String> {
        self.send(&format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        ))?;
        self.rest()
    }

    /// Sends a request.
    pub fn send(&mut self, request: &str) -> std::io::Result<()> {
        self.0.write_all(request.as_bytes())
    }

    /// Closes the sending side, with close_notify.
    pub fn finish(&mut self) -> std::io::Result<()> {
        self.0.conn.send_close_notify();
        self.0.flush()?;
        self.0.sock.shutdown(Shutdown::Write)
    }

    /// Reads until `wanted` has arrived; returns everything before it.
    pub fn read_until(&mut self, wanted: &str) -> std::io::Result<String> {
        let mut read = Vec::new();
        while !read.ends_with(wanted.as_bytes()) {
            let mut byte = [0];
            self.0.read_exact(&mut byte)?;
            read.extend(byte);
        }
        Ok(String::from_utf8_lossy(&read[..read.len() - wanted.len()]).into_owned())
    }

    /// Everything until the server closes.
    pub fn rest(&mut self) -> std::io::Result<String> {
        let mut all = Vec::new();
        self.0.read_to_end(&mut all)?;
        Ok(String::from_utf8_lossy(&all).into_owned())
    }

    /// The version of TLS.
    pub fn version(&self) -> Option<ProtocolVersion> {
        self.0.conn.protocol_version()
    }

    /// The application protocol agreed on (ALPN), if any.
    pub fn protocol(&self) -> Option<String> {
        let name = self.0.conn.alpn_protocol()?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// Whether the handshake was a resumption.
    pub fn is_resumed(&self) -> bool {
        self.0.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The certificate that the server presented.
    pub fn certificate(&self) -> Vec<u8> {
        self.0.conn.peer_certificates().unwrap()[0].to_vec()
    }
}

/// The output of curl (which speaks HTTP/2) with these arguments. Fails the test if curl fails.
#[track_caller]
pub fn curl(arguments: &[&str]) -> String {
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
