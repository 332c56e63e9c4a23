//! `sluice watch`: the command and its connection to the server.
//!
//! Not here: what is shown of a request.

mod filters;
mod in_browser;
mod page;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use sluice_testing::{RunResult, Server, Setup, Watcher, run, run_command, sluice, sluice_after, spawn};

/// The bound of `sluice_watch::Hub`.
const WATCHES_MAX: usize = 16;

fn watch(server: &Server, options: &[&str]) -> RunResult {
    run(server.setup().directory(), &[&["watch"], options].concat())
}

/// A connection to the control socket that watches, and has read the answer and the first line.
fn raw(server: &Server, spec: &str) -> Result<BufReader<UnixStream>, String> {
    let socket = server.path("run").join(format!("{}.sock", server.pid()));
    let mut stream = BufReader::new(UnixStream::connect(socket).unwrap());
    let command = format!("{{\"command\":\"watch\",\"spec\":{spec}}}\n");
    stream.get_mut().write_all(command.as_bytes()).unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    if !line.contains("\"ok\":true") {
        return Err(line);
    }
    line.clear();
    stream.read_line(&mut line).unwrap();
    assert!(line.starts_with("-- watching "), "{line}");
    Ok(stream)
}

#[test]
fn a_watch_says_what_it_shows_and_is_logged_at_both_ends() {
    let server = Setup::new().start();
    let watcher = Watcher::start(
        &server,
        &[
            "--items",
            "mapping",
            "--path",
            "/cgi-bin/*",
            "--status",
            "5xx",
            "--seconds",
            "1",
        ],
    );
    let what = "mapping of requests with path /cgi-bin/*, status 5xx";
    watcher.line(&format!("-- watching {what}"));
    let logged = server.log_line("watch by user ");
    assert!(logged.contains("(process ") && logged.contains(what), "{logged}");
    assert!(watcher.wait_end().status.success());
    server.log_line("the watcher has left; 0 events, 0 lost");
}

#[test]
fn wrong_options_are_refused_with_what_to_write() {
    let setup = Setup::new();
    for (options, expected) in [
        (
            &["--items", "mapping,scripts"][..],
            "unknown item \"scripts\": did you mean script? write a list of usual, request",
        ),
        (&["--path", "cgi-bin"], "must begin with / or *"),
        (
            &["--status", "5"],
            "must be a status such as 404, or a class such as 5xx",
        ),
        (&["--slower-than", "2"], "must be a time such as 500ms, 2s or 1m"),
        (&["--trigger", "errors"], "must be bytes=TEXT, status>=500 or slower=2s"),
        (&["--octets-max", "1G"], "must be a number of bytes"),
        (&["--client", "10.0.0.0/8"], "instead of a network"),
        (&["--seconds", "0"], "is not in 1..="),
    ] {
        let ran = run(setup.directory(), &[&["watch"], options].concat());
        assert_eq!(ran.status.code(), Some(2), "{options:?}: {}", ran.errors);
        assert!(ran.errors.contains(expected), "{options:?}: {}", ran.errors);
    }
}

#[test]
fn a_waterfall_is_drawn_at_the_end_of_a_request() {
    let server = Setup::new().file("a.txt", "a").start();
    let watcher = Watcher::start(
        &server,
        &[
            "--waterfall",
            "--once",
            "--items",
            "request-head,response-head",
            "--path",
            "/a.txt",
        ],
    );
    server.get("/a.txt");
    let shown = watcher.wait_end().output;
    let mut lines = shown.lines().skip_while(|line| !line.contains("waterfall 0"));
    let first = lines.next().unwrap_or_else(|| panic!("no waterfall in {shown}"));
    assert!(
        first.contains(": GET /a.txt, 200 OK, ") && first.ends_with(" ms"),
        "{first}"
    );
    let rows: Vec<&str> = lines.take_while(|line| !line.starts_with("--")).collect();
    assert!(rows[0].starts_with("   decided "), "{shown}");
    assert!(rows.last().unwrap().starts_with("   end "), "{shown}");
    assert!(rows.iter().all(|row| row.chars().count() <= 80), "{shown}");
    let refused = run(server.setup().directory(), &["watch", "--waterfall", "--json"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.errors);
}

#[test]
fn without_a_server_there_is_one_line() {
    let setup = Setup::new();
    let ran = run(setup.directory(), &["watch"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        ran.errors.contains("no running server") && ran.errors.lines().count() == 1,
        "{}",
        ran.errors
    );
}

#[test]
fn a_watch_ends_with_its_time_and_with_the_server() {
    let server = Setup::new().start();
    assert!(watch(&server, &["--seconds", "1"]).status.success());
    let ran = watch(&server, &["--once", "--seconds", "1", "--path", "/nothing"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        ran.errors.contains("no request was shown to its end within 1 s"),
        "{}",
        ran.errors
    );
    let text = Watcher::start(&server, &[]);
    let json = Watcher::start(&server, &["--json"]);
    server.stop();
    for (watcher, last) in [(text, "-- end: the server ends\n"), (json, "{\"ended\":\"server\"}\n")] {
        let ended = watcher.wait_end();
        assert_eq!(ended.status.code(), Some(1));
        assert!(
            ended.errors.contains("the server has ended") && ended.output.ends_with(last),
            "{}",
            ended.output
        );
    }
}

#[test]
fn a_killed_watcher_is_forgotten_at_once() {
    let server = Setup::new().start();
    for name in ["INT", "KILL"] {
        for _ in 0..WATCHES_MAX + 1 {
            let watcher = Watcher::start(&server, &[]);
            watcher.signal(name);
            assert!(!watcher.wait_end().status.success());
        }
    }
    server.log_lines(2 * (WATCHES_MAX + 1), "the watcher has left");
}

#[test]
fn a_thousand_watchers_are_refused_and_commands_and_requests_go_on() {
    let server = Setup::new().file("a.txt", "a").start();
    let (mut watching, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..1000 {
        match raw(&server, "{}") {
            Ok(stream) => watching.push(stream),
            Err(answer) => refused.push(answer),
        }
    }
    assert_eq!((watching.len(), refused.len()), (WATCHES_MAX, 1000 - WATCHES_MAX));
    let reason = "16 watches are active already: end one of them first";
    assert!(refused.iter().all(|answer| answer.contains(reason)), "{refused:?}");
    let ran = watch(&server, &[]);
    assert!(
        ran.status.code() == Some(1) && ran.errors.contains(reason),
        "{}",
        ran.errors
    );
    assert_eq!(server.get("/a.txt").text(), "a");
    // They do not count among the commands at once.
    assert!(run(server.setup().directory(), &["status"]).status.success());
    assert!(run(server.setup().directory(), &["reload"]).status.success());
    drop(watching);
    server.log_lines(WATCHES_MAX, "the watcher has left");
    Watcher::start(&server, &[]);
}

#[test]
fn a_wrong_command_of_another_program_is_answered() {
    let server = Setup::new().start();
    let socket = server.path("run").join(format!("{}.sock", server.pid()));
    for (command, expected) in [
        (
            "{\"command\":\"watch\",\"spec\":{\"items\":\"mappings\"}}",
            "not a watch: unknown item",
        ),
        ("{\"command\":\"watch\",\"spec\":{\"colour\":1}}", "unknown field"),
        ("{\"command\":\"watch\",\"spec\":{\"octets_max\":-1}}", "not a watch"),
        ("{\"command\":\"watch\",\"format\":\"xml\"}", "unknown variant"),
    ] {
        let mut stream = BufReader::new(UnixStream::connect(&socket).unwrap());
        stream.get_mut().write_all(format!("{command}\n").as_bytes()).unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        assert!(
            line.contains("\"ok\":false") && line.contains(expected),
            "{command}: {line}"
        );
    }
}

#[test]
fn a_file_is_for_its_owner_only() {
    let server = Setup::new().start();
    let ran = watch(&server, &["--output", "trace.txt", "--seconds", "1"]);
    assert!(ran.status.success() && ran.output.is_empty(), "{}", ran.errors);
    assert!(ran.errors.contains("bytes were written to trace.txt"), "{}", ran.errors);
    let file = server.path("trace.txt");
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .starts_with("-- watching usual items")
    );
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let ran = watch(&server, &["--output", "none/trace.txt", "--seconds", "1"]);
    assert!(
        ran.status.code() == Some(1) && ran.errors.contains("none/trace.txt: No such file"),
        "{}",
        ran.errors
    );
}

#[test]
fn a_file_that_exists_is_replaced_and_a_link_is_not_followed() {
    let server = Setup::new().file("known.txt", "known").start();
    let (trace, other) = (server.path("trace.txt"), server.path("other.txt"));
    std::fs::write(&trace, "before").unwrap();
    std::fs::set_permissions(&trace, std::fs::Permissions::from_mode(0o666)).unwrap();
    // Who has opened it before reads nothing of the trace.
    let mut open = std::fs::File::open(&trace).unwrap();
    let ran = watch(&server, &["--output", "trace.txt", "--seconds", "1"]);
    assert!(ran.status.success(), "{}", ran.errors);
    assert_eq!(trace.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(&trace).unwrap().starts_with("-- watching"));
    let mut before = String::new();
    open.read_to_string(&mut before).unwrap();
    assert_eq!(before, "before");
    std::os::unix::fs::symlink("other.txt", server.path("link.txt")).unwrap();
    let ran = watch(&server, &["--output", "link.txt", "--seconds", "1"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(ran.errors.contains("link.txt: is a symbolic link"), "{}", ran.errors);
    assert!(!other.exists());
    let ran = watch(&server, &["--output", "/dev/null", "--seconds", "1"]);
    assert!(ran.status.success(), "{}", ran.errors);
}

#[test]
fn what_steers_a_terminal_is_escaped_in_text_and_in_json() {
    let server = Setup::new().start();
    let text = Watcher::start(&server, &["--items", "request-head"]);
    let json = Watcher::start(&server, &["--items", "request-head", "--json"]);
    let sent = "GET / HTTP/1.1\r\nHost: localhost\r\nX-Sent: a\u{9b}31m\u{202e}b\r\n\r\n";
    server.connect().send(sent).head();
    for (watcher, expected) in [(text, "a\\u{9b}31m\\u{202e}b"), (json, "a\\u009b31m\\u202eb")] {
        let line = watcher.line(expected);
        assert!(!line.contains(['\u{9b}', '\u{202e}']), "{line}");
    }
}

#[test]
fn what_another_program_says_on_a_socket_does_not_steer_the_terminal() {
    let setup = Setup::new();
    let listener = std::os::unix::net::UnixListener::bind(setup.path("other.sock")).unwrap();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        BufReader::new(stream.try_clone().unwrap())
            .read_line(&mut String::new())
            .unwrap();
        stream
            .write_all(b"{\"ok\":true,\"messages\":[]}\n\x1b]0;own\x07\x1b[31m\n")
            .unwrap();
    });
    let ran = run(setup.directory(), &["watch", "--server", "./other.sock"]);
    other.join().unwrap();
    assert!(
        ran.output.contains("\\u{1b}]0;own\\u{7}\\u{1b}[31m\n"),
        "{:?}",
        ran.output
    );
}

#[test]
fn a_closed_pipe_ends_the_command_well() {
    let server = Setup::new().start();
    let mut command = Command::new("sh");
    let own = sluice(server.setup().directory());
    command
        .args(["-c", "\"$0\" watch | head -n 1"])
        .arg(own.get_program())
        .current_dir(server.setup().directory())
        .env("SLUICE_RUNTIME_DIR", server.path("run"))
        .stdout(Stdio::piped());
    let child = spawn(&mut command).unwrap();
    // Without another event.
    server.log_line("the watcher has left");
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("-- watching"));
}

#[test]
fn reload_and_drain_do_not_wait_for_watchers() {
    let server = Setup::new().start();
    let watcher = Watcher::start(&server, &[]);
    let stopped = Watcher::start(&server, &[]);
    stopped.signal("STOP");
    assert!(run(server.setup().directory(), &["reload"]).status.success());
    assert!(watcher.text().lines().count() == 1, "{}", watcher.text());
    assert!(run(server.setup().directory(), &["drain"]).status.success());
    server.wait_end();
    watcher.line("-- end: the server ends");
    stopped.signal("CONT");
    stopped.line("-- end: the server ends");
}

#[test]
fn a_socket_of_somebody_else_is_not_trusted() {
    // Only root can become other users.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let setup = Setup::new();
    // Who listens is the one who calls listen(2).
    let listener = "
import os, socket, sys
s = socket.socket(socket.AF_UNIX); s.bind('other.sock'); os.chmod('other.sock', 0o777)
os.setresgid(65533, 65533, 65533); os.setresuid(65533, 65533, 65533)
s.listen(); print('listening', flush=True); s.accept(); sys.stdin.read()";
    let mut command = Command::new("python3");
    command.args(["-c", listener]).current_dir(setup.directory());
    let mut child = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let mut own = sluice_after(setup.directory(), "become_ordinary_user()");
    let ran = run_command(own.args(["watch", "--server", "./other.sock"]));
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        ran.errors.contains("other.sock: the socket belongs to user 65533"),
        "{}",
        ran.errors
    );
}
