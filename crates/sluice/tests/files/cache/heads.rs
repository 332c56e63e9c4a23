//! Responses whose head is copied from the cache, and requests whose host the worker knows already: they are those of the general path.

use std::fs;
use std::time::{Duration, SystemTime};

use sluice_testing::{Client, Response, Server, Setup, wait_until};

/// Files, with their sizes: without a body, sent with its head, and in sealed memory.
const FILES: [(&str, usize); 3] = [("empty.txt", 0), ("small.txt", 300), ("large.bin", 70_000)];

/// Request heads after the target and the version, without the end; `{tag}` is the file's entity tag.
const FIELDS: [&str; 10] = [
    "",
    "Accept-Encoding: identity\r\nAccept: */*\r\n",
    "If-None-Match: {tag}\r\n",
    "If-None-Match: \"other\"\r\n",
    "If-Match: \"other\"\r\n",
    "If-Modified-Since: Sat, 21 Nov 2099 00:00:00 GMT\r\n",
    "If-Unmodified-Since: Sat, 21 Nov 1998 00:00:00 GMT\r\n",
    "Range: bytes=2-4\r\n",
    "Range: bytes=0-1,9-12\r\n",
    "If-Range: \"other\"\r\nRange: bytes=2-4\r\n",
];

/// A server with these `[cache]` keys. Its log has what a response says about itself.
fn server(cache: &str) -> Server {
    let format = r#"%r %>s %b %v %X "%{host}i" "%{etag}o" "%{content-length}o" "%{cache-control}o""#;
    let mut setup = Setup::new()
        .cache(cache)
        .log(&format!("access = \"-\"\nformat = '{format}'"))
        .site("hosts = [\"one.test\"]")
        .route("path = \"/small.txt\"\nexpires = \"1h\"\nheaders = { set = { x-route = \"one\" } }")
        .sites("[[site]]\nhosts = [\"two.test\"]\nroot = \"htdocs\"\ncompression = { files = \"off\" }");
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    for (name, bytes) in FILES {
        setup = setup.file(name, "x".repeat(bytes));
        let file = fs::File::options()
            .append(true)
            .open(setup.path("htdocs").join(name))
            .unwrap();
        file.set_modified(modified).unwrap();
    }
    setup.start()
}

/// The response without its date, as text.
fn shown(response: &Response) -> String {
    let mut fields = response.head.fields.clone();
    fields.retain(|(name, _)| name != "date");
    // Drawn for each response.
    let boundary = response
        .field("content-type")
        .and_then(|kind| kind.split_once("boundary=").map(|(_, text)| text));
    let body = String::from_utf8_lossy(&response.body);
    // That of an error page ends with the id of its request.
    let body = body.split("\nRequest ").next().unwrap_or_default();
    let text = format!("{} {} {fields:?} {body}", response.head.version, response.status);
    boundary.map_or(text.clone(), |boundary| text.replace(boundary, "BOUNDARY"))
}

/// All responses, of connections that are kept as far as the protocol allows, and the lines of the log.
fn responses(server: &Server) -> (Vec<String>, Vec<String>) {
    let mut all = Vec::new();
    let mut client = server.connect();
    for round in 0..3 {
        for (name, _) in FILES {
            let tag = server.entity_tag(name);
            for fields in FIELDS {
                for host in ["one.test", "two.test:81"] {
                    for method in ["GET", "HEAD"] {
                        let fields = fields.replace("{tag}", &tag);
                        client.send(format!(
                            "{method} /{name}?{round} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"
                        ));
                        all.push(shown(&client.response_to(method)));
                    }
                }
            }
        }
        for old in [
            "GET /small.txt HTTP/1.0\r\nHost: two.test\r\n\r\n",
            "GET http://two.test/small.txt HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n",
        ] {
            all.push(shown(&server.send(old)));
        }
    }
    // Three rounds ask for the tag of each file.
    let lines = server.access_lines(all.len() + 3 * FILES.len());
    (all, lines)
}

trait Tag {
    fn entity_tag(&self, name: &str) -> String;
}

impl Tag for Server {
    /// The entity tag of a file.
    fn entity_tag(&self, name: &str) -> String {
        let response = self.send(format!(
            "GET /{name} HTTP/1.1\r\nHost: two.test\r\nConnection: close\r\n\r\n"
        ));
        response.field("etag").unwrap().to_owned()
    }
}

#[test]
fn responses_from_the_cache_are_those_from_the_disk() {
    let (cached, disk) = (server("revalidate = \"1h\""), server("size = 0"));
    let (from_cache, from_disk) = (responses(&cached), responses(&disk));
    for (one, other) in from_cache.0.iter().zip(&from_disk.0) {
        assert_eq!(one, other);
    }
    assert_eq!(from_cache.0.len(), from_disk.0.len());
    let sorted = |mut lines: Vec<String>| {
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(from_cache.1), sorted(from_disk.1));
}

fn text(client: &mut Client, host: &str) -> (u16, String) {
    client.send(format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let response = client.response();
    (response.status, String::from_utf8_lossy(&response.body).into_owned())
}

#[test]
fn host_of_a_kept_connection_leads_to_the_site_of_the_present_configuration() {
    let setup = Setup::new()
        .site("hosts = [\"one.test\"]")
        .sites("[[site]]\nhosts = [\"two.test\"]\nroot = \"two\"")
        .file("a.txt", "one");
    fs::create_dir(setup.path("two")).unwrap();
    fs::write(setup.path("two/a.txt"), "two").unwrap();
    let server = setup.start();
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(text(&mut client, "one.test").1, "one");
        assert_eq!(text(&mut client, "two.test:80").1, "two");
    }
    let configuration = fs::read_to_string(server.path("sluice.toml")).unwrap();
    let swapped = configuration
        .replace("one.test", "x.test")
        .replace("two.test", "one.test")
        .replace("x.test", "two.test");
    fs::write(server.path("sluice.toml"), swapped).unwrap();
    server.signal("HUP");
    assert!(wait_until(|| text(&mut server.connect(), "one.test").1 == "two"));
    for _ in 0..3 {
        assert_eq!(text(&mut client, "one.test").1, "two");
        assert_eq!(text(&mut client, "two.test:80").1, "one");
    }
}
