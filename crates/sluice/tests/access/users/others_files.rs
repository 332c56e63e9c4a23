//! A reload of the whole server does not depend on files that another user than root can break.

use std::fs;
use std::os::unix::fs::{lchown, symlink};
use std::path::Path;
use std::process::Command;

use sluice_testing::{Authority, Server, run, signal, wait_until};

use super::{ALICE, SERVER, give, is_root, open_setup, set_mode};

const ANN: &str = "Authorization: Basic YW5uOnNlY3JldA==\r\n";
const USERS: &str = "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";

const SITE: &str = r#"
[[site]]
hosts = ["own.example"]
root = "htdocs"
errors = { 404 = "of-alice/404.html" }
tls = { certificate = "of-alice/own.pem" }
log = { access = "of-alice/logs/own.log" }

[[site.route]]
path = "/private/*"
files = { directory = "htdocs" }
access = { users = "of-alice/users.htpasswd", groups = "of-alice/groups" }

[[site.route]]
path = "/tool"
script = { file = "of-alice/tool" }
"#;

/// A server with files of ALICE: all but a log can be used.
fn start(authority: &Authority) -> Server {
    let setup = open_setup()
        .server(&format!("user = \"{SERVER}:{SERVER}\""))
        .file("health.txt", "well")
        .listeners("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"default.pem\" }")
        .sites(SITE);
    authority.issue_to(&setup.path("default.pem"), &["localhost", "own.example"]);
    let place = setup.path("of-alice");
    fs::create_dir(&place).unwrap();
    authority.issue_to(&place.join("own.pem"), &["own.example"]);
    for (name, text) in [
        ("404.html", "<p>gone</p>"),
        ("users.htpasswd", USERS),
        ("groups", "staff: ann\n"),
        ("tool", "#!/bin/sh\n"),
    ] {
        fs::write(place.join(name), text).unwrap();
    }
    set_mode(&place.join("tool"), 0o755);
    give_all(&place, ALICE);
    setup.start()
}

fn give_all(directory: &Path, user: u32) {
    give(directory, user);
    for entry in fs::read_dir(directory).unwrap() {
        give(&entry.unwrap().path(), user);
    }
}

fn get(server: &Server, path: &str, fields: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: own.example\r\nConnection: close\r\n{fields}\r\n");
    server.send(request).status
}

/// Runs `sluice`: whether it succeeds, and what it says.
fn sluice(server: &Server, command: &str) -> (bool, String) {
    let ran = run(server.setup().directory(), &[command, "-c", "sluice.toml"]);
    (ran.status.success(), ran.output + &ran.errors)
}

#[test]
fn a_reload_goes_on_without_what_another_user_has_broken() {
    if !is_root() {
        return;
    }
    let authority = Authority::new();
    let server = start(&authority);
    let place = server.path("of-alice");
    assert_eq!(get(&server, "/private/health.txt", ANN), 200);
    fs::remove_file(place.join("404.html")).unwrap();
    fs::remove_file(place.join("own.pem")).unwrap();
    fs::remove_file(place.join("users.htpasswd")).unwrap();
    let made = Command::new("mkfifo").arg(place.join("users.htpasswd")).status();
    assert!(made.unwrap().success());
    fs::File::create(place.join("404.html"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    give(&place.join("404.html"), ALICE);
    set_mode(&place.join("tool"), 0o644);
    let faults = [
        "errors: 404: ",
        "logs/own.log: ",
        "users.htpasswd: ",
        "has no execute bit",
    ];
    // Both times: what was noted about the owners is not what counts for the next reload.
    for _ in 0..2 {
        let (is_done, said) = sluice(&server, "reload");
        assert!(is_done && said.contains("is in force"), "{said}");
        let (_, shown) = sluice(&server, "status");
        for fault in faults {
            assert!(said.contains(fault), "no {fault} in {said}");
            assert!(shown.contains(fault), "no {fault} in {shown}");
        }
        assert_eq!(get(&server, "/health.txt", ""), 200);
        assert_eq!(get(&server, "/private/health.txt", ANN), 503);
        assert_eq!(get(&server, "/tool", ""), 403);
    }
    // The certificate in use stays so.
    assert!(wait_until(|| sluice(&server, "status").1.contains("own.pem: ")));
    let (is_valid, said) = sluice(&server, "check");
    assert!(!is_valid && said.contains("own.pem"), "{said}");

    // The next server process, too.
    let died = server.server_pid();
    assert!(signal(died, "KILL"));
    assert!(wait_until(
        || server.server_pid() != died && get(&server, "/health.txt", "") == 200
    ));

    fs::remove_file(place.join("users.htpasswd")).unwrap();
    fs::write(place.join("users.htpasswd"), USERS).unwrap();
    assert!(wait_until(|| get(&server, "/private/health.txt", ANN) == 200));
    server.stop();
}

#[test]
fn a_reload_refuses_the_same_faults_of_files_of_root() {
    if !is_root() {
        return;
    }
    let authority = Authority::new();
    let server = start(&authority);
    let place = server.path("of-alice");
    fs::create_dir(place.join("logs")).unwrap();
    give(&place.join("logs"), SERVER);
    fs::write(place.join("users.htpasswd"), "no hash\n").unwrap();
    let (is_done, said) = sluice(&server, "reload");
    assert!(is_done && said.contains("users.htpasswd"), "{said}");
    give_all(&place, 0);
    let (is_done, said) = sluice(&server, "reload");
    assert!(
        !is_done && said.contains("users.htpasswd") && said.contains("nothing has changed"),
        "{said}"
    );
    // A link of ALICE on the path of a file of root.
    fs::rename(&place, server.path("of-root")).unwrap();
    symlink("of-root", &place).unwrap();
    assert!(!sluice(&server, "reload").0);
    lchown(&place, Some(ALICE), None).unwrap();
    let (is_done, said) = sluice(&server, "reload");
    assert!(is_done, "{said}");
    server.stop();
}

#[test]
fn check_names_an_included_file_of_another_user() {
    if !is_root() {
        return;
    }
    let setup = open_setup().file("health.txt", "well");
    setup.write_configuration();
    let file = setup.path("sluice.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("include = \"of-alice/*.toml\"\n{text}")).unwrap();
    let place = setup.path("of-alice");
    fs::create_dir(&place).unwrap();
    fs::write(
        place.join("a.toml"),
        "[[site]]\nhosts = [\"a.example\"]\nroot = \"../htdocs\"\n",
    )
    .unwrap();
    let checked = || {
        let checked = run(setup.directory(), &["check", "-c", "sluice.toml"]);
        assert!(checked.status.success(), "{}", checked.errors);
        checked.output + &checked.errors
    };
    let warning = "of-alice/a.toml: its owner, or that of a part of its path, is not root";
    assert!(!checked().contains(warning), "{}", checked());
    give(&place, ALICE);
    assert!(checked().contains(warning), "{}", checked());
}

#[test]
fn what_another_user_puts_in_place_of_a_directory_prevents_neither_reload_nor_start() {
    if !is_root() {
        return;
    }
    let route = "[[site.route]]\npath = \"/own/*\"\ndirectory = \"of-alice/own\"\n\
                 [[site.route]]\npath = \"/tool\"\nscript = { file = \"of-alice/tool\" }\n\
                 [[site.route]]\npath = \"/app\"\nscript = { file = \"of-alice/app.py\", mode = \"rte\", engine = \"python\", watch = [\"of-alice/lib\"] }\n";
    let setup = open_setup()
        .server(&format!("user = \"{SERVER}:{SERVER}\""))
        .file("health.txt", "well")
        .sites(&format!(
            "[[site]]\nhosts = [\"own.example\"]\nroot = \"htdocs\"\n{route}"
        ));
    let place = setup.path("of-alice/own");
    fs::create_dir_all(&place).unwrap();
    fs::create_dir(setup.path("of-alice/tool")).unwrap();
    fs::create_dir(setup.path("of-alice/app.py")).unwrap();
    give_all(&setup.path("of-alice"), ALICE);
    let server = setup.start();
    fs::remove_dir(&place).unwrap();
    for put in [
        |path: &Path| fs::write(path, "no directory"),
        |path: &Path| symlink("own", path),
    ] {
        put(&place).unwrap();
        for command in ["reload", "upgrade"] {
            let (is_done, said) = sluice(&server, command);
            assert!(is_done && said.contains("until it exists the answer is 503"), "{said}");
            assert_eq!(get(&server, "/own/a.txt", ""), 503);
            for fault in [
                "tool is a directory",
                "app.py is a directory",
                "lib (No such file or directory)",
            ] {
                assert!(said.contains(fault), "no {fault} in {said}");
            }
            assert_eq!(get(&server, "/tool", ""), 403);
            assert_eq!(server.get("/health.txt").text(), "well");
        }
        fs::remove_file(&place).unwrap();
    }
    fs::create_dir(&place).unwrap();
    fs::write(place.join("a.txt"), "a").unwrap();
    assert_eq!(get(&server, "/own/a.txt", ""), 200);
    server.stop();
}
