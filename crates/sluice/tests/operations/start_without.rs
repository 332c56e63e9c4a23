//! A start without files that only one site or route needs: the rest is served, and the log and `status` say what is missing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use rustls::version::{TLS12, TLS13};
use sluice_testing::{Authority, Server, Setup, TlsClient, run, signal, wait_until};

const ANN: &str = "Authorization: Basic YW5uOnNlY3JldA==\r\n";

const SITES: &str = r#"
[[site]]
hosts = ["own.example"]
root = "htdocs"
errors = { 404 = "gone/404.html" }
tls = { certificate = "own.pem" }
log = { access = "gone/own.log" }

[[site.route]]
path = "/private/*"
files = { directory = "htdocs" }
access = { users = "users.htpasswd" }

[[site.route]]
path = "/owned/*"
script = { directory = "htdocs/cgi-bin", user = "sluice-no-such-user" }

[[site.route]]
path = "/tool"
script = { file = "bin/tool" }
"#;

fn setup(authority: &Authority) -> Setup {
    let setup = Setup::new()
        .file("a.txt", "hello")
        .script("print", "printf 'Content-Type: text/plain\\n\\nran'")
        .listeners("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }")
        .sites(SITES);
    authority.issue_to(&setup.path("default.pem"), &["localhost", "own.example"]);
    fs::create_dir(setup.path("bin")).unwrap();
    fs::write(setup.path("bin/tool"), "#!/bin/sh\n").unwrap();
    setup
}

fn get(server: &Server, path: &str, fields: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: own.example\r\nConnection: close\r\n{fields}\r\n");
    server.send(request).status
}

/// The certificate that a client gets who names the host of the site.
fn certificate(server: &Server, authority: &Authority) -> Vec<u8> {
    let config = Arc::new(authority.client(&[&TLS12, &TLS13]));
    let mut client = TlsClient::connect(server.tls_address(), "own.example", &config).unwrap();
    client.get("/a.txt", "own.example").unwrap();
    client.certificate()
}

fn status(server: &Server) -> String {
    run(server.setup().directory(), &["status", "-c", "sluice.toml"]).output
}

/// The faults, by what their lines name.
const FAULTS: [&str; 6] = [
    "gone/404.html cannot be read",
    "own.pem: ",
    "gone/own.log: ",
    "users.htpasswd: there is no such file",
    "there is no user \"sluice-no-such-user\"",
    "bin/tool has no execute bit",
];

#[test]
fn a_server_starts_without_files_of_one_site_and_serves_the_rest() {
    let authority = Authority::new();
    let server = setup(&authority).start();
    assert_eq!(server.get("/a.txt").status, 200);
    assert_eq!(get(&server, "/a.txt", ""), 200);
    assert_eq!(get(&server, "/none", ""), 404);
    let shown = status(&server);
    for fault in FAULTS {
        let line = server.log_line(fault);
        assert!(line.contains("ERROR") && line.contains("sluice.toml:"), "{line}");
        assert!(shown.contains(fault), "no {fault} in {shown}");
    }
    // Nobody is a user, whoever asks.
    assert_eq!(get(&server, "/private/a.txt", ""), 503);
    assert_eq!(get(&server, "/private/a.txt", ANN), 503);
    assert_eq!(get(&server, "/owned/print", ""), 503);
    assert_eq!(get(&server, "/tool", ""), 403);
    // The lines of the site are in the log of the server, here standard output.
    let lines = server.access_lines(7);
    assert!(lines.iter().any(|line| line.contains("GET /tool")), "{lines:?}");
    server.log_line("GET /private/a.txt: sluice.toml:");
}

#[test]
fn what_appears_later_is_used_and_a_reload_refuses_what_is_still_missing() {
    let authority = Authority::new();
    let server = setup(&authority).start();
    signal(server.pid(), "HUP");
    let refusal = server.log_line("gone/404.html");
    assert!(!refusal.is_empty());
    server.log_line("the configuration is invalid, nothing has changed");
    assert_eq!(get(&server, "/private/a.txt", ANN), 503);
    fs::write(server.path("users.htpasswd"), "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n").unwrap();
    assert!(wait_until(|| get(&server, "/private/a.txt", ANN) == 200));
    assert_eq!(get(&server, "/private/a.txt", ""), 401);
    fs::set_permissions(server.path("bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
    let replaced = certificate(&server, &authority);
    authority.issue_to(&server.path("own.pem"), &["own.example"]);
    assert!(wait_until(|| certificate(&server, &authority) != replaced));
    let shown = status(&server);
    assert!(
        !shown.contains("users.htpasswd") && !shown.contains("own.pem: "),
        "{shown}"
    );
    assert!(shown.contains("gone/404.html"), "{shown}");
    make_whole(&server.path("."));
    signal(server.pid(), "HUP");
    server.log_line("is in force");
    assert!(!status(&server).contains("faults"), "{}", status(&server));
    // It has more files open than at its start.
    assert!(server.stop().status.success());
}

#[test]
fn status_names_what_fails_later() {
    let sites = r#"
[[site]]
hosts = ["own.example"]
root = "htdocs"
log = { access = "logs/own.log" }

[[site.route]]
path = "/private/*"
files = { directory = "htdocs" }
access = { users = "users.htpasswd" }

[[site.route]]
path = "/later/*"
directory = "later"
"#;
    let setup = Setup::new().file("a.txt", "hello").sites(sites);
    for name in ["later", "logs"] {
        fs::create_dir(setup.path(name)).unwrap();
    }
    let users = "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";
    fs::write(setup.path("users.htpasswd"), users).unwrap();
    let server = setup.start();
    assert_eq!(get(&server, "/private/a.txt", ANN), 200);
    assert!(!status(&server).contains("faults"), "{}", status(&server));

    let text = fs::read_to_string(server.path("sluice.toml")).unwrap();
    fs::write(server.path("sluice.toml"), format!("mistake = 1\n{text}")).unwrap();
    fs::remove_file(server.path("users.htpasswd")).unwrap();
    fs::remove_dir(server.path("later")).unwrap();
    fs::rename(server.path("logs"), server.path("moved")).unwrap();
    signal(server.pid(), "USR1");
    server.log_line("logs/own.log: ");
    signal(server.pid(), "HUP");
    server.log_line("unknown key");
    let faults = [
        "users.htpasswd: there is no such file",
        "; the users and groups of before count until it is corrected",
        "; it was there when the configuration was read",
        "logs/own.log: No such file or directory (os error 2); the file opened before stays in use",
        "SIGHUP was refused: ",
    ];
    let has_all = || faults.iter().all(|fault| status(&server).contains(fault));
    assert!(wait_until(has_all), "{}", status(&server));
    assert_eq!(get(&server, "/private/a.txt", ANN), 200, "a user of before");

    fs::write(server.path("sluice.toml"), text).unwrap();
    fs::write(server.path("users.htpasswd"), users).unwrap();
    fs::create_dir(server.path("later")).unwrap();
    fs::rename(server.path("moved"), server.path("logs")).unwrap();
    signal(server.pid(), "USR1");
    server.log_line("the logs are opened again");
    signal(server.pid(), "HUP");
    server.log_line("is in force");
    assert!(
        wait_until(|| !status(&server).contains("faults")),
        "{}",
        status(&server)
    );
}

#[test]
fn status_names_full_disks_of_logs_until_they_can_be_written() {
    for (keys, fault) in [
        ("access = \"/dev/full\"", "access log /dev/full: No space left"),
        (
            "access = \"off\"\ndiagnostics = \"/dev/full\"",
            "server log /dev/full: No space left",
        ),
    ] {
        let server = Setup::new().log(keys).file("a.txt", "hello").start();
        assert_eq!(server.get("/a.txt").text(), "hello");
        let is_named = || status(&server).contains(fault);
        assert!(wait_until(is_named), "{}", status(&server));
        let text = fs::read_to_string(server.path("sluice.toml")).unwrap();
        fs::write(server.path("sluice.toml"), text.replace("/dev/full", "/dev/null")).unwrap();
        signal(server.pid(), "HUP");
        let is_over = || !status(&server).contains("faults");
        assert!(wait_until(is_over), "{}", status(&server));
    }
}

#[test]
fn status_names_an_engine_that_does_not_start_until_it_does() {
    let setup = Setup::new()
        .python("works", "while accept():\n    put(HEAD + b'well')\n    finish()\n")
        .file_with_mode("rte/a", "", 0o755)
        .script_route(
            "/rte/*",
            "directory = \"htdocs/rte\", mode = \"rte\", engine = { program = \"htdocs/cgi-bin/engine\" }",
        );
    let (fixed, works) = (setup.path("fixed"), setup.path("htdocs/cgi-bin/works"));
    let engine = format!("[ -e {} ] || exit 3\nexec {}", fixed.display(), works.display());
    let server = setup.script("engine", &engine).start();
    let is_broken = || {
        server.get("/rte/a");
        status(&server).contains("the engine of engine does not start: exit code 3 before its first reply; ")
    };
    assert!(wait_until(is_broken), "{}", status(&server));
    let program = server.path("htdocs/cgi-bin/engine");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
    let is_refused = || {
        server.get("/rte/a");
        status(&server).contains(" cannot execute the program")
    };
    assert!(wait_until(is_refused), "{}", status(&server));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(fixed, "").unwrap();
    assert!(wait_until(|| server.get("/rte/a").text() == "well"));
    let is_over = || !status(&server).contains("faults");
    assert!(wait_until(is_over), "{}", status(&server));
}

#[test]
fn an_upgrade_goes_on_without_them_too_and_says_so() {
    let authority = Authority::new();
    let server = setup(&authority).start();
    let text = fs::read_to_string(server.path("sluice.toml")).unwrap();
    let route = "\n[[site.route]]\npath = \"/none/*\"\ndirectory = \"none\"\n";
    fs::write(server.path("sluice.toml"), text + route).unwrap();
    let old = server.server_pid();
    let upgraded = run(server.setup().directory(), &["upgrade", "-c", "sluice.toml"]);
    let said = upgraded.output + &upgraded.errors;
    assert!(
        upgraded.status.success() && said.contains("goes on, as server process"),
        "{said}"
    );
    assert_ne!(server.server_pid(), old);
    let shown = status(&server);
    for fault in FAULTS {
        assert!(said.contains(fault), "no {fault} in {said}");
        assert!(shown.contains(fault), "no {fault} in {shown}");
    }
    // Of a directory, too, until it exists.
    let lack = "until it exists the answer is 503";
    assert!(said.contains(lack), "{said}");
    assert!(shown.contains(lack) && shown.contains("/none"), "{shown}");
    fs::create_dir(server.path("none")).unwrap();
    let shown = status(&server);
    assert!(!shown.contains(lack), "{shown}");
    assert!(FAULTS.iter().all(|fault| shown.contains(fault)), "{shown}");
    assert_eq!(server.get("/a.txt").status, 200);
    assert_eq!(get(&server, "/private/a.txt", ANN), 503);
    // A log that is not open is nothing that a program such as logrotate could fix.
    let reopened = run(server.setup().directory(), &["log", "reopen", "-c", "sluice.toml"]);
    assert!(reopened.status.success(), "{}", reopened.output);
    for words in [
        "gone/own.log: ",
        "in the access log of the server",
        "the logs are opened again",
    ] {
        assert!(reopened.output.contains(words), "no {words} in {}", reopened.output);
    }
}

/// Makes what is still missing, except the user, whose route is removed.
fn make_whole(directory: &Path) {
    fs::create_dir(directory.join("gone")).unwrap();
    fs::write(directory.join("gone/404.html"), "<p>gone</p>").unwrap();
    let file = directory.join("sluice.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace(", user = \"sluice-no-such-user\"", "")).unwrap();
}

#[test]
fn check_reports_each_as_a_mistake() {
    let authority = Authority::new();
    let setup = setup(&authority);
    setup.write_configuration();
    let checked = run(setup.directory(), &["check", "-c", "sluice.toml"]);
    assert_eq!(checked.status.code(), Some(1));
    for fault in ["gone/404.html", "own.pem", "gone", "sluice-no-such-user", "bin/tool"] {
        assert!(checked.errors.contains(fault), "no {fault} in {}", checked.errors);
    }
}
