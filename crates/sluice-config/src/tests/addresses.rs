//! Addresses: unix sockets, trusted proxies, name servers.

use std::path::PathBuf;

use sluice_settings::ListenAddress;

use super::messages::assert_mistake;
use super::read;

/// The one mistake of a file whose first section is this.
#[track_caller]
fn mistake(lines: &str) -> String {
    let message = read(&format!("{lines}\n[[site]]\nroot = 'a'\n"))
        .expect_err("a mistake")
        .to_string();
    assert_eq!(message.lines().count(), 1, "{message}");
    message.trim_start_matches("sluice.toml:").to_owned()
}

#[test]
fn the_path_of_a_unix_socket_starts_from_the_directory_of_the_file() {
    let read = |address: &str, more: &str| {
        let text = format!("[[listen]]\naddress = '{address}'\n{more}\n[[site]]\nroot = 'a'\n");
        read(&text).expect("a valid configuration").listen.remove(0)
    };
    let socket = |path: &str| ListenAddress::Unix(PathBuf::from(path));
    assert_eq!(read("unix:run/s", "").address, socket("/etc/sluice/run/s"));
    let listen = read("unix:/run/s", "mode = '606'");
    assert_eq!((listen.address, listen.socket_mode), (socket("/run/s"), 0o606));
}

#[test]
fn a_list_of_addresses_is_listened_on_with_the_same_keys() {
    let text = "[[listen]]\naddress = [':443', '[::]:443']\ntls = { certificate = 'c.pem' }\n[[listen]]\naddress = ':80'\n\
                redirect = 'https'\n[[site]]\nroot = 'a'\nlisten = ['[::]:443']\n";
    let settings = read(text).unwrap_or_else(|errors| panic!("{errors}"));
    let listen: Vec<_> = settings
        .listen
        .iter()
        .map(|listen| {
            (
                listen.address.to_string(),
                listen.tls.is_some(),
                listen.http2,
                listen.redirect_to_https,
            )
        })
        .collect();
    assert_eq!(
        listen,
        [
            ("0.0.0.0:443".to_owned(), true, true, None),
            ("[::]:443".to_owned(), true, true, None),
            ("0.0.0.0:80".to_owned(), false, false, Some(443)),
        ]
    );
}

#[test]
fn wrong_addresses_of_a_list_are_reported_with_their_lines() {
    for (lines, message) in [
        (
            "[[listen]]\naddress = [\n':80',\n'example.org:80',\n]",
            "4: address \"example.org:80\": an address is written \"8080\", \":8080\", \"0.0.0.0:8080\", \"[::]:8080\", \"localhost:8080\" or \"unix:/run/sluice.sock\"",
        ),
        (
            "[[listen]]\naddress = [':80',\n'0.0.0.0:80']",
            "3: address = \"0.0.0.0:80\": is listened on already (line 2): remove one",
        ),
        (
            "[[listen]]\naddress = []",
            "2: address = []: an empty list names no address: write, for instance, address = [\"0.0.0.0:80\", \"[::]:80\"]",
        ),
        (
            "[[listen]]\naddress = [80]",
            "2: address = [80]: must be a text or a list of texts, as in address = [\"0.0.0.0:80\", \"[::]:80\"]",
        ),
        (
            "[[listen]]\naddress = [':80', 'unix:s']\nproxy_protocol = ['::1']",
            "3: proxy_protocol = ['::1']: no client could connect: add \"unix:\", which means every connection to a unix socket",
        ),
    ] {
        assert_eq!(mistake(lines), message, "{lines}");
    }
}

#[test]
fn invalid_unix_sockets_are_refused_with_a_hint() {
    let long = format!("[[listen]]\naddress = 'unix:/run/{}'", "x".repeat(103));
    assert!(
        mistake(&long)
            .ends_with("the path of a unix socket has at most 107 bytes, and this one has 108: choose a shorter one")
    );
    for (lines, message) in [
        (
            "[[listen]]\naddress = 'unix:'",
            "2: address = 'unix:': unix: needs the path of the socket, as in \"unix:/run/sluice.sock\"",
        ),
        (
            "[[listen]]\naddress = 'unix:missing/s'",
            "2: address: no directory /etc/sluice/missing (No such file or directory): create it or fix the path",
        ),
        (
            "[[listen]]\naddress = 'unix:run/s'\n[[listen]]\naddress = 'unix:/etc/sluice/run/s'",
            "4: address = \"unix:/etc/sluice/run/s\": is listened on already (line 2): remove one",
        ),
        (
            "[[listen]]\naddress = ':80'\nmode = '660'",
            "3: mode = '660': is for unix sockets: remove it, or write address = \"unix:/run/sluice.sock\"",
        ),
        (
            "[[listen]]\naddress = 'unix:s'\nmode = 'rw'",
            "3: mode = 'rw': a mode has three digits from 0 to 7, as in \"660\"",
        ),
        (
            "[[listen]]\naddress = 'unix:s'\nmode = '0660'",
            "3: mode = '0660': a mode has three digits from 0 to 7, as in \"660\"",
        ),
        (
            "[[listen]]\naddress = 'unix:s'\nmode = 660",
            "3: mode = 660: must be a text, as in mode = \"600\"",
        ),
        (
            "[[listen]]\naddress = ':80'\nredirect = 'https'\n[[listen]]\naddress = 'unix:s'\ntls = { certificate = 'c.pem' }",
            "3: redirect = 'https': no address with a port has tls: add a [[listen]] with tls, or remove this",
        ),
    ] {
        assert_eq!(mistake(lines), message, "{lines}");
    }
}

#[test]
fn proxies_and_name_servers_need_addresses() {
    for (lines, message) in [
        (
            "[server]\ntrusted_proxies = ['10.0.0.0/8',\n'10.0.0.1/8']",
            "3: trusted_proxies: \"10.0.0.1/8\": has bits after its prefix: write \"10.0.0.0/8\"",
        ),
        (
            "[server]\ntrusted_proxies = ['localhost']",
            "2: trusted_proxies: \"localhost\": write an address, a network as in \"10.0.0.0/8\", or \"unix:\" for all clients of unix sockets",
        ),
        (
            "[server]\ntrusted_proxies = '::1'",
            "2: trusted_proxies = '::1': must be a list of texts, as in trusted_proxies = [\"10.0.0.0/8\", \"::1\", \"unix:\"]",
        ),
        (
            "[server]\ndns_server = '::1'",
            "2: dns_server = '::1': needs dns_lookup = true: add it, or remove this",
        ),
        (
            "[server]\ndns_lookup = true\ndns_server = 'ns.example'",
            "3: dns_server = 'ns.example': must be an address, as in \"192.0.2.53\", or one with its port, \"192.0.2.53:5353\" or \"[::1]:5353\"",
        ),
        (
            "[server]\ndns_lookup = true\ndns_timeout = '1m'",
            "3: dns_timeout = '1m': must be at most 5s; a lookup ends after that time",
        ),
        (
            "[[listen]]\naddress = ':80'\nproxy_protocol = []",
            "3: proxy_protocol = []: names no proxy, and no other client may connect: add some, or remove this",
        ),
        (
            "[[listen]]\naddress = 'unix:s'\nproxy_protocol = ['::1']",
            "3: proxy_protocol = ['::1']: no client could connect: add \"unix:\", which means every connection to a unix socket",
        ),
        (
            "[[listen]]\naddress = ':80'\nproxy_protocol = true",
            "3: proxy_protocol = true: must be a list of texts, as in proxy_protocol = [\"10.0.0.0/8\"]",
        ),
        (
            "[server]\nforwarded = 'forwarded'",
            "2: forwarded = 'forwarded': no proxy is trusted: add trusted_proxies, or remove this",
        ),
    ] {
        assert_eq!(mistake(lines), message, "{lines}");
    }
}

#[test]
fn the_port_of_a_name_server_defaults_to_53() {
    for (text, address) in [
        ("192.0.2.53", "192.0.2.53:53"),
        ("192.0.2.53:5353", "192.0.2.53:5353"),
        ("2001:db8::53", "[2001:db8::53]:53"),
        ("[2001:db8::53]:5353", "[2001:db8::53]:5353"),
    ] {
        let text = format!("[server]\ndns_lookup = true\ndns_server = '{text}'\n[[site]]\nroot = 'a'\n");
        let dns = read(&text)
            .expect("a valid configuration")
            .dns
            .expect("names are looked up");
        assert_eq!(dns.server.map(|server| server.to_string()).as_deref(), Some(address));
    }
}

#[test]
fn sites_must_go_with_the_addresses() {
    let cases = [
        (
            "[[site]]\nroot = 'a'\nlisten = [':81']",
            "3: listen \"0.0.0.0:81\": no [[listen]] has this address: write one of \"127.0.0.1:8080\", or add it",
        ),
        (
            "[[site]]\nroot = 'a'\nlisten = []",
            "3: listen = []: an empty list names no address; leave listen out for all addresses",
        ),
        (
            "[[site]]\nroot = 'a'\nclient_crl = ['ca.pem']",
            "3: client_crl = ['ca.pem']: needs client_authorities, the file of the authorities' certificates: add it",
        ),
        (
            "[[site]]\nroot = 'a'\nclient_certificates = 'required'",
            "1: [[site]] depends on client certificates, and none of its addresses has tls: add tls to one",
        ),
        (
            "listen = [{ address = ':1', tls = { certificate = 'a.pem' } }]\n[[site]]\nroot = 'a'\n\
             route = [{ when = { client_certificate = 'verified' }, refuse = {} }]",
            "2: [[site]] depends on client certificates, and none of its addresses asks for them: give the site client_authorities = \"…\"",
        ),
        (
            "server = { unknown_hosts = 'refuse' }\n[[site]]\nroot = 'a'",
            "2: unknown_hosts = 'refuse': the site without hosts serves any host: give it hosts = [\"example.org\"]",
        ),
    ];
    for (text, message) in cases {
        assert_mistake(text, message);
    }
}

#[test]
fn two_sites_for_any_host_need_addresses_of_their_own() {
    let text = |first: &str, second: &str| {
        format!(
            "listen = [{{ address = ':1' }}, {{ address = ':2' }}]\n[[site]]\nroot = 'a'\n{first}\n[[site]]\nroot = 'b'\n{second}"
        )
    };
    assert!(read(&text("listen = [':1']", "listen = [':2']")).is_ok());
    for (first, second) in [
        ("listen = [':1']", ""),
        ("", "listen = [':1']"),
        ("listen = [':1', ':2']", "listen = [':2']"),
    ] {
        assert!(read(&text(first, second)).is_err(), "{first} {second}");
    }
}
