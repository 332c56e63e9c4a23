//! Files that scripts hand over to the server (X-Sendfile, X-Accel-Redirect): sent like any file, but only from
//! declared directories.

use std::os::unix::fs::symlink;

use sluice_testing::{Response, Server, Setup, curl, make_old, run, write_script, write_with_mode};

/// A setup whose scripts may send files of `$TEST_DIR/private`, under `/protected/`.
fn setup() -> Setup {
    let keys = "send_files = { \"/protected/\" = \"private\" }";
    let setup = Setup::new().cgi(keys).cgiplus(keys);
    let private = |name: &str| setup.path("private").join(name);
    write_with_mode(&private("a.txt"), b"0123456789", 0o644);
    write_with_mode(&private("a b%.bin"), b"binary", 0o644);
    write_with_mode(&private(".hidden"), b"secret", 0o644);
    make_old(&private("a.txt"));
    setup
}

/// A server with a script that prints this head (in printf(1) syntax, with `$TEST_DIR`) and a body that must not be
/// sent.
fn server(head: &str) -> Server {
    setup().script("x", &print_head(head)).start()
}

fn print_head(head: &str) -> String {
    format!("printf \"{head}\\n\\nthe script's own body\"")
}

#[track_caller]
fn ask(server: &Server, method: &str, path: &str, lines: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: test\r\n{lines}\r\n"));
    client.response_to(method)
}

const BY_PATH: &str = "X-Sendfile: $TEST_DIR/private/a.txt";
const BY_PREFIX: &str = "X-Accel-Redirect: /protected/a.txt";

#[test]
fn either_field_sends_the_file_and_is_removed() {
    for head in [BY_PATH, BY_PREFIX, "HTTP/1.1 200 OK\\n$BY", "Status: 200\\n$BY"] {
        let head = head.replace("$BY", BY_PREFIX);
        let response = server(&head).get("/cgi-bin/x");
        assert_eq!((response.status, response.text()), (200, "0123456789"), "{head}");
        assert_eq!(response.field("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(response.field("content-length"), Some("10"));
        assert_eq!(response.field("accept-ranges"), Some("bytes"));
        assert!(response.field("etag").is_some() && response.field("last-modified").is_some());
        assert_eq!(response.field("x-sendfile"), None);
        assert_eq!(response.field("x-accel-redirect"), None);
    }
}

#[test]
fn names_may_be_percent_encoded_or_not() {
    for head in [
        "X-Sendfile: $TEST_DIR/private/a b%%.bin",
        "X-Sendfile: $TEST_DIR/private/a%%20b%%25.bin",
        "X-Accel-Redirect: /protected/a%%20b%%25.bin?x=y",
    ] {
        let response = server(head).get("/cgi-bin/x");
        assert_eq!((response.status, response.text()), (200, "binary"), "{head}");
        assert_eq!(response.field("content-type"), Some("application/octet-stream"));
    }
}

#[test]
fn script_fields_are_kept_except_those_of_the_file() {
    let fields = "Content-Type: text/x-own\\nContent-Disposition: attachment\\nSet-Cookie: a=b\\nSet-Cookie: c=d\\n\
                  Cache-Control: private\\nContent-Length: 3\\nETag: 'mine'\\nLast-Modified: never\\nContent-Range: bytes 0-1/2";
    let server = server(&format!("{fields}\\n{BY_PATH}"));
    let response = server.get("/cgi-bin/x");
    assert_eq!((response.status, response.text()), (200, "0123456789"));
    assert_eq!(response.field("content-type"), Some("text/x-own"));
    assert_eq!(response.field("content-disposition"), Some("attachment"));
    assert_eq!(response.head.values("set-cookie"), ["a=b", "c=d"]);
    assert_eq!(response.field("cache-control"), Some("private"));
    assert_eq!(response.field("content-length"), Some("10"));
    assert_eq!(response.head.values("etag").len(), 1);
    assert_ne!(response.field("etag"), Some("'mine'"));
    assert_eq!(response.head.values("last-modified").len(), 1);
    assert_eq!(response.field("content-range"), None);
    let tag = response.field("etag").unwrap();
    let known = ask(&server, "GET", "/cgi-bin/x", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((known.status, known.field("cache-control")), (304, Some("private")));
    assert_eq!((known.field("etag"), known.field("content-type")), (Some(tag), None));
    assert_eq!(known.field("content-disposition"), None);
}

#[test]
fn conditions_ranges_and_head_apply_to_the_file() {
    let server = server(&format!("Content-Type: text/x-own\\n{BY_PREFIX}"));
    let part = ask(&server, "GET", "/cgi-bin/x", "Range: bytes=2-4\r\n");
    assert_eq!((part.status, part.text()), (206, "234"));
    assert_eq!(part.field("content-range"), Some("bytes 2-4/10"));
    let parts = ask(&server, "GET", "/cgi-bin/x", "Range: bytes=0-0,9-9\r\n");
    assert_eq!(parts.status, 206);
    assert!(parts.field("content-type").unwrap().starts_with("multipart/byteranges"));
    assert_eq!(parts.text().matches("text/x-own").count(), 2, "{}", parts.text());
    let beyond = ask(&server, "GET", "/cgi-bin/x", "Range: bytes=10-\r\n");
    assert_eq!(
        (beyond.status, beyond.field("content-range")),
        (416, Some("bytes */10"))
    );
    let head = ask(&server, "HEAD", "/cgi-bin/x", "");
    assert_eq!((head.status, head.field("content-length")), (200, Some("10")));
    let other = ask(&server, "GET", "/cgi-bin/x", "If-Match: \"other\"\r\n");
    assert_eq!(other.status, 412);
    // POST is not subject to the file's conditions and ranges.
    let posted = ask(
        &server,
        "POST",
        "/cgi-bin/x",
        "Range: bytes=2-4\r\nIf-None-Match: *\r\nContent-Length: 0\r\n",
    );
    assert_eq!((posted.status, posted.text()), (200, "0123456789"));
}

#[test]
fn other_status_of_the_script_is_kept_with_the_full_file() {
    let server = server(&format!("Status: 404\\nContent-Type: text/plain\\n{BY_PATH}"));
    let response = ask(&server, "GET", "/cgi-bin/x", "Range: bytes=2-4\r\n");
    assert_eq!((response.status, response.text()), (404, "0123456789"));
    assert_eq!((response.field("etag"), response.field("accept-ranges")), (None, None));
}

#[test]
fn file_outside_the_declared_directories_is_502() {
    let setup = setup();
    write_with_mode(&setup.path("outside.txt"), b"secret", 0o644);
    let mut cases = Vec::new();
    for (number, head) in [
        "X-Sendfile: $TEST_DIR/outside.txt",
        "X-Sendfile: $TEST_DIR/private/../outside.txt",
        "X-Sendfile: private/a.txt",
        "X-Sendfile: a.txt",
        "X-Sendfile:",
        "X-Accel-Redirect: /protected/../outside.txt",
        "X-Accel-Redirect: /elsewhere/a.txt",
        "X-Accel-Redirect: protected/a.txt",
        "X-Accel-Redirect: /protected/a.txt\\nX-Sendfile: $TEST_DIR/private/a.txt",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("x{number}");
        write_script(&setup.path("htdocs/cgi-bin").join(&name), &print_head(head));
        cases.push((name, head));
    }
    let server = setup.start();
    for (name, head) in cases {
        let response = server.get(&format!("/cgi-bin/{name}"));
        assert_eq!(response.status, 502, "{head}");
        assert!(
            !response.text().contains("secret") && !response.text().contains("private"),
            "{head}"
        );
        server.log_line(&format!("/cgi-bin/{name}: "));
    }
    let undeclared = Setup::new().script("x", &print_head(BY_PREFIX)).start();
    let response = undeclared.get("/cgi-bin/x");
    assert_eq!((response.status, response.field("x-accel-redirect")), (502, None));
    let line = undeclared.log_line("/cgi-bin/x");
    assert!(line.contains("declare its directory in send_files"), "{line}");
}

#[test]
fn missing_or_unservable_file_is_404_and_logged() {
    let setup = setup();
    write_with_mode(&setup.path("outside.txt"), b"secret", 0o644);
    symlink("../outside.txt", setup.path("private/leaves")).unwrap();
    symlink("a.txt", setup.path("private/stays")).unwrap();
    std::fs::create_dir(setup.path("private/folder")).unwrap();
    let _gate = setup.gate("private/fifo");
    let named = "printf \"X-Accel-Redirect: /protected/$QUERY_STRING\\n\\n\"";
    let by_path = "printf \"X-Sendfile: $TEST_DIR/private/$QUERY_STRING\\n\\n\"";
    let server = setup.script("x", named).script("y", by_path).start();
    assert_eq!(server.get("/cgi-bin/x?stays").text(), "0123456789");
    for name in [
        "missing", "leaves", "folder", "folder/", "fifo", ".hidden", "a.txt/", "",
    ] {
        for (script, field) in [("x", "x-accel-redirect"), ("y", "x-sendfile")] {
            let response = server.get(&format!("/cgi-bin/{script}?{name}"));
            assert_eq!(response.status, 404, "{field} {name}");
            let line = server.log_line(&format!("/cgi-bin/{script}?{name}: {field}"));
            assert!(line.contains("WARN"), "{line}");
        }
    }
}

#[test]
fn clients_cannot_request_the_declared_directory() {
    let server = setup().start();
    assert_eq!(server.get("/protected/a.txt").status, 404);
}

#[test]
fn scripts_in_the_declared_directory_are_not_sent() {
    let keys = "send_files = { \"/all/\" = \"htdocs\" }";
    let setup = Setup::new().cgi(keys).file("a.txt", "a");
    let server = setup
        .script("x", "printf \"X-Accel-Redirect: /all/$QUERY_STRING\\n\\n\"")
        .start();
    assert_eq!(server.get("/cgi-bin/x?a.txt").text(), "a");
    assert_eq!(server.get("/cgi-bin/x?cgi-bin/x").status, 404);
}

#[test]
fn pattern_scripts_are_not_sent_from_any_declared_directory() {
    let keys = "send_files = { \"/all/\" = \"htdocs\", \"/deep/\" = \"htdocs/deep\", \"/above/\" = \".\" }";
    let setup = Setup::new().cgi(keys).file("deep/a.txt", "a");
    let setup = setup.route("path = \"*.cgi\"\nscript = { mode = \"cgi\" }");
    write_script(
        &setup.path("htdocs/deep/y.cgi"),
        "printf 'Content-Type: text/plain\n\nran'",
    );
    let server = setup
        .script("x", "printf \"X-Accel-Redirect: $QUERY_STRING\n\n\"")
        .start();
    assert_eq!(server.get("/deep/y.cgi").text(), "ran");
    for (directory, status) in [("/all/deep", 200), ("/deep", 200), ("/above/htdocs/deep", 200)] {
        assert_eq!(server.get(&format!("/cgi-bin/x?{directory}/a.txt")).status, status);
        assert_eq!(
            server.get(&format!("/cgi-bin/x?{directory}/y.cgi")).status,
            404,
            "{directory}"
        );
    }
}

#[test]
fn cache_setting_of_the_site_applies() {
    for (cache, after) in [("off", "two"), ("permanent", "0123456789")] {
        let setup = setup().site(&format!("cache = \"{cache}\""));
        let server = setup.script("x", &print_head(BY_PREFIX)).start();
        assert_eq!(server.get("/cgi-bin/x").text(), "0123456789");
        let file = server.path("private/a.txt");
        std::fs::write(&file, "two").unwrap();
        make_old(&file);
        assert_eq!(server.get("/cgi-bin/x").text(), after, "{cache}");
    }
}

#[test]
fn script_directory_cannot_be_declared() {
    for directory in ["htdocs/cgi-bin", "htdocs/cgi-bin/below"] {
        let keys = format!("send_files = {{ \"/c/\" = \"{directory}\" }}");
        let setup = Setup::new().cgi(&keys).script("x", "exit 1");
        std::fs::create_dir_all(setup.path("htdocs/cgi-bin/below")).unwrap();
        setup.write_configuration();
        let ran = run(setup.directory(), &["run", "-c", "sluice.toml"]);
        assert!(ran.errors.contains("is a directory of scripts"), "{}", ran.errors);
        assert!(!ran.status.success());
    }
}

#[test]
fn cgiplus_process_is_kept_and_its_body_dropped() {
    let text = "
while accept():
    put(b'X-Pid: %d\\nX-Accel-Redirect: /protected/a.txt\\n\\nbody ' % os.getpid() + b'x' * 100000 + EOF)
";
    let keys = "send_files = { \"/protected/\" = \"private\" }, max = 1";
    let server = setup().cgiplus(keys).python("x", text).start();
    let mut client = server.connect();
    let mut pids = Vec::new();
    for _ in 0..3 {
        let response = client.get("/cgiplus-bin/x").response();
        assert_eq!((response.status, response.text()), (200, "0123456789"));
        pids.push(response.field("x-pid").unwrap().to_owned());
    }
    pids.dedup();
    assert_eq!(pids.len(), 1, "{pids:?}");
}

#[test]
fn memory_buffer_after_the_head_is_answered_410() {
    let text = "
while accept():
    ask(b'BUFFER-BEGIN: 64k')
    put(b'X-Accel-Redirect: /protected/a.txt\\n\\n')
    answer = ask(b'BUFFER-WRITE: 1000')
    put(EOF)
    open(TEST_DIR + '/events', 'wb').writelines(answer)
";
    let setup = setup();
    let events = setup.event_fifo("events");
    let server = setup.python("x", text).start();
    assert_eq!(server.get("/cgiplus-bin/x").text(), "0123456789");
    assert!(events.line().starts_with("410 "));
    server.wait_for_processes(1);
}

#[test]
fn script_that_keeps_writing_is_stopped() {
    let keys = "send_files = { \"/protected/\" = \"private\" }, client_grace = \"100ms\"";
    let server = setup()
        .cgi(keys)
        .script("x", &format!("printf '{BY_PREFIX}\\n\\n'\nexec yes"))
        .start();
    assert_eq!(server.get("/cgi-bin/x").text(), "0123456789");
    server.assert_idle();
}

#[test]
fn local_redirect_may_lead_to_a_script_that_sends_a_file() {
    let server = setup()
        .script("x", &print_head(BY_PREFIX))
        .script("to", "printf 'Location: /cgi-bin/x\\n\\n'")
        .start();
    assert_eq!(server.get("/cgi-bin/to").text(), "0123456789");
}

#[test]
fn http2_and_log_report_the_size_of_the_file() {
    let server = setup()
        .log("format = \"%>s %B %U\"")
        .listeners("[[listen]]\naddress = \"127.0.0.2:0\"\nhttp2 = \"on\"")
        .script("x", &print_head(BY_PATH))
        .start();
    let part = ask(&server, "GET", "/cgi-bin/x", "Range: bytes=2-4\r\n");
    assert_eq!(part.text(), "234");
    assert_eq!(server.access_lines(1), ["206 3 /cgi-bin/x"]);
    let addresses = server.addresses();
    let other = addresses.iter().find(|address| address.contains("127.0.0.2")).unwrap();
    let output = curl(&[
        "--http2-prior-knowledge",
        "-w",
        "|%{http_version} %{http_code}",
        &format!("{other}cgi-bin/x"),
    ]);
    assert_eq!(output, "0123456789|2 200");
    assert_eq!(server.access_lines(2)[1], "200 10 /cgi-bin/x");
}

/// The route of a directory in which files are scripts by their suffix, and may send those of a directory.
fn scripts_among_files(directory: &str) -> String {
    format!(
        "path = \"/mixed/*\"\ndirectory = \"htdocs/mixed\"\nscripts = {{ \".sh\" = \"sh\" }}\n\
         script = {{ send_files = {{ \"/protected/\" = \"{directory}\" }} }}\n"
    )
}

#[test]
fn scripts_among_files_may_send_files_too() {
    for head in [BY_PATH, BY_PREFIX] {
        let setup = setup().route(&scripts_among_files("private"));
        let head = head.replace("$TEST_DIR", &setup.directory().display().to_string());
        let server = setup.file("mixed/x.sh", print_head(&head)).start();
        let response = server.get("/mixed/x.sh");
        assert_eq!((response.status, response.text()), (200, "0123456789"), "{head}");
    }
}

#[test]
fn scripts_among_files_may_not_send_those_of_a_directory_of_scripts() {
    let setup = setup().script("x", "exit 1").file("mixed/x.sh", "");
    let setup = setup.route(&scripts_among_files("htdocs/cgi-bin"));
    setup.write_configuration();
    let ran = run(setup.directory(), &["run", "-c", "sluice.toml"]);
    assert!(ran.errors.contains("is a directory of scripts"), "{}", ran.errors);
}
