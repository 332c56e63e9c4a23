//! Which process of an engine runs a script, and when processes are replaced.

use super::{HELLO, ran, setup, write_sdk};
use sluice_testing::{Client, Setup, curl, run, wait_until};

/// A script that reports its start, waits at the gate, and says what HELLO says.
fn waiting() -> String {
    format!("report('begun')\nwait_at('go')\n{HELLO}")
}

#[test]
fn a_process_that_has_run_a_script_is_preferred_for_it() {
    // One worker, so that no process has to move.
    let server = setup("")
        .workers(1)
        .file("rte/wait-a.test", waiting())
        .file("rte/wait-b.test", waiting())
        .start();
    let (begun, mut gate) = (server.setup().event_fifo("begun"), server.setup().gate("go"));
    let mut clients: Vec<Client> = ["a", "b"]
        .map(|name| {
            let mut client = server.connect();
            client.get(&format!("/rte/wait-{name}.test"));
            begun.line();
            client
        })
        .into();
    gate.open();
    gate.open();
    let pids: Vec<u32> = clients.iter_mut().map(|client| ran(&client.response()).1).collect();
    assert_ne!(pids[0], pids[1]);
    for (name, pid) in [("a", pids[0]), ("b", pids[1]), ("b", pids[1]), ("a", pids[0])] {
        let mut client = server.connect();
        client.get(&format!("/rte/wait-{name}.test"));
        begun.line();
        gate.open();
        assert_eq!(ran(&client.response()).1, pid, "{name}");
    }
}

#[test]
fn engines_are_started_in_advance_and_run_scripts_with_the_method_proctor() {
    let proctored = format!("report('proctored', variables['REQUEST_METHOD'])\n{HELLO}");
    let setup = setup("max = 1, min = 1, proctor = [\"/rte/warm.test\"]").file("rte/warm.test", proctored);
    let reported = setup.event_fifo("proctored");
    let server = setup.start();
    assert_eq!(reported.line(), "PROCTOR");
    server.wait_for_processes(1);
    let pid = server.processes()[0].pid;
    let (name, by, count) = ran(&server.get("/rte/a.test"));
    assert_eq!(
        (name.as_str(), by, count),
        ("a.test", pid, 2),
        "the second request of that process"
    );
}

#[test]
fn routes_with_the_same_engine_and_settings_share_processes() {
    let engine = "mode = \"rte\", max = 1, engine = { program = \"htdocs/cgi-bin/engine\" }";
    let server = setup("max = 1")
        .file("other/c.test", HELLO)
        .script_route("/other/*", &format!("directory = \"htdocs/other\", {engine}"))
        .script_route(
            "/else/*",
            &format!("directory = \"htdocs/other\", {engine}, requests = 9"),
        )
        .start();
    let (_, pid, _) = ran(&server.get("/rte/a.test"));
    assert_eq!(ran(&server.get("/other/c.test")).1, pid);
    assert_ne!(ran(&server.get("/else/c.test")).1, pid, "another setting");
    server.wait_for_processes(2);
}

#[test]
fn changed_sources_below_the_directory_replace_the_processes() {
    let setup = Setup::new()
        .file("rte/a.py", HELLO)
        .file("rte/lib/module.py", "")
        .file("rte/lib/data.txt", "")
        .server("sdk = \"htdocs/sdk\"")
        .script_route(
            "/rte/*",
            "directory = \"htdocs/rte\", mode = \"rte\", engine = \"python\", max = 1",
        );
    write_sdk(&setup);
    let server = setup.start();
    let pid = || ran(&server.get("/rte/a.py")).1;
    let mut last = pid();
    std::fs::write(server.path("htdocs/rte/lib/data.txt"), "changed").unwrap();
    for changed in [
        "htdocs/rte/lib/module.py",
        "htdocs/rte/a.py",
        "htdocs/sdk/python/engine.py",
    ] {
        let path = server.path(changed);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}\n")).unwrap();
        assert!(wait_until(|| pid() != last), "{changed}\n{}", server.log());
        server.log_line(&format!("{changed} has changed"));
        last = pid();
    }
    assert!(!server.log().contains("data.txt has changed"), "{}", server.log());
}

#[test]
fn a_reload_replaces_the_processes() {
    let server = setup("max = 1").start();
    let first = ran(&server.get("/rte/a.test")).1;
    server.signal("HUP");
    server.log_line("is in force");
    assert_ne!(ran(&server.get("/rte/a.test")).1, first);
    server.wait_for_processes(1);
}

#[test]
fn the_processes_of_an_engine_are_replaced_by_its_name() {
    let server = setup("max = 1").start();
    let first = ran(&server.get("/rte/a.test")).1;
    let retired = run(server.setup().directory(), &["retire", "engine"]).output;
    assert!(retired.contains("engine: 1 process retired"), "{retired}");
    assert_ne!(ran(&server.get("/rte/a.test")).1, first);
}

#[test]
fn an_engine_is_replaced_after_its_number_of_requests() {
    let server = setup("max = 1, requests = 2").start();
    let pid = || ran(&server.get("/rte/a.test")).1;
    let first = pid();
    assert_eq!(pid(), first);
    // It serves until its successor is ready.
    assert!(wait_until(|| server
        .processes()
        .iter()
        .all(|process| process.pid != first)));
    assert_ne!(pid(), first);
}

#[test]
fn bodies_of_unknown_length_are_stored_and_http2_is_served() {
    let server = setup("max = 1")
        .file(
            "rte/echo.test",
            "put(HEAD + variables['SERVER_PROTOCOL'].encode() + b' ' + body(int(variables['CONTENT_LENGTH'])))",
        )
        .listeners("[[listen]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"on\"")
        .start();
    let chunked = "POST /rte/echo.test HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n4\r\n two\r\n0\r\n\r\n";
    assert_eq!(server.send(chunked).text(), "HTTP/1.1 one two");
    let addresses = server.addresses();
    let clear = addresses.iter().find(|address| address.contains("127.0.0.2")).unwrap();
    let url = format!("{clear}rte/echo.test");
    let answered = curl(&["--http2-prior-knowledge", "--data", "three", &url]);
    assert_eq!(answered, "HTTP/2.0 three");
}
