//! Conditions and ranges on variants: each variant has its own validators, and ranges select parts of it.

use super::{BROWSER, decoded, encoding, gzip, noise, request, text};
use sluice_testing::{Response, Server, Setup};

/// `made.txt` has no variant beside it, `stored.txt` a gzip variant.
fn server() -> Server {
    Setup::new()
        .file("made.txt", text(1000))
        .age("made.txt")
        .file("stored.txt", text(1000))
        .age("stored.txt")
        .file("stored.txt.gz", gzip(&text(1000)))
        .age("stored.txt.gz")
        .start()
}

#[track_caller]
fn ask(server: &Server, path: &str, accept: &str, lines: &str) -> Response {
    server.send(request(path, accept, lines))
}

#[track_caller]
fn tag(server: &Server, path: &str, accept: &str) -> String {
    ask(server, path, accept, "").field("etag").unwrap().to_owned()
}

#[test]
fn each_variant_is_revalidated_by_its_own_etag() {
    let server = server();
    for path in ["/made.txt", "/stored.txt"] {
        let [plain, zipped] = ["identity", "gzip"].map(|accept| tag(&server, path, accept));
        assert_ne!(plain, zipped);
        for (accept, held, status) in [
            ("gzip", &zipped, 304),
            ("identity", &plain, 304),
            ("gzip", &plain, 200),
            ("identity", &zipped, 200),
        ] {
            let response = ask(&server, path, accept, &format!("If-None-Match: {held}\r\n"));
            assert_eq!(response.status, status, "{path} {accept} {held}");
            assert_eq!(response.field("vary"), Some("accept-encoding"), "{path} {accept}");
            if status == 304 {
                assert_eq!(response.field("etag"), Some(held.as_str()));
                assert_eq!(response.field("content-encoding"), None);
            }
        }
    }
}

#[test]
fn variant_is_revalidated_before_it_exists() {
    let held = tag(&server(), "/made.txt", "br");
    // The same file on a server that has compressed nothing yet. Its mtime differs, and so does its entity tag.
    let server = server();
    let plain = tag(&server, "/made.txt", "identity");
    let expected = format!("W/{}-br\"", plain.trim_end_matches('"'));
    assert_ne!(held, expected);
    for (held, status) in [(&expected, 304), (&held, 200)] {
        let response = ask(&server, "/made.txt", "br", &format!("If-None-Match: {held}\r\n"));
        assert_eq!(
            (response.status, response.field("etag")),
            (status, Some(expected.as_str()))
        );
    }
}

#[test]
fn not_modified_names_the_etag_of_the_representation_that_would_be_sent() {
    let server = Setup::new()
        .file("noise.txt", noise(5000))
        .age("noise.txt")
        .file("other.txt", noise(5001))
        .age("other.txt")
        .file("made.txt", text(1000))
        .age("made.txt")
        .start();
    let of_plain = |path: &str| ask(&server, path, "identity", "");
    let (noise, made) = (of_plain("/noise.txt"), of_plain("/made.txt"));
    let noise_tag = noise.field("etag").unwrap();
    let made_tag = format!("W/{}-gzip\"", made.field("etag").unwrap().trim_end_matches('"'));
    let since = |response: &Response| format!("If-Modified-Since: {}\r\n", response.field("last-modified").unwrap());
    for field in [since(&noise), "If-None-Match: *\r\n".to_owned()] {
        // On the first request the server does not know yet that the file is incompressible.
        for _ in 0..2 {
            let response = ask(&server, "/noise.txt", "gzip", &field);
            assert_eq!(
                (response.status, response.field("etag")),
                (304, Some(noise_tag)),
                "{field}"
            );
        }
    }
    for _ in 0..2 {
        let response = ask(&server, "/made.txt", "gzip", &since(&made));
        assert_eq!((response.status, response.field("etag")), (304, Some(&*made_tag)));
    }
    // A condition on the identity representation holds where that is what is sent.
    let tag = of_plain("/other.txt").field("etag").unwrap().to_owned();
    let response = ask(&server, "/other.txt", "gzip", &format!("If-Match: {tag}\r\n"));
    assert_eq!((response.status, response.body), (200, super::noise(5001)));
}

#[test]
fn if_match_and_if_range_need_a_strong_etag() {
    let server = server();
    let [made, stored] = ["/made.txt", "/stored.txt"].map(|path| tag(&server, path, "gzip"));
    assert!(made.starts_with("W/\"") && stored.starts_with('"'));
    for (path, held, status) in [("/made.txt", &made, 412), ("/stored.txt", &stored, 200)] {
        let response = ask(&server, path, "gzip", &format!("If-Match: {held}\r\n"));
        assert_eq!(response.status, status, "{path}");
    }
    let go_on = |path: &str, held: &str| {
        ask(
            &server,
            path,
            "gzip",
            &format!("Range: bytes=100-\r\nIf-Range: {held}\r\n"),
        )
    };
    let rest = go_on("/stored.txt", &stored);
    assert_eq!((rest.status, rest.field("content-encoding")), (206, Some("gzip")));
    assert_eq!(rest.body, gzip(&text(1000))[100..]);
    let full = go_on("/made.txt", &made);
    assert_eq!((full.status, decoded(&full)), (200, text(1000)));
    let full = go_on("/stored.txt", &tag(&server, "/stored.txt", "identity"));
    assert_eq!((full.status, decoded(&full)), (200, text(1000)));
}

#[test]
fn ranges_select_from_the_stored_variant_or_else_from_the_file() {
    let server = server();
    let stored = gzip(&text(1000));
    let part = ask(&server, "/stored.txt", "gzip", "Range: bytes=10-19\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &stored[10..20]));
    assert_eq!(part.field("content-encoding"), Some("gzip"));
    assert_eq!(
        part.field("content-range"),
        Some(format!("bytes 10-19/{}", stored.len()).as_str())
    );
    let file = ask(&server, "/made.txt", "gzip", "Range: bytes=10-19\r\n");
    assert_eq!((file.status, file.text()), (206, &text(1000)[10..20]));
    assert_eq!(
        (file.field("content-encoding"), file.field("vary")),
        (None, Some("accept-encoding"))
    );
    // Several parts in one body are not valid gzip, so Content-Encoding does not apply to them.
    let several = ask(&server, "/stored.txt", "gzip", "Range: bytes=0-1,10-19\r\n");
    assert_eq!((several.status, decoded(&several)), (200, text(1000)));
    let several = ask(&server, "/stored.txt", "identity", "Range: bytes=0-1,10-19\r\n");
    assert_eq!((several.status, several.field("content-encoding")), (206, None));
    assert_eq!(
        ask(&server, "/stored.txt", "gzip", "Range: bytes=99999-\r\n").status,
        416
    );
}

#[test]
fn head_matches_get_for_each_variant() {
    let server = server();
    for path in ["/made.txt", "/stored.txt"] {
        for accept in [BROWSER, "gzip", "zstd", "identity"] {
            let mut client = server.connect();
            let head = request(path, accept, "").replacen("GET", "HEAD", 1);
            let without_date = |response: &Response| -> Vec<_> {
                let fields = response.head.fields.iter();
                fields.filter(|field| field.0 != "date").cloned().collect()
            };
            // HEAD comes first: it makes the server compress the file too.
            let head = client.send(head).response_to("HEAD");
            let get = ask(&server, path, accept, "");
            assert_eq!(without_date(&head), without_date(&get), "{path} {accept}");
            assert!(get.field("content-length").is_some());
        }
    }
}

#[test]
fn compression_is_bounded_in_time() {
    // Ten times this is saved at the start: not enough for all files.
    const FILES: usize = 60;
    let name = |number: usize| format!("/{number}.txt");
    let setup = Setup::new().cache("compression_time = \"1ms\"");
    let setup = (0..FILES).fold(setup, |setup, number| {
        setup
            .file(&name(number), text(4000))
            .age(name(number).trim_start_matches('/'))
    });
    let server = setup.start();
    let encodings: Vec<_> = (0..FILES)
        .map(|number| encoding(&server, &name(number), "gzip"))
        .collect();
    assert_eq!(encodings[0].as_deref(), Some("gzip"), "{}", server.log());
    assert_eq!(encodings[FILES - 1], None, "compressed without bound");
    assert_eq!(
        encoding(&server, &name(0), "gzip").as_deref(),
        Some("gzip"),
        "it is in the cache"
    );
    server.log_line("cache.compression_time");
    assert_eq!(
        server.log().matches("cache.compression_time").count(),
        1,
        "it is not repeated"
    );
}
