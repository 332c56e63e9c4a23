//! The identity of the user: passwords, trusted proxies, certificates; and the part of it that scripts and logs learn.

use std::fs;
use std::sync::Arc;

use rcgen::ExtendedKeyUsagePurpose;
use rustls::ClientConfig;
use rustls::version::TLS13;

use super::{ask_as, base64, basic, request, setup, status, users};
use sluice_testing::{Authority, Client, Response, Setup, TlsClient, curl, run, wait_until, write_with_mode};

const STAFF: &str =
    "access = { realm = \"Staff\", users = \"users\", groups = \"groups\", allow = [\"user:eve\", \"group:staff\"] }";

#[test]
fn scripts_and_the_access_log_get_the_user() {
    let server = setup()
        .route(&format!("path = \"/cgi-bin/who\"\n{STAFF}"))
        .route(&format!("path = \"/cgiplus-bin/who\"\n{STAFF}"))
        .start();
    let bob = ask_as(&server, "bob", "GET", "/cgi-bin/who");
    assert_eq!(
        bob.text(),
        "AUTH_GROUP=staff\nAUTH_REALM=Staff\nAUTH_TYPE=Basic\nREMOTE_USER=bob\n"
    );
    let eve = ask_as(&server, "eve", "GET", "/cgi-bin/who");
    assert_eq!(eve.text(), "AUTH_REALM=Staff\nAUTH_TYPE=Basic\nREMOTE_USER=eve\n");
    assert_eq!(server.get("/cgi-bin/who").status, 401);
    let lines = server.access_lines(3);
    // Two workers may write theirs in another order.
    for user in ["bob", "eve", "-"] {
        let is_user = |line: &String| line.contains(&format!(" - {user} ["));
        assert!(lines.iter().any(is_user), "{user}: {lines:#?}");
    }
}

#[test]
fn authorization_is_withheld_from_scripts_unless_the_route_passes_it() {
    let server = setup()
        .script("own", super::WHO)
        .route("path = \"/cgi-bin/own\"\npass_authorization = true")
        .route(&format!("path = \"/cgi-bin/who\"\n{STAFF}"))
        .start();
    let fields = basic("ann", "x");
    let value = format!("HTTP_AUTHORIZATION=Basic {}\n", base64(b"ann:x"));
    // The script verifies by itself: the server does not say that there is a user.
    assert_eq!(server.send(request("GET", "/cgi-bin/own", &fields)).text(), value);
    assert_eq!(
        server
            .send(request("GET", "/cgi-bin/own", "Authorization: Bearer t\r\n"))
            .text(),
        "HTTP_AUTHORIZATION=Bearer t\n"
    );
    assert!(
        !ask_as(&server, "ann", "GET", "/cgi-bin/who")
            .text()
            .contains("HTTP_AUTHORIZATION")
    );
}

#[test]
fn a_changed_users_file_counts_and_a_broken_one_does_not() {
    let server = setup().route(&format!("path = \"/secret/*\"\n{STAFF}")).start();
    let ask = |name: &str| ask_as(&server, name, "GET", "/secret/a.txt").status;
    assert_eq!((ask("ann"), ask("bob")), (200, 200));
    users(server.setup(), &["ann"]);
    assert!(wait_until(|| ask("bob") == 401), "a removed user still has access");
    assert_eq!(ask("ann"), 200);
    write_with_mode(&server.path("groups"), b"others: ann\n", 0o600);
    assert!(wait_until(|| ask("ann") == 403), "a user is still in the group");
    write_with_mode(&server.path("groups"), b"staff: ann\n", 0o600);
    assert!(wait_until(|| ask("ann") == 200));
    write_with_mode(&server.path("users"), b"ann:secret\n", 0o600);
    assert!(wait_until(|| {
        assert_eq!(ask("ann"), 200, "a broken file counts");
        server.log().contains("the users and groups of before count")
    }));
    fs::remove_file(server.path("users")).unwrap();
    assert_eq!(ask("ann"), 200);
    server.signal("HUP");
    server.log_line("users: there is no such file");
    assert_eq!(ask("ann"), 200, "a reload with a missing file changes nothing");
}

#[test]
fn passwords_in_clear_text_are_refused_from_other_machines() {
    let server = setup()
        .server("trusted_proxies = [\"127.0.0.1\"]")
        .route("path = \"/secret/*\"\naccess = { users = \"users\" }")
        .route("path = \"/secret/clear/*\"\naccess = { users = \"users\", clear_text = true }")
        .start();
    let from = |path: &str, fields: &str| status(&server, "GET", path, &(basic("ann", "open sesame") + fields));
    let remote = "X-Forwarded-For: 192.0.2.7\r\n";
    assert_eq!(from("/secret/a.txt", remote), 403);
    server.log_line("needs a password, which is not accepted over clear text from another machine");
    assert_eq!(
        status(&server, "GET", "/secret/a.txt", remote),
        403,
        "a password is asked for in clear text"
    );
    assert_eq!(
        from("/secret/a.txt", &format!("{remote}X-Forwarded-Proto: https\r\n")),
        200
    );
    assert_eq!(from("/secret/clear/a.txt", remote), 404);
    assert_eq!(from("/secret/a.txt", ""), 403, "by a proxy that names nobody");
    let server = setup()
        .route("path = \"/secret/*\"\naccess = { users = \"users\" }")
        .start();
    assert_eq!(
        status(&server, "GET", "/secret/a.txt", &basic("ann", "open sesame")),
        200,
        "from this machine"
    );
}

/// Routes that are for clients of this machine, for those of one network, and for all but some.
fn for_networks(setup: Setup) -> Setup {
    setup
        .route("path = \"/secret/*\"\naccess = { allow = [\"net:127.0.0.0/8\", \"net:::1\"] }")
        .route("path = \"/cgi-bin/*\"\naccess = { allow = [\"net:192.0.2.0/24\"] }")
        .route("path = \"/a.txt\"\naccess = { allow = [\"all\", \"!net:198.51.100.7\"] }")
        .route("path = \"/-/*\"\nreports = true\naccess = { allow = [\"net:127.0.0.0/8\", \"net:::1\"], allow_write = [\"net:127.0.0.0/8\"] }")
}

#[test]
fn a_trusted_proxy_that_names_no_client_does_not_make_everybody_this_machine() {
    let server = for_networks(setup())
        .server("trusted_proxies = [\"127.0.0.1\"]")
        .start();
    let ask = |path: &str, fields: &str| {
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        client.response().status
    };
    for named in [
        "unknown",
        "_hidden",
        "1.2.3.4, unknown",
        "127.0.0.1",
        "::1",
        "[::ffff:127.0.0.1]:80",
    ] {
        let fields = format!("X-Forwarded-For: {named}\r\n");
        for path in ["/secret/a.txt", "/-/", "/-/action.json"] {
            assert_eq!(ask(path, &fields), 403, "{path} {named}");
        }
        assert_eq!(ask("/a.txt", &fields), 403, "may be the one that is excluded: {named}");
    }
    assert_eq!(ask("/secret/a.txt", ""), 403);
    assert_eq!(ask("/-/", ""), 403);
    server.log_line("nobody knows its address");
    assert_eq!(ask("/cgi-bin/who", "X-Forwarded-For: 192.0.2.7\r\n"), 200);
    assert_eq!(ask("/a.txt", "X-Forwarded-For: 192.0.2.7\r\n"), 200);
    assert_eq!(ask("/a.txt", "X-Forwarded-For: 198.51.100.7\r\n"), 403);
}

#[test]
fn clients_of_a_unix_socket_and_of_proxy_unknown_are_not_this_machine() {
    let listen = "[[listen]]\naddress = \"unix:s.sock\"\n[[listen]]\naddress = \"127.0.0.1:0\"\nproxy_protocol = [\"127.0.0.1\"]";
    let server = for_networks(setup())
        .listeners(listen)
        .server("trusted_proxies = [\"127.0.0.1\"]")
        .start();
    let socket = server.path("s.sock");
    let socket = socket.to_str().unwrap();
    let curl_status = |path: &str, version: &str| {
        let url = format!("http://localhost{path}");
        curl(&[
            "--unix-socket",
            socket,
            version,
            "-s",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            &url,
        ])
    };
    for path in ["/secret/a.txt", "/-/", "/a.txt"] {
        assert_eq!(curl_status(path, "--http1.1"), "403", "{path}");
        assert_eq!(curl_status(path, "--http1.0"), "403", "{path}");
    }
    let addresses = server.addresses();
    let proxied = addresses
        .iter()
        .filter_map(|address| address.split_once("://")?.1.trim_end_matches('/').parse().ok())
        .find(|address| *address != server.address())
        .unwrap();
    let ask = |header: &[u8], path: &str| {
        let mut client = Client::connect(proxied);
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n");
        client.send([header, request.as_bytes()].concat());
        client.response().status
    };
    for header in [
        &b"PROXY UNKNOWN\r\n"[..],
        b"PROXY UNKNOWN junk\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\0\0\0",
    ] {
        assert_eq!(ask(header, "/secret/a.txt"), 403, "{header:?}");
        assert_eq!(ask(header, "/-/"), 403, "{header:?}");
        assert_eq!(
            ask(header, "/cgi-bin/who"),
            403,
            "the bytes may be anybody's, not a trusted proxy's"
        );
    }
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    assert_eq!(ask(local, "/cgi-bin/who"), 200, "the proxy itself, which is trusted");
    assert_eq!(ask(b"PROXY TCP4 127.0.0.2 127.0.0.1 1 2\r\n", "/secret/a.txt"), 403);
    assert_eq!(ask(b"PROXY TCP4 192.0.2.7 127.0.0.1 1 2\r\n", "/cgi-bin/who"), 200);
}

#[test]
fn check_warns_of_networks_whose_clients_nobody_knows() {
    let check = |listen: &str, keys: &str| {
        let setup = for_networks(setup()).listeners(listen).server(keys);
        setup.write_configuration();
        let checked = run(setup.directory(), &["check", "-c", "sluice.toml"]);
        assert!(checked.status.success(), "{}", checked.errors);
        checked.errors
    };
    let unix = "[[listen]]\naddress = \"unix:s.sock\"";
    let errors = check(unix, "");
    assert!(
        errors.contains("net: nobody knows the addresses of the clients of unix:"),
        "{errors}"
    );
    let errors = check("", "trusted_proxies = [\"127.0.0.1\"]");
    assert!(errors.contains("net: 127.0.0.1 is a trusted proxy"), "{errors}");
    let errors = check(unix, "trusted_proxies = [\"unix:\", \"192.0.2.1\"]");
    assert!(!errors.contains("net:"), "{errors}");
}

#[test]
fn only_a_trusted_proxy_names_the_user() {
    let route = "path = \"/cgi-bin/who\"\naccess = { groups = \"groups\", remote_user_from = \"X-Remote-User\", allow = [\"group:staff\"], \
                 realm = \"Proxied\" }";
    let field = "X-Remote-User: ann\r\n";
    let server = setup().server("trusted_proxies = [\"127.0.0.1\"]").route(route).start();
    let response = server.send(request("GET", "/cgi-bin/who", field));
    assert_eq!(
        response.text(),
        "AUTH_GROUP=staff\nAUTH_REALM=Proxied\nAUTH_TYPE=Proxy\nHTTP_X_REMOTE_USER=ann\nREMOTE_USER=ann\n"
    );
    for (fields, expected) in [
        ("X-Remote-User: eve\r\n", 403),
        ("", 403),
        ("X-Remote-User: \r\n", 403),
        ("X-Remote-User: ann\r\nX-Remote-User: bob\r\n", 403),
    ] {
        assert_eq!(status(&server, "GET", "/cgi-bin/who", fields), expected, "{fields}");
    }
    let open = route.replace("allow = [\"group:staff\"]", "allow = [\"all\", \"group:staff\"]");
    let server = setup().server("trusted_proxies = [\"192.0.2.1\"]").route(&open).start();
    let response = server.send(request("GET", "/cgi-bin/who", field));
    assert_eq!(
        response.text(),
        "",
        "a script saw the field of a client that is no proxy"
    );
    let server = setup().server("trusted_proxies = [\"192.0.2.1\"]").route(route).start();
    assert_eq!(status(&server, "GET", "/cgi-bin/who", field), 403);
    // A script of the same site that asks for no user would take the field for the proxy's, too.
    let elsewhere = route.replace("/cgi-bin/who", "/secret/*");
    let server = setup()
        .server("trusted_proxies = [\"192.0.2.1\"]")
        .route(&elsewhere)
        .start();
    assert_eq!(server.send(request("GET", "/cgi-bin/who", field)).text(), "");
}

/// A client with a certificate whose subject has this common name alone.
fn client_named(authority: &Authority, name: &str) -> Arc<ClientConfig> {
    let named = |params: &mut rcgen::CertificateParams| {
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    };
    Arc::new(authority.client_with(&[&TLS13], Some(authority.issue_with(&[name], named))))
}

#[test]
fn certificates_are_entries_and_users() {
    let authority = Authority::new();
    let setup = setup();
    authority.issue_to(&setup.path("tls.pem"), &["localhost"]);
    fs::write(setup.path("ca.pem"), authority.pem()).unwrap();
    let tls =
        "tls = { certificate = \"tls.pem\", client_certificates = \"optional\", client_authorities = \"ca.pem\" }";
    let server = setup
        .listeners(&format!("[[listen]]\naddress = \"127.0.0.1:0\"\n{tls}"))
        .route("path = \"/secret/ann\"\naccess = { allow = [\"certificate:CN=ann\"] }")
        .route("path = \"/secret/bob\"\naccess = { allow = [\"certificate:CN=bob\"] }")
        .route("path = \"/cgi-bin/who\"\naccess = { groups = \"groups\", certificate_user = true, allow = [\"group:editors\"] }")
        .start();
    let with = client_named(&authority, "ann");
    let without = Arc::new(authority.client(&[&TLS13]));
    let ask = |config, path: &str| {
        let mut client = TlsClient::connect(server.tls_address(), "localhost", config).unwrap();
        let received = client.get(path, "localhost").unwrap();
        Response::of_closed(&received).unwrap()
    };
    assert_eq!(ask(&with, "/secret/ann").status, 404);
    assert_eq!(ask(&with, "/secret/bob").status, 403);
    assert_eq!(ask(&without, "/secret/ann").status, 403);
    assert_eq!(
        ask(&with, "/cgi-bin/who").text(),
        "AUTH_GROUP=editors\nAUTH_REALM=Restricted\nAUTH_TYPE=X509\nREMOTE_USER=ann\n"
    );
    assert_eq!(ask(&without, "/cgi-bin/who").status, 403);
}

#[test]
fn the_certificate_of_a_trusted_proxy_is_not_that_of_its_visitors() {
    let authority = Authority::new();
    let setup = setup();
    authority.issue_to(&setup.path("tls.pem"), &["localhost"]);
    fs::write(setup.path("ca.pem"), authority.pem()).unwrap();
    let tls =
        "tls = { certificate = \"tls.pem\", client_certificates = \"optional\", client_authorities = \"ca.pem\" }";
    let variables = "printf 'Content-Type: text/plain\\n\\n%s %s' \"$SSL_CLIENT_VERIFY\" \"$SSL_CLIENT_S_DN\"";
    let server = setup
        .server("trusted_proxies = [\"127.0.0.1\"]")
        .script("certificate", variables)
        .listeners(&format!("[[listen]]\naddress = \"127.0.0.1:0\"\n{tls}"))
        .route("path = \"/secret/a.txt\"\naccess = { allow = [\"certificate:CN=proxy\"] }")
        .route("path = \"/cgi-bin/who\"\naccess = { certificate_user = true }")
        .route("path = \"/a.txt\"\nclient_certificates = \"required\"")
        .start();
    let config = client_named(&authority, "proxy");
    let ask = |path: &str| {
        let mut client = TlsClient::connect(server.tls_address(), "localhost", &config).unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 198.51.100.9\r\nConnection: close\r\n\r\n"
        );
        client.send(&request).unwrap();
        Response::of_closed(&client.rest().unwrap()).unwrap()
    };
    assert_eq!(ask("/secret/a.txt").status, 403);
    assert_eq!(ask("/cgi-bin/who").status, 403);
    assert_eq!(ask("/cgi-bin/certificate").text(), "NONE ");
    assert_eq!(
        ask("/a.txt").status,
        200,
        "what requires a certificate has that of the proxy"
    );
}

#[test]
fn curl_logs_in_over_http_2_and_with_a_password_beyond_ascii() {
    let setup = setup();
    authority_and_users(&setup.path("tls.pem"));
    let server = setup
        .listeners("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"tls.pem\" }")
        .route("path = \"/secret/*\"\naccess = { users = \"users\" }")
        .start();
    let url = format!("https://localhost:{}/secret/a.txt", server.tls_address().port());
    let ask = |user: &str| curl(&["--http2", "--insecure", "--silent", "--include", "--user", user, &url]);
    let response = ask("ann:open sesame");
    assert!(
        response.starts_with("HTTP/2 200") && response.ends_with("SECRET"),
        "{response}"
    );
    assert!(ask("ann:open sesäm").starts_with("HTTP/2 401"));
}

fn authority_and_users(file: &std::path::Path) {
    Authority::new().issue_to(file, &["localhost"]);
}
