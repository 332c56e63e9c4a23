//! Trusted proxies: logs and scripts see the forwarded client. The same fields from other clients are ignored.

use std::fs;
use std::sync::Arc;

use rustls::version::TLS13;

use crate::addresses::unix;
use sluice_testing::{Authority, Server, Setup, TlsClient};

/// A script that prints the client, the scheme and the server's address.
const ENDPOINTS: &str = r#"printf 'Content-Type: text/plain\n\n%s %s %s:%s %s %s %s' \
    "$REMOTE_ADDR" "$REMOTE_PORT" "$REQUEST_SCHEME" "$SERVER_PORT" "$HTTPS" "$SERVER_NAME" "$HTTP_X_FORWARDED_FOR""#;

/// A server that trusts proxies as given by these keys.
fn server(keys: &str) -> Server {
    let setup = Setup::new()
        .script("ends", ENDPOINTS)
        .file("a.txt", "hello")
        .server(keys);
    setup.site("hsts = \"1h\"\nhosts = [\"a.test\"]").start()
}

/// The output of the script for a request with these fields.
#[track_caller]
fn reported(server: &Server, fields: &str) -> String {
    let request = format!("GET /cgi-bin/ends HTTP/1.1\r\nHost: a.test:81\r\n{fields}Connection: close\r\n\r\n");
    server.send(request).text().to_owned()
}

#[test]
fn scripts_and_logs_see_the_client_of_a_trusted_proxy() {
    let server = server("trusted_proxies = [\"127.0.0.0/8\", \"10.0.0.0/8\"]");
    let lines = "X-Forwarded-For: 6.6.6.6, 192.0.2.7:4711\r\nX-Forwarded-For: 10.1.1.1\r\nX-Forwarded-Proto: https\r\n";
    assert_eq!(
        reported(&server, lines),
        "192.0.2.7 4711 https:81 on a.test 6.6.6.6, 192.0.2.7:4711, 10.1.1.1"
    );
    assert_eq!(
        reported(&server, "X-Forwarded-For: 2001:db8::7\r\n"),
        format!("2001:db8::7 0 http:{}  a.test 2001:db8::7", server.address().port())
    );
    // Two workers may write their lines in any order.
    let lines = server.access_lines(2);
    for client in ["192.0.2.7 ", "2001:db8::7 "] {
        assert!(lines.iter().any(|line| line.starts_with(client)), "{client}: {lines:?}");
    }
}

#[test]
fn fields_from_untrusted_clients_are_ignored() {
    for keys in ["", "trusted_proxies = [\"10.0.0.0/8\", \"unix:\"]"] {
        let server = server(keys);
        let lines =
            "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\nForwarded: for=192.0.2.8;proto=https\r\n";
        let reported = reported(&server, lines);
        assert!(
            reported.starts_with("127.0.0.1 ") && !reported.starts_with("127.0.0.1 0 "),
            "{reported}"
        );
        let port = server.address().port();
        assert!(
            reported.ends_with(&format!(" http:{port}  a.test 192.0.2.7")),
            "{reported}"
        );
        assert!(server.access_lines(1)[0].starts_with("127.0.0.1 "));
    }
}

#[test]
fn forwarded_replaces_the_x_forwarded_fields_if_configured() {
    let server = server("trusted_proxies = [\"127.0.0.1\"]\nforwarded = \"forwarded\"");
    let lines = "Forwarded: for=6.6.6.6, for=\"[2001:db8::7]:4711\";proto=https\r\nX-Forwarded-For: 192.0.2.7\r\n";
    assert_eq!(
        reported(&server, lines),
        "2001:db8::7 4711 https:81 on a.test 192.0.2.7"
    );
    // An unclosed quote from the client does not hide what the proxy appends.
    let lines = "Forwarded: for=\"6.6.6.6, for=192.0.2.9\r\n";
    assert!(reported(&server, lines).starts_with("192.0.2.9 0 http:"));
    let reported = reported(&server, "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n");
    assert!(
        reported.starts_with("127.0.0.1 ") && reported.contains(" http:"),
        "{reported}"
    );
}

#[test]
fn forwarded_list_ends_at_the_first_non_address() {
    let server = server("trusted_proxies = [\"127.0.0.1\", \"10.0.0.0/8\"]");
    let many = vec!["10.0.0.9"; 1000].join(", ");
    assert!(reported(&server, &format!("X-Forwarded-For: 192.0.2.7, {many}\r\n")).starts_with("10.0.0.9 0 "));
    for last in ["unknown", "_hidden", "\u{e9}", "192.0.2.1.1", "\"", "for=192.0.2.1"] {
        let reported = reported(&server, &format!("X-Forwarded-For: 192.0.2.7, {last}\r\n"));
        assert!(reported.starts_with("127.0.0.1 "), "{last}: {reported}");
    }
}

#[test]
fn hsts_and_https_redirects_follow_the_forwarded_scheme() {
    let authority = Authority::new();
    let event_fifo = "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"c.pem\" }\n\
        [[listen]]\naddress = \"unix:to-https.sock\"\nredirect = \"https\"";
    let setup = Setup::new()
        .file("a.txt", "hello")
        .site("hsts = \"1h\"")
        .listeners(event_fifo);
    authority.issue_to(&setup.path("c.pem"), &["localhost"]);
    let server = setup.server("trusted_proxies = [\"127.0.0.1\", \"unix:\"]").start();
    let get = |fields: &str| server.send(format!("GET /a.txt HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"));
    assert_eq!(get("").field("strict-transport-security"), None);
    let response = get("X-Forwarded-Proto: https\r\n");
    assert_eq!(response.field("strict-transport-security"), Some("max-age=3600"));
    // A proxy may use TLS towards the server for a client that does not.
    let config = Arc::new(authority.client(&[&TLS13]));
    let mut client = TlsClient::connect(server.tls_address(), "localhost", &config).unwrap();
    let response = client.get("/a.txt", "localhost\r\nX-Forwarded-Proto: http").unwrap();
    assert!(
        response.ends_with("hello") && !response.contains("strict-transport"),
        "{response}"
    );
    let socket = server.path("to-https.sock");
    let response = unix::get(&socket, "/a.txt", "a.test");
    assert!(response.starts_with("HTTP/1.1 308 "), "{response}");
    let response = unix::get(&socket, "/a.txt", "a.test\r\nX-Forwarded-Proto: https");
    assert!(response.ends_with("hello"), "redirect loop: {response}");
}

#[test]
fn proxy_may_use_a_unix_socket_and_reload_changes_trust() {
    let setup = Setup::new()
        .script("ends", ENDPOINTS)
        .site("hosts = [\"a.test\"]")
        .listeners("[[listen]]\naddress = \"unix:s.sock\"");
    let server = setup.server("trusted_proxies = [\"unix:\"]").start();
    let socket = server.path("s.sock");
    let host = "a.test\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https";
    let response = unix::get(&socket, "/cgi-bin/ends", host);
    assert!(response.contains("\r\n192.0.2.7 0 https:443 on a.test"), "{response}");
    let reported = reported(&server, "X-Forwarded-For: 192.0.2.7\r\n");
    assert!(reported.starts_with("127.0.0.1 "), "{reported}");
    let text = fs::read_to_string(server.path("sluice.toml")).unwrap();
    fs::write(
        server.path("sluice.toml"),
        text.replace("[\"unix:\"]", "[\"127.0.0.1\"]"),
    )
    .unwrap();
    server.signal("HUP");
    server.log_line("is in force");
    let response = unix::get(&socket, "/cgi-bin/ends", host);
    assert!(response.contains("\r\n127.0.0.1 0 http:80  a.test"), "{response}");
}

#[test]
fn a_proxy_that_is_not_trusted_and_redirects_to_https_are_explained_as_a_loop() {
    let server = Setup::new()
        .workers(1)
        .route("path = \"/page/*\"\nwhen = { scheme = \"http\" }\nredirect = { to = \"https://test/page/$1\" }")
        .start();
    let request =
        "GET /page/x?a=b HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n\r\n";
    assert_eq!(server.send(request).status, 302);
    let line = server.log_line("redirect loop: the proxy 127.0.0.1 says that its client uses https");
    assert!(
        line.contains("http://test/page/x?a=b is redirected") && line.contains("trusted_proxies = [\"127.0.0.1\"]"),
        "{line}"
    );
    server.send(request);
    assert_eq!(server.log().matches("redirect loop").count(), 1, "{}", server.log());
}

#[test]
fn a_client_that_is_redirected_in_a_circle_is_explained_once() {
    let server = Setup::new()
        .workers(1)
        .script("login", "printf 'Location: /cgi-bin/login?again\n\n'")
        .route("path = \"/a\"\nredirect = { to = \"/b\" }")
        .start();
    for _ in 0..9 {
        assert_eq!(server.get("/a").status, 302);
    }
    assert!(!server.log().contains("redirect loop"), "{}", server.log());
    server.get("/a");
    let line = server.log_line("redirect loop: 127.0.0.1 was redirected from http://");
    assert!(
        line.contains("/a to /b 10 times within 10s: change the route"),
        "{line}"
    );
    for _ in 0..30 {
        server.get("/a");
    }
    assert_eq!(server.log().matches("redirect loop").count(), 1, "{}", server.log());
}
