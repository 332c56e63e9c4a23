//! Fallbacks: a file if it exists, else another path, a list of paths, or the next route.

use super::{SHOW, assert_not_found, assert_ran};
use sluice_testing::{Setup, run, write_script, write_with_mode};

/// A site for the host of the harness's requests, with routes for all paths, which would hide those of the setup.
fn site(routes: &[&str]) -> Setup {
    let routes: String = routes
        .iter()
        .map(|lines| format!("[[site.route]]\n{lines}\n"))
        .collect();
    Setup::new().sites(&format!("[[site]]\nhosts = [\"test\"]\n{routes}"))
}

/// An application with a front controller, in the directory of the whole site.
fn app(lines: &str) -> Setup {
    let setup = site(&[&format!(
        "path = \"/*\"\ndirectory = \"app\"\nscripts = {{ \".php\" = \"sh\" }}\n{lines}"
    )]);
    for (name, text) in [
        ("index.php", SHOW),
        ("health.txt", "well"),
        ("style.css", "p {}"),
        ("about.html", "about"),
        ("uploads/a.txt", "a"),
        ("docs/index.html", "docs"),
        ("x.html", "exact"),
    ] {
        write_with_mode(&setup.path("app").join(name), text.as_bytes(), 0o644);
    }
    setup
}

#[test]
fn front_controller_gets_what_leads_to_no_file() {
    let server = app("fallback = \"/index.php\"").start();
    assert_eq!(server.get("/style.css").text(), "p {}");
    assert_eq!(server.get("/docs/").text(), "docs");
    assert_eq!(server.get("/docs").field("location"), Some("/docs/"));
    for path in [
        "/2026/hello/",
        "/.well-known/x",
        "/.env",
        "/style.css/x",
        "/missing.php",
        "/uploads/",
        "/uploads",
    ] {
        let response = server.get(&format!("{path}?p=1"));
        assert_ran(&response, "/index.php", None);
        assert_eq!(
            response.variable("REQUEST_URI"),
            Some(&*format!("{path}?p=1")),
            "{path}"
        );
        assert_eq!(response.variable("REDIRECT_URL"), Some(path), "{path}");
        assert_eq!(response.variable("QUERY_STRING"), Some("p=1"), "{path}");
        assert_eq!(response.variable("PATH_TRANSLATED"), None, "{path}");
    }
    let home = server.get("/");
    assert_ran(&home, "/index.php", None);
    assert_eq!(home.variable("REDIRECT_URL"), None, "an index page is no fallback");
    assert_ran(&server.get("/index.php/a/b"), "/index.php", Some("/a/b"));
    let directory = std::fs::canonicalize(server.path("app")).unwrap();
    let file = directory.join("index.php").display().to_string();
    assert_eq!(server.get("/x").variable("SCRIPT_FILENAME"), Some(&*file));
}

#[test]
fn every_method_reaches_the_front_controller() {
    let server = app("fallback = \"/index.php\"").start();
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"] {
        for path in ["/api/1", "/uploads/", "/uploads"] {
            let response = server.send(format!(
                "{method} {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n"
            ));
            assert_eq!(
                response.variable("REQUEST_METHOD"),
                Some(method),
                "{path}: {}",
                response.text()
            );
        }
    }
    assert_eq!(server.post("/style.css", "").status, 405, "a file exists");
}

#[test]
fn list_of_candidates_is_tried_in_its_order() {
    let server =
        app("fallback = [\"$0.html\", \"/$1/index.html\", \"/uploads/$1.txt\", \"/index.php/$1?id=$1&${query}\"]")
            .start();
    assert_eq!(server.get("/about").text(), "about");
    assert_eq!(server.get("/a").text(), "a");
    let response = server.get("/a/b%20c?x=1");
    assert_ran(&response, "/index.php", Some("/a/b c"));
    assert_eq!(response.variable("QUERY_STRING"), Some("id=a/b%20c&x=1"));
    assert_eq!(response.variable("REQUEST_URI"), Some("/a/b%20c?x=1"));
    assert_eq!(
        response.variable("REDIRECT_URL"),
        None,
        "php-cgi drops PATH_INFO beside it"
    );
    assert_eq!(server.post("/about", "").status, 405, "the candidate is a file");
    assert_eq!(server.get("/x.html").text(), "exact");
}

#[test]
fn fallback_that_leads_to_nothing_is_not_found() {
    let server = app("fallback = [\"/none.html\", \"/none.php\"]").start();
    assert_not_found(&server, &["/x", "/none.php", "/none.html", "/uploads/none"]);
    let log = server.log();
    assert!(!log.contains("ERROR"), "{log}");
}

#[test]
fn page_application_gets_its_page_for_every_path() {
    let setup = Setup::new()
        .file("index.html", "app")
        .file("a.js", "js")
        .log("access = \"-\"\nformat = \"%s %R %f\"");
    let root =
        "[[site]]\nhosts = [\"test\"]\nroot = \"htdocs\"\n[[site.route]]\npath = \"/*\"\nfallback = \"/index.html\"";
    let server = setup.sites(root).start();
    for path in ["/", "/deep/link", "/x?y"] {
        assert_eq!(server.get(path).text(), "app", "{path}");
    }
    assert_eq!(server.get("/a.js").text(), "js");
    let lines = server.access_lines(4);
    let of_page = lines.iter().filter(|line| line.ends_with("htdocs/index.html"));
    assert_eq!(of_page.count(), 3, "{lines:#?}");
}

#[test]
fn next_route_answers_for_the_same_path() {
    let setup = site(&[
        "path = \"/*\"\nheaders = { add = { X-A = \"1\" } }",
        "path = \"/*\"\ndirectory = \"custom\"\nfallback = \"next\"",
        "path = \"/*\"\ndirectory = \"theme\"\nfallback = \"next\"",
        "path = \"/*\"\nscript = { file = \"bin/app\" }",
    ]);
    for (name, text) in [
        ("custom/style.css", "custom"),
        ("theme/style.css", "theme"),
        ("theme/logo.svg", "logo"),
        ("custom/health.txt", "well"),
    ] {
        write_with_mode(&setup.path(name), text.as_bytes(), 0o644);
    }
    write_script(&setup.path("bin/app"), SHOW);
    let server = setup.start();
    assert_eq!(server.get("/style.css").text(), "custom");
    assert_eq!(server.get("/logo.svg").text(), "logo");
    for path in ["/", "/hello/world", "/custom"] {
        let response = server.get(path);
        assert_ran(&response, "", Some(path));
        assert_eq!(response.field("x-a"), Some("1"), "{path}");
        assert_eq!(response.variable("REDIRECT_URL"), None);
    }
    assert_ran(&server.post("/login", "user"), "", Some("/login"));
}

#[test]
fn routes_of_the_asked_path_hold_for_its_fallback() {
    let setup = site(&[
        "path = \"/*\"\nheaders = { add = { X-All = \"1\" } }",
        "path = \"/api/*\"\nheaders = { set = { X-Api = \"1\" } }\nlimits = { body_size = 10 }\nlog = false",
        "path = \"/admin/*\"\nrefuse = {}",
        "path = \"/*\"\ndirectory = \"app\"\nscripts = { \".php\" = \"sh\" }\nfallback = \"/index.php\"",
    ])
    .limits("body_size = 5");
    write_with_mode(&setup.path("app/index.php"), SHOW.as_bytes(), 0o644);
    write_with_mode(&setup.path("app/health.txt"), b"well", 0o644);
    let server = setup.start();
    let response = server.post("/api/1", "1234567890");
    assert_ran(&response, "/index.php", None);
    assert_eq!(
        (response.field("x-api"), response.field("x-all")),
        (Some("1"), Some("1"))
    );
    assert_eq!(server.post("/other", "1234567890").status, 413);
    assert_eq!(server.get("/admin/x").status, 403);
    let lines = server.stop().access;
    assert!(lines.iter().all(|line| !line.contains("/api/")), "{lines:#?}");
}

/// The rewriting of DokuWiki, as its documentation has it for nginx.
#[test]
fn paths_become_parameters_of_a_front_controller() {
    let setup = Setup::new()
        .route("regex = '^/wiki/_media/(.+)$'\nrewrite = '/wiki/lib/exe/fetch.php?media=$1&${query}'")
        .route("regex = '^/wiki/_export/([^/]+)/(.+)$'\nrewrite = '/wiki/doku.php?do=export_$1&id=$2&${query}'")
        .route("path = \"/wiki/*\"\ndirectory = \"wiki\"\nscripts = { \".php\" = \"sh\" }\nfallback = \"/wiki/doku.php?id=$1&${query}\"");
    for name in ["doku.php", "lib/exe/fetch.php"] {
        write_with_mode(&setup.path("wiki").join(name), SHOW.as_bytes(), 0o644);
    }
    let server = setup.start();
    for (path, name, query) in [
        ("/wiki/start?do=edit", "/wiki/doku.php", "id=start&do=edit"),
        ("/wiki/ns/page", "/wiki/doku.php", "id=ns/page&"),
        ("/wiki/a&b", "/wiki/doku.php", "id=a%26b&"),
        ("/wiki/_media/x.png?w=1", "/wiki/lib/exe/fetch.php", "media=x.png&w=1"),
        ("/wiki/_export/pdf/start", "/wiki/doku.php", "do=export_pdf&id=start&"),
    ] {
        let response = server.get(path);
        assert_ran(&response, name, None);
        assert_eq!(response.variable("QUERY_STRING"), Some(query), "{path}");
        assert_eq!(response.variable("REQUEST_URI"), Some(path), "{path}");
    }
}

#[test]
fn explanation_shows_the_way_to_the_fallback() {
    let setup = app("fallback = [\"$0.html\", \"/index.php\"]");
    setup.write_configuration();
    let explain = |path: &str| {
        let ran = run(
            setup.directory(),
            &["check", "-c", "sluice.toml", "--explain", &format!("http://test{path}")],
        );
        ran.output.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = explain("/hello");
    for expected in [
        "path /hello route ",
        "then nothing is there: fallback of sluice.toml:",
        "to /hello.html path /hello.html route",
        "to /index.php path /index.php route",
        "app/index.php (cgi), SCRIPT_NAME /index.php",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!explain("/style.css").contains("fallback of"));
    assert!(
        explain("/about").contains("about.html, text/html"),
        "{}",
        explain("/about")
    );
}

#[test]
fn directories_over_each_other_list_only_what_is_listed() {
    let setup = site(&[
        "path = \"/*\"\ndirectory = \"custom\"\nfallback = \"next\"",
        "path = \"/*\"\ndirectory = \"theme\"\nfiles = { listing = true }",
    ]);
    for name in [
        "custom/both/secret.txt",
        "custom/both/same.txt",
        "custom/health.txt",
        "theme/both/same.txt",
        "theme/both/open.txt",
        "theme/own/a.txt",
    ] {
        write_with_mode(&setup.path(name), b"well", 0o644);
    }
    let server = setup.start();
    let both = server.get("/both/").text().to_owned();
    assert!(both.contains("open.txt") && !both.contains("secret.txt"), "{both}");
    assert!(!both.contains("same.txt"), "a request for it gets another file: {both}");
    assert!(server.get("/own/").text().contains("a.txt"));
    assert_not_found(&server, &["/none/"]);
}

#[test]
fn refusals_above_a_rewrite_hold_for_a_fallback_below_it() {
    let setup = site(&[
        "path = \"/internal/*\"\nrefuse = {}",
        "path = \"/old/*\"\nrewrite = \"/new/$1\"",
        "path = \"/new/*\"\ndirectory = \"new\"\nfallback = \"/$1\"",
        "path = \"/*\"\ndirectory = \"all\"",
    ]);
    for (name, text) in [
        ("new/a.txt", "a"),
        ("all/internal/s.txt", "SECRET"),
        ("all/b.txt", "b"),
        ("all/health.txt", "well"),
    ] {
        write_with_mode(&setup.path(name), text.as_bytes(), 0o644);
    }
    let server = setup.start();
    for path in ["/internal/s.txt", "/new/internal/s.txt", "/old/internal/s.txt"] {
        assert_eq!(server.get(path).status, 403, "{path}");
    }
    assert_eq!(server.get("/old/a.txt").text(), "a");
    assert_eq!(server.get("/old/b.txt").text(), "b");
}
