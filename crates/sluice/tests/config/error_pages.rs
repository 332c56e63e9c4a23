//! Error responses: their media type, how much detail they show, and a site's own error pages.

use std::os::unix::fs::{PermissionsExt, chown, symlink};

use sluice_testing::{Response, Server, Setup, run};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

#[track_caller]
fn fetch(server: &Server, path: &str, accept: &str) -> Response {
    server.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\nAccept: {accept}\r\n\r\n"))
}

fn media_type(response: &Response) -> Option<&str> {
    response.field("content-type")
}

/// A script that fails, which leaves a secret in the log.
fn failing_script() -> Setup {
    Setup::new().script("fails", "echo 'no: head'")
}

#[test]
fn error_is_sent_in_the_media_type_that_the_client_prefers() {
    let server = failing_script().start();
    for (path, status, phrase) in [("/none", 404, "Not Found"), ("/cgi-bin/fails", 502, "Bad Gateway")] {
        let page = fetch(&server, path, BROWSER);
        assert_eq!(
            (page.status, media_type(&page)),
            (status, Some("text/html; charset=utf-8"))
        );
        assert!(
            page.text().contains(&format!("<h1>{status} {phrase}</h1>")),
            "{}",
            page.text()
        );
        let problem = fetch(&server, path, "application/json, text/html;q=0.9");
        assert_eq!(
            (problem.status, media_type(&problem)),
            (status, Some("application/problem+json"))
        );
        let begin = format!("{{\"type\":\"about:blank\",\"title\":\"{phrase}\",\"status\":{status},\"detail\":\"");
        assert!(problem.text().starts_with(&begin), "{}", problem.text());
        for accept in ["*/*", "image/avif,image/webp,*/*;q=0.8", "text/plain", "image/png"] {
            let text = fetch(&server, path, accept);
            assert_eq!(
                (text.status, media_type(&text)),
                (status, Some("text/plain; charset=utf-8")),
                "{accept}"
            );
            assert!(
                text.text().starts_with(&format!("{status} {phrase}\n")),
                "{}",
                text.text()
            );
        }
        for response in [page, problem] {
            assert_eq!(response.field("vary"), Some("accept"));
            assert!(
                !response.text().contains("script") && !response.text().contains("file "),
                "{}",
                response.text()
            );
        }
    }
    // Without an Accept field.
    assert!(server.get("/none").text().starts_with("404 Not Found\n"));
}

#[test]
fn error_response_to_head_has_a_length_and_no_body() {
    let server = Setup::new().start();
    for accept in [BROWSER, "*/*", "application/json"] {
        let length = fetch(&server, "/none", accept).body.len().to_string();
        let mut client = server.connect();
        client.send(format!("HEAD /none HTTP/1.1\r\nHost: test\r\nAccept: {accept}\r\n\r\n"));
        let head = client.response_to("HEAD");
        assert_eq!(
            (head.status, head.field("content-length")),
            (404, Some(length.as_str()))
        );
        assert_eq!(client.get("/health.txt").response().text(), "well");
    }
}

#[test]
fn error_detail_takes_the_words_of_the_command_line_too() {
    for (word, is_shown) in [("all", true), ("off", false)] {
        let server = failing_script().site(&format!("error_detail = \"{word}\"")).start();
        let page = fetch(&server, "/cgi-bin/fails", "*/*");
        assert_eq!(page.text().contains("script "), is_shown, "{word}: {}", page.text());
    }
}

#[test]
fn error_detail_is_shown_only_where_enabled() {
    let server = failing_script()
        .site("hosts = [\"test\"]\nerror_detail = true")
        .sites("[[site]]\nhosts = [\"other.example\"]\nroot = \"htdocs\"\nroute = [{ path = \"/cgi-bin/*\", script = { directory = \"htdocs/cgi-bin\" } }]")
        .start();
    for accept in [BROWSER, "*/*", "application/json"] {
        let detailed = fetch(&server, "/cgi-bin/fails", accept);
        assert!(detailed.text().contains("script "), "{}", detailed.text());
        let other = server.send(format!(
            "GET /cgi-bin/fails HTTP/1.1\r\nHost: other.example\r\nAccept: {accept}\r\n\r\n"
        ));
        assert_eq!(other.status, 502);
        assert!(!other.text().contains("script "), "{}", other.text());
    }
    let evil = fetch(&server, "/%3Cscript%3E", BROWSER);
    assert!(
        evil.text().contains("&lt;script&gt;") && !evil.text().contains("<script>"),
        "{}",
        evil.text()
    );
}

#[test]
fn site_has_its_own_error_pages_by_status() {
    let setup = failing_script();
    for (name, text) in [
        (
            "404.html",
            "no {{ path }}\n{{ status }} {{ phrase }} {{ id }}{{ detail }}",
        ),
        ("4xx.html", "refused {{ status }}: {{ sentence }}"),
        ("5xx.html", "failed {{ status }}"),
    ] {
        std::fs::write(setup.path(name), text).unwrap();
    }
    let server = setup
        .site("hosts = [\"test\"]\nerrors = { 404 = \"404.html\", 4xx = \"4xx.html\", 5xx = \"5xx.html\" }")
        .sites("[[site]]\nhosts = [\"other.example\"]\nroot = \"htdocs\"")
        .start();
    for (count, accept) in [BROWSER, "*/*"].into_iter().enumerate() {
        let page = fetch(&server, "/a&b'?x=1", accept);
        assert_eq!(
            (page.status, media_type(&page)),
            (404, Some("text/html; charset=utf-8"))
        );
        let (first, second) = page.text().split_once('\n').unwrap();
        assert_eq!(first, "no &#x2f;a&amp;b&#x27;");
        let id = second.strip_prefix("404 Not Found ").unwrap();
        assert!(server.access_lines(count + 1)[count].contains(id), "{id}");
    }
    assert_eq!(fetch(&server, "/cgi-bin/fails", BROWSER).text(), "failed 502");
    let refused = server.post("/health.txt", "a=b");
    assert_eq!(
        (refused.status, refused.field("allow")),
        (405, Some("GET, HEAD, OPTIONS"))
    );
    assert!(refused.text().starts_with("refused 405: "), "{}", refused.text());
    assert!(
        fetch(&server, "/none", "text/plain")
            .text()
            .starts_with("404 Not Found\n"),
        "other media types use the built-in page"
    );
    // The target is invalid, but the site is known.
    let target = server.send(format!("GET /%zz HTTP/1.1\r\nHost: test\r\nAccept: {BROWSER}\r\n\r\n"));
    assert!(target.text().starts_with("refused 400: "), "{}", target.text());
    let other = server.send(format!(
        "GET /none HTTP/1.1\r\nHost: other.example\r\nAccept: {BROWSER}\r\n\r\n"
    ));
    assert!(other.text().contains("<h1>404 Not Found</h1>"), "{}", other.text());
    let without_host = server.send(format!("GET /none HTTP/1.1\r\nAccept: {BROWSER}\r\n\r\n"));
    assert!(
        without_host.text().contains("<h1>400 Bad Request</h1>"),
        "{}",
        without_host.text()
    );
}

#[test]
fn reload_rereads_error_pages_and_an_invalid_one_changes_nothing() {
    let setup = Setup::new().site("errors = { 404 = \"404.html\" }");
    std::fs::write(setup.path("404.html"), "one").unwrap();
    let server = setup.start();
    assert_eq!(fetch(&server, "/none", BROWSER).text(), "one");
    std::fs::write(server.path("404.html"), "two {{").unwrap();
    server.signal("HUP");
    let line = server.log_line("404.html:1: ");
    assert!(line.contains("errors: 404: "), "{line}");
    assert_eq!(fetch(&server, "/none", BROWSER).text(), "one");
    std::fs::write(server.path("404.html"), "two").unwrap();
    server.signal("HUP");
    server.log_line("is in force");
    assert_eq!(fetch(&server, "/none", BROWSER).text(), "two");
}

#[test]
fn a_page_that_a_user_has_lead_to_a_file_of_root_is_not_read() {
    const ANN: u32 = 64_011;
    let setup = Setup::new().site("errors = { 404 = \"pages/404.html\" }");
    std::fs::create_dir(setup.path("pages")).unwrap();
    std::fs::write(setup.path("pages/404.html"), "hers").unwrap();
    let server = setup.start();
    let secret = server.path("secret");
    std::fs::write(&secret, "of root").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::remove_file(server.path("pages/404.html")).unwrap();
    symlink(&secret, server.path("pages/404.html")).unwrap();
    if chown(server.path("pages"), Some(ANN), Some(ANN)).is_err() {
        // Only root serves files of several users.
        return;
    }
    server.signal("HUP");
    let line = server.log_line(
        "404.html cannot be read: belongs to user 0, and user 64011, who owns a link or directory of its path, may not read it",
    );
    assert!(line.contains("errors: 404: "), "{line}");
    // The page is another user's, so the reload goes on without it.
    let built_in = || {
        fetch(&server, "/none", BROWSER)
            .text()
            .contains("There is nothing at this address.")
    };
    server.log_lines(1, "is in force");
    assert!(built_in());
    std::fs::write(server.path("page"), "{% set s = path ~ path %}{{ s }}").unwrap();
    std::fs::remove_file(server.path("pages/404.html")).unwrap();
    std::fs::rename(server.path("page"), server.path("pages/404.html")).unwrap();
    server.signal("HUP");
    server.log_line("404.html:1: a page has no tag \"set\"");
    server.log_lines(2, "is in force");
    assert!(built_in());
}

#[test]
fn check_reports_unusable_templates() {
    for (page, message) in [
        (
            Some("x".repeat(300 << 10).into_bytes()),
            "404.html is larger than 256 KiB",
        ),
        (Some(b"\xff".to_vec()), "404.html is not UTF-8 text"),
        (Some(b"a\n{{ pth }}".to_vec()), "404.html:2: undefined value"),
        (Some(b"a\n\n{% if %}".to_vec()), "404.html:3: syntax error"),
        (None, "404.html cannot be read: No such file or directory"),
    ] {
        let setup = Setup::new().site("errors = { 404 = \"404.html\" }");
        if let Some(page) = page {
            std::fs::write(setup.path("404.html"), page).unwrap();
        }
        setup.write_configuration();
        let ran = run(setup.directory(), &["check", "-c", "sluice.toml"]);
        assert!(ran.errors.contains(message), "no {message:?} in {}", ran.errors);
        assert!(!ran.status.success());
    }
}

#[test]
fn enormous_accept_field_is_handled() {
    let server = Setup::new().limits("head_size = \"128KiB\"").start();
    let accept = format!("application/json,{}text/html", "a/b;q=0.1,".repeat(6_000));
    let response = fetch(&server, "/none", &accept);
    assert_eq!(
        (response.status, media_type(&response)),
        (404, Some("application/problem+json"))
    );
}
