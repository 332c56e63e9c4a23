//! The server process from start to exit: errors at startup, signals, draining, and that nothing is left behind.

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use sluice_testing::{Ending, RunResult, Setup, curl, is_alive, run, wait_until};

/// A script that reports its start, waits at the gate, and answers.
const WAITING: &str = r#"echo started > "$TEST_DIR/events"; read -r line < "$TEST_DIR/gate"; printf 'Content-Type: text/plain\n\nanswered'"#;

/// Asserts this exit status and one line on standard error that contains these words.
#[track_caller]
fn assert_fails_with(ran: &RunResult, status: i32, words: &[&str]) {
    let errors = &ran.errors;
    assert_eq!(ran.status.code(), Some(status), "{errors}");
    assert_eq!(errors.lines().count(), 1, "not one line:\n{errors}");
    for word in words {
        assert!(errors.contains(word), "no {word:?} in {errors}");
    }
    assert_eq!(ran.output, "");
}

#[test]
fn busy_port_is_reported_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let setup = Setup::new();
    let ran = run(setup.directory(), &["serve", "htdocs", "--listen", &address]);
    assert_fails_with(&ran, 1, &["sluice: ", &address, "in use"]);
}

#[test]
fn port_of_another_sluice_is_busy_too() {
    let server = Setup::new().start();
    let address = server.address().to_string();
    let ran = run(server.setup().directory(), &["serve", "htdocs", "--listen", &address]);
    assert_fails_with(&ran, 1, &[&address, "in use"]);
}

#[test]
fn foreign_address_is_reported_in_one_line() {
    let setup = Setup::new();
    let ran = run(setup.directory(), &["serve", "htdocs", "--listen", "192.0.2.1:0"]);
    assert_fails_with(&ran, 1, &["192.0.2.1:0"]);
}

#[test]
fn missing_directory_is_reported_in_one_line() {
    let setup = Setup::new();
    let ran = run(setup.directory(), &["serve", "nowhere"]);
    assert_fails_with(&ran, 1, &["sluice: ", "nowhere", "No such file or directory"]);
    std::fs::write(setup.path("bad.toml"), "[[site]]\nroot = \"nowhere\"\n").unwrap();
    let ran = run(setup.directory(), &["check", "-c", "bad.toml"]);
    assert_fails_with(&ran, 1, &["bad.toml:2", "nowhere"]);
}

#[test]
fn unknown_key_is_reported_with_its_line_and_the_fix() {
    let setup = Setup::new();
    std::fs::write(
        setup.path("bad.toml"),
        "[[site]]\nroot = \"htdocs\"\nindx = [\"a.html\"]\n",
    )
    .unwrap();
    for command in ["run", "check"] {
        let ran = run(setup.directory(), &[command, "-c", "bad.toml"]);
        assert_fails_with(&ran, 1, &["bad.toml:3", "indx", "index"]);
    }
}

#[test]
fn unreachable_routes_and_sites_are_reported_with_their_lines() {
    let setup = Setup::new();
    for (routes, words) in [
        (
            "[[site.route]]\npath = \"/a/*\"\nrefuse = {}\n[[site.route]]\npath = \"/a/b\"\nredirect = { to = \"/c\" }",
            &["bad.toml:7", "/a/b", "never matches", "line 4"],
        ),
        (
            "[[site.route]]\npath = \"/a/*\"\nredirect = { to = \"/b/*\" }\n[[site.route]]\npath = \"/b/*\"\nredirect = { to = \"/a/*\" }",
            &["bad.toml:5", "/b/*", "line 8", "endless loop"],
        ),
        (
            "hosts = [\"*.org\"]\n[[site]]\nroot = \"htdocs\"\nhosts = [\"*.b.org\"]",
            &["bad.toml:6", "*.b.org", "never reached", "line 3"],
        ),
        (
            "hosts = [\"a.org\"]\n[[site]]\nroot = \"htdocs\"\nhosts = [\"A.org\"]",
            &["bad.toml:6", "a.org", "line 3", "one"],
        ),
    ] {
        std::fs::write(
            setup.path("bad.toml"),
            format!("[[site]]\nroot = \"htdocs\"\n{routes}\n"),
        )
        .unwrap();
        for command in ["run", "check"] {
            let ran = run(setup.directory(), &[command, "-c", "bad.toml"]);
            assert_eq!(ran.status.code(), Some(1), "{}", ran.errors);
            let first = ran.errors.lines().next().unwrap();
            assert!(words.iter().all(|word| first.contains(word)), "{words:?} in {first}");
        }
    }
}

#[test]
fn missing_configuration_is_reported_in_one_line() {
    let setup = Setup::new();
    let ran = run(setup.directory(), &["run", "-c", "none.toml"]);
    assert_fails_with(&ran, 1, &["none.toml", "No such file or directory"]);
}

#[test]
fn log_file_in_a_missing_directory_is_reported_in_one_line() {
    let setup = Setup::new();
    let arguments = [
        "serve",
        "htdocs",
        "--listen",
        "127.0.0.1:0",
        "--access-log",
        "nowhere/access.log",
    ];
    let ran = run(setup.directory(), &arguments);
    assert_fails_with(&ran, 1, &["access"]);
}

#[test]
fn wrong_usage_exits_with_status_2() {
    let setup = Setup::new();
    for arguments in [
        &["sreve"][..],
        &["serve", "--listen", "example.org:80"],
        &["serve", "--no-such-option"],
        &[],
    ] {
        let ran = run(setup.directory(), arguments);
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}: {}", ran.errors);
        assert!(
            ran.errors.contains("--help") && ran.output.is_empty(),
            "{arguments:?}: {}",
            ran.errors
        );
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    let setup = Setup::new();
    let help = run(setup.directory(), &["--help"]);
    assert!(help.status.success() && help.output.contains("sluice serve") && help.errors.is_empty());
    let version = run(setup.directory(), &["--version"]);
    assert_eq!(version.output, format!("sluice {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn check_prints_what_would_be_served() {
    let setup = Setup::new();
    setup.write_configuration();
    let ran = run(setup.directory(), &["check", "-c", "sluice.toml"]);
    assert!(ran.status.success(), "{}", ran.errors);
    for words in ["sluice.toml: ok", "/cgi-bin/*", "/cgiplus-bin/*", "htdocs"] {
        assert!(ran.output.contains(words), "no {words} in {}", ran.output);
    }
}

#[test]
fn serve_needs_no_configuration() {
    let server = Setup::new()
        .file("index.html", "a page")
        .script("hello", r"printf 'Content-Type: text/plain\n\nhello'")
        .start_with(&[
            "serve",
            "htdocs",
            "--listen",
            "127.0.0.1:0",
            "--workers",
            "2",
            "--host",
            "test",
        ]);
    assert_eq!(server.get("/").text(), "a page");
    assert_eq!(server.get("/cgi-bin/hello").text(), "hello");
    assert_eq!(server.get("/%63gi-bin/hello").text(), "hello");
    assert_eq!(server.get("/cgi-bin/").status, 404);
}

#[test]
fn sighup_loads_a_new_configuration() {
    let server = Setup::new().file("a.txt", "a").start();
    let mut kept = server.connect();
    assert_eq!(kept.get("/a.txt").response().text(), "a");
    std::fs::create_dir(server.path("other")).unwrap();
    std::fs::write(server.path("other/a.txt"), "other").unwrap();
    std::fs::write(server.path("other/health.txt"), "well").unwrap();
    std::fs::write(
        server.path("sluice.toml"),
        "[[listen]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \"other\"\n",
    )
    .unwrap();
    server.signal("HUP");
    server.log_line("is in force");
    assert_eq!(server.get("/a.txt").text(), "other");
    assert_eq!(
        kept.get("/a.txt").response().text(),
        "other",
        "on a connection that was open"
    );
}

#[test]
fn sighup_names_settings_that_need_a_restart() {
    let server = Setup::new()
        .file("a.txt", "a")
        .listeners("[[listen]]\naddress = \"unix:web.sock\"\nmode = \"660\"")
        .start();
    let toml = "[[listen]]\naddress = \"127.0.0.1:0\"\n\n[[listen]]\naddress = \"unix:web.sock\"\nmode = \"600\"\n\n\
                [server]\nworkers = 7\ndns_lookup = true\n\n[limits]\nconnections = 77\n\n[[site]]\nroot = \"htdocs\"\n";
    std::fs::write(server.path("sluice.toml"), toml).unwrap();
    server.signal("HUP");
    let unix = |name: &str| format!("unix:{}", server.path(name).display());
    server.log_line(&format!("{} keeps its mode", unix("web.sock")));
    server.log_line("workers: this change takes effect");
    server.log_line("dns_server are unchanged");
    server.log_line("connections is still ");
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn sighup_with_a_bad_file_changes_nothing_and_says_why() {
    let server = Setup::new()
        .file("a.txt", "a")
        .script("x", r"printf 'Content-Type: text/plain\n\nx'")
        .start();
    let cases = [
        ("[[site]]\nroot = \"htdocs\"\nlisten = [\":1\"]\n", "has this address"),
        ("[[site]]\nroot = \"htdocs\"\nindx = []\n", "indx"),
        ("not toml [", "sluice.toml:1"),
    ];
    for (turn, (text, word)) in cases.into_iter().enumerate() {
        std::fs::write(server.path("sluice.toml"), text).unwrap();
        server.signal("HUP");
        server.log_line(word);
        server.log_lines(turn + 1, "nothing has changed");
        assert_eq!(server.get("/a.txt").text(), "a", "{text}");
        assert_eq!(server.get("/cgi-bin/x").text(), "x", "{text}");
    }
    std::fs::remove_file(server.path("sluice.toml")).unwrap();
    server.signal("HUP");
    server.log_lines(4, "nothing has changed");
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn running_exchange_keeps_the_configuration_it_began_with() {
    let setup = Setup::new();
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let server = setup.script("slow", WAITING).start();
    let mut client = server.connect();
    client.get("/cgi-bin/slow");
    events.line();
    let toml = "[[listen]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \"htdocs\"\n";
    std::fs::write(server.path("sluice.toml"), toml).unwrap();
    server.signal("HUP");
    server.log_line("is in force");
    gate.open();
    assert_eq!(client.response().text(), "answered");
}

#[test]
fn sighup_without_a_configuration_file_is_harmless() {
    let server =
        Setup::new()
            .file("a.txt", "a")
            .start_with(&["serve", "htdocs", "--listen", "127.0.0.1:0", "--host", "test"]);
    server.signal("HUP");
    server.log_line("SIGHUP");
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn sighup_restarts_kept_scripts_although_there_is_no_configuration_file() {
    // Reads its module once, as an interpreter does.
    let kept = r#"word=$(cat ../module)
while read -r line <&3; do
    if [ -z "$line" ]; then printf 'Content-Type: text/plain\n\n%s%s\n' "$word" "$CGIPLUSEOF"; fi
done"#;
    let setup = Setup::new().file("module", "old").script("kept", kept);
    let mut server = setup.start_with(&["serve", "htdocs", "--listen", "127.0.0.1:0", "--tls"]);
    let url = format!("https://{}/cgiplus-bin/kept", server.tls_address());
    let get = || curl(&["--insecure", &url]);
    assert_eq!(get(), "old");
    std::fs::write(server.path("htdocs/module"), "changed").unwrap();
    assert_eq!(get(), "old", "from the kept process");
    server.signal("HUP");
    server.log_line("SIGHUP: idle script processes have ended");
    assert_eq!(get(), "changed");
    // `Drop` checks the health in clear text, which this server does not speak.
    server.end();
}

#[test]
fn sigterm_lets_a_running_exchange_complete() {
    let setup = Setup::new();
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let server = setup.script("slow", WAITING).start();
    let mut client = server.connect();
    client.get("/cgi-bin/slow");
    events.line();
    server.signal("TERM");
    server.log_line("draining");
    let address = server.address();
    let refused = wait_until(|| TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err());
    assert!(refused, "new connections are still accepted");
    gate.open();
    let response = client.response();
    assert_eq!((response.status, response.text()), (200, "answered"));
    client.assert_closed();
    let ended = server.wait_end();
    assert!(ended.status.success(), "{}", ended.status);
    assert_eq!(ended.access.len(), 1, "{:#?}", ended.access);
}

#[test]
fn sigterm_closes_idle_connections() {
    let server = Setup::new().file("a.txt", "a").start();
    let mut idle = server.connect();
    assert_eq!(idle.get("/a.txt").response().text(), "a");
    let mut fresh = server.connect();
    // The server has accepted both connections, because it has answered a later one.
    assert_eq!(server.get("/a.txt").text(), "a");
    let begin = Instant::now();
    assert!(server.stop().status.success());
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "idle connections delay the exit"
    );
    idle.assert_closed();
    fresh.rest();
}

#[test]
fn idle_connection_can_be_reused_and_is_closed_in_time() {
    let server = Setup::new()
        .limits("head_timeout = \"3s\"")
        .file("a.txt", "a")
        .script("hello", "echo Content-Type: text/plain; echo; echo hello")
        .start();
    let mut idle = server.connect();
    assert_eq!(idle.get("/a.txt").response().text(), "a");
    // The 408 for a client that never completes its head shows that the others have been idle for a while.
    let mut slow = server.connect();
    slow.send("GET /a");
    assert_eq!(slow.response().status, 408);
    // Two requests at once, the second in two parts: nothing that arrives after an idle time is lost.
    idle.get("/cgi-bin/hello").send("GET /a.txt HTTP/1.1\r\nHo");
    assert_eq!(idle.response().text(), "hello\n");
    idle.send("st: test\r\n\r\n");
    assert_eq!(idle.response().text(), "a");
    let mut slow = server.connect();
    slow.send("GET /a");
    assert_eq!(slow.response().status, 408);
    // Nothing more is sent: the server closes the idle connection.
    idle.assert_closed();
}

#[test]
fn partial_head_after_a_request_waits_for_its_rest() {
    let server = Setup::new()
        .limits("head_timeout = \"3s\"")
        .file("a.txt", "a")
        .file("b.txt", "bb")
        .start();
    let (mut slow, mut silent) = (server.connect(), server.connect());
    for client in [&mut slow, &mut silent] {
        client.send("GET /a.txt HTTP/1.1\r\nHost: test\r\n\r\nGET /b.txt?");
        assert_eq!(client.response().text(), "a");
    }
    // Longer than an idle connection keeps its buffers.
    assert!(slow.is_silent_for(Duration::from_millis(2200)));
    slow.send("rest HTTP/1.1\r\nHost: test\r\n\r\n");
    let response = slow.response();
    assert_eq!((response.status, response.text()), (200, "bb"));
    assert_eq!(silent.response().status, 408);
    silent.assert_closed();
}

#[test]
fn second_signal_ends_the_drain_at_once() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .script(
            "slow",
            r#"exec 9> "$TEST_DIR/events"; echo started >&9; sleep 1000 & sleep 1000"#,
        )
        .start();
    let mut client = server.connect();
    client.get("/cgi-bin/slow");
    events.line();
    server.signal("TERM");
    server.log_line("draining");
    assert!(is_alive(server.pid()), "the server waits for the exchange");
    server.signal("INT");
    let ended = server.wait_end();
    assert!(ended.status.success(), "{}", ended.status);
    events.end();
    let (answer, _) = client.rest();
    assert!(
        !answer.starts_with(b"HTTP/1.1 2"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

#[test]
fn the_drain_has_a_time_limit() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .limits("drain_timeout = \"200ms\"")
        .script("slow", r#"exec 9> "$TEST_DIR/events"; echo started >&9; sleep 1000"#)
        .start();
    let mut client = server.connect();
    client.get("/cgi-bin/slow");
    events.line();
    server.signal("TERM");
    assert!(server.wait_end().status.success());
    events.end();
}

#[test]
fn body_truncated_by_shutdown_is_seen_as_truncated() {
    let server = Setup::new()
        .limits("drain_timeout = \"200ms\"")
        .script("endless", "echo Content-Type: text/plain; echo; exec yes")
        .start();
    let mut client = server.connect();
    let head = client.get("/cgi-bin/endless").head();
    server.signal("TERM");
    let (_, ending) = client.body(head.framing("GET"));
    assert_eq!(ending, Ending::Truncated);
    let ended = server.wait_end();
    assert!(ended.status.success());
    assert_eq!(ended.access.len(), 1, "{:#?}", ended.access);
}

#[test]
fn no_process_is_left_whatever_scripts_do_at_shutdown() {
    let setup = Setup::new();
    let events = setup.event_fifo("events");
    let server = setup
        .limits("drain_timeout = \"100ms\"")
        .cgi("kill_grace = \"100ms\"")
        .script(
            "stubborn",
            r#"trap '' TERM INT HUP; echo started > "$TEST_DIR/events"; while :; do sleep 1000; done"#,
        )
        .script(
            "family",
            r#"echo started > "$TEST_DIR/events"; sleep 1000 & sleep 1000 & wait"#,
        )
        .start();
    let mut clients = Vec::new();
    for script in ["stubborn", "family", "stubborn", "family"] {
        let mut client = server.connect();
        client.get(&format!("/cgi-bin/{script}"));
        events.line();
        clients.push(client);
    }
    assert!(server.processes().len() >= 4);
    assert!(server.stop().status.success());
}

#[test]
fn reload_under_traffic_fails_no_request() {
    let server = Setup::new()
        .file("a.txt", "a")
        .script("x", r"printf 'Content-Type: text/plain\n\nx'")
        .start();
    let mut client = server.connect();
    for round in 1..=10 {
        server.signal("HUP");
        for _ in 0..5 {
            assert_eq!(client.get("/a.txt").response().text(), "a");
            assert_eq!(client.get("/cgi-bin/x").response().text(), "x");
        }
        server.log_lines(round, "is in force");
    }
}
