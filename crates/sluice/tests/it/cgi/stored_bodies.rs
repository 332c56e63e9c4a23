//! Request bodies without a length, which are stored before the script starts: bounded for the whole server, in a
//! directory of the administrator's choice, and not stored in vain.

use crate::harness::{Client, Server, Setup, wait_until};

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
    let links = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
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
        let mut first = begin_upload(&server, path, BYTES);
        assert!(wait_until(|| stored_files(&server) == 1), "{path}: it is not stored");
        let refused = begin_upload(&server, path, BYTES).send("0\r\n\r\n").response();
        assert_eq!(
            (refused.status, refused.field("retry-after")),
            (503, Some("5")),
            "{path}"
        );
        let line = server.log_lines(turn + 1, "limits.stored_bodies").pop().unwrap();
        assert!(line.contains("have reached 100000 bytes"), "{line}");
        let response = first.send("0\r\n\r\n").response();
        assert_eq!(response.text().trim(), BYTES.to_string(), "{path}");
        // A CGI process holds its body until its end.
        let is_free = wait_until(|| begin_upload(&server, path, BYTES).send("0\r\n\r\n").response().status == 200);
        assert!(is_free, "{path}: the room is not returned");
        drop(begin_upload(&server, path, BYTES));
        let is_free = wait_until(|| begin_upload(&server, path, BYTES).send("0\r\n\r\n").response().status == 200);
        assert!(is_free, "{path}: the room of a client that left is not returned");
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
    let checked = crate::harness::run(setup.directory(), &["check", "-c", "sluice.toml"]);
    assert!(!checked.status.success());
    assert!(checked.errors.contains("spool_directory /proc: "), "{}", checked.errors);
}
