//! Sites: the addresses on which they are served, and hosts that no site names.

use sluice_testing::{Client, Response, Server, Setup};

/// A script that prints the host as scripts see it.
const SHOW: &str = "printf 'Content-Type: text/plain\\n\\n%s %s' \"$SERVER_NAME\" \"$HTTP_HOST\"";

fn get(server: &Server, path: &str, host: &str) -> Response {
    server.send(format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    ))
}

#[test]
fn site_is_served_only_on_its_addresses() {
    let setup = Setup::new()
        .file("a.txt", "public")
        .listeners("[[listen]]\naddress = \"127.0.0.2:0\"")
        .site("listen = [\"127.0.0.1:0\"]")
        .sites(
            "[[site]]\nhosts = [\"admin.test\"]\nroot = \"admin\"\nlisten = [\"127.0.0.2:0\"]\n\
             [[site]]\nroot = \"inner\"\nlisten = [\"127.0.0.2:0\"]",
        );
    for (directory, text) in [("admin", "ADMIN SECRET"), ("inner", "inner")] {
        std::fs::create_dir(setup.path(directory)).unwrap();
        std::fs::write(setup.path(directory).join("a.txt"), text).unwrap();
    }
    let server = setup.start();
    let inner = server.addresses().remove(1);
    let inner = inner
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .parse()
        .unwrap();
    let get_inner = |host: &str| {
        let mut client = Client::connect(inner);
        client.send(format!(
            "GET /a.txt HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        ));
        client.response()
    };
    assert_eq!(get_inner("admin.test").text(), "ADMIN SECRET");
    assert_eq!(get_inner("other.test").text(), "inner");
    assert_eq!(get(&server, "/a.txt", "other.test").text(), "public");
    for host in ["admin.test", "ADMIN.test.", "admin.test:81"] {
        let refused = get(&server, "/a.txt", host);
        assert_eq!(refused.status, 421, "{host}");
        assert!(!refused.text().contains("SECRET"), "{host}");
    }
    let absolute = server.send("GET http://admin.test/a.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    assert_eq!(absolute.status, 421);
}

#[test]
fn an_absolute_target_is_served_only_for_hosts_of_this_server() {
    let setup = |site: &str| Setup::new().file("a.txt", "ours").site(site).start();
    let named = setup("hosts = [\"example.org\", \"*.example.org\", \"test\"]");
    let any = setup("");
    let status = |server: &Server, target: &str| {
        let response = server.send(format!(
            "GET {target} HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n"
        ));
        let is_ours = response.text() == "ours";
        assert_eq!(is_ours, response.status == 200, "{target}");
        response.status
    };
    for host in ["localhost", "127.0.0.1", "127.0.0.1:9", "[::1]", "app.localhost"] {
        let target = format!("http://{host}/a.txt");
        assert_eq!((status(&named, &target), status(&any, &target)), (200, 200), "{host}");
    }
    for host in ["example.org", "a.Example.ORG:81", "example.org."] {
        let target = format!("http://{host}/a.txt");
        assert_eq!((status(&named, &target), status(&any, &target)), (200, 421), "{host}");
    }
    for target in [
        "http://foreign.example/a.txt",
        "http://example.org.foreign.example/a.txt",
        "http://192.0.2.1/a.txt",
        "https://foreign.example/a.txt",
        "ftp://example.org/a.txt",
        "ftp://localhost/a.txt",
    ] {
        assert_eq!((status(&named, target), status(&any, target)), (421, 421), "{target}");
    }
    // The field Host names no other server that a client could ask by mistake.
    assert_eq!(get(&any, "/a.txt", "foreign.example").text(), "ours");
    named.log_line("foreign.example\", which no site has in hosts");
}

#[test]
fn server_name_is_in_lower_case() {
    let setup = |site: &str| Setup::new().script("show", SHOW).site(site).start();
    let named = setup("hosts = [\"example.org\", \"*.example.org\", \"test\"]");
    for (host, expected) in [
        ("Example.ORG", "example.org Example.ORG"),
        ("WWW.example.org:80", "www.example.org WWW.example.org:80"),
    ] {
        assert_eq!(get(&named, "/cgi-bin/show", host).text(), expected);
    }
    assert_eq!(
        get(&setup(""), "/cgi-bin/show", "LOCALHOST").text(),
        "localhost LOCALHOST"
    );
}

#[test]
fn unknown_host_is_refused_and_never_becomes_server_name() {
    let setup = |server: &str, site: &str| Setup::new().script("show", SHOW).server(server).site(site).start();
    let named = "hosts = [\"example.org\", \"*.example.org\", \"test\"]";
    let refusing = setup("unknown_hosts = \"refuse\"", named);
    assert_eq!(
        get(&refusing, "/cgi-bin/show", "a.example.org").text(),
        "a.example.org a.example.org"
    );
    for host in [
        "rebound.attacker.example",
        "127.0.0.1",
        "",
        "example.org.attacker.example",
    ] {
        assert_eq!(get(&refusing, "/cgi-bin/show", host).status, 421, "{host}");
    }
    let serving = setup("", named);
    let shown = get(&serving, "/cgi-bin/show", "rebound.attacker.example");
    assert_eq!(shown.text(), "example.org rebound.attacker.example");
    let unnamed = setup("", "");
    for (host, expected) in [
        ("attacker.example", "127.0.0.1"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
    ] {
        assert_eq!(
            get(&unnamed, "/cgi-bin/show", host).text(),
            format!("{expected} {host}")
        );
    }
}

#[test]
fn serve_answers_on_loopback_only_to_local_names() {
    let arguments = [
        "serve",
        "htdocs",
        "--listen",
        "127.0.0.1:0",
        "--host",
        "test",
        "--host",
        "DevBox.test",
    ];
    let server = Setup::new().file("a.txt", "local").start_with(&arguments);
    let port = server.address().port();
    for host in [
        "localhost",
        "LocalHost",
        "app.localhost",
        "127.0.0.1",
        "[::1]",
        "127.1.2.3",
        "devbox.test",
        "localhost.",
    ] {
        assert_eq!(
            get(&server, "/a.txt", &format!("{host}:{port}")).text(),
            "local",
            "{host}"
        );
    }
    assert_eq!(server.send("GET /a.txt HTTP/1.0\r\n\r\n").text(), "local");
    for host in [
        "attacker.example",
        "localhost.attacker.example",
        "127.0.0.1.attacker.example",
        "0.0.0.0",
        "[::2]",
    ] {
        let refused = get(&server, "/a.txt", &format!("{host}:{port}"));
        assert_eq!(refused.status, 421, "{host}");
        assert!(refused.text().contains("--host NAME"), "{}", refused.text());
    }
    server.log_line("--host \"attacker.example\" would allow it");
}

#[test]
fn check_warns_of_conditions_on_clients_of_a_unix_socket() {
    let setup = Setup::new()
        .listeners("[[listen]]\naddress = \"unix:web.sock\"")
        .route("path = \"/admin/*\"\nwhen = { client = \"!127.0.0.1\" }\nrefuse = { status = 403 }");
    setup.write_configuration();
    let checked = sluice_testing::run(setup.directory(), &["check", "-c", "sluice.toml"]);
    assert!(checked.status.success(), "{}", checked.errors);
    assert!(
        checked.errors.contains("add trusted_proxies = [\"unix:\"]"),
        "{}",
        checked.errors
    );
}
