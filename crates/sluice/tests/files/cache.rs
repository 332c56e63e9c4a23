//! The file cache: which files it keeps, for how long they count as fresh, and that it never sends wrong content.

mod disk;
mod heads;
mod paths;
mod purge;

use std::fs;
use std::path::Path;

use sluice_testing::{Server, Setup, make_old, wait_until};

/// Replaces a file like an editor does: written under another name, then renamed. Its mtime is old, so that the cache
/// may keep it.
fn replace(path: &Path, content: &str) {
    let fresh = path.with_extension("new");
    fs::write(&fresh, content).unwrap();
    make_old(&fresh);
    fs::rename(fresh, path).unwrap();
}

/// A server with an old file `a.txt` that contains "one", and these `[cache]` keys.
fn server_with(cache: &str) -> Server {
    Setup::new().cache(cache).file("a.txt", "one").age("a.txt").start()
}

#[test]
fn cached_file_is_fresh_for_the_revalidate_interval() {
    let server = server_with("revalidate = \"1h\"");
    let first = server.get("/a.txt");
    replace(&server.path("htdocs/a.txt"), "another");
    let second = server.get("/a.txt");
    assert_eq!((first.text(), second.text()), ("one", "one"));
    assert_eq!(first.field("etag"), second.field("etag"));
    assert_eq!(second.field("content-length"), Some("3"));
}

#[test]
fn changed_file_is_seen_after_the_revalidate_interval() {
    let server = server_with("");
    assert_eq!(server.get("/a.txt").text(), "one");
    replace(&server.path("htdocs/a.txt"), "another");
    assert!(wait_until(|| server.get("/a.txt").text() == "another"));
    fs::remove_file(server.path("htdocs/a.txt")).unwrap();
    assert!(wait_until(|| server.get("/a.txt").status == 404));
}

#[test]
fn change_is_seen_at_once_without_a_cache_or_interval() {
    for cache in ["revalidate = \"0s\"", "size = 0"] {
        let server = server_with(cache);
        for content in ["two", "three", "four"] {
            server.get("/a.txt");
            replace(&server.path("htdocs/a.txt"), content);
            assert_eq!(server.get("/a.txt").text(), content, "{cache}");
        }
    }
}

#[test]
fn recently_written_file_is_not_cached() {
    // Written in place twice within one tick of the file system's clock, it would look unchanged.
    let server = Setup::new().cache("revalidate = \"1h\"").file("a.txt", "one").start();
    for content in ["two", "six", "ten"] {
        fs::write(server.path("htdocs/a.txt"), content).unwrap();
        assert_eq!(server.get("/a.txt").text(), content);
    }
}

#[test]
fn reload_empties_the_cache() {
    let server = server_with("revalidate = \"1h\"");
    assert_eq!(server.get("/a.txt").text(), "one");
    replace(&server.path("htdocs/a.txt"), "another");
    assert_eq!(server.get("/a.txt").text(), "one");
    server.signal("HUP");
    assert!(wait_until(|| server.get("/a.txt").text() == "another"));
}

#[test]
fn file_that_became_a_script_is_not_sent_from_the_cache() {
    let setup = Setup::new().cache("revalidate = \"1h\"");
    let server = setup.file("a.tool", "one").age("a.tool").start();
    assert_eq!(server.get("/a.tool").text(), "one");
    let configuration = fs::read_to_string(server.path("sluice.toml")).unwrap();
    let route = "[[site.route]]\npath = \"*.tool\"\nscript = { mode = \"cgi\" }\n";
    fs::write(server.path("sluice.toml"), configuration + route).unwrap();
    server.signal("HUP");
    assert!(wait_until(|| server.get("/a.tool").status != 200));
}

#[test]
fn large_file_is_identical_from_disk_and_from_memory() {
    let content: String = (0..200_000).map(|number| format!("{number},")).collect();
    let server = Setup::new().file("large.txt", &content).age("large.txt").start();
    for _ in 0..20 {
        let response = server.get("/large.txt");
        assert_eq!(
            response.field("content-length"),
            Some(content.len().to_string().as_str())
        );
        assert!(response.text() == content, "the content differs");
    }
}

#[test]
fn pipelined_requests_get_complete_files_in_order() {
    let sizes = [200_000, 10, 64 << 10, 0, 16 << 10, 1_000_000, 8191];
    let names: Vec<_> = sizes.iter().map(|size| format!("{size}.txt")).collect();
    let content = |size: usize| -> String { ('a'..='w').cycle().take(size).collect() };
    let setup = sizes.iter().zip(&names).fold(Setup::new(), |setup, (size, name)| {
        setup.file(name, content(*size)).age(name)
    });
    let server = setup.start();
    for _ in 0..3 {
        let mut client = server.connect();
        let requests = names
            .iter()
            .map(|name| format!("GET /{name} HTTP/1.1\r\nHost: test\r\n\r\n"));
        client.send(requests.collect::<String>());
        for size in sizes {
            assert!(
                client.response().text() == content(size),
                "{size} bytes: the content differs"
            );
        }
    }
}

#[test]
fn more_files_than_the_cache_holds_are_served() {
    let names: Vec<_> = (0..50).map(|number| format!("f{number}.txt")).collect();
    let setup = Setup::new().cache("size = \"64k\", files = 10".replace(", ", "\n").as_str());
    let setup = names
        .iter()
        .fold(setup, |setup, name| setup.file(name, name.repeat(1000)).age(name));
    let server = setup.start();
    let mut client = server.connect();
    for name in names.iter().chain(&names) {
        assert!(
            client.get(&format!("/{name}")).response().text() == name.repeat(1000),
            "{name}"
        );
    }
}

#[test]
fn cached_file_answers_head_and_conditions() {
    let server = server_with("revalidate = \"1h\"");
    let tag = server.get("/a.txt").field("etag").unwrap().to_owned();
    let mut client = server.connect();
    client.send("HEAD /a.txt HTTP/1.1\r\nHost: test\r\n\r\n");
    let head = client.response_to("HEAD");
    assert_eq!((head.status, head.field("content-length")), (200, Some("3")));
    client.send(format!(
        "GET /a.txt HTTP/1.1\r\nHost: test\r\nIf-None-Match: {tag}\r\n\r\n"
    ));
    assert_eq!(client.response().status, 304);
}

#[test]
fn cache_is_shared_by_all_workers() {
    let setup = Setup::new().workers(4).cache("revalidate = \"1h\"");
    let server = setup.file("a.txt", "one").age("a.txt").start();
    assert_eq!(server.get("/a.txt").text(), "one");
    replace(&server.path("htdocs/a.txt"), "another");
    // The kernel distributes connections by their ports: it is practically impossible that a worker gets none of 100.
    for _ in 0..100 {
        assert_eq!(server.get("/a.txt").text(), "one");
    }
}

#[test]
fn file_over_the_limit_is_not_cached() {
    let setup = Setup::new().cache("revalidate = \"1h\"\nfile_size = \"1KiB\"");
    let small = setup.file("a.txt", "a".repeat(1024)).age("a.txt");
    let server = small.file("b.txt", "b".repeat(1025)).age("b.txt").start();
    for (name, is_kept) in [("a.txt", true), ("b.txt", false)] {
        server.get(&format!("/{name}"));
        replace(&server.path("htdocs").join(name), "another");
        let is_old = server.get(&format!("/{name}")).text() != "another";
        assert_eq!(is_old, is_kept, "{name}");
    }
}
