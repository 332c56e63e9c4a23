//! Scripts that fail after the head of their reply, what is logged about their end, and what detailed error pages show of it.

use sluice_testing::{Ending, Response, Server, Setup, warnings_and_errors};

/// Fails as `sys.argv[0]` says, after a head.
const FAILING: &str = r#"
if "CGIPLUSEOF" in os.environ:
    accept()
way = os.path.basename(sys.argv[0])
for number in range(1, 12):
    print(f"line {number} of <b>", file=sys.stderr)
sys.stderr.flush()
if way == "buffered":
    print("Content-Type: text/plain\n")
    raise ValueError("no luck")
put(HEAD)
raise ValueError("no luck")
"#;

#[track_caller]
fn ask(server: &Server, lines: &str) -> Response {
    server.send(format!("{lines}\r\n\r\n"))
}

#[test]
fn exception_after_the_head_is_502_and_the_page_shows_the_last_lines() {
    let server = Setup::new()
        .site("error_detail = true")
        .python("buffered", FAILING)
        .python("flushed", FAILING)
        .start();
    for (count, path) in [
        "cgi-bin/buffered",
        "cgi-bin/flushed",
        "cgiplus-bin/buffered",
        "cgiplus-bin/flushed",
    ]
    .into_iter()
    .enumerate()
    {
        let response = server.get(&format!("/{path}"));
        let page = response.text();
        assert_eq!(response.status, 502, "{path}: {page}\n{}", server.log());
        assert_eq!(response.field("cache-control"), Some("no-store"));
        let line = server.log_lines(count + 1, "status=502").swap_remove(count);
        assert!(
            line.contains("exit code 1") && line.contains("ValueError: no luck"),
            "{line}"
        );
        let pid = line.split(", pid ").nth(1).unwrap().split(',').next().unwrap();
        assert!(page.contains(&format!("\nProcess {pid}: exit code 1\n")), "{page}");
        let (_, shown) = page.split_once("standard error:\n").unwrap();
        let shown: Vec<_> = shown.lines().filter(|line| line.starts_with("  ")).collect();
        assert_eq!(shown.len(), 10, "{page}");
        assert_eq!(shown.last(), Some(&"  ValueError: no luck"), "{page}");
    }
    let html = ask(
        &server,
        "GET /cgi-bin/buffered HTTP/1.1\r\nHost: test\r\nAccept: text/html",
    );
    assert!(
        html.text().contains("of &lt;b&gt;") && !html.text().contains("<b>"),
        "{}",
        html.text()
    );
    let json = ask(
        &server,
        "GET /cgi-bin/buffered HTTP/1.1\r\nHost: test\r\nAccept: application/json",
    );
    assert!(
        json.text().contains("\"ended\":\"exit code 1\",\"stderr\":[\"line "),
        "{}",
        json.text()
    );
    server.assert_idle();
}

#[test]
fn only_a_reply_that_promises_a_body_needs_one() {
    let server = Setup::new()
        .script("elsewhere", "printf 'Location: https://example.org/\\n\\n'; exit 3")
        .script("absent", "printf 'Status: 404\\n\\n'; exit 3")
        .script("empty", "printf 'Content-Length: 0\\n\\n'; exit 3")
        .script("sound", "printf 'Content-Type: text/plain\\n\\n'; exit 0")
        .script("page", "printf 'Content-Type: text/plain\\n\\npage'; exit 3")
        .script("killed", "printf 'Content-Type: text/plain\\n\\n'; kill -KILL $$")
        .script("failed", "printf 'Content-Type: text/plain\\n\\n'; exit 3")
        .start();
    for (name, status, text) in [
        ("elsewhere", 302, ""),
        ("absent", 404, ""),
        ("empty", 200, ""),
        ("sound", 200, ""),
        ("page", 200, "page"),
    ] {
        let response = server.get(&format!("/cgi-bin/{name}"));
        assert_eq!((response.status, response.text()), (status, text), "{name}");
        assert_eq!(response.ending, Ending::Complete, "{name}");
    }
    for name in ["killed", "failed"] {
        assert_eq!(server.get(&format!("/cgi-bin/{name}")).status, 502, "{name}");
    }
    let mut client = server.connect();
    client.send("HEAD /cgi-bin/failed HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.response_to("HEAD").status, 200);
    // Every end with another status than 0 is logged, once.
    server.log_lines(5, "end of the process: exit code 3");
    drop(client);
    server.assert_idle();
    let ended = server.stop();
    let faults = warnings_and_errors(&ended.errors);
    assert_eq!(faults.len(), 2, "{faults:#?}");
    assert_eq!(
        ended.errors.matches("end of the process").count(),
        5,
        "{}",
        ended.errors
    );
}

#[test]
fn late_failure_without_a_body_is_truncated() {
    let server = Setup::new()
        .python(
            "late",
            r#"
print("Content-Type: text/event-stream\n", flush=True)
wait_at("go")
sys.exit(3)
"#,
        )
        .start();
    let mut gate = server.setup().gate("go");
    let mut client = server.connect();
    // The head of an event stream does not wait for its body.
    let head = client.get("/cgi-bin/late").head();
    assert_eq!(head.status, 200);
    gate.open();
    assert_eq!(client.body(head.framing("GET")).1, Ending::Truncated);
    let line = server.log_line("response aborted");
    assert!(line.contains("exit code 3: failed after the head"), "{line}");
}

#[test]
fn serve_shows_details_to_direct_clients_of_this_machine_only() {
    let setup = || Setup::new().script("fails", "echo secret >&2; exit 3");
    let arguments = ["serve", "htdocs", "--listen", "127.0.0.1:0", "--host", "test"];
    let server = setup().start_with(&arguments);
    let get = |fields: &str| {
        let response = ask(&server, &format!("GET /cgi-bin/fails {fields}"));
        assert_eq!(response.status, 502);
        response.text().contains("  secret\n")
    };
    for local in ["localhost", "127.0.0.1:80", "[::1]"] {
        assert!(get(&format!("HTTP/1.1\r\nHost: {local}")), "{local}");
    }
    assert!(get("HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: none"));
    for other in [
        "HTTP/1.0\r\nHost: localhost",
        "HTTP/1.1\r\nHost: test",
        "HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 127.0.0.1",
        "HTTP/1.1\r\nHost: localhost\r\nX-Real-IP: 192.0.2.1",
        "HTTP/1.1\r\nHost: localhost\r\nForwarded: for=192.0.2.1",
        "HTTP/1.1\r\nHost: localhost\r\nVia: 1.1 proxy",
        "HTTP/1.1\r\nHost: localhost\r\nX-Envoy-External-Address: 192.0.2.1",
        "HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site",
        "HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-site",
    ] {
        assert!(!get(other), "{other}");
    }
    for (option, host, expected) in [("--detail=off", "localhost", false), ("--detail", "test", true)] {
        let server = setup().start_with(&[&arguments[..], &[option]].concat());
        let response = ask(&server, &format!("GET /cgi-bin/fails HTTP/1.1\r\nHost: {host}"));
        assert_eq!(response.text().contains("  secret\n"), expected, "{option}");
    }
}

#[test]
fn configured_detail_can_be_local() {
    let server = Setup::new()
        .site("error_detail = \"local\"")
        .script("fails", "echo secret >&2; exit 3")
        .start();
    for (host, expected) in [("localhost", true), ("test", false)] {
        let response = ask(&server, &format!("GET /cgi-bin/fails HTTP/1.1\r\nHost: {host}"));
        assert_eq!(response.text().contains("secret"), expected, "{host}");
    }
}

#[test]
fn error_lines_of_another_request_are_not_shown() {
    let server = Setup::new()
        .site("error_detail = true")
        .cgiplus("max = 1")
        .python(
            "kept",
            r#"
while variables := accept():
    if variables["QUERY_STRING"] == "fails":
        sys.exit(3)
    print("secret of a client", file=sys.stderr, flush=True)
    put(HEAD + b"well")
    finish()
"#,
        )
        .start();
    assert_eq!(server.get("/cgiplus-bin/kept").text(), "well");
    server.log_line("secret of a client");
    let response = server.get("/cgiplus-bin/kept?fails");
    assert_eq!(response.status, 502);
    assert!(
        response.text().contains("exit code 3") && !response.text().contains("secret"),
        "{}",
        response.text()
    );
}
