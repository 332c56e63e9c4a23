//! Directories with scripts among their files: which file of a path runs, what is sent, and that no source is. Submodules: what answers
//! where a path leads to nothing (`fallback`), and the warning about programs that would be sent as text (`exposed`).
//!
//! The scripts are texts for `sh`, which stands in for the interpreter of `.php`.

mod exposed;
mod fallback;

use std::fs;
use std::os::unix::fs::symlink;

use sluice_testing::{Response, Server, Setup, run, write_script, write_with_mode};

/// A script that prints its variables and its working directory.
const SHOW: &str = "printf 'Content-Type: text/plain\\n\\n'; env; echo \"CWD=$(pwd)\"";

/// The route of a directory `wiki` whose `.php` files are run by `sh`.
const WIKI: &str = "path = \"/wiki/*\"\ndirectory = \"wiki\"\nscripts = { \".php\" = \"sh\" }";

/// A setup with files in `wiki`, beside the root of the site.
fn wiki() -> Setup {
    let setup = Setup::new();
    for (name, text) in [
        ("doku.php", SHOW),
        ("index.php", SHOW),
        ("lib/exe/fetch.php", SHOW),
        ("lib/style.css", "p {}"),
        ("uploads/evil.jpg", "echo evil > \"$TEST_DIR/evil\""),
        ("uploads/shell.php", "echo evil > \"$TEST_DIR/evil\""),
        ("UPPER.PHP", SHOW),
        ("x.php.txt", "notes"),
        ("both/index.html", "page"),
        ("both/index.php", SHOW),
        ("empty/x.txt", "x"),
        (".hidden.php", SHOW),
        ("old.php~", "secret"),
        ("copy.php.gz", "secret"),
    ] {
        write_with_mode(&setup.path("wiki").join(name), text.as_bytes(), 0o644);
    }
    fs::create_dir(setup.path("wiki/folder.php")).unwrap();
    write_with_mode(&setup.path("wiki/folder.php/in.php"), SHOW.as_bytes(), 0o644);
    setup
}

#[track_caller]
fn assert_ran(response: &Response, name: &str, path_info: Option<&str>) {
    assert_eq!(
        (response.variable("SCRIPT_NAME"), response.variable("PATH_INFO")),
        (Some(name), path_info),
        "{}",
        response.text()
    );
}

#[track_caller]
fn assert_not_found(server: &Server, paths: &[&str]) {
    for path in paths {
        let response = server.get(path);
        assert_eq!(response.status, 404, "{path}: {}", response.text());
    }
}

#[test]
fn scripts_run_by_their_suffix_and_other_files_are_sent() {
    let server = wiki().route(WIKI).start();
    for (path, name, info) in [
        ("/wiki/doku.php", "/wiki/doku.php", None),
        ("/wiki/doku.php/", "/wiki/doku.php", Some("/")),
        ("/wiki/doku.php/a/.b/c.php", "/wiki/doku.php", Some("/a/.b/c.php")),
        ("/wiki/lib/exe/fetch.php?x=1", "/wiki/lib/exe/fetch.php", None),
        ("/wiki/UPPER.PHP", "/wiki/UPPER.PHP", None),
        ("/wiki/folder.php/in.php/x", "/wiki/folder.php/in.php", Some("/x")),
        ("/wiki/", "/wiki/index.php", None),
    ] {
        assert_ran(&server.get(path), name, info);
    }
    let directory = fs::canonicalize(server.path("wiki")).unwrap();
    let fetch = server.get("/wiki/lib/exe/fetch.php?x=1");
    let at = |name: &str| directory.join(name).display().to_string();
    assert_eq!(fetch.variable("SCRIPT_FILENAME"), Some(&*at("lib/exe/fetch.php")));
    assert_eq!(fetch.variable("CWD"), Some(&*at("lib/exe")));
    assert_eq!(fetch.variable("REQUEST_URI"), Some("/wiki/lib/exe/fetch.php?x=1"));
    assert_ran(&server.post("/wiki/", "body"), "/wiki/index.php", None);
    assert_eq!(
        server.get("/wiki/both/").text(),
        "page",
        "the index pages of the site come first"
    );
    let style = server.get("/wiki/lib/style.css");
    assert_eq!(
        (style.text(), style.field("content-type")),
        ("p {}", Some("text/css; charset=utf-8"))
    );
    assert_eq!(server.get("/wiki/x.php.txt").text(), "notes");
    assert_eq!(server.get("/wiki").field("location"), Some("/wiki/"));
    assert_eq!(server.get("/wiki/empty/").status, 403);
}

/// The classic mistake: the interpreter gets a path with a script's suffix that does not exist, and runs a file above it.
#[test]
fn nothing_that_is_not_a_script_reaches_the_interpreter() {
    let setup = wiki().route("path = \"/wiki/*\"\ndirectory = \"wiki\"\nscripts = { \".php\" = \"bin/interpreter\" }");
    write_script(
        &setup.path("bin/interpreter"),
        "echo \"$@\" >> \"${0%/*}/ran\"; printf 'Content-Type: text/plain\\n\\nran'",
    );
    let server = setup.start();
    assert_not_found(
        &server,
        &[
            "/wiki/uploads/evil.jpg/x.php",
            "/wiki/uploads/evil.jpg/.php",
            "/wiki/uploads/evil.jpg%2Fx.php",
            "/wiki/missing.php",
            "/wiki/missing.php/x",
            "/wiki/missing/x.php",
            "/wiki/.hidden.php",
            "/wiki/.hidden.php/doku.php",
            "/wiki/.git/x.php",
            "/wiki/x.php.txt/y",
            "/wiki/x.php.txt/doku.php",
            "/wiki/old.php~",
            "/wiki/copy.php.gz",
            "/wiki/../wiki/uploads/evil.jpg/x.php",
        ],
    );
    assert_eq!(server.get("/wiki/uploads/evil.jpg%00.php").status, 400);
    assert!(!server.path("bin/ran").exists(), "an interpreter ran");
    assert_eq!(server.get("/wiki/doku.php").text(), "ran");
    let ran = fs::read_to_string(server.path("bin/ran")).unwrap();
    assert!(ran.trim().ends_with("/wiki/doku.php"), "{ran}");
    assert_eq!(
        server.get("/wiki/uploads/evil.jpg").field("content-type"),
        Some("image/jpeg")
    );
}

#[test]
fn scripts_in_a_directory_of_uploads_are_switched_off_by_a_route_above() {
    let server = wiki()
        .route("path = \"/wiki/uploads/*\"\ndirectory = \"wiki/uploads\"")
        .route("path = \"/wiki/lib/*.php\"\nrefuse = {}")
        .route(WIKI)
        .start();
    assert_not_found(&server, &["/wiki/uploads/shell.php", "/wiki/uploads/shell.php/x"]);
    write_with_mode(&server.path("wiki/lib/Evil.pHP"), SHOW.as_bytes(), 0o644);
    for refused in [
        "/wiki/lib/exe/fetch.php",
        "/wiki/lib/exe/fetch.php/x",
        "/wiki/lib/Evil.pHP",
        "/wiki/lib/Evil.pHP/X",
    ] {
        assert_eq!(server.get(refused).status, 403, "{refused}");
    }
    assert!(server.get("/wiki/uploads/evil.jpg").text().contains("evil"));
    assert!(!server.path("evil").exists());
}

#[test]
fn sources_are_sent_by_no_route_and_no_link() {
    let setup = wiki()
        .route("path = \"/files/*\"\nfiles = { directory = \"wiki\", listing = true }")
        .route("path = \"/above/*\"\nfiles = { directory = \".\" }")
        .route("path = \"/lib/*\"\nfiles = { directory = \"wiki/lib\" }")
        .route("path = \"/rewritten/*\"\nrewrite = \"/files/$1\"")
        .route(&format!("when = {{ header = {{ X-Run = \"*\" }} }}\n{WIKI}"))
        .route("path = \"/wiki/*\"\nfiles = { directory = \"wiki\" }")
        .cgi("send_files = { \"/private/\" = \"wiki\" }")
        .python(
            "sends",
            "put(b'X-Accel-Redirect: /private/' + os.environb[b'QUERY_STRING'] + b'\\n\\n')",
        )
        .sites("[[site]]\nhosts = [\"other.test\"]\nroot = \"wiki\"");
    symlink("doku.php", setup.path("wiki/link.txt")).unwrap();
    symlink("lib", setup.path("wiki/linked")).unwrap();
    symlink("../wiki/doku.php", setup.path("wiki/lib/up.txt")).unwrap();
    let server = setup.start();
    assert_not_found(
        &server,
        &[
            "/files/doku.php",
            "/files/UPPER.PHP",
            "/files/link.txt",
            "/files/linked/exe/fetch.php",
            "/files/copy.php.gz",
            "/files/lib/up.txt",
            "/above/wiki/doku.php",
            "/above/wiki/link.txt",
            "/lib/exe/fetch.php",
            "/lib/up.txt",
            "/rewritten/doku.php",
            "/wiki/doku.php",
            "/wiki/link.txt",
            "/cgi-bin/sends?doku.php",
            "/cgi-bin/sends?link.txt",
        ],
    );
    let other = server.send("GET /doku.php HTTP/1.1\r\nHost: other.test\r\n\r\n");
    assert_eq!(other.status, 404, "{}", other.text());
    assert_eq!(server.get("/files/lib/style.css").text(), "p {}");
    let listing = server.get("/files/");
    assert!(listing.text().contains("x.php.txt"), "{}", listing.text());
    assert!(!listing.text().contains("doku.php"), "{}", listing.text());
}

#[test]
fn links_out_of_a_directory_lead_to_scripts_that_run_and_never_to_their_text() {
    let setup = wiki()
        .route("path = \"/files/*\"\nfiles = { directory = \"wiki\" }\nfollow_links = true")
        .route(&format!("{WIKI}\nfollow_links = true"));
    for (name, text) in [
        ("outside/plugins/a.php", SHOW),
        ("outside/plugins/a.css", "p {}"),
        ("outside/secret.php", "secret"),
    ] {
        write_with_mode(&setup.path(name), text.as_bytes(), 0o644);
    }
    symlink("../outside/plugins", setup.path("wiki/plugins")).unwrap();
    symlink("../outside/secret.php", setup.path("wiki/note.txt")).unwrap();
    let server = setup.start();
    assert_ran(&server.get("/wiki/plugins/a.php/x"), "/wiki/plugins/a.php", Some("/x"));
    assert_eq!(server.get("/wiki/plugins/a.css").text(), "p {}");
    assert_not_found(&server, &["/wiki/note.txt", "/files/note.txt", "/files/plugins/a.php"]);
    assert_eq!(server.get("/files/plugins/a.css").text(), "p {}");
}

#[test]
fn directory_that_is_made_after_the_start_runs_its_scripts() {
    let server = Setup::new()
        .route("path = \"/later/*\"\ndirectory = \"later\"\nscripts = { \".php\" = \"sh\" }")
        .route("path = \"/files/*\"\nfiles = { directory = \"later\" }")
        .start();
    assert_eq!(server.get("/later/x.php").status, 503);
    write_with_mode(&server.path("later/x.php"), SHOW.as_bytes(), 0o644);
    assert_ran(&server.get("/later/x.php"), "/later/x.php", None);
    assert_not_found(&server, &["/files/x.php"]);
    // Both routes hold the directory open from now on, which `Drop` would report.
    server.stop();
}

#[test]
fn programs_of_a_script_directory_are_not_sent_by_a_route_for_its_files() {
    let setup = Setup::new()
        .script_route("/run/*", "directory = \"tools\", interpreters = { \".pl\" = \"sh\" }")
        .route("path = \"/tools/*\"\nfiles = { directory = \"tools\", listing = true }");
    write_script(&setup.path("tools/program"), SHOW);
    write_with_mode(&setup.path("tools/x.pl"), SHOW.as_bytes(), 0o644);
    write_with_mode(&setup.path("tools/style.css"), b"p {}", 0o644);
    let server = setup.start();
    assert_ran(&server.get("/run/program/x"), "/run/program", Some("/x"));
    assert_eq!(server.get("/tools/style.css").text(), "p {}");
    assert_not_found(&server, &["/tools/program", "/tools/x.pl"]);
    let listing = server.get("/tools/");
    assert!(!listing.text().contains("program"), "{}", listing.text());
}

#[test]
fn listing_shows_scripts_as_scripts() {
    let server = wiki().site("index = [\"none\"]\nlisting = true").route(WIKI).start();
    let listing = server.get("/wiki/lib/exe/");
    assert!(listing.text().contains("fetch.php"), "{}", listing.text());
    assert!(server.get("/wiki/uploads/").text().contains("evil.jpg"));
}

#[test]
fn files_of_a_route_may_execute_themselves_and_lie_below_the_root() {
    let setup = Setup::new()
        .route("path = \"/app/*\"\nscripts = { \".cgi\" = \"\", \".pl\" = \"sh\" }\nscript = { variable_prefix = \"WWW_\" }")
        .file("app/page.html", "page")
        .file("app/plain.cgi", "text")
        .file("app/x.pl", SHOW);
    write_script(&setup.path("htdocs/app/x.cgi"), SHOW);
    let server = setup.start();
    let response = server.get("/app/x.cgi/info");
    assert_eq!(response.variable("WWW_SCRIPT_NAME"), Some("/app/x.cgi"));
    assert_eq!(response.variable("WWW_PATH_INFO"), Some("/info"));
    assert_eq!(server.get("/app/x.pl").variable("WWW_SCRIPT_NAME"), Some("/app/x.pl"));
    assert_eq!(server.get("/app/page.html").text(), "page");
    assert_eq!(server.get("/app/plain.cgi").status, 403, "it has no execute bit");
}

#[test]
fn process_of_a_script_among_files_is_kept_in_mode_cgiplus() {
    /// More sequential requests than the script may have processes: one process is then used twice.
    const MORE_THAN_PROCESSES: usize = 3;
    let counter = include_str!("../../../../examples/cgi-bin/counter.sh");
    let setup = Setup::new()
        .route("path = \"/app/*\"\ndirectory = \"app\"\nscripts = { \".sh\" = \"sh\" }\nscript = { mode = \"cgiplus\", max = 2, inherit = [\"SLUICE_TEST_MARK\"] }");
    write_with_mode(&setup.path("app/counter.sh"), counter.as_bytes(), 0o644);
    let server = setup.start();
    let replies: Vec<_> = (0..MORE_THAN_PROCESSES)
        .map(|_| server.get("/app/counter.sh/info").text().to_owned())
        .collect();
    assert!(replies.iter().any(|reply| reply.contains(", use 2: ")), "{replies:#?}");
}

#[test]
fn explanation_names_the_script_among_the_files() {
    let setup = wiki().route(WIKI);
    setup.write_configuration();
    for (path, expected) in [
        (
            "/wiki/doku.php/x",
            "wiki/doku.php (cgi), SCRIPT_NAME /wiki/doku.php, PATH_INFO /x",
        ),
        ("/wiki/", "wiki/index.php (cgi), SCRIPT_NAME /wiki/index.php"),
        ("/wiki/lib/style.css", "200, file "),
        ("/wiki/uploads/evil.jpg/x.php", "404, "),
    ] {
        let explained = run(setup.directory(), &["check", "-c", "sluice.toml", "--explain", path]);
        assert!(explained.output.contains(expected), "{path}: {}", explained.output);
    }
    let described = run(setup.directory(), &["check", "-c", "sluice.toml"]);
    let expected = "wiki (.php by sh; up to 64 processes per script)";
    assert!(
        described.output.contains("files and cgi") && described.output.contains(expected),
        "{}",
        described.output
    );
}
