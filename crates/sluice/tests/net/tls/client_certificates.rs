//! Client certificates by site and by route: who is refused where, by which connection, and after a revocation.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{ExtendedKeyUsagePurpose, SerialNumber};
use rustls::ClientConfig;
use rustls::version::{TLS12, TLS13};

use super::BOTH;
use sluice_testing::{Authority, Response, Server, Setup, TlsClient, curl, run};

/// An address with TLS that asks no client for a certificate.
const OPEN: &str = "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }";

/// An address with TLS that asks every client for one.
const ASKING: &str = "[[listen]]\naddress = \"127.0.0.1:0\"\n\
    tls = { certificate = \"default.pem\", client_certificates = \"optional\", client_authorities = \"ca.pem\" }";

/// A site that requires a certificate of authorities of its own.
const ADMIN: &str = "[[site]]\nhosts = [\"admin.test\"]\nroot = \"admin\"\n\
    client_certificates = \"required\"\nclient_authorities = \"ca.pem\"";

/// The certificate of a client, with a serial number, and its key.
fn identity(authority: &Authority, number: u64) -> (String, String) {
    authority.issue_with(&["ann"], |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.serial_number = Some(SerialNumber::from(number));
    })
}

/// A setup whose certificate is for `localhost`, `admin.test` and `other.test`, with the authority in `ca.pem`.
fn setup(authority: &Authority) -> Setup {
    let setup = Setup::new().file("a.txt", "hello");
    authority.issue_to(&setup.path("default.pem"), &["localhost", "admin.test", "other.test"]);
    fs::write(setup.path("ca.pem"), authority.pem()).unwrap();
    fs::create_dir(setup.path("admin")).unwrap();
    fs::write(setup.path("admin/a.txt"), "ADMIN SECRET").unwrap();
    setup
}

/// The status and the body of a response, or `None` if the connection failed.
fn ask(address: SocketAddr, config: &Arc<ClientConfig>, sni: &str, host: &str, path: &str) -> Option<(u16, String)> {
    let received = TlsClient::connect(address, sni, config).ok()?.get(path, host).ok()?;
    let response = Response::of_closed(&received)?;
    Some((response.status, response.text().to_owned()))
}

fn status(server: &Server, config: &Arc<ClientConfig>, sni: &str, host: &str, path: &str) -> Option<u16> {
    ask(server.tls_address(), config, sni, host, path).map(|(status, _)| status)
}

#[test]
fn certificate_of_a_site_is_required_on_every_address_and_whatever_the_handshake_named() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let verify = r#"printf 'Content-Type: text/plain\n\n%s|%s' "$SSL_CLIENT_VERIFY" "$SSL_CLIENT_S_DN_CN""#;
    let server = setup(&authority)
        .script("who", verify)
        .listeners(OPEN)
        .sites(ADMIN)
        .start();
    for version in [&TLS12, &TLS13] {
        let without = Arc::new(authority.client(&[version]));
        let with = Arc::new(authority.client_with(&[version], Some(identity(&authority, 1))));
        let strange = Arc::new(authority.client_with(&[version], Some(identity(&stranger, 1))));
        let (status, body) = ask(server.tls_address(), &with, "admin.test", "admin.test", "/a.txt").unwrap();
        assert_eq!((status, body.as_str()), (200, "ADMIN SECRET"));
        let status = |config, sni, host| self::status(&server, config, sni, host, "/a.txt");
        assert_eq!(status(&without, "admin.test", "admin.test"), Some(403));
        assert_eq!(status(&strange, "admin.test", "admin.test"), None);
        for config in [&without, &with, &strange] {
            // The handshake for another host did not ask for this certificate.
            assert_eq!(status(config, "localhost", "admin.test"), Some(421));
            assert_eq!(status(config, "localhost", "localhost"), Some(200));
        }
        // Another site's scripts do not see a certificate that they could mistake for one of their own authorities.
        let (status, body) = ask(server.tls_address(), &with, "admin.test", "localhost", "/cgi-bin/who").unwrap();
        assert_eq!((status, body.as_str()), (200, "NONE|"));
    }
    for path in ["/a.txt", "/", "/missing", "//admin.test/a.txt"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: ADMIN.test.:80\r\nConnection: close\r\n\r\n");
        assert_eq!(server.send(request).status, 421, "clear text: {path}");
    }
    let url = format!("https://localhost:{}/a.txt", server.tls_address().port());
    let resolve = format!("localhost:{}:127.0.0.1", server.tls_address().port());
    let http2 = [
        "--http2",
        "--insecure",
        "--include",
        "--resolve",
        &resolve,
        "--header",
        "Host: admin.test",
        &url,
    ];
    let response = curl(&http2);
    assert!(
        response.starts_with("HTTP/2 421") && !response.contains("SECRET"),
        "{response}"
    );
}

#[test]
fn certificate_of_a_site_does_not_satisfy_an_address_that_requires_another() {
    let (authority, of_address) = (Authority::new(), Authority::new());
    let required = ASKING.replace("optional", "required").replace("ca.pem", "address.pem");
    let site = ADMIN.replace("client_certificates = \"required\"\n", "");
    let setup = setup(&authority).listeners(&required).sites(&site);
    fs::write(setup.path("address.pem"), of_address.pem()).unwrap();
    let server = setup.start();
    let client = |issuer| Arc::new(authority.client_with(BOTH, Some(identity(issuer, 1))));
    let (of_site, of_address) = (client(&authority), client(&of_address));
    for (config, sni, host, expected) in [
        (&of_site, "admin.test", "admin.test", Some(200)),
        (&of_site, "admin.test", "localhost", Some(421)),
        (&of_site, "localhost", "localhost", None),
        (&of_address, "localhost", "localhost", Some(200)),
        (&of_address, "localhost", "admin.test", Some(421)),
        (&of_address, "admin.test", "admin.test", None),
    ] {
        assert_eq!(status(&server, config, sni, host, "/a.txt"), expected, "{sni} {host}");
    }
}

#[test]
fn certificate_of_a_route_is_required_for_everything_that_leads_there() {
    let authority = Authority::new();
    let server = setup(&authority)
        .listeners(ASKING)
        .file("secret/a.txt", "secret")
        .file("secret/index.html", "secret")
        .file("exact/index.html", "page")
        .file("secret/open/b.txt", "open")
        .script("redirect", r"printf 'Location: /secret/a.txt\n\n'")
        .script("show", r"printf 'Content-Type: text/plain\n\nshown'")
        .site("listing = true")
        .route("path = \"/secret/*\"\nclient_certificates = \"required\"")
        .route("path = \"/secret/open/*\"\nclient_certificates = \"optional\"")
        .route("path = \"/exact/\"\nclient_certificates = \"required\"")
        .route("path = \"/other/*\"\nrewrite = \"/secret/*\"")
        .route("path = \"/run/*\"\nclient_certificates = \"required\"\nrewrite = \"/cgi-bin/*\"")
        .route("path = \"/if\"\nwhen = { client_certificate = \"verified\" }\nrefuse = { status = 410 }")
        .route("path = \"/if\"\nwhen = { client_certificate = \"absent\" }\nrefuse = { status = 451 }")
        .start();
    let without = Arc::new(authority.client(BOTH));
    let with = Arc::new(authority.client_with(BOTH, Some(identity(&authority, 1))));
    for (path, unknown, known) in [
        ("/a.txt", 200, 200),
        ("/secret/a.txt", 403, 200),
        ("/%73ecret/a.txt", 403, 200),
        ("/secret/", 403, 200),
        ("/secret", 403, 301),
        ("/secret/missing", 403, 404),
        ("/secret/open/b.txt", 200, 200),
        ("/exact/", 403, 200),
        ("/exact/index.html", 200, 200),
        ("/run/show", 403, 200),
        ("/cgi-bin/show", 200, 200),
        ("/cgi-bin/redirect", 403, 200),
        ("/if", 451, 410),
    ] {
        assert_eq!(
            status(&server, &without, "localhost", "localhost", path),
            Some(unknown),
            "{path}"
        );
        assert_eq!(
            status(&server, &with, "localhost", "localhost", path),
            Some(known),
            "{path}"
        );
    }
    let clear = |path: &str| server.get(path).status;
    assert_eq!(
        (clear("/secret/a.txt"), clear("/exact/"), clear("/a.txt"), clear("/if")),
        (421, 421, 200, 451)
    );
    let listed = |config| {
        ask(server.tls_address(), config, "localhost", "localhost", "/")
            .unwrap()
            .1
    };
    assert!(!listed(&without).contains("secret") && listed(&with).contains("secret"));
    let explain = |options: &[&str]| {
        let arguments = [
            &[
                "check",
                "-c",
                "sluice.toml",
                "--explain",
                "https://localhost/secret/a.txt",
            ],
            options,
        ]
        .concat();
        run(server.setup().directory(), &arguments).output
    };
    assert!(
        explain(&[]).contains("answer   403, needs a client certificate"),
        "{}",
        explain(&[])
    );
    assert!(explain(&["--client-certificate"]).contains("answer   200"));
}

#[test]
fn certificate_of_a_route_is_required_below_a_rewrite_and_for_path_info() {
    let authority = Authority::new();
    let server = setup(&authority)
        .listeners(ASKING)
        .file("secret/a.txt", "secret")
        .file("secret/open/b.txt", "open")
        .file("private/index.html", "secret")
        .file("exact/c.txt", "listed")
        .script("redirect", r"printf 'Location: /new/a.txt\n\n'")
        .script("admin", r"printf 'Content-Type: text/plain\n\nadmin'")
        .script("admins", r"printf 'Content-Type: text/plain\n\nadmins'")
        .site("listing = true")
        .route("path = \"/secret/*\"\nclient_certificates = \"required\"")
        .route("path = \"/secret/open/*\"\nclient_certificates = \"optional\"")
        .route("path = \"/private/index.html\"\nclient_certificates = \"required\"")
        .route("path = \"/exact/\"\nclient_certificates = \"required\"")
        .route("path = \"/cgi-bin/admin\"\nclient_certificates = \"required\"")
        .route("regex = \"^/regex$\"\nclient_certificates = \"required\"")
        .route("path = \"/regex/*\"\nrewrite = \"/*\"")
        .route("path = \"/new/*\"\nrewrite = \"/secret/*\"\nclient_certificates = \"optional\"")
        .route("path = \"/twice/*\"\nrewrite = \"/once/*\"")
        .route("path = \"/once/*\"\nrewrite = \"/secret/*\"")
        .route("path = \"/step/*\"\nrewrite = \"/secret/*\"")
        .route("path = \"/secret/a.txt\"\nwhen = { query = { by = \"step\" } }\nrewrite = \"/a.txt\"")
        .route("path = \"/page/*\"\nrewrite = \"/private/*\"")
        .route("path = \"/bare/*\"\nrewrite = \"/exact\"")
        .start();
    let without = Arc::new(authority.client(BOTH));
    let with = Arc::new(authority.client_with(BOTH, Some(identity(&authority, 1))));
    let status = |config, path: &str| status(&server, config, "localhost", "localhost", path);
    for (path, unknown) in [
        ("/new/a.txt", 403),
        ("/new/", 403),
        ("/new/open/b.txt", 200),
        ("/twice/a.txt", 403),
        ("/step/a.txt?by=step", 403),
        ("/a.txt?by=step", 200),
        ("/page/", 403),
        ("/page/index.html", 403),
        ("/bare/", 403),
        ("/cgi-bin/redirect", 403),
        ("/cgi-bin/admin", 403),
        ("/cgi-bin/admin/", 403),
        ("/cgi-bin/admin/a/b", 403),
        ("/cgi-bin/admins/a", 200),
        ("/regex/a.txt", 403),
    ] {
        assert_eq!(status(&without, path), Some(unknown), "{path}");
        assert_eq!(status(&with, path), Some(200), "{path}");
        let clear = if unknown == 403 { 421 } else { 200 };
        assert_eq!(server.get(path).status, clear, "clear text: {path}");
    }
    let arguments = [
        "check",
        "-c",
        "sluice.toml",
        "--explain",
        "https://localhost/twice/a.txt",
    ];
    let explained = run(server.setup().directory(), &arguments).output;
    assert!(
        explained.contains("answer   403, needs a client certificate"),
        "{explained}"
    );
}

#[test]
fn revoked_certificate_ends_sessions_and_open_connections() {
    let authority = Authority::new();
    let setup = setup(&authority)
        .listeners(OPEN)
        .sites(&format!("{ADMIN}\nclient_crl = [\"revoked.crl\"]"));
    fs::write(setup.path("revoked.crl"), authority.revoke(&[9], 2999)).unwrap();
    let server = setup.start();
    let (ann, bob) = (identity(&authority, 1), identity(&authority, 2));
    let ann = Arc::new(authority.client_with(BOTH, Some(ann)));
    let bob = Arc::new(authority.client_with(BOTH, Some(bob)));
    let revoked = Arc::new(authority.client_with(BOTH, Some(identity(&authority, 9))));
    let status = |config| status(&server, config, "admin.test", "admin.test", "/a.txt");
    assert_eq!(
        (status(&ann), status(&bob), status(&revoked)),
        (Some(200), Some(200), None)
    );
    let mut resumed = TlsClient::connect(server.tls_address(), "admin.test", &ann).unwrap();
    assert!(resumed.is_resumed());
    resumed.send("GET /a.txt HTTP/1.1\r\nHost: admin.test\r\n\r\n").unwrap();
    assert!(resumed.read_until("ADMIN SECRET").unwrap().starts_with("HTTP/1.1 200"));
    fs::write(server.path("new.crl"), authority.revoke(&[9, 1], 2999)).unwrap();
    fs::rename(server.path("new.crl"), server.path("revoked.crl")).unwrap();
    server.signal("HUP");
    server.log_line("is in force");
    assert!(resumed.get("/a.txt", "admin.test").unwrap().starts_with("HTTP/1.1 421"));
    assert_eq!((status(&ann), status(&bob)), (None, Some(200)));
    server.log_line("client certificate: invalid peer certificate: Revoked");
}

#[test]
fn expired_revocation_list_rejects_certificates_and_is_reported() {
    let authority = Authority::new();
    let listen = ASKING.replace("\"ca.pem\"", "\"ca.pem\", client_crl = [\"list.pem\"]");
    let setup = setup(&authority).listeners(&listen);
    fs::write(setup.path("list.pem"), authority.revoke(&[], 2002)).unwrap();
    setup.write_configuration();
    let checked = run(setup.directory(), &["check", "-c", "sluice.toml"]);
    assert!(
        checked.status.success() && checked.errors.contains("list.pem: the list has expired on Jan  1"),
        "{}",
        checked.errors
    );
    let server = setup.start();
    let with = Arc::new(authority.client_with(BOTH, Some(identity(&authority, 1))));
    let without = Arc::new(authority.client(BOTH));
    let status = |config| status(&server, config, "localhost", "localhost", "/a.txt");
    assert_eq!((status(&with), status(&without)), (None, Some(200)));
    server.log_line("renew the list in client_crl");
    for content in [
        "nonsense",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        fs::write(server.path("list.pem"), content).unwrap();
        let checked = run(server.setup().directory(), &["check", "-c", "sluice.toml"]);
        assert!(
            !checked.status.success() && checked.errors.contains("client_crl"),
            "{}",
            checked.errors
        );
    }
}

#[test]
fn check_warns_of_an_address_that_requires_what_another_does_not() {
    let authority = Authority::new();
    let setup = setup(&authority).listeners(
        &ASKING
            .replace("optional", "required")
            .replace("127.0.0.1:0", "127.0.0.2:0"),
    );
    setup.write_configuration();
    let checked = run(setup.directory(), &["check", "-c", "sluice.toml"]);
    assert!(checked.status.success(), "{}", checked.errors);
    let expected = "127.0.0.2:0 requires client certificates and 127.0.0.1:0 does not";
    assert!(checked.errors.contains(expected), "{}", checked.errors);
}
