//! Files that are not in the page cache: a thread reads them from disk, with and without a file cache.

use std::path::Path;
use std::process::Command;

use sluice_testing::{Ending, Setup, spawn};

/// Drops a file from the kernel's page cache (dd(1), posix_fadvise(2)).
fn drop_from_page_cache(path: &Path) {
    let mut dd = Command::new("dd");
    dd.args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"]);
    dd.arg(format!("of={}", path.display()));
    assert!(spawn(&mut dd).unwrap().wait().unwrap().success(), "{dd:?}");
}

#[test]
fn files_outside_the_page_cache_are_sent_fully_and_in_parts() {
    let sizes = [5, 5000, 20_000, 65_536, 300_000, 9_000_000];
    for cache in ["on", "off"] {
        let setup = Setup::new().site(&format!("cache = \"{cache}\""));
        let content = |size: usize| -> String { ('a'..='w').cycle().take(size).collect() };
        let setup = sizes.iter().fold(setup, |setup, size| {
            let name = format!("{size}.txt");
            setup.file(&name, content(*size)).age(&name)
        });
        let server = setup.start();
        for size in sizes {
            let (path, name) = (server.path(&format!("htdocs/{size}.txt")), format!("/{size}.txt"));
            drop_from_page_cache(&path);
            let range = format!(
                "GET {name} HTTP/1.1\r\nHost: test\r\nRange: bytes=1-{}\r\n\r\n",
                size - 2
            );
            assert!(
                server.send(range).text() == &content(size)[1..size - 1],
                "a part of {size}, {cache}"
            );
            drop_from_page_cache(&path);
            let response = server.get(&name);
            assert_eq!(response.ending, Ending::Complete, "{size}, {cache}");
            assert!(response.text() == content(size), "{size}, {cache}");
        }
    }
}
