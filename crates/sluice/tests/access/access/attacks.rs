//! Attacks: other spellings of a path, methods and forms of a request, fields that are repeated, many clients.

use super::{ask_as, basic, request, setup, status};
use sluice_testing::{Authority, Server, curl};

/// A server whose file `/secret/a.txt` needs a user, for reading; nobody may change it.
fn server() -> Server {
    setup()
        .route("path = \"/secret/*\"\naccess = { users = \"users\", allow_write = [\"user:nobody\"] }")
        .start()
}

/// The response to a request with this target and method, as text.
fn answer(server: &Server, line: &str) -> (u16, String) {
    let mut client = server.connect();
    client.send(format!(
        "{line}\r\nHost: test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    ));
    let response = client.response_to(line.split(' ').next().unwrap_or_default());
    (response.status, response.text().to_owned())
}

#[test]
fn no_spelling_of_a_path_leads_around_a_rule() {
    let server = server();
    assert_eq!(ask_as(&server, "ann", "GET", "/secret/a.txt").text(), "SECRET");
    for target in [
        "/secret/a.txt",
        "//secret/a.txt",
        "/secret//a.txt",
        "///secret///a.txt",
        "/./secret/./a.txt",
        "/x/../secret/a.txt",
        "/secret/x/../a.txt",
        "/secret/../secret/a.txt",
        "/%73ecret/a.txt",
        "/secret/%61.txt",
        "/secret%2fa.txt",
        "/secret%2Fa.txt",
        "/%2e/secret/a.txt",
        "/x/%2e%2e/secret/a.txt",
        "/x/%2e%2e%2fsecret/a.txt",
        "/secret/a.txt/",
        "/secret/a.txt/x",
        "/secret/a.txt%00",
        "/secret/a.txt%20",
        "/secret/a.txt.",
        "/secret/a.txt?x",
        "/secret/a.txt;x",
        "/SECRET/A.TXT",
        "/Secret/a.txt",
        "\\secret\\a.txt",
        "/%5csecret%5ca.txt",
        "/secret/a.txt#x",
        "/%c0%af/secret/a.txt",
        "/%252e/secret/a.txt",
        "http://test/secret/a.txt",
        "HTTP://TEST/secret/a.txt",
        "http://test//secret/a.txt",
        "http://localhost/x/../secret/a.txt",
        "http://user:password@test/secret/a.txt",
    ] {
        for version in ["HTTP/1.1", "HTTP/1.0"] {
            let (status, text) = answer(&server, &format!("GET {target} {version}"));
            assert!(!text.contains("SECRET"), "{target} {version}");
            assert!(
                [301, 308, 400, 401, 404, 421].contains(&status),
                "{target} {version}: {status}"
            );
        }
    }
}

#[test]
fn no_method_leads_around_a_rule() {
    let server = server();
    let all = [
        "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "PROPFIND", "SEARCH", "QUERY", "TRACE", "get", "GETX",
        "X", "CONNECT",
    ];
    for method in all {
        let (status, text) = answer(&server, &format!("{method} /secret/a.txt HTTP/1.1"));
        assert!(!text.contains("SECRET"), "{method}");
        assert!([400, 401, 403, 405, 501].contains(&status), "{method}: {status}");
    }
    // A method in a field counts for nothing.
    for field in ["X-HTTP-Method-Override: GET\r\n", "X-Method-Override: GET\r\n"] {
        let fields = format!("{}{field}", basic("ann", "open sesame"));
        assert_eq!(status(&server, "POST", "/secret/a.txt", &fields), 403);
    }
}

#[test]
fn a_repeated_authorization_is_none() {
    let server = server();
    let (right, wrong) = (basic("ann", "open sesame"), basic("ann", "wrong"));
    for fields in [
        format!("{right}{wrong}"),
        format!("{wrong}{right}"),
        format!("{right}{right}"),
    ] {
        assert_eq!(status(&server, "GET", "/secret/a.txt", &fields), 401);
    }
    assert_eq!(status(&server, "GET", "/secret/a.txt", &right), 200);
}

#[test]
fn malformed_credentials_are_no_credentials() {
    let server = server();
    for value in [
        "Basic",
        "Basic ",
        "Basic =",
        "Basic YW5u",
        "Basic !!!!",
        "Basic OnNlc2FtZQ==",
        "Bearer x",
        "Digest username=\"ann\"",
        "Negotiate YII=",
        "basicYW5uOm9wZW4gc2VzYW1l",
        "ann:open sesame",
    ] {
        let fields = format!("Authorization: {value}\r\n");
        assert_eq!(status(&server, "GET", "/secret/a.txt", &fields), 401, "{value}");
    }
    let long = format!("Authorization: Basic {}\r\n", "YWFh".repeat(1500));
    assert_eq!(status(&server, "GET", "/secret/a.txt", &long), 401);
    assert_eq!(server.get("/a.txt").status, 200);
}

#[test]
fn a_pipeline_does_not_share_a_user() {
    let server = server();
    let mut client = server.connect();
    client.send(format!(
        "{}{}{}",
        request("GET", "/secret/a.txt", &basic("ann", "open sesame")),
        request("GET", "/secret/a.txt", ""),
        request("GET", "/secret/a.txt", &basic("eve", "wrong"))
    ));
    let statuses: Vec<u16> = (0..3).map(|_| client.response().status).collect();
    assert_eq!(statuses, [200, 401, 401]);
}

#[test]
fn streams_of_one_connection_do_not_share_a_user() {
    let setup = setup();
    Authority::new().issue_to(&setup.path("tls.pem"), &["localhost"]);
    let server = setup
        .listeners("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"tls.pem\" }")
        .route("path = \"/secret/*\"\naccess = { users = \"users\" }")
        .start();
    let url = format!("https://localhost:{}/secret/a.txt", server.tls_address().port());
    let mut arguments = Vec::new();
    for user in [
        Some("ann:open sesame"),
        None,
        Some("eve:wrong"),
        Some("bob:open sesame"),
        None,
    ] {
        arguments.extend(["--http2", "--insecure", "--silent", "--output", "/dev/null"]);
        arguments.extend(["--write-out", "%{http_version} %{http_code} %{num_connects}\n"]);
        arguments.extend(user.map(|user| ["--user", user]).into_iter().flatten());
        arguments.extend([url.as_str(), "--next"]);
    }
    arguments.pop();
    let expected = "2 200 1\n2 401 0\n2 401 0\n2 200 0\n2 401 0\n";
    assert_eq!(curl(&arguments), expected, "status and new connections of each");
}
