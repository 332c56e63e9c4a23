//! Compressed files: precompressed variants stored beside them, and variants compressed on demand. Submodules:
//! conditions and ranges on variants (`variants`), and the output of scripts (`scripts`).

mod scripts;
mod variants;

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use sluice_testing::{Ending, Response, Server, Setup, curl, make_old, spawn, wait_until};

/// The Accept-Encoding that browsers send.
const BROWSER: &str = "gzip, deflate, br, zstd";

/// Compressible text of this many lines.
fn text(lines: usize) -> String {
    (0..lines).map(|line| format!("line {line} of a text\n")).collect()
}

/// Incompressible bytes.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state: u32 = 1;
    let noise = std::iter::repeat_with(|| {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    });
    noise.take(bytes).collect()
}

/// The decoded content of these bytes, and whether they are complete.
fn decode(encoding: Option<&str>, bytes: &[u8]) -> (String, bool) {
    let mut reader: Box<dyn Read + '_> = match encoding {
        None => Box::new(bytes),
        Some("br") => Box::new(brotli::Decompressor::new(bytes, 4096)),
        Some("zstd") => Box::new(zstd::Decoder::new(bytes).unwrap()),
        Some("gzip") => Box::new(flate2::read::GzDecoder::new(bytes)),
        Some(other) => panic!("{other} is not a known coding"),
    };
    let mut content = Vec::new();
    let is_complete = reader.read_to_end(&mut content).is_ok();
    (String::from_utf8(content).unwrap(), is_complete)
}

/// The decoded text of a response, which must be complete.
#[track_caller]
fn decoded(response: &Response) -> String {
    let (content, is_complete) = decode(response.field("content-encoding"), &response.body);
    assert!(
        is_complete && response.ending == Ending::Complete,
        "truncated after {} bytes: {:?}",
        content.len(),
        response.head
    );
    content
}

/// A GET request with Accept-Encoding; further lines end with CRLF.
fn request(path: &str, accept: &str, lines: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: test\r\nAccept-Encoding: {accept}\r\n{lines}\r\n")
}

#[track_caller]
fn ask(server: &Server, path: &str, accept: &str) -> Response {
    server.send(request(path, accept, ""))
}

/// The Content-Encoding of a file's response.
#[track_caller]
fn encoding(server: &Server, path: &str, accept: &str) -> Option<String> {
    let response = ask(server, path, accept);
    assert_eq!(response.status, 200, "{path} {accept}");
    response.field("content-encoding").map(str::to_owned)
}

/// Gzip data as the site's author would store it: different bytes than the server would produce.
fn gzip(content: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut reader = flate2::read::GzEncoder::new(content.as_bytes(), flate2::Compression::none());
    reader.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn text_is_sent_in_the_preferred_coding_from_the_first_request() {
    let content = text(1000);
    let server = Setup::new().file("a.html", &content).age("a.html").start();
    let plain = server.get("/a.html");
    for (accept, expected) in [
        ("br", Some("br")),
        ("zstd", Some("zstd")),
        ("gzip", Some("gzip")),
        ("x-gzip", Some("gzip")),
        (BROWSER, Some("br")),
        ("gzip;q=1.0, br;q=0.5", Some("gzip")),
        ("*", Some("br")),
        ("br;q=0, *", Some("zstd")),
        ("deflate", None),
        ("identity", None),
        ("gzip;q=0", None),
        ("identity, gzip;q=0.5", None),
        ("identity;q=0, *;q=0", None),
        ("", None),
    ] {
        let (first, second) = (ask(&server, "/a.html", accept), ask(&server, "/a.html", accept));
        assert_eq!(
            (first.status, first.field("content-encoding")),
            (200, expected),
            "{accept}"
        );
        assert_eq!(first.body, second.body, "{accept}: the variant is cached");
        assert_eq!(decoded(&first), content, "{accept}");
        assert_eq!(
            first.field("content-length"),
            Some(first.body.len().to_string().as_str())
        );
        assert_eq!(first.field("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(first.field("vary"), Some("accept-encoding"), "{accept}");
        let tag = plain.field("etag").unwrap();
        match expected {
            Some(encoding) => {
                let weak = format!("W/{}-{encoding}\"", tag.trim_end_matches('"'));
                assert_eq!(first.field("etag"), Some(weak.as_str()), "{accept}");
                assert_eq!(first.field("accept-ranges"), None, "{accept}");
                assert!(first.body.len() < content.len() / 3, "{accept}");
            }
            None => assert_eq!(first.field("etag"), Some(tag), "{accept}"),
        }
    }
}

#[test]
fn concurrent_requests_get_the_same_variant() {
    let content = text(5000);
    let server = Setup::new().file("a.html", &content).age("a.html").start();
    let mut clients: Vec<_> = (0..30).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(request("/a.html", "gzip", ""));
    }
    let bodies: Vec<_> = clients.iter_mut().map(|client| client.response().body).collect();
    assert!(bodies.iter().all(|body| *body == bodies[0]));
    assert_eq!(decode(Some("gzip"), &bodies[0]), (content, true));
}

#[test]
fn incompressible_small_new_and_excluded_files_are_sent_uncompressed() {
    let noise = noise(5000);
    let off = "path = \"/off/*\"\nfiles = { directory = \"htdocs\" }\ncompress = false";
    let setup = Setup::new()
        .file("small.txt", text(10))
        .file("picture.png", text(1000))
        .file("noise.txt", &noise)
        .file("a.txt", text(1000))
        .route(off);
    let setup = ["small.txt", "picture.png", "noise.txt", "a.txt"]
        .iter()
        .fold(setup, |setup, name| setup.age(name));
    // Changed before each request, so its mtime is never reliable.
    let server = setup.file("new.txt", text(1000)).start();
    for (path, varies) in [
        ("/small.txt", true),
        ("/noise.txt", true),
        ("/new.txt", true),
        ("/picture.png", false),
        ("/off/a.txt", false),
    ] {
        for _ in 0..2 {
            if path == "/new.txt" {
                fs::write(server.path("htdocs/new.txt"), text(1000)).unwrap();
            }
            let response = ask(&server, path, BROWSER);
            assert_eq!(
                (response.status, response.field("content-encoding")),
                (200, None),
                "{path}"
            );
            assert_eq!(response.field("vary").is_some(), varies, "{path}");
            assert_eq!(response.field("accept-ranges"), Some("bytes"), "{path}");
        }
    }
    assert_eq!(ask(&server, "/noise.txt", BROWSER).body, noise);
    assert_eq!(encoding(&server, "/a.txt", BROWSER).as_deref(), Some("br"));
}

#[test]
fn site_settings_choose_codings_types_and_sizes() {
    let file = |setup: Setup| setup.file("a.txt", text(100)).age("a.txt").start();
    for (site, cache, expected) in [
        ("compression = { encodings = [\"gzip\", \"br\"] }", "", Some("gzip")),
        ("compression = { types = [\"text/html\"] }", "", None),
        ("compression = { least_size = \"1M\" }", "", None),
        ("compression = { files = \"stored\" }", "", None),
        ("compression = { files = \"off\" }", "", None),
        ("compression = false", "", None),
        ("", "size = 0", None),
    ] {
        let server = file(Setup::new().site(site).cache(cache));
        assert_eq!(
            encoding(&server, "/a.txt", BROWSER).as_deref(),
            expected,
            "{site} {cache}"
        );
    }
}

#[test]
fn route_settings_do_not_affect_other_routes_of_the_same_file() {
    let setup = Setup::new()
        .cache("revalidate = \"1h\"")
        .site("compression = { files = \"off\" }")
        .file("a.html", text(1000))
        .age("a.html")
        .route("path = \"/small.html\"\nrewrite = \"/a.html\"\ncompress = true");
    let server = setup.start();
    for _ in 0..2 {
        for (path, expected) in [("/a.html", None), ("/small.html", Some("gzip"))] {
            let response = ask(&server, path, "gzip");
            assert_eq!(response.field("content-encoding"), expected, "{path}");
            assert_eq!(response.field("vary"), expected.map(|_| "accept-encoding"), "{path}");
            assert_eq!(decoded(&response), text(1000), "{path}");
            let tag = response.field("etag").unwrap();
            let response = server.send(request(path, "gzip", &format!("If-None-Match: {tag}\r\n")));
            assert_eq!((response.status, response.field("etag")), (304, Some(tag)), "{path}");
            assert_eq!(response.field("vary"), expected.map(|_| "accept-encoding"), "{path}");
        }
    }
}

#[test]
fn large_file_is_compressed_in_the_background_after_the_first_request() {
    let content = text(60_000);
    assert!(content.len() > 1 << 20);
    let server = Setup::new().file("large.txt", &content).age("large.txt").start();
    let first = ask(&server, "/large.txt", "gzip");
    assert_eq!(first.field("content-encoding"), None);
    assert!(decoded(&first) == content);
    assert!(wait_until(|| encoding(&server, "/large.txt", "gzip").is_some()));
    assert!(decoded(&ask(&server, "/large.txt", "gzip")) == content);
}

#[test]
fn changed_file_is_never_sent_as_a_variant_of_the_old_one() {
    let server = Setup::new().file("a.txt", text(1000)).age("a.txt").start();
    assert_eq!(decoded(&ask(&server, "/a.txt", "gzip")), text(1000));
    for lines in [2000, 500] {
        let path = server.path("htdocs/a.txt");
        fs::write(path.with_extension("new"), text(lines)).unwrap();
        make_old(&path.with_extension("new"));
        fs::rename(path.with_extension("new"), path).unwrap();
        assert!(wait_until(|| decoded(&ask(&server, "/a.txt", "gzip")) == text(lines)));
        assert_eq!(encoding(&server, "/a.txt", "gzip").as_deref(), Some("gzip"));
    }
    fs::remove_file(server.path("htdocs/a.txt")).unwrap();
    assert!(wait_until(|| ask(&server, "/a.txt", "gzip").status == 404));
}

#[test]
fn index_pages_and_cached_record_files_are_compressed_too() {
    let mut records = Vec::new();
    for line in text(1000).lines() {
        records.extend(u16::try_from(line.len()).unwrap().to_le_bytes());
        records.extend(line.as_bytes());
        records.resize(records.len().next_multiple_of(2), 0);
    }
    let route = |path: &str, convert: &str| {
        format!("path = \"{path}\"\nfiles = {{ directory = \"htdocs/vms\", record_format = \"variable\"{convert} }}")
    };
    let server = Setup::new()
        .file("sub/index.html", text(1000))
        .age("sub/index.html")
        .file("vms/a.txt", records)
        .age("vms/a.txt")
        .file("vms/a.txt.gz", "no lines")
        .route(&route("/vms/*", ", convert = \"cache\""))
        .route(&route("/anew/*", ""))
        .start();
    for (path, expected) in [
        ("/sub/", Some("gzip")),
        ("/vms/a.txt", Some("gzip")),
        ("/anew/a.txt", None),
    ] {
        let response = ask(&server, path, "gzip");
        assert_eq!(response.field("content-encoding"), expected, "{path}");
        assert_eq!(response.field("vary").is_some(), expected.is_some(), "{path}");
        assert_eq!(decoded(&response), text(1000), "{path}");
    }
}

#[test]
fn precompressed_file_is_sent_unchanged() {
    for cache in ["", "size = 0"] {
        check_precompressed_files(cache);
    }
}

fn check_precompressed_files(cache: &str) {
    let content = text(1000);
    let stored = gzip(&content);
    // Otherwise b.txt is compressed with gzip once it is old enough for the cache.
    let server = Setup::new()
        .cache(cache)
        .site("compression = { files = \"stored\" }\n")
        .file("a.txt", &content)
        .file("a.txt.gz", &stored)
        .file("b.txt", &content)
        .file("b.txt.br", "as it is, whatever it is")
        .file("b.txt.zst", "this one, too")
        .start();
    let response = ask(&server, "/a.txt", BROWSER);
    assert_eq!(
        response.field("content-encoding"),
        Some("gzip"),
        "among equals, the stored one"
    );
    assert_eq!(response.body, stored);
    assert_eq!(decoded(&response), content);
    assert_eq!(response.field("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(response.field("accept-ranges"), Some("bytes"));
    assert_eq!(response.field("vary"), Some("accept-encoding"));
    let direct = ask(&server, "/a.txt.gz", BROWSER);
    assert_eq!(direct.body, stored);
    let names = ["content-type", "content-encoding", "vary"];
    assert_eq!(
        names.map(|name| direct.field(name)),
        [Some("application/gzip"), None, None]
    );
    assert_ne!(direct.field("etag"), response.field("etag"));
    for (accept, expected) in [
        ("br", "as it is, whatever it is"),
        ("zstd", "this one, too"),
        ("gzip", content.as_str()),
    ] {
        let response = ask(&server, "/b.txt", accept);
        let is_stored = accept != "gzip";
        assert_eq!(response.field("content-encoding").is_some(), is_stored, "{accept}");
        assert_eq!(response.text(), expected, "{accept}");
    }
}

#[test]
fn preferred_coding_is_compressed_on_demand_despite_another_stored_one() {
    let content = text(1000);
    let setup = Setup::new().file("a.txt", &content).age("a.txt");
    let server = setup.file("a.txt.gz", gzip(&content)).start();
    for (accept, expected) in [
        ("br, gzip;q=0.9", "br"),
        ("br;q=0.9, gzip", "gzip"),
        ("zstd;q=0.5, gzip;q=0.5", "gzip"),
    ] {
        let response = ask(&server, "/a.txt", accept);
        assert_eq!(response.field("content-encoding"), Some(expected), "{accept}");
        assert_eq!(decoded(&response), content);
    }
}

#[test]
fn unsuitable_files_with_a_coding_suffix_are_not_sent() {
    let outside = tempfile::NamedTempFile::new().unwrap();
    fs::write(outside.path(), "a secret").unwrap();
    let content = text(10);
    let names = ["old", "empty", "folder", "link", "program", "hidden"];
    let setup = names
        .iter()
        .fold(Setup::new(), |setup, name| setup.file(&format!("{name}.txt"), &content));
    let setup = setup
        .file("old.txt.gz", "of an earlier file")
        .age("old.txt.gz")
        .file("empty.txt.gz", "")
        .file("folder.txt.gz/file", "x")
        .file("program.txt.br", "the text of a script")
        .route("path = \"*.br\"\nscript = { mode = \"cgi\" }");
    symlink(outside.path(), setup.path("htdocs/link.txt.gz")).unwrap();
    symlink("cgi-bin", setup.path("htdocs/hidden.txt.gz")).unwrap();
    let server = setup.start();
    for name in names {
        let response = ask(&server, &format!("/{name}.txt"), BROWSER);
        assert_eq!(
            (response.status, response.field("content-encoding")),
            (200, None),
            "{name}"
        );
        assert_eq!(response.text(), content, "{name}");
    }
}

#[test]
fn precompressed_files_appear_and_vanish_while_the_file_is_cached() {
    let server = Setup::new().file("a.txt", text(10)).age("a.txt").start();
    let beside = server.path("htdocs/a.txt.gz");
    for _ in 0..2 {
        assert!(wait_until(|| encoding(&server, "/a.txt", "gzip").is_none()));
        fs::write(&beside, gzip(&text(10))).unwrap();
        assert!(wait_until(|| encoding(&server, "/a.txt", "gzip").is_some()));
        assert_eq!(decoded(&ask(&server, "/a.txt", "gzip")), text(10));
        fs::remove_file(&beside).unwrap();
    }
}

#[test]
fn missing_precompressed_file_is_not_looked_up_for_each_request() {
    let server = Setup::new()
        .cache("revalidate = \"1h\"")
        .file("a.txt", text(10))
        .age("a.txt")
        .start();
    assert_eq!(encoding(&server, "/a.txt", "gzip"), None);
    fs::write(server.path("htdocs/a.txt.gz"), gzip(&text(10))).unwrap();
    fs::write(server.path("htdocs/a.txt.br"), "br").unwrap();
    assert_eq!(
        encoding(&server, "/a.txt", "gzip"),
        None,
        "the miss is cached for an hour"
    );
    assert_eq!(
        encoding(&server, "/a.txt", "br").as_deref(),
        Some("br"),
        "not requested before"
    );
}

#[test]
fn accept_encoding_of_64_kb_is_read_up_to_a_limit() {
    let server = Setup::new()
        .limits("head_size = \"128KiB\"")
        .file("a.txt", text(1000))
        .age("a.txt")
        .start();
    let padding = "deflate;q=0.001, ".repeat(4000);
    assert!(padding.len() > 64 << 10);
    let mut client = server.connect();
    for (list, expected) in [
        (format!("gzip, {padding}br"), Some("gzip")),
        // Entries beyond the limit are not read.
        (format!("{padding}gzip"), None),
        (",".repeat(65_000), None),
        (format!("gzip{}", ";".repeat(65_000)), None),
        (format!("gzip;q={}", "0".repeat(65_000)), None),
        ("x".repeat(65_000), None),
    ] {
        let response = client.send(request("/a.txt", &list, "")).response();
        assert_eq!((response.status, response.field("content-encoding")), (200, expected));
        assert_eq!(decoded(&response), text(1000));
    }
    // Without the raised head_size limit, the head is too large.
    let server = Setup::new().start();
    assert_eq!(ask(&server, "/health.txt", &padding).status, 431);
}

#[test]
fn curl_and_gzip_decode_the_responses() {
    let server = Setup::new().file("a.html", text(1000)).age("a.html").start();
    let address = format!("http://{}/a.html", server.address());
    assert_eq!(curl(&["--compressed", &address]), text(1000));
    let raw = server.path("raw.gz");
    let into = raw.to_str().unwrap();
    curl(&["--header", "Accept-Encoding: gzip", "--output", into, &address]);
    let mut gzip = Command::new("gzip");
    gzip.args(["--decompress", "--stdout", into]).stdout(Stdio::piped());
    let ended = spawn(&mut gzip).unwrap().wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stdout == text(1000).into_bytes());
}
