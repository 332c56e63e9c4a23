//! Starts that hang because of what a user does to the own processes and files: they end, and those of other users go on.

use std::time::Duration;

use super::{BOB, SERVER, give, is_root, open_setup};
use sluice_testing::{Client, Server, wait_until_within};

/// A user of no other test.
const HOLDING: u32 = 64_021;

/// A user of no other test, and of no other run of the tests at the same time, because every process of this user is stopped.
fn stopped_user() -> u32 {
    60_000 + std::process::id() % 4_000
}

/// Clients that wait at once: those of six seconds at least, within which a start that was stopped is reported.
const CLIENTS_MAX: usize = 3000;

const HELLO: &str = r"printf 'Content-Type: text/plain\n\nhello'";

/// Holds a lease on a script of the same user, as a server for Samba or NFS does, but never gives it back.
const HOLDER: &str = r#"
import fcntl, signal
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(os.environ["TEST_DIR"] + "/htdocs/cgi-bin/leased", os.O_RDONLY)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
open(os.environ["TEST_DIR"] + "/events", "w").write("leased\n")
signal.pause()
"#;

/// Stops every process of its user, again and again.
const STOPPER: &str = r#"
import signal
open(os.environ["TEST_DIR"] + "/events", "w").write("begun\n")
while True:
    try:
        os.kill(-1, signal.SIGSTOP)
    except OSError:
        pass
"#;

/// A server whose scripts run as one user or as Bob, by their route.
fn start(user: u32, name: &str, text: &str) -> (Server, sluice_testing::FifoReader) {
    let setup = open_setup()
        .server(&format!("user = \"{SERVER}:{SERVER}\""))
        .python(name, text)
        .script("hello", HELLO)
        .script("leased", HELLO);
    let events = setup.event_fifo("events");
    super::set_mode(&setup.path("events"), 0o666);
    give(&setup.path("htdocs/cgi-bin/leased"), user);
    let route = |user: u32| format!("directory = \"htdocs/cgi-bin\", user = \"{user}:{user}\"");
    let server = setup
        .script_route("/first/*", &route(user))
        .script_route(
            "/user/*",
            &format!("{}, reply_timeout = \"1s\", kill_grace = \"100ms\"", route(user)),
        )
        .script_route("/bob/*", &route(BOB))
        .start();
    (server, events)
}

fn ask(server: &Server, path: &str) -> Client {
    let mut client = server.connect();
    client.get(path);
    client
}

#[test]
fn a_lease_on_a_script_ends_its_start_and_delays_nobody_else() {
    if !is_root() {
        return;
    }
    let (server, events) = start(HOLDING, "holder", HOLDER);
    let _holder = ask(&server, "/first/holder");
    assert_eq!(events.line().trim(), "leased");
    let mut clients: Vec<Client> = (0..12).map(|_| ask(&server, "/user/leased")).collect();
    assert_eq!(server.get("/bob/hello").text(), "hello");
    assert!(!server.log().contains("did not reach its exec"), "{}", server.log());
    for _ in 0..20 {
        assert_eq!(server.get("/bob/hello").text(), "hello");
    }
    let response = clients[0].response();
    assert_eq!(response.status, 503, "{}", server.log());
    assert!(response.field("retry-after").is_some());
    let expected = format!(
        "htdocs/cgi-bin/leased: cannot be started: the start as user {HOLDING} did not reach its exec in 5 s and was ended: the process was \
         stopped, or a lease is held on the file"
    );
    server.log_line(&expected);
    assert_eq!(server.get("/bob/hello").text(), "hello");
}

#[test]
fn a_script_that_stops_all_processes_of_its_user_stops_nobody_else() {
    if !is_root() {
        return;
    }
    let (server, events) = start(stopped_user(), "stopper", STOPPER);
    let _stopper = ask(&server, "/first/stopper");
    assert_eq!(events.line().trim(), "begun");
    let mut clients = Vec::new();
    // The start must be stopped within some microseconds, which may take many attempts on a busy machine.
    let is_noticed = wait_until_within(Duration::from_secs(90), || {
        clients.extend((0..4).map(|_| ask(&server, "/user/hello")));
        clients.drain(..clients.len().saturating_sub(CLIENTS_MAX));
        assert_eq!(server.get("/bob/hello").text(), "hello", "{}", server.log());
        server.log().contains("did not reach its exec in 5 s and was ended")
    });
    assert!(is_noticed, "no start was stopped\n{}", server.log());
    assert_eq!(server.get("/bob/hello").text(), "hello");
}
