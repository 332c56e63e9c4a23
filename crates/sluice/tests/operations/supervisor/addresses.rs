//! Addresses that a reload adds or removes.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use super::{Load, command, note, rounds, status};
use sluice_testing::{Client, Setup, wait_until};

const SLOW: &str = r#"echo started > "$TEST_DIR/events"; read line < "$TEST_DIR/gate"
printf 'Content-Type: text/plain\n\nanswered'"#;

#[test]
fn a_reload_adds_addresses_and_keeps_the_others() {
    let server = Setup::new().file("a.txt", "a").start();
    let mut kept = server.connect();
    assert_eq!(kept.get("/a.txt").response().text(), "a");
    let text = std::fs::read_to_string(server.path("sluice.toml")).unwrap();
    let more = "[[listen]]\naddress = \"127.0.0.2:0\"\n[[listen]]\naddress = \"unix:more.sock\"\n";
    std::fs::write(server.path("sluice.toml"), format!("{more}{text}")).unwrap();
    let ran = command(&server, &["reload"]);
    assert!(
        ran.status.success() && ran.output.contains("listening also on http://127.0.0.2:"),
        "{}{}",
        ran.output,
        ran.errors
    );
    let state = status(&server);
    let addresses: Vec<&str> = state["addresses"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one.as_str())
        .collect();
    assert_eq!(addresses.len(), 3, "{addresses:?}");
    let second = addresses
        .iter()
        .find(|address| address.starts_with("127.0.0.2:"))
        .unwrap();
    let response = Client::connect(second.parse().unwrap()).get("/a.txt").response();
    assert_eq!(response.text(), "a");
    UnixStream::connect(server.path("more.sock")).unwrap();
    assert_eq!(kept.get("/a.txt").response().text(), "a");
    // It is still there after a restart.
    let old = server.server_pid();
    assert!(sluice_testing::signal(old, "KILL"));
    super::next_server_process(&server, old);
    let response = Client::connect(second.parse().unwrap()).get("/a.txt").response();
    assert_eq!(response.text(), "a");
}

#[test]
fn a_removed_address_is_refused_but_its_exchanges_complete() {
    let setup = Setup::new()
        .listeners("[[listen]]\naddress = \"127.0.0.2:0\"\n[[listen]]\naddress = \"unix:more.sock\"")
        .script("slow", SLOW);
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let server = setup.start();
    let second = server
        .addresses()
        .into_iter()
        .find(|address| address.contains("//127.0.0.2:"))
        .unwrap();
    let second = second
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .parse()
        .unwrap();
    let mut client = Client::connect(second);
    client.get("/cgi-bin/slow");
    events.line();
    let text = std::fs::read_to_string(server.path("sluice.toml")).unwrap();
    let text = text.replace(
        "[[listen]]\naddress = \"127.0.0.2:0\"\n[[listen]]\naddress = \"unix:more.sock\"",
        "",
    );
    std::fs::write(server.path("sluice.toml"), text).unwrap();
    assert!(command(&server, &["reload"]).status.success());
    assert!(wait_until(|| TcpStream::connect(second).is_err()));
    server.log_line(&format!("no longer listening on {second}  unix:"));
    assert!(!server.path("more.sock").exists());
    assert_eq!(status(&server)["addresses"].as_array().unwrap().len(), 1);
    gate.open();
    assert_eq!(client.response().text(), "answered");
}

/// Has a network of its own, with nothing but the loopback interface.
const OWN_NETWORK: &str = "
import ctypes, fcntl, socket, struct
assert ctypes.CDLL(None).unshare(0x40000000) == 0, 'CLONE_NEWNET'
interface = struct.pack('16sh14x', b'lo', 1)
fcntl.ioctl(socket.socket(), 0x8914, interface)
";

#[test]
fn a_reload_without_an_address_listens_on_the_default_one() {
    if !rustix::process::geteuid().is_root() {
        return note("skipped: a network of its own needs root");
    }
    // The default port may be in use outside.
    let server = Setup::new().start_after(OWN_NETWORK);
    let text = std::fs::read_to_string(server.path("sluice.toml")).unwrap();
    let without = text.replace("[[listen]]\naddress = \"127.0.0.1:0\"", "");
    std::fs::write(server.path("sluice.toml"), without).unwrap();
    let ran = command(&server, &["reload"]);
    let wanted = "listening also on http://127.0.0.1:8080/ (the default address)";
    assert!(
        ran.status.success() && ran.output.contains(wanted),
        "{}{}",
        ran.output,
        ran.errors
    );
    server.log_line("no longer listening on 127.0.0.1:");
    assert_eq!(status(&server)["addresses"], serde_json::json!(["127.0.0.1:8080"]));
    assert!(server.stop().status.success());
}

#[test]
fn an_address_that_is_taken_changes_nothing() {
    let server = Setup::new().file("a.txt", "a").start();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let text = std::fs::read_to_string(server.path("sluice.toml")).unwrap();
    let more = format!("[[listen]]\naddress = \"{address}\"\n");
    std::fs::write(server.path("sluice.toml"), format!("{more}{text}")).unwrap();
    let ran = command(&server, &["reload"]);
    assert!(!ran.status.success());
    assert!(
        ran.output.contains(&format!("listen on {address}")) && ran.output.contains("nothing has changed"),
        "{}",
        ran.output
    );
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn reloads_under_load_that_add_and_remove_an_address_lose_no_request() {
    let server = Load::setup().start();
    let text = std::fs::read_to_string(server.path("sluice.toml")).unwrap();
    let load = Load::of_all_kinds(&server);
    let turns = rounds(10);
    for turn in 0..turns {
        let more = if turn % 2 == 0 {
            "[[listen]]\naddress = \"127.0.0.2:0\"\n"
        } else {
            ""
        };
        std::fs::write(server.path("sluice.toml"), format!("{more}{text}")).unwrap();
        let ran = command(&server, &["reload"]);
        assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
        load.goes_on();
    }
    note(&format!("{turns} reloads, {} requests, none lost", load.end()));
}
