//! Messages to systemd, with a socket of the test as the systemd.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use super::next_server_process;
use sluice_testing::{Server, Setup, run_command, signal, sluice};

/// The longest wait for a message.
const DEADLINE: Duration = Duration::from_secs(20);

/// The socket of systemd.
struct NotifySocket(UnixDatagram);

impl NotifySocket {
    fn start(setup: Setup) -> (NotifySocket, Server) {
        let path = setup.path("notify.sock");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let server = setup.environment("NOTIFY_SOCKET", path.to_str().unwrap()).start();
        (NotifySocket(socket), server)
    }

    /// The next message.
    fn next(&self) -> String {
        let mut text = [0; 1000];
        let bytes = loop {
            match self.0.recv(&mut text) {
                // With a time limit it is not called again by the kernel after a signal (signal(7)).
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result.expect("a message in time"),
            }
        };
        String::from_utf8_lossy(&text[..bytes]).into_owned()
    }

    /// The next message that is not from the watchdog.
    fn next_of_life(&self) -> String {
        loop {
            let message = self.next();
            if message != "WATCHDOG=1" {
                return message;
            }
        }
    }
}

#[test]
fn start_reload_restart_and_end_are_reported_in_order() {
    let (systemd, server) = NotifySocket::start(Setup::new());
    let serving = format!("READY=1\nSTATUS=Serving {} (server process ", server.address());
    assert!(systemd.next().starts_with(&serving), "{serving}");
    server.signal("HUP");
    let message = systemd.next();
    let number = message.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect(&message);
    let number = number.split('\n').next().unwrap();
    assert!(number.parse::<u64>().unwrap() > 0, "{message}");
    assert!(systemd.next().starts_with(&serving));
    let old = server.server_pid();
    assert!(signal(old, "KILL"));
    assert_eq!(
        systemd.next(),
        "STATUS=The server process was killed by signal 9 (SIGKILL), and is started again"
    );
    next_server_process(&server, old);
    assert!(systemd.next().starts_with(&serving));
    assert!(server.stop().status.success());
    assert_eq!(systemd.next(), "STOPPING=1\nSTATUS=Draining");
}

#[test]
fn the_watchdog_hears_of_workers_that_answer_and_of_no_others() {
    let (systemd, server) = NotifySocket::start(Setup::new().environment("WATCHDOG_USEC", "600000"));
    assert!(systemd.next_of_life().starts_with("READY=1"));
    assert_eq!(systemd.next(), "WATCHDOG=1");
    assert_eq!(systemd.next(), "WATCHDOG=1");
    server.signal("STOP");
    // What it has said before.
    systemd.0.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut text = [0; 100];
    let mut said = 0;
    while systemd.0.recv(&mut text).is_ok() {
        said += 1;
        assert!(said < 10, "the watchdog is fed although nothing answers");
    }
    server.signal("CONT");
    systemd.0.set_read_timeout(Some(DEADLINE)).unwrap();
    assert_eq!(systemd.next(), "WATCHDOG=1");
}

#[test]
fn a_reload_of_an_invalid_file_leaves_the_service_ready() {
    let (systemd, server) = NotifySocket::start(Setup::new());
    assert!(systemd.next().starts_with("READY=1"));
    std::fs::write(server.path("sluice.toml"), "not toml [").unwrap();
    server.signal("HUP");
    assert!(systemd.next().starts_with("RELOADING=1"));
    assert!(systemd.next().starts_with("READY=1"));
}

#[test]
fn the_cause_of_a_failed_start_is_the_status_of_the_service() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let setup = Setup::new().listeners(&format!("[[listen]]\naddress = \"{address}\""));
    setup.write_configuration();
    let path = setup.path("notify.sock");
    let systemd = NotifySocket(UnixDatagram::bind(&path).unwrap());
    systemd.0.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut command = sluice(setup.directory());
    command.args(["run", "--allow-root", "-c", "sluice.toml"]);
    let ran = run_command(command.env("NOTIFY_SOCKET", &path));
    assert_eq!(ran.status.code(), Some(1), "{}", ran.errors);
    let message = systemd.next();
    let expected = format!("STATUS=listen on {address}: ");
    assert!(
        message.starts_with(&expected) && message.contains("another program listens there"),
        "{message}"
    );
    let first = ran.errors.lines().next().unwrap_or_default();
    assert!(
        first.contains(&message["STATUS=".len()..]),
        "the first line is the cause: {}",
        ran.errors
    );
}
