//! Reverse DNS: names are used only if they are verified, and a slow or broken name server delays nothing for long.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::thread::JoinHandle;
use std::time::Instant;

use sluice_testing::{DEADLINE, Server, Setup};

/// A script that prints the client's name and address.
const WHO: &str = r#"printf 'Content-Type: text/plain\n\n%s %s' "$REMOTE_HOST" "$REMOTE_ADDR""#;

/// Record types (RFC 1035 §3.2.2, RFC 3596).
const A: u16 = 1;
const PTR: u16 = 12;
const AAAA: u16 = 28;

/// A name server that knows a few records and answers NXDOMAIN for the rest.
struct NameServer {
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    fn start(records: &[(&str, u16, &str)]) -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let records: HashMap<_, _> = records
            .iter()
            .map(|(name, kind, value)| (((*name).to_owned(), *kind), data(*kind, value)))
            .collect();
        let thread = std::thread::spawn(move || {
            let mut query = [0; 512];
            // An empty datagram stops the thread.
            while let Ok((length @ 1.., client)) = socket.recv_from(&mut query) {
                let _ = socket.send_to(&answer(&query[..length], &records), client);
            }
        });
        NameServer { address, thread: Some(thread) }
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&[], self.address).unwrap();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The RDATA of a record.
fn data(kind: u16, value: &str) -> Vec<u8> {
    match kind {
        A => value.parse::<std::net::Ipv4Addr>().unwrap().octets().to_vec(),
        AAAA => value.parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec(),
        _ => {
            let labels = value.split('.').flat_map(|label| {
                let length = u8::try_from(label.len()).unwrap();
                [&[length][..], label.as_bytes()].concat()
            });
            labels.chain([0]).collect()
        }
    }
}

/// The response to a query with one question (RFC 1035 §4.1).
fn answer(query: &[u8], records: &HashMap<(String, u16), Vec<u8>>) -> Vec<u8> {
    let (mut name, mut at) = (Vec::new(), 12);
    while query[at] != 0 {
        let length = usize::from(query[at]);
        name.push(String::from_utf8_lossy(&query[at + 1..=at + length]).to_lowercase());
        at += length + 1;
    }
    let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
    let question = &query[12..at + 5];
    let found = records.get(&(name.join("."), kind));
    let (code, count) = if found.is_some() { (0, 1) } else { (3, 0) };
    let mut response = [&query[..2], &[0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0], question].concat();
    if let Some(data) = found {
        let length = u16::try_from(data.len()).unwrap();
        // A pointer to the question's name; then this type, class IN, TTL 60 seconds.
        response.extend([0xc0, 12]);
        response.extend(kind.to_be_bytes());
        response.extend([0, 1, 0, 0, 0, 60]);
        response.extend(length.to_be_bytes());
        response.extend(data);
    }
    response
}

/// A server that asks this name server for the names of forwarded clients.
fn server(name_server: SocketAddr, keys: &str) -> Server {
    let keys = format!("trusted_proxies = [\"127.0.0.1\"]\ndns_lookup = true\ndns_server = \"{name_server}\"\n{keys}");
    Setup::new()
        .script("who", WHO)
        .file("a.txt", "hello")
        .server(&keys)
        .start()
}

/// GET on behalf of this client.
fn get(server: &Server, path: &str, client: &str) -> String {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: {client}\r\nConnection: close\r\n\r\n");
    server.send(request).text().to_owned()
}

#[test]
fn verified_names_are_given_to_scripts_and_logs() {
    let six = "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
    let names = NameServer::start(&[
        ("7.2.0.192.in-addr.arpa", PTR, "Client.Example.ORG"),
        ("client.example.org", A, "192.0.2.7"),
        (six, PTR, "six.example.org"),
        ("six.example.org", AAAA, "2001:db8::7"),
    ]);
    let server = server(names.address, "dns_timeout = \"5s\"");
    for (client, name) in [
        ("192.0.2.7", "client.example.org"),
        ("2001:db8::7", "six.example.org"),
        // Answered from the cache.
        ("192.0.2.7", "client.example.org"),
    ] {
        assert_eq!(get(&server, "/cgi-bin/who", client), format!("{name} {client}"));
    }
    // Two workers may write their lines in any order.
    let lines = server.access_lines(3);
    for (name, count) in [("client.example.org ", 2), ("six.example.org ", 1)] {
        let named = lines.iter().filter(|line| line.starts_with(name));
        assert_eq!(named.count(), count, "{name}: {lines:?}");
    }
}

#[test]
fn unverified_or_invalid_names_are_not_used() {
    let names = NameServer::start(&[
        // The owner of an address may publish any name for it.
        ("7.2.0.192.in-addr.arpa", PTR, "www.bank.example"),
        ("www.bank.example", A, "198.51.100.1"),
        ("8.2.0.192.in-addr.arpa", PTR, "nobody.example"),
        ("9.2.0.192.in-addr.arpa", PTR, "a\"b <c>.example"),
        ("a\"b <c>.example", A, "192.0.2.9"),
    ]);
    let server = server(names.address, "dns_timeout = \"5s\"");
    for client in ["192.0.2.7", "192.0.2.8", "192.0.2.9", "192.0.2.10"] {
        assert_eq!(get(&server, "/cgi-bin/who", client), format!("{client} {client}"));
    }
    let lines = server.access_lines(4);
    assert!(lines.iter().all(|line| line.starts_with("192.0.2.")), "{lines:?}");
}

#[test]
fn log_formats_have_both_name_and_address() {
    let names = NameServer::start(&[
        ("7.2.0.192.in-addr.arpa", PTR, "client.example.org"),
        ("client.example.org", A, "192.0.2.7"),
    ]);
    for (format, expected) in [
        ("%h %a", "client.example.org 192.0.2.7"),
        (
            "json",
            "\"client\":\"192.0.2.7\",\"client_name\":\"client.example.org\",\"host\":",
        ),
    ] {
        let keys = format!(
            "trusted_proxies = [\"127.0.0.1\"]\ndns_lookup = true\ndns_timeout = \"5s\"\ndns_server = \"{}\"",
            names.address
        );
        let setup = Setup::new().script("who", WHO).server(&keys);
        let log = format!("access = \"-\"\nformat = \"{format}\"");
        let server = setup.log(&log).start();
        get(&server, "/cgi-bin/who", "192.0.2.7");
        let line = &server.access_lines(1)[0];
        assert!(line.contains(expected), "{line}");
    }
}

#[test]
fn silent_name_server_does_not_delay_files() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = server(silent.local_addr().unwrap(), "dns_timeout = \"5s\"");
    let begin = Instant::now();
    let mut client = server.connect();
    for number in 0..400 {
        client.send(format!(
            "GET /a.txt HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: 192.0.{}.{}\r\n\r\n",
            number / 200,
            number % 200
        ));
        assert_eq!(client.response().text(), "hello");
    }
    // 200 seconds at least, if even one request in ten had waited for a name.
    assert!(begin.elapsed() < DEADLINE, "{:?}", begin.elapsed());
}

#[test]
fn silent_name_server_delays_a_script_once_up_to_the_timeout() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = server(silent.local_addr().unwrap(), "dns_timeout = \"2s\"");
    let begin = Instant::now();
    // 40 seconds, if each request had waited for two.
    for _ in 0..20 {
        assert_eq!(get(&server, "/cgi-bin/who", "192.0.2.7"), "192.0.2.7 192.0.2.7");
    }
    assert!(begin.elapsed() < DEADLINE, "{:?}", begin.elapsed());
    drop(server);
    let server = self::server(silent.local_addr().unwrap(), "dns_timeout = \"0s\"");
    assert_eq!(get(&server, "/cgi-bin/who", "192.0.2.7"), "192.0.2.7 192.0.2.7");
}

#[test]
fn absent_or_broken_name_server_costs_only_the_name() {
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = self::server(gone, "dns_timeout = \"200ms\"");
    assert_eq!(get(&server, "/cgi-bin/who", "192.0.2.7"), "192.0.2.7 192.0.2.7");
    // The PTR record has no valid name as its data.
    let names = NameServer::start(&[("7.2.0.192.in-addr.arpa", PTR, "")]);
    let server = self::server(names.address, "dns_timeout = \"200ms\"");
    assert_eq!(get(&server, "/cgi-bin/who", "192.0.2.7"), "192.0.2.7 192.0.2.7");
}

#[test]
fn found_name_is_cached() {
    let names = NameServer::start(&[
        ("7.2.0.192.in-addr.arpa", PTR, "client.example.org"),
        ("client.example.org", A, "192.0.2.7"),
    ]);
    let server = server(names.address, "dns_timeout = \"5s\"");
    let expected = "client.example.org 192.0.2.7";
    assert_eq!(get(&server, "/cgi-bin/who", "192.0.2.7"), expected);
    // No name server can answer from here on.
    drop(names);
    for _ in 0..10 {
        assert_eq!(get(&server, "/cgi-bin/who", "192.0.2.7"), expected);
    }
}
