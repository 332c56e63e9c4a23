//! The state of a running server, and commands to it: over the control socket, in `sluice status` and `sluice top`.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use sluice_testing::{
    Client, Ending, FifoReader, Gate, RunResult, SLOW, Server, Setup, is_alive, request, run, run_command, sluice,
    sluice_after, spawn, top, wait_until,
};

/// A server with the script `slow`.
fn start_slow(setup: Setup) -> (Server, FifoReader, Gate) {
    let server = setup.python("slow", SLOW).start();
    let (begun, gate) = (server.setup().event_fifo("begun"), server.setup().gate("go"));
    (server, begun, gate)
}

fn ask(server: &Server, arguments: &[&str]) -> RunResult {
    run(server.setup().directory(), arguments)
}

/// The pool of the script whose file has this name.
fn pool<'a>(top: &'a Value, name: &str) -> &'a Value {
    let pools = top["state"]["scripts"]["pools"].as_array().unwrap();
    let is_meant = |pool: &&Value| pool["script"].as_str().unwrap().ends_with(&format!("/{name}"));
    pools
        .iter()
        .find(is_meant)
        .unwrap_or_else(|| panic!("no pool {name} in {top:#}"))
}

fn begin(server: &Server, path: &str) -> Client {
    let mut client = server.connect();
    client.get(path);
    client
}

#[test]
fn a_hanging_cgiplus_process_is_seen_with_its_request_and_retired() {
    let (server, begun, mut gate) = start_slow(Setup::new().cgiplus("max = 1"));
    let mut client = begin(&server, "/cgiplus-bin/slow?a");
    let pid: u32 = begun.line().parse().unwrap();
    let mut waiting = begin(&server, "/cgiplus-bin/slow?b");
    assert!(wait_until(|| pool(&top(&server), "slow")["waiting"] == 1));
    let shown = top(&server);
    let process = &pool(&shown, "slow")["processes"][0];
    assert_eq!((&process["pid"], &process["phase"]), (&pid.into(), &"busy".into()));
    assert_eq!(process["request"]["target"], "/cgiplus-bin/slow?a", "{shown:#}");
    assert!(process["usage"]["rss_bytes"].as_u64().unwrap() > 100_000);
    let first = request(&shown, "/cgiplus-bin/slow?a").unwrap();
    assert_eq!(
        (&first["pid"], &first["state"]),
        (&pid.into(), &"producing".into()),
        "{first:#}"
    );
    assert_eq!(process["request"]["id"], first["id"]);
    assert_eq!(request(&shown, "/cgiplus-bin/slow?b").unwrap()["state"], "waiting");

    let frame = ask(&server, &["top", "--once"]).output;
    for words in [
        &*pid.to_string(),
        "busy",
        "waiting",
        "/cgiplus-bin/slow?a",
        "SCRIPT (1)",
    ] {
        assert!(frame.contains(words), "no {words:?} in\n{frame}");
    }
    assert!(frame.lines().all(|line| line.chars().count() <= 80), "{frame}");
    let status = ask(&server, &["status"]).output;
    assert!(status.contains("/slow (cgiplus): 1 busy, 1 waiting"), "{status}");

    // By its path; the busy process ends after its exchange, and the next request gets a new one.
    let ran = ask(&server, &["retire", "/cgiplus-bin/slow"]);
    assert!(
        ran.status.success() && ran.output.contains("busy, will end after the exchange"),
        "{}",
        ran.output
    );
    server.log_line("sluice retire: /cgiplus-bin/slow: 1 process retired");
    assert!(is_alive(pid));
    gate.open();
    assert_eq!(client.response().text(), "begin end");
    assert_ne!(begun.line().parse::<u32>().unwrap(), pid);
    gate.open();
    waiting.response();
    // By its file; the idle one ends now.
    let file = server.path("htdocs/cgi-bin/slow");
    let ran = ask(&server, &["retire", file.to_str().unwrap()]);
    assert!(ran.output.contains("idle, ended now"), "{}{}", ran.output, ran.errors);
    server.wait_for_processes(0);
    let shown = top(&server);
    let ended = &pool(&shown, "slow")["ended"];
    assert_eq!(
        (&ended[1]["pid"], &ended[1]["why"]),
        (&pid.into(), &"retired by the administrator".into()),
        "{ended:#}"
    );
    assert_eq!(
        (&ended[1]["uses"], pool(&shown, "slow")["started"].as_u64()),
        (&1.into(), Some(2))
    );
}

#[test]
fn retiring_an_unknown_script_names_those_that_run() {
    let (server, begun, mut gate) = start_slow(Setup::new());
    let mut client = begin(&server, "/cgiplus-bin/slow");
    begun.line();
    let ran = ask(&server, &["retire", "/cgi-bin/slwo"]);
    assert_eq!(ran.status.code(), Some(1));
    for words in ["no processes of a script \"/cgi-bin/slwo\"", "cgi-bin/slow"] {
        assert!(ran.output.contains(words), "no {words:?} in {}", ran.output);
    }
    gate.open();
    client.response();
}

#[test]
fn an_ended_request_is_answered_with_503_and_its_process_is_stopped() {
    for mode in ["cgi", "cgiplus"] {
        let (server, begun, _gate) = start_slow(Setup::new());
        let path = format!("/{mode}-bin/slow?silent");
        let mut client = begin(&server, &path);
        let pid: u32 = begun.line().parse().unwrap();
        let shown = top(&server);
        let found = request(&shown, &path).unwrap();
        assert_eq!(found["state"], "script", "{found:#}");
        let id = found["id"].as_str().unwrap();
        let ran = ask(&server, &["end", id]);
        assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
        assert!(
            ran.output.contains(&path) && ran.output.contains(&pid.to_string()),
            "{}",
            ran.output
        );
        let response = client.response();
        assert_eq!(response.status, 503, "{mode}");
        server.wait_for_processes(0);
        assert_eq!(server.access_lines(1).len(), 1);
        server.log_line(&format!("sluice end: request {id} is ended"));
        let lines = server.log();
        assert_eq!(lines.lines().filter(|line| line.contains(id)).count(), 1, "{lines}");
        let shown = top(&server);
        let ended = &pool(&shown, "slow")["ended"][0];
        assert_eq!(ended["why"], "its request was ended by the administrator");
        let again = ask(&server, &["end", id]);
        assert!(
            !again.status.success() && again.output.contains("no request in progress"),
            "{}",
            again.output
        );
    }
}

#[test]
fn a_response_that_is_being_sent_is_aborted_when_its_request_is_ended() {
    let (server, begun, _gate) = start_slow(Setup::new());
    let mut client = begin(&server, "/cgiplus-bin/slow");
    begun.line();
    client.take_through(b"begin ");
    let id = request(&top(&server), "/cgiplus-bin/slow").unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(ask(&server, &["end", &id]).status.success());
    assert_eq!(client.rest().1, Ending::Truncated);
    server.wait_for_processes(0);
    let line = server.access_lines(1).swap_remove(0);
    assert!(line.contains("/cgiplus-bin/slow"), "{line}");
}

#[test]
fn a_client_that_takes_nothing_is_ended_too() {
    let server = Setup::new().file("large", vec![b'x'; 8 << 20]).start();
    let mut client = begin(&server, "/large");
    client.take_through(b"\r\n\r\n");
    assert!(wait_until(
        || request(&top(&server), "/large").is_some_and(|request| request["state"] == "sending")
    ));
    let shown = top(&server);
    let id = request(&shown, "/large").unwrap()["id"].as_str().unwrap();
    assert!(ask(&server, &["end", id]).status.success());
    assert!(wait_until(|| request(&top(&server), "/large").is_none()));
    drop(client);
}

#[test]
fn uploads_and_connections_are_shown() {
    let server = Setup::new()
        .script("sink", "cat > /dev/null; printf 'Content-Type: text/plain\\n\\n'")
        .start();
    let mut client = server.connect();
    client.send("POST /cgi-bin/sink HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    let is_reading = |shown: &Value| {
        let found = request(shown, "/cgi-bin/sink");
        found.is_some_and(|request| request["state"] == "body" && request["received_bytes"] == 5)
    };
    assert!(wait_until(|| is_reading(&top(&server))), "{:#}", top(&server));
    let shown = top(&server);
    let found = request(&shown, "/cgi-bin/sink").unwrap();
    assert_eq!((&found["method"], &found["host"]), (&"POST".into(), &"a.test".into()));
    client.send("0\r\n\r\n");
    assert_eq!(client.response().status, 200);
}

#[test]
fn a_thousand_requests_in_progress_are_shown_and_do_not_delay_others() {
    const REQUESTS: usize = 1000;
    let (server, begun, mut gate) = start_slow(
        Setup::new()
            .limits("connections_per_client = 0")
            .cgiplus("max = 1, queue = 2000"),
    );
    let mut first = begin(&server, "/cgiplus-bin/slow");
    begun.line();
    let clients: Vec<_> = (1..REQUESTS).map(|_| begin(&server, "/cgiplus-bin/slow")).collect();
    assert!(wait_until(|| top(&server)["requests"]["total"] == REQUESTS));
    for _ in 0..10 {
        let shown = top(&server);
        assert_eq!(shown["requests"]["requests"].as_array().unwrap().len(), REQUESTS);
        assert_eq!(pool(&shown, "slow")["waiting"], REQUESTS - 1);
        let asked = Instant::now();
        assert_eq!(server.get("/health.txt").status, 200);
        let time = asked.elapsed();
        assert!(time < Duration::from_secs(2), "{time:?}");
    }
    drop(clients);
    assert!(wait_until(|| top(&server)["requests"]["total"] == 1));
    gate.open();
    first.response();
}

#[test]
fn top_needs_a_terminal_and_says_so() {
    let server = Setup::new().start();
    let ran = ask(&server, &["top"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(ran.errors.contains("--once"), "{}", ran.errors);
    let ran = run(server.setup().directory(), &["top", "--interval", "0"]);
    assert!(ran.errors.contains("0.2 to 60"), "{}", ran.errors);
}

/// Runs `sluice top` in a terminal of its own: presses keys when words appear, and then closes the terminal or waits for the end. Prints how it ended.
const TERMINAL: &str = r#"
import fcntl, os, pty, select, struct, sys, termios, time
program, *steps = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    os.execv(program, [program, "top", "--interval", "0.2"])
deadline, shown = time.monotonic() + 60, b""
for step in steps:
    words, key = step.split("=", 1)
    while words.encode() not in shown:
        if not select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0]:
            os.kill(pid, 9)
            sys.exit("no %r in %r" % (words, shown))
        try:
            shown += os.read(terminal, 65536)
        except OSError:
            sys.exit("it ended: %r" % shown)
    shown = b""
    if key:
        os.write(terminal, key.encode())
    else:
        os.close(terminal)
while time.monotonic() < deadline:
    if steps[-1].split("=", 1)[1] and select.select([terminal], [], [], 0.05)[0]:
        try:
            os.read(terminal, 65536)
        except OSError:
            pass
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended:
        print("ended", os.waitstatus_to_exitcode(status))
        sys.exit(0)
    time.sleep(0.02)
os.kill(pid, 9)
sys.exit("it did not end")
"#;

fn top_in_terminal(server: &Server, steps: &[&str]) -> String {
    let own = sluice(server.setup().directory());
    let mut command = Command::new("python3");
    command.args(["-c", TERMINAL]).arg(own.get_program()).args(steps);
    command.current_dir(server.setup().directory());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let ran = run_command(command.env("SLUICE_RUNTIME_DIR", server.path("run")));
    assert!(ran.status.success(), "{}", ran.errors);
    ran.output
}

#[test]
fn top_ends_when_its_terminal_is_closed() {
    let server = Setup::new().start();
    let ended = top_in_terminal(&server, &["quit="]);
    assert!(ended.starts_with("ended "), "{ended}");
}

#[test]
fn the_key_that_ends_a_watch_does_not_end_top() {
    let (server, begun, mut gate) = start_slow(Setup::new());
    let mut client = begin(&server, "/cgi-bin/slow");
    begun.line();
    let steps = ["/cgi-bin/slow=w", "-- watching=\u{3}", "quit=q"];
    assert_eq!(top_in_terminal(&server, &steps), "ended 0\n");
    gate.open();
    client.response();
}

#[test]
fn the_socket_of_another_user_is_not_trusted() {
    // Only root can become another user.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let setup = Setup::new();
    let path = setup.path("other.sock");
    std::fs::set_permissions(setup.directory(), std::fs::Permissions::from_mode(0o777)).unwrap();
    // A server of user 65533, and a client of user 65534.
    let server = "import os, socket, sys
os.setresgid(65533, 65533, 65533); os.setresuid(65533, 65533, 65533)
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); os.chmod(sys.argv[1], 0o777)
s.accept()[0].recv(1)";
    let mut command = Command::new("python3");
    command.args(["-c", server]).arg(&path);
    let mut server = spawn(&mut command).unwrap();
    assert!(wait_until(
        || path.exists() && path.metadata().unwrap().permissions().mode() & 0o777 == 0o777
    ));
    let mut client = sluice_after(setup.directory(), "become_ordinary_user()");
    client.args(["status", "--server"]).arg(&path);
    let ran = run_command(&mut client);
    assert!(
        ran.errors.contains("belongs to user 65533") && ran.errors.contains("not trusted"),
        "{}",
        ran.errors
    );
    let _ = server.kill();
    server.wait().unwrap();
}
