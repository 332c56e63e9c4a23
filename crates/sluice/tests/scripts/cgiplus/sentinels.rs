//! Sentinels are seen by no client, and no text of a client switches their detection on or off.

use sluice_testing::{Ending, Response, Server, Setup};

/// The digits that clients and logs are shown in place of a sentinel's own.
const ZEROS: &str = "000000000000000000000000";

/// A script that prints the client's text directly before its end or a callout.
const QUOTING: &str = r#"
import urllib.parse
count = 0
while variables := accept():
    count += 1
    text = urllib.parse.unquote(variables["QUERY_STRING"]).encode()
    way = variables.get("PATH_INFO")
    if way == "/callout":
        put(HEAD + text + ESC + b"\nHTTP-STATUS:\n" + EOT + b"\n")
        put(cgiplusin.readline())
    elif way == "/wasd":
        put(HEAD + text + ESC)
        put(b"HTTP-STATUS:")
        answer = cgiplusin.readline()
        put(EOT + b"\n" + answer)
    elif way == "/unknown":
        put(HEAD + text + ESC + b"\nFLY-TO: the moon\n" + EOT + b"\n")
        put(cgiplusin.readline())
    else:
        put(HEAD + text)
    put(b"%d %d " % (os.getpid(), count) + text + EOF)
"#;

#[test]
fn text_of_a_client_does_not_switch_sentinels_off() {
    let server = Setup::new().cgiplus("max = 1").python("quotes", QUOTING).start();
    let mut expected = 0;
    for text in [
        "CGIPLUSEOF",
        "GATEWAY_EOF%3D",
        "CGIPLUSESC",
        "CGIPLUSEOT",
        "WWW_GATEWAY_ESC%3D%22",
        "$Z-",
        "$E-5",
    ] {
        for way in ["", "/callout", "/wasd", "/unknown"] {
            let response = server.get(&format!("/cgiplus-bin/quotes{way}?{text}"));
            assert_eq!(
                (response.status, response.ending),
                (200, Ending::Complete),
                "{way} {text}"
            );
            expected += 1;
            let words: Vec<_> = response.text().split(' ').collect();
            assert_eq!(
                words[words.len() - 2],
                expected.to_string(),
                "{way} {text}: {}",
                response.text()
            );
            match way {
                "/callout" | "/wasd" => assert!(response.text().contains("200 "), "{}", response.text()),
                "/unknown" => assert!(response.text().contains("400 unknown callout"), "{}", response.text()),
                _ => {}
            }
        }
    }
}

#[test]
fn text_of_a_client_does_not_switch_sentinels_off_in_the_c_library() {
    let server = Setup::new().cgiplus("max = 1").c_programs().start();
    for text in ["CGIPLUSEOF", "CGIPLUSESC", "CGIPLUSEOT", "GATEWAY_EOF"] {
        let response = server.get(&format!("/cgiplus-bin/quote?{text}"));
        assert_eq!(response.text(), format!("{{\"q\":\"{text}\"}}"));
        let response = server.get(&format!("/cgiplus-bin/cgipluscallout/{text}"));
        assert_eq!((response.status, response.ending), (200, Ending::Complete), "{text}");
        assert!(response.text().ends_with("</html>\n"), "{text}: {}", response.text());
        assert_no_digits(&response);
    }
    assert_no_digits(&server.get("/cgi-bin/printenv"));
    assert_no_digits(&server.get("/cgiplus-bin/printenv"));
    server.wait_for_processes(3);
}

/// Asserts that every sentinel in the body is masked.
#[track_caller]
fn assert_no_digits(response: &Response) {
    assert_eq!((response.status, response.ending), (200, Ending::Complete));
    for letters in ["$Z-", "$E-", "$D-"] {
        for (at, _) in response.text().match_indices(letters) {
            assert_eq!(&response.text()[at + 3..at + 27], ZEROS, "{}", response.text());
        }
    }
}

/// A script that shows its sentinels in every way, and works in both modes.
const SHOWING: &str = r#"
import urllib.parse
def show(way):
    text = b"\n".join(b"%s=%s" % pair for pair in os.environb.items())
    text += b"\n" + urllib.parse.quote(EOF + ESC + EOT).encode() + b" |" + EOF[2:] + b"| " + EOT + b"\n"
    if way == "/head":
        return put(b"Content-Type: text/plain\nX-Sentinel: %s\n\n" % urllib.parse.quote(EOF).encode())
    if way == "/counted":
        put(b"Content-Type: text/plain\nContent-Length: %d\n\n" % len(text))
    else:
        put(HEAD)
    if way == "/bytes":
        for at in range(len(text)):
            put(text[at : at + 1])
    else:
        put(text)
if "CGIPLUSEOF" in os.environ:
    while variables := accept():
        show(variables.get("PATH_INFO", ""))
        finish()
else:
    show(os.environ.get("PATH_INFO", ""))
"#;

#[test]
fn no_client_sees_a_sentinel() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .compress_scripts()
        .python("shows", SHOWING)
        .start();
    for mode in ["cgi", "cgiplus"] {
        for way in ["", "/counted", "/bytes", ""] {
            let response = server.get(&format!("/{mode}-bin/shows{way}"));
            assert_no_digits(&response);
            let text = response.text();
            assert!(text.contains(&format!("|-{ZEROS}-|")), "{mode} {way}: {text}");
            assert!(
                text.contains(&format!("%24Z-{ZEROS}-%24E-{ZEROS}-%24D-{ZEROS}-")),
                "{mode} {way}: {text}"
            );
        }
        let response = server.get(&format!("/{mode}-bin/shows/head"));
        assert_eq!(response.field("x-sentinel"), Some(format!("%24Z-{ZEROS}-").as_str()));
    }
    server.wait_for_processes(1);
}

#[test]
fn no_log_shows_a_sentinel() {
    let server = Setup::new()
        .environment("RUST_LOG", "debug")
        .python(
            "logs",
            r#"
ask(b"!NOTICED: noticed " + b"x".join((EOT[2:], EOF[2:])), b"!WATCH: watched " + EOF[2:])
print("printed", EOF.decode(), ESC.decode(), file=sys.stderr, flush=True)
put(HEAD)
"#,
        )
        .start();
    server.get("/cgi-bin/logs");
    for word in ["noticed", "watched", "printed"] {
        let line = server.log_line(word);
        assert!(line.contains(&format!("-{ZEROS}-")), "{line}");
    }
    let log: Server = server;
    assert!(!log.log().contains("$Z-") || log.log().contains(&format!("$Z-{ZEROS}-")));
}
