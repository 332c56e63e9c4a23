//! The pages about what runs now, and their actions.

use super::{LOCAL, ask, get, json};
use sluice_testing::SLOW;
use sluice_testing::{Client, FifoReader, Gate, Server, Setup, run, wait_until};

/// A server with the reports and a script that waits.
fn start() -> (Server, FifoReader, Gate) {
    let server = Setup::new().route(LOCAL).python("slow", SLOW).start();
    let (begun, gate) = (server.setup().event_fifo("begun"), server.setup().gate("go"));
    (server, begun, gate)
}

/// The response to an action with a token.
fn act(server: &Server, values: &str) -> String {
    let token = json(server, "/-/action.json")["token"].as_str().unwrap().to_owned();
    let body = format!("token={token}&{values}");
    let mut client = server.connect();
    client.send(format!(
        "POST /-/action.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    client.response().text().to_owned()
}

fn begin(server: &Server, path: &str) -> Client {
    let mut client = server.connect();
    client.get(path);
    client
}

#[test]
fn secrets_of_targets_are_not_shown_and_long_ones_are_shortened() {
    let (server, begun, mut gate) = start();
    let query = format!("password=hunter22&x={}", "y".repeat(5000));
    let mut client = begin(&server, &format!("/cgi-bin/slow?{query}"));
    begun.line();
    let page = get(&server, "/-/requests.json");
    let top = run(server.setup().directory(), &["top", "--json"]).output;
    for shown in [page.text(), &top] {
        assert!(shown.contains("password=…(8 bytes)&x=yyy"), "{shown}");
        assert!(
            !shown.contains("hunter22") && !shown.contains(&"y".repeat(1000)),
            "{shown}"
        );
    }
    gate.open();
    client.response();
}

#[test]
fn a_hanging_process_is_shown_retired_and_its_request_ended() {
    let (server, begun, _gate) = start();
    let _client = begin(&server, "/cgiplus-bin/slow?%3Cx%3E");
    let pid = begun.line();
    for page in ["requests", "scripts"] {
        assert!(
            wait_until(|| get(&server, &format!("/-/{page}")).text().contains(&pid)),
            "{page}"
        );
        let shown = get(&server, &format!("/-/{page}"));
        for words in ["/cgiplus-bin/slow", "name=\"action\" value=\"end\""] {
            assert!(shown.text().contains(words), "{page}: no {words} in {}", shown.text());
        }
    }
    let found = json(&server, "/-/requests.json");
    let requests = found["requests"].as_array().unwrap();
    let target = |request: &&serde_json::Value| request["target"].as_str().unwrap().starts_with("/cgiplus-bin/slow");
    let id = requests.iter().find(target).unwrap()["id"].as_str().unwrap();

    let answer = act(&server, "action=retire&script=%2Fcgiplus-bin%2Fslow");
    assert!(answer.contains("busy, will end after the exchange"), "{answer}");
    server.log_line("retire by client 127.0.0.1: /cgiplus-bin/slow: 1 process retired");
    let answer = act(&server, &format!("action=end&id={id}"));
    assert!(
        answer.contains("is ended") && answer.contains("\"ok\": true"),
        "{answer}"
    );
    server.log_line(&format!("end by client 127.0.0.1: request {id} is ended"));
    server.wait_for_processes(0);
    let answer = act(&server, &format!("action=end&id={id}"));
    assert!(
        answer.contains("no request in progress") && answer.contains("\"ok\": false"),
        "{answer}"
    );
    let shown = get(&server, "/-/scripts");
    assert!(
        shown.text().contains("its request was ended by the administrator"),
        "{}",
        shown.text()
    );
}

#[test]
fn connections_are_counted_by_state_and_client() {
    let server = Setup::new().route(LOCAL).start();
    let mut idle: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in &mut idle {
        assert_eq!(client.get("/health.txt").response().status, 200);
    }
    let is_complete = || {
        let shown = json(&server, "/-/connections.json");
        let states = shown["states"].as_array().unwrap();
        let idle = states.iter().find(|state| state["name"] == "idle");
        idle.is_some_and(|idle| idle["count"] == 3) && shown["clients"][0]["name"] == "127.0.0.1"
    };
    assert!(wait_until(is_complete), "{:#}", json(&server, "/-/connections.json"));
    assert_eq!(json(&server, "/-/connections.json")["tls"][0]["name"], "none");
}

#[test]
fn wrong_passwords_and_throttles_are_shown() {
    let setup = Setup::new()
        .route(LOCAL)
        .route("path = \"/private/*\"\nfiles = { directory = \"htdocs\" }\naccess = { realm = \"Staff\", users = \"users\" }")
        .route("path = \"/slow/*\"\nfiles = { directory = \"htdocs\" }\nthrottle = { at_once = 7 }");
    std::fs::write(setup.path("users"), "ann:{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=\n").unwrap();
    let server = setup.start();
    // ann:wrong
    let refused = ask(&server, "GET", "/private/a", "Authorization: Basic YW5uOndyb25n\r\n");
    assert_eq!(refused.status, 401);
    let shown = get(&server, "/-/access");
    for words in ["ann", "Staff", "127.0.0.1", "Throttles"] {
        assert!(shown.text().contains(words), "no {words} in {}", shown.text());
    }
    assert_eq!(json(&server, "/-/access.json")["failures"]["wrong"], 1);
}
