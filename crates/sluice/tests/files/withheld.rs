//! Files that are never sent: logs, configuration, keys, backup copies, directories of scripts.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use sluice_testing::{Authority, Server, Setup, run, wait_until, write_script};

#[track_caller]
fn assert_not_sent(server: &Server, paths: &[&str]) {
    for path in paths {
        for method in ["GET", "OPTIONS"] {
            let response = server.send(format!("{method} {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
            assert_eq!(response.status, 404, "{method} {path}: {}", response.text());
        }
    }
}

#[test]
fn access_log_of_serve_may_lie_in_the_served_directory_and_is_not_sent() {
    let server = Setup::new().start_with(&[
        "serve",
        "htdocs",
        "--listing",
        "--listen",
        "127.0.0.1:0",
        "--host",
        "test",
        "--access-log",
        "htdocs/access.log",
    ]);
    server.log_line("access.log lies below a served directory; clients get 404 for it");
    fs::write(server.path("htdocs/access.log.20261121-235958"), "GET /?token").unwrap();
    fs::write(server.path("htdocs/access.log.1.gz"), "GET /?token").unwrap();
    fs::write(server.path("htdocs/access.log-20261121"), "GET /?token").unwrap();
    fs::write(server.path("htdocs/access.log_20261121.gz"), "GET /?token").unwrap();
    fs::hard_link(server.path("htdocs/access.log"), server.path("htdocs/copy.txt")).unwrap();
    symlink("access.log", server.path("htdocs/link.txt")).unwrap();
    assert_not_sent(
        &server,
        &[
            "/access.log",
            "/access%2elog",
            "//./access.log",
            "/access.log.20261121-235958",
            "/access.log.1.gz",
            "/access.log.1",
            "/access.log-20261121",
            "/access.log_20261121.gz",
            "/copy.txt",
            "/link.txt",
        ],
    );
    let listing = server.get("/").text().to_owned();
    assert!(listing.contains("health.txt"), "{listing}");
    for name in ["access.log", "copy.txt", "link.txt"] {
        assert!(!listing.contains(name), "{listing}");
    }
    // A thread writes it.
    let is_logged = || {
        let log = fs::read_to_string(server.path("htdocs/access.log")).unwrap();
        log.contains("GET /copy.txt")
    };
    assert!(wait_until(is_logged));
}

#[test]
fn redirected_output_and_its_rotated_files_are_not_sent() {
    let setup = Setup::new()
        .file("/out.log.1", "GET /?token")
        .file("/out.log-20261122.gz", "GET /?token")
        .file("/out.logs", "text");
    let server = setup.start_after("os.dup2(os.open('htdocs/out.log', os.O_WRONLY | os.O_CREAT), 1)");
    server.log_line("htdocs/out.log lies below a served directory; clients get 404 for it");
    assert_not_sent(&server, &["/out.log", "/out.log.1", "/out.log-20261122.gz"]);
    assert_eq!(server.get("/out.logs").text(), "text");
}

#[test]
fn directory_that_is_named_cgi_bin_sends_nothing() {
    let server = Setup::new()
        .file("/site/cgi-bin/x.py", "password = 1")
        .site("listing = true")
        .route("path = \"/all/*\"\nfiles = { directory = \"htdocs/site/cgi-bin\" }")
        .start();
    server.log_line("htdocs/site/cgi-bin has the name of a directory of programs, and none of its files is sent");
    assert_not_sent(&server, &["/all/x.py", "/all/", "/all/sub/x.py", "/site/cgi-bin/x.py"]);
}

#[test]
fn programs_that_cgi_bin_links_to_after_the_start_are_not_sent() {
    let setup = Setup::new()
        .file("/site/health.txt", "well")
        .file("/site/programs.txt", "text");
    let server = setup.start_with(&["serve", "htdocs/site", "--listen", "127.0.0.1:0", "--host", "test"]);
    let program = "printf 'Content-Type: text/plain\\n\\nran'";
    write_script(&server.path("htdocs/site/programs/x.sh"), program);
    assert!(server.get("/programs/x.sh").text().contains("printf"));
    write_script(&server.path("htdocs/site/programs/y.sh"), program);
    symlink("programs", server.path("htdocs/site/cgi-bin")).unwrap();
    assert_eq!(server.get("/cgi-bin/y.sh").text(), "ran");
    assert_not_sent(&server, &["/programs/y.sh", "/programs/"]);
    assert_eq!(server.get("/programs.txt").text(), "text");
}

#[test]
fn cgi_bin_that_is_made_after_serve_has_started_runs_its_programs() {
    let server = Setup::new()
        .file("/site/health.txt", "well")
        .file("/site/sub/index.html", "page")
        .start_with(&["serve", "htdocs/site", "--listen", "127.0.0.1:0", "--host", "test"]);
    server.log_line("htdocs/site/cgi-bin, which does not exist yet");
    assert_not_sent(&server, &["/cgi-bin/x", "/cgiplus-bin/x", "/cgi-bin/"]);
    let programs = server.path("htdocs/site/cgi-bin");
    write_script(&programs.join("x"), "printf 'Content-Type: text/plain\\n\\nran'");
    fs::write(programs.join("secret.py"), "password = 1").unwrap();
    assert_eq!(server.get("/cgi-bin/x").text(), "ran");
    assert_eq!(server.get("/cgi-bin/secret.py").status, 403);
    // Where no route runs programs they are not sent either.
    write_script(&server.path("htdocs/site/sub/cgi-bin/y"), "password=1");
    write_script(&server.path("htdocs/site/sub/CGI-BIN/z"), "password=1");
    symlink("cgi-bin", server.path("htdocs/site/sub/programs")).unwrap();
    assert_not_sent(
        &server,
        &["/sub/cgi-bin/y", "/sub/CGI-BIN/z", "/sub/programs/y", "/sub/cgi-bin/"],
    );
    assert_eq!(server.get("/sub/").text(), "page");
}

/// A site whose files are also reachable below `/all/`, where the configuration, a key and authorities lie.
fn setup() -> Setup {
    let authority = Authority::new();
    let setup = Setup::new();
    authority.issue_to(&setup.path("own.pem"), &["localhost"]);
    fs::write(setup.path("authorities.pem"), authority.pem()).unwrap();
    for name in ["sluice.toml", "own.pem", "authorities.pem"] {
        symlink(name, setup.path(&format!("link-{name}"))).unwrap();
    }
    fs::hard_link(setup.path("own.pem"), setup.path("hard.pem")).unwrap();
    setup
        .listeners(
            "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"own.pem\", client_certificates = \"optional\", \
             client_authorities = \"authorities.pem\" }",
        )
        .log("access = \"logs/access.log\"")
        .site("index = [\"index.html\", \"sluice.toml\"]\nlisting = true")
        .route("path = \"/all/*\"\nfiles = { directory = \".\" }")
        .route("path = \"/other/*\"\nrewrite = \"/all/*\"")
        .cgi("send_files = { \"/private/\" = \".\" }")
        .python(
            "sends",
            "put(b'X-Accel-Redirect: /private/' + os.environb[b'QUERY_STRING'] + b'\\n\\n')",
        )
        .python(
            "names",
            "put(b'X-Sendfile: ' + os.path.realpath(TEST_DIR).encode() + b'/' + os.environb[b'QUERY_STRING'] + b'\\n\\n')",
        )
}

#[test]
fn configuration_keys_and_logs_are_sent_by_no_path() {
    let setup = setup();
    fs::create_dir(setup.path("logs")).unwrap();
    fs::write(setup.path("public.txt"), "public").unwrap();
    let server = setup.start();
    let names = [
        "sluice.toml",
        "own.pem",
        "authorities.pem",
        "logs/access.log",
        "link-sluice.toml",
        "link-own.pem",
        "link-authorities.pem",
        "hard.pem",
    ];
    for name in ["sluice.toml", "own.pem", "authorities.pem", "logs/access.log"] {
        server.log_line(&format!("{name} lies below a served directory"));
    }
    for name in names {
        let ways = ["/all/", "/other/", "/cgi-bin/sends?", "/cgi-bin/names?"].map(|way| format!("{way}{name}"));
        for way in ways {
            let response = server.get(&way);
            assert_eq!(response.status, 404, "{way}: {}", response.text());
        }
    }
    assert_eq!(server.get("/cgi-bin/sends?public.txt").text(), "public");
    assert_eq!(server.get("/cgi-bin/names?public.txt").text(), "public");
    let listing = server.get("/all/").text().to_owned();
    assert!(listing.contains("public.txt"), "{listing}");
    for name in names.into_iter().filter(|name| !name.contains('/')) {
        assert!(!listing.contains(name), "{name} in {listing}");
    }
    let explained = run(
        &server.path(""),
        &["check", "-c", "sluice.toml", "--explain", "/all/logs/access.log"],
    );
    let expected = "404, file \"logs/access.log\": never sent, because it is hidden, a backup copy";
    assert!(explained.output.contains(expected), "{}", explained.output);
}

const COPIES: [&str; 11] = [
    "/x.php~",
    "/%23x.php%23",
    "/x.cgi.bak",
    "/X.CGI.BAK",
    "/x.old",
    "/x.orig",
    "/x.save",
    "/x.swp",
    "/x.swo",
    "/x.rej",
    "/x.php~.gz",
];

fn with_copies() -> Setup {
    let setup = Setup::new()
        .file("/pages.bak/page.html", "page")
        .file("/backup.txt", "text");
    COPIES
        .iter()
        .fold(setup, |setup, name| setup.file(&name.replace("%23", "#"), "secret"))
}

#[test]
fn backup_copies_are_neither_sent_nor_listed() {
    let server = with_copies().site("listing = true\nindex = [\"x.old\"]").start();
    assert_not_sent(&server, &COPIES);
    assert_eq!(server.get("/backup.txt").text(), "text");
    assert_eq!(server.get("/pages.bak/page.html").text(), "page");
    let listing = server.get("/").text().to_owned();
    assert!(
        listing.contains("pages.bak") && listing.contains("backup.txt"),
        "{listing}"
    );
    for name in ["x.php~", "x.cgi.bak", "x.old", "x.swp"] {
        assert!(!listing.contains(name), "{name} in {listing}");
    }
}

#[test]
fn names_that_are_withheld_are_configurable() {
    let server = with_copies().site("withhold = [\"*.txt\"]").start();
    for path in COPIES {
        assert_eq!(server.get(path).text(), "secret", "{path}");
    }
    // The harness's own file is one of them.
    assert_eq!(server.get("/backup.txt").status, 404);
    fs::write(
        server.path("sluice.toml"),
        server.setup().configuration().replace("*.txt", "backup*"),
    )
    .unwrap();
    server.signal("HUP");
    server.log_line("is in force");
    assert_eq!(server.get("/backup.txt").status, 404);
}

#[test]
fn serve_warns_of_keys_logs_and_configurations_in_its_directory() {
    let authority = Authority::new();
    let setup = Setup::new()
        .file("old.log", "GET /")
        .file("sluice.toml", "# unused")
        .file("public.pem", authority.pem())
        .file("page.txt", "page");
    authority.issue_to(&setup.path("htdocs/own.pem"), &["localhost"]);
    let server = setup.start_with(&["serve", "htdocs", "--listen", "127.0.0.1:0", "--host", "test"]);
    server.log_line("clients can read old.log, own.pem, sluice.toml in ");
}

/// Also if a directory on their path has a name that is not UTF-8.
#[test]
fn scripts_and_logs_below_a_directory_of_any_bytes_are_not_sent() {
    let setup = Setup::new()
        .site("follow_links = true")
        .script_route("/tools/*", "directory = \"tools\"")
        .route("path = \"/w/*\"\ndirectory = \"wiki\"\nscripts = { \".php\" = \"sh\" }")
        .route("path = \"/all/*\"\ndirectory = \"all\"\nfollow_links = true")
        .log("access = \"logs/access.log\"");
    let root = setup.path("htdocs");
    let bytes = |name: &[u8]| OsStr::from_bytes(name).to_owned();
    for (link, name) in [("tools", &b"caf\xe9"[..]), ("wiki", b"wik\xe9"), ("logs", b"log\xe9")] {
        fs::create_dir(root.join(bytes(name))).unwrap();
        symlink(root.join(bytes(name)), setup.path(link)).unwrap();
    }
    write_script(&root.join(bytes(b"caf\xe9/run")), "echo SECRET");
    for name in [
        &b"caf\xe9/run.txt"[..],
        b"wik\xe9/x.php",
        b"wik\xe9/x\xe8.php",
        b"log\xe9/access.log.1",
    ] {
        fs::write(root.join(bytes(name)), "SECRET").unwrap();
    }
    fs::write(root.join(bytes(b"wik\xe9/a.txt")), "text").unwrap();
    fs::create_dir(setup.path("all")).unwrap();
    symlink("../htdocs", setup.path("all/there")).unwrap();
    symlink(bytes(b"wik\xe9/x.php"), root.join("x.txt")).unwrap();
    let server = setup.start();
    for prefix in ["", "/all/there"] {
        assert_eq!(server.get(&format!("{prefix}/wik%e9/a.txt")).text(), "text");
        let paths = [
            "/caf%e9/run",
            "/caf%e9/run.txt",
            "/wik%e9/x.php",
            "/wik%e9/x%e8.php",
            "/log%e9/access.log",
            "/log%e9/access.log.1",
            "/x.txt",
        ];
        let paths = paths.map(|path| format!("{prefix}{path}"));
        assert_not_sent(&server, &paths.each_ref().map(String::as_str));
    }
}

#[test]
fn log_whose_link_leads_elsewhere_after_a_rotation_is_not_sent() {
    let setup = Setup::new().log("access = \"log\"");
    symlink("htdocs/early.txt", setup.path("log")).unwrap();
    let server = setup.start();
    assert_not_sent(&server, &["/early.txt"]);
    fs::remove_file(server.path("log")).unwrap();
    symlink("htdocs/late.txt", server.path("log")).unwrap();
    server.signal("USR1");
    server.log_line("the logs are opened again");
    server.get("/none");
    assert!(wait_until(|| !fs::read(server.path("htdocs/late.txt"))
        .unwrap()
        .is_empty()));
    assert_not_sent(&server, &["/late.txt"]);
}
