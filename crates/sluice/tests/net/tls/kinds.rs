//! Varieties of TLS: key types, certificate chains, ALPN, versions, and the certificate variables of scripts.

use std::fs;
use std::io::ErrorKind;
use std::sync::Arc;

use rcgen::{ExtendedKeyUsagePurpose, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256, SerialNumber};
use rustls::ClientConfig;
use rustls::version::{TLS12, TLS13};

use super::{BOTH, TLS, setup};
use sluice_testing::{Authority, Client, Setup, TlsClient, run};

#[test]
fn every_key_type_serves_both_versions() {
    let authority = Authority::new();
    for (name, algorithm) in [
        ("P-256", &PKCS_ECDSA_P256_SHA256),
        ("Ed25519", &PKCS_ED25519),
        ("RSA", &PKCS_RSA_SHA256),
    ] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let setup = Setup::new().file("a.txt", "hello").listeners(TLS);
        let (certificate, key) = authority.issue_for(&["localhost"], &key, |_| {});
        fs::write(setup.path("default.pem"), certificate + &key).unwrap();
        let server = setup.start();
        for version in BOTH {
            let config = Arc::new(authority.client(&[version]));
            let mut client = TlsClient::connect(server.tls_address(), "localhost", &config).unwrap();
            let response = client.get("/a.txt", "localhost").unwrap();
            assert!(response.ends_with("hello"), "{name} {version:?}: {response}");
        }
    }
}

#[test]
fn complete_certificate_chain_is_sent() {
    let root = Authority::new();
    let intermediate = root.issue_intermediate();
    let (certificate, key) = intermediate.issue(&["localhost"]);
    for (chain, is_complete) in [
        (certificate.clone() + intermediate.pem(), true),
        // Without the intermediate certificate the client cannot verify the server's.
        (certificate, false),
    ] {
        let setup = Setup::new().file("a.txt", "hello").listeners(TLS);
        fs::write(setup.path("default.pem"), chain + &key).unwrap();
        let server = setup.start();
        for version in BOTH {
            let config = Arc::new(root.client(&[version]));
            let client = TlsClient::connect(server.tls_address(), "localhost", &config);
            assert_eq!(client.is_ok(), is_complete, "{version:?} {:?}", client.err());
        }
    }
}

#[test]
fn alpn_selects_a_protocol_or_refuses_the_connection() {
    let authority = Authority::new();
    let without = "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }\nhttp2 = \"off\"";
    for (event_fifo, cases) in [
        (
            TLS,
            [
                (&["h2", "http/1.1"][..], Ok(Some("h2"))),
                // The server's preference decides.
                (&["http/1.1", "h2"], Ok(Some("h2"))),
                (&["http/1.1"], Ok(Some("http/1.1"))),
                (&[], Ok(None)),
                // RFC 7301 §3.2: no common protocol is an error.
                (&["spdy/3"], Err(())),
            ],
        ),
        (
            without,
            [
                (&["h2", "http/1.1"], Ok(Some("http/1.1"))),
                (&["http/1.1", "h2"], Ok(Some("http/1.1"))),
                (&["http/1.1"], Ok(Some("http/1.1"))),
                (&[], Ok(None)),
                (&["h2"], Err(())),
            ],
        ),
    ] {
        let server = setup(&authority).listeners(event_fifo).start();
        for (offered, agreed) in cases {
            for version in BOTH {
                let mut config: ClientConfig = authority.client(&[version]);
                config.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
                let client = TlsClient::connect(server.tls_address(), "localhost", &Arc::new(config));
                let found = client.map(|client| client.protocol()).map_err(|_| ());
                assert_eq!(
                    found,
                    agreed.map(|name| name.map(str::to_owned)),
                    "{offered:?} {version:?}"
                );
            }
        }
    }
}

/// TLS 1.2 is refused with `oldest = "1.3"`. Older versions are always refused: the first message is answered with an
/// alert.
#[test]
fn old_tls_versions_are_refused_with_an_alert() {
    const PROTOCOL_VERSION: u8 = 70;
    let authority = Authority::new();
    let server = setup(&authority).start();
    // SSL 3.0, TLS 1.0, TLS 1.1.
    for minor in 0..3 {
        // A complete ClientHello (RFC 5246 §7.4.1.2): version, random, no session, one cipher, no compression, and the
        // signature algorithms extension, because a hello without it is refused for that reason.
        let extensions = [0, 8, 0, 13, 0, 4, 0, 2, 4, 3];
        let hello = [&[3, minor][..], &[7; 32], &[0, 0, 2, 0xc0, 0x2b, 1, 0], &extensions].concat();
        let length = u8::try_from(hello.len()).unwrap();
        let message = [&[0x16, 3, minor.min(1), 0, length + 4, 1, 0, 0, length][..], &hello].concat();
        let mut client = Client::connect(server.tls_address());
        client.send(message);
        let (answer, _) = client.rest();
        assert!(
            answer.len() == 7 && answer[0] == 0x15 && answer[5..] == [2, PROTOCOL_VERSION],
            "SSL 3.{minor}: {answer:?}"
        );
    }
    let event_fifo = TLS.replace("default.pem\"", "default.pem\", oldest = \"1.3\"");
    let strict = setup(&authority).listeners(&event_fifo).start();
    for (version, is_accepted) in [(&TLS12, false), (&TLS13, true)] {
        let config = Arc::new(authority.client(&[version]));
        let client = TlsClient::connect(strict.tls_address(), "localhost", &config);
        assert_eq!(client.is_ok(), is_accepted, "{version:?}");
        if let Err(error) = client {
            assert_eq!(error.kind(), ErrorKind::InvalidData, "an alert: {error}");
        }
    }
}

#[test]
fn sighup_loads_another_certificate_and_keeps_connections() {
    let authority = Authority::new();
    let server = setup(&authority).start();
    let connect = || TlsClient::connect(server.tls_address(), "localhost", &Arc::new(authority.client(BOTH))).unwrap();
    let mut open_connection = connect();
    authority.issue_to(&server.path("other.pem"), &["localhost"]);
    let text = server.setup().configuration().replace("default.pem", "other.pem");
    fs::write(server.path("sluice.toml"), text).unwrap();
    server.signal("HUP");
    server.log_line("is in force");
    assert_ne!(open_connection.certificate(), connect().certificate());
    assert!(open_connection.get("/a.txt", "localhost").unwrap().ends_with("hello"));
}

#[test]
fn client_certificate_variables_are_set_only_if_one_was_requested() {
    let print = "printf 'Content-Type: text/plain\\n\\n'; env | grep ^SSL_CLIENT_ | grep -v ^SSL_CLIENT_CERT= | sort";
    let authority = Authority::new();
    let (certificate, key) = authority.issue_with(&["ann"], |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.serial_number = Some(SerialNumber::from(0x00ab_cdef_u64));
        params
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, "Example");
        params.not_before = rcgen::date_time_ymd(2001, 2, 3);
        params.not_after = rcgen::date_time_ymd(2999, 4, 5);
    });
    for (keys, expected) in [
        (
            "client_certificates = \"required\", client_authorities = \"ca.pem\"",
            "SSL_CLIENT_I_DN=CN=Test Authority\nSSL_CLIENT_M_SERIAL=ABCDEF\nSSL_CLIENT_S_DN=O=Example,CN=ann\n\
             SSL_CLIENT_S_DN_CN=ann\nSSL_CLIENT_VERIFY=SUCCESS\nSSL_CLIENT_V_END=Apr  5 00:00:00 2999 GMT\n\
             SSL_CLIENT_V_START=Feb  3 00:00:00 2001 GMT\n",
        ),
        ("client_certificates = \"off\"", "SSL_CLIENT_VERIFY=NONE\n"),
    ] {
        let event_fifo = TLS.replace("default.pem\"", &format!("default.pem\", {keys}"));
        let setup = setup(&authority).script("who", print).listeners(&event_fifo);
        fs::write(setup.path("ca.pem"), authority.pem()).unwrap();
        let server = setup.start();
        let config = authority.client_with(BOTH, Some((certificate.clone(), key.clone())));
        let mut client = TlsClient::connect(server.tls_address(), "localhost", &Arc::new(config)).unwrap();
        let response = client.get("/cgi-bin/who", "localhost").unwrap();
        assert!(response.contains(expected), "{keys}: {response}");
        let count = response.matches("SSL_CLIENT_").count();
        assert_eq!(count, expected.matches("SSL_CLIENT_").count(), "{response}");
    }
}

#[test]
fn check_warns_of_a_certificate_without_its_chain() {
    // AuthorityInfoAccess with id-ad-caIssuers and the address http://a/i (RFC 5280 §4.2.2.1).
    let mut access = vec![
        0x30, 0x18, 0x30, 0x16, 0x06, 0x08, 0x2b, 6, 1, 5, 5, 7, 0x30, 2, 0x86, 10,
    ];
    access.extend(b"http://a/i");
    let names_issuer = |params: &mut rcgen::CertificateParams| {
        let extension = rcgen::CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], access);
        params.custom_extensions.push(extension);
    };
    let authority = Authority::new();
    let (certificate, key) = authority.issue_with(&["localhost"], names_issuer);
    let setup =
        Setup::new().listeners("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }");
    let warns = |chain: &str| {
        std::fs::write(setup.path("default.pem"), format!("{chain}{key}")).unwrap();
        setup.write_configuration();
        let checked = run(setup.directory(), &["check", "-c", "sluice.toml"]);
        assert!(checked.status.success(), "{}", checked.errors);
        checked
            .errors
            .contains("default.pem has the certificate without its chain")
    };
    assert!(warns(&certificate));
    assert!(!warns(&format!("{certificate}{}", authority.pem())));
}
