//! A reply belongs to its request: scripts that write when nothing is awaited from them.
//!
//! Whatever they write, no client gets the page of another one. Here: output before the request was read, and many
//! clients at once. How a process that wrote while it was idle is replaced is in `processes`.

use sluice_testing::{Ending, Response, Server, Setup};

/// A script that prints its query and then, as PATH_INFO says, writes more: at once, or 50 ms later and then waits, so
/// that the server sees the output before the script reads its next request.
const MISBEHAVING: &str = r#"
import subprocess, time
def page(text):
    return HEAD + b"page of " + text + b"\n"
while variables := accept():
    who = variables["QUERY_STRING"].encode()
    way = variables.get("PATH_INFO", "")
    if way == "/listed":
        # The client knew the sentinel, and the script printed the client's text line by line.
        for line in (page(who) + EOF, HEAD, b"forged\n", EOF, b"the rest\n"):
            put(line)
            time.sleep(0.01)
        finish()
    elif way == "/child":
        text = page(who) + EOF + b"\n"
        put(page(who))
        finish()
        subprocess.run(["sh", "-c", 'sleep 0.05; printf "%s" "$1"', "sh", text], stdin=subprocess.DEVNULL)
    else:
        put(page(who))
        finish()
        if way == "/twice":
            finish()
        elif way == "/late":
            time.sleep(0.05)
            put(page(who) + EOF + b"\n")
        elif way == "/often":
            for _ in range(5):
                put(page(who))
                finish()
    if way:
        # It reads no other request: the server must find out by what was written (docs/internals/scripts.md, "What remains").
        signal.pause()
"#;

/// Keys of a route: requests come by CGIPLUSIN, or by the socket, and replies by a socket or a pipe.
const CHANNELS: [&str; 3] = [
    "",
    ", environment = { BY_SOCKET = \"1\" }",
    ", environment = { BY_SOCKET = \"1\" }, mailbox = \"pipe\"",
];

const WAYS: [&str; 9] = ["", "/twice", "", "/late", "", "/listed", "/often", "", "/child"];

#[test]
fn every_client_gets_its_own_page_while_scripts_misbehave() {
    CHANNELS.into_iter().for_each(assert_own_pages);
}

fn assert_own_pages(channel: &str) {
    // 300 clients, each with a connection of its own, 20 at a time.
    const AT_ONCE: usize = 20;
    const IN_TURN: usize = 15;
    let server = Setup::new()
        .cgiplus(&format!(
            "max = 6, queue = 1000, queue_timeout = \"5m\", kill_grace = \"100ms\"{channel}"
        ))
        .python("pages", MISBEHAVING)
        .start();
    let refused: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..AT_ONCE)
            .map(|client| {
                let server = &server;
                scope.spawn(move || {
                    (0..IN_TURN)
                        .filter(|turn| !gets_own_page(server, client, *turn))
                        .count()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    // A request that was read before the server could tell is refused: it may have had effects.
    assert!(
        refused < AT_ONCE * IN_TURN / 20,
        "{refused} innocent requests were refused\n{}",
        server.log()
    );
    server.log_line("stopped, because it wrote");
}

/// Whether a client gets its page, or has itself asked for misbehaviour: the page of another one fails the test, a refusal does
/// not.
#[track_caller]
fn gets_own_page(server: &Server, client: usize, turn: usize) -> bool {
    let way = WAYS[(client + turn) % WAYS.len()];
    let response = server.get(&format!("/cgiplus-bin/pages{way}?{client}.{turn}"));
    if matches!(response.status, 502 | 503) {
        return !way.is_empty();
    }
    let expected = format!("page of {client}.{turn}\n");
    if response.ending == Ending::Truncated {
        // Its head was sent before two ends arrived at once.
        assert!(
            expected.as_bytes().starts_with(&response.body),
            "{way}: {:?}",
            response.body
        );
        return !way.is_empty();
    }
    assert_eq!(response.status, 200, "{way}: {}", response.text());
    assert_eq!(response.text(), expected, "{way}");
    true
}

/// A script that ends its reply, waits for the next request, and writes a page of its own before it reads it.
const OVERTAKING: &str = r#"
import select
while variables := accept():
    put(HEAD + b"%d %d" % (os.getpid(), len(body(int(variables.get("CONTENT_LENGTH", 0))))))
    finish()
    select.select([channel()], [], [])
    put(HEAD + b"of another request")
    finish()
    wait_at("never")
"#;

/// Sends two requests to such a script; the second must be answered by another process.
#[track_caller]
fn assert_other_process_replies(request: &str) {
    for channel in CHANNELS {
        assert_other_process_replies_by(channel, request);
    }
}

#[track_caller]
fn assert_other_process_replies_by(channel: &str, request: &str) {
    let server = Setup::new()
        .limits("head_size = \"512KiB\"")
        .cgiplus(&format!("max = 1, kill_grace = \"100ms\"{channel}"))
        .python("pages", OVERTAKING)
        .start();
    let _never = server.setup().gate("never");
    let first = server.send(request);
    assert_eq!(first.status, 200, "{}", server.log());
    let second = server.send(request);
    assert_eq!(
        (second.status, second.ending),
        (200, Ending::Complete),
        "{}",
        server.log()
    );
    let pid = |response: &Response| response.text().split_once(' ').unwrap().0.to_owned();
    assert_ne!(pid(&second), pid(&first), "another process replies");
    assert_eq!(
        second.text().split_once(' ').unwrap().1,
        first.text().split_once(' ').unwrap().1
    );
    let line = server.log_line("before it had read its request");
    assert!(
        line.contains(&format!("pid {}", pid(&first))) && line.contains("/pages"),
        "{line}"
    );
    assert_eq!(server.log_lines(1, "stopped, because it wrote").len(), 1);
}

#[test]
fn output_between_two_requests_is_no_reply_whatever_the_mailbox_is() {
    for mailbox in ["stream", "pipe", "record"] {
        let keys = format!("max = 1, kill_grace = \"100ms\", mailbox = \"{mailbox}\"");
        let text = "import subprocess\nwhile variables := accept():\n    who = variables['QUERY_STRING'].encode()\n    put(HEAD + b'page of ' + who + b'\\n')\n    finish()\n    \
                    if who == b'late':\n        put(HEAD + b'page of late\\n')\n        finish()\n        report('written')\n";
        let server = Setup::new().cgiplus(&keys).python("pages", text).start();
        let written = server.setup().event_fifo("written");
        assert_eq!(
            server.get("/cgiplus-bin/pages?late").text(),
            "page of late\n",
            "{mailbox}"
        );
        written.line();
        assert_eq!(
            server.get("/cgiplus-bin/pages?next").text(),
            "page of next\n",
            "{mailbox}"
        );
    }
}

#[test]
fn a_newline_that_follows_the_sentinel_late_is_no_output() {
    for mailbox in ["stream", "pipe"] {
        let keys = format!("max = 1, mailbox = \"{mailbox}\"");
        let text = "while accept():\n    put(HEAD + b'%d' % os.getpid() + EOF)\n    wait_at('gate')\n    put(b'\\n')\n    report('written')\n";
        let server = Setup::new().cgiplus(&keys).python("pages", text).start();
        let (written, mut gate) = (server.setup().event_fifo("written"), server.setup().gate("gate"));
        let ask = || server.get("/cgiplus-bin/pages").text().to_owned();
        let first = ask();
        gate.open();
        written.line();
        assert_eq!(ask(), first, "{mailbox}: {}", server.log());
        gate.open();
        written.line();
    }
}

#[test]
fn output_before_the_request_is_read_is_no_reply() {
    assert_other_process_replies("GET /cgiplus-bin/pages HTTP/1.1\r\nHost: test\r\n\r\n");
    // The other process gets the body, too.
    assert_other_process_replies("POST /cgiplus-bin/pages HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhello");
}

#[test]
fn request_longer_than_the_pipe_is_given_to_another_process() {
    let query = "x".repeat(60_000);
    assert_other_process_replies(&format!(
        "GET /cgiplus-bin/pages?{query} HTTP/1.1\r\nHost: test\r\n\r\n"
    ));
}

#[test]
fn script_that_does_not_read_its_request_is_refused() {
    let server = Setup::new()
        .script(
            "cgi-only",
            "printf 'Content-Type: text/plain\nContent-Length: 5\n\nhello'",
        )
        .start();
    assert_eq!(server.get("/cgi-bin/cgi-only").text(), "hello");
    assert_eq!(server.get("/cgiplus-bin/cgi-only").status, 502);
    let line = server.log_line("before it had read the request");
    assert!(line.contains("request /cgi-bin/cgi-only instead"), "{line}");
}

#[test]
fn two_replies_at_once_are_no_reply() {
    // The second reply of a process comes with another one before it: which one is it?
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "pages",
            r#"
count = 0
while accept():
    count += 1
    text = HEAD + b"page %d" % count + EOF + b"\n"
    put(text if count == 1 else HEAD + b"of another request" + EOF + b"\n" + text)
"#,
        )
        .start();
    assert_eq!(server.get("/cgiplus-bin/pages").text(), "page 1");
    assert_eq!(server.get("/cgiplus-bin/pages").status, 502);
    server.log_line("ended its reply twice");
    assert_eq!(server.get("/cgiplus-bin/pages").text(), "page 1", "a new process");
}
