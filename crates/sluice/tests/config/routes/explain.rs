//! `sluice check --explain`: the explanation matches what the server does, and the exit status says whether the
//! request would succeed.

use super::SHOW;
use sluice_testing::{Authority, Setup, run};

/// A site with a route of every kind.
fn setup() -> Setup {
    let setup = Setup::new()
        .script("show", SHOW)
        .file("a.txt", "a")
        .file("docs/index.html", "<p>")
        .file("empty/x", "")
        .file_with_mode("app/index.cgi", format!("#!/bin/sh\n{SHOW}\n"), 0o755)
        .site("hosts = [\"example.org\"]\nindex = [\"index.html\", \"index.cgi\"]")
        .route("path = \"/*\"\nheaders = { set = { X-A = \"1\" } }")
        .route("path = \"/quiet/*\"\nlog = false")
        .route("path = \"/admin/*\"\nwhen = { client = \"!10.0.0.0/8\" }\nrefuse = { text = \"From inside only.\" }")
        .route("path = \"/api/*\"\nwhen = { method = [\"PUT\", \"DELETE\"] }\nrefuse = { status = 403 }")
        .route("regex = '^/user/(\\d+)$'\nrewrite = '/cgi-bin/show/$1?full=1'")
        .route("path = \"/old/*\"\nredirect = { to = \"/new/*\", status = 301 }")
        .route("path = \"/noslash\"\nrewrite = \"/listed/\"")
        .route("path = \"/listed/*\"\nfiles = { directory = \"htdocs/empty\", listing = true }")
        .script_route("*.cgi", "mode = \"cgi\"")
        .sites("[[site]]\nhosts = [\"*.example.net\"]\nroot = \"htdocs\"\nlisting = true");
    setup.write_configuration();
    setup
}

/// The lines that explain a request, and whether it would be served.
#[track_caller]
fn explain(setup: &Setup, arguments: &[&str]) -> (Vec<String>, bool) {
    let all = [&["check", "-c", "sluice.toml", "--explain"], arguments].concat();
    let ran = run(setup.directory(), &all);
    assert_eq!(ran.errors, "", "{arguments:?}");
    // Column widths vary with the text.
    let lines = ran
        .output
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    (lines.collect(), ran.status.success())
}

/// The text after a label that occurs exactly once.
#[track_caller]
fn explained<'l>(lines: &'l [String], label: &str) -> &'l str {
    let mut found = lines
        .iter()
        .filter_map(|line| line.strip_prefix(label)?.strip_prefix(' '));
    let line = found.next().unwrap_or_else(|| panic!("no {label} in {lines:#?}"));
    assert!(found.next().is_none(), "{label} twice in {lines:#?}");
    line
}

#[test]
fn blocks_of_a_route_are_named_with_what_they_change() {
    let setup = Setup::new()
        .file("a.txt", "a")
        .site("use = \"public\"")
        .route("path = \"/*\"\nuse = [\"quiet\"]")
        .sites("[blocks.public]\nindex = [\"a.txt\"]\n[blocks.quiet]\nlog = false");
    setup.write_configuration();
    let (lines, is_served) = explain(&setup, &["/a.txt"]);
    assert!(is_served);
    let ends = |line: &&String| line.ends_with(" /* yes; not logged; continues (use quiet)");
    assert_eq!(lines.iter().filter(ends).count(), 1, "{lines:#?}");
    assert!(explained(&lines, "answer").contains("a.txt"), "{lines:#?}");
}

#[test]
fn every_route_is_listed_with_the_reason() {
    let setup = setup();
    let (lines, is_served) = explain(&setup, &["http://example.org:8080/user/42?x"]);
    assert!(is_served);
    assert_eq!(
        explained(&lines, "request"),
        "GET http://example.org/user/42?x from 127.0.0.1"
    );
    assert!(
        explained(&lines, "site").starts_with("example.org (sluice.toml:"),
        "{lines:#?}"
    );
    assert!(
        explained(&lines, "site").ends_with("): the host is one of its names"),
        "{lines:#?}"
    );
    let routes: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("route sluice.toml:"))
        .collect();
    let routes: Vec<&str> = routes.iter().filter_map(|line| Some(line.split_once(' ')?.1)).collect();
    assert_eq!(
        routes,
        [
            "/* yes; x-a: 1; continues",
            "/quiet/* no, the path does not match",
            "/admin/* no, the path does not match",
            "/api/* no, the path does not match",
            "regex ^/user/(\\d+)$ yes, rewritten to /cgi-bin/show/42?full=1; continues",
            "/old/* no, the path does not match",
            "/noslash no, the path does not match",
            "/listed/* no, the path does not match",
            "*.cgi no, the path does not match",
            "/cgi-bin/* yes; answers",
        ]
    );
    let program = setup.path("htdocs/cgi-bin/show").display().to_string();
    assert_eq!(
        explained(&lines, "answer"),
        format!("reply of script {program} (cgi), SCRIPT_NAME /cgi-bin/show, PATH_INFO /42")
    );
    assert_eq!(explained(&lines, "log"), "as the site says");
}

#[test]
fn every_answer_is_explained_and_only_errors_fail() {
    let setup = setup();
    let file = |name: &str| setup.path("htdocs").join(name).display().to_string();
    for (arguments, expected, is_served) in [
        (
            &["/a.txt"][..],
            format!("200, file {}, text/plain; charset=utf-8", file("a.txt")),
            true,
        ),
        (
            &["/docs/"],
            format!("200, file {}, text/html; charset=utf-8", file("docs/index.html")),
            true,
        ),
        (&["/docs"], "301, redirect to /docs/".to_owned(), true),
        (&["/old/x?y"], "301, redirect to /new/x?y".to_owned(), true),
        (
            &["http://a.example.net/empty/"],
            format!("200, listing of {}", file("empty")),
            true,
        ),
        (
            &["/app/"],
            format!(
                "reply of script {} (cgi), SCRIPT_NAME /app/index.cgi",
                file("app/index.cgi")
            ),
            true,
        ),
        (&["/none"], "404, file \"none\": not there".to_owned(), false),
        (
            &["/empty/"],
            "403, directory \"empty/\" has no index page, and is not listed".to_owned(),
            false,
        ),
        (
            &["/a b"],
            "400, request target \"/a b\": invalid uri character".to_owned(),
            false,
        ),
        (
            &["/%zz"],
            "400, request target \"/%zz\": has a % without two hexadecimal digits after it".to_owned(),
            false,
        ),
        (
            &["/a.txt", "--method", "PUT"],
            "405, method PUT is not served here".to_owned(),
            false,
        ),
        (
            &["/a.txt", "--header", "If-None-Match: *"],
            format!("304, file {}", file("a.txt")),
            true,
        ),
    ] {
        let (lines, served) = explain(&setup, arguments);
        assert_eq!(
            (explained(&lines, "answer"), served),
            (expected.as_str(), is_served),
            "{lines:#?}"
        );
    }
}

#[test]
fn conditions_see_the_given_request_attributes() {
    let setup = setup();
    let (lines, is_served) = explain(&setup, &["/admin/", "--client", "192.0.2.7"]);
    let answer = explained(&lines, "answer");
    let line = answer.strip_prefix("403, refused by the route at sluice.toml:");
    // The cause only: the text of the error page is in the configuration.
    assert!(
        !is_served && line.is_some_and(|line| line.parse::<u32>().is_ok()),
        "{answer}"
    );
    let (lines, _) = explain(&setup, &["/admin/", "--client", "10.1.1.1"]);
    assert!(
        lines
            .iter()
            .any(|line| line.ends_with("/admin/* no, the client is not other than 10.0.0.0/8")),
        "{lines:#?}"
    );
    let (lines, _) = explain(&setup, &["/api/x", "--method", "DELETE"]);
    assert!(
        explained(&lines, "answer").starts_with("403, refused by the route"),
        "{lines:#?}"
    );
    let (lines, _) = explain(&setup, &["/quiet/x"]);
    assert_eq!(explained(&lines, "log"), "not logged");
    let (lines, _) = explain(&setup, &["/", "--header", "Host: a.example.net:8080"]);
    assert!(
        explained(&lines, "site").ends_with("the host is below one of its names"),
        "{lines:#?}"
    );
    let (lines, _) = explain(&setup, &["http://other.example/"]);
    assert!(
        explained(&lines, "site").ends_with("no site has that name, and this is the first"),
        "{lines:#?}"
    );
}

#[test]
fn index_page_is_matched_against_the_routes_itself() {
    let setup = setup();
    let (lines, _) = explain(&setup, &["/docs/"]);
    let paths: Vec<&String> = lines.iter().filter(|line| line.starts_with("path ")).collect();
    assert_eq!(paths, ["path /docs/", "path /docs/index.html"]);
    let (lines, _) = explain(&setup, &["/app/"]);
    let paths: Vec<&String> = lines.iter().filter(|line| line.starts_with("path ")).collect();
    assert_eq!(paths, ["path /app/", "path /app/index.cgi"]);
}

#[test]
fn invalid_arguments_are_reported_in_one_line() {
    let setup = setup();
    for (arguments, message) in [
        (
            &["ftp://example.org/"][..],
            "a URL begins with http:// or https://, a path with /",
        ),
        (&["/", "--method", "G T"], "is not a method, as \"GET\" is"),
        (&["/", "--header", "A B: c"], "must be a name and a value"),
    ] {
        let ran = run(
            setup.directory(),
            &[&["check", "-c", "sluice.toml", "--explain"], arguments].concat(),
        );
        assert!(
            ran.errors.contains(message) && ran.errors.lines().count() == 1,
            "{}",
            ran.errors
        );
        assert!(!ran.status.success() && ran.output.is_empty());
    }
}

#[test]
fn explanation_matches_the_response() {
    let server = setup().start();
    let paths = [
        "/a.txt", "/docs/", "/docs", "/old/x", "/none", "/empty/", "/user/42", "/user/x", "/admin/", "/app/",
        "/noslash", "/listed/",
    ];
    for path in paths {
        let status = server.get(path).status;
        let (lines, is_served) = explain(server.setup(), &[path]);
        assert_eq!(is_served, status < 400, "{path} {status} {lines:#?}");
        let answer = explained(&lines, "answer");
        assert!(
            answer.starts_with(&status.to_string()) || answer.starts_with("reply of script"),
            "{status} {answer}"
        );
    }
}

#[test]
fn address_of_the_url_and_what_it_shows_of_the_client_are_those_of_the_server() {
    let authority = Authority::new();
    let setup = Setup::new();
    authority.issue_to(&setup.path("own.pem"), &["localhost"]);
    std::fs::write(setup.path("authorities.pem"), authority.pem()).unwrap();
    let tls = "tls = { certificate = \"own.pem\"";
    let setup = setup
        .file("a.txt", "a")
        .file("vip.txt", "v")
        .server("unknown_hosts = \"refuse\"")
        .listeners(&format!(
            "[[listen]]\naddress = \"127.0.0.1:8080\"\n[[listen]]\naddress = \"127.0.0.1:8443\"\n{tls} }}\n\
             [[listen]]\naddress = \"127.0.0.2:18443\"\n{tls}, client_certificates = \"optional\", \
             client_authorities = \"authorities.pem\" }}",
        ))
        .site("hosts = [\"www.test\"]")
        .route("path = \"/vip.txt\"\nclient_certificates = \"required\"")
        .sites("[[site]]\nhosts = [\"admin.test\"]\nroot = \"htdocs\"\nlisten = [\"127.0.0.2:18443\"]");
    setup.write_configuration();
    let certificate = "--client-certificate";
    for (arguments, address, answer) in [
        (&["http://www.test:8080/a.txt"][..], "127.0.0.1:8080", "200"),
        (
            &["http://www.test:81/a.txt"],
            "none has port 81 for http: any is meant",
            "200",
        ),
        (&["https://admin.test:18443/a.txt"], "127.0.0.2:18443", "200"),
        (&["http://admin.test:8080/a.txt", certificate], "127.0.0.1:8080", "421"),
        (&["http://www.test:8080/vip.txt"], "127.0.0.1:8080", "421"),
        (&["https://www.test:8443/vip.txt", certificate], "127.0.0.1:8443", "421"),
        (&["https://www.test:18443/vip.txt"], "127.0.0.2:18443", "403"),
        (
            &["https://www.test:18443/vip.txt", certificate],
            "127.0.0.2:18443",
            "200",
        ),
        (&["http://other.test:8080/a.txt"], "127.0.0.1:8080", "421"),
    ] {
        let (lines, is_served) = explain(&setup, arguments);
        assert_eq!(explained(&lines, "address"), address, "{arguments:?}");
        assert!(
            explained(&lines, "answer").starts_with(answer),
            "{arguments:?}: {lines:#?}"
        );
        assert_eq!(is_served, answer == "200", "{arguments:?}");
    }
    let (lines, _) = explain(&setup, &["/a.txt"]);
    assert!(
        explained(&lines, "answer").starts_with("421, no site has the name"),
        "{lines:#?}"
    );
    let checked = run(setup.directory(), &["check", "-c", "sluice.toml"]);
    assert!(
        checked.output.contains("unknown hosts refused (421)"),
        "{}",
        checked.output
    );
}
