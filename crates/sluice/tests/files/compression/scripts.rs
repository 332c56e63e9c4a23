//! Compressed script output, where a route allows it: flushed line by line, in bulk, and truncated where the output is
//! truncated.

use super::{BROWSER, ask, decode, decoded, request, text};
use sluice_testing::{Authority, Ending, Setup, curl, warnings_and_errors};

const HTML: &str = "Content-Type: text/html";

/// A script that prints a head with these lines, and 1000 lines of text.
fn print(lines: &str) -> String {
    format!("printf '{lines}\\n\\n'; i=0; while [ $i -lt 1000 ]; do echo \"line $i of a text\"; i=$((i+1)); done")
}

#[test]
fn script_output_is_compressed_where_its_route_allows_it() {
    let setup = || Setup::new().script("text", &print(HTML));
    let server = setup().compress_scripts().start();
    for (accept, expected) in [
        ("gzip", Some("gzip")),
        ("br", Some("br")),
        ("zstd", Some("zstd")),
        (BROWSER, Some("br")),
        ("identity;q=0, *;q=0", None),
    ] {
        let response = ask(&server, "/cgi-bin/text", accept);
        assert_eq!(response.field("content-encoding"), expected, "{accept}");
        assert_eq!(response.field("vary"), Some("accept-encoding"), "{accept}");
        assert_eq!(decoded(&response), text(1000), "{accept}");
    }
    let server = setup().start();
    let response = ask(&server, "/cgi-bin/text", BROWSER);
    assert_eq!(
        (response.field("content-encoding"), response.field("vary")),
        (None, None)
    );
    assert_eq!(response.text(), text(1000));
}

#[test]
fn each_line_is_flushed_while_the_script_waits() {
    let setup = Setup::new().compress_scripts().script(
        "talk",
        "printf 'Content-Type: text/plain\\n\\none\\n'; read line < \"$TEST_DIR/gate\"; echo two; read line < \"$TEST_DIR/gate\"; echo three",
    );
    let mut gate = setup.gate("gate");
    let server = setup.start();
    for accept in ["gzip", "br", "zstd"] {
        let mut client = server.connect();
        client.send(request("/cgi-bin/talk", accept, ""));
        let head = client.head();
        assert_eq!(head.field("content-encoding"), Some(accept));
        assert_eq!(head.field("transfer-encoding"), Some("chunked"));
        let mut sent = Vec::new();
        for said in ["one\n", "one\ntwo\n", "one\ntwo\nthree\n"] {
            // The last chunk of each flush contains everything held back so far.
            while decode(Some(accept), &sent).0 != said {
                let chunk = client.chunk();
                assert!(!chunk.is_empty(), "{accept}: the end came before {said:?}");
                sent.extend(chunk);
            }
            if said != "one\ntwo\nthree\n" {
                assert!(
                    !decode(Some(accept), &sent).1,
                    "{accept}: an unfinished body is complete"
                );
                gate.open();
            }
        }
        loop {
            let chunk = client.chunk();
            if chunk.is_empty() {
                break;
            }
            sent.extend(chunk);
        }
        assert_eq!(
            decode(Some(accept), &sent),
            ("one\ntwo\nthree\n".to_owned(), true),
            "{accept}"
        );
    }
}

#[test]
fn compressed_reply_has_correct_validators_and_length() {
    let fields = "Content-Type: text/plain\\nETag: \"a\"\\nAccept-Ranges: bytes\\nVary: Cookie";
    let length = format!("\\nContent-Length: {}", text(1000).len());
    let server = Setup::new()
        .compress_scripts()
        .script("text", &print(&format!("{fields}{length}")))
        .script("same", "printf 'Status: 304\\nETag: \"a\"\\n\\n'")
        .start();
    let mut client = server.connect();
    let response = client.send(request("/cgi-bin/text", "gzip", "")).response();
    assert_eq!(decoded(&response), text(1000));
    assert_eq!(response.head.values("vary"), ["Cookie", "accept-encoding"]);
    assert_eq!(
        (response.field("etag"), response.field("accept-ranges")),
        (Some("W/\"a\""), None)
    );
    if let Some(length) = response.field("content-length") {
        assert_eq!(length, response.body.len().to_string());
    }
    let head = request("/cgi-bin/text", "gzip", "").replacen("GET", "HEAD", 1);
    let head = client.send(head).response_to("HEAD");
    assert_eq!(head.field("content-length"), None, "the length is unknown");
    for name in ["content-encoding", "content-type", "etag", "accept-ranges"] {
        assert_eq!(head.field(name), response.field(name), "{name}");
    }
    assert_eq!(head.head.values("vary"), response.head.values("vary"));
    let same = client.send(request("/cgi-bin/same", "gzip", "")).response();
    assert_eq!((same.status, same.field("etag")), (304, Some("W/\"a\"")));
    assert_eq!(
        (same.field("vary"), same.field("content-encoding")),
        (Some("accept-encoding"), None)
    );
    let plain = client.send(request("/cgi-bin/text", "identity", "")).response();
    assert_eq!(
        (plain.text(), plain.field("etag")),
        (text(1000).as_str(), Some("\"a\""))
    );
}

#[test]
fn encoded_or_excluded_replies_are_not_compressed() {
    let cases = [
        ("encoded", format!("{HTML}\\nContent-Encoding: gzip")),
        ("final", format!("{HTML}\\nCache-Control: no-transform")),
        ("picture", "Content-Type: image/png".to_owned()),
        (
            "part",
            format!("Status: 206\\n{HTML}\\nContent-Range: bytes 0-20/99999"),
        ),
        ("digest", format!("{HTML}\\nRepr-Digest: sha-256=:x:")),
        ("nph", format!("HTTP/1.1 200 OK\\n{HTML}")),
    ];
    let setup = cases
        .iter()
        .fold(Setup::new().compress_scripts(), |setup, (name, lines)| {
            setup.script(name, &print(lines))
        });
    let server = setup
        .script(
            "short",
            "printf 'Content-Type: text/html\\nContent-Length: 5\\n\\nhello'",
        )
        .start();
    for (name, lines) in cases {
        let response = ask(&server, &format!("/cgi-bin/{name}"), BROWSER);
        let own = lines.contains("Content-Encoding").then_some("gzip");
        assert_eq!(response.field("content-encoding"), own, "{name}");
        assert_eq!(response.field("vary"), None, "{name}");
        assert_eq!(response.text(), text(1000), "{name}: compressed twice");
    }
    assert_eq!(ask(&server, "/cgi-bin/short", BROWSER).text(), "hello");
}

/// `?<letters>`: 20,000 lines of text, through the mailbox or (`b`) the memory buffer; with `x` it kills itself in the
/// middle. Works as CGI too.
const BULK: &str = r#"
def respond(variables):
    letters = variables["QUERY_STRING"]
    lines = b"".join(b"line %d of a text\n" % line for line in range(20000))
    if "x" in letters:
        lines = lines[:300000]
    if "b" in letters:
        ask(b"BUFFER-BEGIN: 256k")
    put(b"Content-Type: text/plain\nX-Pid: %d\n\n" % os.getpid())
    if "b" in letters:
        for at in range(0, len(lines), 200000):
            part = lines[at : at + 200000]
            os.pwrite(4, part, 0)
            ask(b"BUFFER-WRITE: %d" % len(part))
        ask(b"BUFFER-END:")
    else:
        put(lines)
    if "x" in letters:
        os.kill(os.getpid(), 9)

if "CGIPLUSEOF" in os.environ:
    while variables := accept():
        respond(variables)
        finish()
else:
    respond(os.environ)
"#;

#[test]
fn bulk_output_is_compressed_and_the_process_kept() {
    let server = Setup::new()
        .compress_scripts()
        .cgiplus("max = 1")
        .python("bulk", BULK)
        .start();
    let mut pids = Vec::new();
    for accept in ["gzip", "br", "zstd", "identity"] {
        for letters in ["m", "b"] {
            let response = ask(&server, &format!("/cgiplus-bin/bulk?{letters}"), accept);
            assert_eq!(
                response.field("content-encoding"),
                Some(accept).filter(|name| *name != "identity")
            );
            assert!(decoded(&response) == text(20_000), "{accept} {letters}");
            pids.push(response.field("x-pid").unwrap().to_owned());
        }
    }
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    assert_eq!(warnings_and_errors(&server.stop().errors), Vec::<String>::new());
}

/// Sends 8 MiB from the memory buffer while threads change them.
const CHANGING: &str = r#"
import mmap
import threading
stop = threading.Event()

def change(memory, own):
    while not stop.is_set():
        for block in own:
            memory[:] = block

ask(b"BUFFER-BEGIN: 1")
put(b"Content-Type: text/plain\n\n")
memory = mmap.mmap(4, 1 << 20)
blocks = [bytes((at * at * (seed + 3) >> 4) % 26 + 97 for at in range(1 << 20)) for seed in range(4)]
threads = [threading.Thread(target=change, args=(memory, blocks[at:] + blocks[:at]), daemon=True) for at in range(2)]
for thread in threads:
    thread.start()
for _ in range(8):
    ask(b"BUFFER-WRITE: %d" % (1 << 20))
stop.set()
for thread in threads:
    thread.join()
ask(b"BUFFER-END:")
"#;

#[test]
fn bytes_that_change_while_they_are_compressed_make_a_valid_body() {
    let server = Setup::new().compress_scripts().python("changing", CHANGING).start();
    for accept in ["gzip", "br", "zstd"] {
        let response = ask(&server, "/cgi-bin/changing", accept);
        assert_eq!(response.field("content-encoding"), Some(accept));
        let content = decoded(&response);
        assert_eq!(content.len(), 8 << 20, "{accept}");
        assert!(
            content.bytes().all(|byte| byte == 0 || byte.is_ascii_lowercase()),
            "{accept}"
        );
    }
}

/// Replies whose body is in the output region, which a thread goes on changing after the reply.
const CHANGING_REGION: &str = r#"
import mmap
import threading
memory = None
blocks = [bytes((at * at * (seed + 3) >> 4) % 26 + 97 for at in range(1 << 16)) for seed in range(4)]

def change():
    while True:
        for block in blocks:
            memory[: 1 << 16] = block
            memory[1 << 17 : (1 << 17) + (1 << 16)] = block

while variables := accept():
    offset, size = map(int, variables["WWW_GATEWAY_REGION"].split())
    if memory is None:
        memory = mmap.mmap(4, 2 * size, offset=offset)
        threading.Thread(target=change, daemon=True).start()
    put(b"Content-Type: text/plain\n\n" + ESC + b"\n!BUFFER-REGION: 65536\n" + EOT + b"\n")
    finish()
"#;

#[test]
fn a_region_that_changes_while_it_is_compressed_makes_a_valid_body() {
    let server = Setup::new()
        .compress_scripts()
        .cgiplus("max = 1")
        .python("changing", CHANGING_REGION)
        .start();
    for _ in 0..20 {
        for accept in ["gzip", "br", "zstd"] {
            let response = ask(&server, "/cgiplus-bin/changing", accept);
            assert_eq!(response.field("content-encoding"), Some(accept), "{}", server.log());
            let content = decoded(&response);
            assert_eq!(content.len(), 1 << 16, "{accept}");
            assert!(
                content.bytes().all(|byte| byte == 0 || byte.is_ascii_lowercase()),
                "{accept}"
            );
        }
    }
}

#[test]
fn killed_script_leaves_an_incomplete_compressed_body() {
    let server = Setup::new()
        .compress_scripts()
        .cgiplus("max = 1")
        .python("bulk", BULK)
        .start();
    for accept in ["gzip", "br", "zstd"] {
        for letters in ["xm", "xb"] {
            for version in ["1.1", "1.0"] {
                let path = format!("/cgi-bin/bulk?{letters}");
                let request = request(&path, accept, "").replacen("1.1", version, 1);
                let response = server.send(request);
                assert_eq!(
                    (response.status, response.ending),
                    (200, Ending::Truncated),
                    "{accept} {letters}"
                );
                let (content, is_complete) = decode(Some(accept), &response.body);
                assert!(
                    !is_complete && text(20_000).starts_with(&content),
                    "{accept} {letters} {version}"
                );
            }
        }
    }
    server.log_lines(12, "response aborted");
}

#[test]
fn script_ends_when_the_client_leaves() {
    let setup = Setup::new().compress_scripts();
    let gone = setup.event_fifo("gone");
    let server = setup
        .script(
            "endless",
            "exec 9> \"$TEST_DIR/gone\"; printf 'Content-Type: text/plain\\n\\n'; while :; do echo a text; done",
        )
        .start();
    let mut client = server.connect();
    client.send(request("/cgi-bin/endless", "gzip", ""));
    client.head();
    client.chunk();
    drop(client);
    gone.end();
    server.assert_idle();
}

#[test]
fn compression_works_over_http2() {
    let setup = Setup::new()
        .compress_scripts()
        .file("a.html", text(1000))
        .age("a.html")
        .script("text", &print(HTML))
        .listeners("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }");
    Authority::new().issue_to(&setup.path("default.pem"), &["localhost"]);
    let server = setup.start();
    for path in ["a.html", "cgi-bin/text", "a.html"] {
        let address = format!("https://{}/{path}", server.tls_address());
        let format = "|%{http_version} %header{content-encoding}";
        let options = ["--insecure", "--http2", "--write-out", format];
        let output = curl(
            &[
                &options[..],
                &["--header", "Accept-Encoding: gzip", "--compressed", &address],
            ]
            .concat(),
        );
        assert_eq!(output, format!("{}|2 gzip", text(1000)), "{path}");
    }
}
