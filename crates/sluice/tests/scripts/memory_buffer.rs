//! The memory buffer: bulk output through memory that a script shares with the server.
//!
//! Here: the answers to BUFFER-BEGIN, -WRITE and -END. Submodules: transfers through the plain buffer (`plain`) and
//! the ring (`ring`), clients that leave or are slow (`clients`), scripts that violate the ring protocol (`violations`),
//! the memory itself (`lifetime`), memory that stays locked (`locked`), and the output regions behind it (`regions`).

mod clients;
mod lifetime;
mod locked;
mod plain;
mod regions;
mod ring;
mod violations;

use sluice_testing::{Ending, Response, Server, Setup};

/// A script that sends the lines of its body as callouts: those up to an empty line before the head, the others after
/// it.
const ASKER: &str = r#"
while variables := accept():
    before, _, after = body(int(variables["CONTENT_LENGTH"])).partition(b"\n\n")
    answers = [answer for line in before.split(b"\n") for answer in ask(line)]
    put(b"Content-Type: text/plain\n\n")
    answers += [answer for line in after.split(b"\n") if line for answer in ask(line)]
    if "close" in variables["QUERY_STRING"]:
        ask(b"BUFFER-END:")
    put(b"".join(answers))
    finish()
"#;

/// The 32-bit numbers 0, 1, 2 …, so that every position is recognisable.
fn numbered(length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 4);
    let mut number: u32 = 0;
    while bytes.len() < length {
        bytes.extend_from_slice(&number.to_le_bytes());
        number += 1;
    }
    bytes.truncate(length);
    bytes
}

/// Asserts that the body is the numbers followed by `tail`.
#[track_caller]
fn assert_numbered(response: &Response, length: usize, tail: &str, what: &str) {
    assert_eq!(
        response.status,
        200,
        "{what}: {}",
        String::from_utf8_lossy(&response.body)
    );
    assert_eq!(
        response.ending,
        Ending::Complete,
        "{what}: truncated after {} bytes",
        response.body.len()
    );
    let expected = [&numbered(length)[..], tail.as_bytes()].concat();
    if response.body != expected {
        let pairs = response.body.iter().zip(&expected);
        let same = pairs.take_while(|(got, wanted)| got == wanted).count();
        panic!(
            "{what}: {} bytes instead of {}, correct up to {same}",
            response.body.len(),
            expected.len()
        );
    }
}

#[track_caller]
fn answers(server: &Server, query: &str, lines: &str) -> Vec<String> {
    let response = server.post(&format!("/cgiplus-bin/ask?{query}"), lines);
    assert_eq!(response.status, 200, "{}", server.log());
    response.text().lines().map(str::to_owned).collect()
}

#[test]
fn begin_answers_name_and_size() {
    let server = Setup::new().cgiplus("max = 1").python("ask", ASKER).start();
    for (request, answer) in [
        ("", "1048576"),
        ("0", "1048576"),
        ("ring", "1048576 ring"),
        ("0 ring", "1048576 ring"),
        ("2", "2097152"),
        ("2M", "2097152"),
        ("3MiB ring", "3145728 ring"),
        ("512k", "524288"),
        ("1k", "4096"),
        ("1k ring", "8192 ring"),
        ("5KiB", "8192"),
        ("9k RING", "12288 ring"),
    ] {
        let lines = format!("BUFFER-BEGIN: {request}\nBUFFER-END:");
        let expected = [format!("200 /dev/fd/4 {answer}"), "200 0".to_owned()];
        assert_eq!(answers(&server, "", &lines), expected, "{request:?}");
    }
}

#[test]
fn route_without_buffers_says_so() {
    let server = Setup::new()
        .cgiplus("max = 1, memory_buffer_max = 0")
        .python("ask", ASKER)
        .start();
    for request in ["", "1", "1k ring"] {
        let answers = answers(&server, "", &format!("BUFFER-BEGIN: {request}"));
        assert_eq!(
            answers,
            ["403 memory buffers are not allowed here (memory_buffer_max = 0)"]
        );
    }
}

/// Where no buffer is allowed none is made: neither for a process of one request nor for one that is kept, and the latter is kept all the same.
#[test]
fn without_buffers_descriptor_4_is_dev_null() {
    const NAME_OF_4: &str = r#"
import os
while accept():
    put(b"Content-Type: text/plain\n\n%d %s" % (os.getpid(), os.readlink("/proc/self/fd/4").encode()))
    finish()
"#;
    let server = Setup::new()
        .cgi("memory_buffer_max = 0")
        .cgiplus("max = 1, memory_buffer_max = 0")
        .script(
            "name",
            "echo 'Content-Type: text/plain'; echo; exec readlink /proc/self/fd/4",
        )
        .python("kept", NAME_OF_4)
        .start();
    assert_eq!(server.get("/cgi-bin/name").text(), "/dev/null\n");
    let replies: Vec<String> = (0..3)
        .map(|_| server.get("/cgiplus-bin/kept").text().to_owned())
        .collect();
    assert!(replies[0].ends_with(" /dev/null"), "{replies:?}");
    assert!(
        replies.iter().all(|reply| *reply == replies[0]),
        "another process: {replies:?}"
    );
}

/// A script for WASD, which looks for its variables in the environment, in both modes.
#[test]
fn plain_wasd_source_uses_the_buffer_in_both_modes_and_a_second_begin_fails() {
    let server = Setup::new().c_programs().start();
    for path in ["/cgi-bin", "/cgiplus-bin", "/cgiplus-bin"] {
        let response = server.get(&format!("{path}/twice?key"));
        let status = response.field("x-status");
        assert_eq!(status, Some("1 20 /dev/fd/4 1048576 key"), "{path}: {}", server.log());
        assert_eq!(
            (response.ending, response.body.len()),
            (Ending::Complete, 3_000_000),
            "{path}"
        );
    }
    server.wait_for_processes(0);
    let server = Setup::new().c_programs().cgiplus("memory_buffer_max = 0").start();
    let response = server.get("/cgiplus-bin/twice?key");
    let status = response.field("x-status");
    assert_eq!(status, Some("36 36 none 0 key"), "{}", server.log());
}

#[test]
fn bad_sizes_are_refused_without_affecting_the_next_begin() {
    let server = Setup::new()
        .cgiplus("max = 1, memory_buffer_max = \"2MiB\"")
        .python("ask", ASKER)
        .start();
    let bad = [
        "x",
        "-1",
        "+1",
        "4 4",
        "1T",
        "k",
        "ring 4",
        "ring ring",
        "1.5",
        "0x10",
        "99999999999999999999",
    ];
    for request in bad {
        let answers = answers(
            &server,
            "",
            &format!("BUFFER-BEGIN: {request}\nBUFFER-BEGIN: 4k\nBUFFER-END:"),
        );
        assert!(
            answers[0].starts_with("400 ") && answers[0].len() > 10,
            "{request:?}: {}",
            answers[0]
        );
        assert_eq!(answers[1..], ["200 /dev/fd/4 4096", "200 0"], "after {request:?}");
    }
    for request in ["3", "2049k", "3 ring", "1G", "17179869183G"] {
        let answers = answers(
            &server,
            "",
            &format!("BUFFER-BEGIN: {request}\nBUFFER-BEGIN: 2 ring\nBUFFER-END:"),
        );
        assert!(answers[0].starts_with("413 "), "{request:?}: {}", answers[0]);
        assert_eq!(
            answers[1..],
            ["200 /dev/fd/4 2097152 ring", "200 0"],
            "after {request:?}"
        );
    }
}

#[test]
fn callouts_in_the_wrong_state_are_refused() {
    let server = Setup::new().cgiplus("max = 1").python("ask", ASKER).start();
    let code = |query: &str, lines: &str| -> Vec<String> {
        let answers = answers(&server, query, lines);
        answers
            .iter()
            .map(|answer| answer.split(' ').next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        code("", "BUFFER-END:\nBUFFER-WRITE: 1\nNOOP:"),
        ["400", "400", "200"],
        "without a buffer"
    );
    assert_eq!(
        code("", "BUFFER-BEGIN: 4k\nBUFFER-BEGIN: 4k\nBUFFER-END:\nBUFFER-END:"),
        ["200", "400", "200", "400"]
    );
    assert_eq!(
        code("close", "BUFFER-BEGIN: 8k ring\nBUFFER-BEGIN: 4k\nBUFFER-WRITE: 1"),
        ["200", "400", "400"]
    );
    assert_eq!(
        code("", "NOOP:\n\nBUFFER-BEGIN: 4k\nNOOP:"),
        ["200", "400", "200"],
        "after the head"
    );
    assert_eq!(
        code("", "BUFFER-BEGIN: 4k\nBUFFER-END:\n\nBUFFER-WRITE: 1\nBUFFER-END:"),
        ["200", "200", "400", "400"]
    );
}

#[test]
fn parts_outside_the_buffer_are_refused() {
    let server = Setup::new().cgiplus("max = 1").python("ask", ASKER).start();
    let bad = [
        "4097",
        "1 4096",
        "4096 1",
        "18446744073709551615 1",
        "1 18446744073709551615",
        "18446744073709551616",
        "-1",
        "1 -1",
        "",
        "x",
        "1 2 3",
        "0x10",
    ];
    for part in bad {
        let answers = answers(
            &server,
            "close",
            &format!("BUFFER-BEGIN: 4k\nBUFFER-WRITE: {part}\n\nNOOP:"),
        );
        assert!(answers[1].starts_with("400 "), "{part:?}: {}", answers[1]);
        assert_eq!(answers[2], "200 OK", "{part:?}");
    }
}

#[test]
fn empty_part_is_answered_and_sends_nothing() {
    let server = Setup::new().cgiplus("max = 1").python("ask", ASKER).start();
    let lines = "BUFFER-BEGIN: 4k\n\nBUFFER-WRITE: 0\nBUFFER-WRITE: 0 4096\n!BUFFER-WRITE: 0\nBUFFER-END:";
    assert_eq!(
        answers(&server, "", lines),
        ["200 /dev/fd/4 4096", "200 0", "200 0", "200 0"]
    );
}

#[test]
fn buffer_descriptor_cannot_be_shrunk_or_grown() {
    let server = Setup::new()
        .cgiplus("memory_buffer_max = \"1MiB\"")
        .python(
            "shrink",
            r#"
import fcntl
while accept():
    size = os.fstat(4).st_size
    ask(b"BUFFER-BEGIN: 64k")
    said = [str(size), str(os.fstat(4).st_size), os.environ["CGIPLUSBUF"]]
    for what in (
        lambda: os.ftruncate(4, 100),
        lambda: os.ftruncate(4, size + 1),
        lambda: os.pwrite(4, b"x", size),
        lambda: fcntl.fcntl(4, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE),
    ):
        try:
            what()
            said.append("done")
        except PermissionError:
            said.append("refused")
    ask(b"BUFFER-END:")
    put(HEAD + " ".join(said).encode())
    finish()
"#,
        )
        .start();
    assert_eq!(
        server.get("/cgiplus-bin/shrink").text(),
        "2162688 2162688 /dev/fd/4 refused refused refused refused"
    );
}
