//! Changes that routes make in any response: header fields, expiry, body limits, logging.

use super::{SHOW, ask};
use sluice_testing::{Setup, make_old};

#[test]
fn fields_are_changed_in_every_response() {
    let server = Setup::new()
        .script("show", SHOW)
        .script(
            "own",
            "printf 'Content-Type: text/plain\\nX-Powered-By: sh\\nX-A: script\\n\\nx'",
        )
        .script("fails", "echo 'no: head'")
        .file("a.txt", "a")
        .site("listing = true")
        .file("folder/b.txt", "b")
        .route("path = \"/*\"\nheaders = { set = { X-A = \"1\" }, remove = [\"X-Powered-By\", \"Server\"] }")
        .route("path = \"/cgi-bin/*\"\nheaders = { add = { X-B = \"2\" } }")
        .route("path = \"/refused\"\nrefuse = { status = 451 }\nheaders = { set = { X-A = \"own\" } }")
        .route("path = \"/moved\"\nredirect = { to = \"/a.txt\" }")
        .start();
    for (path, status) in [
        ("/a.txt", 200),
        ("/none", 404),
        ("/moved", 302),
        ("/folder", 301),
        ("/folder/", 200),
        ("/cgi-bin/show", 200),
        ("/cgi-bin/own", 200),
        ("/cgi-bin/fails", 502),
    ] {
        let response = server.get(path);
        assert_eq!((response.status, response.field("x-a")), (status, Some("1")), "{path}");
        assert_eq!(response.field("x-powered-by"), None, "{path}");
        assert_eq!(response.field("server"), None, "{path}");
        let added = path.starts_with("/cgi-bin/").then_some("2");
        assert_eq!(response.field("x-b"), added, "{path}");
    }
    let refused = server.get("/refused");
    assert_eq!(
        (refused.status, refused.field("x-a")),
        (451, Some("own")),
        "the last route wins"
    );
    let tag = server.get("/a.txt").field("etag").unwrap().to_owned();
    let known = ask(&server, "GET /a.txt", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((known.status, known.field("x-a")), (304, Some("1")));
    let mut client = server.connect();
    client.send("HEAD /a.txt HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.response_to("HEAD").field("x-a"), Some("1"));
}

#[test]
fn local_redirect_gets_the_changes_of_its_target() {
    let server = Setup::new()
        .script("local", "printf 'Location: /a.txt\\n\\n'")
        .file("a.txt", "a")
        .route("path = \"/*\"\nheaders = { add = { X-All = \"1\" } }")
        .route("path = \"/cgi-bin/*\"\nheaders = { set = { X-Cgi = \"1\" } }")
        .start();
    let response = server.get("/cgi-bin/local");
    assert_eq!(response.text(), "a");
    assert_eq!((response.field("x-all"), response.field("x-cgi")), (Some("1"), None));
}

#[test]
fn download_can_be_forced() {
    let server = Setup::new()
        .file("files/a.html", "<p>")
        .route("path = \"/files/*\"\nheaders = { set = { Content-Disposition = \"attachment\", Content-Type = \"application/octet-stream\" } }")
        .start();
    let response = server.get("/files/a.html");
    assert_eq!(response.field("content-disposition"), Some("attachment"));
    assert_eq!(response.field("content-type"), Some("application/octet-stream"));
    let fields = |lines: &str, path: &str| {
        let response = ask(&server, &format!("GET {path}"), lines);
        let field = |name| response.field(name).unwrap_or("none").to_owned();
        (response.status, field("content-type"), field("content-disposition"))
    };
    let one = fields("Range: bytes=0-1\r\n", "/files/a.html");
    assert_eq!(one, (206, "application/octet-stream".into(), "attachment".into()));
    // The multipart type stays, because it has the boundary; so does the type of an error page.
    let (status, kind, _) = fields("Range: bytes=0-0,2-2\r\n", "/files/a.html");
    assert_eq!(
        (status, kind.starts_with("multipart/byteranges; boundary=")),
        (206, true),
        "{kind}"
    );
    let missing = fields("Accept: text/html\r\n", "/files/none");
    assert_eq!(missing, (404, "text/html; charset=utf-8".into(), "none".into()));
    let tag = format!("If-None-Match: {}\r\n", response.field("etag").unwrap());
    assert_eq!(fields(&tag, "/files/a.html"), (304, "none".into(), "none".into()));
}

#[test]
fn expires_applies_to_cacheable_responses() {
    let server = Setup::new()
        .script(
            "own",
            "printf 'Content-Type: text/plain\\nCache-Control: private\\n\\nx'",
        )
        .file("a.txt", "a")
        .file("assets/a.1234.js", "a")
        .file("live/a.txt", "a")
        .file("never/a.txt", "a")
        .script(
            "free",
            "printf 'Content-Type: text/plain\\nCache-Control: private\\nExpires: 0\\n\\nx'",
        )
        .script(
            "away",
            "printf 'Location: http://example.org/\\nStatus: 301 Moved\\n\\n'",
        )
        .route("path = \"/*\"\nexpires = \"1h\"")
        .route("path = \"/assets/*\"\nexpires = \"immutable\"")
        .route("path = \"/live/*\"\nexpires = \"no-cache\"")
        .route("path = \"/never/*\"\nexpires = \"off\"")
        .route("path = \"/cgi-bin/free\"\nheaders = { remove = [\"Cache-Control\", \"Expires\"] }\nexpires = \"5m\"")
        .start();
    for (path, expected) in [
        ("/a.txt", Some("max-age=3600")),
        ("/assets/a.1234.js", Some("max-age=31536000, immutable")),
        ("/live/a.txt", Some("no-cache")),
        ("/never/a.txt", None),
        ("/cgi-bin/own", Some("private")),
        ("/cgi-bin/free", Some("max-age=300")),
        ("/cgi-bin/away", None),
        ("/live", None),
        ("/assets/none.js", None),
    ] {
        assert_eq!(server.get(path).field("cache-control"), expected, "{path}");
    }
}

#[test]
fn body_limits_depend_on_the_path() {
    let server = Setup::new()
        .script("count", "printf 'Content-Type: text/plain\\n\\n'; wc -c")
        .limits("body_size = 100")
        .route("path = \"/cgi-bin/count/large\"\nlimits = { body_size = \"1MiB\" }")
        .route("path = \"/cgi-bin/count/small\"\nlimits = { body_size = 10 }")
        .start();
    let status = |path: &str, bytes: usize| server.post(path, "x".repeat(bytes)).status;
    assert_eq!(status("/cgi-bin/count", 100), 200);
    assert_eq!(status("/cgi-bin/count", 101), 413);
    assert_eq!(status("/cgi-bin/count/large", 100_000), 200);
    assert_eq!(status("/cgi-bin/count/small", 10), 200);
    assert_eq!(status("/cgi-bin/count/small", 11), 413);
    // Counted, if the length is not announced.
    let chunked = |path: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
        server.send(format!("{head}b\r\nxxxxxxxxxxx\r\n0\r\n\r\n")).status
    };
    assert_eq!(chunked("/cgi-bin/count/large"), 200);
    assert_eq!(chunked("/cgi-bin/count/small"), 413);
}

#[test]
fn body_timeout_depends_on_the_path() {
    let server = Setup::new()
        .script(
            "count",
            "bytes=$(wc -c); printf 'Content-Type: text/plain\\n\\n%s' $bytes",
        )
        .route("path = \"/cgi-bin/count/quick\"\nlimits = { body_timeout = \"50ms\" }")
        .start();
    let mut client = server.connect();
    client.send("POST /cgi-bin/count/quick HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nabc");
    assert_eq!(client.response().status, 408);
}

#[test]
fn routes_select_what_is_compressed() {
    let text = "all the same ".repeat(200);
    let server = Setup::new()
        .script("long", &format!("printf 'Content-Type: text/plain\\n\\n{text}'"))
        .file("plain/a.txt", &text)
        .file("a.txt", &text)
        .age("plain/a.txt")
        .age("a.txt")
        .route("path = \"/cgi-bin/*\"\ncompress = true")
        .route("path = \"/plain/*\"\ncompress = false")
        .start();
    for (path, expected) in [
        ("/cgi-bin/long", Some("gzip")),
        ("/cgiplus-bin/none", None),
        ("/plain/a.txt", None),
        ("/a.txt", Some("gzip")),
    ] {
        let response = ask(&server, &format!("GET {path}"), "Accept-Encoding: gzip\r\n");
        assert_eq!(response.field("content-encoding"), expected, "{path}");
    }
}

#[test]
fn routes_select_what_is_cached() {
    let server = Setup::new()
        .file("kept/a.txt", "one")
        .file("kept/not/b.txt", "one")
        .age("kept/a.txt")
        .age("kept/not/b.txt")
        .route("path = \"/kept/*\"\ncache = \"permanent\"")
        .route("path = \"/kept/not/*\"\ncache = \"off\"")
        .start();
    for (path, after) in [("kept/a.txt", "one"), ("kept/not/b.txt", "two")] {
        assert_eq!(server.get(&format!("/{path}")).text(), "one");
        let file = server.path("htdocs").join(path);
        std::fs::write(&file, "two").unwrap();
        make_old(&file);
        assert_eq!(server.get(&format!("/{path}")).text(), after, "{path}");
    }
}

#[test]
fn routes_select_what_is_logged() {
    let server = Setup::new()
        .workers(1)
        .file("quiet/a.txt", "a")
        .file("quiet/but/b.txt", "b")
        .route("path = \"/quiet/*\"\nlog = false")
        .route("path = \"/quiet/but/*\"\nlog = true")
        .start();
    for path in ["/quiet/a.txt", "/quiet/none", "/quiet/but/b.txt", "/none"] {
        server.get(path);
    }
    let lines = server.stop().access;
    assert_eq!(lines.len(), 2, "{lines:#?}");
    // In the order of the workers, which may differ from that of the requests.
    for path in ["GET /quiet/but/b.txt", "GET /none"] {
        assert!(lines.iter().any(|line| line.contains(path)), "{lines:#?}");
    }
}
