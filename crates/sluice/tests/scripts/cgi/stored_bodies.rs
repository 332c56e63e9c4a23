//! Request bodies without a length, which are stored before the script starts: bounded for the whole server, in a
//! directory of the administrator's choice, and not stored in vain.

use sluice_testing::{Client, Server, Setup, wait_until};

/// Begins a chunked body and sends this many bytes of it.
fn begin_upload(server: &Server, path: &str, bytes: usize) -> Client {
    let mut client = server.connect();
    client.send(format!(
        "POST {path} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n{bytes:x}\r\n{}\r\n",
        "x".repeat(bytes)
    ));
    client
}

/// The files in the directory `spool` that the server has open.
fn stored_files(server: &Server) -> usize {
    let directory = server.path("spool").canonicalize().unwrap();
    let links = std::fs::read_dir(format!("/proc/{}/fd", server.server_pid())).unwrap();
    let files = links.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    files.filter(|file| file.starts_with(&directory)).count()
}

fn setup() -> Setup {
    let setup = Setup::new().server("spool_directory = \"spool\"");
    std::fs::create_dir(setup.path("spool")).unwrap();
    setup
}

#[test]
fn stored_bodies_of_all_clients_are_bounded() {
    // A file is created when there are more than 64 KiB.
    const BYTES: usize = 65_537;
    let server = setup()
        .limits("stored_bodies = 100000")
        .script("count", r"printf 'Content-Type: text/plain\n\n'; wc -c")
        .python(
            "kept",
            "while variables := accept():\n    put(HEAD + b'%d' % len(body(int(variables['CONTENT_LENGTH']))))\n    finish()",
        )
        .start();
    for (turn, path) in ["/cgi-bin/count", "/cgiplus-bin/kept"].into_iter().enumerate() {
        // The last requests of the turn before may hold theirs for a moment.
        assert!(wait_until(|| stored_files(&server) == 0), "{path}: a body is left");
        let mut first = begin_upload(&server, path, BYTES);
        assert!(wait_until(|| stored_files(&server) == 1), "{path}: it is not stored");
        let refused = begin_upload(&server, path, BYTES).send("0\r\n\r\n").response();
        assert_eq!(
            (refused.status, refused.field("retry-after")),
            (503, Some("5")),
            "{path}"
        );
        let line = server
            .log_lines(turn + 1, "bytes (limits.stored_bodies)")
            .pop()
            .unwrap();
        assert!(line.contains("have reached 100000 bytes"), "{line}");
        let response = first.send("0\r\n\r\n").response();
        assert_eq!(response.text().trim(), BYTES.to_string(), "{path}");
        // A CGI process holds its body until its end.
        let is_free = wait_until(|| begin_upload(&server, path, BYTES).send("0\r\n\r\n").response().status == 200);
        assert!(is_free, "{path}: the room is not returned");
        drop(begin_upload(&server, path, BYTES));
        let is_free = wait_until(|| begin_upload(&server, path, BYTES).send("0\r\n\r\n").response().status == 200);
        assert!(is_free, "{path}: the room of a client that left is not returned");
        let never = wait_until(|| begin_upload(&server, path, 200_000).response().status == 413);
        assert!(
            never,
            "{path}: a body that is larger than all the room is not refused for good"
        );
    }
}

#[test]
fn bodies_in_small_chunks_are_stored_whole() {
    let numbers: String = (0..100_000).map(|number| format!("{number:06}\n")).collect();
    let server = setup()
        .script("check", r"printf 'Content-Type: text/plain\n\n'; cksum")
        .script(
            "length",
            r#"printf 'Content-Type: text/plain\n\n%s ' "$CONTENT_LENGTH"; wc -c"#,
        )
        .start();
    let whole = server.post("/cgi-bin/check", &numbers);
    // Smaller and larger than a collected write, in turns.
    for sizes in [&[7][..], &[100], &[100_000], &[60_000, 1, 70_000, 10_000, 3]] {
        let (mut rest, mut chunks, mut sizes) = (numbers.as_str(), String::new(), sizes.iter().cycle());
        while !rest.is_empty() {
            let (chunk, more) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            chunks += &format!("{:x}\r\n{chunk}\r\n", chunk.len());
            rest = more;
        }
        for (path, expected) in [("check", whole.text()), ("length", "700000 700000\n")] {
            let head = format!("POST /cgi-bin/{path} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
            let response = server.send(format!("{head}{chunks}0\r\n\r\n"));
            assert_eq!(response.text(), expected);
        }
    }
}

/// Sends a body byte by byte. Returns the growth of the server's memory at its largest.
fn growth_by_single_bytes(path: &str, field: &str, byte: &str, end: &str) -> usize {
    // hyper reads each into a block of its own of at least 8 KiB, of which at least 4 KiB are touched: 12 MB.
    const BYTES: usize = 3000;
    let script = "while variables := accept():\n    put(HEAD + b'%d' % len(body(int(variables['CONTENT_LENGTH']))))\n    finish()";
    let server = Setup::new()
        .workers(1)
        // On a busy machine the bytes come slowly.
        .limits("body_rate = 0")
        .script("count", r"printf 'Content-Type: text/plain\n\n'; wc -c")
        .python("kept", script)
        .start();
    let field = field.replace("LENGTH", &BYTES.to_string());
    let (mut client, mut other) = (server.connect(), server.connect());
    // What the allocator keeps for as many requests is no part of it.
    for _ in 0..BYTES {
        other.send("GET /health.txt HTTP/1.1\r\nHost: test\r\n\r\n").response();
    }
    let before = server.peak_memory_bytes();
    client.send(format!("POST {path} HTTP/1.1\r\nHost: test\r\n{field}\r\n\r\n"));
    for _ in 0..BYTES {
        client.send(byte);
        // So that the server reads most of them by themselves: its only worker answers this after the byte has arrived.
        let answered = other.send("GET /health.txt HTTP/1.1\r\nHost: test\r\n\r\n").response();
        assert_eq!(answered.status, 200);
    }
    assert_eq!(client.send(end).response().text().trim(), BYTES.to_string(), "{path}");
    server.peak_memory_bytes().saturating_sub(before)
}

#[test]
fn bodies_of_single_bytes_use_no_more_memory_than_their_length() {
    for (path, field, byte, end) in [
        (
            "/cgi-bin/count",
            "Transfer-Encoding: chunked",
            "1\r\nx\r\n",
            "0\r\n\r\n",
        ),
        (
            "/cgiplus-bin/kept",
            "Transfer-Encoding: chunked",
            "1\r\nx\r\n",
            "0\r\n\r\n",
        ),
        ("/cgiplus-bin/kept", "Content-Length: LENGTH", "x", ""),
    ] {
        let growth = growth_by_single_bytes(path, field, byte, end);
        assert!(growth < 8 << 20, "{path}: {growth} bytes");
    }
}

#[test]
fn full_queue_refuses_a_request_before_its_body_is_stored() {
    let setup = Setup::new();
    let begun = setup.event_fifo("begun");
    let mut gate = setup.gate("go");
    let server = setup
        .cgi("max = 1, queue = 0")
        .cgiplus("max = 1, queue = 0")
        .script(
            "hold",
            r#"echo > "$TEST_DIR/begun"; read -r line < "$TEST_DIR/go"; printf 'Content-Type: text/plain\n\nheld'"#,
        )
        .python(
            "kept",
            "while accept():\n    report('begun')\n    wait_at('go')\n    put(HEAD + b'held')\n    finish()",
        )
        .start();
    for path in ["/cgi-bin/hold", "/cgiplus-bin/kept"] {
        let mut holding = server.connect();
        holding.get(path);
        begun.line();
        let response = begin_upload(&server, path, 100).response();
        assert_eq!(
            (response.status, response.field("retry-after")),
            (503, Some("2")),
            "{path}"
        );
        gate.open();
        assert_eq!(holding.response().text(), "held");
    }
}

#[test]
fn bodies_are_stored_in_the_configured_directory() {
    let server = setup()
        .script("count", r"printf 'Content-Type: text/plain\n\n'; wc -c")
        .start();
    let mut client = begin_upload(&server, "/cgi-bin/count", 100_000);
    assert!(wait_until(|| stored_files(&server) == 1), "no file is open there");
    assert_eq!(
        std::fs::read_dir(server.path("spool")).unwrap().count(),
        0,
        "it has a name"
    );
    assert_eq!(client.send("0\r\n\r\n").response().text().trim(), "100000");
    assert!(wait_until(|| stored_files(&server) == 0), "the file is still open");
}

#[test]
fn directory_for_bodies_without_write_permission_is_refused_at_the_start() {
    let setup = Setup::new().server("spool_directory = \"/proc\"");
    setup.write_configuration();
    let checked = sluice_testing::run(setup.directory(), &["check", "-c", "sluice.toml"]);
    assert!(!checked.status.success());
    assert!(checked.errors.contains("spool_directory /proc: "), "{}", checked.errors);
}

#[test]
fn a_stored_body_can_be_read_and_not_written() {
    let text = "printf 'Content-Type: text/plain\\n\\n'; (head -c 64M /dev/zero >&0) 2>/dev/null || echo refused; wc -c; wc -c < /dev/stdin";
    let server = Setup::new().script("writes", text).start();
    let mut client = server.connect();
    client.send("POST /cgi-bin/writes HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n30D40\r\n");
    client.send(vec![b'x'; 200_000]);
    client.send("\r\n0\r\n\r\n");
    assert_eq!(client.response().text(), "refused\n200000\n200000\n");
}
