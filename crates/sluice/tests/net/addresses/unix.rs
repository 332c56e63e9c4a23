//! Unix sockets: served like any other address, with a socket file that exists only while the server listens.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use sluice_testing::{Authority, DEADLINE, Setup, curl, run};

const LISTEN: &str = "[[listen]]\naddress = \"unix:s.sock\"";

/// A script that prints the client's and the server's address.
const ENDPOINTS: &str = r#"printf 'Content-Type: text/plain\n\n%s %s %s %s:%s' \
    "$REMOTE_ADDR" "$REMOTE_HOST" "$REMOTE_PORT" "$SERVER_ADDR" "$SERVER_PORT""#;

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Everything until the server closes.
fn rest(mut stream: UnixStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The response to a GET on its own connection.
pub(super) fn get(path: &Path, target: &str, host: &str) -> String {
    let mut stream = connect(path);
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    rest(stream)
}

#[test]
fn files_and_scripts_are_served_with_a_loopback_client() {
    let setup = Setup::new()
        .script("ends", ENDPOINTS)
        .file("a.txt", "hello")
        .listeners(LISTEN);
    let server = setup.start();
    let socket = server.path("s.sock");
    assert!(server.log().contains(&format!("unix:{} (http)", socket.display())));
    assert!(get(&socket, "/a.txt", "a.test").ends_with("\r\n\r\nhello"));
    for (host, port) in [("a.test", "80"), ("a.test:8080", "8080")] {
        let response = get(&socket, "/cgi-bin/ends", host);
        let reported = format!("127.0.0.1 127.0.0.1 0 127.0.0.1:{port}");
        assert!(response.contains(&reported), "{response}");
    }
    let lines = server.access_lines(3);
    assert!(lines.iter().all(|line| line.starts_with("127.0.0.1 ")), "{lines:?}");
}

#[test]
fn many_concurrent_clients_are_all_served() {
    let server = Setup::new().file("a.txt", "hello").listeners(LISTEN).workers(4).start();
    let socket = server.path("s.sock");
    let mut clients: Vec<UnixStream> = (0..100).map(|_| connect(&socket)).collect();
    for client in &mut clients {
        client
            .write_all(b"GET /a.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
            .unwrap();
    }
    for client in clients {
        assert!(rest(client).ends_with("hello"));
    }
}

#[test]
fn socket_has_its_mode_survives_a_reload_and_is_removed_at_exit() {
    let event_fifo = format!("{LISTEN}\nmode = \"606\"");
    let mut server = Setup::new().file("a.txt", "hello").listeners(&event_fifo).start();
    let socket = server.path("s.sock");
    let about = fs::symlink_metadata(&socket).unwrap();
    assert!(about.file_type().is_socket());
    assert_eq!(about.permissions().mode() & 0o7777, 0o606);
    server.signal("HUP");
    server.log_line("is in force");
    assert!(get(&socket, "/a.txt", "test").ends_with("hello"));
    server.end();
    assert!(!socket.exists());
}

#[test]
fn stale_socket_is_replaced() {
    let setup = Setup::new().file("a.txt", "hello").listeners(LISTEN);
    drop(UnixListener::bind(setup.path("s.sock")).unwrap());
    let server = setup.start();
    assert!(get(&server.path("s.sock"), "/a.txt", "test").ends_with("hello"));
}

#[test]
fn socket_of_another_process_is_not_removed_at_exit() {
    let mut server = Setup::new().listeners(LISTEN).start();
    let socket = server.path("s.sock");
    fs::remove_file(&socket).unwrap();
    let _other = UnixListener::bind(&socket).unwrap();
    server.end();
    connect(&socket);
}

#[test]
fn busy_socket_or_existing_file_is_reported_in_one_line() {
    let server = Setup::new().listeners(LISTEN).start();
    let directory = server.setup().directory();
    let serve = |address: &str| run(directory, &["serve", "htdocs", "--listen", address]);
    let ran = serve("unix:s.sock");
    assert_eq!(ran.status.code(), Some(1));
    let expected = format!(
        "sluice: listen on unix:s.sock: address in use: process {} listens on it\n",
        server.pid()
    );
    assert_eq!(ran.errors, expected);
    fs::write(server.path("page.html"), "a page").unwrap();
    let ran = serve("unix:page.html");
    assert_eq!(
        ran.errors,
        "sluice: listen on unix:page.html: a file of this name exists and is not a socket: remove it, or choose another name\n"
    );
    assert_eq!(fs::read_to_string(server.path("page.html")).unwrap(), "a page");
    let ran = serve(&format!("unix:{}", "x".repeat(200)));
    assert!(
        ran.errors.ends_with("the system allows 107: choose a shorter one\n"),
        "{}",
        ran.errors
    );
    assert!(get(&server.path("s.sock"), "/health.txt", "test").ends_with("well"));
}

#[test]
fn running_request_is_answered_during_the_drain() {
    let waiting = r#"echo started > "$TEST_DIR/events"; read -r line < "$TEST_DIR/gate"; printf 'Content-Type: text/plain\n\nanswered'"#;
    let setup = Setup::new().script("wait", waiting).listeners(LISTEN);
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let mut server = setup.start();
    let socket = server.path("s.sock");
    let mut client = connect(&socket);
    client
        .write_all(b"GET /cgi-bin/wait HTTP/1.1\r\nHost: test\r\n\r\n")
        .unwrap();
    assert_eq!(events.line(), "started");
    server.signal("TERM");
    server.log_line("draining");
    gate.open();
    assert!(rest(client).contains("answered"));
    server.end();
    assert!(!socket.exists());
}

#[test]
fn curl_uses_http_and_https_over_unix_sockets() {
    let authority = Authority::new();
    let event_fifo = format!("{LISTEN}\n[[listen]]\naddress = \"unix:tls.sock\"\ntls = {{ certificate = \"c.pem\" }}");
    let facts = r#"printf 'Content-Type: text/plain\n\n%s %s %s' "$REQUEST_SCHEME" "$SERVER_PORT" "$SERVER_PROTOCOL""#;
    let setup = Setup::new().script("facts", facts).listeners(&event_fifo);
    authority.issue_to(&setup.path("c.pem"), &["a.test"]);
    fs::write(setup.path("ca.pem"), authority.pem()).unwrap();
    let server = setup.start();
    let (clear, tls, authorities) = (server.path("s.sock"), server.path("tls.sock"), server.path("ca.pem"));
    let reported = curl(&["--unix-socket", clear.to_str().unwrap(), "http://a.test/cgi-bin/facts"]);
    assert_eq!(reported, "http 80 HTTP/1.1");
    let reported = curl(&[
        "--unix-socket",
        tls.to_str().unwrap(),
        "--cacert",
        authorities.to_str().unwrap(),
        "https://a.test/cgi-bin/facts",
    ]);
    assert_eq!(reported, "https 443 HTTP/2.0");
}
