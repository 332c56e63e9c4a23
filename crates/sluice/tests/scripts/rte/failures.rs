//! Scripts that fail: the callout FAILED in each mode, and the end of an engine.

use super::{ran, setup};
use sluice_testing::{Ending, Server, warnings_and_errors};

/// A script that fails at the point that the query names. As CGI and CGIplus, and run by the test engine.
const FAILS: &str = r#"
def respond(variables):
    way = variables["QUERY_STRING"]
    if way == "head":
        put(b"Content-Type: text/plain\n")
    elif way == "together":
        put(HEAD + b"some" + ESC + b"\n!FAILED: in the body\n" + EOT + b"\n")
        return
    elif way == "body":
        put(HEAD + b"some")
        report("begun")
        wait_at("go")
    elif way == "well":
        put(HEAD + b"well %d" % os.getpid())
        return
    elif way == "status":
        put(ESC + b"\n!SCRIPT-CONTROL: X-http-status=503\n" + EOT + b"\n")
    elif way == "latin":
        put(HEAD + ESC + b"\n!FAILED: caf\xe9\n" + EOT + b"\n")
        return
    os.write(2, b"Traceback: the last line\n")
    # The head does not wait for long, so it comes with the callout.
    head = HEAD if way == "headed" else b""
    put(head + ESC + b"\n!FAILED: ValueError: on purpose\n" + EOT + b"\n")
"#;

/// FAILS with a loop for CGIplus, and without one for CGI.
fn looping() -> String {
    format!(
        "{FAILS}\nif \"CGIPLUSEOF\" in os.environ:\n    while variables := accept():\n        respond(variables)\n        finish()\nelse:\n    respond(os.environ)\n"
    )
}

/// A server with the script in each mode: below these prefixes.
fn start() -> (Server, [String; 3]) {
    let server = setup("max = 1")
        .cgiplus("max = 1")
        .site("error_detail = true")
        .python("fails", &looping())
        .file("rte/fails", format!("{FAILS}\nrespond(variables)\n"))
        .start();
    let paths = ["/cgi-bin/fails", "/cgiplus-bin/fails", "/rte/fails"].map(str::to_owned);
    (server, paths)
}

#[test]
fn a_failure_before_the_body_is_502_with_the_reason_and_the_process_stays() {
    let (server, paths) = start();
    let mut failures = 0;
    for path in &paths {
        let keeps = !path.starts_with("/cgi-bin");
        let before = server.get(&format!("{path}?well")).text().to_owned();
        for way in ["nothing", "head", "headed", "together", "latin"] {
            let response = server.get(&format!("{path}?{way}"));
            assert_eq!(response.status, 502, "{path} {way}:\n{}", server.log());
            if way != "together" && way != "latin" {
                assert!(response.text().contains("Traceback: the last line"), "{path} {way}");
                assert!(response.text().contains("ValueError: on purpose"), "{path} {way}");
            }
            // It goes on, so the page says nothing of it.
            assert!(
                !keeps || !response.text().contains("Process "),
                "{path} {way}: {}",
                response.text()
            );
            failures += 1;
        }
        // The page has the status that the script has asked for.
        let response = server.get(&format!("{path}?status"));
        assert_eq!(response.status, 503, "{path}:\n{}", server.log());
        for words in [
            "The program behind this address has failed.",
            "Traceback: the last line",
        ] {
            assert!(
                response.text().contains(words),
                "{path}: {}\n{}",
                response.text(),
                server.log()
            );
        }
        failures += 1;
        if keeps {
            assert_eq!(server.get(&format!("{path}?well")).text(), before, "the same process");
        }
    }
    let ended = server.stop();
    let lines = warnings_and_errors(&ended.errors);
    let failed: Vec<_> = lines.iter().filter(|line| line.contains("failed: ")).collect();
    assert_eq!(failed.len(), failures, "one line for each:\n{}", ended.errors);
    let of_engine = failed.iter().find(|line| line.contains("htdocs/rte/fails, pid "));
    assert!(of_engine.is_some(), "{failed:#?}");
    assert!(!ended.errors.contains("end of the process"), "{}", ended.errors);
}

#[test]
fn a_failure_in_the_body_aborts_the_response_and_the_process_stays() {
    let (server, paths) = start();
    let begun = server.setup().event_fifo("begun");
    let mut gate = server.setup().gate("go");
    for path in &paths {
        let before = server.get(&format!("{path}?well")).text().to_owned();
        let mut client = server.connect();
        client.get(&format!("{path}?body"));
        begun.line();
        let head = client.head();
        assert_eq!(head.status, 200);
        gate.open();
        let (body, ending) = client.body(head.framing("GET"));
        assert_eq!((body.as_slice(), ending), (&b"some"[..], Ending::Truncated), "{path}");
        server.log_line("failed: ValueError: on purpose");
        if !path.starts_with("/cgi-bin") {
            assert_eq!(server.get(&format!("{path}?well")).text(), before, "the same process");
        }
    }
}

#[test]
fn a_failure_that_nobody_waits_for_is_logged_once_and_the_process_stays() {
    let (server, paths) = start();
    let before = server.get(&format!("{}?well", paths[2])).text().to_owned();
    let mut client = server.connect();
    client.send(format!("HEAD {}?headed HTTP/1.1\r\nHost: test\r\n\r\n", paths[2]));
    assert_eq!(client.response_to("HEAD").status, 200);
    server.log_line("failed: ValueError: on purpose");
    assert_eq!(server.get(&format!("{}?well", paths[2])).text(), before);
    assert_eq!(
        server.log().matches("failed: ValueError").count(),
        1,
        "{}",
        server.log()
    );
}

#[test]
fn an_engine_that_ends_is_replaced_and_one_request_is_affected() {
    let server = setup("max = 1")
        .file("rte/exit.test", "os._exit(3)")
        .file(
            "rte/crash.test",
            "put(HEAD + b'some')\nreport('begun')\nwait_at('go')\nos.kill(os.getpid(), 9)",
        )
        .start();
    let begun = server.setup().event_fifo("begun");
    let mut gate = server.setup().gate("go");
    let first = ran(&server.get("/rte/a.test")).1;
    assert_eq!(server.get("/rte/exit.test").status, 502);
    server.log_line("exit code 3");
    let second = ran(&server.get("/rte/a.test")).1;
    assert_ne!(second, first);
    let mut client = server.connect();
    client.get("/rte/crash.test");
    begun.line();
    let head = client.head();
    assert_eq!(head.status, 200);
    gate.open();
    assert_eq!(client.body(head.framing("GET")).1, Ending::Truncated);
    assert_ne!(ran(&server.get("/rte/a.test")).1, second);
}

#[test]
fn an_endless_loop_affects_one_request() {
    let server = setup("max = 1, reply_timeout = \"3s\"")
        .file("rte/loop.test", "while True: pass")
        .start();
    let first = ran(&server.get("/rte/a.test")).1;
    assert_eq!(server.get("/rte/loop.test").status, 504);
    assert_ne!(ran(&server.get("/rte/a.test")).1, first);
}

#[test]
fn a_script_that_always_ends_its_engine_does_not_delay_the_others() {
    let server = setup("max = 1").file("rte/exit.test", "os._exit(3)").start();
    for _ in 0..8 {
        assert_eq!(server.get("/rte/exit.test").status, 502);
        assert_eq!(server.get("/rte/exit.test").status, 502);
        ran(&server.get("/rte/a.test"));
    }
    for _ in 0..6 {
        assert_eq!(server.get("/rte/exit.test").status, 502);
    }
    ran(&server.get("/rte/a.test"));
}

/// Reads its body, and reports how much of it came.
const READS: &str = r#"
length = int(variables["CONTENT_LENGTH"])
report("begun")
got = len(body(length))
report("got", "%d of %d" % (got, length))
put(HEAD + b"%d %d" % (os.getpid(), got))
"#;

#[test]
fn an_engine_of_this_server_learns_that_a_client_has_left_within_its_body_and_stays() {
    let setup = sluice_testing::Setup::new()
        .workers(1)
        .server("sdk = \"htdocs/sdk\"")
        .file("rte/reads.py", READS)
        .file("rte/a.py", super::HELLO)
        .script_route(
            "/rte/*",
            "directory = \"htdocs/rte\", mode = \"rte\", engine = \"python\", max = 1",
        );
    super::write_sdk(&setup);
    let server = setup.start();
    let (begun, got) = (server.setup().event_fifo("begun"), server.setup().event_fifo("got"));
    let first = ran(&server.get("/rte/a.py")).1;
    for sent in [0, 10, 70_000] {
        let mut client = server.connect();
        client.send("POST /rte/reads.py HTTP/1.1\r\nHost: test\r\nContent-Length: 200000\r\n\r\n");
        begun.line();
        client.send(vec![b'x'; sent]);
        drop(client);
        assert_eq!(got.line(), format!("{sent} of 200000"));
        assert_eq!(
            ran(&server.get("/rte/a.py")).1,
            first,
            "the same process:\n{}",
            server.log()
        );
        let response = server.post("/rte/reads.py", vec![b'y'; 100_000]);
        begun.line();
        assert_eq!(got.line(), "100000 of 100000");
        assert_eq!(response.text(), format!("{first} 100000"));
    }
}

/// Waits at a gate of the test before it reads.
const WAITS: &str = r#"
report("begun")
open(os.environ["TEST_DIR"] + "/gate").readline()
length = int(variables["CONTENT_LENGTH"])
report("got", "%d of %d" % (len(body(length)), length))
put(HEAD + b"done")
"#;

#[test]
fn a_body_that_has_arrived_reaches_an_engine_also_after_its_client_has_left() {
    let server = setup("max = 1, client_grace = \"1m\"").file("rte/waits", WAITS).start();
    let (begun, got) = (server.setup().event_fifo("begun"), server.setup().event_fifo("got"));
    let mut gate = server.setup().gate("gate");
    let first = ran(&server.get("/rte/a.test")).1;
    // More than the pipe holds, and less than waits beside it.
    for (exchanges, bytes) in [(2, 60_000), (4, 90_000)] {
        let mut client = server.connect();
        client.send(format!(
            "POST /rte/waits HTTP/1.1\r\nHost: test\r\nContent-Length: {bytes}\r\n\r\n"
        ));
        begun.line();
        client.send(vec![b'x'; bytes]);
        drop(client);
        server.access_lines(exchanges);
        gate.open();
        assert_eq!(got.line(), format!("{bytes} of {bytes}"));
        assert_eq!(ran(&server.get("/rte/a.test")).1, first, "{}", server.log());
    }
}

#[test]
fn another_engine_whose_client_leaves_within_its_body_never_takes_a_part_for_all_of_it() {
    let server = setup("max = 1, client_grace = \"200ms\"")
        .file("rte/reads", READS)
        .start();
    let (begun, got) = (server.setup().event_fifo("begun"), server.setup().event_fifo("got"));
    let first = ran(&server.get("/rte/a.test")).1;
    let mut client = server.connect();
    client.send("POST /rte/reads HTTP/1.1\r\nHost: test\r\nContent-Length: 200000\r\n\r\nsome");
    begun.line();
    drop(client);
    assert_ne!(ran(&server.get("/rte/a.test")).1, first, "another process");
    assert!(got.is_silent());
}

#[test]
fn an_engine_that_does_not_start_says_why_and_is_delayed() {
    let server = setup("max = 1")
        .script_route(
            "/broken/*",
            "directory = \"htdocs/rte\", mode = \"rte\", engine = { program = \"htdocs/cgi-bin/broken\" }",
        )
        .script("broken", "echo 'unknown option --app' >&2; exit 64")
        .start();
    for _ in 0..4 {
        assert_eq!(server.get("/broken/a.test").status, 502);
    }
    server.log_line("exit code 64; its last error line: \"unknown option --app\"");
    assert_eq!(server.get("/broken/a.test").status, 503);
}

#[test]
fn error_output_is_logged_with_the_exchange_that_it_belongs_to() {
    const SCRIPT: &str = r#"
def respond(variables):
    put(HEAD + b"x")
    os.write(2, b"written by " + variables["UNIQUE_ID"].encode() + b"\n")
"#;
    let server = setup("max = 1")
        .workers(1)
        .file("rte/one", format!("{SCRIPT}\nrespond(variables)\n"))
        .file("rte/two", format!("{SCRIPT}\nrespond(variables)\n"))
        .start();
    let mut client = server.connect();
    for _ in 0..40 {
        for path in ["/rte/one", "/rte/two"] {
            assert_eq!(client.get(path).response().status, 200);
        }
    }
    for line in server.log_lines(80, "written by ") {
        let id = line.split("written by ").nth(1).and_then(|rest| rest.split(' ').next());
        let id = id.unwrap_or_else(|| panic!("{line}"));
        assert!(line.ends_with(&format!("id={id}")), "{line}");
    }
}

#[test]
fn a_script_that_writes_much_to_standard_error_does_not_silence_the_next_one() {
    let server = setup("max = 1")
        .workers(1)
        .file("rte/noisy", "put(HEAD + b'x')\nos.write(2, b'noise\\n' * 250)\n")
        .file("rte/quiet", "put(HEAD + b'x')\nos.write(2, b'the cause\\n')\n")
        .start();
    let mut client = server.connect();
    assert_eq!(client.get("/rte/noisy").response().status, 200);
    assert_eq!(client.get("/rte/quiet").response().status, 200);
    let line = server.log_line("the cause");
    assert!(line.contains("rte/quiet"), "{line}");
    let line = server.log_line("150 more lines like it, not logged");
    assert!(line.contains("rte/noisy"), "{line}");
}

#[test]
fn an_error_line_without_its_end_is_no_part_of_the_next_exchange() {
    let server = setup("max = 1")
        .workers(1)
        .site("error_detail = true")
        .file("rte/begins", "put(HEAD + b'x')\nos.write(2, b'secret of one')\n")
        .file("rte/fails", format!("{FAILS}\nrespond(variables)\n"))
        .start();
    for _ in 0..5 {
        let mut client = server.connect();
        assert_eq!(client.get("/rte/begins").response().status, 200);
        let page = client.get("/rte/fails?nothing").response();
        assert_eq!(page.status, 502);
        assert!(page.text().contains("the last line"), "{}", page.text());
        assert!(!page.text().contains("secret"), "{}", page.text());
    }
    for line in server.log_lines(5, "secret of one") {
        assert!(line.contains("rte/begins") && !line.contains("Traceback"), "{line}");
    }
}
