//! Aborted bodies and bodies of the wrong length: no client may take one for complete.

use sluice_testing::{Client, Ending, Response, Server, Setup, spawn, warnings_and_errors};

/// Writes part of a body and then does what its name says: `<framing>-<way>`. Each has its own file, because a script
/// whose processes die repeatedly is not started for a while.
const BREAKER: &str = r#"name=${0##*/}
framing=${name%%-*}
way=${name#*-}
if [ "${CGIPLUSEOF+kept}" ]; then while read -r line <&3 && [ "$line" ]; do :; done; fi
printf 'Content-Type: text/plain\n'
if [ "$framing" = counted ]; then echo 'Content-Length: 1000'; fi
printf '\npartial'
case $way in late-*) read -r line < "$TEST_DIR/go";; esac
echo last words >&2
escape=${CGIPLUSESC:-$WWW_GATEWAY_ESC} close=${CGIPLUSEOT:-$WWW_GATEWAY_EOT} end=${CGIPLUSEOF:-$WWW_GATEWAY_EOF}
case ${way#late-} in
  killed) kill -KILL $$;;
  crashed) kill -SEGV $$;;
  failed) exit 3;;
  callout) printf '%s!NOOP:\n' "$escape";;
  sentinel) printf %s "${end%?}";;
  forged) echo '$Z-0123456789abcdef01234567-';;
  deaf) asks=$(printf 'NOOP:\n%.0s' $(seq 1000)); while :; do printf '%s%s%s' "$escape" "$asks" "$close"; done;;
  ends) printf %s "$end";;
esac"#;

/// How the client finds the end of the body.
const FRAMINGS: [(&str, &str); 3] = [("counted", "HTTP/1.1"), ("chunked", "HTTP/1.1"), ("closed", "HTTP/1.0")];

const INSIDE: &str = "inside a callout";
const DEAF: &str = "CGIPLUSIN";

/// The ways in which a script can abort its reply, and what the log says about each.
fn ways(mode: &str, framing: (&str, &str)) -> Vec<(&'static str, &'static str)> {
    let mut ways = vec![
        ("killed", "signal 9 (SIGKILL)"),
        ("crashed", "signal 11 (SIGSEGV)"),
        ("callout", INSIDE),
        ("deaf", DEAF),
    ];
    // A CGI reply ends when its process exits.
    if mode == "cgiplus" || framing.0 == "counted" {
        ways.extend([
            ("failed", "exit code 3"),
            ("sentinel", "exit code 0"),
            ("forged", "exit code 0"),
        ]);
    }
    ways
}

/// A server with a breaker for each framing and way; `prefix` comes before the way.
fn breaking(mode: &str, prefix: &str) -> Server {
    let setup = Setup::new().cgiplus("max = 1");
    let names = FRAMINGS
        .into_iter()
        .flat_map(|framing| ways(mode, framing).into_iter().map(move |(way, _)| (framing.0, way)));
    names
        .fold(setup, |setup, (framing, way)| {
            setup.script(&format!("{framing}-{prefix}{way}"), BREAKER)
        })
        .start()
}

#[track_caller]
fn ask(server: &Server, mode: &str, framing: (&str, &str), way: &str) -> Client {
    let mut client = server.connect();
    let (framing, version) = framing;
    client.send(format!(
        "GET /{mode}-bin/{framing}-{way} {version}\r\nHost: test\r\n\r\n"
    ));
    client
}

#[test]
fn aborted_body_is_never_complete() {
    for mode in ["cgi", "cgiplus"] {
        let server = breaking(mode, "late-");
        let mut gate = server.setup().gate("go");
        let mut expected_log = Vec::new();
        for framing in FRAMINGS {
            for (way, words) in ways(mode, framing) {
                let mut client = ask(&server, mode, framing, &format!("late-{way}"));
                let head = client.head();
                assert_eq!(head.status, 200);
                gate.open();
                let (body, ending) = client.body(head.framing("GET"));
                let body = String::from_utf8_lossy(&body);
                assert_eq!(ending, Ending::Truncated, "{mode} {framing:?} {way}: {body:?}");
                assert!(body.starts_with("partial"), "{mode} {framing:?} {way}: {body:?}");
                expected_log.push((
                    framing.0,
                    words,
                    server
                        .log_lines(expected_log.len() + 1, "response aborted")
                        .pop()
                        .unwrap(),
                ));
            }
        }
        server.assert_idle();
        let lines = server.access_lines(expected_log.len());
        assert!(lines.iter().all(|line| line.contains(" 200 ")), "{lines:#?}");
        let ended = server.stop();
        assert_eq!(
            warnings_and_errors(&ended.errors).len(),
            expected_log.len(),
            "one log line for each:\n{}",
            ended.errors
        );
        for (framing, words, line) in expected_log {
            assert!(
                line.contains(&format!("cgi-bin/{framing}-late-")) && line.contains(", pid "),
                "{mode}: {line}"
            );
            // Where the process is stopped for what it wrote, its last words may not have arrived yet.
            let has_last_words = line.contains("\"last words\"") || words == INSIDE || words == DEAF;
            assert!(line.contains(words) && has_last_words, "{mode}: no {words} in {line}");
        }
    }
}

#[test]
fn immediately_aborted_body_is_never_complete() {
    for mode in ["cgi", "cgiplus"] {
        let server = breaking(mode, "");
        let mut count = 0;
        for framing in FRAMINGS {
            for (way, _) in ways(mode, framing) {
                let mut client = ask(&server, mode, framing, way);
                // A reset may overtake the bytes sent before it, so there may be no head.
                let (bytes, ending) = client.rest();
                let text = String::from_utf8_lossy(&bytes);
                assert!(
                    ending == Ending::Truncated || is_visibly_short(&text),
                    "{mode} {framing:?} {way}: {text}"
                );
                count += 1;
            }
        }
        server.assert_idle();
        assert_eq!(server.access_lines(count).len(), count);
        assert_eq!(warnings_and_errors(&server.stop().errors).len(), count);
    }
}

/// Whether a client that has read this up to an orderly end can tell that something is missing.
fn is_visibly_short(text: &str) -> bool {
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return true;
    };
    let length = head
        .split("content-length: ")
        .nth(1)
        .and_then(|rest| rest.lines().next()?.parse().ok());
    match length {
        _ if head.contains(" 502 ") => true,
        Some(length) => body.len() < length,
        None => head.contains("transfer-encoding: chunked") && !body.ends_with("\r\n0\r\n\r\n"),
    }
}

#[test]
fn process_killed_from_outside_truncates_its_reply() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .script("chunked-late-ends", BREAKER)
        .start();
    let mut gate = server.setup().gate("go");
    for (turn, mode) in ["cgi", "cgiplus"].into_iter().enumerate() {
        let mut client = ask(&server, mode, FRAMINGS[1], "late-ends");
        let head = client.head();
        let pid = server.processes()[0].pid.to_string();
        let mut kill = spawn(std::process::Command::new("kill").args(["-TERM", &pid])).unwrap();
        assert!(kill.wait().unwrap().success());
        assert_eq!(client.body(head.framing("GET")).1, Ending::Truncated);
        let lines = server.log_lines(turn + 1, "response aborted");
        assert!(
            lines[turn].contains(&format!("pid {pid}, ended by signal 15 (SIGTERM)")),
            "{}",
            lines[turn]
        );
        drop(client);
        server.assert_idle();
    }
    let mut client = ask(&server, "cgiplus", FRAMINGS[1], "late-ends");
    gate.open();
    assert_eq!(client.response().text(), "partial");
}

/// Announces 10 bytes and writes as many as the query says.
const MISCOUNTER: &str = r#"
def respond(variables):
    put(b"Content-Type: text/plain\nContent-Length: 10\n\n" + (b"0123456789" * 100000)[: int(variables["QUERY_STRING"])])
if "CGIPLUSEOF" in os.environ:
    while variables := accept():
        respond(variables)
        finish()
else:
    respond(os.environ)
"#;

#[test]
fn fewer_bytes_than_announced_are_a_truncated_body() {
    let server = Setup::new().python("miscounter", MISCOUNTER).start();
    let mut client = server.connect();
    assert_eq!(client.get("/cgi-bin/miscounter?4").response().ending, Ending::Truncated);
    let line = server.log_line("response aborted");
    assert!(line.contains("6 bytes short of its Content-Length") && line.contains("miscounter, pid "));
    server.assert_idle();
    assert_eq!(warnings_and_errors(&server.stop().errors).len(), 1);
}

#[test]
fn sentinel_is_not_counted_as_missing_body_bytes() {
    let server = Setup::new()
        .cgiplus("max = 1, output_timeout = \"300ms\", kill_grace = \"100ms\"")
        .python("miscounter", &MISCOUNTER.replace("10", "100"))
        .start();
    for (turn, count) in [4, 80].into_iter().enumerate() {
        let response = server.get(&format!("/cgiplus-bin/miscounter?{count}"));
        let text = String::from_utf8_lossy(&response.body);
        assert!(
            response.ending == Ending::Truncated && !text.contains("$Z-"),
            "{count} of 100 bytes: {text}"
        );
        server.log_lines(turn + 1, "response aborted");
        server.assert_idle();
    }
}

#[test]
fn more_bytes_than_announced_are_not_sent() {
    let server = Setup::new().cgiplus("max = 1").python("miscounter", MISCOUNTER).start();
    let mut client = server.connect();
    for mode in ["cgi", "cgiplus"] {
        for count in [11, 500_000, 10] {
            let response: Response = client.get(&format!("/{mode}-bin/miscounter?{count}")).response();
            assert_eq!(
                (response.status, response.text()),
                (200, "0123456789"),
                "{mode} {count}"
            );
        }
    }
    let lines = server.log_lines(4, "over its Content-Length");
    assert!(lines.iter().all(|line| line.contains("miscounter, pid ")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains(" 1 bytes over")), "{lines:#?}");
    server.wait_for_processes(1);
}

#[test]
fn counted_reply_without_the_sentinel_ends_its_process() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "forgets",
            "accept()\nput(b'Content-Type: text/plain\\nContent-Length: 4\\n\\ndone')",
        )
        .start();
    for _ in 0..3 {
        assert_eq!(server.get("/cgiplus-bin/forgets").text(), "done");
    }
    let line = server.log_lines(3, "CGIPLUSEOF").remove(0);
    assert!(line.contains("cgi-bin/forgets, pid "), "{line}");
    server.assert_idle();
}

#[test]
fn partial_sentinel_at_the_end_of_a_cgi_reply_is_text() {
    let server = Setup::new()
        .python("half", "put(HEAD + b'text ' + ESC[:-1])")
        .python("ends", "put(HEAD + b'text $Z' + ESC[2:] + b' more')")
        .start();
    let response = server.get("/cgi-bin/half");
    let text = response.text();
    assert!(text.starts_with("text $E-") && text.len() == 5 + 27, "{text}");
    let response = server.get("/cgi-bin/ends");
    let text = response.text();
    assert!(
        text.starts_with("text $Z-") && text.ends_with("- more"),
        "the end sentinel has no meaning in CGI: {text}"
    );
}
