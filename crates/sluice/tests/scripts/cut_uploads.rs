//! Uploads whose clients leave within them: both logs say so, however the script gets the body.

use sluice_testing::{Server, Setup, run, wait_until};

/// Reads the whole body, as a script of each mode.
const CGI: &str = "cat > /dev/null; printf 'Content-Type: text/plain\\n\\nall'";
const CGIPLUS: &str = "while accept():\n    while body(1 << 16):\n        pass\n    put(HEAD + b'all')\n    finish()\n";
const ENGINE: &str = "while accept():\n    while body(1 << 16):\n        pass\n    put(HEAD + b'all')\n    finish()\n";

fn server() -> Server {
    Setup::new()
        .workers(1)
        .script("cgi", CGI)
        .python("cgiplus", CGIPLUS)
        .python("engine", ENGINE)
        .file("rte/a.test", "")
        .script_route(
            "/rte/*",
            "directory = \"htdocs/rte\", mode = \"rte\", engine = { program = \"htdocs/cgi-bin/engine\" }",
        )
        .script_route("/stream/*", "directory = \"htdocs/cgi-bin\", request_body = \"stream\"")
        .start()
}

/// Sends 1,000 bytes of a body, and leaves when the server has them: bytes that wait for the start of a script are not counted. Returns the line of the access log, and checks the server log.
#[track_caller]
fn cut(server: &Server, path: &str, fields: &str, expected: &str) -> String {
    let known = server.access_lines(0).len();
    let body = "x".repeat(1000);
    let body = match fields.starts_with("Transfer") {
        true => format!("3e8\r\n{body}\r\n"),
        false => body,
    };
    let mut client = server.connect();
    client.try_send(format!("POST {path} HTTP/1.1\r\nHost: test\r\n{fields}\r\n\r\n{body}"));
    let has_them = || {
        let top = run(server.setup().directory(), &["top", "--json"]).output;
        top.contains("\"received_bytes\":1000,")
    };
    assert!(wait_until(has_them), "{}", server.log());
    drop(client);
    let line = server.access_lines(known + 1).pop().unwrap_or_default();
    let log = server.log_line(&format!("{path}: {expected}"));
    assert!(
        log.contains("INFO") && log.contains("status=499") && !log.contains("request body: "),
        "{log}"
    );
    line
}

#[test]
fn a_cut_upload_is_logged_with_what_came_of_it_and_status_499_in_every_mode() {
    let server = server();
    let announced = "the client has left after 1000 of 500000 bytes of the request body";
    let chunked = "the client has left after 1000 bytes of the request body, before its end";
    for path in ["/cgi-bin/cgi", "/cgiplus-bin/cgiplus", "/rte/a.test", "/stream/cgi"] {
        for (fields, expected) in [
            ("Content-Length: 500000", announced),
            ("Transfer-Encoding: chunked", chunked),
        ] {
            let line = cut(&server, path, fields, expected);
            assert!(line.contains(&format!("\"POST {path} HTTP/1.1\" 499 ")), "{line}");
        }
    }
    assert!(server.get("/-health").status < 500);
}
