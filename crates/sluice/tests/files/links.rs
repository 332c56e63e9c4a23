//! Symbolic links that leave their directory, and `follow_links`.

use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use sluice_testing::{Server, Setup, run, write_script};

/// A script that names itself.
const SHOW: &str = r#"printf 'Content-Type: text/plain\n\n%s %s' "$SCRIPT_NAME" "$SCRIPT_FILENAME""#;

/// A setup with links out of the root and out of cgi-bin.
fn setup() -> Setup {
    let setup = Setup::new()
        .file("a.txt", "a file")
        .file("plain.txt", "plain")
        .file("d/own.txt", "own")
        .script_route("*.cgi", "mode = \"cgi\"");
    for directory in ["outside/deep", "outside/.hidden", "outside/cgi-bin", "outside/paged"] {
        std::fs::create_dir_all(setup.path(directory)).unwrap();
    }
    for (name, text) in [
        ("a.txt", "outside"),
        ("deep/b.txt", "deep"),
        (".hidden/x", "SECRET"),
        ("cgi-bin/x", "SECRET"),
        ("old.bak", "SECRET"),
        ("paged/index.html", "the page"),
        ("plain.txt.gz", "compressed"),
    ] {
        std::fs::write(setup.path("outside").join(name), text).unwrap();
    }
    write_script(&setup.path("outside/program"), SHOW);
    write_script(&setup.path("outside/run.cgi"), SHOW);
    let root = setup.path("htdocs");
    for (target, name) in [
        ("../outside/a.txt", "out.txt"),
        ("../../outside/deep", "d/deep"),
        ("../outside", "all"),
        ("../outside/paged", "paged"),
        ("../outside/plain.txt.gz", "plain.txt.gz"),
        ("../outside/run.cgi", "run.cgi"),
        ("../outside/nothing", "dangling"),
        ("../../outside/program", "cgi-bin/program"),
    ] {
        symlink(target, root.join(name)).unwrap();
    }
    symlink(setup.path("outside/a.txt"), root.join("absolute.txt")).unwrap();
    symlink(root.join("a.txt"), root.join("stays.txt")).unwrap();
    setup
}

/// Paths that lead outside, and the text that is found there.
const OUTSIDE: [(&str, &str); 7] = [
    ("/out.txt", "outside"),
    ("/absolute.txt", "outside"),
    ("/d/deep/b.txt", "deep"),
    ("/all/deep/b.txt", "deep"),
    ("/paged/", "the page"),
    ("/run.cgi/x", "/run.cgi"),
    ("/cgi-bin/program/x", "/cgi-bin/program"),
];

fn compressed(server: &Server) -> bool {
    let response =
        server.send("GET /plain.txt HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
    assert_eq!(response.status, 200);
    response.field("content-encoding") == Some("gzip")
}

fn assert_followed(server: &Server) {
    for (path, text) in OUTSIDE {
        let response = server.get(path);
        assert_eq!(response.status, 200, "{path}");
        assert!(response.text().starts_with(text), "{path}: {}", response.text());
    }
    assert!(compressed(server));
    for path in ["/all/.hidden/x", "/all/cgi-bin/x", "/all/old.bak", "/dangling"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    assert!(server.get("/").text().contains("out.txt"));
}

fn assert_refused(server: &Server) {
    for (path, _) in OUTSIDE {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    assert!(!compressed(server));
    assert!(!server.get("/").text().contains("out.txt"));
}

#[test]
fn a_refused_link_is_named_where_a_fallback_answers_instead() {
    let server = setup()
        .route("path = \"/f/*\"\ndirectory = \"htdocs\"\nfallback = \"/stays.txt\"")
        .start();
    assert_eq!(server.get("/f/out.txt").text(), "a file");
    // A client could fill the log.
    assert!(!server.log().contains("out.txt"), "{}", server.log());
    let explained = run(
        &server.path(""),
        &["check", "-c", "sluice.toml", "--explain", "/f/out.txt"],
    );
    let named = explained.output.find("link   out.txt: a symbolic link leads out of");
    assert!(
        named.is_some() && named < explained.output.find("nothing is there"),
        "{}",
        explained.output
    );
}

#[test]
fn links_that_leave_a_directory_are_refused_and_the_log_says_so() {
    let setup = setup().site("listing = true");
    let real = setup.path("outside").canonicalize().unwrap();
    let server = setup.start();
    assert_refused(&server);
    assert_eq!(server.get("/stays.txt").text(), "a file");
    let line = server.log_line("GET /out.txt: out.txt: a symbolic link leads out of");
    let target = real.join("a.txt").display().to_string();
    assert!(line.contains(&target) && line.contains("follow_links"), "{line}");
    server.log_line("GET /cgi-bin/program/x: program: a symbolic link leads out of");
    for path in ["/out.txt", "/cgi-bin/program"] {
        let explained = run(&server.path(""), &["check", "-c", "sluice.toml", "--explain", path]);
        assert!(
            explained.output.contains("a symbolic link leads out of"),
            "{}",
            explained.output
        );
    }
}

#[test]
fn links_that_leave_a_directory_are_followed_where_the_site_says_so() {
    assert_followed(&setup().site("listing = true\nfollow_links = true").start());
    // All of them belong to the user of this test, except those that the system brings.
    assert_followed(&setup().site("listing = true\nfollow_links = \"same-owner\"").start());
}

#[test]
fn a_route_says_for_itself_which_links_are_followed() {
    let setup = setup().route("path = \"/d/*\"\nfiles = { directory = \"htdocs/d\" }\nfollow_links = true");
    let server = setup.start();
    assert_eq!(server.get("/d/deep/b.txt").text(), "deep");
    assert_eq!(server.get("/out.txt").status, 404);
    let setup = self::setup().site("follow_links = true");
    let setup = setup.route("path = \"/d/*\"\nfiles = { directory = \"htdocs/d\" }\nfollow_links = false");
    let server = setup.start();
    assert_eq!(server.get("/d/deep/b.txt").status, 404);
    assert_eq!(server.get("/out.txt").text(), "outside");
}

#[test]
fn a_link_of_another_owner_than_its_target_is_refused() {
    let setup = setup().site("follow_links = \"same-owner\"");
    let link = setup.path("htdocs/out.txt");
    // Only root can make such a link; for others the target is one of root.
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if is_root {
        lchown(&link, Some(65534), None).unwrap();
        lchown(setup.path("htdocs/cgi-bin/program"), Some(65534), None).unwrap();
    } else {
        for (link, target) in [
            ("htdocs/out.txt", "/etc/hostname"),
            ("htdocs/cgi-bin/program", "/bin/true"),
        ] {
            std::fs::remove_file(setup.path(link)).unwrap();
            symlink(target, setup.path(link)).unwrap();
        }
    }
    let server = setup.start();
    for path in ["/out.txt", "/cgi-bin/program"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    server.log_line("has another owner than that");
    assert_eq!(server.get("/absolute.txt").text(), "outside");
}

#[test]
fn no_link_leads_to_the_source_of_a_script() {
    let setup = Setup::new()
        .site("follow_links = true")
        .script_route("*.cgi", "mode = \"cgi\"")
        .script_route("/tools/*", "directory = \"tools\"")
        .sites("[[site]]\nhosts = [\"other.test\"]\nroot = \"other\"\nfollow_links = true");
    write_script(&setup.path("tools/run"), "echo SECRET");
    write_script(&setup.path("htdocs/x.cgi"), "echo SECRET");
    std::fs::create_dir(setup.path("other")).unwrap();
    for (target, name) in [
        ("../tools/run", "a.txt"),
        ("../tools", "tools"),
        ("../htdocs/x.cgi", "b.txt"),
        ("../htdocs", "all"),
        ("../sluice.toml", "c.txt"),
    ] {
        symlink(target, setup.path("other").join(name)).unwrap();
    }
    let server = setup.start();
    let get = |path: &str| {
        server.send(format!(
            "GET {path} HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n"
        ))
    };
    for path in ["/a.txt", "/tools/run", "/b.txt", "/all/x.cgi", "/c.txt"] {
        assert_eq!(get(path).status, 404, "{path}");
    }
    assert_eq!(get("/all/health.txt").status, 200);
}

#[test]
fn a_404_names_the_route_that_causes_it() {
    let setup = Setup::new()
        .file("shown.txt", "x")
        .route("path = \"/old/*\"\nrewrite = \"/new/*\"")
        .route("path = \"/pictures/*\"\nfiles = { directory = \"htdocs\" }")
        .route("path = \"/gone/*\"\nrefuse = { status = 404 }");
    let server = setup.start();
    for path in ["/cgi-bin/none", "/pictures/none.png", "/old/x", "/gone/x", "/none"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    let line = server.log_line("GET /cgi-bin/none: ");
    assert!(line.contains("(route /cgi-bin/* at sluice.toml:"), "{line}");
    let line = server.log_line("GET /pictures/none.png: ");
    assert!(
        line.contains("INFO") && line.contains("(route /pictures/* at sluice.toml:"),
        "{line}"
    );
    let line = server.log_line("GET /old/x: ");
    assert!(
        line.contains("rewritten to \"/new/x\" by the route at sluice.toml:"),
        "{line}"
    );
    server.log_line("GET /gone/x: refused by the route at sluice.toml:");
}

/// An editor and every deployment replace a file by a new one of the same name (rename(2)).
#[test]
fn no_link_leads_to_a_source_that_is_replaced_meanwhile() {
    let setup = Setup::new()
        .route("path = \"/app/*\"\ndirectory = \"app\"\nscripts = { \".php\" = \"true\" }\ncache = \"off\"");
    let app = setup.path("app");
    std::fs::create_dir(&app).unwrap();
    let replace = move || {
        std::fs::write(app.join(".new"), "SECRET").unwrap();
        std::fs::rename(app.join(".new"), app.join("x.php")).unwrap();
    };
    replace();
    symlink("x.php", setup.path("app/note.txt")).unwrap();
    let server = setup.start();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                replace();
            }
        });
        let mut client = server.connect();
        let statuses: Vec<_> = (0..1000)
            .map(|_| client.get("/app/note.txt").response().status)
            .collect();
        is_done.store(true, Ordering::Relaxed);
        assert!(statuses.iter().all(|status| *status == 404), "{statuses:?}");
    });
}
