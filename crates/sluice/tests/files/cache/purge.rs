//! Cache settings of routes, the purge by a signal, and the cache statistics in the log.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{replace, server_with};
use sluice_testing::{Server, Setup, wait_until, warnings_and_errors};

const PERMANENT: &str = "path = \"/fixed/*\"\nfiles = { directory = \"htdocs/fixed\" }\ncache = \"permanent\"";

/// Writes a file with an mtime in the future, so that it counts as recently changed however long the test takes.
fn write_new(path: &Path, content: &str) {
    fs::write(path, content).unwrap();
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(3600))
        .unwrap();
}

/// Purges the cache and returns the log line that reports it.
fn purge(server: &Server) -> String {
    let before = server.log().matches("cache purged").count();
    server.signal("USR2");
    server.log_lines(before + 1, "cache purged").pop().unwrap()
}

#[test]
fn permanent_file_is_not_revalidated_until_the_purge() {
    let setup = Setup::new().cache("revalidate = \"0s\"").route(PERMANENT);
    let setup = setup.file("fixed/a.txt", "one").age("fixed/a.txt");
    let server = setup.file("a.txt", "one").age("a.txt").start();
    let both = || (server.get("/fixed/a.txt"), server.get("/a.txt"));
    let texts = |expected: (&str, &str)| {
        let (fixed, other) = both();
        assert_eq!((fixed.text(), other.text()), expected);
    };
    texts(("one", "one"));
    for name in ["htdocs/fixed/a.txt", "htdocs/a.txt"] {
        replace(&server.path(name), "another");
    }
    texts(("one", "another"));
    fs::remove_file(server.path("htdocs/fixed/a.txt")).unwrap();
    texts(("one", "another"));
    purge(&server);
    // The purge happens before it is logged.
    assert_eq!(server.get("/fixed/a.txt").status, 404);
}

#[test]
fn each_purge_shows_the_new_content() {
    let setup = Setup::new().site("cache = \"permanent\"");
    let server = setup.file("a.txt", "0").age("a.txt").start();
    let mut client = server.connect();
    for number in 0..20 {
        assert_eq!(client.get("/a.txt").response().text(), number.to_string());
        replace(&server.path("htdocs/a.txt"), &(number + 1).to_string());
        assert_eq!(client.get("/a.txt").response().text(), number.to_string());
        purge(&server);
    }
    assert_eq!(warnings_and_errors(&server.log()), [""; 0]);
}

#[test]
fn recently_written_file_is_not_kept_permanently() {
    let server = Setup::new().site("cache = \"permanent\"").start();
    for content in ["one", "two", "three"] {
        write_new(&server.path("htdocs/a.txt"), content);
        assert_eq!(server.get("/a.txt").text(), content);
    }
}

#[test]
fn route_overrides_the_cache_setting_of_its_site() {
    let route = |name: &str, cache: &str| {
        format!("path = \"/{name}/*\"\nfiles = {{ directory = \"htdocs/{name}\" }}\ncache = \"{cache}\"")
    };
    let setup = Setup::new().cache("revalidate = \"1h\"").site("cache = \"off\"");
    let setup = setup.route(&route("kept", "on")).route(&route("never", "off"));
    let names = ["kept/a.txt", "never/a.txt", "a.txt"];
    let setup = names
        .iter()
        .fold(setup, |setup, name| setup.file(name, "one").age(name));
    let server = setup.start();
    for name in names {
        assert_eq!(server.get(&format!("/{name}")).text(), "one");
        replace(&server.path("htdocs").join(name), "another");
        let expected = if name == "kept/a.txt" { "one" } else { "another" };
        assert_eq!(server.get(&format!("/{name}")).text(), expected, "{name}");
    }
}

#[test]
fn cache_statistics_are_logged_at_purge_and_exit() {
    let setup = Setup::new().cache("revalidate = \"1h\"\nfile_size = \"1KiB\"");
    let setup = setup.file("a.txt", "four").age("a.txt");
    let server = setup.file("large.txt", "x".repeat(2000)).age("large.txt").start();
    write_new(&server.path("htdocs/new.txt"), "new");
    for name in ["a.txt", "a.txt", "a.txt", "large.txt", "none.txt", "new.txt"] {
        server.get(&format!("/{name}"));
    }
    let line = purge(&server);
    let expected =
        "1 file of 4 bytes; 2 hits, 4 misses, 0 unchanged, 0 changed, 0 evicted, 1 too large, 1 just changed";
    assert!(line.ends_with(expected), "{line}");
    server.get("/a.txt");
    let line = purge(&server);
    assert!(line.contains("1 file of 4 bytes; 2 hits, 5 misses"), "{line}");
    let ended = server.stop();
    assert!(
        ended.errors.contains("cache: 0 files of 0 bytes; 2 hits, 5 misses"),
        "{}",
        ended.errors
    );
}

#[test]
fn variant_and_file_are_counted_as_one_request() {
    for (revalidate, hits, checks) in [
        // Two names are not in memory: the file at first, and the precompressed variant beside it.
        ("1h", " 19 hits, 2 misses, ", " 0 unchanged, 0 changed, 0 evicted, "),
        ("0s", " 0 hits, ", " 19 unchanged, 0 changed, 0 evicted, "),
    ] {
        let setup = Setup::new().cache(&format!("revalidate = \"{revalidate}\""));
        let content = "text ".repeat(1000);
        let server = setup.file("a.txt", &content).age("a.txt").start();
        for _ in 0..20 {
            let response = server.send("GET /a.txt HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n");
            assert_eq!(response.field("content-encoding"), Some("gzip"));
        }
        let line = purge(&server);
        for part in [" 2 files of ", hits, checks, " 0 too large, 0 just changed"] {
            assert!(line.contains(part), "{revalidate}: {line}");
        }
    }
}

#[test]
fn revalidations_are_counted() {
    let server = server_with("revalidate = \"0s\"");
    for _ in 0..3 {
        server.get("/a.txt");
    }
    replace(&server.path("htdocs/a.txt"), "another");
    server.get("/a.txt");
    let line = purge(&server);
    assert!(
        line.contains("0 hits, 1 miss, 2 unchanged, 1 changed, 0 evicted"),
        "{line}"
    );
}

#[test]
fn evictions_are_counted() {
    let server = server_with("files = 2");
    for number in 0..6 {
        let name = format!("{number}.txt");
        replace(&server.path("htdocs").join(&name), "text");
        server.get(&format!("/{name}"));
    }
    let line = purge(&server);
    assert!(
        line.contains(" 2 files of 8 bytes; ") && line.contains(" 4 evicted"),
        "{line}"
    );
}

#[test]
fn purge_without_a_cache_is_logged_and_harmless() {
    let server = server_with("size = 0");
    server.signal("USR2");
    server.log_line("there is no cache to purge");
    assert_eq!(server.get("/a.txt").text(), "one");
}

#[test]
fn purge_stops_no_script_and_loses_no_log_line() {
    let setup = Setup::new().script("kept", "#!/usr/bin/env python3\nimport os\nrequests = open('/dev/fd/3')\nwhile requests.readline():\n    while requests.readline() != '\\n': pass\n    print('Content-Type: text/plain\\n')\n    print(os.getpid())\n    print(os.environ['CGIPLUSEOF'], flush=True)\n");
    let server = setup.workers(1).start();
    let first = server.get("/cgiplus-bin/kept").text().to_owned();
    purge(&server);
    assert_eq!(server.get("/cgiplus-bin/kept").text(), first);
    assert!(wait_until(|| server.access_lines(2).len() == 2));
}
