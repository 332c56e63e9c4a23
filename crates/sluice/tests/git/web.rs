//! gitweb as set up in examples/git: its pages, their links, and its static files.
//!
//! Here: the requests of a browser, over a plain socket. The appearance of the pages is not tested.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::scene::{DEADLINE, RunResult, Scene};

#[test]
fn pages_show_the_repository() {
    let Some(scene) = Scene::open() else { return };
    scene.repository("project.git");
    let tip = scene.tip("first");
    for (query, expected) in [
        ("", vec!["project.git"]),
        (
            "p=project.git",
            vec![&*scene.url("project.git"), "the second commit", "v1"],
        ),
        (
            "p=project.git;a=log",
            vec!["the first commit", "the second commit", "Ann Author"],
        ),
        (
            "p=project.git;a=shortlog",
            vec!["the first commit", "the second commit"],
        ),
        ("p=project.git;a=commit", vec![&*tip, "Carl Committer"]),
        ("p=project.git;a=commitdiff", vec!["+second line"]),
        ("p=project.git;a=tree", vec!["read.me", "folder"]),
        ("p=project.git;a=blob;f=read.me", vec!["second line"]),
        ("p=project.git;a=blame;f=read.me", vec!["second line", "Ann Author"]),
        ("p=project.git;a=rss", vec!["<rss", "the second commit"]),
    ] {
        let page = fetch(&scene, &format!("/gitweb/?{query}"));
        assert_eq!(page.status, 200, "{query}");
        for text in expected {
            // gitweb writes spaces as &nbsp;, so that lines do not wrap.
            let body = page.text().replace("&nbsp;", " ");
            assert!(body.contains(text), "{query}: no {text:?} in:\n{body}");
        }
        if query != "p=project.git;a=rss" {
            assert!(
                page.text().trim_end().ends_with("</html>"),
                "{query}: the page is incomplete"
            );
        }
    }
    assert_eq!(fetch(&scene, "/gitweb/?p=other.git").status, 404);
}

/// Follows one link of each kind, from page to page.
#[test]
fn every_kind_of_link_works() {
    let Some(scene) = Scene::open() else { return };
    scene.repository("project.git");
    let mut followed = BTreeMap::new();
    let mut waiting = vec!["/gitweb/".to_owned(), "/gitweb".to_owned()];
    while let Some(link) = waiting.pop() {
        if followed.contains_key(&kind(&link)) {
            continue;
        }
        let page = fetch(&scene, &link);
        assert_eq!(page.status, 200, "{link}:\n{}", page.text());
        if page.head.contains("html") {
            waiting.extend(links(&page.text()));
        }
        followed.insert(kind(&link), link);
    }
    for kind in [
        "a=atom",
        "a=blame",
        "a=blob_plain",
        "a=history",
        "a=patch",
        "a=search",
        "a=snapshot sf=tgz",
        "a=snapshot sf=zip",
        "a=tag",
        "/gitweb/static/gitweb.css",
        "/gitweb/static/gitweb.js",
        "/gitweb/static/git-logo.png",
        "/gitweb/static/git-favicon.png",
    ] {
        assert!(followed.contains_key(kind), "no link of {kind} among {followed:#?}");
    }
}

#[test]
fn snapshot_can_be_unpacked() {
    let Some(scene) = Scene::open() else { return };
    scene.repository("project.git");
    let page = fetch(&scene, "/gitweb/?p=project.git;a=snapshot;h=HEAD;sf=tgz");
    assert_eq!(page.status, 200);
    assert!(page.head.contains("content-type: application/x-gzip"), "{}", page.head);
    let file = scene.path("snapshot.tar.gz");
    fs::write(&file, &page.body).unwrap();
    let mut tar = std::process::Command::new("tar");
    let listing = RunResult::run(tar.arg("-tzf").arg(&file)).checked_output();
    // Everything is in a directory named after repository and commit.
    for name in ["/read.me", "/folder/code.c"] {
        assert!(
            listing.lines().any(|line| line.ends_with(name)),
            "no {name} in:\n{listing}"
        );
    }
}

#[test]
fn html_of_a_repository_is_sent_as_plain_text() {
    let Some(scene) = Scene::open() else { return };
    scene.repository("project.git");
    let page = fetch(&scene, "/gitweb/?p=project.git;a=blob_plain;f=folder/page.html");
    assert_eq!((page.status, &*page.text()), (200, "<b>bold</b>\n"));
    assert!(page.head.contains("content-type: text/plain"), "{}", page.head);
}

#[test]
fn static_files_have_their_media_types() {
    let Some(scene) = Scene::open() else { return };
    for (name, kind) in [
        ("gitweb.css", "text/css"),
        ("gitweb.js", "text/javascript"),
        ("git-logo.png", "image/png"),
    ] {
        let page = fetch(&scene, &format!("/gitweb/static/{name}"));
        assert_eq!(page.status, 200, "{name}");
        assert!(page.head.contains(&format!("content-type: {kind}")), "{}", page.head);
        assert!(!page.body.is_empty(), "{name}");
    }
    assert_eq!(fetch(&scene, "/gitweb/static/none.css").status, 404);
}

#[test]
fn root_redirects_to_gitweb() {
    let Some(scene) = Scene::open() else { return };
    let page = fetch(&scene, "/");
    assert_eq!(page.status, 302);
    assert!(page.head.contains("location: /gitweb/\r\n"), "{}", page.head);
}

/// The kind of a link: its action, regardless of the object.
fn kind(link: &str) -> String {
    let (path, query) = link.split_once('?').unwrap_or((link, ""));
    let wanted = |part: &&str| part.starts_with("a=") || part.starts_with("sf=");
    let parts: Vec<_> = query.split(['&', ';']).filter(wanted).collect();
    if parts.is_empty() {
        format!("{path}{}", if query.is_empty() { "" } else { "?" })
    } else {
        parts.join(" ")
    }
}

/// The links of a page to gitweb and its files.
fn links(page: &str) -> Vec<String> {
    let quoted = page.split(['"', '\'']).collect::<Vec<_>>();
    let links = quoted
        .windows(2)
        .filter(|pair| pair[0].ends_with("href=") || pair[0].ends_with("src="));
    links
        .map(|pair| pair[1].split('#').next().unwrap_or_default().replace("&amp;", "&"))
        .filter(|link| link.starts_with("/gitweb"))
        .collect()
}

/// A complete response.
struct Page {
    status: u16,
    /// In lower case.
    head: String,
    body: Vec<u8>,
}

impl Page {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

#[track_caller]
fn fetch(scene: &Scene, target: &str) -> Page {
    let mut socket = TcpStream::connect(("127.0.0.1", scene.port())).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let host = format!("127.0.0.1:{}", scene.port());
    write!(
        socket,
        "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n").unwrap() + 4;
    let body = bytes.split_off(end);
    let head = String::from_utf8(bytes).unwrap().to_lowercase();
    Page {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        body: if head.contains("transfer-encoding: chunked") {
            join_chunks(&body)
        } else {
            assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{head}");
            body
        },
        head,
    }
}

/// Decodes chunks (RFC 9112 §7.1). Panics if the last chunk is missing.
fn join_chunks(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|part| part == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return body;
        }
        let data = &rest[end + 2..];
        body.extend_from_slice(&data[..length]);
        rest = &data[length + 2..];
    }
}
