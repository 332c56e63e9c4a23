//! Scripts that corrupt the ring or violate its protocol: their own reply is truncated, nothing else is affected.

use super::numbered;
use sluice_testing::{Ending, Setup};

/// Begins a ring of 8 KiB, sends 100 bytes, and then does what its name says. Each has its own file, because a script
/// whose processes die repeatedly is not started for a while.
///
/// It rings the doorbell after each commit, whether requested or not, because Python has no memory fence.
const VIOLATOR: &str = r#"
import mmap
from array import array
while variables := accept():
    ask(b"BUFFER-BEGIN: 8k ring")
    ring = mmap.mmap(4, 4096 + 8192)
    def store(offset, value):
        ring[offset : offset + 8] = (value % (1 << 64)).to_bytes(8, "little")
    def commit(head):
        store(64, head)
        put(b"\0")
    put(b"Content-Type: application/octet-stream\nX-Pid: %d\n\n" % os.getpid())
    wait_at("begin")
    ring[4096 : 4096 + 4000] = array("I", range(1000)).tobytes()
    commit(100)
    wait_at("go")
    way = variables["SCRIPT_NAME"].split("cgiplus-bin")[1]
    if way == "/back":
        commit(99)
    elif way == "/zero":
        commit(0)
    elif way == "/far":
        commit(100 + 8192 + 1)
    elif way == "/huge":
        commit(-1)
    elif way == "/words":
        for offset in (0, 8, 16, 72, 128, 4088):
            store(offset, -1)
        store(80, -1)
        commit(200)
        store(136, 0)
    elif way == "/text":
        put(b"text")
    elif way == "/holes":
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        libc.fallocate(4, 3, ctypes.c_long(4096), ctypes.c_long(8192))
        commit(200)
    elif way == "/control":
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        libc.fallocate(4, 3, ctypes.c_long(0), ctypes.c_long(4096))
        put(b"\0")
    elif way == "/killed":
        commit(200)
        os.kill(os.getpid(), 9)
    elif way == "/closes":
        os.close(4)
        commit(200)
    put(ESC + b"BUFFER-END:\n" + EOT)
    cgiplusin.readline()
    finish()
"#;

#[test]
fn violation_truncates_the_reply_and_ends_the_process() {
    let ways = ["back", "zero", "far", "huge", "control", "text", "killed"];
    let setup = ways.iter().fold(Setup::new(), |setup, way| setup.python(way, VIOLATOR));
    let server = setup.start();
    let mut gates = (server.setup().gate("begin"), server.setup().gate("go"));
    for (turn, way) in ways.iter().enumerate() {
        let mut client = server.connect();
        client.get(&format!("/cgiplus-bin/{way}"));
        let head = client.head();
        let pid = head.field("x-pid").unwrap();
        gates.0.open();
        assert_eq!(client.chunk().len(), 100, "{way}");
        gates.1.open();
        let (rest, ending) = client.body(head.framing("GET"));
        assert_eq!(ending, Ending::Truncated, "{way}: {rest:?}");
        server.wait_for_processes(0);
        let lines = server.log_lines(turn + 1, "response aborted");
        let line = &lines[turn];
        assert!(
            line.contains(&format!("cgi-bin/{way}")) && line.contains(&format!("pid {pid}")),
            "{way}: {line}"
        );
        drop(client);
        server.assert_healthy();
    }
    assert_eq!(server.access_lines(ways.len()).len(), ways.len());
}

#[test]
fn memory_that_the_server_does_not_read_may_be_overwritten() {
    let ways = ["words", "closes"];
    let setup = ways.iter().fold(Setup::new(), |setup, way| setup.python(way, VIOLATOR));
    let server = setup.start();
    let mut gates = (server.setup().gate("begin"), server.setup().gate("go"));
    for way in ways {
        let mut client = server.connect();
        client.get(&format!("/cgiplus-bin/{way}"));
        let head = client.head();
        gates.0.open();
        gates.1.open();
        let (body, ending) = client.body(head.framing("GET"));
        assert_eq!((ending, body), (Ending::Complete, numbered(200)), "{way}");
    }
}

#[test]
fn holes_in_the_data_are_zeros() {
    let server = Setup::new().cgiplus("max = 1").python("holes", VIOLATOR).start();
    let mut gates = (server.setup().gate("begin"), server.setup().gate("go"));
    let mut client = server.connect();
    client.get("/cgiplus-bin/holes");
    client.head();
    gates.0.open();
    assert_eq!(client.chunk().len(), 100);
    gates.1.open();
    assert_eq!(client.chunk(), vec![0; 100]);
    assert!(client.chunk().is_empty());
}

#[test]
fn unrequested_doorbells_are_never_body() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "bells",
            r#"
import mmap
while variables := accept():
    ask(b"BUFFER-BEGIN: 8k ring")
    ring = mmap.mmap(4, 4096 + 8192)
    ring[4096 : 4096 + 5] = b"hello"
    ring[64 : 64 + 8] = (5).to_bytes(8, "little")
    put(HEAD + b"\0")
    put(b"\0" * 1000)
    put(ESC + b"BUFFER-END:\n" + EOT)
    cgiplusin.readline()
    put(b", end")
    finish()
"#,
        )
        .start();
    for _ in 0..3 {
        assert_eq!(server.get("/cgiplus-bin/bells").text(), "hello, end");
    }
}

#[test]
fn mailbox_bytes_during_an_open_ring_are_a_fault() {
    let server = Setup::new()
        .python(
            "beside",
            r#"
while variables := accept():
    ask(b"BUFFER-BEGIN: 8k ring")
    if variables["QUERY_STRING"] == "joined":
        put(HEAD + b"text")
    else:
        put(HEAD)
        wait_at("go")
        put(b"text")
    put(ESC + b"BUFFER-END:\n" + EOT)
    cgiplusin.readline()
    finish()
"#,
        )
        .start();
    let mut gate = server.setup().gate("go");
    // A fault before the first byte of the body is answered with 502.
    for (turn, (way, status)) in [("apart", 200), ("joined", 502)].into_iter().enumerate() {
        let mut client = server.connect();
        client.get(&format!("/cgiplus-bin/beside?{way}"));
        let head = client.head();
        if way == "apart" {
            gate.open();
        }
        let (body, ending) = client.body(head.framing("GET"));
        let body = String::from_utf8_lossy(&body);
        assert_eq!(head.status, status, "{way}: {body}");
        assert_eq!(ending == Ending::Truncated, status == 200, "{way}: {body}");
        server.log_lines(turn + 1, "while its memory buffer was open as a ring");
    }
    server.assert_idle();
}
