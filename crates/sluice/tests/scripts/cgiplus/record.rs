//! The request record on CGIPLUSIN, and the environment of the process.

use std::collections::BTreeMap;

use sluice_testing::{DEADLINE, Ending, Setup, wait_until_within};

/// A script that prints the bytes read from CGIPLUSIN and requests the other record format for the next request.
const RAW: &str = r##"
import select
while True:
    got = os.read(3, 1 << 20)
    if not got:
        break
    while not (got.startswith(b"!\n") and got.endswith(b"\n\n")
               or got.startswith(b"!!") and b"\n" in got and len(got) >= got.index(b"\n") + 1 + int(got[2:got.index(b"\n")])):
        got += os.read(3, 1 << 20)
    if select.select([3], [], [], 0)[0]:
        got += b"more"
    put(ESC + b"\n!CGIPLUS: " + (b"struct" if got.startswith(b"!\n") else b"record") + b"\n" + EOT + b"\n")
    put(b"Content-Type: application/octet-stream\n\n" + got)
    finish()
"##;

#[test]
fn variables_arrive_as_lines_or_as_a_block() {
    let server = Setup::new().cgiplus("max = 1").python("raw", RAW).start();
    let mut client = server.connect();
    let mut ask = || {
        let response = client.get("/cgiplus-bin/raw/a/b?one+two").response();
        assert_eq!(response.ending, Ending::Complete);
        response.body
    };
    let (lines, block, again) = (ask(), ask(), ask());
    let (from_lines, from_block) = (variables_of_lines(&lines), variables_of_block(&block));
    for (name, value) in [
        ("REQUEST_METHOD", "GET"),
        ("SCRIPT_NAME", "/cgiplus-bin/raw"),
        ("PATH_INFO", "/a/b"),
        ("QUERY_STRING", "one+two"),
        ("WWW_KEY_1", "one"),
        ("WWW_KEY_2", "two"),
        ("WWW_KEY_COUNT", "2"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("HTTP_HOST", "test"),
    ] {
        assert_eq!(from_lines.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert_eq!(without_volatile(from_lines), without_volatile(from_block));
    assert_ne!(
        variables_of_lines(&again)["UNIQUE_ID"],
        variables_of_lines(&lines)["UNIQUE_ID"]
    );
}

/// A script that asks for the socket as its query says, and reads its requests from there if it is not closed. `leave` leaves an answer unread.
const CHANNELS: &str = r#"
pipe, sock = 3, int(os.environ["CGIPLUSSOCK"])
count, number = 0, 3
def record(number):
    got = b""
    while not got.endswith(b"\n\n"):
        part = os.read(number, 1 << 16)
        if not part:
            return None
        got += part
    return got
def callout(line):
    put(ESC + b"\n" + line + b"\n" + EOT + b"\n")
while True:
    got = record(number)
    if got is None and number == sock:
        number = pipe
        continue
    if got is None:
        break
    count += 1
    way = got.split(b"QUERY_STRING=", 1)[1].split(b"\n", 1)[0]
    answer = b"none"
    if way == b"ask":
        callout(b"CGIPLUS: socket")
        answer = os.read(pipe, 4096).strip()
    callout(b"MAP-PATH: /%d" % count if way == b"leave" else b"NOOP:")
    if way != b"leave":
        answer += b"|" + os.read(pipe, 4096).strip()
    put(HEAD + b"%d %d %s" % (count, number, answer))
    finish()
    number = sock if count == 1 else number
"#;

#[test]
fn requests_come_by_the_socket_after_the_first_one_if_the_script_asks_for_it_there() {
    let server = Setup::new().cgiplus("max = 1").python("both", CHANNELS).start();
    let ask = |query: &str| server.get(&format!("/cgiplus-bin/both?{query}")).text().to_owned();
    assert_eq!(ask("ask"), "1 3 200 OK|200 OK");
    assert_eq!(ask("then"), "2 5 none|200 OK");
    assert_eq!(ask("ask"), "3 5 200 OK|200 OK", "it has been chosen already");
    let long = "x".repeat(7000);
    assert_eq!(ask(&long), "4 5 none|200 OK");
    // What a script has not read is taken for no answer in the next request.
    assert_eq!(ask("leave"), "5 5 none");
    assert_eq!(ask("then"), "6 5 none|200 OK");
}

#[test]
fn an_answer_that_is_left_in_the_first_request_is_taken_for_none_in_the_second() {
    let text = CHANNELS.replace("way == b\"leave\"", "way == b\"leave\" or count == 1");
    let server = Setup::new().cgiplus("max = 1").python("both", &text).start();
    let ask = |query: &str| server.get(&format!("/cgiplus-bin/both?{query}")).text().to_owned();
    let text = ask("ask");
    assert!(text.starts_with("1 3 200 OK"), "{text}");
    assert_eq!(ask("then"), "2 5 none|200 OK");
}

/// A script that writes its head as soon as it has read the first line of its request, which comes by the socket after the first one.
const HASTY: &str = r#"
count = 0
while True:
    requests = os.fdopen(int(os.environ["CGIPLUSSOCK"]) if count else 3, "rb", buffering=0, closefd=False)
    if not requests.readline():
        break
    put(HEAD + b"%d" % requests.fileno())
    while requests.readline() != b"\n":
        pass
    count += 1
    if count == 1:
        put(ESC + b"\n!CGIPLUS: socket\n" + EOT + b"\n")
    finish()
"#;

#[test]
fn a_script_may_write_before_it_has_read_all_of_its_request_from_the_socket() {
    let server = Setup::new().cgiplus("max = 1").python("hasty", HASTY).start();
    for number in [3, 5, 5, 5] {
        assert_eq!(
            server.get("/cgiplus-bin/hasty").text(),
            number.to_string(),
            "{}",
            server.log()
        );
    }
}

/// A script that asks for the socket, and goes on with CGIPLUSIN.
const MISTAKEN: &str = r#"
requests = cgiplusin
while read_request(requests):
    put(ESC + b"\n!CGIPLUS: socket\n" + EOT + b"\n" + HEAD + b"once")
    finish()
"#;

#[test]
fn a_script_that_asks_for_the_socket_and_does_not_read_it_is_found_at_once() {
    let server = Setup::new().cgiplus("max = 1").python("mistaken", MISTAKEN).start();
    assert_eq!(server.get("/cgiplus-bin/mistaken").text(), "once");
    let mut client = server.connect();
    client.get("/cgiplus-bin/mistaken");
    // Each check comes after twice the time of the one before, and on a busy machine some find nothing.
    let is_found = || server.log().contains("has asked for its requests by the socket");
    assert!(wait_until_within(3 * DEADLINE, is_found), "{}", server.log());
    assert_eq!(client.response().status, 502);
}

#[test]
fn the_socket_is_closed_after_a_first_request_that_has_not_asked_for_it() {
    let server = Setup::new().cgiplus("max = 1").python("both", CHANNELS).start();
    let ask = |query: &str| server.get(&format!("/cgiplus-bin/both?{query}")).text().to_owned();
    assert_eq!(ask("first"), "1 3 none|200 OK");
    assert_eq!(ask("then"), "2 3 none|200 OK");
    let refused = ask("ask");
    assert!(
        refused.starts_with("3 3 400 CGIPLUS: socket comes within the first request"),
        "{refused}"
    );
}

/// `!` LF, then `NAME=value` LF …, then an empty line.
#[track_caller]
fn variables_of_lines(record: &[u8]) -> BTreeMap<String, String> {
    let text = std::str::from_utf8(record).unwrap();
    let lines = text.strip_prefix("!\n").and_then(|rest| rest.strip_suffix("\n\n"));
    named(lines.expect("a start record and an empty line").split('\n'))
}

/// `!!<n>` LF and n bytes: a 16-bit little-endian length that counts text and NUL, the text, NUL …, a length of zero.
#[track_caller]
fn variables_of_block(record: &[u8]) -> BTreeMap<String, String> {
    let end = record.iter().position(|byte| *byte == b'\n').unwrap();
    let start = std::str::from_utf8(&record[..end]).unwrap();
    let bytes: usize = start.strip_prefix("!!").unwrap().parse().unwrap();
    let mut rest = &record[end + 1..];
    assert_eq!(rest.len(), bytes, "the count covers the complete block");
    let mut texts = Vec::new();
    loop {
        let length = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
        rest = &rest[2..];
        if length == 0 {
            break;
        }
        assert_eq!(rest[length - 1], 0, "each variable ends with NUL");
        texts.push(std::str::from_utf8(&rest[..length - 1]).unwrap());
        rest = &rest[length..];
    }
    assert!(rest.is_empty(), "the zero length is the last");
    named(texts.into_iter())
}

#[track_caller]
fn named<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for text in texts {
        let (name, value) = text.split_once('=').expect("NAME=value");
        let earlier = variables.insert(name.to_owned(), value.to_owned());
        assert_eq!(earlier, None, "{name} occurs twice");
    }
    variables
}

/// Without the variables that differ in each request.
fn without_volatile(mut variables: BTreeMap<String, String>) -> BTreeMap<String, String> {
    variables.retain(|name, _| name != "UNIQUE_ID" && !name.starts_with("REQUEST_TIME"));
    variables
}

/// A script that prints the variables of the request, then those of its environment.
const LISTER: &str = r##"
while variables := accept():
    environment = "".join(f"environment {name}={value}\n" for name, value in os.environ.items())
    text = "".join(f"{name}={value}\n" for name, value in variables.items()) + environment
    put(HEAD + text.encode())
    finish()
"##;

#[test]
fn no_variable_is_left_for_the_next_request() {
    let server = Setup::new().cgiplus("max = 1").python("lister", LISTER).start();
    let body = "a=1&b=2";
    let first = server.send(format!(
        "POST /cgiplus-bin/lister/info?form=yes HTTP/1.1\r\nHost: test\r\nX-Once: secret\r\nContent-Type: text/x\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    for name in [
        "HTTP_X_ONCE",
        "PATH_INFO",
        "CONTENT_TYPE",
        "CONTENT_LENGTH",
        "WWW_FORM_FORM",
    ] {
        assert!(first.variable(name).is_some(), "{name}");
    }
    let second = server.get("/cgiplus-bin/lister");
    for name in [
        "HTTP_X_ONCE",
        "PATH_INFO",
        "CONTENT_TYPE",
        "CONTENT_LENGTH",
        "WWW_FORM_FORM",
    ] {
        assert_eq!(second.variable(name), None, "{name}");
    }
    assert_eq!(second.variable("QUERY_STRING"), Some(""));
    assert_eq!(second.variable("REQUEST_METHOD"), Some("GET"));
}

#[test]
fn environment_has_the_channels_and_nothing_of_a_request() {
    let server = Setup::new().python("lister", LISTER).start();
    let response = server.get("/cgiplus-bin/lister?a+b");
    let value = |name: &str| response.variable(&format!("environment {name}"));
    assert_eq!(value("CGIPLUSIN"), Some("/dev/fd/3"));
    assert_eq!(value("CGIPLUSBUF"), Some("/dev/fd/4"));
    for (name, letter) in [("EOF", 'Z'), ("ESC", 'E'), ("EOT", 'D')] {
        let sentinel = value(&format!("CGIPLUS{name}")).unwrap();
        let digits = sentinel
            .strip_prefix(&format!("${letter}-"))
            .unwrap()
            .strip_suffix('-')
            .unwrap();
        assert_eq!(digits.len(), 24, "{sentinel}");
        assert!(
            digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')),
            "{sentinel}"
        );
        assert_eq!(
            response.variable(&format!("WWW_GATEWAY_{name}")),
            None,
            "no variable of a request"
        );
    }
    for name in [
        "REQUEST_METHOD",
        "QUERY_STRING",
        "SCRIPT_NAME",
        "HTTP_HOST",
        "WWW_KEY_1",
        "UNIQUE_ID",
    ] {
        assert_eq!(value(name), None, "{name}");
    }
    assert_eq!(response.variable("WWW_GATEWAY_MRS"), Some("65536"));
}

#[test]
fn variable_prefix_applies_to_all_variables() {
    let server = Setup::new()
        .cgiplus("variable_prefix = \"WWW_\"")
        .python("lister", LISTER)
        .start();
    let response = server.get("/cgiplus-bin/lister?a+b");
    let text = response.text();
    let names = text.lines().filter(|line| !line.starts_with("environment "));
    let bare: Vec<_> = names.filter(|name| !name.starts_with("WWW_")).collect();
    assert!(bare.is_empty(), "{bare:?}");
    assert!(!text.contains("WWW_WWW_"), "{text}");
    assert_eq!(response.variable("WWW_REQUEST_METHOD"), Some("GET"));
    assert_eq!(response.variable("WWW_HTTP_HOST"), Some("test"));
    assert_eq!(response.variable("WWW_KEY_1"), Some("a"));
}
