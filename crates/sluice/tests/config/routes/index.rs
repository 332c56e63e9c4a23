//! Index pages: the routes of a page's own path apply when its directory is requested.

use super::{SHOW, ask, assert_location};
use sluice_testing::Setup;

#[test]
fn refused_page_is_not_sent_as_an_index_page() {
    let server = Setup::new()
        .site("index = [\"index.html\", \"home.html\"]")
        .file("private/index.html", "secret")
        .file("other/index.html", "secret")
        .file("other/home.html", "home")
        .file("login/index.html", "secret")
        .file("abroad/index.html", "secret")
        .route("path = \"/private/index.html\"\nrefuse = {}")
        .route("path = \"/other/index.html\"\nwhen = { client = \"127.0.0.0/8\" }\nrefuse = {}")
        .route("path = \"/login/*.html\"\nredirect = { to = \"/ask\" }")
        .route("path = \"/abroad/index.html\"\nredirect = { to = \"https://test/abroad/\" }")
        .start();
    for directory in ["private", "login", "abroad"] {
        let response = server.get(&format!("/{directory}/"));
        assert_eq!(response.status, 403, "{directory}: {}", response.text());
    }
    assert_eq!(server.get("/other/").text(), "home", "the next index page is used");
}

#[test]
fn redirect_from_a_page_to_its_directory_applies_only_to_the_page() {
    let server = Setup::new()
        .file("d/index.html", "page")
        .file("e/index.html", "page")
        .file("site/f/index.html", "page")
        .route("path = \"/d/index.html\"\nredirect = { to = \"/d/\", status = 301 }")
        .route("path = \"/e/index.html\"\nredirect = { to = \"http://test/e/\", status = 301 }")
        .route("path = \"/s/*\"\nrewrite = \"/site/$1\"")
        .route("path = \"/site/f/index.html\"\nredirect = { to = \"/s/f/\", status = 301 }")
        .start();
    for (directory, location) in [("/d/", "/d/"), ("/e/", "http://test/e/"), ("/s/f/", "/s/f/")] {
        assert_location(&server, &format!("{directory}index.html"), 301, location);
        assert_eq!(server.get(directory).text(), "page", "{directory}");
    }
}

#[test]
fn index_page_gets_the_changes_of_its_own_path() {
    let server = Setup::new()
        .file("index.html", "<p>")
        .file("quiet/index.html", "<p>")
        .route("path = \"/*\"\nexpires = \"10m\"\nheaders = { add = { X-A = \"1\" } }")
        .route("path = \"*.html\"\nexpires = \"no-cache\"")
        .route("path = \"/quiet/*.html\"\nlog = false")
        .start();
    for path in ["/", "/index.html", "/quiet/"] {
        let response = server.get(path);
        assert_eq!(response.field("cache-control"), Some("no-cache"), "{path}");
        assert_eq!(response.field("x-a"), Some("1"), "{path}: added once");
    }
    let tag = server.get("/").field("etag").unwrap().to_owned();
    let known = ask(&server, "GET /", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((known.status, known.field("cache-control")), (304, Some("no-cache")));
    let lines = server.stop().access;
    assert!(lines.iter().all(|line| !line.contains("/quiet/")), "{lines:#?}");
    assert_eq!(lines.len(), 4, "{lines:#?}");
}

#[test]
fn index_page_of_a_rewritten_path_is_not_rewritten_again() {
    let text = format!("#!/bin/sh\n{SHOW}\n");
    let server = Setup::new()
        .site("index = [\"index.html\", \"index.cgi\"]\nlisting = true")
        .file("site/index.html", "home")
        .file("site/docs/index.html", "docs")
        .file("site/bare/x.txt", "x")
        .file("site/no/index.html", "secret")
        .file_with_mode("site/app/index.cgi", &text, 0o755)
        .route("path = \"/*\"\nheaders = { add = { X-A = \"1\" } }")
        .route("path = \"/slashed/\"\nrewrite = \"/docs\"")
        .route("path = \"/*\"\nrewrite = \"/site/$1\"")
        .route("path = \"/site/no/index.html\"\nrefuse = {}")
        .script_route("*.cgi", "mode = \"cgi\"")
        .start();
    for (path, body) in [("/", "home"), ("/docs/", "docs"), ("/slashed/", "docs")] {
        let response = server.get(path);
        assert_eq!((response.text(), response.field("x-a")), (body, Some("1")), "{path}");
    }
    let script = server.get("/app/?q");
    for (name, value) in [
        ("SCRIPT_NAME", "/site/app/index.cgi"),
        ("QUERY_STRING", "q"),
        ("REQUEST_URI", "/app/?q"),
    ] {
        assert_eq!(script.variable(name), Some(value), "{name} {}", script.text());
    }
    assert_eq!(script.field("x-a"), Some("1"));
    assert!(!server.get("/no/").text().contains("secret"));
    assert_location(&server, "/docs", 301, "/docs/");
    // Never to another host.
    assert_location(&server, "//docs", 301, "/docs/");
    // The routes hide the health file, so `Drop` cannot check it.
    server.stop();
}

#[test]
fn script_index_page_has_the_limits_of_its_own_path() {
    let server = Setup::new()
        .site("index = [\"index.cgi\"]")
        .file_with_mode(
            "up/index.cgi",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'; wc -c\n",
            0o755,
        )
        .limits("body_size = 100")
        .route("path = \"/up/\"\nlimits = { body_size = 10 }")
        .route("path = \"/up/index.cgi\"\nlimits = { body_timeout = \"10s\" }")
        .script_route("*.cgi", "mode = \"cgi\"")
        .start();
    assert_eq!(server.post("/up/", "x".repeat(50)).text().trim(), "50");
    assert_eq!(server.post("/up/", "x".repeat(101)).status, 413);
}

#[test]
fn failed_rewrite_keeps_the_changes_of_earlier_routes() {
    let server = Setup::new()
        .route("path = \"/*\"\nheaders = { set = { X-A = \"1\" } }\nlog = false")
        .route("path = \"/rw*\"\nrewrite = \"/x/$1\"")
        .start();
    let response = server.get("/rw../y");
    assert_eq!((response.status, response.field("x-a")), (400, Some("1")));
    assert!(server.stop().access.is_empty());
}
