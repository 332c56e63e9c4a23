//! Deployments that switch a symbolic link, or rename directories: what the paths of the configuration lead to now is served without a reload.

use std::fs;
use std::os::unix::fs::symlink;

use sluice_testing::{Server, Setup, wait_until, write_script};

const SITES: &str = r#"
[[site]]
hosts = ["link.example"]
root = "current"

[[site.route]]
path = "/run/*"
script = { directory = "current/bin" }

[[site.route]]
path = "/kept/*"
script = { directory = "current/bin", mode = "cgiplus", max = 1 }

[[site]]
hosts = ["renamed.example"]
root = "plain"
"#;

fn get(server: &Server, host: &str, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let response = server.send(request);
    (response.status, response.text().to_owned())
}

/// A release below the directory of the setup.
fn release(setup: &Setup, name: &str) {
    fs::create_dir_all(setup.path(name).join("bin")).unwrap();
    fs::write(setup.path(name).join("a.txt"), name).unwrap();
    let script = format!("printf 'Content-Type: text/plain\\n\\n{name}'");
    write_script(&setup.path(name).join("bin/print"), &script);
    write_script(&setup.path(name).join("bin/counter"), COUNTER);
}

/// Counts its requests.
const COUNTER: &str = r#"n=0
while read -r line <&3; do
    if [ -z "$line" ]; then n=$((n + 1)); printf 'Content-Type: text/plain\n\n%s%s\n' "$n" "$CGIPLUSEOF"; fi
done"#;

fn start() -> Server {
    let setup = Setup::new().sites(SITES).script("counter", COUNTER).cgiplus("max = 1");
    for name in ["one", "two", "plain", "next"] {
        release(&setup, name);
    }
    symlink("one", setup.path("current")).unwrap();
    setup.start()
}

#[test]
fn the_target_of_a_link_that_was_switched_is_served_and_the_old_one_may_be_removed() {
    let server = start();
    let all = |name: &str| {
        let answers = ["/a.txt", "/run/print"].map(|path| get(&server, "link.example", path));
        answers == [(200, name.to_owned()), (200, name.to_owned())]
    };
    assert!(all("one"));
    // As ln -sfn does: the link is replaced by rename(2).
    symlink("two", server.path("link")).unwrap();
    fs::rename(server.path("link"), server.path("current")).unwrap();
    fs::remove_dir_all(server.path("one")).unwrap();
    assert!(wait_until(|| all("two")), "{}", server.log());
    server.log_line("current is another directory now");
    assert_eq!(
        get(&server, "link.example", "/bin/print").0,
        404,
        "the text of a script"
    );
}

#[test]
fn a_directory_that_takes_the_name_of_another_one_is_served() {
    let server = start();
    assert_eq!(get(&server, "renamed.example", "/a.txt"), (200, "plain".to_owned()));
    fs::rename(server.path("plain"), server.path("old")).unwrap();
    fs::rename(server.path("next"), server.path("plain")).unwrap();
    let next = || get(&server, "renamed.example", "/a.txt") == (200, "next".to_owned());
    assert!(wait_until(next), "{}", server.log());
    // What was removed stays open until there is another one.
    fs::rename(server.path("plain"), server.path("gone")).unwrap();
    assert!(next());
}

#[test]
fn only_the_processes_of_a_directory_that_has_moved_are_replaced() {
    let server = start();
    let count = |host: &str, path: &str| get(&server, host, path).1.trim().to_owned();
    for expected in ["1", "2"] {
        assert_eq!(count("link.example", "/kept/counter"), expected);
        assert_eq!(count("localhost", "/cgiplus-bin/counter"), expected);
    }
    symlink("two", server.path("link")).unwrap();
    fs::rename(server.path("link"), server.path("current")).unwrap();
    server.log_line("the directories of the configuration are open again");
    assert_eq!(count("link.example", "/kept/counter"), "1", "of another process");
    assert_eq!(count("localhost", "/cgiplus-bin/counter"), "3", "of the same one");
    // Processes are still replaced by a reload.
    server.signal("HUP");
    server.log_line("SIGHUP: sluice.toml is in force");
    assert_eq!(count("localhost", "/cgiplus-bin/counter"), "1");
}
