//! Scripts that run in the wrong mode: a CGI script as CGIplus, and a CGIplus script as CGI; and CGIplus scripts that do not end
//! their replies.
//!
//! They are found at once, whether they write, wait or end; nothing here waits for a time-out, which is longer than the deadline of
//! the tests.

use super::request_id;
use sluice_testing::{Ending, Server, Setup, python};

/// Asks for a script in the wrong mode: the page and the log must say what it did, and what to do.
#[track_caller]
fn assert_named(server: &Server, path: &str, words: &[&str]) {
    let response = server.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let page = response.text();
    assert_eq!(response.status, 502, "{path}: {page}\n{}", server.log());
    let line = server.log_line(&request_id(&response));
    for word in words {
        assert!(page.contains(word), "{path}: no {word} in {page}");
        assert!(line.contains(word), "{path}: no {word} in {line}");
    }
}

fn setup() -> Setup {
    Setup::new().site("error_detail = \"local\"")
}

#[test]
fn cgi_script_run_as_cgiplus_is_named_at_once() {
    let server = setup()
        .script("writes", "printf 'Content-Type: text/plain\\n\\npage'")
        .script("ends", "exit 0")
        .script("fails", "echo \"$REQUEST_METHOD\" | grep -q GET || exit 3")
        .script("reads", "read -r line; printf 'Content-Type: text/plain\\n\\npage'")
        .python("slurps", "sys.stdin.read()\nput(HEAD + b'page')")
        .start();
    let instead = |name: &str| format!("request /cgi-bin/{name} instead");
    for (name, words) in [
        (
            "writes",
            "wrote to its mailbox before it had read the request (CGIPLUSIN)",
        ),
        ("ends", "ended before it had read the request (CGIPLUSIN)"),
        ("fails", "exit code 3: ended before it had read the request (CGIPLUSIN)"),
        ("reads", "waits for its standard input"),
        ("slurps", "waits for its standard input"),
    ] {
        assert_named(&server, &format!("/cgiplus-bin/{name}"), &[words, &instead(name)]);
    }
    assert_eq!(server.get("/cgi-bin/writes").text(), "page");
    server.assert_idle();
}

#[test]
fn a_script_that_dies_at_its_start_and_says_why_gets_no_advice_about_its_mode() {
    let server = setup()
        .script("dies", "echo 'cannot open sluice.sh' >&2; exit 2")
        .start();
    let response = server.send("GET /cgiplus-bin/dies HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(response.status, 502);
    let line = server.log_line("exit code 2");
    for words in ["GET /cgiplus-bin/dies: ", "cannot open sluice.sh"] {
        assert!(line.contains(words), "{line}");
    }
    assert!(response.text().contains("exit code 2"), "{}", response.text());
    assert!(!server.log().contains("/cgi-bin/dies instead"), "{}", server.log());
    server.assert_idle();
}

#[test]
fn cgi_script_that_reads_a_form_is_named_when_it_runs_as_cgiplus() {
    let server = setup().python("form", "sys.stdin.read()\nput(HEAD + b'page')").start();
    let response = server.post("/cgiplus-bin/form", "name=value");
    assert_eq!(response.status, 502);
    let line = server.log_line("status=502");
    assert!(
        line.contains("waits for its standard input") && line.contains("request /cgi-bin/form instead"),
        "{line}"
    );
    server.assert_idle();
}

#[test]
fn cgiplus_script_run_as_cgi_is_named_at_once() {
    let server = setup()
        .python("kept", "while accept():\n    put(HEAD + b'page')\n    finish()")
        .script("shell", "while read -r line <&3; do :; done")
        .script("opens", "exec < \"$CGIPLUSIN\"; read -r line")
        .script_route("/one", "file = \"htdocs/cgi-bin/kept\"")
        .start();
    for name in ["kept", "shell", "opens"] {
        let instead = format!("request /cgiplus-bin/{name} instead");
        assert_named(
            &server,
            &format!("/cgi-bin/{name}"),
            &["waits for a request on CGIPLUSIN", &instead],
        );
    }
    let key = "write mode = \"cgiplus\" for its route (sluice.toml:";
    assert_named(&server, "/one", &["waits for a request on CGIPLUSIN", key]);
    assert_eq!(server.get("/cgiplus-bin/kept").text(), "page");
    server.wait_for_processes(1);
}

#[test]
fn cgiplus_script_that_does_not_end_its_reply_is_found_at_once() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "buffers",
            "while accept():\n    print('Content-Type: text/plain\\n\\npage')",
        )
        .python("forgets", "while accept():\n    put(HEAD + b'page')")
        .python("counts", "while accept():\n    put(b'Content-Length: 4\\n\\npage')")
        .python(
            "slurps",
            "while accept():\n    sys.stdin.read()\n    put(HEAD + b'page')\n    finish()",
        )
        .python(
            "threads",
            r#"
import threading
def work():
    wait_at("go")
    put(HEAD + b"page")
    finish()
while accept():
    threading.Thread(target=work).start()
"#,
        )
        .start();
    let words = "waits for its next request (CGIPLUSIN), and has not ended its reply";
    assert_eq!(server.get("/cgiplus-bin/buffers").status, 502);
    server.log_lines(1, words);
    let response = server.get("/cgiplus-bin/forgets");
    assert_eq!((response.status, response.ending), (200, Ending::Truncated));
    server.log_lines(2, words);
    // The client has its reply; only the process cannot be kept.
    for count in [3, 4] {
        assert_eq!(server.get("/cgiplus-bin/counts").text(), "page");
        server.log_lines(count, words);
    }
    let response = server.post("/cgiplus-bin/slurps", "name=value");
    assert_eq!(response.status, 502);
    server.log_line("waits for more input than its CONTENT_LENGTH");
    // A thread may reply while the main thread waits for the next request.
    let mut gate = server.setup().gate("go");
    let mut client = server.connect();
    client.get("/cgiplus-bin/threads");
    assert!(client.is_silent_for(std::time::Duration::from_millis(700)));
    gate.open();
    assert_eq!(client.response().text(), "page");
}

#[test]
fn reply_of_a_detached_process_is_awaited() {
    let setup = Setup::new();
    let mut gate = setup.gate("go");
    let server = setup
        .cgiplus("max = 1")
        .python(
            "detaches",
            r#"
while request := accept():
    child = os.fork()
    if child == 0:
        if request["QUERY_STRING"] == "daemon":
            os.setsid()
        if os.fork() > 0:
            os._exit(0)
        wait_at("go")
        put(HEAD + b"page")
        finish()
        os._exit(0)
    os.waitpid(child, 0)
"#,
        )
        .start();
    for path in ["/cgiplus-bin/detaches?session", "/cgiplus-bin/detaches?daemon"] {
        let mut client = server.connect();
        client.get(path);
        assert!(client.is_silent_for(std::time::Duration::from_millis(700)), "{path}");
        gate.open();
        assert_eq!(client.response().text(), "page", "{path}");
    }
}

#[test]
fn serve_names_the_other_path() {
    let server = Setup::new()
        .script("plain", "printf 'Content-Type: text/plain\\n\\npage'")
        .start_with(&["serve", "htdocs", "--listen", "127.0.0.1:0", "--host", "test"]);
    assert_named(&server, "/cgiplus-bin/plain", &["request /cgi-bin/plain instead"]);
}

#[test]
fn script_that_waits_for_the_answer_to_a_callout_is_not_in_the_wrong_mode() {
    let server = setup()
        .file_with_mode(
            "cgi-bin/asks",
            python("select.select([], [], [], 0.5)\nask(b'NOOP:')\nput(ESC + b'!NOOP:' + EOT)\nselect.select([3], [], [], 0.5)\nput(HEAD + b'page')")
                .replace("import *", "import *\nimport select"),
            0o755,
        )
        .python("unused", "")
        .start();
    assert_eq!(server.get("/cgi-bin/asks").text(), "page");
}
