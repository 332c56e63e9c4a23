//! Scripts that run as the owners of their files, and each reason why one does not.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::{ALICE, BOB, SERVER, WHOAMI, give, is_root, open_setup, set_mode};
use sluice_testing::{Server, write_script};

/// A server that runs the scripts below `home` as their owners, if they belong to Alice.
fn start() -> Server {
    let setup = open_setup();
    let home = setup.path("home");
    fs::create_dir_all(home.join("alice/cgi")).unwrap();
    give(&home.join("alice"), ALICE);
    give(&home.join("alice/cgi"), ALICE);
    let server = setup
        .server(&format!(
            "user = \"{SERVER}:{SERVER}\"\nscript_owners = {{ users = [\"{ALICE}:{ALICE}\", \"900:900\"], directories = [\"home\"] }}"
        ))
        .site("error_detail = true")
        .script_route(
            "/~/*",
            "directory = \"home\", user = \"owner\", interpreters = { \".sh\" = \"/bin/sh\" }",
        )
        .start();
    add(&server, "alice/cgi/whoami", WHOAMI);
    server
}

/// A script of Alice.
fn add(server: &Server, name: &str, text: &str) -> PathBuf {
    let path = server.path("home").join(name);
    write_script(&path, text);
    give(&path, ALICE);
    path
}

#[track_caller]
fn assert_refused(server: &Server, path: &str, check: &str) {
    let response = server.get(path);
    assert_eq!(response.status, 500, "{check}: {}", response.text());
    assert!(response.text().contains(check), "{check}: {}", response.text());
    let line = server.log_line(check);
    assert!(line.contains("refused: "), "{line}");
}

#[test]
fn a_script_runs_as_its_owner() {
    if !is_root() {
        return;
    }
    let server = start();
    let expected = format!("{ALICE}:{ALICE}:{ALICE}:/:");
    assert_eq!(server.get("/~/alice/cgi/whoami").text().trim(), expected);
    // Its interpreter belongs to root; the script counts.
    let script = add(&server, "alice/cgi/other.sh", WHOAMI);
    set_mode(&script, 0o600);
    assert_eq!(server.get("/~/alice/cgi/other.sh").text().trim(), expected);
    // It finds the files beside it, because it runs by its path.
    add(
        &server,
        "alice/cgi/name",
        "printf 'Content-Type: text/plain\\n\\n'; echo \"$0\"",
    );
    let name = server.get("/~/alice/cgi/name").text().trim().to_owned();
    assert!(name.ends_with("/home/alice/cgi/name"), "{name}");
}

#[test]
fn each_check_refuses_and_is_named() {
    if !is_root() {
        return;
    }
    let server = start();
    let script = server.path("home/alice/cgi/whoami");
    let directory = server.path("home/alice/cgi");
    let path = "/~/alice/cgi/whoami";
    let healthy = || assert_eq!(server.get(path).status, 200);
    healthy();
    for mode in [0o775, 0o757] {
        set_mode(&script, mode);
        assert_refused(
            &server,
            path,
            &format!(
                "the script {0} is writable by its group or by others (mode {mode:04o}): chmod go-w {0}",
                script.display()
            ),
        );
    }
    set_mode(&script, 0o4755);
    assert_refused(&server, path, "set-user-ID or set-group-ID bit (mode 4755)");
    set_mode(&script, 0o755);
    set_mode(&directory, 0o775);
    assert_refused(
        &server,
        path,
        &format!(
            "the directory {0} is writable by its group or by others (mode 0775): chmod go-w {0}",
            directory.display()
        ),
    );
    set_mode(&directory, 0o755);
    set_mode(&server.path("home/alice"), 0o1777);
    let above = format!("the directory {} is writable", server.path("home/alice").display());
    assert_refused(&server, path, &above);
    set_mode(&server.path("home/alice"), 0o755);
    give(&directory, BOB);
    assert_refused(
        &server,
        path,
        &format!("the directory {} belongs to user {BOB}", directory.display()),
    );
    give(&directory, 0);
    give(&server.path("home/alice"), 0);
    healthy();
    for (owner, check) in [
        (0, "belongs to root, and no script runs as root: chown it to its user"),
        (900, "user 900, is below uid_min = 1000"),
        (BOB, "is neither among the users nor in one of the groups"),
    ] {
        give(&script, owner);
        assert_refused(&server, path, check);
    }
    give(&script, ALICE);
    healthy();
}

#[test]
fn a_link_to_a_script_of_somebody_else_gives_nobody_its_user() {
    if !is_root() {
        return;
    }
    let server = start();
    let mallory = server.path("home/mallory");
    fs::create_dir(&mallory).unwrap();
    give(&mallory, BOB);
    // Its owner is Alice, but not that of the directory.
    fs::hard_link(server.path("home/alice/cgi/whoami"), mallory.join("hard")).unwrap();
    assert_refused(
        &server,
        "/~/mallory/hard",
        &format!("the directory {} belongs to user {BOB}", mallory.display()),
    );
    symlink("../alice/cgi/whoami", mallory.join("soft")).unwrap();
    let response = server.get("/~/mallory/soft");
    assert!(
        response.status >= 400 && !response.text().contains(&format!("{ALICE}:{ALICE}")),
        "{}",
        response.text()
    );
}
