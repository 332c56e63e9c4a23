//! Changes of the path to a cached file: renamed directories, symbolic links, hard links.

use std::fs;
use std::os::unix::fs::symlink;

use super::replace;
use sluice_testing::{Server, Setup, make_old, wait_until};

/// A server with these old files in its cache, each containing its own name.
fn server_with(names: &[&str]) -> Server {
    let setup = names
        .iter()
        .fold(Setup::new(), |setup, name| setup.file(name, name).age(name));
    let server = setup.start();
    for name in names {
        assert_eq!(server.get(&format!("/{name}")).text(), *name);
    }
    server
}

#[track_caller]
fn wait_for(server: &Server, path: &str, expected: &str) {
    let seen = wait_until(|| server.get(path).text() == expected);
    assert!(seen, "{path} is still {:?}", server.get(path).text());
}

#[test]
fn renamed_directory_is_seen_at_any_depth() {
    let server = server_with(&["one/b/c/f.txt", "two/b/c/f.txt"]);
    let rename = |from: &str, to: &str| fs::rename(server.path("htdocs").join(from), server.path("htdocs").join(to));
    rename("one", "three").unwrap();
    assert!(wait_until(|| server.get("/one/b/c/f.txt").status == 404));
    rename("two", "one").unwrap();
    wait_for(&server, "/one/b/c/f.txt", "two/b/c/f.txt");
    wait_for(&server, "/three/b/c/f.txt", "one/b/c/f.txt");
    rename("one/b", "one/away").unwrap();
    rename("three/b", "one/b").unwrap();
    wait_for(&server, "/one/b/c/f.txt", "one/b/c/f.txt");
    // Changes of the file are seen under its new name too.
    replace(&server.path("htdocs/one/b/c/f.txt"), "another");
    wait_for(&server, "/one/b/c/f.txt", "another");
}

#[test]
fn changed_symlinks_are_seen_anywhere_on_the_path() {
    let names = ["a/f.txt", "b/f.txt"];
    let server = server_with(&names);
    let at = |name: &str| server.path("htdocs").join(name);
    let point = |link: &str, target: &str| {
        let _ = fs::remove_file(at("fresh"));
        symlink(target, at("fresh")).unwrap();
        fs::rename(at("fresh"), at(link)).unwrap();
    };
    for name in [names[0], names[1], names[0], names[1]] {
        let (directory, _) = name.split_once('/').unwrap();
        point("folder", directory);
        point("file.txt", name);
        wait_for(&server, "/folder/f.txt", name);
        wait_for(&server, "/file.txt", name);
    }
    // The target of a link may change although the link does not.
    replace(&at("b/f.txt"), "another");
    wait_for(&server, "/folder/f.txt", "another");
    wait_for(&server, "/file.txt", "another");
    // A file is replaced by a link.
    point("a/f.txt", "../b/f.txt");
    wait_for(&server, "/a/f.txt", "another");
}

#[test]
fn change_through_a_hard_link_is_seen() {
    let server = server_with(&["a.txt"]);
    fs::write(server.path("outside.txt"), "one").unwrap();
    make_old(&server.path("outside.txt"));
    fs::hard_link(server.path("outside.txt"), server.path("htdocs/linked.txt")).unwrap();
    for content in ["one", "another", "third"] {
        fs::write(server.path("outside.txt"), content).unwrap();
        make_old(&server.path("outside.txt"));
        wait_for(&server, "/linked.txt", content);
    }
}
