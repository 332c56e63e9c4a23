//! Files whose folders are watched: believed for an hour here, so that whatever is seen of a change is seen by its event.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::replace;
use crate::harness::{Server, Setup, make_old, wait_until};

const WATCHED: &str = "revalidate = \"1ms\"\nrevalidate_watched = \"1h\"";

/// A server with these old files, each of which says its own name, in folders that it watches. None where temporary files
/// lie on a file system that is not watched.
fn server_with(names: &[&str]) -> Option<Server> {
    let setup = names.iter().fold(Setup::new().cache(WATCHED), |setup, name| {
        setup.file(name, name).age(name)
    });
    let server = setup.start();
    is_local(server.setup().folder()).then_some(())?;
    let ancestors = names.iter().flat_map(|name| Path::new(name).ancestors().skip(1));
    let folders = ancestors.collect::<HashSet<_>>().len();
    let all_watched = wait_until(|| {
        for name in names {
            assert_eq!(server.get(&format!("/{name}")).text(), *name);
        }
        watches(&server) == folders
    });
    assert!(all_watched, "{} of {folders} folders are watched", watches(&server));
    Some(server)
}

/// Folders that the server watches (proc_pid_fdinfo(5)).
fn watches(server: &Server) -> usize {
    let folder = format!("/proc/{}/fdinfo", server.pid());
    let files = fs::read_dir(folder).unwrap().flatten();
    let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    texts
        .map(|text| text.lines().filter(|line| line.starts_with("inotify ")).count())
        .sum()
}

/// By the name of its file system (proc_mounts(5)).
fn is_local(folder: &Path) -> bool {
    let folder = folder.canonicalize().unwrap();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|fields| folder.starts_with(fields[1]))
        .max_by_key(|fields| fields[1].len());
    mount.is_some_and(|fields| ["ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "f2fs"].contains(&fields[2]))
}

#[track_caller]
fn wait_for(server: &Server, path: &str, expected: &str) {
    let seen = wait_until(|| server.get(path).text() == expected);
    assert!(seen, "{path} is still {:?}", server.get(path).text());
}

#[test]
fn a_changed_file_is_seen_by_its_event() {
    let Some(server) = server_with(&["a.txt"]) else { return };
    for number in 0..20 {
        let (path, content) = (server.path("htdocs/a.txt"), number.to_string());
        if number % 2 == 0 {
            replace(&path, &content);
        } else {
            fs::write(&path, &content).unwrap();
            make_old(&path);
        }
        wait_for(&server, "/a.txt", &content);
    }
    fs::remove_file(server.path("htdocs/a.txt")).unwrap();
    assert!(wait_until(|| server.get("/a.txt").status == 404));
}

#[test]
fn a_renamed_folder_is_seen_at_any_depth() {
    let Some(server) = server_with(&["one/b/c/f.txt", "two/b/c/f.txt"]) else {
        return;
    };
    let rename = |from: &str, to: &str| fs::rename(server.path("htdocs").join(from), server.path("htdocs").join(to));
    rename("one", "three").unwrap();
    assert!(wait_until(|| server.get("/one/b/c/f.txt").status == 404));
    rename("two", "one").unwrap();
    wait_for(&server, "/one/b/c/f.txt", "two/b/c/f.txt");
    wait_for(&server, "/three/b/c/f.txt", "one/b/c/f.txt");
    rename("one/b", "one/away").unwrap();
    rename("three/b", "one/b").unwrap();
    wait_for(&server, "/one/b/c/f.txt", "one/b/c/f.txt");
    // Under its new name it is watched as well.
    replace(&server.path("htdocs/one/b/c/f.txt"), "another");
    wait_for(&server, "/one/b/c/f.txt", "another");
}

#[test]
fn a_symbolic_link_on_the_path_or_at_its_end_may_lead_elsewhere_at_any_time() {
    let names = ["a/f.txt", "b/f.txt"];
    let Some(server) = server_with(&names) else { return };
    let at = |name: &str| server.path("htdocs").join(name);
    let point = |link: &str, target: &str| {
        let _ = fs::remove_file(at("fresh"));
        symlink(target, at("fresh")).unwrap();
        fs::rename(at("fresh"), at(link)).unwrap();
    };
    for name in [names[0], names[1], names[0], names[1]] {
        let (folder, _) = name.split_once('/').unwrap();
        point("folder", folder);
        point("file.txt", name);
        wait_for(&server, "/folder/f.txt", name);
        wait_for(&server, "/file.txt", name);
    }
    // What a link leads to may change, where nothing happens to the link.
    replace(&at("b/f.txt"), "another");
    wait_for(&server, "/folder/f.txt", "another");
    wait_for(&server, "/file.txt", "another");
    // A file that is replaced by a link.
    point("a/f.txt", "../b/f.txt");
    wait_for(&server, "/a/f.txt", "another");
}

#[test]
fn a_file_with_another_name_elsewhere_is_looked_at_again_and_again() {
    let Some(server) = server_with(&["a.txt"]) else { return };
    fs::write(server.path("outside.txt"), "one").unwrap();
    make_old(&server.path("outside.txt"));
    fs::hard_link(server.path("outside.txt"), server.path("htdocs/linked.txt")).unwrap();
    for content in ["one", "another", "third"] {
        fs::write(server.path("outside.txt"), content).unwrap();
        make_old(&server.path("outside.txt"));
        wait_for(&server, "/linked.txt", content);
    }
}

#[test]
fn with_the_watch_off_no_folder_is_watched() {
    let setup = Setup::new().cache("watch = false");
    let server = setup.file("a.txt", "one").age("a.txt").start();
    for content in ["two", "three"] {
        replace(&server.path("htdocs/a.txt"), content);
        wait_for(&server, "/a.txt", content);
    }
    assert_eq!(watches(&server), 0);
}
