//! Certificates that change while the server runs, and cannot be used.

use std::fs;
use std::sync::Arc;

use sluice_testing::{Authority, Server, Setup, TlsClient, run, signal, wait_until};

use super::{BOTH, setup};

/// Two sites with certificates of their own; that of `one.test` has its key in another file.
fn start(authority: &Authority) -> Server {
    let setup = setup(authority).server("control = \"control.sock\"").sites(
        "[[site]]\nhosts = [\"one.test\"]\nroot = \"htdocs\"\ntls = { certificate = \"one.pem\", key = \"one.key\" }\n\n\
         [[site]]\nhosts = [\"two.test\"]\nroot = \"htdocs\"\ntls = { certificate = \"two.pem\" }",
    );
    issue_one(&setup, authority);
    authority.issue_to(&setup.path("two.pem"), &["two.test"]);
    setup.start()
}

fn issue_one(setup: &Setup, authority: &Authority) {
    let (certificate, key) = authority.issue(&["one.test"]);
    fs::write(setup.path("one.pem"), certificate).unwrap();
    fs::write(setup.path("one.key"), key).unwrap();
}

/// The certificate that a new client of the host gets, which is valid for the host.
fn certificate(server: &Server, authority: &Authority, host: &str) -> Vec<u8> {
    let config = Arc::new(authority.client(BOTH));
    let client = TlsClient::connect(server.tls_address(), host, &config);
    client
        .unwrap_or_else(|error| panic!("{host}: {error}\n{}", server.log()))
        .certificate()
}

fn status(server: &Server) -> String {
    run(server.setup().directory(), &["status", "-c", "sluice.toml"]).output
}

const FAULT: &str = "the key does not belong to this certificate; the old content stays in effect";

#[test]
fn a_key_without_its_certificate_keeps_the_old_one_and_holds_nothing_else_back() {
    let authority = Authority::new();
    let server = start(&authority);
    let old = ["one.test", "two.test", "localhost"].map(|host| certificate(&server, &authority, host));
    let (new, key) = authority.issue(&["one.test"]);
    fs::write(server.path("one.key"), key).unwrap();
    authority.issue_to(&server.path("two.pem"), &["two.test"]);
    server.log_line("certificates have changed: the new ones are in force");
    server.log_line(FAULT);
    let now = ["one.test", "two.test", "localhost"].map(|host| certificate(&server, &authority, host));
    assert_eq!((&now[0], &now[2]), (&old[0], &old[2]));
    assert_ne!(now[1], old[1]);
    assert!(status(&server).contains(FAULT), "{}", status(&server));
    // The next server process has the same ones.
    assert!(signal(server.server_pid(), "KILL"));
    server.log_line(" serves");
    server.log_lines(2, FAULT);
    assert!(status(&server).contains(FAULT), "{}", status(&server));
    assert_eq!(certificate(&server, &authority, "one.test"), now[0]);
    assert_eq!(certificate(&server, &authority, "two.test"), now[1]);
    // And that of another program, too.
    let ran = run(server.setup().directory(), &["upgrade", "-c", "sluice.toml"]);
    assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
    server.log_line("draining: another server process has taken over");
    server.log_lines(3, FAULT);
    assert!(status(&server).contains(FAULT), "{}", status(&server));
    assert_eq!(certificate(&server, &authority, "one.test"), now[0]);
    fs::write(server.path("one.pem"), new).unwrap();
    server.log_lines(2, "certificates have changed: the new ones are in force");
    assert_ne!(certificate(&server, &authority, "one.test"), now[0]);
    assert!(!status(&server).contains(FAULT), "{}", status(&server));
}

#[test]
fn an_upgrade_between_a_new_key_and_its_certificate_keeps_the_old_pair() {
    let authority = Authority::new();
    let server = start(&authority);
    let old = certificate(&server, &authority, "one.test");
    let (new, key) = authority.issue(&["one.test"]);
    fs::write(server.path("one.key"), key).unwrap();
    let ran = run(server.setup().directory(), &["upgrade", "-c", "sluice.toml"]);
    assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
    assert_eq!(certificate(&server, &authority, "one.test"), old);
    server.log_line(FAULT);
    fs::write(server.path("one.pem"), new).unwrap();
    assert!(
        wait_until(|| certificate(&server, &authority, "one.test") != old),
        "{}",
        server.log()
    );
}

#[test]
fn a_chain_that_each_handshake_would_send_is_bounded() {
    let authority = Authority::new();
    let server = start(&authority);
    let old = certificate(&server, &authority, "one.test");
    let text = fs::read_to_string(server.path("one.pem")).unwrap();
    fs::write(server.path("one.pem"), text.repeat(400)).unwrap();
    server.log_line("bytes, of which each client gets all: 102400 at most");
    assert_eq!(certificate(&server, &authority, "one.test"), old);
}

#[test]
fn a_deleted_certificate_stays_in_effect_and_is_reported() {
    let authority = Authority::new();
    let server = start(&authority);
    let old = certificate(&server, &authority, "one.test");
    fs::remove_file(server.path("one.pem")).unwrap();
    server.log_line("certificates have changed: the old ones stay in effect");
    server.log_line("one.pem: No such file or directory");
    assert!(!server.log().contains("the new ones are in force"), "{}", server.log());
    assert_eq!(certificate(&server, &authority, "one.test"), old);
    assert!(
        wait_until(|| status(&server).contains("one.pem: No such file")),
        "{}",
        status(&server)
    );
}

#[test]
fn a_link_or_fifo_in_the_place_of_a_certificate_is_not_opened() {
    let authority = Authority::new();
    let server = start(&authority);
    let old = certificate(&server, &authority, "one.test");
    let made = std::process::Command::new("mkfifo")
        .arg(server.path("fifo"))
        .status()
        .unwrap();
    assert!(made.success());
    fs::rename(server.path("fifo"), server.path("one.pem")).unwrap();
    server.log_line("one.pem: is not a file; the old content stays in effect");
    // Opening a terminal would make it that of the supervisor.
    std::os::unix::fs::symlink("/dev/ptmx", server.path("link")).unwrap();
    fs::rename(server.path("link"), server.path("two.pem")).unwrap();
    server.log_line("two.pem: is not a file; the old content stays in effect");
    assert_eq!(certificate(&server, &authority, "one.test"), old);
    // No thread of the supervisor waits for the FIFO, which would keep an upgrade from being made.
    let ran = run(server.setup().directory(), &["upgrade", "-c", "sluice.toml"]);
    assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
    assert_eq!(certificate(&server, &authority, "one.test"), old);
}

#[test]
fn a_file_that_changes_without_end_keeps_no_other_certificate_back() {
    let authority = Authority::new();
    let server = start(&authority);
    let old = certificate(&server, &authority, "two.test");
    authority.issue_to(&server.path("two.pem"), &["two.test"]);
    let text = fs::read(server.path("one.pem")).unwrap();
    assert!(wait_until(|| {
        fs::write(server.path("one.pem"), &text).unwrap();
        certificate(&server, &authority, "two.test") != old
    }));
}
