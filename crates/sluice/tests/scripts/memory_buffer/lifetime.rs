//! The memory of buffers: allocated beside the event loop, cleared between exchanges, not kept by idle processes, and
//! bounded for the whole server.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::{ASKER, answers};
use sluice_testing::{Response, Setup, wait_until};

/// Bytes that an idle process may keep: a ring of 1 MiB and its control page.
const KEPT_BYTES: u64 = (1 << 20) + 4096;

/// Asks for a buffer of 16 MiB while many threads write to the same file: the allocation has to wait for all of them.
const HOLDER: &str = r#"
import fcntl
import termios
import threading
stop = threading.Event()

def hold(block):
    while not stop.is_set():
        os.pwrite(4, block, 4096)

def respond():
    stop.clear()
    block = bytes(32 << 20)
    threads = [threading.Thread(target=hold, args=(block,), daemon=True) for _ in range(24)]
    for thread in threads:
        thread.start()
    put(ESC + b"\nBUFFER-BEGIN: 16\n" + EOT + b"\n")
    while any(fcntl.ioctl(1, termios.FIONREAD, bytes(4))):
        pass
    report("asks")
    said = cgiplusin.readline()
    report("answered")
    stop.set()
    for thread in threads:
        thread.join()
    put(HEAD + said)

if "CGIPLUSEOF" in os.environ:
    while accept():
        respond()
        finish()
else:
    respond()
"#;

/// `?<size>+<letters>`: sends a whole buffer of that size.
///
/// Letters: `f` it fills the buffer with `s` before, otherwise it writes nothing; `o` it also writes `s` beyond the
/// buffer; `n` no buffer at all; `l` it fills the buffer once more after the exchange, as a process that it has left
/// running would; `r` a ring, whose head it moves as if it had filled it.
const FILLER: &str = r#"
import mmap

def fill(capacity):
    os.pwrite(4, b"s" * capacity, 4096)

while variables := accept():
    size, _, letters = variables["QUERY_STRING"].partition("+")
    capacity, is_ring = 0, "r" in letters
    if "n" not in letters:
        capacity = int(ask(b"BUFFER-BEGIN: %s %s" % (size.encode(), b"ring" if is_ring else b""))[0].split()[2])
    if "f" in letters:
        fill(capacity if is_ring else capacity - 4096)
    if "o" in letters:
        os.pwrite(4, b"s" * (3 << 20), 1 << 20)
    put(b"Content-Type: text/plain\nX-Pid: %d\n\n" % os.getpid())
    if is_ring:
        ring = mmap.mmap(4, 4096 + capacity)
        ring[64:72] = capacity.to_bytes(8, "little")
        ring.close()
        put(b"\0")
        ask(b"BUFFER-END:")
    elif capacity:
        ask(b"BUFFER-WRITE: %d" % capacity, b"BUFFER-END:")
    finish()
    if "l" in letters:
        fill(capacity)
        report("late")
"#;

/// Bytes of memory in a process's buffer.
fn buffer_bytes(pid: &str) -> u64 {
    std::fs::metadata(format!("/proc/{pid}/fd/4")).unwrap().blocks() * 512
}

fn pid_of(response: &Response) -> String {
    response.field("x-pid").unwrap().to_owned()
}

#[test]
fn event_loop_does_not_wait_while_a_buffer_begins() {
    const ROUNDS: usize = 5;
    let setup = Setup::new();
    let (asks, answered) = (setup.event_fifo("asks"), setup.event_fifo("answered"));
    let server = setup
        .workers(1)
        .cgiplus("max = 1")
        .file("small.txt", "x")
        .python("holder", HOLDER)
        .start();
    let mut client = server.connect();
    let mut rounds = Vec::new();
    // An event loop that waits answers one request only when the buffer has begun; on a busy machine others may be slow, too.
    let is_served_meanwhile = || {
        let mut asking = server.connect();
        asking.get("/cgiplus-bin/holder");
        asks.line();
        let (begin, mut longest) = (Instant::now(), Duration::ZERO);
        // On a busy machine the script may hold its buffer for more than three seconds, and be stopped.
        while answered.is_silent() && asking.is_silent_for(Duration::from_millis(1)) {
            let asked = Instant::now();
            assert_eq!(client.get("/small.txt").response().status, 200);
            longest = longest.max(asked.elapsed());
        }
        let all = begin.elapsed();
        let reply = asking.response();
        assert!(
            reply.status == 502 || reply.text().trim() == "200 /dev/fd/4 16777216",
            "{}",
            reply.text()
        );
        rounds.push((longest, all));
        longest < all / 2
    };
    let is_served = std::iter::repeat_with(is_served_meanwhile)
        .take(ROUNDS)
        .any(|is_served| is_served);
    assert!(
        is_served,
        "the longest request, and the time that the buffer took: {rounds:?}"
    );
}

#[test]
fn client_that_leaves_while_a_buffer_begins_leaves_no_memory_behind() {
    let setup = Setup::new();
    let asks = setup.event_fifo("asks");
    let _answered = setup.event_fifo("answered");
    let server = setup
        .limits("memory_buffers = \"16MiB\"")
        .cgi("kill_grace = \"100ms\"")
        .cgiplus("max = 1, client_grace = \"100ms\", kill_grace = \"100ms\"")
        .python("holder", HOLDER)
        .python("ask", ASKER)
        .start();
    for mode in ["cgi", "cgiplus"] {
        let mut client = server.connect();
        client.get(&format!("/{mode}-bin/holder"));
        asks.line();
        drop(client);
        let begins = || answers(&server, "", "BUFFER-BEGIN: 16\nBUFFER-END:")[0] == "200 /dev/fd/4 16777216";
        assert!(
            wait_until(begins),
            "{mode}: the memory is not returned\n{}",
            server.log()
        );
    }
}

#[test]
fn idle_process_keeps_no_large_buffer() {
    let server = Setup::new().cgiplus("max = 1").python("filler", FILLER).start();
    for query in ["8M+f", "4k+f", "512k+fo"] {
        let response = server.get(&format!("/cgiplus-bin/filler?{query}"));
        assert_eq!(response.status, 200, "{}", server.log());
        let pid = pid_of(&response);
        let is_small = || buffer_bytes(&pid) <= KEPT_BYTES;
        assert!(wait_until(is_small), "{query}: it keeps {} bytes", buffer_bytes(&pid));
    }
    assert_eq!(server.processes().len(), 1, "it is the same process");
}

#[test]
fn bytes_of_an_earlier_exchange_are_sent_to_nobody_else() {
    let setup = Setup::new();
    let late = setup.event_fifo("late");
    let server = setup.cgiplus("max = 1").python("filler", FILLER).start();
    let mut pids = Vec::new();
    for earlier in ["64k+f", "64k+fr", "64k+fl", "4M+f", "4M+fr", "512k+fo", "0+no"] {
        for later in ["64k+", "64k+r", "4M+", "4M+r"] {
            let response = server.get(&format!("/cgiplus-bin/filler?{earlier}"));
            assert_eq!(response.status, 200, "{earlier}: {}", server.log());
            assert_eq!(response.body.contains(&b's'), !earlier.contains('n'), "{earlier}");
            if earlier.ends_with('l') {
                late.line();
            }
            pids.push(pid_of(&response));
            let response = server.get(&format!("/cgiplus-bin/filler?{later}"));
            let expected = if later.starts_with("4M") { 4 << 20 } else { 64 << 10 };
            assert_eq!(
                response.body.len(),
                expected,
                "{later} after {earlier}: {}",
                server.log()
            );
            let at = response.body.iter().position(|byte| *byte != 0);
            assert_eq!(at, None, "{later} after {earlier}: a byte of the earlier exchange");
            pids.push(pid_of(&response));
        }
    }
    assert!(pids.iter().all(|pid| *pid == pids[0]), "the process is kept");
}

#[test]
fn slow_client_gets_its_own_bytes_while_others_use_the_script() {
    // More than all socket buffers on the way hold.
    const LENGTH: usize = 24 << 20;
    let server = Setup::new().cgiplus("max = 1").python("filler", FILLER).start();
    let mut slow = server.connect();
    slow.get("/cgiplus-bin/filler?24M+f");
    let head = slow.head();
    let mut others: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for other in &mut others {
        other.get("/cgiplus-bin/filler?24M+");
    }
    assert!(
        others[0].is_silent_for(Duration::from_millis(200)),
        "the slow client's bytes are overwritten"
    );
    let (body, _) = slow.body(head.framing("GET"));
    assert_eq!(body.len(), LENGTH);
    assert!(body[4096..].iter().all(|byte| *byte == b's'), "its bytes are gone");
    // All at once, because two workers may queue them in any order, and one that is not read holds the process.
    std::thread::scope(|scope| {
        for mut other in others {
            scope.spawn(move || assert!(other.response().body == vec![0; LENGTH]));
        }
    });
}

#[test]
fn buffers_of_the_whole_server_are_bounded() {
    let setup = Setup::new();
    let begun = setup.event_fifo("begun");
    let mut gate = setup.gate("go");
    let server = setup
        .limits("memory_buffers = \"3MiB\"")
        .python(
            "hold",
            r#"
ask(b"BUFFER-BEGIN: 2")
report("begun")
wait_at("go")
put(HEAD + b"held")
"#,
        )
        .python("ask", ASKER)
        .start();
    let mut holding = server.connect();
    holding.get("/cgi-bin/hold");
    begun.line();
    for shape in ["", " ring"] {
        for _ in 0..3 {
            let answers = answers(&server, "", &format!("BUFFER-BEGIN: 2{shape}\nNOOP:"));
            assert!(
                answers[0].starts_with("503 the memory buffers of the server are all in use"),
                "{answers:?}"
            );
            assert_eq!(answers[1], "200 OK", "the script goes on");
        }
    }
    let answer = answers(&server, "", "BUFFER-BEGIN: 64\nNOOP:").swap_remove(0);
    assert!(
        answer.starts_with("413 ") && answer.contains("limits.memory_buffers"),
        "{answer}"
    );
    assert_eq!(
        answers(&server, "", "BUFFER-BEGIN: 1\nBUFFER-END:")[0],
        "200 /dev/fd/4 1048576"
    );
    let line = server.log_line("over the limit of 3145728");
    assert!(
        line.contains("limits.memory_buffers") && line.contains("cgi-bin/ask"),
        "{line}"
    );
    assert_eq!(
        server.log().matches("over the limit of 3145728").count(),
        1,
        "it is not repeated"
    );
    gate.open();
    assert_eq!(holding.response().text(), "held");
    let begins = || answers(&server, "", "BUFFER-BEGIN: 3\nBUFFER-END:")[0] == "200 /dev/fd/4 3145728";
    assert!(wait_until(begins), "the memory is not returned");
}

#[test]
fn reload_sets_another_bound_for_the_buffers_of_the_server() {
    let server = Setup::new()
        .limits("memory_buffers = \"1MiB\"")
        .python("ask", ASKER)
        .start();
    assert!(answers(&server, "", "BUFFER-BEGIN: 2")[0].starts_with("413 "));
    let path = server.path("sluice.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        path,
        text.replace("memory_buffers = \"1MiB\"", "memory_buffers = \"2MiB\""),
    )
    .unwrap();
    server.signal("HUP");
    let begins = || answers(&server, "", "BUFFER-BEGIN: 2\nBUFFER-END:")[0] == "200 /dev/fd/4 2097152";
    assert!(wait_until(begins), "{}", server.log());
}
