//! IPv6: listening, what scripts and logs see, how routes match, and that IPv4 and IPv6 are kept apart.
//!
//! Where the kernel has no `::1` these tests are skipped with a message, even if SLUICE_TEST_REQUIRE_ALL is set: that
//! variable is about programs that can be installed.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::version::TLS13;

use sluice_testing::{Authority, Client, DEADLINE, Server, Setup, TlsClient, curl, run};

const LISTEN: &str = "[[listen]]\naddress = \"[::1]:0\"";

/// A script that prints the client's and the server's address.
const ENDPOINTS: &str = r#"printf 'Content-Type: text/plain\n\n%s %s %s %s %s %s' \
    "$REMOTE_ADDR" "$REMOTE_PORT" "$REMOTE_HOST" "$SERVER_ADDR" "$SERVER_PORT" "$SERVER_NAME""#;

/// Whether the kernel lists `::1` among its addresses (proc_net(5), if_inet6). If so, no test is skipped.
#[expect(clippy::print_stderr, reason = "a test that does not run says so")]
fn has_ipv6() -> bool {
    let addresses = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let loopback = format!("{:032x} ", 1);
    let has_loopback = addresses.lines().any(|line| line.starts_with(&loopback));
    if !has_loopback {
        eprintln!("SKIPPED: this machine has no ::1 (net.ipv6.conf.lo.disable_ipv6)");
    }
    has_loopback
}

fn setup() -> Setup {
    Setup::new()
        .script("ends", ENDPOINTS)
        .file("a.txt", "hello")
        .site("hosts = [\"a.test\", \"[::1]\"]")
        .listeners(LISTEN)
}

/// The first IPv6 address.
fn address(server: &Server) -> SocketAddr {
    let addresses = server.addresses();
    let mut parsed = addresses.iter().map(|address| {
        let (_, address) = address.split_once("://").unwrap();
        address.trim_end_matches('/').parse::<SocketAddr>().unwrap()
    });
    parsed.find(SocketAddr::is_ipv6).unwrap()
}

/// A GET request with these header lines.
fn request(path: &str, lines: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{lines}\r\n")
}

/// The output of the script for a request with these lines over IPv6.
#[track_caller]
fn reported(server: &Server, lines: &str) -> String {
    let mut client = Client::connect(address(server));
    client.send(request("/cgi-bin/ends", lines));
    client.response().text().to_owned()
}

#[test]
fn scripts_and_logs_get_both_ipv6_addresses() {
    if !has_ipv6() {
        return;
    }
    let log = "access = \"-\"\nformat = \"%h %a %{c}a %A %p %v %U %>s\"";
    let server = setup().log(log).start();
    let port = address(&server).port();
    for (host, name) in [
        (format!("[::1]:{port}"), "[::1]"),
        ("a.test".to_owned(), "a.test"),
        // An empty Host.
        (String::new(), "a.test"),
    ] {
        let mut client = Client::connect(address(&server));
        client.send(request("/cgi-bin/ends", &format!("Host: {host}\r\n")));
        let own = client.address().port();
        assert_eq!(client.response().text(), format!("::1 {own} ::1 ::1 {port} {name}"));
    }
    // An IPv4 client at the same time is still reported as IPv4.
    let response = server.get("/cgi-bin/ends");
    assert!(response.text().starts_with("127.0.0.1 "), "{}", response.text());
    let lines = server.access_lines(4);
    let six = lines
        .iter()
        .filter(|line| line.starts_with(&format!("::1 ::1 ::1 ::1 {port} ")));
    assert_eq!(six.count(), 3, "{lines:?}");
    let json = setup().log("access = \"-\"\nformat = \"json\"").start();
    assert!(reported(&json, "Host: [::1]\r\n").starts_with("::1 "));
    let line = &json.access_lines(1)[0];
    assert!(
        line.contains("\"client\":\"::1\"") && line.contains("\"host\":\"[::1]"),
        "{line}"
    );
}

#[test]
fn ipv6_url_works_over_tls_http2_and_redirects() {
    if !has_ipv6() {
        return;
    }
    let authority = Authority::new();
    let event_fifo = format!("{LISTEN}\ntls = {{ certificate = \"c.pem\" }}\n{LISTEN}\nredirect = \"https\"");
    let setup = setup().listeners(&event_fifo);
    authority.issue_to(&setup.path("c.pem"), &["::1"]);
    fs::write(setup.path("ca.pem"), authority.pem()).unwrap();
    let server = setup.start();
    let tls_address = server.tls_address();
    assert!(tls_address.is_ipv6());
    // The certificate is verified for the IP address. The handshake carries no SNI then (RFC 6066 §3).
    let config = Arc::new(authority.client(&[&TLS13]));
    let mut client = TlsClient::connect(tls_address, "::1", &config).unwrap();
    let response = client.get("/cgi-bin/ends", &tls_address.to_string()).unwrap();
    let ends = format!(" ::1 ::1 {} [::1]", tls_address.port());
    assert!(response.contains("\r\n::1 ") && response.contains(&ends), "{response}");
    let authorities = server.path("ca.pem");
    let authorities = [
        "--cacert",
        authorities.to_str().unwrap(),
        "--write-out",
        " %{http_version}",
    ];
    let url = format!("https://{tls_address}/cgi-bin/ends");
    let over_http2 = curl(&[&authorities[..], &[&url]].concat());
    assert!(
        over_http2.starts_with("::1 ") && over_http2.ends_with(&format!("{ends} 2")),
        "{over_http2}"
    );
    let clear = server
        .addresses()
        .into_iter()
        .find(|address| address.starts_with("http://[::1]:"));
    let url = format!("{}a.txt", clear.unwrap());
    let followed = curl(
        &[
            &authorities[..],
            &["--location", "--write-out", " %{url_effective}", &url],
        ]
        .concat(),
    );
    assert_eq!(followed, format!("hello https://{tls_address}/a.txt"));
}

#[test]
fn serve_listens_on_ipv6_with_a_self_signed_certificate() {
    if !has_ipv6() {
        return;
    }
    let arguments = [
        "serve",
        "htdocs",
        "--listen",
        "127.0.0.1:0",
        "--listen",
        "[::1]:0",
        "--tls",
    ];
    let mut server = Setup::new().file("a.txt", "hello").start_with(&arguments);
    let url = format!("https://{}/a.txt", address(&server));
    assert_eq!(curl(&["--insecure", &url]), "hello");
    let event_fifo = address(&server).to_string();
    let ran = run(
        server.setup().directory(),
        &["serve", "htdocs", "--listen", &event_fifo],
    );
    let expected = format!("sluice: listen on {event_fifo}: Address already in use");
    assert!(ran.errors.starts_with(&expected), "{}", ran.errors);
    server.end();
}

/// Any client may send such a Host, so these tests need no IPv6.
#[test]
fn bracketed_host_must_be_an_ipv6_address() {
    let server = Setup::new().file("a.txt", "hello").start();
    for (host, absolute_form) in [
        ("[::1]", 200),
        ("[::1]:80", 200),
        ("[::1]:", 200),
        ("[0:0:0:0:0:0:0:1]", 200),
        ("[2001:DB8::7]:65535", 421),
        ("[::ffff:192.0.2.7]:80", 421),
    ] {
        let response = server.send(request("/a.txt", &format!("Host: {host}\r\n")));
        assert_eq!((response.status, response.text()), (200, "hello"), "{host}");
        let response = server.send(request(&format!("http://{host}/a.txt"), &format!("Host: {host}\r\n")));
        assert_eq!(response.status, absolute_form, "http://{host}");
    }
    for host in [
        "::1",
        "::1:80",
        "[::1",
        "::1]",
        "[]",
        "[x]",
        "[::1]x",
        "[::1]80",
        "[::1]:x",
        "[::1]:65536",
        "[::1]:80:80",
        "[::1].",
        "[[::1]]",
        "[::1%25eth0]",
        "[fe80::1%eth0]",
        "[1:2:3]",
        "[127.0.0.1]",
        "[v1.x]",
        "u@[::1]",
    ] {
        let response = server.send(request("/a.txt", &format!("Host: {host}\r\n")));
        assert_eq!(response.status, 400, "{host}");
        let response = server.send(request(&format!("http://{host}/a.txt"), "Host: test\r\n"));
        assert_eq!(response.status, 400, "http://{host}");
    }
}

#[test]
fn ipv6_host_matches_in_every_notation() {
    let show = "printf 'Content-Type: text/plain\\n\\n%s %s' \"$SERVER_NAME\" \"$HTTP_HOST\"";
    let sites = "[[site]]\nroot = \"six\"\nhosts = [\"[2001:db8::7]\"]\n[[site.route]]\npath = \"/private\"\n\
        when = { host = \"[2001:db8::7]\" }\nrefuse = { status = 410 }\n[[site.route]]\npath = \"/show\"\n\
        script = { file = \"htdocs/cgi-bin/show\", mode = \"cgi\", inherit = [\"SLUICE_TEST_MARK\"] }";
    let setup = Setup::new().file("a.txt", "any").script("show", show).sites(sites);
    fs::create_dir(setup.path("six")).unwrap();
    fs::write(setup.path("six/a.txt"), "six").unwrap();
    let server = setup.start();
    let get = |path: &str, host: &str| server.send(request(path, &format!("Host: {host}\r\n")));
    for host in [
        "[2001:db8::7]",
        "[2001:DB8:0::7]:80",
        "[2001:db8:0:0:0:0:0:7]",
        "[2001:db8::0.0.0.7]",
    ] {
        assert_eq!(get("/a.txt", host).text(), "six", "{host}");
        assert_eq!(get("/private", host).status, 410, "{host}");
        assert_eq!(get("/show", host).text(), format!("[2001:db8::7] {host}"));
    }
    assert_eq!(get("/a.txt", "[2001:db8::8]").text(), "any");
    let explain = |url: &str| {
        run(
            server.setup().directory(),
            &["check", "-c", "sluice.toml", "--explain", url],
        )
    };
    let explained = explain("http://[2001:db8:0::7]/private");
    assert!(
        explained.output.contains("410"),
        "{} {}",
        explained.output,
        explained.errors
    );
    let explained = explain("http://[x]/private");
    assert!(
        explained.errors.contains("host \"[x]\": is not a host"),
        "{}",
        explained.errors
    );
}

#[test]
fn client_conditions_match_ipv6_networks() {
    if !has_ipv6() {
        return;
    }
    let refuse = |path: &str, client: &str| format!("path = \"{path}\"\nwhen = {{ client = {client} }}\nrefuse = {{}}");
    let server = setup()
        .server("trusted_proxies = [\"::1\"]")
        .file("own", "hello")
        .file("net", "hello")
        .file("all", "hello")
        .file("four", "hello")
        .file("but", "hello")
        .route(&refuse("/own", "\"::1\""))
        .route(&refuse("/net", "\"2001:db8::/32\""))
        .route(&refuse("/all", "\"::/0\""))
        .route(&refuse("/four", "\"0.0.0.0/0\""))
        .route(&refuse("/but", "[\"2001:db8::/32\", \"!2001:db8:1::/48\"]"))
        .start();
    for (client, refused) in [
        (None, vec!["/own", "/all"]),
        (Some("2001:db8:0:1::9"), vec!["/net", "/all", "/but"]),
        (Some("[2001:DB8:1::9]:4711"), vec!["/net", "/all"]),
        (Some("2001:db9::1"), vec!["/all"]),
        (Some("192.0.2.7"), vec!["/four"]),
        // An IPv4 client, as a dual-stack proxy may write it.
        (Some("::ffff:192.0.2.7"), vec!["/four"]),
    ] {
        for path in ["/own", "/net", "/all", "/four", "/but"] {
            let field = client.map(|client| format!("X-Forwarded-For: {client}\r\n"));
            let lines = format!("Host: test\r\n{}", field.unwrap_or_default());
            let mut connection = Client::connect(address(&server));
            let status = connection.send(request(path, &lines)).response().status;
            let expected = if refused.contains(&path) { 403 } else { 200 };
            assert_eq!(status, expected, "{client:?} {path}");
        }
    }
}

#[test]
fn proxy_protocol_reports_ipv6_clients() {
    if !has_ipv6() {
        return;
    }
    let event_fifo = format!("{LISTEN}\nproxy_protocol = [\"::1\"]");
    let server = setup().listeners(&event_fifo).start();
    let version_2 = |client: [u8; 16], server: [u8; 16]| {
        let start = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24";
        [
            &start[..],
            &client,
            &server,
            &4711_u16.to_be_bytes(),
            &443_u16.to_be_bytes(),
        ]
        .concat()
    };
    let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    for (header, expected) in [
        (
            b"PROXY TCP6 2001:db8::7 2001:DB8:0:0::1 4711 443\r\n".to_vec(),
            "2001:db8::7 4711 2001:db8::7 2001:db8::1 443 a.test",
        ),
        (
            version_2(octets("2001:db8::7"), octets("2001:db8::1")),
            "2001:db8::7 4711 2001:db8::7 2001:db8::1 443 a.test",
        ),
        // An IPv4 client of a dual-stack proxy counts as IPv4.
        (
            b"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:198.51.100.1 4711 443\r\n".to_vec(),
            "192.0.2.7 4711 192.0.2.7 198.51.100.1 443 a.test",
        ),
        (
            version_2(octets("::ffff:192.0.2.7"), octets("::ffff:198.51.100.1")),
            "192.0.2.7 4711 192.0.2.7 198.51.100.1 443 a.test",
        ),
    ] {
        let mut client = Client::connect(address(&server));
        client.send([&header[..], request("/cgi-bin/ends", "Host: a.test\r\n").as_bytes()].concat());
        assert_eq!(client.response().text(), expected);
    }
    let lines = server.access_lines(4);
    for client in ["2001:db8::7 ", "192.0.2.7 "] {
        assert_eq!(
            lines.iter().filter(|line| line.starts_with(client)).count(),
            2,
            "{lines:?}"
        );
    }
    // Brackets and zones belong in URLs, not here.
    let mut client = Client::connect(address(&server));
    client.try_send(b"PROXY TCP6 [2001:db8::7] 2001:db8::1 1 2\r\n");
    assert_eq!(client.rest().0, b"");
    let line = server.log_line("closed: ");
    assert!(
        line.contains("connection from [::1]:") && line.contains("invalid address"),
        "{line}"
    );
}

#[test]
fn forwarded_ipv6_addresses_are_read_in_every_notation() {
    if !has_ipv6() {
        return;
    }
    for (keys, cases) in [
        (
            "trusted_proxies = [\"::1\", \"2001:db8:a::/48\"]",
            &[
                ("X-Forwarded-For: 2001:db8::7", "2001:db8::7 0"),
                ("X-Forwarded-For: [2001:DB8::7]", "2001:db8::7 0"),
                ("X-Forwarded-For: [2001:db8::7]:4711", "2001:db8::7 4711"),
                (
                    "X-Forwarded-For: ::6, 2001:db8::7, 2001:db8:a::5, [2001:db8:a::6]:1",
                    "2001:db8::7 0",
                ),
                ("X-Forwarded-For: ::ffff:192.0.2.7", "192.0.2.7 0"),
                ("X-Forwarded-For: [::ffff:192.0.2.7]:4711", "192.0.2.7 4711"),
            ][..],
        ),
        (
            "trusted_proxies = [\"::1\", \"2001:db8:a::/48\"]\nforwarded = \"forwarded\"",
            &[
                ("Forwarded: for=\"[2001:db8::7]\"", "2001:db8::7 0"),
                ("Forwarded: proto=http;For=\"[2001:db8::7]:4711\"", "2001:db8::7 4711"),
                (
                    "Forwarded: for=\"[2001:db8::7]\", for=\"[2001:db8:a::5]:80\"",
                    "2001:db8::7 0",
                ),
                ("Forwarded: for=\"[::ffff:192.0.2.7]:4711\"", "192.0.2.7 4711"),
            ],
        ),
    ] {
        let server = setup().server(keys).start();
        for (field, expected) in cases {
            let reported = reported(&server, &format!("Host: a.test\r\n{field}\r\n"));
            assert!(reported.starts_with(&format!("{expected} ")), "{field}: {reported}");
        }
        let (name, _) = cases[0].0.split_once(": ").unwrap();
        for bad in [
            "[2001:db8::7",
            "2001:db8::7]",
            "[::1%lo]",
            "for=\"[2001:db8::7\"",
            "for=[x]",
        ] {
            let reported = reported(&server, &format!("Host: a.test\r\n{name}: {bad}\r\n"));
            assert!(reported.starts_with("::1 "), "{bad}: {reported}");
        }
        // A proxy that connects over IPv4 is not trusted just because `::1` is.
        let field = cases[0].0;
        let response = server.send(request("/cgi-bin/ends", &format!("Host: a.test\r\n{field}\r\n")));
        assert!(response.text().starts_with("127.0.0.1 "), "{}", response.text());
    }
}

#[test]
fn ipv6_wildcard_does_not_listen_on_ipv4() {
    if !has_ipv6() {
        return;
    }
    let setup = setup().listeners("[[listen]]\naddress = \"[::]:0\"");
    let name = setup.directory().display().to_string();
    let server = setup.file("name.txt", &name).start();
    let port = address(&server).port();
    let mut client = Client::connect(SocketAddr::new(std::net::Ipv6Addr::LOCALHOST.into(), port));
    client.send(request("/cgi-bin/ends", "Host: a.test\r\n"));
    let own = client.address().port();
    assert_eq!(client.response().text(), format!("::1 {own} ::1 ::1 {port} a.test"));
    // Nothing listens there, or another process that took the free port.
    let mut answer = Vec::new();
    if let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let _ = stream.write_all(request("/name.txt", "Host: a.test\r\n").as_bytes());
        let _ = stream.read_to_end(&mut answer);
    }
    assert!(!String::from_utf8_lossy(&answer).contains(&name));
}

#[test]
fn unusable_ipv6_address_is_reported_with_the_fix() {
    for (event_fifo, fix) in [
        ("[::ffff:127.0.0.1]:0", "is an IPv4 address: write \"127.0.0.1:0\""),
        ("[fe80::1]:0", "write \"[fe80::1%2]:0\""),
    ] {
        let setup = Setup::new().listeners(&format!("[[listen]]\naddress = \"{event_fifo}\""));
        setup.write_configuration();
        let ran = run(setup.directory(), &["check", "-c", "sluice.toml"]);
        assert!(ran.errors.contains(fix), "{}", ran.errors);
    }
}
