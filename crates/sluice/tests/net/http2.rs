//! HTTP/2 over TLS and in clear text: the same files and scripts as over HTTP/1.1.

mod cut_uploads;
mod ended;
mod floods;
mod frames;
mod refused_uploads;
mod slow;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use sluice_testing::{Authority, Server, Setup, curl, spawn, wait_until, write_script};

const LISTENERS: &str = "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }\n\
    [[listen]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"on\"";

/// The first byte of a header block with this status (RFC 7541, appendix A).
const OK: u8 = 0x88;
const BAD_REQUEST: u8 = 0x8c;

const ECHO: &str = "printf 'Content-Type: text/plain\\n\\n%s %s ' \"$SERVER_PROTOCOL\" \"$REQUEST_METHOD\"; cat";

fn server() -> Server {
    let large: String = (0..200_000).map(|number| format!("{number},")).collect();
    let setup = Setup::new()
        .file("a.txt", "hello")
        .file("large.txt", large)
        .age("large.txt")
        .script("echo", ECHO)
        .script("fails", "exit 3")
        .listeners(LISTENERS);
    Authority::new().issue_to(&setup.path("default.pem"), &["localhost"]);
    setup.start()
}

/// How curl reaches the server: over TLS, and in clear text with prior knowledge.
fn ways(server: &Server) -> [(String, &'static str); 2] {
    let clear = server
        .addresses()
        .into_iter()
        .find(|address| address.contains("127.0.0.2"))
        .unwrap();
    [
        (format!("https://{}/", server.tls_address()), "--http2"),
        (clear, "--http2-prior-knowledge"),
    ]
}

#[test]
fn files_and_scripts_answer_as_over_http1() {
    let server = server();
    for (address, option) in ways(&server) {
        let ask = |path: &str, more: &[&str]| {
            let address = format!("{address}{path}");
            let arguments = [
                &[
                    "--insecure",
                    option,
                    "--write-out",
                    "|%{http_version} %{http_code}",
                    &address,
                ][..],
                more,
            ];
            curl(&arguments.concat())
        };
        assert_eq!(ask("a.txt", &[]), "hello|2 200");
        assert_eq!(ask("none", &["--output", "/dev/null"]), "|2 404");
        assert_eq!(ask("cgi-bin/echo", &["--data", "body"]), "HTTP/2.0 POST body|2 200");
        assert_eq!(ask("cgiplus-bin/fails", &["--output", "/dev/null"]), "|2 502");
        for _ in 0..3 {
            let large = ask("large.txt", &[]);
            assert!(
                large.len() > 1_000_000 && large.ends_with("199999,|2 200"),
                "{} bytes",
                large.len()
            );
        }
    }
}

#[test]
fn http1_is_answered_on_the_same_addresses() {
    let server = server();
    for (address, _) in ways(&server) {
        let output = curl(&[
            "--insecure",
            "--http1.1",
            "--write-out",
            "|%{http_version}",
            &format!("{address}a.txt"),
        ]);
        assert_eq!(output, "hello|1.1");
    }
}

#[test]
fn uploads_larger_than_every_window_are_complete() {
    let server = server();
    let body = "0123456789".repeat(300_000);
    std::fs::write(server.path("upload"), &body).unwrap();
    let upload = format!("@{}", server.path("upload").display());
    for (address, option) in ways(&server) {
        let output = curl(&[
            "--insecure",
            option,
            "--data-binary",
            &upload,
            &format!("{address}cgi-bin/echo"),
        ]);
        assert!(
            output == format!("HTTP/2.0 POST {body}"),
            "{} bytes were echoed",
            output.len()
        );
    }
}

#[test]
fn bodies_around_frame_and_record_sizes_are_unchanged() {
    const RECORD: usize = 16 << 10;
    let around = |bytes: usize| [bytes - 10, bytes - 9, bytes - 1, bytes, bytes + 1, bytes + 300];
    let sizes: Vec<usize> = [RECORD, 2 * RECORD, 8 * RECORD, 40 * RECORD]
        .into_iter()
        .flat_map(around)
        .collect();
    let text: String = (0..150_000).map(|number| format!("{number},")).collect();
    let mut setup = Setup::new().listeners(LISTENERS);
    for bytes in &sizes {
        setup = setup.file(&format!("{bytes}.txt"), &text[..*bytes]);
    }
    Authority::new().issue_to(&setup.path("default.pem"), &["localhost"]);
    let server = setup.start();
    for (address, option) in ways(&server) {
        for bytes in &sizes {
            let output = curl(&["--insecure", option, &format!("{address}{bytes}.txt")]);
            assert!(output == text[..*bytes], "{} of {bytes} bytes arrived", output.len());
        }
    }
    // Several requests on one connection, over TLS only: some versions of curl fail to reuse clear-text connections.
    let (address, option) = ways(&server)[0].clone();
    let urls: Vec<String> = sizes.iter().map(|bytes| format!("{address}{bytes}.txt")).collect();
    let arguments = ["--insecure", option]
        .into_iter()
        .chain(urls.iter().map(String::as_str));
    let output = curl(&arguments.collect::<Vec<_>>());
    let expected: String = sizes.iter().map(|bytes| &text[..*bytes]).collect();
    assert!(
        output == expected,
        "{} of {} bytes arrived",
        output.len(),
        expected.len()
    );
}

#[test]
fn many_exchanges_share_one_connection() {
    let server = server();
    // Over TLS only: some versions of curl break clear-text connections that they share.
    let (address, option) = ways(&server)[0].clone();
    let urls: Vec<String> = (0..40)
        .map(|number| format!("{address}cgi-bin/echo?{number}"))
        .collect();
    let format = "|%{http_code} %{num_connects};";
    let mut arguments = vec![
        "--insecure",
        option,
        "--parallel",
        "--parallel-max",
        "40",
        "--write-out",
        format,
    ];
    arguments.extend(urls.iter().map(String::as_str));
    let output = curl(&arguments);
    assert_eq!(output.matches("HTTP/2.0 GET ").count(), 40, "{output}");
    assert_eq!(output.matches("|200 ").count(), 40, "{output}");
}

#[test]
fn shutdown_completes_open_streams() {
    let server = server();
    let (address, option) = ways(&server)[0].clone();
    let mut gate = server.setup().gate("go");
    let events = server.setup().event_fifo("events");
    write_script(
        &server.path("htdocs/cgi-bin/waits"),
        "echo here > \"$TEST_DIR/events\"; read line < \"$TEST_DIR/go\"; printf 'Content-Type: text/plain\\n\\ndone'",
    );
    let url = format!("{address}cgi-bin/waits");
    let asked = std::thread::spawn(move || curl(&["--insecure", option, &url]));
    events.line();
    server.signal("TERM");
    server.log_line("draining");
    gate.open();
    assert_eq!(asked.join().unwrap(), "done");
    assert!(server.wait_end().status.success());
}

#[test]
fn field_count_and_field_bytes_are_limited() {
    let setup = Setup::new()
        .file("a.txt", "hello")
        .limits("head_fields = 20\nhead_size = \"8KiB\"")
        .listeners("[[listen]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"on\"");
    let server = setup.start();
    let ask = |fields: &[String]| {
        let address = format!("{}a.txt", server.addresses()[1]);
        let mut arguments = vec!["--http2-prior-knowledge", "--write-out", "|%{http_code}", &address];
        for field in fields {
            arguments.extend(["--header", field]);
        }
        curl(&arguments)
    };
    let fields = |count: usize, bytes: usize| -> Vec<String> {
        (0..count)
            .map(|number| format!("x-{number}: {}", "a".repeat(bytes)))
            .collect()
    };
    assert_eq!(ask(&fields(10, 10)), "hello|200");
    assert!(ask(&fields(30, 10)).ends_with("|431"));
    assert!(ask(&fields(10, 1000)).ends_with("|431"));
    assert_eq!(ask(&[]), "hello|200");
}

#[test]
fn script_ends_when_the_client_leaves() {
    let server = server();
    let events = server.setup().event_fifo("events");
    write_script(
        &server.path("htdocs/cgi-bin/endless"),
        "echo here > \"$TEST_DIR/events\"; exec sleep 1000",
    );
    for (address, option) in ways(&server) {
        let mut command = Command::new("curl");
        command.args(["--silent", "--insecure", option, &format!("{address}cgi-bin/endless")]);
        let mut client = spawn(&mut command).unwrap();
        assert_eq!(events.line(), "here");
        client.kill().unwrap();
        client.wait().unwrap();
        server.wait_for_processes(0);
    }
}

#[test]
fn field_values_with_surrounding_white_space_are_refused() {
    let server = Setup::new()
        .file("a.txt", "hello")
        .listeners("[[listen]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"on\"")
        .start();
    for (value, status) in [
        ("a b", OK),
        (" a", BAD_REQUEST),
        ("a ", BAD_REQUEST),
        ("\ta", BAD_REQUEST),
        ("", OK),
    ] {
        let mut client = frames::connect(&server);
        // GET, http, `/a.txt`, the host `t`, and a literal field `x` (RFC 7541 §6).
        let length = [u8::try_from(value.len()).unwrap()];
        let block = [b"\x82\x86\x04\x06/a.txt\x01\x01t\0\x01x", &length[..], value.as_bytes()].concat();
        let request = frames::frame(frames::HEADERS, frames::END_STREAM | frames::END_HEADERS, 1, &block);
        client.write_all(&request).unwrap();
        let head = frames::wait_for(&mut client, |frame| frame.0 == frames::HEADERS && frame.1 == 1);
        assert_eq!(head.2[0], status, "{value:?}");
    }
    server.log_line("the value of field x begins or ends with white space");
}

#[test]
fn uploads_in_small_frames_are_complete() {
    const FRAMES: usize = 20_000;
    let server = Setup::new()
        .workers(1)
        .script("count", r"printf 'Content-Type: text/plain\n\n'; wc -c")
        .listeners("[[listen]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"on\"")
        .start();
    let mut client = frames::connect(&server);
    let block = b"\x83\x86\x04\x0e/cgi-bin/count\x01\x01t";
    let body = frames::frame(frames::DATA, 0, 1, b"x").repeat(FRAMES);
    let upload = [
        frames::frame(frames::HEADERS, frames::END_HEADERS, 1, block),
        body,
        frames::frame(frames::DATA, frames::END_STREAM, 1, b"x"),
    ];
    client.write_all(&upload.concat()).unwrap();
    let answer = frames::wait_for(&mut client, |frame| {
        frame.0 == frames::DATA || frame.0 == frames::GOAWAY
    });
    assert_eq!(String::from_utf8_lossy(&answer.2).trim(), (FRAMES + 1).to_string());
}

#[test]
fn response_without_a_window_is_reset() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    /// SETTINGS_INITIAL_WINDOW_SIZE 0: no body bytes may be sent.
    const SETTINGS: &[u8] = &[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];
    /// HEADERS of stream 1 with END_STREAM: GET, http, `/a.txt`, and the host `t` (RFC 7541 §6).
    const HEADERS: &[u8] = b"\0\0\x0d\x01\x05\0\0\0\x01\x82\x86\x04\x06/a.txt\x41\x01t";
    /// PING, which is answered; and WINDOW_UPDATE of stream 1 by one byte.
    const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0wellwell";
    const BYTE: &[u8] = b"\0\0\x04\x08\0\0\0\0\x01\0\0\0\x01";
    /// RST_STREAM of stream 1, without its error code.
    const RESET: &[u8] = b"\0\0\x04\x03\0\0\0\0\x01";
    let server = Setup::new()
        .file("a.txt", vec![b'+'; 1 << 20])
        .limits("send_timeout = \"300ms\"")
        .listeners("[[listen]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"on\"")
        .start();
    let address = &server.addresses()[1];
    let address = address.trim_start_matches("http://").trim_end_matches('/');
    for (number, word) in [&b""[..], PING, BYTE].into_iter().enumerate() {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(&[PREFACE, SETTINGS, HEADERS].concat()).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (mut received, mut bytes) = (Vec::new(), [0; 4096]);
        let is_over = wait_until(|| {
            match client.read(&mut bytes) {
                Ok(length) => received.extend_from_slice(&bytes[..length]),
                Err(error) => assert!(
                    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
                    "{error}"
                ),
            }
            client.write_all(word).unwrap();
            received.windows(RESET.len()).any(|bytes| bytes == RESET)
        });
        assert!(is_over, "{word:?}");
        let has_got_body = received.windows(5).any(|bytes| bytes == b"+++++");
        assert!(!has_got_body || word == BYTE, "{word:?}");
        let line = server.access_lines(number + 1).remove(number);
        assert!(line.contains("\"GET /a.txt HTTP/2.0\" 200"), "{line}");
    }
}
