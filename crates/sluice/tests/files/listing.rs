//! Directory listings: only what would be served is listed; media types; a site's own template.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use sluice_testing::{Response, Server, Setup, run, wait_until, write_script};

use super::silent::threads;

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

#[track_caller]
fn fetch(server: &Server, path: &str, accept: &str) -> Response {
    server.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\nAccept: {accept}\r\n\r\n"))
}

/// The values of one member of a listing's entries, in order.
#[track_caller]
fn members(server: &Server, path: &str, name: &str) -> Vec<String> {
    let response = fetch(server, path, "application/json");
    assert_eq!(
        (response.status, response.field("content-type")),
        (200, Some("application/json")),
        "{path}: {}",
        response.text()
    );
    let begin = format!("\"{name}\":\"");
    let values = response.text().split(&begin).skip(1);
    values.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[track_caller]
fn names(server: &Server, path: &str) -> Vec<String> {
    members(server, path, "name")
}

fn listing_setup() -> Setup {
    Setup::new().site("listing = true")
}

#[test]
fn directory_is_listed_only_if_enabled_and_without_an_index_page() {
    let setup = Setup::new().file("bare/a.txt", "a");
    for directory in ["open", "shut"] {
        std::fs::create_dir(setup.path(directory)).unwrap();
        std::fs::write(setup.path(directory).join("a.txt"), "a").unwrap();
    }
    let server = setup
        .route("path = \"/open/*\"\nfiles = { directory = \"open\", listing = true }")
        .route("path = \"/shut/*\"\nfiles = { directory = \"shut\" }")
        .start();
    assert_eq!(names(&server, "/open/"), ["a.txt"]);
    for path in ["/bare/", "/shut/"] {
        let response = fetch(&server, path, BROWSER);
        assert_eq!(response.status, 403, "{path}");
        assert!(!response.text().contains("a.txt"), "{path}");
    }
    drop(server);
    let setup = listing_setup()
        .file("bare/a.txt", "a")
        .file("paged/index.html", "the page");
    std::fs::create_dir(setup.path("shut")).unwrap();
    let server = setup
        .file("refused/a.txt", "a")
        .route("path = \"/shut/*\"\nfiles = { directory = \"shut\", listing = false }")
        .start();
    assert_eq!(names(&server, "/bare/"), ["a.txt"]);
    assert_eq!(fetch(&server, "/paged/", BROWSER).text(), "the page");
    assert_eq!(fetch(&server, "/shut/", BROWSER).status, 403);
    assert_eq!(fetch(&server, "/bare", BROWSER).field("location"), Some("/bare/"));
    assert_eq!(fetch(&server, "/none/", BROWSER).status, 404);
    assert_eq!(fetch(&server, "/bare/a.txt/", BROWSER).status, 404);
}

#[test]
fn listing_contains_exactly_what_would_be_served() {
    let setup = listing_setup()
        .file("d/a.txt", "a")
        .file("d/sub/x", "x")
        .file("d/.hidden", "secret")
        .file("d/.git/config", "secret")
        .file("d/.well-known/x", "x")
        .file("d/line\nbreak", "secret")
        .file("elsewhere/x", "x")
        .script("program", "echo");
    let directory = setup.path("htdocs/d");
    std::fs::write(directory.join(OsStr::from_bytes(b"latin-\xe9")), "in Latin-1").unwrap();
    std::fs::write(setup.path("outside"), "secret").unwrap();
    let link = |to: &str, name: &str| symlink(to, directory.join(name)).unwrap();
    link("a.txt", "link");
    link("../elsewhere", "link-to-folder");
    link("../../outside", "climbs");
    link("/etc/passwd", "absolute");
    link("../cgi-bin/program", "to-script");
    link(".hidden", "to-hidden");
    link("loop", "loop");
    link("nowhere", "dangling");
    let _fifo = setup.event_fifo("htdocs/d/fifo");
    let _socket = std::os::unix::net::UnixListener::bind(directory.join("socket")).unwrap();
    let server = setup.start();
    let expected = [
        ".well-known",
        "link-to-folder",
        "sub",
        "a.txt",
        "latin-\u{fffd}",
        "link",
    ];
    assert_eq!(names(&server, "/d/"), expected);
    // Each name is listed only if its link leads to something served; the script directory is not listed in the root.
    for link in members(&server, "/d/", "link") {
        let path = format!("/d/{}", link.trim_start_matches("./"));
        assert_eq!(fetch(&server, &path, BROWSER).status, 200, "{path}");
    }
    assert_eq!(names(&server, "/"), ["d", "elsewhere", "health.txt"]);
    let page = fetch(&server, "/d/", BROWSER);
    assert!(!page.text().contains("secret") && !page.text().contains("outside"));
}

#[test]
fn listing_follows_the_routes_of_each_name() {
    let setup = listing_setup()
        .file("d/page.html", "page")
        .file_with_mode(
            "d/run.cgi",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nran\\n'",
            0o755,
        )
        .file("d/broken.cgi", "no run bit")
        .file("d/moved/x", "x")
        .file("d/tools/x", "x")
        .file("d/pictures/own.png", "x")
        .file("d/old.txt", "x");
    std::fs::create_dir(setup.path("tools")).unwrap();
    write_script(&setup.path("tools/x"), "echo");
    std::fs::create_dir(setup.path("pictures")).unwrap();
    let server = setup
        .script_route("*.cgi", "mode = \"cgi\"")
        .script_route("/d/tools/*", "directory = \"tools\"")
        .route("path = \"/d/pictures/*\"\nfiles = { directory = \"pictures\" }")
        .route("path = \"/d/moved/*\"\nredirect = { to = \"/elsewhere/*\" }")
        .route("path = \"/d/old.txt\"\nredirect = { to = \"/elsewhere\" }")
        .start();
    // The script is listed because it may be run. Size and date of its source are not shown.
    assert_eq!(names(&server, "/d/"), ["page.html", "run.cgi"]);
    assert_eq!(members(&server, "/d/", "kind"), ["file", "script"]);
    assert_eq!(members(&server, "/d/", "modified").len(), 1);
    assert_eq!(server.get("/d/run.cgi").text(), "ran\n");
}

#[test]
fn script_index_page_takes_precedence_over_the_listing() {
    let server = Setup::new()
        .site("listing = true\nindex = [\"index.html\", \"index.cgi\"]")
        .script_route("*.cgi", "mode = \"cgi\"")
        .file_with_mode(
            "d/index.cgi",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nran\\n'",
            0o755,
        )
        .file("e/a.txt", "a")
        .start();
    assert_eq!(fetch(&server, "/d/", "application/json").text(), "ran\n");
    assert_eq!(names(&server, "/e/"), ["a.txt"]);
}

#[test]
fn odd_names_are_escaped_and_their_links_work() {
    let odd = [
        "<script>alert(1)<",
        "a\"b'c",
        "a&amp;b",
        "a:b",
        "100%",
        "50%25",
        "a?b=c",
        "a#b",
        "a b",
        " a ",
        "back\\slash",
        "tab\there",
        "cr\rhere",
        "ünï",
        "日本",
        "~a",
        "a;b",
        "[a]",
        "{{ path }}",
        "\u{202e}txt.exe",
        "-",
        "a+b",
        "*",
    ];
    let setup = odd
        .iter()
        .fold(listing_setup(), |setup, name| setup.file(&format!("d/{name}"), *name));
    let server = setup.start();
    let links = members(&server, "/d/", "link");
    assert_eq!(links.len(), odd.len());
    let mut reached: Vec<String> = Vec::new();
    for link in &links {
        let response = fetch(&server, &format!("/d/{}", link.trim_start_matches("./")), BROWSER);
        assert_eq!(response.status, 200, "{link}");
        reached.push(response.text().to_owned());
    }
    reached.sort_unstable();
    let mut expected = odd.map(str::to_owned);
    expected.sort_unstable();
    assert_eq!(reached, expected);
    let page = fetch(&server, "/d/", BROWSER);
    assert!(page.text().contains("&lt;script&gt;alert(1)&lt;"), "{}", page.text());
    assert!(
        page.text().contains("{{ path }}"),
        "names are not interpreted as templates"
    );
    for link in links {
        assert!(
            page.text()
                .replace("&#x2f;", "/")
                .replace("&#x27;", "'")
                .replace("&amp;", "&")
                .contains(&format!("href=\"{link}\"")),
            "{link}"
        );
    }
    assert!(!page.text().contains("<script"), "{}", page.text());
}

#[test]
fn page_is_self_contained_and_sorted_by_the_query() {
    let server = listing_setup()
        .file("d/small", "1")
        .file("d/large", "x".repeat(2_000))
        .file("d/sub/a", "a")
        .start();
    let page = fetch(&server, "/d/", BROWSER);
    assert_eq!(
        (page.status, page.field("content-type")),
        (200, Some("text/html; charset=utf-8"))
    );
    assert_eq!(
        (page.field("vary"), page.field("cache-control")),
        (Some("accept"), Some("no-cache"))
    );
    assert_eq!(
        (page.field("last-modified"), page.field("etag")),
        (None, None),
        "no validators, because they could be wrong"
    );
    for part in [
        "title=\"2000 bytes\">2.0\u{a0}KiB<",
        "<a href=\"..&#x2f;\">../</a>",
        "aria-sort=\"ascending\"",
        "1 directory, 2 files",
    ] {
        assert!(page.text().contains(part), "no {part} in {}", page.text());
    }
    for outside in ["<script", "src=", "http://", "https://", "url(", "@import"] {
        assert!(!page.text().contains(outside), "{outside}");
    }
    assert_eq!(names(&server, "/d/?sort=size"), ["sub", "large", "small"]);
    assert_eq!(names(&server, "/d/?sort=size&order=asc"), ["sub", "small", "large"]);
    assert_eq!(names(&server, "/d/?sort=name&order=desc"), ["sub", "small", "large"]);
    assert_eq!(names(&server, "/d/?sort=%00&order&&=&"), ["sub", "large", "small"]);
    let evil = fetch(&server, "/d/?sort='onclick=x&order=%22onclick=x", BROWSER);
    assert!(
        evil.status == 200 && !evil.text().contains("onclick"),
        "{}",
        evil.text()
    );
    let top = fetch(&server, "/", BROWSER);
    assert!(!top.text().contains("../"), "the top has no parent");
}

#[test]
fn head_has_the_length_and_other_methods_are_refused() {
    let server = listing_setup().file("d/a", "a").start();
    let length = fetch(&server, "/d/", BROWSER).body.len().to_string();
    let mut client = server.connect();
    client.send(format!("HEAD /d/ HTTP/1.1\r\nHost: test\r\nAccept: {BROWSER}\r\n\r\n"));
    let head = client.response_to("HEAD");
    assert_eq!(
        (head.status, head.field("content-length")),
        (200, Some(length.as_str()))
    );
    assert_eq!(
        client.get("/health.txt").response().text(),
        "well",
        "the connection stays usable"
    );
    let refused = server.post("/d/", "a=b");
    assert_eq!(
        (refused.status, refused.field("allow")),
        (405, Some("GET, HEAD, OPTIONS"))
    );
}

#[test]
fn readme_is_shown_as_text_up_to_a_limit() {
    let server = listing_setup()
        .file("md/readme.MD", "# <Title>\n\u{1b}[31m & more\n")
        .file("md/README.txt", "second")
        .file("html/README.html", "<h1>shown?</h1>")
        .file("long/README", "é".repeat(40_000))
        .file("binary/README", b"\xff\x00\xfe")
        .file("hidden/.README", "secret")
        .start();
    let page = |path: &str| fetch(&server, path, BROWSER).text().to_owned();
    assert!(
        page("/md/").contains("<pre># &lt;Title&gt;\n\u{fffd}[31m &amp; more\n</pre>"),
        "{}",
        page("/md/")
    );
    assert!(!page("/md/").contains("second"));
    assert!(!page("/html/").contains("shown?"));
    assert!(page("/long/").contains("Only the beginning is shown") && page("/long/").matches('é').count() == 32_768);
    assert!(page("/binary/").contains("<pre>\u{fffd}\u{fffd}\u{fffd}</pre>"));
    assert!(!page("/hidden/").contains("secret"));
}

#[test]
fn source_of_a_script_named_readme_is_not_shown() {
    let server = listing_setup()
        .file_with_mode("d/README", "#!/bin/sh\n# secret\necho", 0o755)
        .script_route("*/README", "mode = \"cgi\"")
        .start();
    let page = fetch(&server, "/d/", BROWSER);
    assert!(
        page.text().contains("README") && !page.text().contains("secret"),
        "{}",
        page.text()
    );
}

#[test]
fn large_listing_is_truncated_with_a_note_and_does_not_block() {
    let setup = listing_setup();
    let directory = setup.path("htdocs/large");
    std::fs::create_dir(&directory).unwrap();
    for number in 0..10_001 {
        std::fs::write(directory.join(format!("f{number}")), "").unwrap();
    }
    let server = setup.workers(1).start();
    let mut slow = server.connect();
    slow.send(format!(
        "GET /large/ HTTP/1.1\r\nHost: test\r\nAccept: {BROWSER}\r\n\r\n"
    ));
    // The only worker is not blocked by it.
    assert_eq!(server.get("/health.txt").text(), "well");
    let page = slow.response();
    assert!(page.text().contains("Only 10000 names are shown"), "{}", page.status);
    assert_eq!(
        page.text().matches("<td class=\"name\">").count(),
        10_001,
        "including the link to the parent"
    );
    let json = fetch(&server, "/large/", "application/json");
    assert!(json.text().ends_with("\"complete\":false}"));
}

#[test]
fn site_uses_its_own_listing_template() {
    let setup = listing_setup().file("d/a&b", "x");
    let template =
        "{{ path }}:{% for entry in entries %}{{ entry.name }} {{ entry.link }} {{ entry.bytes }}{% endfor %}";
    std::fs::write(setup.path("listing.html"), template).unwrap();
    let server = setup
        .site("listing = true\nlisting_template = \"listing.html\"")
        .start();
    let page = fetch(&server, "/d/", BROWSER);
    assert_eq!(
        (page.text(), page.field("content-type")),
        (
            "&#x2f;d&#x2f;:a&amp;b .&#x2f;a&amp;b 1",
            Some("text/html; charset=utf-8")
        )
    );
    assert_eq!(names(&server, "/d/"), ["a&b"], "JSON does not use the template");
}

#[test]
fn broken_listing_template_is_reported_with_both_lines() {
    let setup = listing_setup().site("listing = true\nlisting_template = \"listing.html\"");
    std::fs::write(setup.path("listing.html"), "<p>\n{{ pth }}\n").unwrap();
    setup.write_configuration();
    let line = 1 + setup
        .configuration()
        .lines()
        .position(|line| line.starts_with("listing_template"))
        .unwrap();
    let output = run(setup.directory(), &["check", "-c", "sluice.toml"]).errors;
    assert!(
        output.contains(&format!("sluice.toml:{line}: listing_template: "))
            && output.contains("listing.html:2: undefined value"),
        "{output}"
    );
}

#[test]
fn site_adds_media_types_and_a_charset() {
    let server = Setup::new()
        .site("types = { \".foo\" = \"text/x-foo\", \".txt\" = \"application/x-special\" }\ncharset = \"iso-8859-1\"")
        .file("a.foo", "x")
        .file("A.FOO", "x")
        .file("a.txt", "x")
        .file("a.html", "x")
        .file("a.png", "x")
        .sites("[[site]]\nhosts = [\"other.example\"]\nroot = \"htdocs\"\ncharset = \"\"")
        .start();
    for (path, kind, other_type) in [
        ("/a.foo", "text/x-foo; charset=iso-8859-1", "application/octet-stream"),
        ("/A.FOO", "text/x-foo; charset=iso-8859-1", "application/octet-stream"),
        ("/a.txt", "application/x-special", "text/plain"),
        ("/a.html", "text/html; charset=iso-8859-1", "text/html"),
        ("/a.png", "image/png", "image/png"),
    ] {
        assert_eq!(server.get(path).field("content-type"), Some(kind), "{path}");
        let other = server.send(format!("GET {path} HTTP/1.1\r\nHost: other.example\r\n\r\n"));
        assert_eq!(other.field("content-type"), Some(other_type), "{path}");
    }
}

/// A user without other processes, which would count.
const LONELY_USER: u32 = 59_871;

#[test]
fn listing_needs_no_new_thread() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let server = listing_setup()
        .file("list/a.txt", "a")
        .cache("size = 0")
        .start_after(&format!("become_ordinary_user({LONELY_USER})"));
    let mut client = server.connect();
    let request = "GET /list/ HTTP/1.1\r\nHost: test\r\nAccept: application/json\r\n\r\n";
    // Each of the two workers makes its thread when it starts, which may be after the first connection.
    assert!(wait_until(|| threads(server.server_pid(), "tokio-rt-worker") >= 2));
    server.allow_no_processes(LONELY_USER);
    client.send(request);
    let response = client.response();
    assert_eq!(response.status, 200, "{}\n{}", response.text(), server.log());
    assert!(response.text().contains("a.txt"));
    // Nor does the end.
    assert!(server.stop().status.success());
}

#[test]
fn listing_that_lacks_entries_for_want_of_descriptors_is_an_error() {
    let server = listing_setup().file("list/a.txt", "a").file("list/b.txt", "b").start();
    let mut client = server.connect();
    let request = "GET /list/ HTTP/1.1\r\nHost: test\r\nAccept: application/json\r\n\r\n";
    client.send(request);
    let whole = client.response();
    assert_eq!(whole.status, 200);
    // One descriptor is for the directory; none is left for what is in it.
    for count in [0, 1] {
        server.leave_descriptors(count);
        client.send(request);
        let response = client.response();
        assert_eq!(response.status, 500, "{count}: {}", response.text());
    }
    server.leave_descriptors(100);
    client.send(request);
    assert_eq!(client.response().text(), whole.text());
}
