//! The stages of an exchange in `sluice watch`.
//!
//! Not here: the command itself (`watch`), access (`access::watched`).

use std::fs;

use sluice_testing::{Setup, Watcher, run};

const HELLO: &str = "printf 'Content-Type: text/plain\\n\\nhello'";

/// A script that prints everything that it knows of its request.
const ENVIRONMENT: &str =
    "printf 'Content-Type: text/plain\\nSet-Cookie: id=c0okie-value\\n\\n'; env; exec cat > /dev/null";

#[test]
fn the_reason_why_a_route_does_not_match_is_shown() {
    let server = Setup::new()
        .file("a.txt", "a")
        .route("path = \"/a.txt\"\nwhen = { method = \"POST\" }\nredirect = { to = \"/1\" }")
        .route("path = \"/a.txt\"\nwhen = { host = \"b.test\" }\nredirect = { to = \"/2\" }")
        .route("path = \"/a.txt\"\nwhen = { query = { x = \"1\" } }\nredirect = { to = \"/3\" }")
        .route("path = \"/old/*\"\nrewrite = \"/*\"\ncomment = \"links of the old shop\"")
        .route("path = \"/a.txt\"\nexpires = \"1h\"")
        .start();
    let watcher = Watcher::start(&server, &["--items", "mapping"]);
    assert_eq!(server.get("/old/a.txt?x=2").status, 200);
    watcher.line("answer: file /");
    let shown = watcher.text();
    for part in [
        "host \"test\": site ",
        "path \"/old/a.txt\"",
        "\"/a.txt\": skipped: the path does not match",
        ", \"links of the old shop\") \"/old/*\": rewrites to /a.txt?x=2",
        "\"/a.txt\": matches; the next one is tried",
        "set: expires max-age=3600",
        "/htdocs/a.txt",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let explained = run(
        server.setup().directory(),
        &["check", "--explain", "http://test/old/a.txt"],
    )
    .output;
    assert!(
        explained.contains("continues (\"links of the old shop\")"),
        "{explained}"
    );
    assert_eq!(server.get("/a.txt?x=2").status, 200);
    watcher.line("skipped: the method is not POST");
    watcher.line("skipped: the host is not b.test");
    watcher.line("skipped: query x is not \"1\"");
}

#[test]
fn a_decision_that_is_made_again_with_the_answers_of_a_thread_shows_its_routes_once() {
    let server = Setup::new()
        .file("d/a.txt", "a")
        .route("path = \"/b.txt\"\nredirect = { to = \"/1\" }")
        .start();
    let watcher = Watcher::start(&server, &["--items", "mapping"]);
    // The kernel does not have this name in its cache, so the worker leaves it to a thread.
    assert_eq!(server.get("/d/none.txt").status, 404);
    watcher.line("answer: ");
    let shown = watcher.text();
    assert_eq!(shown.matches("\"/b.txt\": skipped").count(), 1, "{shown}");
}

/// Requests with secrets in every place that a client can choose.
fn send_secrets(server: &sluice_testing::Server, target: &str) {
    let fields = "Host: test\r\nAuthorization: Bearer s3cret-token\r\nCookie: session=s3cret-cookie\r\n\
                  Referer: http://test/?access_token=s3cret-referer\r\nX-Auth-Token: s3cret-field\r\n";
    let parts = "--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\ns3cret-part\r\n--b--\r\n";
    for (kind, body) in [
        ("application/x-www-form-urlencoded", "user=ann&password=s3cret-form&x=1"),
        ("application/json", r#"{"user":"ann","password":"s3cret-json"}"#),
        ("multipart/form-data; boundary=b", parts),
    ] {
        let length = body.len();
        let head = format!(
            "POST {target}?user=ann&password=s3cret-query HTTP/1.1\r\n{fields}Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
        );
        let (first, second) = body.split_at(length - 5);
        let mut client = server.connect();
        client.send(head).send(first);
        client.send(second);
        client.response();
    }
}

#[test]
fn secrets_are_masked_wherever_they_stand() {
    let server = Setup::new()
        .script("environment", ENVIRONMENT)
        .log("access = \"access.log\"\nformat = '%h \"%r\" %s \"%{Referer}i\" \"%{Cookie}i\" \"%{Set-Cookie}o\"'")
        .start();
    let watcher = Watcher::start(&server, &["--items", "all"]);
    send_secrets(&server, "/cgi-bin/environment");
    send_secrets(&server, "/missing");
    watcher.lines(6, "access log: ");
    let shown = watcher.text();
    for secret in ["s3cret", "c0okie-value"] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
    for part in [
        "authorization: Bearer …(12 bytes)",
        "password=…(12 bytes)",
        "user=ann",
        "password=***********&x=1",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn secrets_are_shown_where_the_configuration_says_so_until_it_is_reloaded() {
    let server = Setup::new()
        .server("watch = { unmasked = true }")
        .file("a.txt", "a")
        .start();
    let watcher = Watcher::start(&server, &["--items", "request-head"]);
    let ask = |value: &str| server.get(&format!("/a.txt?token={value}&pin_code=12{value}"));
    ask("first");
    watcher.line("?token=first&pin_code=12first ");
    let configuration = server.setup().path("sluice.toml");
    let text = fs::read_to_string(&configuration).unwrap();
    fs::write(
        &configuration,
        text.replace("unmasked = true", "masked_fields = [\"Pin-Code\"]"),
    )
    .unwrap();
    assert!(run(server.setup().directory(), &["reload"]).status.success());
    ask("second");
    watcher.line("?token=second&pin_code=…(8 bytes) ");
}

#[test]
fn a_wrong_name_of_a_secret_is_reported() {
    let setup = Setup::new().server("watch = { masked_fields = [\"password\", \"--\"] }");
    setup.write_configuration();
    let ran = run(setup.directory(), &["check"]);
    assert!(
        ran.errors.contains("masked_fields: needs names, as in \"password\""),
        "{}",
        ran.errors
    );
}

#[test]
fn a_client_that_leaves_is_shown() {
    let setup = Setup::new().script("endless", "printf 'Content-Type: text/plain\\n\\n'; exec cat /dev/zero");
    let server = setup.start();
    let watcher = Watcher::start(&server, &["--items", "errors,log,timing"]);
    let mut client = server.connect();
    client.get("/cgi-bin/endless");
    client.head();
    drop(client);
    watcher.line("the client left before the response was complete: its connection had got ");
    watcher.line("script worked until its first byte");
}

#[test]
fn a_slow_request_is_shown_while_it_hangs_with_what_came_before() {
    let setup = Setup::new()
        .script(
            "wait",
            "read line < \"$TEST_DIR/gate\"; printf 'Content-Type: text/plain\\n\\ndone'",
        )
        .script("hello", HELLO);
    let mut gate = setup.gate("gate");
    let server = setup.start();
    let by_filter = Watcher::start(&server, &["--slower-than", "300ms", "--path", "/cgi-bin/*"]);
    let by_trigger = Watcher::start(&server, &["--trigger", "slower=300ms", "--path", "/cgi-bin/*"]);
    let mut client = server.connect();
    client.get("/cgi-bin/wait");
    for watcher in [&by_filter, &by_trigger] {
        watcher.line("GET /cgi-bin/wait HTTP/1.1");
        watcher.line("answer: script ");
        assert!(!watcher.text().contains("access log"));
    }
    assert_eq!(server.get("/cgi-bin/hello").text(), "hello");
    gate.open();
    assert_eq!(client.response().text(), "done");
    for watcher in [by_filter, by_trigger] {
        watcher.line("access log: ");
        assert!(
            !watcher.text().contains("/cgi-bin/hello HTTP/1.1\n"),
            "{}",
            watcher.text()
        );
    }
}

#[test]
fn a_watch_by_status_or_script_shows_the_whole_request() {
    let server = Setup::new()
        .script("hello", HELLO)
        .script("broken", "echo nonsense >&2; exit 3")
        .file("a.txt", "a")
        .start();
    let by_status = Watcher::start(&server, &["--status", "5xx"]);
    let by_script = Watcher::start(&server, &["--script", "*/hello"]);
    let by_trigger = Watcher::start(&server, &["--trigger", "status>=500", "--once"]);
    for path in ["/a.txt", "/cgi-bin/hello", "/missing", "/cgi-bin/broken"] {
        server.get(path);
    }
    for (watcher, path) in [(&by_status, "broken"), (&by_script, "hello"), (&by_trigger, "broken")] {
        watcher.line("access log: ");
        watcher.line(" ms  end ");
        let shown = watcher.text();
        assert!(shown.contains(&format!("GET /cgi-bin/{path} HTTP/1.1\n")), "{shown}");
        assert_eq!(shown.matches(" request-head ").count(), 1, "{shown}");
        assert!(shown.contains("answer: script "), "{shown}");
    }
    by_status.line("fault, the script's, status 502: ");
    by_status.line("server log, WARN: GET /cgi-bin/broken: ");
    assert!(by_trigger.wait_end().status.success());
}
