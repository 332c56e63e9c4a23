//! The output regions: the end of a large reply, which the C library puts into memory shared with the server.

use sluice_testing::{Ending, Response, Server, Setup, warnings_and_errors};

/// A script that writes its whole reply, head included or not, into the region that its request announces, and then does what the
/// query says.
const REGION: &str = r#"
import mmap
while variables := accept():
    way = variables["QUERY_STRING"]
    offset, size = map(int, variables["WWW_GATEWAY_REGION"].split())
    memory = mmap.mmap(4, size, offset=offset)
    head = b"Content-Type: text/plain\nX-Region: %d %d\n\n" % (offset, size)
    inside = head + b"text" if way == "head" else b"text"
    memory[: len(inside)] = inside
    count = {"large": b"%d" % (size + 1), "unit": b"1k", "beyond": b"4 %d" % (size - 3), "part": b"3 1"}.get(way, b"%d" % len(inside))
    call = ESC + b"\n!BUFFER-REGION: %s\n" % count + EOT + b"\n"
    if way == "asked":
        put(head)
        if ask(b"BUFFER-REGION: 4") != [b"200 OK\n"]:
            put(b"another answer")
        for answer, part in [(b"200", b"4 0"), (b"200", b"1 %d" % (size - 1)), (b"400", b"4 %d" % (size - 3)), (b"400", b"x")]:
            if not ask(b"BUFFER-FREE: " + part)[0].startswith(answer + (b" %s\n" % part if answer == b"200" else b" ")):
                put(b"another answer")
        call = b""
    put({"head": b"", "asked": b"", "middle": head + b"before "}.get(way, head) + call * (2 if way == "twice" else 1) + (b" after" if way == "middle" else b""))
    finish()
"#;

fn get(server: &Server, way: &str) -> Response {
    server.get(&format!("/cgiplus-bin/region?{way}"))
}

#[test]
fn bytes_of_the_region_stand_where_the_callout_does() {
    let server = Setup::new().cgiplus("max = 1").python("region", REGION).start();
    for _ in 0..3 {
        for (way, text) in [
            ("", "text"),
            ("head", "text"),
            ("middle", "before text after"),
            ("asked", "text"),
            ("part", "ext"),
            ("twice", "texttext"),
        ] {
            let response = get(&server, way);
            assert_eq!(
                (response.status, response.text()),
                (200, text),
                "{way}: {}",
                server.log()
            );
        }
    }
    let ended = server.stop();
    assert_eq!(warnings_and_errors(&ended.errors), Vec::<String>::new());
}

#[test]
fn a_region_that_was_not_announced_is_a_fault_of_the_script() {
    let server = Setup::new().cgiplus("max = 1").python("region", REGION).start();
    assert_eq!(get(&server, "large").status, 502);
    server.log_line("BUFFER-REGION of 524289 bytes at offset 0");
    assert_eq!(get(&server, "unit").status, 502);
    server.log_line("BUFFER-REGION without a decimal number of bytes");
    let response = get(&server, "beyond");
    assert!(
        response.status == 502 || response.ending == Ending::Truncated,
        "{}",
        response.text()
    );
    server.log_line("BUFFER-REGION of 4 bytes at offset 524285");
}

#[test]
fn a_large_reply_of_the_library_is_the_same_with_and_without_regions() {
    let with = Setup::new().cgiplus("max = 1").c_programs().start();
    let without = Setup::new()
        .cgiplus("max = 1, memory_buffer_max = 0")
        .c_programs()
        .start();
    let get = |path: &str| [with.get(path), without.get(path)];
    let paths = replies();
    for path in &paths {
        let [one, other] = get(path);
        let fields = |response: &Response| {
            let mut fields = response.head.fields.clone();
            // A reply that is complete before its head is sent gets its length, which depends on the time.
            let is_framing =
                |name: &str| name == "transfer-encoding" || name == "content-length" && !path.ends_with('l');
            fields.retain(|(name, _)| name != "date" && !is_framing(name));
            fields
        };
        assert_eq!(fields(&one), fields(&other), "{path}");
        assert_eq!((one.status, one.ending), (other.status, other.ending), "{path}");
        assert!(one.body == other.body, "{path}: other bytes");
    }
    let [some, none] = get("/cgiplus-bin/large?blocks");
    assert_eq!((some.text(), none.text()), ("some", "none"));
    for server in [&with, &without] {
        let mut client = server.connect();
        client.send("HEAD /cgiplus-bin/large?65536l HTTP/1.1\r\nHost: test\r\n\r\n");
        assert_eq!(client.response_to("HEAD").head.field("content-length"), Some("65536"));
        assert_eq!(client.get("/cgiplus-bin/large?20000").response().body.len(), 20_000);
    }
    let lines = |server: &Server| -> Vec<String> {
        let lines = server.access_lines(paths.len() + 3);
        // Without the time before it and the id of the request after it; workers log in any order.
        let request = |line: &String| Some(line.split_once('"')?.1.rsplit_once(' ')?.0.to_owned());
        let mut lines: Vec<_> = lines.iter().filter_map(request).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(lines(&with), lines(&without));
    for server in [with, without] {
        let ended = server.stop();
        assert_eq!(warnings_and_errors(&ended.errors), Vec::<String>::new());
    }
}

#[test]
fn what_a_reply_has_left_in_the_library_is_not_sent_with_the_next() {
    let server = Setup::new().cgiplus("max = 1").c_programs().start();
    // The script gives stdout another buffer; the library's has the end of the first reply, which is in the second one, too.
    let [first, second] = ["bf", "bfzO"].map(|letters| server.get(&format!("/cgiplus-bin/large?600000{letters}")));
    let expected: Vec<u8> = (first.body.iter().enumerate())
        .map(|(at, byte)| if at < 300_000 { !byte } else { *byte })
        .collect();
    assert_eq!(
        (first.status, second.status, second.ending),
        (200, 200, Ending::Complete)
    );
    assert!(second.body == expected);
}

/// Replies below and above the library's threshold, its buffer and a region, flushed at any place.
fn replies() -> Vec<String> {
    let mut paths = Vec::new();
    for length in [
        0, 100, 16_300, 16_384, 16_500, 65_536, 131_000, 131_072, 200_000, 300_001, 524_000, 524_288, 600_000,
        1_300_000,
    ] {
        for letters in [
            "", "l", "f", "m", "lm", "h", "lh", "n", "e", "fe", "k", "w", "wl", "b", "bf", "wc", "wx", "wfxc", "bc",
            "uw",
        ] {
            paths.push(format!("/cgiplus-bin/large?{length}{letters}"));
        }
    }
    // From then on stdout has another buffer.
    paths.extend(["o", "lo", ""].map(|letters| format!("/cgiplus-bin/large?65536{letters}")));
    paths
}
