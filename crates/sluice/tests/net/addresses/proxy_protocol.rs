//! The PROXY protocol: its header names the client before TLS and HTTP begin. Connections without a valid header get
//! no response.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustls::version::TLS13;

use sluice_testing::{Authority, Client, DEADLINE, Ending, Server, Setup, TlsClient, curl};

const LISTEN: &str = "[[listen]]\naddress = \"127.0.0.1:0\"\nproxy_protocol = [\"127.0.0.0/8\"]";

/// 192.0.2.7:4711 to 198.51.100.1:443, in version 1 and in version 2 with a TLV.
const V1: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x10\xc0\0\x02\x07\xc6\x33\x64\x01\x12\x67\x01\xbb\x04\0\x01\x09";

const REQUEST: &[u8] = b"GET /cgi-bin/ends HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// A script that prints the client's and the server's address.
const ENDPOINTS: &str = r#"printf 'Content-Type: text/plain\n\n%s %s %s %s' \
    "$REMOTE_ADDR" "$REMOTE_PORT" "$SERVER_ADDR" "$SERVER_PORT""#;

fn setup() -> Setup {
    Setup::new()
        .script("ends", ENDPOINTS)
        .file("a.txt", "hello")
        .listeners(LISTEN)
}

/// The address that expects the PROXY protocol.
fn address(server: &Server) -> SocketAddr {
    let addresses = server.addresses();
    let (_, address) = addresses[1].split_once("://").unwrap();
    address.trim_end_matches('/').parse().unwrap()
}

#[test]
fn both_versions_name_the_client_for_scripts_and_logs() {
    let server = setup().start();
    for header in [V1, V2] {
        let mut client = Client::connect(address(&server));
        client.send([header, REQUEST, REQUEST].concat());
        for _ in 0..2 {
            assert_eq!(client.response().text(), "192.0.2.7 4711 198.51.100.1 443");
        }
    }
    let lines = server.access_lines(4);
    assert!(lines.iter().all(|line| line.starts_with("192.0.2.7 ")), "{lines:?}");
}

#[test]
fn header_may_arrive_byte_by_byte() {
    let server = setup().start();
    for header in [V1, V2] {
        let mut client = Client::connect(address(&server));
        for byte in header {
            client.send([*byte]);
            // A complete exchange in between gives the server time to read the byte.
            assert_eq!(server.get("/a.txt").text(), "hello");
        }
        client.send(REQUEST);
        assert_eq!(client.response().text(), "192.0.2.7 4711 198.51.100.1 443");
    }
}

#[test]
fn local_and_unknown_headers_keep_the_proxy_as_client() {
    let server = setup().start();
    for header in [
        &b"PROXY UNKNOWN\r\n"[..],
        b"PROXY UNKNOWN 1 2 3\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
        b"\r\n\r\n\0\r\nQUIT\n\x21\0\0\0",
    ] {
        let mut client = Client::connect(address(&server));
        client.send([header, REQUEST].concat());
        let (own, listener) = (client.address(), address(&server));
        let expected = format!("127.0.0.1 {} 127.0.0.1 {}", own.port(), listener.port());
        assert_eq!(client.response().text(), expected);
    }
}

#[test]
fn declared_proxy_must_send_a_valid_header() {
    for (bytes, words) in [
        (
            &b"GET /a.txt HTTP/1.1\r\nHost: a.test\r\n\r\n"[..],
            "does not begin with",
        ),
        (b"PROXY TCP4 192.0.2.7 nowhere 1 2\r\n", "invalid address"),
        (&[b'P', b'R', b'O', b'X', b'Y', b' '].repeat(30), "the line is too long"),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff", "too long"),
    ] {
        let server = setup().start();
        let mut client = Client::connect(address(&server));
        client.try_send(bytes);
        assert_eq!(client.rest().0, b"", "no response");
        let line = server.log_line("closed: ");
        assert!(
            line.contains("connection from 127.0.0.1:") && line.contains(words),
            "{line}"
        );
    }
}

#[test]
fn late_header_closes_the_connection() {
    let server = setup().limits("head_timeout = \"300ms\"").start();
    let mut client = Client::connect(address(&server));
    client.send(&V1[..20]);
    assert_eq!(client.rest().0, b"");
    server.log_line("no header of the PROXY protocol within 300ms");
}

#[test]
fn undeclared_proxy_is_refused_with_and_without_a_header() {
    let event_fifo = LISTEN.replace("127.0.0.0/8", "192.0.2.0/24");
    let server = setup().listeners(&event_fifo).workers(1).start();
    for bytes in [V1, b"GET /a.txt HTTP/1.1\r\nHost: a.test\r\n\r\n"] {
        for _ in 0..20 {
            let mut client = Client::connect(address(&server));
            client.try_send(bytes);
            assert_eq!(client.rest().0, b"");
        }
    }
    let line = server.log_line("closed: ");
    assert!(line.contains("not from a proxy that proxy_protocol names"), "{line}");
    // A log line for each would let anyone fill the disk.
    let lines = server.log().matches("closed: ").count();
    assert!(lines <= 10, "{}", server.log());
    let ended = server.stop();
    assert!(ended.access.is_empty());
    assert!(
        ended
            .errors
            .contains("first request: 30 more lines like it, not logged"),
        "{}",
        ended.errors
    );
}

#[test]
fn tls_and_http2_follow_the_header() {
    let authority = Authority::new();
    let event_fifo = format!("{LISTEN}\ntls = {{ certificate = \"c.pem\" }}");
    let setup = setup().listeners(&event_fifo);
    authority.issue_to(&setup.path("c.pem"), &["localhost"]);
    fs::write(setup.path("ca.pem"), authority.pem()).unwrap();
    let server = setup.start();
    let config = Arc::new(authority.client(&[&TLS13]));
    let mut client = TlsClient::connect_after(V2, address(&server), "localhost", &config).unwrap();
    let response = client.get("/cgi-bin/ends", "localhost").unwrap();
    assert!(response.contains("\r\n192.0.2.7 4711 198.51.100.1 443"), "{response}");
    let url = format!("https://localhost:{}/cgi-bin/ends", address(&server).port());
    let authorities = server.path("ca.pem");
    let output = curl(&[
        "--cacert",
        authorities.to_str().unwrap(),
        "--haproxy-protocol",
        "--write-out",
        " %{http_version}",
        "-4",
        &url,
    ]);
    assert!(output.starts_with("127.0.0.1 ") && output.ends_with(" 2"), "{output}");
    // Without the header the TLS handshake does not start.
    let mut client = Client::connect(address(&server));
    client.try_send(b"\x16\x03\x01\0\x05hello, hello, hello");
    assert_eq!(client.rest().0, b"");
    server.log_line("does not begin with a header of the PROXY protocol");
}

#[test]
fn proxy_on_a_unix_socket_is_declared_as_unix() {
    let event_fifo = "[[listen]]\naddress = \"unix:s.sock\"\nproxy_protocol = [\"unix:\"]\nhttp2 = \"on\"";
    let server = setup().listeners(event_fifo).start();
    let ask = |header: &[u8]| {
        let mut stream = UnixStream::connect(server.path("s.sock")).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let request = b"GET /cgi-bin/ends HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
        stream.write_all(&[header, request].concat()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(ask(V1).contains("\r\n192.0.2.7 4711 198.51.100.1 443"));
    assert!(ask(b"PROXY UNKNOWN\r\n").contains("\r\n127.0.0.1 0 127.0.0.1 80"));
}

#[test]
fn client_of_the_header_may_be_a_trusted_proxy_itself() {
    let server = setup().server("trusted_proxies = [\"192.0.2.7\"]").start();
    for (header, expected) in [
        (V1, "203.0.113.5 0 198.51.100.1 443"),
        (
            &b"PROXY TCP4 192.0.2.8 198.51.100.1 4711 443\r\n"[..],
            "192.0.2.8 4711 198.51.100.1 443",
        ),
    ] {
        let mut client = Client::connect(address(&server));
        let request = b"GET /cgi-bin/ends HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 203.0.113.5\r\n\r\n";
        client.send([header, request].concat());
        assert_eq!(client.response().text(), expected);
    }
}

#[test]
fn clients_that_leave_within_the_header_leave_nothing_behind() {
    let server = setup().start();
    for length in 0..V2.len() {
        let mut stream = TcpStream::connect(address(&server)).unwrap();
        stream.write_all(&V2[..length]).unwrap();
    }
    let mut client = Client::connect(address(&server));
    client.finish();
    assert_eq!(client.rest(), (Vec::new(), Ending::Complete));
    server.assert_idle();
}
