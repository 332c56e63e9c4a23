//! Routes of a site: their conditions and actions. Submodules: the explanation by `check` (`explain`), changes to any
//! response (`changes`), and index pages (`index`).

mod changes;
mod explain;
mod index;

use sluice_testing::{Response, Server, Setup};

/// A script that prints its variables.
const SHOW: &str = r"printf 'Content-Type: text/plain\n\n'; exec env";

/// The response to a request with these header lines.
#[track_caller]
fn ask(server: &Server, request: &str, lines: &str) -> Response {
    server.send(format!("{request} HTTP/1.1\r\nHost: test\r\n{lines}\r\n"))
}

#[track_caller]
fn assert_location(server: &Server, path: &str, status: u16, location: &str) {
    let response = server.get(path);
    assert_eq!(
        (response.status, response.field("location")),
        (status, Some(location)),
        "{path}"
    );
}

#[test]
fn redirects_insert_captures() {
    let server = Setup::new()
        .route("path = \"/from/*/to/*\"\nredirect = { to = \"/to/$2/from/$1\", status = 308 }")
        .route("path = \"/search/*\"\nredirect = { to = \"/find?q=*&more=1\" }")
        .route("regex = '^/(?<year>\\d{4})/(?:(\\d\\d)/)?(.*)$'\nredirect = { to = 'https://example.org/${year}-$2/$3', status = 301 }")
        .route("path = \"/old*\"\nredirect = { to = \"/*\", status = 307 }")
        .route("path = \"/keep\"\nredirect = { to = \"/kept?from=keep&${query}\", status = 303 }")
        .route("path = \"/go\"\nredirect = { to = \"/${query}\" }")
        .start();
    assert_location(&server, "/from/a%20b/to/c/d?q=1", 308, "/to/c/d/from/a%20b?q=1");
    assert_location(&server, "/search/a&b=c+d%3F?x", 302, "/find?q=a%26b%3Dc%2Bd%3F&more=1");
    assert_location(&server, "/2026/11/a%2Fb", 301, "https://example.org/2026-11/a/b");
    assert_location(&server, "/2026/x?y", 301, "https://example.org/2026-/x?y");
    assert_location(&server, "/keep?a=b", 303, "/kept?from=keep&a=b");
    // Client input never chooses the host.
    assert_location(&server, "/old/evil.example/x", 307, "/evil.example/x");
    assert_location(&server, "/old%5C%5Cevil.example", 307, "/%5C%5Cevil.example");
    assert_location(&server, "/go?\\evil.example", 302, "/%5Cevil.example?\\evil.example");
    assert_location(&server, "/go?/evil.example?", 302, "/evil.example?");
    assert_eq!(server.get("/20261/x").status, 404, "the expression is anchored");
}

#[test]
fn each_condition_matches_exactly_what_it_names() {
    let only = |when: &str, number: u16| {
        format!("path = \"/{number}\"\nwhen = {{ {when} }}\nrefuse = {{ status = {number} }}")
    };
    let server = Setup::new()
        .route(&only("method = [\"PUT\", \"DELETE\"]", 411))
        .route(&only("method = \"!GET\"", 402))
        .site("hosts = [\"test\", \"example.org\", \"*.example.org\"]")
        .route(&only("host = \"*.example.org\"", 403))
        .route(&only("client = [\"10.0.0.0/8\", \"127.0.0.0/8\"]", 415))
        .route(&only("client = \"!127.0.0.1\"", 406))
        .route(&only("scheme = \"http\"", 417))
        .route(&only("scheme = \"https\"", 408))
        .route(&only("header = { User-Agent = \"*bot*\", Cookie = \"!*\" }", 409))
        .route(&only("query = { debug = \"*\", lang = \"de-*\" }", 410))
        .route("when = { method = \"PATCH\" }\nrefuse = { status = 418 }")
        .start();
    for (request, lines, expected) in [
        ("PUT /411", "", 411),
        ("GET /411", "", 404),
        ("POST /402", "", 402),
        ("GET /402", "", 404),
        ("GET http://a.Example.org:80/403", "", 403),
        ("GET http://a.example.org./403", "", 403),
        ("GET http://a.example.org.:80/403", "", 403),
        ("GET http://example.org/403", "", 404),
        ("GET /415", "", 415),
        ("GET /406", "", 404),
        ("GET /417", "", 417),
        ("GET /408", "", 404),
        ("GET /409", "User-Agent: GoogleBot/2\r\n", 409),
        ("GET /409", "User-Agent: GoogleBot/2\r\nCookie: a=b\r\n", 404),
        ("GET /409", "User-Agent: curl\r\n", 404),
        ("GET /409", "", 404),
        ("GET /410?debug&lang=de-AT", "", 410),
        ("GET /410?lang=%64e-AT&debug=0", "", 410),
        ("GET /410?lang=de-AT", "", 404),
        ("GET /410?debug&lang=en", "", 404),
        ("PATCH /any/path", "", 418),
    ] {
        let status = ask(&server, request, &format!("{lines}Content-Length: 0\r\n")).status;
        // The file server answers 405 for unknown methods.
        let status = if status == 405 && expected == 404 { 404 } else { status };
        assert_eq!(status, expected, "{request} {lines}");
    }
}

#[test]
fn trailing_dot_does_not_change_the_host() {
    let server = Setup::new()
        .script("show", SHOW)
        .site("hosts = [\"example.org\"]")
        .route("path = \"/secret\"\nwhen = { host = \"example.org\" }\nrefuse = { status = 451 }")
        .sites("[[site]]\nroot = \"htdocs\"")
        .start();
    let get = |path: &str, host: &str| server.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    for host in ["example.org", "example.org.", "Example.ORG.", "example.org.:80"] {
        assert_eq!(get("/secret", host).status, 451, "{host}");
    }
    assert_eq!(get("/secret", "example.org..").status, 400, "not a valid name");
    let shown = get("/cgi-bin/show", "example.org.:80");
    assert_eq!(shown.variable("SERVER_NAME"), Some("example.org"));
    assert_eq!(shown.variable("HTTP_HOST"), Some("example.org.:80"));
}

#[test]
fn conditions_see_the_client_of_a_trusted_proxy() {
    let server = Setup::new()
        .server("trusted_proxies = [\"127.0.0.0/8\"]")
        .file("a.txt", "a")
        .route("path = \"/a.txt\"\nwhen = { client = \"192.0.2.0/24\", scheme = \"https\" }\nrefuse = {}")
        .start();
    let status = |lines: &str| ask(&server, "GET /a.txt", lines).status;
    assert_eq!(status(""), 200);
    assert_eq!(status("X-Forwarded-For: 192.0.2.7\r\n"), 200);
    assert_eq!(
        status("X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n"),
        403
    );
    assert_eq!(
        status("X-Forwarded-For: 198.51.100.7\r\nX-Forwarded-Proto: https\r\n"),
        200
    );
}

#[test]
fn rewritten_path_continues_with_the_next_route() {
    let server = Setup::new()
        .script("show", SHOW)
        .file("a.txt", "a")
        .route("path = \"/again\"\nrefuse = { status = 410 }")
        .route("path = \"/first/*\"\nrewrite = \"/second/*\"")
        .route("path = \"/second/*\"\nrewrite = \"/cgi-bin/show/*?by=rule&${query}\"")
        .route("path = \"/to-again\"\nrewrite = \"/again\"")
        .route("path = \"/page\"\nrewrite = \"/cgi-bin/show\"")
        .route("path = \"/bare\"\nrewrite = \"/cgi-bin/show?\"")
        .route("regex = '^/user/(\\d+)$'\nrewrite = '/cgi-bin/show?user=$1'")
        .route("path = \"/text/*\"\nrewrite = \"/*.txt\"")
        .start();
    let first = server.get("/first/x%20y%3F?q=1");
    for (name, value) in [
        ("SCRIPT_NAME", "/cgi-bin/show"),
        ("PATH_INFO", "/x y?"),
        ("QUERY_STRING", "by=rule&q=1"),
        ("REQUEST_URI", "/first/x%20y%3F?q=1"),
    ] {
        assert_eq!(first.variable(name), Some(value), "{name}");
    }
    let query = |path: &str| server.get(path).variable("QUERY_STRING").map(str::to_owned);
    assert_eq!(
        query("/page?a=b").as_deref(),
        Some("a=b"),
        "a target without a query keeps the request's"
    );
    assert_eq!(query("/bare?a=b").as_deref(), Some(""));
    assert_eq!(query("/user/42").as_deref(), Some("user=42"));
    assert_eq!(server.get("/user/x").status, 404);
    assert_eq!(server.get("/text/a").text(), "a");
    assert_eq!(
        server.get("/to-again").status,
        404,
        "earlier routes are not tried again"
    );
    assert_eq!(server.get("/again").status, 410);
}

#[test]
fn captures_that_make_an_invalid_path_are_a_bad_request() {
    let setup = Setup::new().route("regex = '^/(.)-(.)$'\nrewrite = '/$1$2/x'");
    let server = setup.start();
    assert_eq!(server.get("/a-b").status, 404);
    assert_eq!(server.get("/.-.").status, 400);
}

#[test]
fn refusal_shows_the_text_of_its_route() {
    let server = Setup::new()
        .route("path = \"/gone\"\nrefuse = { status = 410, text = \"The <shop> has closed.\" }")
        .route("path = \"/later\"\nrefuse = { status = 503, text = \"Back at noon.\", retry_after = \"1h\" }")
        .route("path = \"/no\"\nrefuse = {}")
        .start();
    let page = ask(&server, "GET /gone", "Accept: text/html\r\n");
    assert_eq!(page.status, 410);
    assert!(
        page.text()
            .contains("<h1>410 Gone</h1>\n<p>The &lt;shop&gt; has closed.</p>"),
        "{}",
        page.text()
    );
    let problem = ask(&server, "GET /gone", "Accept: application/json\r\n");
    assert!(
        problem.text().contains("\"detail\":\"The <shop> has closed.\""),
        "{}",
        problem.text()
    );
    let later = server.get("/later");
    assert_eq!((later.status, later.field("retry-after")), (503, Some("3600")));
    assert!(
        later.text().starts_with("503 Service Unavailable\nBack at noon.\n"),
        "{}",
        later.text()
    );
    assert!(
        server
            .get("/no")
            .text()
            .contains("Access to this address is forbidden.")
    );
    let line = server.log_line("refused by the route at sluice.toml:");
    assert!(line.contains("GET /gone"), "{line}");
    let posted = server.post("/later", "a=b");
    assert_eq!(posted.status, 503);
}

#[test]
fn index_pages_and_listings_work_through_a_rewrite() {
    let server = Setup::new()
        .script("show", SHOW)
        .file("app/index.cgi", "")
        .file_with_mode("app/index.cgi", format!("#!/bin/sh\n{SHOW}\n"), 0o755)
        .file("listed/sub/a.txt", "a")
        .file("listed/b.txt", "b")
        .site("index = [\"index.cgi\"]\nlisting = true")
        .route("path = \"/app/index.cgi\"\nwhen = { method = \"DELETE\" }\nrefuse = {}")
        .route("path = \"/short/*\"\nrewrite = \"/app/*?short=1\"")
        .route("path = \"/l/*\"\nrewrite = \"/listed/*\"")
        .route("path = \"/bare\"\nrewrite = \"/listed/\"")
        .route("path = \"/listed/b.txt\"\nwhen = { client = \"127.0.0.0/8\" }\nrefuse = {}")
        .script_route("*.cgi", "mode = \"cgi\"")
        .start();
    let index = server.get("/short/");
    assert_eq!(index.variable("QUERY_STRING"), Some("short=1"), "{}", index.text());
    assert_eq!(index.variable("SCRIPT_NAME"), Some("/app/index.cgi"));
    assert_eq!(index.variable("REQUEST_URI"), Some("/short/"));
    let listing = ask(&server, "GET /l/", "Accept: application/json\r\n");
    assert_eq!(listing.status, 200);
    assert!(
        listing.text().contains("\"path\":\"/l/\"") && listing.text().contains("\"./sub/\""),
        "{}",
        listing.text()
    );
    assert!(
        !listing.text().contains("b.txt"),
        "what this client may not fetch is not listed: {}",
        listing.text()
    );
    assert_eq!(server.get("/l/sub/a.txt").text(), "a");
    assert_eq!(server.get("/l/b.txt").status, 403);
    assert_eq!(server.get("/bare").status, 403, "relative links would lead elsewhere");
    // The trailing slash is added to the path that the client sent.
    assert_location(&server, "/l/sub?q", 301, "/l/sub/?q");
    assert_location(&server, "/l", 301, "/l/");
}

#[test]
fn no_route_sends_the_source_of_a_script() {
    let text = format!("#!/bin/sh\n{SHOW}\n");
    let server = Setup::new()
        .file_with_mode("x.cgi", text, 0o755)
        .route("path = \"*.cgi\"\nwhen = { method = \"POST\" }\nscript = {}")
        .route("path = \"/plain\"\nrewrite = \"/x.cgi\"")
        .start();
    let posted = server.post("/x.cgi", "a=b");
    assert_eq!(posted.variable("SCRIPT_NAME"), Some("/x.cgi"));
    for path in ["/x.cgi", "/plain"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
}

#[test]
fn reload_replaces_all_routes_or_none() {
    let setup = Setup::new().route("path = \"/a\"\nrefuse = { status = 410 }");
    let server = setup.start();
    assert_eq!(server.get("/a").status, 410);
    let file = server.path("sluice.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("410", "99")).unwrap();
    server.signal("HUP");
    server.log_line("status = 99: must be at least 400");
    assert_eq!(server.get("/a").status, 410);
    std::fs::write(&file, text.replace("410", "451")).unwrap();
    server.signal("HUP");
    server.log_line("is in force");
    assert_eq!(server.get("/a").status, 451);
}

#[test]
fn regex_matching_takes_linear_time() {
    // Backtracking would practically never finish.
    let server = Setup::new().route("regex = '^/(a+)+(a+)+(a+)+$'\nrefuse = {}").start();
    let path = format!("/{}b", "a".repeat(8000));
    assert_eq!(server.get(&path).status, 404);
    assert_eq!(server.get("/aaaa").status, 403);
}

#[test]
fn no_script_runs_below_a_refused_path() {
    let text = format!("#!/bin/sh\n{SHOW}\n");
    let server = Setup::new()
        .script("tool", SHOW)
        .script("free", SHOW)
        .file_with_mode("admin.cgi", &text, 0o755)
        .file_with_mode("free.cgi", &text, 0o755)
        .route("path = \"/admin/*\"\nrefuse = {}")
        .route("path = \"/admin.cgi\"\nrefuse = {}")
        .route("path = \"/cgi-bin/tool\"\nrefuse = {}")
        .route("path = \"/admin*\"\nscript = { file = \"htdocs/cgi-bin/tool\" }")
        .route("path = \"/pan/*/b\"\nscript = { file = \"htdocs/cgi-bin/tool\" }")
        .script_route("*.cgi", "mode = \"cgi\"")
        .start();
    for path in [
        "/admin",
        "/admin/",
        "/admin/x",
        "/admin.cgi",
        "/admin.cgi/",
        "/admin.cgi/x",
        "/cgi-bin/tool",
        "/cgi-bin/tool/x",
    ] {
        assert_eq!(server.get(path).status, 403, "{path}");
    }
    assert_eq!(server.get("/free.cgi/x").variable("PATH_INFO"), Some("/x"));
    assert_eq!(server.get("/cgi-bin/free/x").variable("PATH_INFO"), Some("/x"));
    let response = server.get("/pan/a%C3%A9b/b");
    assert_eq!(
        response.variable("SCRIPT_NAME"),
        Some("/pan/aéb/b"),
        "{}",
        response.text()
    );
    assert_eq!(response.variable("PATH_INFO"), None);
}

#[test]
fn captures_cannot_leave_the_directory_or_bypass_a_route() {
    let server = Setup::new()
        .script("tool", SHOW)
        .file("admin/secret", "s")
        .file("pub/a.txt", "a")
        .route("path = \"/admin/*\"\nrefuse = {}")
        .route("path = \"/rw*\"\nrewrite = \"/pub/$1\"")
        .route("path = \"/q\"\nrewrite = \"/pub/${query}\"")
        .route("path = \"/fl*\"\nfiles = { directory = \"htdocs\" }")
        .start();
    for (path, status) in [
        ("/rwa.txt", 200),
        ("/rw../admin/secret", 400),
        ("/rw./a.txt", 400),
        ("/q?a.txt", 200),
        ("/q?../admin/secret", 400),
        ("/q?%2e%2e/admin/secret", 400),
        ("/fl/pub/a.txt", 200),
        ("/fl./cgi-bin/tool", 404),
        ("/fl./pub/a.txt", 404),
        ("/fl../x", 404),
    ] {
        assert_eq!(server.get(path).status, status, "{path}");
    }
}
