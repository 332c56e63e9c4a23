//! WATCH of connections: why they are closed, TLS, frames of HTTP/2, octets, and what is never shown of them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rcgen::ExtendedKeyUsagePurpose;
use rustls::version::{TLS12, TLS13};
use socket2::SockRef;

use sluice_testing::{Authority, Client, DEADLINE, Server, Setup, TlsClient, Watcher, curl, wait_until};

const CONNECTION: &[&str] = &["--items", "connection"];

fn setup() -> Setup {
    Setup::new().workers(1).file("a.txt", "hello")
}

/// A setup with TLS on one address, and HTTP/2 in clear text on another one.
fn tls_setup(authority: &Authority) -> Setup {
    let setup = setup().listeners(
        "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }\n\
        [[listen]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"on\"",
    );
    authority.issue_to(&setup.path("default.pem"), &["localhost"]);
    setup
}

/// A client that has got a response and keeps its connection.
#[track_caller]
fn kept(server: &Server) -> Client {
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").response().text(), "hello");
    client
}

#[test]
fn a_connection_is_accepted_kept_and_closed() {
    let server = setup().start();
    let watcher = Watcher::start(&server, CONNECTION);
    let mut client = kept(&server);
    let accepted = watcher.line("accepted from 127.0.0.1:");
    assert!(
        accepted.contains(&format!("at {}, listener 0", server.address())),
        "{accepted}"
    );
    watcher.line("kept after request 1: waits for the next one");
    client.get("/a.txt").response();
    watcher.line("kept after request 2");
    drop(client);
    watcher.line("the client sends no more");
    watcher.line("closing after 2 requests: the client has closed it");
    watcher.line("connection      closed");
    let text = watcher.text();
    let numbers = text
        .lines()
        .filter_map(|line| line.split(" net ").nth(1))
        .map(|rest| &rest[..12]);
    assert!(
        numbers.clone().all(|number| Some(number) == numbers.clone().next()),
        "{text}"
    );
}

#[test]
fn what_the_client_does_is_the_reason_of_a_close() {
    let server = setup()
        .limits("head_timeout = \"300ms\"")
        .script(
            "endless",
            "echo Content-Type: text/plain; echo; head -c 3000000 /dev/zero",
        )
        .start();
    let watcher = Watcher::start(&server, CONNECTION);
    let mut client = server.connect();
    client
        .send("GET /a.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        .response();
    watcher.line("closing after 1 request: the client has announced that its request is the last one");
    let request = "GET /cgi-bin/endless HTTP/1.0\r\nHost: test\r\nConnection: keep-alive\r\n\r\n";
    server.connect().send(request).response();
    watcher.line("closing after 1 request: the response was the last one");
    server.connect().send("?\r\n\r\n").rest();
    watcher.line("closing after 0 requests: the head of a request was refused");
    server.connect().send("GET / HT").rest();
    watcher.line("the head of a request was not complete within head_timeout");
    server.connect().rest();
    watcher.line("closing after 0 requests: idle for head_timeout");
    kept(&server).assert_closed();
    watcher.line("closing after 1 request: idle for head_timeout");
    let client = kept(&server);
    let socket = client.sender();
    SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
    drop((client, socket));
    watcher.line("closing after 1 request: the client has reset it");
}

#[test]
fn a_connection_that_is_idle_when_the_watch_begins_is_shown_at_its_end() {
    let server = setup().limits("head_timeout = \"6s\"").start();
    let mut client = kept(&server);
    let watcher = Watcher::start(&server, CONNECTION);
    client.assert_closed();
    watcher.line("with 1 request before the watch");
    watcher.line("closing after 1 request: idle for head_timeout");
}

#[test]
fn a_client_of_a_unix_socket_is_named_so() {
    let server = setup().listeners("[[listen]]\naddress = \"unix:s.sock\"").start();
    let watcher = Watcher::start(&server, CONNECTION);
    drop(UnixStream::connect(server.path("s.sock")).unwrap());
    watcher.line("accepted from a client of the unix socket at listener 1");
    watcher.line("closing after 0 requests: the client has closed it");
}

#[test]
fn limits_that_close_a_connection_are_named() {
    let limits = "connections = 2\nconnections_per_client = 3";
    let server = setup().limits(limits).start();
    let watcher = Watcher::start(&server, CONNECTION);
    let (mut first, _second) = (kept(&server), kept(&server));
    let _third = kept(&server);
    first.assert_closed();
    watcher.line("it was idle longest, and another connection needs its slot (limits.connections)");
    let server = setup().limits("connections_per_client = 1").start();
    let watcher = Watcher::start(&server, CONNECTION);
    let first = kept(&server);
    server.connect().rest();
    watcher.line("closed at once: 127.0.0.1 has 1 connections already (limits.connections_per_client)");
    drop(first);
    // Then there is room for the connection by which the server is checked. The first such line is that of the one closed at once.
    watcher.lines(2, "connection      closed");
}

#[test]
fn a_client_that_takes_nothing_or_has_left_is_the_reason_of_a_close() {
    let server = setup()
        .limits("send_timeout = \"300ms\"")
        .file("large", vec![b'x'; 32 << 20])
        .script("wait", "echo begun > \"$TEST_DIR/begun\"; sleep 100");
    let begun = server.event_fifo("begun");
    let server = server.start();
    let watcher = Watcher::start(&server, CONNECTION);
    let mut slow = server.connect();
    slow.get("/large");
    watcher.line("its client took less than send_timeout and send_rate allow");
    watcher.line("closed, with a reset");
    let mut client = server.connect();
    client.get("/cgi-bin/wait");
    begun.line();
    drop(client);
    watcher.line("closing after 1 request: its client has left");
    server.assert_idle();
}

#[test]
fn the_header_of_the_proxy_protocol_names_the_client() {
    let listen = "[[listen]]\naddress = \"127.0.0.1:0\"\nproxy_protocol = [\"127.0.0.0/8\"]";
    let server = setup().listeners(listen).start();
    let watcher = Watcher::start(&server, &["--items", "connection,octets", "--client", "192.0.2.7"]);
    let connect = || {
        let address = server.addresses().swap_remove(1);
        let address = address.trim_start_matches("http://").trim_end_matches('/');
        Client::connect(address.parse().unwrap())
    };
    for client in ["192.0.2.9", "192.0.2.7"] {
        let request = format!("PROXY TCP4 {client} 192.0.2.1 4711 80\r\nGET /{client} HTTP/1.1\r\nHost: test\r\n\r\n");
        connect().send(request).response();
    }
    watcher.line("PROXY header: client 192.0.2.7:4711, server 192.0.2.1:80");
    watcher.line("GET /192.0.2.7");
    watcher.line("closing after 1 request");
    let all = Watcher::start(&server, CONNECTION);
    connect().send("GET / HTTP/1.1\r\n\r\n").rest();
    all.line("it does not begin with a header of the PROXY protocol");
    all.line("closing after 0 requests: no valid header of the PROXY protocol");
    assert!(!watcher.text().contains("192.0.2.9"), "{}", watcher.text());
}

#[test]
fn the_connection_of_a_trusted_proxy_is_shown_with_the_requests_of_the_client_only() {
    let server = setup().server("trusted_proxies = [\"127.0.0.0/8\"]").start();
    let watcher = Watcher::start(&server, &["--items", "octets", "--client", "192.0.2.7"]);
    let mut client = server.connect();
    for (path, address) in [
        ("/first", "192.0.2.9"),
        ("/second", "192.0.2.7"),
        ("/third", "192.0.2.9"),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: {address}\r\n\r\n");
        client.send(request).response();
    }
    watcher.line("GET /second");
    watcher.line("404");
    drop(client);
    let text = watcher.text();
    assert!(!text.contains("GET /first") && !text.contains("GET /third"), "{text}");
}

#[test]
fn tls_is_shown_with_what_was_agreed_and_why_it_failed() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let server = tls_setup(&authority).start();
    let watcher = Watcher::start(&server, &["--items", "tls"]);
    for (version, name) in [(&TLS12, "TLSv1.2, ECDHE-ECDSA-"), (&TLS13, "TLSv1.3, TLS_")] {
        let config = Arc::new(authority.client(&[version]));
        for is_resumed in [false, true] {
            let mut client = TlsClient::connect(server.tls_address(), "localhost", &config).unwrap();
            client.get("/a.txt", "localhost").unwrap();
            let count = usize::from(is_resumed) + 1;
            let line = watcher.lines(count, name).swap_remove(count - 1);
            let session = if is_resumed { ", resumed, " } else { ", new session, " };
            for expected in [
                "host localhost",
                "ALPN none",
                "no client certificate asked for",
                session,
            ] {
                assert!(line.contains(expected), "{expected}: {line}");
            }
        }
    }
    curl(&[
        "--insecure",
        "--http2",
        &format!("https://{}/a.txt", server.tls_address()),
    ]);
    watcher.line("ALPN h2");
    let config = Arc::new(stranger.client(&[&TLS13]));
    assert!(TlsClient::connect(server.tls_address(), "localhost", &config).is_err());
    watcher.line("handshake failed after ");
    Client::connect(server.tls_address())
        .send("GET / HTTP/1.1\r\n\r\n")
        .rest();
    watcher.line("HTTP in clear text");
    Client::connect(server.tls_address())
        .send(b"\x16\x03\x01\x00\x05abcde")
        .rest();
    watcher.line("received corrupt message");
}

#[test]
fn the_certificate_of_a_client_is_shown_with_its_verdict() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let setup = setup().listeners(
        "[[listen]]\naddress = \"127.0.0.1:0\"\n\
        tls = { certificate = \"default.pem\", client_certificates = \"required\", client_authorities = \"ca.pem\" }",
    );
    authority.issue_to(&setup.path("default.pem"), &["localhost"]);
    std::fs::write(setup.path("ca.pem"), authority.pem()).unwrap();
    let server = setup.start();
    let watcher = Watcher::start(&server, &["--items", "tls,connection"]);
    let identity = |authority: &Authority| {
        authority.issue_with(&["ann"], |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        })
    };
    let ask = |identity| {
        let config = Arc::new(authority.client_with(&[&TLS13], identity));
        let client = TlsClient::connect(server.tls_address(), "localhost", &config);
        client.and_then(|mut client| client.get("/a.txt", "localhost")).is_ok()
    };
    assert!(ask(Some(identity(&authority))));
    let line = watcher.line("client certificate verified");
    assert!(
        line.contains("client certificate of ") && line.contains("valid until "),
        "{line}"
    );
    assert!(!ask(None));
    watcher.line("handshake failed after ");
    watcher.line("peer sent no certificates");
    assert!(!ask(Some(identity(&stranger))));
    watcher.line("invalid peer certificate");
    watcher.lines(2, "closing after 0 requests: the TLS handshake failed");
}

/// The bytes that a client of HTTP/2 sends for `GET /` with a password: preface, SETTINGS, HEADERS.
fn http2_request() -> Vec<u8> {
    const FIELDS: &[u8] = b"\x82\x84\x86\x41\x04test\x0f\x08\x06s3cret";
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x07".to_vec();
    bytes.extend([0, 0, u8::try_from(FIELDS.len()).unwrap(), 1, 5, 0, 0, 0, 1]);
    bytes.extend(FIELDS);
    bytes
}

fn clear_address(server: &Server) -> String {
    let addresses = server.addresses();
    let clear = addresses.iter().find(|address| address.contains("127.0.0.2")).unwrap();
    clear.trim_start_matches("http://").trim_end_matches('/').to_owned()
}

#[test]
fn frames_of_http2_are_shown_in_both_directions() {
    // It reads the body: a response before the end of the body would be followed by RST_STREAM, which some versions of curl call an error.
    let script = "cat > /dev/null\nprintf 'Content-Type: text/plain\\n\\nread'";
    let server = tls_setup(&Authority::new()).script("reads", script).start();
    let watcher = Watcher::start(&server, &["--items", "http2,connection"]);
    let way = ["--http2-prior-knowledge", "--data", "a=b"];
    let address = format!("http://{}/cgi-bin/reads", clear_address(&server));
    curl(&[&way[..], &[&address]].concat());
    for expected in [
        "sent SETTINGS: MAX_CONCURRENT_STREAMS 128, INITIAL_WINDOW_SIZE 262144",
        "received SETTINGS: ",
        "sent SETTINGS, ACK",
        "received HEADERS, stream 1, END_HEADERS, ",
        "received DATA, stream 1, END_STREAM, 3 bytes",
        "sent HEADERS, stream 1, END_HEADERS, ",
        "sent DATA, stream 1, END_STREAM, ",
        "closing after 1 request: the client has closed it",
    ] {
        watcher.line(expected);
    }
}

/// A HEADERS frame of HTTP/2: a GET of a path.
fn http2_get(stream: u8, path: &str) -> Vec<u8> {
    let mut fields = b"\x82\x86\x01\x09127.0.0.2\x04".to_vec();
    fields.push(u8::try_from(path.len()).unwrap());
    fields.extend(path.as_bytes());
    let mut bytes = vec![0, 0, u8::try_from(fields.len()).unwrap(), 1, 5, 0, 0, 0, stream];
    bytes.extend(fields);
    bytes
}

#[test]
fn a_connection_of_http2_is_watched_again_after_it_has_carried_a_watch() {
    let server = Setup::new()
        .file("a.txt", "a")
        .listeners("[[listen]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"on\"")
        .route("path = \"/-/*\"\nreports = true\naccess = { allow = [\"net:127.0.0.0/8\"], allow_write = [\"net:127.0.0.0/8\"] }")
        .start();
    let watcher = Watcher::start(&server, &["--items", "http2"]);
    let mut browser = TcpStream::connect(clear_address(&server)).unwrap();
    browser
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .unwrap();
    let watch = http2_get(1, "/-/watch-text?items=mapping&once=on&path=/a.txt");
    browser.write_all(&watch).unwrap();
    server.log_line("watch by client");
    server.get("/a.txt");
    // That is logged at its end.
    server.access_lines(2);
    browser.write_all(&http2_get(3, "/b")).unwrap();
    watcher.line("sent DATA, stream 3, END_STREAM");
    browser.write_all(&http2_get(5, "/c")).unwrap();
    watcher.line("received HEADERS, stream 5, ");
    watcher.line("sent DATA, stream 5, END_STREAM");
    let text = watcher.text();
    assert!(!text.contains("sent HEADERS, stream 1"), "{text}");
}

#[test]
fn a_hostile_client_of_http2_is_shown_without_its_secrets() {
    let server = tls_setup(&Authority::new()).start();
    let watcher = Watcher::start(&server, &["--items", "http2,connection,octets,errors"]);
    let connect = || {
        let stream = TcpStream::connect(clear_address(&server)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    };
    // One byte at a time.
    let mut stream = connect();
    for byte in http2_request() {
        stream.write_all(&[byte]).unwrap();
    }
    watcher.line("received SETTINGS: MAX_CONCURRENT_STREAMS 7");
    watcher.line("received HEADERS, stream 1, END_STREAM END_HEADERS, 18 bytes");
    watcher.line("sent HEADERS, stream 1");
    // Frames that are not allowed.
    stream.write_all(b"\0\0\x01\x04\0\0\0\0\0x\xff\xff\xff").unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    watcher.line("received SETTINGS, 1 bytes");
    watcher.line("sent GOAWAY: PROTOCOL_ERROR");
    watcher.line("connection error detected: unspecific protocol error");
    watcher.line("closing after 1 request: an error");
    // Half a preface, then a request of HTTP/1.
    let mut stream = connect();
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nGET / HTTP/1.1\r\nAuthorization: s3cret\r\n\r\n")
        .unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    watcher.line("the client does not begin with the preface of HTTP/2");
    watcher.lines(2, "closing after ");
    // Half a frame, and then nothing.
    let mut stream = connect();
    stream.write_all(&http2_request()[..45]).unwrap();
    drop(stream);
    watcher.lines(3, "closing after ");
    let text = watcher.text();
    assert!(!text.contains("s3cret") && !text.contains("73 33 63"), "{text}");
}

#[test]
fn octets_are_shown_in_both_directions_without_secrets() {
    let echo = "printf 'Content-Type: text/plain\\nSet-Cookie: a=s3cret\\n\\n'; cat";
    let server = setup().script("echo", echo).start();
    let watcher = Watcher::start(&server, &["--items", "octets"]);
    let json = "{\"user\":\"ann\",\"password\":\"s3cret\"}";
    let request = format!(
        "POST /cgi-bin/echo?a=b&token=s3cret HTTP/1.1\r\nHost: test\r\nAuthorization: Basic s3cret\r\nCookie: s3cret\r\n\
        Content-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n{json}",
        json.len()
    );
    for size in [request.len(), 7, 1] {
        let mut client = server.connect();
        for bytes in request.as_bytes().chunks(size) {
            client.send(bytes);
        }
        assert_eq!(client.head().status, 100);
        assert!(client.response().text().contains("s3cret"));
        drop(client);
    }
    watcher.line("POST /cgi-bin/ec");
    watcher.lines(3, "HTTP/1.1 200 OK");
    watcher.lines(3, "ookie:*********.");
    server.get("/a.txt");
    // In a hex dump a text is split at the end of a row.
    let shown = || -> String { watcher.text().lines().filter_map(|line| line.get(106..)).collect() };
    assert!(wait_until(|| shown().contains("hello")), "{}", watcher.text());
    let shown = shown();
    assert!(
        shown.contains("Authorization:**") && shown.contains("\"user\":\"ann\""),
        "{shown}"
    );
    assert!(!shown.contains("s3c") && !shown.contains("cret"), "{shown}");
}

#[test]
fn a_watch_that_begins_within_a_connection_shows_it_from_the_next_request_on() {
    let server = tls_setup(&Authority::new()).start();
    let mut client = kept_on(&server);
    let mut part = kept_on(&server);
    part.send("GET /a.txt HTTP/1.1\r\nHost: test\r\nAuthorization: Basic s3c");
    let mut http2 = TcpStream::connect(clear_address(&server)).unwrap();
    http2.set_read_timeout(Some(DEADLINE)).unwrap();
    http2.write_all(&http2_request()).unwrap();
    let mut received = Vec::new();
    while !received.windows(5).any(|window| window == b"hello") && !received.ends_with(b"404\n") {
        let mut bytes = [0; 4096];
        let count = http2.read(&mut bytes).unwrap();
        assert!(count > 0, "{}", received.escape_ascii());
        received.extend(&bytes[..count]);
        if received.len() > 60 {
            break;
        }
    }
    let watcher = Watcher::start(&server, &["--items", "octets,http2,connection"]);
    client.get("/a.txt").response();
    watcher.line("with 1 request before the watch");
    watcher.line("GET /a.txt HTTP/");
    watcher.line("kept after request 2");
    part.send("ret\r\n\r\n").response();
    watcher.line("some bytes of this connection were missed: what is received is shown once it is certain where a message begins");
    part.get("/second").response();
    watcher.line("GET /second HTTP");
    http2.write_all(b"\0\0\x08\x06\0\0\0\0\0abcdefgh").unwrap();
    watcher.line("received PING: 6162636465666768");
    watcher.line("sent PING, ACK: 6162636465666768");
    let text = watcher.text();
    assert!(!text.contains("s3c") && !text.contains("ret.."), "{text}");
}

/// A client as `kept` makes it, on the address in clear text.
#[track_caller]
fn kept_on(server: &Server) -> Client {
    let mut client = Client::connect(clear_address(server).parse().unwrap());
    assert_eq!(client.get("/a.txt").response().text(), "hello");
    client
}

#[test]
fn a_watch_of_one_request_shows_its_octets_to_their_end() {
    let server = setup().file("large", "0123456789".repeat(200_000)).start();
    let watcher = Watcher::start(
        &server,
        &["--items", "octets", "--once", "--path", "/large", "--octets-max", "4M"],
    );
    let mut client = server.connect();
    client.get("/a.txt").response();
    client.get("/large").response();
    let ended = watcher.wait_end();
    let text = ended.output;
    assert!(
        ended.status.success() && text.contains("-- end: the request has ended"),
        "{text}"
    );
    assert!(
        text.contains("GET /large HTTP/") && !text.contains("GET /a.txt"),
        "{text}"
    );
    let sent = text
        .lines()
        .filter_map(|line| line.split_once("sent ")?.1.strip_suffix(" bytes"));
    let sent: usize = sent.map(|count| count.parse::<usize>().unwrap()).sum();
    assert!(sent > 2_000_000, "{sent}");
}

#[test]
fn octets_of_a_request_that_its_status_excludes_are_not_shown_and_those_of_the_next_are() {
    let server = setup().start();
    let watcher = Watcher::start(&server, &["--items", "octets", "--status", "404"]);
    let mut client = server.connect();
    for _ in 0..2 {
        assert_eq!(client.get("/a.txt").response().text(), "hello");
        assert_eq!(client.get("/second").response().status, 404);
    }
    watcher.lines(2, "GET /second HTTP");
    watcher.lines(2, "HTTP/1.1 404 Not");
    let text = watcher.text();
    assert!(!text.contains("GET /a.txt") && !text.contains("missed"), "{text}");
}

#[test]
fn octets_end_with_the_watch_and_a_reload_does_not_matter() {
    let server = setup().start();
    let mut client = kept(&server);
    let watcher = Watcher::start(&server, &["--items", "octets"]);
    client.get("/a.txt").response();
    watcher.line("GET /a.txt");
    drop(watcher);
    server.log_line("the watcher has left");
    client.get("/a.txt").response();
    let watcher = Watcher::start(&server, &["--items", "octets"]);
    client.get("/second").response();
    watcher.line("GET /second");
    watcher.line("404");
    assert!(!watcher.text().contains("missed"), "{}", watcher.text());
}
