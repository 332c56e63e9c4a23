//! TLS: selection and reload of certificates, client certificates, what scripts see, and failed handshakes.

mod client_certificates;
mod kinds;
mod records;
mod renewal;

use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::ExtendedKeyUsagePurpose;
use rustls::ProtocolVersion;
use rustls::version::{TLS12, TLS13};

use sluice_testing::{Authority, Setup, TlsClient, curl, run, signal, wait_until};

const TLS: &str = "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }";
const BOTH: &[&rustls::SupportedProtocolVersion] = &[&TLS12, &TLS13];

/// A setup with a certificate for `localhost`.
fn setup(authority: &Authority) -> Setup {
    let setup = Setup::new().file("a.txt", "hello").listeners(TLS);
    authority.issue_to(&setup.path("default.pem"), &["localhost"]);
    setup
}

#[test]
fn both_versions_serve_files_and_set_the_ssl_variables() {
    let authority = Authority::new();
    let print = "printf 'Content-Type: text/plain\\n\\n%s %s %s %s %s' \
        \"$HTTPS\" \"$REQUEST_SCHEME\" \"$SSL_PROTOCOL\" \"$SSL_CIPHER\" \"$SSL_TLS_SNI $SSL_CLIENT_VERIFY\"";
    let server = setup(&authority).script("facts", print).start();
    for (version, agreed, name) in [
        (&TLS12, ProtocolVersion::TLSv1_2, "on https TLSv1.2 ECDHE-ECDSA-AES"),
        (&TLS13, ProtocolVersion::TLSv1_3, "on https TLSv1.3 TLS_AES"),
    ] {
        let config = Arc::new(authority.client(&[version]));
        let mut client = TlsClient::connect(server.tls_address(), "localhost", &config).unwrap();
        assert_eq!(client.version(), Some(agreed));
        let response = client.get("/a.txt", "localhost").unwrap();
        assert!(
            response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("hello"),
            "{response}"
        );
        let mut client = TlsClient::connect(server.tls_address(), "localhost", &config).unwrap();
        let response = client.get("/cgi-bin/facts", "localhost").unwrap();
        assert!(
            response.contains(name) && response.contains("localhost NONE"),
            "{response}"
        );
    }
}

#[test]
fn sessions_resume_on_every_worker() {
    let authority = Authority::new();
    let server = setup(&authority).workers(4).start();
    for version in [&TLS12, &TLS13] {
        let config = Arc::new(authority.client(&[version]));
        let resumed = (0..12).filter(|_| {
            let mut client = TlsClient::connect(server.tls_address(), "localhost", &config).unwrap();
            client.get("/a.txt", "localhost").unwrap();
            client.is_resumed()
        });
        assert_eq!(resumed.count(), 11, "{version:?}: all but the first");
    }
}

#[test]
fn sni_selects_the_certificate() {
    let authority = Authority::new();
    let setup = setup(&authority).sites(
        "[[site]]\nhosts = [\"one.test\", \"*.many.test\"]\nroot = \"htdocs\"\ntls = { certificate = \"one.pem\", key = \"one.key\" }\nhsts = \"1h\"",
    );
    let (certificate, key) = authority.issue(&["one.test", "*.many.test"]);
    fs::write(setup.path("one.pem"), certificate).unwrap();
    fs::write(setup.path("one.key"), key).unwrap();
    let server = setup.start();
    let config = Arc::new(authority.client(BOTH));
    for host in ["one.test", "a.many.test", "localhost"] {
        // A successful handshake proves that the certificate matches the host.
        let mut client = TlsClient::connect(server.tls_address(), host, &config).unwrap();
        let response = client.get("/a.txt", host).unwrap();
        let has_hsts = response.contains("strict-transport-security: max-age=3600\r\n");
        assert_eq!(has_hsts, host != "localhost", "{host}: {response}");
    }
    assert!(TlsClient::connect(server.tls_address(), "other.test", &config).is_err());
    let clear = server.send("GET /a.txt HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n");
    assert_eq!((clear.status, clear.field("strict-transport-security")), (200, None));
}

#[test]
fn changed_certificates_are_reloaded_and_open_connections_kept() {
    let authority = Authority::new();
    // The supervisor asks the launcher four times a second, and checks the certificates all the same.
    let server = setup(&authority).limits("launcher_timeout = \"1s\"").start();
    let config = Arc::new(authority.client(BOTH));
    let mut open_connection = TlsClient::connect(server.tls_address(), "localhost", &config).unwrap();
    let old = open_connection.certificate();
    authority.issue_to(&server.path("new.pem"), &["localhost"]);
    fs::rename(server.path("new.pem"), server.path("default.pem")).unwrap();
    server.log_line("certificates have changed: the new ones are in force");
    let config = Arc::new(authority.client(BOTH));
    let new = TlsClient::connect(server.tls_address(), "localhost", &config).unwrap();
    assert_ne!(old, new.certificate());
    let response = open_connection.get("/a.txt", "localhost");
    assert!(
        response.as_ref().is_ok_and(|text| text.ends_with("hello")),
        "{response:?} {}",
        server.log()
    );
}

#[test]
fn invalid_new_certificates_keep_the_old_ones() {
    let authority = Authority::new();
    let server = setup(&authority).start();
    fs::write(server.path("default.pem"), "nonsense").unwrap();
    server.log_line("certificates have changed: ");
    assert!(server.log().contains("the old ones stay"), "{}", server.log());
    server.signal("HUP");
    server.log_line("SIGHUP: ");
    let config = Arc::new(authority.client(BOTH));
    let mut client = TlsClient::connect(server.tls_address(), "localhost", &config).unwrap();
    assert!(client.get("/a.txt", "localhost").unwrap().ends_with("hello"));
}

#[test]
fn certificates_that_are_tried_while_a_reload_is_refused_are_those_of_the_next_server_process() {
    let authority = Authority::new();
    let server = setup(&authority).start();
    let process = server.server_pid();
    let bundles_of_supervisor = || {
        let entries = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
        let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        links
            .filter(|link| link.to_string_lossy().contains("sluice-bundle"))
            .count()
    };
    // It answers both when it goes on.
    assert!(signal(process, "STOP"));
    authority.issue_to(&server.path("new.pem"), &["localhost"]);
    let new = fs::read_to_string(server.path("new.pem")).unwrap();
    fs::rename(server.path("new.pem"), server.path("default.pem")).unwrap();
    assert!(wait_until(|| bundles_of_supervisor() == 2), "{}", server.log());
    fs::write(server.path("other.pem"), "nonsense").unwrap();
    let text = fs::read_to_string(server.path("sluice.toml")).unwrap();
    fs::write(server.path("sluice.toml"), text.replace("default.pem", "other.pem")).unwrap();
    assert!(signal(server.pid(), "HUP"));
    assert!(wait_until(|| bundles_of_supervisor() > 2), "{}", server.log());
    assert!(signal(process, "CONT"));
    server.log_line("certificates have changed: the new ones are in force");
    server.log_line("nothing has changed");
    assert!(signal(process, "KILL"));
    server.log_line("serves");
    let config = Arc::new(authority.client(BOTH));
    let client = TlsClient::connect(server.tls_address(), "localhost", &config).unwrap();
    let sent = rustls::pki_types::pem::PemObject::from_pem_slice(new.as_bytes());
    let sent: rustls::pki_types::CertificateDer<'_> = sent.unwrap();
    assert_eq!(client.certificate(), sent.to_vec());
}

#[test]
fn check_reports_unusable_certificates() {
    let authority = Authority::new();
    let setup = setup(&authority);
    setup.write_configuration();
    let (certificate, key) = authority.issue(&["localhost"]);
    let (_, other_key) = authority.issue(&["localhost"]);
    let (expired, expired_key) = authority.issue_with(&["localhost"], |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 2, 1);
    });
    for (content, is_good, message) in [
        (certificate.clone() + &key, true, "ok: "),
        (
            certificate.clone() + &other_key,
            false,
            "the key does not belong to this certificate",
        ),
        (certificate.clone(), false, "holds no key in PEM form"),
        (key, false, "holds no certificate in PEM form"),
        (
            certificate + "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            false,
            "has a pass phrase",
        ),
        (expired + &expired_key, true, "the certificate has expired on Feb  1"),
    ] {
        fs::write(setup.path("default.pem"), &content).unwrap();
        let ran = run(setup.directory(), &["check", "-c", "sluice.toml"]);
        let printed = format!("{}{}", ran.output, ran.errors);
        assert!(printed.contains(message), "{message}: {printed}");
        assert_eq!(ran.status.success(), is_good, "{printed}");
    }
    fs::remove_file(setup.path("default.pem")).unwrap();
    let ran = run(setup.directory(), &["check", "-c", "sluice.toml"]);
    assert!(ran.errors.contains("cannot be read: No such file"), "{}", ran.errors);
}

#[test]
fn a_certificate_that_expires_soon_is_in_log_status_and_reports() {
    let authority = Authority::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let (certificate, key) = authority.issue_with(&["localhost", "www.localhost"], |params| {
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + now + Duration::from_secs(10 * 86_400 + 600);
    });
    let setup = Setup::new().route("path = \"/-/*\"\nreports = true\naccess = { allow = [\"net:127.0.0.0/8\"] }");
    fs::write(setup.path("soon.pem"), certificate + &key).unwrap();
    authority.issue_to(&setup.path("later.pem"), &["later.localhost"]);
    let tls = |file: &str| format!("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = {{ certificate = \"{file}\" }}\n");
    let server = setup.listeners(&(tls("soon.pem") + &tls("later.pem"))).start();
    let line = server.log_line("expires in 10 days");
    let file = server.path("soon.pem").display().to_string();
    let expected = format!("WARN  certificate {file} (localhost, www.localhost): expires in 10 days: renew it");
    assert!(line.contains(&expected), "{line}");
    assert!(!server.log().contains("later.pem ("), "{}", server.log());
    let ran = run(server.setup().directory(), &["status", "-c", "sluice.toml"]);
    assert!(
        ran.output.contains(&format!(
            "localhost, www.localhost ({file}): WARNING: expires in 10 days, 20"
        )),
        "{}",
        ran.output
    );
    assert!(ran.output.contains("later.pem): expires in "), "{}", ran.output);
    let host = format!("Host: {}", server.address());
    let page = |name: &str| {
        server
            .send(format!("GET /-/{name} HTTP/1.1\r\n{host}\r\n\r\n"))
            .text()
            .to_owned()
    };
    let overview: serde_json::Value = serde_json::from_str(&page("overview.json")).unwrap();
    let shown = &overview["certificates"][0];
    assert_eq!(
        shown["hosts"],
        serde_json::json!(["localhost", "www.localhost"]),
        "{overview}"
    );
    assert_eq!(shown["expires"], now.as_secs() + 10 * 86_400 + 600);
    assert!(
        page("").contains("<span class=\"bad\">expires in 10 days</span>"),
        "{}",
        page("")
    );
    let metric = format!("sluice_certificate_expiry_time_seconds{{certificate=\"{file}\"}} ");
    assert!(page("metrics").contains(&metric), "{}", page("metrics"));
}

#[test]
fn check_warns_of_hosts_that_no_certificate_covers() {
    let authority = Authority::new();
    let setup = Setup::new().site("hosts = [\"example.test\", \"www.example.test\"]");
    authority.issue_to(&setup.path("default.pem"), &["example.test", "*.example.test"]);
    authority.issue_to(&setup.path("own.pem"), &["own.test"]);
    let site = |host: &str, keys: &str| format!("[[site]]\nhosts = [\"{host}\"]\nroot = \"htdocs\"\n{keys}\n");
    let setup = setup
        .listeners("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }")
        .sites(&(site("shop.test", "") + &site("own.test", "tls = { certificate = \"own.pem\" }")));
    setup.write_configuration();
    let ran = run(setup.directory(), &["check", "-c", "sluice.toml"]);
    assert!(ran.status.success(), "{}", ran.errors);
    let warnings: Vec<&str> = ran
        .errors
        .lines()
        .filter(|line| line.contains("no certificate covers"))
        .collect();
    assert_eq!(warnings.len(), 1, "{}", ran.errors);
    assert!(
        warnings[0].contains("covers shop.test, so clients of https://shop.test/")
            && warnings[0].contains("default.pem (for example.test, *.example.test)"),
        "{}",
        warnings[0]
    );
}

#[test]
fn client_certificates_are_requested_and_verified() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let print = "printf 'Content-Type: text/plain\\n\\n%s|%s|%s|%.32s|' \
        \"$SSL_CLIENT_VERIFY\" \"$SSL_CLIENT_S_DN\" \"$SSL_CLIENT_I_DN\" \"$SSL_CLIENT_CERT\"";
    for (choice, is_required) in [("optional", false), ("required", true)] {
        let setup = Setup::new().script("who", print).listeners(&format!(
            "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = {{ certificate = \"default.pem\", client_certificates = \"{choice}\", client_authorities = \"ca.pem\" }}"
        ));
        authority.issue_to(&setup.path("default.pem"), &["localhost"]);
        fs::write(setup.path("ca.pem"), authority.pem()).unwrap();
        let server = setup.start();
        let ask = |config: rustls::ClientConfig| {
            let mut client = TlsClient::connect(server.tls_address(), "localhost", &Arc::new(config))?;
            client.get("/cgi-bin/who", "localhost")
        };
        let purpose = |params: &mut rcgen::CertificateParams| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        };
        let known = authority.issue_with(&["ann, of \"test\""], purpose);
        let response = ask(authority.client_with(BOTH, Some(known))).unwrap();
        let expected = "SUCCESS|CN=ann\\, of \\\"test\\\"|CN=Test Authority|-----BEGIN CERTIFICATE----- MII";
        assert!(response.contains(expected), "{response}");
        let unknown = stranger.issue_with(&["ann"], purpose);
        assert!(ask(authority.client_with(BOTH, Some(unknown))).is_err());
        // The client learns little, so the log must give the reason.
        server.log_line("client certificate: invalid peer certificate: ");
        let without = ask(authority.client(BOTH));
        match without {
            Ok(response) => assert!(!is_required && response.contains("NONE||"), "{response}"),
            Err(error) => assert!(is_required, "{error}"),
        }
    }
}

#[test]
fn session_without_a_client_certificate_is_not_resumed_where_one_is_required() {
    let authority = Authority::new();
    let setup = Setup::new().file("a.txt", "hello").listeners(&format!(
        "{TLS}\n[[listen]]\naddress = \"127.0.0.2:0\"\n\
         tls = {{ certificate = \"default.pem\", client_certificates = \"required\", client_authorities = \"ca.pem\" }}"
    ));
    authority.issue_to(&setup.path("default.pem"), &["localhost"]);
    fs::write(setup.path("ca.pem"), authority.pem()).unwrap();
    let server = setup.start();
    let strict = server.addresses().remove(2);
    let strict = strict
        .trim_start_matches("https://")
        .trim_end_matches('/')
        .parse()
        .unwrap();
    for version in [&TLS12, &TLS13] {
        let config = Arc::new(authority.client(&[version]));
        let ask = |address| TlsClient::connect(address, "localhost", &config)?.get("/a.txt", "localhost");
        // The client now has a session ticket, which it offers under the same name.
        assert!(ask(server.tls_address()).unwrap().ends_with("hello"));
        assert!(ask(strict).is_err(), "{version:?}");
    }
}

#[test]
fn clear_text_is_redirected_to_https_or_gets_a_hint() {
    let authority = Authority::new();
    let setup = Setup::new().file("a.txt", "hello").listeners(&format!(
        "{TLS}\n[[listen]]\naddress = \"127.0.0.2:0\"\nredirect = \"https\""
    ));
    authority.issue_to(&setup.path("default.pem"), &["localhost"]);
    let server = setup.start();
    let redirecting = server
        .addresses()
        .into_iter()
        .find(|address| address.contains("127.0.0.2"))
        .unwrap();
    let head = curl(&[
        "--head",
        &format!("{redirecting}a%20b?c=d"),
        "--header",
        "Host: example.test:80",
    ]);
    assert!(head.starts_with("HTTP/1.1 308"), "{head}");
    assert!(head.contains("location: https://example.test"), "{head}");
    assert!(head.contains("/a%20b?c=d\r\n"), "{head}");
    let invalid = curl(&["--head", &format!("{redirecting}100%?c=d%")]);
    assert!(invalid.starts_with("HTTP/1.1 400"), "{invalid}");
    let output = curl(&["--http0.9", &format!("http://{}/a.txt", server.tls_address())]);
    assert!(output.contains("This port speaks https"), "{output}");
}

#[test]
fn unfinished_handshake_ends_after_the_head_timeout() {
    let authority = Authority::new();
    let server = setup(&authority).limits("head_timeout = \"200ms\"").start();
    let mut silent = sluice_testing::Client::connect(server.tls_address());
    let mut halting = sluice_testing::Client::connect(server.tls_address());
    halting.send([0x16, 0x03, 0x01]);
    silent.assert_closed();
    halting.assert_closed();
}

#[test]
fn serve_creates_a_self_signed_certificate() {
    let setup = Setup::new();
    let arguments = ["serve", "htdocs", "--listen", "127.0.0.1:0", "--tls"];
    let server = setup.file("a.txt", "hello").start_with(&arguments);
    let body = curl(&["--insecure", &format!("https://{}/a.txt", server.tls_address())]);
    assert_eq!(body, "hello");
    // `Drop` checks the health in clear text, which this server does not speak.
    let mut server = server;
    server.end();
}
