//! Scripts that keep a pipe of theirs locked, by splice(2) from a socket that is silent: the kernel then makes everybody wait who uses the pipe, or
//! closes it, and no signal ends that.
//!
//! None of it may delay another client, and the script is ended. Each test has one worker, so that a worker that waits answers nobody.

use std::process::{Child, Command, Stdio};

use sluice_testing::{Server, Setup, signal};

/// `hold(fd)` keeps a pipe locked in a thread from when it returns; `fill(fd)` first writes to it, so that the server has something to read.
const HOLD: &str = r#"
import socket, threading

def hold(fd, near=[]):
    pair = socket.socketpair()
    near.append(pair)
    def splice():
        try:
            os.splice(pair[0].fileno(), fd, 65536)
        except OSError as error:
            put(b"%d" % error.errno)
    thread = threading.Thread(target=splice, daemon=True)
    thread.start()
    # It waits in the kernel, with the lock.
    while thread.is_alive():
        call = open(f"/proc/self/task/{thread.native_id}/syscall").read().split()[0]
        if call in ("275", "76"):
            return

def events(line):
    with open(os.environ["TEST_DIR"] + "/events", "w") as fifo:
        fifo.write(line + "\n")

def wait():
    threading.Event().wait()
"#;

fn setup() -> Setup {
    Setup::new()
        .workers(1)
        .file("page.txt", "a page")
        .script("other", "printf 'Content-Type: text/plain\\n\\nother'")
}

fn python(setup: Setup, name: &str, text: &str) -> Setup {
    setup.python(name, &format!("{HOLD}{text}"))
}

/// Others are served while the script keeps its pipe locked: it ends by a signal of the server alone.
#[track_caller]
fn assert_others_are_served(server: &Server) {
    for _ in 0..3 {
        assert_eq!(server.get("/page.txt").text(), "a page");
        assert_eq!(server.get("/cgi-bin/other").text(), "other");
    }
}

#[test]
fn standard_error_that_is_locked_delays_nobody_and_ends_its_script() {
    let setup = setup();
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let text = "put(HEAD + b'head')\nevents('started')\nopen(os.environ['TEST_DIR'] + '/gate').readline()\n\
                os.write(2, b'a line\\n')\nhold(2)\nevents('locked')\nwait()";
    let server = python(setup, "holds", text).start();
    let mut client = server.connect();
    client.get("/cgi-bin/holds").head();
    assert_eq!(events.line(), "started");
    // There is something to read, and nobody has read it when the pipe is locked.
    signal(server.server_pid(), "STOP");
    gate.open();
    assert_eq!(events.line(), "locked");
    signal(server.server_pid(), "CONT");
    assert_others_are_served(&server);
    let line = server.log_line("keeps this pipe locked");
    assert!(
        line.contains("cannot read its standard error for more than 1 s")
            && line.contains("/holds")
            && line.contains("it is stopped"),
        "{line}"
    );
    server.wait_for_processes(0);
    assert_others_are_served(&server);
    server.stop();
}

#[test]
fn standard_input_that_is_locked_delays_nobody_and_ends_its_script() {
    let setup = setup();
    let events = setup.event_fifo("events");
    let text = "hold(os.open('/dev/fd/0', os.O_WRONLY))\nevents('locked')\nwait()";
    let server = python(setup, "holds", text).start();
    let mut client = server.connect();
    client.send("POST /cgi-bin/holds HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n");
    assert_eq!(events.line(), "locked");
    client.send("body");
    assert_others_are_served(&server);
    let line = server.log_line("keeps this pipe locked");
    assert!(line.contains("cannot write to its standard input"), "{line}");
    assert_eq!(client.response().status, 502);
    server.wait_for_processes(0);
    server.stop();
}

#[test]
fn a_request_for_a_process_that_locks_cgiplusin_is_given_to_another_one() {
    let setup = setup();
    let events = setup.event_fifo("events");
    // The first process only.
    let text = "first = not os.path.exists(os.environ['TEST_DIR'] + '/was')\nopen(os.environ['TEST_DIR'] + '/was', 'w')\n\
                while variables := accept():\n    if first:\n        hold(os.open('/dev/fd/3', os.O_WRONLY))\n    put(HEAD + b'first' if first else HEAD + b'second')\n    finish()\n    \
                events('done')\n    if first:\n        wait()";
    let server = python(setup, "holds", text).cgiplus("max = 1").start();
    assert_eq!(server.get("/cgiplus-bin/holds").text(), "first");
    assert_eq!(events.line(), "done");
    let mut client = server.connect();
    client.get("/cgiplus-bin/holds");
    assert_others_are_served(&server);
    let line = server.log_line("keeps this pipe locked");
    assert!(line.contains("cannot write to its CGIPLUSIN"), "{line}");
    assert_eq!(client.response().text(), "second");
    server.stop();
}

#[test]
fn standard_output_that_is_locked_delays_nobody_where_it_is_a_pipe() {
    let setup = setup();
    let events = setup.event_fifo("events");
    let text = "put(HEAD + b'begin')\nhold(1)\nevents('locked')\nwait()";
    let server = python(setup, "holds", text).cgi("mailbox = \"pipe\"").start();
    let mut client = server.connect();
    client.get("/cgi-bin/holds").head();
    assert_eq!(client.chunk(), b"begin");
    assert_eq!(events.line(), "locked");
    assert_others_are_served(&server);
    drop(client);
    assert_others_are_served(&server);
    server.wait_for_processes(0);
    server.stop();
}

#[test]
fn copying_from_a_silent_connection_as_the_standard_library_of_rust_does_delays_nobody() {
    let setup = setup();
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    // std::io::copy: splice(2), and read and write where that is refused (EINVAL: neither is a pipe).
    let text = "near, far = socket.socketpair()\n\
                def copy():\n    \
                    while True:\n        \
                        try:\n            \
                            if not os.splice(near.fileno(), 1, 65536): return\n        \
                        except OSError:\n            \
                            data = near.recv(65536)\n            \
                            if not data: return\n            \
                            put(data)\n\
                put(HEAD)\nthread = threading.Thread(target=copy)\nthread.start()\nevents('copying')\n\
                open(os.environ['TEST_DIR'] + '/gate').readline()\nfar.sendall(b'from upstream')\nfar.close()\nthread.join()";
    let server = python(setup, "copies", text).start();
    let mut client = server.connect();
    client.get("/cgi-bin/copies");
    assert_eq!(events.line(), "copying");
    assert_others_are_served(&server);
    gate.open();
    assert_eq!(client.response().text(), "from upstream");
    server.stop();
}

/// Keeps the standard error of processes locked until it is killed, also when they have ended.
fn hold_errors_of(pids: &[u32]) -> Child {
    let text = "import os, socket, sys, threading\n\
                pairs = [(open(f'/proc/{pid}/fd/2', 'wb', 0), socket.socketpair()) for pid in sys.argv[1:]]\n\
                for pipe, pair in pairs:\n    \
                    pipe.write(b'x\\n')\n    \
                    threading.Thread(target=os.splice, args=(pair[0].fileno(), pipe.fileno(), 65536), daemon=True).start()\n\
                for thread in os.listdir('/proc/self/task')[1:]:\n    \
                    while not open(f'/proc/self/task/{thread}/syscall').read().startswith(('275 ', '76 ')): pass\n\
                print(flush=True)\nthreading.Event().wait()";
    let pids = pids.iter().map(ToString::to_string);
    let mut child = Command::new("python3")
        .args(["-c", text])
        .args(pids)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    child
}

#[test]
fn a_user_whose_pipes_stay_locked_gets_no_new_process_until_they_are_free() {
    let setup = setup();
    let events = setup.event_fifo("events");
    let server = python(setup, "waits", "put(HEAD)\nevents(str(os.getpid()))\nwait()").start();
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let mut client = server.connect();
            client.get("/cgi-bin/waits").head();
            client
        })
        .collect();
    let pids: Vec<u32> = (0..8).map(|_| events.line().parse().unwrap()).collect();
    // There is something to read, and nobody has read it when the pipes are locked.
    signal(server.server_pid(), "STOP");
    let mut holder = hold_errors_of(&pids);
    signal(server.server_pid(), "CONT");
    let line = server.log_line("get no new process until");
    assert!(line.contains("scripts of the user with number"), "{line}");
    assert_eq!(server.get("/page.txt").text(), "a page");
    let response = server.get("/cgi-bin/other");
    assert_eq!(response.status, 503, "{}", server.log());
    assert!(response.field("retry-after").is_some());
    server.log_line("keep too many of their pipes locked");
    holder.kill().unwrap();
    holder.wait().unwrap();
    drop(clients);
    server.wait_for_processes(0);
    assert_eq!(server.get("/cgi-bin/other").text(), "other");
    server.stop();
}

#[test]
fn names_of_channels_that_are_pipes_can_be_opened() {
    let setup = setup()
        .script(
            "errors",
            "printf 'Content-Type: text/plain\\n\\n'; echo named > /dev/stderr; echo copied | tee /dev/stderr",
        )
        .script("input", "printf 'Content-Type: text/plain\\n\\n'; cat /dev/stdin")
        .script(
            "refused",
            "printf 'Content-Type: text/plain\\n\\n'; (echo opened > /dev/stdout) || echo refused",
        )
        .script_route(
            "/piped/*",
            "directory = \"htdocs/cgi-bin\", mode = \"cgi\", mailbox = \"pipe\"",
        )
        .script(
            "output",
            "printf 'Content-Type: text/plain\\n\\n'; echo opened > /dev/stdout; echo copied | tee /dev/stdout",
        );
    let server = setup.start();
    assert_eq!(server.get("/cgi-bin/errors").text(), "copied\n");
    server.log_line("named");
    server.log_line("copied");
    assert_eq!(server.post("/cgi-bin/input", "a body").text(), "a body");
    assert_eq!(server.get("/piped/output").text(), "opened\ncopied\ncopied\n");
    // A socket has no name that can be opened.
    assert_eq!(server.get("/cgi-bin/refused").text(), "refused\n");
    server.log_line("No such device or address");
}
