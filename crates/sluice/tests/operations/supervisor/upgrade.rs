//! `sluice upgrade`.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use super::{Load, command, next_server_process, note, rounds, status};
use sluice_testing::{Authority, DEADLINE, Server, Setup, is_alive, launchers_of, signal, wait_until, write_script};

const SLOW: &str = r#"echo started > "$TEST_DIR/events"; read line < "$TEST_DIR/gate"
printf 'Content-Type: text/plain\n\nanswered'"#;

fn upgrade(server: &Server) {
    let ran = command(server, &["upgrade"]);
    assert!(
        ran.status.success() && ran.output.contains("goes on, as server process"),
        "{}{}",
        ran.output,
        ran.errors
    );
}

#[test]
fn an_upgrade_keeps_the_process_and_lets_exchanges_complete() {
    let setup = Setup::new().file("a.txt", "a").script("slow", SLOW);
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let server = setup.start();
    let mut client = server.connect();
    client.get("/cgi-bin/slow");
    events.line();
    let (supervisor, old) = (server.pid(), server.server_pid());
    upgrade(&server);
    let new = next_server_process(&server, old);
    assert_eq!(server.get("/a.txt").text(), "a");
    assert!(is_alive(old), "it has an exchange in progress");
    gate.open();
    assert_eq!(client.response().text(), "answered");
    assert!(wait_until(|| !is_alive(old)));
    let state = status(&server);
    assert_eq!((&state["pid"], &state["server_pid"]), (&supervisor.into(), &new.into()));
    assert_eq!(state["supervisor"]["upgrades"], 1);
    assert_eq!(state["supervisor"]["restarts"], 0);
}

#[test]
fn a_server_whose_launcher_has_a_large_plan_can_be_upgraded() {
    let mut setup = Setup::new().script("path", "printf 'Content-Type: text/plain\\n\\n'; echo ${#PYTHONPATH}");
    // Together more than the buffer of a socket takes, 208 KiB.
    for number in 0..5 {
        let value = number.to_string().repeat(60_000);
        let keys = format!("directory = \"htdocs/cgi-bin\", environment = {{ PYTHONPATH = \"{value}\" }}");
        setup = setup.script_route(&format!("/{number}/*"), &keys);
    }
    let server = setup.start();
    assert_eq!(server.get("/4/path").text().trim(), "60000");
    let old = server.server_pid();
    upgrade(&server);
    next_server_process(&server, old);
    assert_eq!(server.get("/4/path").text().trim(), "60000");
}

#[test]
fn upgrades_under_load_lose_no_request_and_signals_still_work() {
    let server = Load::setup().start();
    let load = Load::of_all_kinds(&server);
    let turns = rounds(3);
    for _ in 0..turns {
        upgrade(&server);
        load.goes_on();
    }
    note(&format!("{turns} upgrades, {} requests, none lost", load.end()));
    server.signal("HUP");
    server.log_line("SIGHUP: sluice.toml is in force");
    assert_eq!(status(&server)["supervisor"]["upgrades"], turns);
}

/// Continues as an ordinary user, with a copy of the program that this user may execute.
const OWN_COPY: &str = "
import shutil
shutil.copy(sys.argv[1], 'program')
become_ordinary_user()
binary = os.open('program', os.O_RDONLY)
";

#[test]
fn an_ordinary_user_can_restart_reload_and_upgrade() {
    let server = Setup::new()
        .file("a.txt", "a")
        .script(
            "descendant",
            "setsid sleep 1000 >/dev/null 2>&1 &\nprintf 'Content-Type: text/plain\\n\\n'; sleep 1000",
        )
        .server("control = \"control.sock\"")
        .start_after(OWN_COPY);
    server.connect().get("/cgi-bin/descendant");
    assert!(wait_until(|| server.processes().len() >= 3), "{:?}", server.processes());
    let old = server.server_pid();
    assert!(signal(old, "KILL"));
    let second = next_server_process(&server, old);
    assert_eq!(server.get("/a.txt").text(), "a");
    server.wait_for_processes(0);
    server.signal("HUP");
    server.log_line("SIGHUP: sluice.toml is in force");
    // By root, as an administrator gives it.
    let ran = command(&server, &["upgrade", "-c", "sluice.toml"]);
    assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
    next_server_process(&server, second);
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn a_connection_that_has_sent_nothing_yet_is_still_answered() {
    let server = Setup::new().workers(1).file("a.txt", "a").start();
    let (mut fresh, mut idle) = (server.connect(), server.connect());
    assert_eq!(idle.get("/a.txt").response().text(), "a");
    // The server has accepted the first one, because its worker has answered a later one.
    upgrade(&server);
    for client in [&mut fresh, &mut idle] {
        // The worker may read a request before it learns that it is replaced.
        assert!(wait_until(|| {
            let response = client.get("/a.txt").response();
            assert_eq!((response.status, response.text()), (200, "a"));
            response.field("connection") == Some("close")
        }));
        client.assert_closed();
    }
}

#[test]
fn an_invalid_configuration_is_reported_and_the_old_server_goes_on() {
    let server = Setup::new().file("a.txt", "a").start();
    let old = server.server_pid();
    let text = fs::read_to_string(server.path("sluice.toml")).unwrap();
    fs::write(server.path("sluice.toml"), format!("{text}\n[sever]\n")).unwrap();
    let ran = command(&server, &["upgrade"]);
    assert!(!ran.status.success());
    assert!(
        ran.output.contains("sever") && ran.output.contains("goes on as it was"),
        "{}{}",
        ran.output,
        ran.errors
    );
    assert_eq!((server.server_pid(), server.get("/a.txt").text()), (old, "a"));
}

const TLS: &str = "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"used.pem\" }";

#[test]
fn an_upgrade_that_fails_leaves_the_certificates_in_force_watched() {
    let authority = Authority::new();
    let setup = Setup::new().listeners(TLS);
    authority.issue_to(&setup.path("used.pem"), &["localhost"]);
    let server = setup.start();
    let text = fs::read_to_string(server.path("sluice.toml")).unwrap();
    // Only the server process finds that it cannot make this file.
    let text = text
        .replace("used.pem", "other.pem")
        .replace("[log]\n", "[log]\ndiagnostics = \"/proc/sluice-test.log\"\n");
    fs::write(server.path("sluice.toml"), text).unwrap();
    authority.issue_to(&server.path("other.pem"), &["localhost"]);
    let ran = command(&server, &["upgrade"]);
    assert!(ran.output.contains("server log /proc/"), "{}{}", ran.output, ran.errors);
    authority.issue_to(&server.path("new.pem"), &["localhost"]);
    fs::rename(server.path("new.pem"), server.path("used.pem")).unwrap();
    server.log_line("certificates have changed: the new ones are in force");
}

/// The program that gives up has seen the new files only.
#[test]
fn certificates_that_have_changed_just_before_an_upgrade_that_fails_are_used_all_the_same() {
    let authority = Authority::new();
    let setup = Setup::new().listeners(TLS);
    authority.issue_to(&setup.path("used.pem"), &["localhost"]);
    let server = setup.start();
    let text = fs::read_to_string(server.path("sluice.toml")).unwrap();
    let text = text.replace("[log]\n", "[log]\ndiagnostics = \"/proc/sluice-test.log\"\n");
    fs::write(server.path("sluice.toml"), text).unwrap();
    authority.issue_to(&server.path("new.pem"), &["localhost"]);
    fs::rename(server.path("new.pem"), server.path("used.pem")).unwrap();
    let ran = command(&server, &["upgrade"]);
    assert!(ran.output.contains("server log /proc/"), "{}{}", ran.output, ran.errors);
    server.log_line("certificates have changed: the new ones are in force");
}

#[test]
fn a_launcher_that_does_not_end_is_killed_after_an_upgrade_too() {
    let server = Setup::new().file("a.txt", "a").start();
    let (launcher, old) = (launcher_of(&server), server.server_pid());
    assert!(signal(launcher, "STOP"));
    assert!(signal(old, "KILL"));
    next_server_process(&server, old);
    assert_eq!(server.get("/a.txt").text(), "a");
    upgrade(&server);
    assert!(!server.log().contains("does not end"), "{}", server.log());
    server.log_line(&format!("launcher process {launcher} does not end: it is killed"));
    assert!(wait_until(|| !is_alive(launcher)));
}

/// A copy of the program that a test may replace.
struct Program(PathBuf);

impl Program {
    fn new() -> Program {
        let name = format!("sluice-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::hard_link(env!("CARGO_BIN_EXE_sluice"), &path).unwrap();
        Program(path)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A program that could take over, but with which server process and launcher could not talk.
const OTHER_VERSION: &str = r#"#!/usr/bin/env python3
import socket
supervisor = socket.socket(fileno=0)
supervisor.setblocking(True)
supervisor.recv(1 << 20)
supervisor.send(b'.{"Tried":{"version":299}}')
supervisor.recv(1)
"#;

#[test]
fn a_program_that_cannot_take_over_is_reported_and_the_old_server_goes_on() {
    let program = Program::new();
    let server = Setup::new().file("a.txt", "a").start_program(&program.0);
    let old = server.server_pid();
    let failing = |wanted: &str| {
        let ran = command(&server, &["upgrade"]);
        assert!(!ran.status.success());
        assert!(
            ran.output.contains(wanted) && ran.output.contains("goes on as it was"),
            "{}{}",
            ran.output,
            ran.errors
        );
        assert_eq!((server.server_pid(), server.get("/a.txt").text()), (old, "a"));
    };
    fs::remove_file(&program.0).unwrap();
    failing("cannot be started");
    write_script(&program.0, "exit 3");
    failing("exited with status 3");
    write_script(&program.0, OTHER_VERSION);
    failing("it has version 299 of the messages between processes");
    fs::remove_file(&program.0).unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_sluice"), &program.0).unwrap();
    upgrade(&server);
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn a_server_without_a_supervisor_cannot_be_upgraded() {
    let server = Setup::new().start_with(&["serve", "htdocs", "--listen", "127.0.0.1:0", "--host", "test"]);
    let ran = command(&server, &["upgrade"]);
    assert!(!ran.status.success());
    assert!(
        ran.output.contains("only `sluice run` can be upgraded"),
        "{}{}",
        ran.output,
        ran.errors
    );
}

#[test]
fn a_launcher_that_is_due_is_started_after_an_upgrade_that_fails() {
    let setup = Setup::new().script("hello", "printf 'Content-Type: text/plain\\n\\nhello'");
    let mut taken = None;
    let server = setup.start();
    let mut text = fs::read_to_string(server.path("sluice.toml")).unwrap();
    let listener = taken.insert(TcpListener::bind("127.0.0.1:0").unwrap());
    // Deaths in a row: the next launcher is due after a delay.
    for _ in 0..3 {
        let launcher = launcher_of(&server);
        assert!(signal(launcher, "KILL"));
        assert!(wait_until(|| launchers_of(server.pid())
            .first()
            .is_none_or(|next| *next != launcher)));
    }
    text.push_str(&format!(
        "\n[[listen]]\naddress = \"{}\"\n",
        listener.local_addr().unwrap()
    ));
    fs::write(server.path("sluice.toml"), text).unwrap();
    let ran = command(&server, &["upgrade"]);
    assert!(!ran.status.success(), "{}", ran.output);
    assert_eq!(server.get("/cgi-bin/hello").text(), "hello", "{}", server.log());
}

fn launcher_of(server: &Server) -> u32 {
    assert!(wait_until(|| !launchers_of(server.pid()).is_empty()));
    launchers_of(server.pid())[0]
}

/// Gives the server a command, and returns what it answers, later.
fn give(server: &Server, name: &str) -> UnixStream {
    let socket = server.path("run").join(format!("{}.sock", server.pid()));
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    writeln!(stream, "{{\"command\":\"{name}\"}}").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    stream
}

fn answer(mut stream: UnixStream) -> String {
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    assert!(read.is_ok(), "no answer: {read:?}");
    answer
}

/// Gives the commands `upgrade`, and `reload` while the new program is tried, with this text at the end of the configuration. Returns the
/// server and the answers.
fn upgrade_and_reload(more: &str) -> (Server, [String; 2]) {
    let program = Program::new();
    let setup = Setup::new().file("a.txt", "a");
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let server = setup.start_program(&program.0);
    let text = fs::read_to_string(server.path("sluice.toml")).unwrap();
    fs::write(server.path("sluice.toml"), text + more).unwrap();
    fs::remove_file(&program.0).unwrap();
    let trial = format!(
        "#!/bin/bash\necho tried > \"$TEST_DIR/events\"; read line < \"$TEST_DIR/gate\"\nexec -a \"sluice: trial\" {} \"$@\"\n",
        env!("CARGO_BIN_EXE_sluice")
    );
    write_script(&program.0, &trial);
    let upgraded = give(&server, "upgrade");
    events.line();
    let reloaded = give(&server, "reload");
    // The supervisor has both when the server process has answered a later command.
    status(&server);
    fs::remove_file(&program.0).unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_sluice"), &program.0).unwrap();
    gate.open();
    let answers = [answer(upgraded), answer(reloaded)];
    (server, answers)
}

#[test]
fn a_reload_during_an_upgrade_that_fails_is_made_and_answered() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let more = format!("\n[[listen]]\naddress = \"{}\"\n", taken.local_addr().unwrap());
    let (server, [upgraded, reloaded]) = upgrade_and_reload(&more);
    for (answer, end) in [(&upgraded, "goes on as it was"), (&reloaded, "nothing has changed")] {
        assert!(
            answer.contains("Address already in use") && answer.contains(end),
            "{answer}"
        );
        assert!(answer.contains("\"ok\":false"), "{answer}");
    }
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn a_reload_during_an_upgrade_is_made_by_the_new_server_process() {
    let (server, [upgraded, reloaded]) = upgrade_and_reload("");
    assert!(upgraded.contains("goes on, as server process"), "{upgraded}");
    assert!(
        reloaded.contains("reads the configuration now") && reloaded.contains("\"ok\":true"),
        "{reloaded}"
    );
    server.log_line("sluice reload: sluice.toml is in force");
    assert_eq!(server.get("/a.txt").text(), "a");
}
