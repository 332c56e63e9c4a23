//! Static files: their header fields, and what is never sent: anything outside the root, hidden files, and script
//! sources.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};

use sluice_testing::{Ending, Response, Server, Setup};

/// Content that no response may contain.
const SECRET: &str = "the secret";

#[track_caller]
fn fetch_with(server: &Server, path: &str, field: &str) -> Response {
    server.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n{field}\r\n\r\n"))
}

/// Requests the path verbatim and asserts that nothing of a file or script is sent.
#[track_caller]
fn assert_withheld(server: &Server, path: &str) {
    let response = server.get(path);
    let body = String::from_utf8_lossy(&response.body);
    assert!(
        matches!(response.status, 400 | 403 | 404),
        "{path}: {} {body}",
        response.status
    );
    assert!(!body.contains(SECRET), "{path}: {body}");
}

#[test]
fn a_file_is_sent_with_its_type() {
    let server = Setup::new()
        .file("a.html", "x")
        .file("a.txt", "x")
        .file("a.css", "x")
        .file("a.png", "x")
        .file("a.unheard-of", "x")
        .file("none", "x")
        .start();
    for (path, kind) in [
        ("/a.html", "text/html; charset=utf-8"),
        ("/a.txt", "text/plain; charset=utf-8"),
        ("/a.css", "text/css; charset=utf-8"),
        ("/a.png", "image/png"),
        ("/a.unheard-of", "application/octet-stream"),
        ("/none", "application/octet-stream"),
    ] {
        let response = server.get(path);
        assert_eq!(
            (response.field("content-type"), response.text()),
            (Some(kind), "x"),
            "{path}"
        );
    }
}

#[test]
fn files_of_every_size_are_sent_completely() {
    let content: Vec<u8> = (0..3_000_000_u32)
        .map(|number| number.to_le_bytes()[0] ^ number.to_le_bytes()[2])
        .collect();
    let sizes = [0, 1, 65_535, 65_536, 65_537, 262_144, 3_000_000];
    let setup = sizes.iter().fold(Setup::new(), |setup, size| {
        setup.file(&format!("f{size}"), &content[..*size])
    });
    let server = setup.start();
    let mut client = server.connect();
    for size in sizes {
        let response = client.get(&format!("/f{size}")).response();
        assert_eq!(response.field("content-length"), Some(size.to_string().as_str()));
        assert!(response.body == content[..size], "{size} bytes: the content differs");
    }
}

#[test]
fn unchanged_file_is_answered_304() {
    let server = Setup::new().file("a.txt", "one").age("a.txt").start();
    let first = server.get("/a.txt");
    let (tag, date) = (first.field("etag").unwrap(), first.field("last-modified").unwrap());
    for field in [
        format!("If-None-Match: {tag}"),
        format!("If-None-Match: \"other\", W/{tag}"),
        "If-None-Match: *".to_owned(),
        format!("If-Modified-Since: {date}"),
    ] {
        let response = fetch_with(&server, "/a.txt", &field);
        assert_eq!((response.status, response.text()), (304, ""), "{field}");
        assert_eq!(response.field("etag"), Some(tag), "{field}");
    }
    for field in [
        "If-None-Match: \"other\"".to_owned(),
        "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT".to_owned(),
        "If-Modified-Since: yesterday".to_owned(),
        format!("If-None-Match: \"other\"\r\nIf-Modified-Since: {date}"),
    ] {
        assert_eq!(fetch_with(&server, "/a.txt", &field).text(), "one", "{field}");
    }
}

#[test]
fn changed_file_has_another_etag() {
    // Revalidate every time: on a slow machine the file is a second old by now and would count as fresh for a moment.
    let server = Setup::new().cache("revalidate = \"0s\"").file("a.txt", "one").start();
    let first = server.get("/a.txt");
    std::fs::write(server.path("htdocs/a.txt"), "two").unwrap();
    let again = fetch_with(
        &server,
        "/a.txt",
        &format!("If-None-Match: {}", first.field("etag").unwrap()),
    );
    assert_eq!((again.status, again.text()), (200, "two"));
}

#[test]
fn a_directory_is_answered_by_its_index_page() {
    let server = Setup::new()
        .site("index = [\"first.html\", \"index.html\"]")
        .file("index.html", "root")
        .file("both/first.html", "first")
        .file("both/index.html", "second")
        .file("bare/other.html", "other")
        .start();
    assert_eq!(server.get("/").text(), "root");
    let page = server.get("/both/");
    assert_eq!(
        (page.text(), page.field("content-type")),
        ("first", Some("text/html; charset=utf-8"))
    );
    let bare = server.get("/bare/");
    assert_eq!(bare.status, 403);
    assert!(!bare.text().contains("other.html"), "the directory is listed");
}

#[test]
fn directory_without_trailing_slash_is_redirected() {
    let server = Setup::new().file("a b/index.html", "page").start();
    let response = server.get("/a%20b?x=1");
    assert_eq!(
        (response.status, response.field("location")),
        (301, Some("/a%20b/?x=1"))
    );
    assert_eq!(server.get("/a%20b/?x=1").text(), "page");
}

#[test]
fn directory_redirect_never_leads_to_another_host() {
    let server = Setup::new().file("evil.example/index.html", "page").start();
    for path in [
        "//evil.example",
        "/%2fevil.example",
        "/.//evil.example",
        "/x/..//evil.example",
    ] {
        let response = server.get(path);
        let location = response.field("location").unwrap_or("/");
        assert!(
            location.starts_with('/') && !location.starts_with("//"),
            "{path} leads to {location}"
        );
    }
}

#[test]
fn path_below_a_file_is_not_found() {
    let server = Setup::new().file("a.txt", SECRET).start();
    for path in ["/a.txt/", "/a.txt/b", "/a.txt/.", "/a.txt%2f"] {
        assert_withheld(&server, path);
    }
}

#[test]
fn other_methods_get_405_with_allow() {
    let server = Setup::new().file("a.txt", "a").start();
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"] {
        let response = server.send(format!(
            "{method} /a.txt HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n"
        ));
        assert_eq!(
            (response.status, response.field("allow")),
            (405, Some("GET, HEAD, OPTIONS")),
            "{method}"
        );
    }
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn nothing_above_the_root_is_reached_in_any_spelling() {
    let setup = Setup::new().file("sub/a.txt", "a");
    std::fs::write(setup.path("secret"), SECRET).unwrap();
    let server = setup.start();
    for up in [
        "..",
        "%2e%2e",
        ".%2e",
        "%2E.",
        "%2e%2E",
        "..%2f..",
        "..%5c..",
        "..\\..",
        "..;",
        "%252e%252e",
        "..%00",
    ] {
        for path in [
            format!("/{up}/secret"),
            format!("/sub/{up}/{up}/secret"),
            format!("/sub/{up}%2f{up}%2fsecret"),
            format!("/./{up}/secret"),
            format!("//{up}//secret"),
            format!("/sub/a.txt/{up}/{up}/{up}/secret"),
        ] {
            assert_withheld(&server, &path);
        }
    }
    for path in [
        "/%c0%ae%c0%ae/secret",
        "/%e0%80%ae%e0%80%ae/secret",
        "/..%c0%af/secret",
        "/%uff0e%uff0e/secret",
    ] {
        assert_withheld(&server, path);
    }
    let absolute = server.path("secret").display().to_string();
    assert_withheld(&server, &absolute);
    assert_withheld(&server, &format!("/{absolute}"));
    assert_eq!(
        server.get("/sub/../sub/./a.txt").text(),
        "a",
        "a path that stays inside is fine"
    );
    assert_eq!(server.get("/%73ub/%61.txt").text(), "a");
}

#[test]
fn nul_does_not_truncate_a_name() {
    let server = Setup::new().file("a.txt", SECRET).start();
    for path in ["/a.txt%00", "/a.txt%00.html", "/%00/a.txt", "/a%00.txt"] {
        assert_withheld(&server, path);
    }
}

#[test]
fn symlinks_are_followed_only_inside_the_root() {
    let setup = Setup::new()
        .file("sub/a.txt", "a")
        .script("program", SECRET)
        .file(".hidden/x", SECRET);
    std::fs::create_dir(setup.path("outside")).unwrap();
    std::fs::write(setup.path("outside/secret"), SECRET).unwrap();
    let link = |to: &str, name: &str| symlink(to, setup.path("htdocs").join(name)).unwrap();
    link("sub/a.txt", "file");
    link("sub", "folder");
    link("../outside/secret", "climbs");
    link("../outside", "out");
    link("../../../../../../../../etc", "etc");
    link("cgi-bin/program", "to-script");
    link("cgi-bin", "to-scripts");
    link(".hidden", "to-hidden");
    link("loop", "loop");
    link("nowhere", "dangling");
    symlink(setup.path("outside/secret"), setup.path("htdocs/absolute")).unwrap();
    let server = setup.start();
    assert_eq!(server.get("/file").text(), "a");
    assert_eq!(server.get("/folder/a.txt").text(), "a");
    for path in [
        "/climbs",
        "/out/secret",
        "/out/",
        "/out",
        "/etc/passwd",
        "/absolute",
        "/to-script",
        "/to-scripts/program",
        "/to-hidden/x",
        "/loop",
        "/loop/x",
        "/dangling",
    ] {
        assert_withheld(&server, path);
    }
}

#[test]
fn hidden_names_are_not_found_except_well_known() {
    let server = Setup::new()
        .file(".htpasswd", SECRET)
        .file(".git/config", SECRET)
        .file("sub/.env", SECRET)
        .file("sub/.svn/entries", SECRET)
        .file(".well-known/security.txt", "known")
        .file(".well-known/.private", SECRET)
        .start();
    assert_eq!(server.get("/.well-known/security.txt").text(), "known");
    for path in [
        "/.htpasswd",
        "/%2ehtpasswd",
        "/.git/config",
        "/.git/",
        "/.git",
        "/sub/.env",
        "/sub/%2Eenv",
        "/sub//.env",
        "/sub/.svn/entries",
        "/.well-known/.private",
        "/./.htpasswd",
    ] {
        assert_withheld(&server, path);
    }
}

#[test]
fn a_scripts_source_is_not_served_in_any_spelling() {
    let server = Setup::new()
        .script("x", &format!("# {SECRET}\nprintf 'Content-Type: text/plain\\n\\nran'"))
        .file_with_mode("cgi-bin/data", SECRET, 0o644)
        .start();
    for path in [
        "/cgi-bin/x",
        "//cgi-bin/x",
        "/cgi-bin//x",
        "/./cgi-bin/x",
        "/cgi-bin/../cgi-bin/x",
        "/a/../cgi-bin/x",
        "/%63gi-bin/x",
        "/cgi%2dbin/x",
        "/cgi-bin%2fx",
        "/cgi-bin/%78",
        "/%2fcgi-bin/x",
        "/cgiplus-bin/../cgi-bin/x",
    ] {
        assert_eq!(server.get(path).text(), "ran", "{path}");
        let data = path
            .replace("/x", "/data")
            .replace("%78", "data")
            .replace("%2fx", "%2fdata");
        assert_withheld(&server, &data);
    }
    for path in [
        "/cgi-bin",
        "/cgi-bin/",
        "/cgi-bin/x%00",
        "/CGI-BIN/x",
        "/cgi-bin./x",
        "/cgi-bin%20/x",
        "/cgi-bin\\x",
        "/cgi-bin%5cx",
        "/cgi-bin/.",
        "/cgi-bin/x.",
        "/cgi-bin/x~",
    ] {
        assert_withheld(&server, path);
    }
}

#[test]
fn source_of_a_file_script_is_not_served_from_the_root() {
    let setup = Setup::new().file_with_mode("tool/run", format!("#!/bin/sh\n# {SECRET}"), 0o755);
    let server = setup
        .file("tool/data.txt", "data")
        .script_route("/app/*", "file = \"htdocs/tool/run\"")
        .start();
    assert_withheld(&server, "/tool/run");
    assert_withheld(&server, "//tool/./run");
    assert_eq!(server.get("/tool/data.txt").text(), "data");
}

#[test]
fn fifo_socket_or_device_in_the_root_does_not_block() {
    let setup = Setup::new();
    let _fifo = setup.event_fifo("htdocs/fifo");
    let _socket = std::os::unix::net::UnixListener::bind(setup.path("htdocs/socket")).unwrap();
    symlink("/dev/zero", setup.path("htdocs/zero")).unwrap();
    let server = setup.start();
    for path in ["/fifo", "/socket", "/zero"] {
        assert_withheld(&server, path);
    }
}

#[test]
fn unreadable_file_is_forbidden() {
    let server = Setup::new().file_with_mode("a.txt", SECRET, 0o000).start();
    let response = server.get("/a.txt");
    // Root can read everything.
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    assert!(
        response.status == 403 || is_root && response.status == 200,
        "{}",
        response.status
    );
}

#[test]
fn files_route_of_another_directory_is_confined_too() {
    let setup = Setup::new();
    std::fs::create_dir_all(setup.path("pictures/sub")).unwrap();
    std::fs::write(setup.path("pictures/sub/a.txt"), "picture").unwrap();
    std::fs::write(setup.path("pictures/.hidden"), SECRET).unwrap();
    std::fs::write(setup.path("secret"), SECRET).unwrap();
    let server = setup
        .route("path = \"/pictures/*\"\nfiles = { directory = \"pictures\" }")
        .start();
    assert_eq!(server.get("/pictures/sub/a.txt").text(), "picture");
    let slash = server.get("/pictures/sub");
    assert_eq!((slash.status, slash.field("location")), (301, Some("/pictures/sub/")));
    for path in [
        "/pictures/.hidden",
        "/pictures/..%2fsecret",
        "/pictures%2f..%2f..%2fsecret",
        "/pictures/../secret",
    ] {
        assert_withheld(&server, path);
    }
}

#[test]
fn a_site_without_a_root_serves_no_files() {
    let server = Setup::new()
        .sites("[[site]]\nhosts = [\"bare.example\"]\n[[site.route]]\npath = \"/go\"\nredirect = { to = \"/gone\" }")
        .start();
    let get = |path: &str| server.send(format!("GET {path} HTTP/1.1\r\nHost: bare.example\r\n\r\n"));
    assert_eq!(get("/health.txt").status, 404);
    assert_eq!(get("/").status, 404);
    assert_eq!(get("/go").field("location"), Some("/gone"));
}

#[test]
fn index_page_that_is_a_script_is_run_and_never_sent() {
    let script = "#!/bin/sh\n# SECRET\nprintf 'Content-Type: text/plain\\n\\nrun for %s' \"$SCRIPT_NAME\"\n";
    let server = Setup::new()
        .site("index = [\"index.html\", \"index.cgi\"]")
        .script_route("*.cgi", "mode = \"cgi\"")
        .file_with_mode("index.cgi", script, 0o755)
        .file_with_mode("sub/index.cgi", script, 0o755)
        .file("both/index.html", "the page")
        .file_with_mode("both/index.cgi", script, 0o755)
        .start();
    assert_eq!(server.get("/").text(), "run for /index.cgi");
    assert_eq!(server.get("/sub/").text(), "run for /sub/index.cgi");
    assert_eq!(server.post("/sub/", "a=b").text(), "run for /sub/index.cgi");
    assert_eq!(
        server.get("/both/").text(),
        "the page",
        "the first existing file of the list"
    );
}

#[test]
fn source_of_a_pattern_script_is_not_sent_through_a_symlink() {
    let server = Setup::new()
        .script_route("*.cgi", "mode = \"cgi\"")
        .file_with_mode("x.cgi", "#!/bin/sh\n# SECRET\necho; echo ran", 0o755)
        .start();
    symlink("x.cgi", server.path("htdocs/x.txt")).unwrap();
    let response = server.get("/x.txt");
    assert_eq!(response.status, 404);
    assert!(!response.text().contains("SECRET"));
}

#[test]
fn scripts_of_one_site_are_not_files_of_another() {
    let server = Setup::new()
        .script("secret", "# SECRET\necho; echo ran")
        .sites("[[site]]\nhosts = [\"other.example\"]\nroot = \"htdocs\"")
        .start();
    let response = server.send("GET /cgi-bin/secret HTTP/1.1\r\nHost: other.example\r\n\r\n");
    assert_eq!(response.status, 404, "{}", response.text());
}

#[test]
fn shrinking_file_truncates_the_response_and_removed_file_does_not() {
    const MIB: u64 = 1 << 20;
    for shrinks in [true, false] {
        let server = Setup::new().file("a.bin", "").start();
        let path = server.path("htdocs/a.bin");
        let file = File::options().write(true).open(&path).unwrap();
        // More than the socket buffers hold, and more than the cache takes.
        file.set_len(100 * MIB).unwrap();
        let mut client = server.connect();
        client.get("/a.bin");
        let head = client.head();
        assert_eq!((head.status, head.field("content-length")), (200, Some("104857600")));
        if shrinks {
            file.set_len(2 * MIB).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        let (body, ending) = client.body(head.framing("GET"));
        assert!(body.iter().all(|byte| *byte == 0), "wrong content");
        if shrinks {
            assert_eq!(ending, Ending::Truncated);
            server.log_line("shrank while it was sent");
        } else {
            assert_eq!((body.len() as u64, ending), (100 * MIB, Ending::Complete));
            assert_eq!(server.get("/a.bin").status, 404);
        }
    }
}

#[test]
fn files_tell_browsers_not_to_guess_their_type_unless_the_site_or_a_route_says_otherwise() {
    let server = Setup::new()
        .file("a.txt", "a")
        .file("plain/b.txt", "b")
        .file("own/c.txt", "c")
        .script("show", "printf 'Content-Type: text/plain\\n\\nscript'")
        .route("path = \"/plain/*\"\nheaders = { remove = [\"X-Content-Type-Options\"] }")
        .route("path = \"/own/*\"\nheaders = { set = { X-Content-Type-Options = \"other\" } }")
        .start();
    for (path, expected) in [
        ("/a.txt", Some("nosniff")),
        ("/a.txt", Some("nosniff")),
        ("/plain/b.txt", None),
        ("/own/c.txt", Some("other")),
        ("/cgi-bin/show", None),
    ] {
        assert_eq!(server.get(path).field("x-content-type-options"), expected, "{path}");
    }
    let server = Setup::new().file("a.txt", "a").site("nosniff = false").start();
    assert_eq!(server.get("/a.txt").field("x-content-type-options"), None);
}
