//! A server process that dies is replaced, and leaves nothing behind.

use std::process::Command;
use std::time::{Duration, Instant};

use super::{Load, next_server_process, note, rounds, status};
use sluice_testing::{FAMILY, Server, Setup, is_alive, signal, wait_until};

#[test]
fn a_killed_server_process_is_replaced_while_clients_wait() {
    let setup = Setup::new().file("a.txt", "a").script("family", FAMILY);
    let events = setup.event_fifo("events");
    let server = setup.start();
    let mut of_script = server.connect();
    of_script.get("/cgi-bin/family");
    events.line();
    let load = Load::connecting(&server, "/a.txt");
    load.goes_on();
    let old = server.server_pid();
    assert!(signal(old, "KILL"));
    server.log_line(&format!("server process {old} was killed by signal 9 (SIGKILL)"));
    let new = next_server_process(&server, old);
    server.log_line(&format!("server process {new} serves"));
    assert_eq!(server.get("/a.txt").text(), "a");
    load.goes_on();
    load.end();
    // Every process that had the FIFO open is gone.
    events.end();
    server.wait_for_processes(0);
    let (answer, _) = of_script.rest();
    assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    let state = status(&server);
    assert_eq!(state["pid"], server.pid());
    assert_eq!(state["server_pid"], new);
    assert_eq!(state["supervisor"]["restarts"], 1);
    assert_eq!(state["supervisor"]["last_end"], "was killed by signal 9 (SIGKILL)");
}

/// The parent process of a script, by which the answers of two server processes differ. Empty if the connection was aborted.
fn answering(server: &Server) -> String {
    let mut client = server.connect();
    client.try_send("GET /cgi-bin/parent HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    let (answer, _) = client.rest();
    String::from_utf8_lossy(&answer)
        .rsplit("parent ")
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn the_next_answer_after_a_kill_comes_soon() {
    let mut times = Vec::new();
    for _ in 0..rounds(1) {
        // Each server is a new one, because further deaths are followed by delays. The variable names another program, such as a release build.
        let setup = Setup::new().script("parent", r#"printf 'Content-Type: text/plain\n\nparent %s' "$PPID""#);
        let server = match std::env::var("PROGRAM") {
            Ok(program) => setup.start_program(program.as_ref()),
            Err(_) => setup.start(),
        };
        let before = answering(&server);
        let killed = Instant::now();
        assert!(signal(server.server_pid(), "KILL"));
        assert!(wait_until(
            || !["", before.as_str()].contains(&answering(&server).as_str())
        ));
        times.push(killed.elapsed());
    }
    times.sort_unstable();
    note(&format!("next answer after {times:.0?}"));
    assert!(times[0] < Duration::from_secs(5), "{times:?}");
}

#[test]
fn kept_scripts_of_a_dead_server_process_end_and_new_ones_answer() {
    let counter = r#"n=0
while read -r line <&3; do
    if [ -z "$line" ]; then n=$((n + 1)); printf 'Content-Type: text/plain\n\n%s%s\n' "$n" "$CGIPLUSEOF"; fi
done
sleep 1000"#;
    let server = Setup::new().script("counter", counter).start();
    assert_eq!(server.get("/cgiplus-bin/counter").text(), "1");
    let kept: Vec<u32> = server.processes().iter().map(|process| process.pid).collect();
    assert!(signal(server.server_pid(), "ABRT"));
    server.log_line("was killed by signal 6 (SIGABRT)");
    assert_eq!(server.get("/cgiplus-bin/counter").text(), "1", "from another process");
    assert!(wait_until(|| !kept.iter().any(|pid| is_alive(*pid))), "{kept:?}");
}

#[test]
fn deaths_in_a_row_are_followed_by_growing_delays() {
    let server = Setup::new().file("a.txt", "a").start();
    let mut old = server.server_pid();
    for delay in [
        "again (restart 1)",
        "again in 100 ms (restart 2)",
        "again in 200 ms (restart 3)",
    ] {
        assert!(signal(old, "KILL"));
        server.log_line(delay);
        // It waits in the queue of the socket.
        assert_eq!(server.get("/a.txt").text(), "a");
        old = next_server_process(&server, old);
    }
}

#[test]
fn a_reload_while_no_server_process_runs_is_used_by_the_next_one() {
    let server = Setup::new().file("a.txt", "a").start();
    std::fs::create_dir(server.path("other")).unwrap();
    std::fs::write(server.path("other/a.txt"), "other").unwrap();
    std::fs::write(server.path("other/health.txt"), "well").unwrap();
    let text = std::fs::read_to_string(server.path("sluice.toml")).unwrap();
    let mut old = server.server_pid();
    // The fourth waits for 400 ms.
    for _ in 0..3 {
        assert!(signal(old, "KILL"));
        old = next_server_process(&server, old);
        assert_eq!(server.get("/a.txt").text(), "a");
    }
    std::fs::write(
        server.path("sluice.toml"),
        text.replace("root = \"htdocs\"", "root = \"other\""),
    )
    .unwrap();
    assert!(signal(old, "KILL"));
    server.log_line("(restart 4)");
    server.signal("HUP");
    assert!(wait_until(|| server.get("/a.txt").text() == "other"));
}

#[test]
fn a_restart_uses_the_files_of_the_last_valid_configuration() {
    let server = Setup::new().file("a.txt", "a").start();
    std::fs::write(server.path("sluice.toml"), "not toml [").unwrap();
    let old = server.server_pid();
    assert!(signal(old, "KILL"));
    next_server_process(&server, old);
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn a_server_process_that_is_asked_to_end_is_replaced_after_its_exchanges() {
    let setup = Setup::new().script(
        "slow",
        r#"echo started > "$TEST_DIR/events"; read line < "$TEST_DIR/gate"
printf 'Content-Type: text/plain\n\nanswered'"#,
    );
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let server = setup.start();
    let mut client = server.connect();
    client.get("/cgi-bin/slow");
    events.line();
    let old = server.server_pid();
    assert!(signal(old, "TERM"));
    server.log_line("draining");
    gate.open();
    assert_eq!(client.response().text(), "answered");
    server.log_line(&format!("server process {old} exited with status 0"));
    next_server_process(&server, old);
}

#[test]
fn nothing_is_left_of_a_killed_supervisor() {
    let setup = Setup::new().script("slow", r#"exec 9> "$TEST_DIR/events"; echo started >&9; sleep 1000"#);
    let events = setup.event_fifo("events");
    let server = setup.start();
    let process = server.server_pid();
    let mut client = server.connect();
    client.get("/cgi-bin/slow");
    events.line();
    assert!(signal(server.pid(), "KILL"));
    let ended = server.wait_end();
    assert!(ended.errors.contains("the supervisor has ended"), "{}", ended.errors);
    events.end();
    assert!(wait_until(|| !is_alive(process)));
}

#[test]
fn a_third_signal_kills_a_server_process_that_hangs() {
    let server = Setup::new().start();
    server.signal("STOP");
    let hanging = server.server_pid();
    // Standard signals do not queue: one that arrives before the last one was handled does not count.
    assert!(wait_until(|| {
        signal(server.pid(), "TERM");
        !is_alive(hanging)
    }));
    let ended = server.wait_end();
    assert!(
        ended.errors.contains("SIGKILL) while it was to end"),
        "{}",
        ended.errors
    );
    let place = |text: &str| ended.errors.find(text).unwrap_or_else(|| panic!("{}", ended.errors));
    assert!(place("ending at once") < place(&format!("server process {hanging} is killed")));
    assert_eq!(ended.status.code(), Some(1));
}

#[test]
fn a_drain_that_overtakes_a_reload_lets_exchanges_complete() {
    let script = "echo started > \"$TEST_DIR/events\"; read line < \"$TEST_DIR/gate\"\nprintf 'Content-Type: text/plain\\n\\nanswered'";
    let setup = Setup::new().script("slow", script);
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let server = setup.start();
    let mut client = server.connect();
    client.get("/cgi-bin/slow");
    events.line();
    // The server process answers the reload when it has been asked to end.
    let process = server.server_pid();
    assert!(signal(process, "STOP"));
    server.signal("HUP");
    server.signal("TERM");
    let control = server.path("run").join(format!("{}.sock", server.pid()));
    assert!(wait_until(|| !control.exists()));
    assert!(signal(process, "CONT"));
    gate.open();
    assert_eq!(client.response().text(), "answered");
    server.wait_end();
}

#[test]
fn a_reload_that_finds_no_free_descriptor_changes_nothing() {
    let server = Setup::new().file("a.txt", "a").start();
    let (process, supervisor) = (server.server_pid(), server.pid());
    let limit_descriptors = |limit: &str| {
        let mut prlimit = Command::new("prlimit");
        prlimit
            .arg(format!("--pid={process}"))
            .arg(format!("--nofile={limit}:"));
        assert!(prlimit.status().unwrap().success());
    };
    limit_descriptors("3");
    assert!(signal(supervisor, "HUP"));
    server.log_line("too few descriptors; nothing has changed");
    limit_descriptors("1000");
    assert_eq!(server.get("/a.txt").text(), "a");
    server.signal("HUP");
    server.log_line("is in force");
    assert_eq!(server.server_pid(), process);
}
