//! Access logs of sites, routes that are not logged, and reload.

use std::fs;

use sluice_testing::{Server, Setup, wait_until};

/// Waits until a file of the server contains exactly these lines.
#[track_caller]
fn assert_holds(server: &Server, name: &str, expected: &[&str]) {
    let read = || fs::read_to_string(server.path(name)).unwrap_or_default();
    let matches = wait_until(|| read().lines().eq(expected.iter().copied()));
    assert!(matches, "{name} holds {:?}, not {expected:?}", read());
}

fn ask(server: &Server, host: &str, path: &str) -> u16 {
    server
        .send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
        .status
}

#[test]
fn sites_have_their_own_log_or_use_the_servers() {
    let site = |host: &str, log: &str| format!("[[site]]\nhosts = [\"{host}\"]\nroot = \"htdocs\"\n{log}\n");
    let sites = [
        site("own.example", "log = { access = \"own.log\" }"),
        site("form.example", "log = { format = \"%v %{Host}i %{X}i %m\" }"),
        site("off.example", "log = false"),
        site("out.example", "log = { access = \"-\" }"),
        site("shared.example", ""),
    ];
    let server = Setup::new()
        .log("access = \"access.log\"\nformat = \"%v %U\"")
        .sites(&sites.concat())
        .file("a", "a")
        .start();
    for host in ["own", "form", "off", "out", "shared", "any"] {
        assert_eq!(ask(&server, &format!("{host}.example"), "/a"), 200);
    }
    // The site is unknown, so the server's log is used.
    assert_eq!(server.send("GET /a HTTP/1.1\r\n\r\n").status, 400);
    assert_eq!(server.send("GET a b HTTP/1.1\r\nHost: own.example\r\n\r\n").status, 400);
    assert_holds(&server, "own.log", &["own.example /a"]);
    let servers = [
        "form.example form.example - GET",
        "shared.example /a",
        "* /a",
        "- /a",
        "- /",
    ];
    // The kernel distributes connections among the workers, so the order varies.
    let sorted = |mut lines: Vec<String>| {
        lines.sort_unstable();
        lines
    };
    let read = || fs::read_to_string(server.path("access.log")).unwrap();
    let lines = || sorted(read().lines().map(str::to_owned).collect());
    let expected = sorted(servers.map(str::to_owned).to_vec());
    assert!(wait_until(|| lines() == expected), "{:#?}", lines());
    assert_eq!(server.access_lines(1), ["out.example /a"]);
    assert_eq!(server.stop().access, ["out.example /a"]);
}

#[test]
fn requested_path_decides_whether_it_is_logged() {
    let server = Setup::new()
        .log("access = \"-\"\nformat = \"%U %>s\"")
        .site("index = [\"index.cgi\"]")
        .file("silent/a.txt", "a")
        .file("a.txt", "a")
        .route("path = \"/silent/*\"\nfiles = { directory = \"htdocs/silent\" }\nlog = false")
        .route("path = \"/ping\"\nredirect = { to = \"/a.txt\" }\nlog = false")
        .script("to-silent", r"printf 'Location: /silent/a.txt\n\n'")
        .script_route("/quiet/*", "directory = \"htdocs/cgi-bin\" }\nlog = false\n#")
        .script("to-loud", r"printf 'Location: /a.txt\n\n'")
        .script("bad", "exit 1")
        .start();
    let mut client = server.connect();
    for (path, status) in [
        ("/silent/a.txt", 200),
        ("/silent/none", 404),
        ("/ping", 302),
        ("/quiet/to-loud", 200),
        ("/quiet/bad", 502),
        ("/cgi-bin/to-silent", 200),
        ("/a.txt", 200),
    ] {
        assert_eq!(client.get(path).response().status, status, "{path}");
    }
    drop(client);
    let ended = server.stop();
    assert_eq!(ended.access, ["/cgi-bin/to-silent 200", "/a.txt 200"]);
    assert!(
        ended.errors.contains("status=502"),
        "faults are still reported:\n{}",
        ended.errors
    );
}

#[test]
fn reload_opens_new_logs_and_closes_unused_ones() {
    let server = Setup::new()
        .log("access = \"old.log\"\nformat = \"%U\"")
        .file("a.txt", "a")
        .start();
    let mut kept = server.connect();
    kept.get("/a.txt").response();
    assert_holds(&server, "old.log", &["/a.txt"]);
    let text = fs::read_to_string(server.path("sluice.toml")).unwrap();
    let text = text.replace("old.log", "new.log").replace("%U", "%m %U");
    fs::write(server.path("sluice.toml"), text).unwrap();
    server.signal("HUP");
    server.log_line("is in force");
    kept.get("/a.txt").response();
    assert_holds(&server, "new.log", &["GET /a.txt"]);
    let is_open = |name: &str| {
        let open = fs::read_dir(format!("/proc/{}/fd", server.server_pid())).unwrap();
        open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
            .any(|path| path.ends_with(name))
    };
    let mut clients = Vec::new();
    let is_closed = wait_until(|| {
        // The log thread closes old files only when it has something to do.
        clients.push(server.get("/a.txt"));
        !is_open("old.log")
    });
    assert!(is_closed && is_open("new.log"));
    assert_holds(&server, "old.log", &["/a.txt"]);
}

#[test]
fn reload_with_an_unwritable_log_changes_nothing() {
    let setup = Setup::new()
        .log("access = \"logs/a.log\"\nformat = \"%U\"")
        .file("a.txt", "a");
    fs::create_dir(setup.path("logs")).unwrap();
    let server = setup.start();
    let text = fs::read_to_string(server.path("sluice.toml")).unwrap();
    // A dangling symlink: a file that cannot be created, in an existing directory.
    std::os::unix::fs::symlink("nowhere/b.log", server.path("logs/b.log")).unwrap();
    fs::write(server.path("sluice.toml"), text.replace("a.log", "b.log")).unwrap();
    server.signal("HUP");
    let message = server.log_line("nothing has changed");
    assert!(
        message.contains("access log") && message.contains("b.log: No such file"),
        "{message}"
    );
    server.get("/a.txt");
    assert_holds(&server, "logs/a.log", &["/a.txt"]);
}

#[test]
fn reload_with_an_absent_agent_opens_no_log() {
    let setup = Setup::new()
        .log("access = \"a.log\"\nformat = \"%U\"")
        .file("a.txt", "a");
    let server = setup.start();
    let text = fs::read_to_string(server.path("sluice.toml")).unwrap();
    let with_agent = "\n[[site.route]]\npath = \"/b*\"\naccess = { agent = \"/none\" }\n";
    fs::write(server.path("sluice.toml"), text.replace("a.log", "b.log") + with_agent).unwrap();
    server.signal("HUP");
    let message = server.log_line("nothing has changed");
    assert!(message.contains("agent \"/none\""), "{message}");
    assert!(!server.path("b.log").exists());
    server.get("/a.txt");
    assert_holds(&server, "a.log", &["/a.txt"]);
}
