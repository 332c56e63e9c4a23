//! Which requests a watch shows, by each option, and what a watcher is shown under load.

use std::io::BufRead;

use super::raw;
use sluice_testing::{Server, Setup, Watcher, write_with_mode};

const HELLO: &str = "printf 'Content-Type: text/plain\\n\\nhello'";

fn setup() -> Setup {
    let setup = Setup::new()
        .file("a.txt", "a")
        .file("private/b.txt", "needle")
        .script("hello", HELLO)
        .script("slow", "sleep 1.2\nprintf 'Content-Type: text/plain\\n\\nslow'")
        .route("path = \"/private/*\"\naccess = { realm = \"Staff\", users = \"users\", allow = [\"any-user\"] }")
        .sites("[[site]]\nhosts = [\"other.test\"]\nroot = \"htdocs\"");
    // "secret"
    write_with_mode(&setup.path("users"), b"ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n", 0o600);
    setup
}

/// Sends requests that differ in everything that can be filtered. The first is of no filter here.
fn send_all(server: &Server) {
    server.get("/none?first");
    server.get("/a.txt");
    server.send("GET /a.txt?site HTTP/1.1\r\nHost: other.test\r\n\r\n");
    server
        .connect()
        .send("OPTIONS /a.txt?method HTTP/1.1\r\nHost: test\r\n\r\n")
        .response();
    server.get("/cgi-bin/hello");
    server.send("GET /private/b.txt HTTP/1.1\r\nHost: test\r\nAuthorization: Basic YW5uOnNlY3JldA==\r\n\r\n");
    server.get("/cgi-bin/slow");
    server.get("/a.txt?last");
}

#[test]
fn each_filter_and_trigger_shows_the_requests_that_match() {
    let server = setup().start();
    let of = |options: &[&str]| {
        let items = ["--items", "request-head,log"];
        Watcher::start(&server, &[&items, options].concat())
    };
    let watched: [(&[&str], &[&str]); 11] = [
        (&["--path", "/cgi-bin/*"], &["/cgi-bin/hello", "/cgi-bin/slow"]),
        (&["--site", "other*"], &["/a.txt?site"]),
        (&["--method", "options"], &["/a.txt?method"]),
        (&["--status", "404"], &["/none?first"]),
        (&["--script", "*/hello"], &["/cgi-bin/hello"]),
        (&["--user", "ann"], &["/private/b.txt"]),
        (&["--slower-than", "1s"], &["/cgi-bin/slow"]),
        (&["--trigger", "bytes=needle"], &["/private/b.txt"]),
        (
            &["--trigger", "slower=1s", "--trigger", "status>=404"],
            &["/none?first", "/cgi-bin/slow"],
        ),
        (&["--client", "127.0.0.*", "--path", "/a.txt", "--once"], &["/a.txt"]),
        (&["--client", "192.0.2.*"], &[]),
    ];
    let watchers = watched.map(|(options, expected)| (of(options), options, expected));
    send_all(&server);
    server.access_lines(8);
    for (watcher, options, expected) in watchers {
        // The last of them is the last event of the watch.
        watcher.lines(expected.len(), "access log: ");
        let shown = watcher.text();
        let targets: Vec<&str> = shown
            .lines()
            .filter(|line| line.contains(" request-head "))
            .map(|line| line.split_whitespace().nth(5).unwrap_or_default())
            .collect();
        assert_eq!(targets, expected, "{options:?}: {shown}");
    }
}

#[test]
fn a_request_is_found_by_its_id() {
    let server = setup().start();
    let json = Watcher::start(&server, &["--json", "--items", "octets,log", "--octets-max", "30"]);
    server.get("/a.txt");
    let line = json.line("access log: ");
    let log: serde_json::Value = serde_json::from_str(&line).unwrap();
    let id = log["id"].as_str().unwrap();
    assert!(log["text"].as_str().unwrap().contains(id), "{line}");
    let octets: serde_json::Value = serde_json::from_str(&json.line("\"octets\"")).unwrap();
    assert_eq!(octets["text"], "GET /a.txt HTTP/1.1\r\nHost: tes");
    assert_eq!(
        octets["omitted"].as_u64().unwrap() + 30,
        octets["bytes"].as_u64().unwrap()
    );
    // It was, and will not be again.
    let watcher = Watcher::start(&server, &["--id", id, "--once", "--seconds", "1"]);
    server.get("/a.txt");
    assert!(!watcher.wait_end().status.success());
}

#[test]
fn a_trigger_that_matches_everything_delays_no_request() {
    let server = setup().start();
    let watcher = Watcher::start(
        &server,
        &["--items", "all", "--trigger", "status>=100", "--trigger", "bytes=G"],
    );
    // Another one that is stopped, and so takes nothing.
    let stopped = Watcher::start(&server, &["--items", "all", "--trigger", "status>=100"]);
    stopped.signal("STOP");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = server.connect();
                for _ in 0..200 {
                    assert_eq!(client.get("/a.txt").response().text(), "a");
                }
            });
        }
    });
    server.get("/none?last");
    watcher.line("GET /none?last HTTP/1.1");
    stopped.signal("CONT");
    stopped.line(" timing ");
}

#[test]
fn a_watcher_that_reads_nothing_loses_events_in_their_place() {
    let server = Setup::new().file("large", vec![b'x'; 1 << 20]).start();
    let mut silent = raw(&server, "{\"items\":\"response-body\",\"octets_max\":1048576}").unwrap();
    let mut client = server.connect();
    for _ in 0..32 {
        assert_eq!(client.get("/large").response().body.len(), 1 << 20);
    }
    let (mut line, mut shown) = (String::new(), 0);
    while !line.starts_with("-- ") {
        shown += usize::from(line.contains(" response-body "));
        line.clear();
        assert!(
            silent.read_line(&mut line).unwrap() > 0,
            "no notice after {shown} events"
        );
    }
    assert!(line.contains("events lost here, because they came faster"), "{line}");
    assert!(shown > 0);
    // From here on it reads, and loses nothing.
    server.get("/large?again");
    while !line.contains(" response-body ") {
        line.clear();
        assert!(silent.read_line(&mut line).unwrap() > 0);
    }
}

#[test]
fn a_site_is_found_by_each_of_its_names() {
    let server = Setup::new()
        .site("hosts = [\"example.org\", \"example.net\", \"*.example.org\"]")
        .sites("[[site]]\nroot = \"htdocs\"")
        .start();
    let get = |host: &str, path: &str| {
        server.send(format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        ))
    };
    for (name, host) in [
        ("example.net", "example.org"),
        ("www.example.org", "shop.example.org"),
        ("EXAMPLE.org", "example.net"),
        ("default", "other.test"),
    ] {
        let watcher = Watcher::start(&server, &["--site", name, "--once", "--items", "request-head"]);
        for other in ["example.org", "other.test"] {
            let is_first = other == "example.org";
            if is_first == (name == "default") {
                get(other, "/another");
            }
        }
        get(host, "/wanted");
        let shown = watcher.wait_end().output;
        assert!(
            shown.contains("/wanted") && !shown.contains("/another"),
            "{name}: {shown}"
        );
    }
}
