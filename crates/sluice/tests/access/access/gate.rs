//! Which answers the access rules of routes protect: all of them, by every way that leads there.

use std::fs;

use super::{ask_as, basic, request, setup, status, users};
use sluice_testing::{Setup, run, write_script, write_with_mode};

/// A route that protects everything below `/secret`, for ann and bob.
const SECRET: &str = "path = \"/secret/*\"\n\
    access = { realm = \"A \\\"quoted\\\" realm\", users = \"users\", groups = \"groups\", allow = [\"group:staff\"] }";

#[test]
fn files_need_a_user_with_the_right_password_and_group() {
    let server = setup().route(SECRET).start();
    let first = server.get("/secret/a.txt");
    assert_eq!(first.status, 401);
    assert_eq!(
        first.field("www-authenticate"),
        Some("Basic realm=\"A \\\"quoted\\\" realm\", charset=\"UTF-8\"")
    );
    assert!(!first.text().contains("SECRET"));
    for (fields, expected) in [
        (basic("ann", "open sesame"), 200),
        (basic("bob", "open sesame"), 200),
        (basic("eve", "open sesame"), 403),
        (basic("ann", "open sesam"), 401),
        (basic("zoe", "open sesame"), 401),
        (basic("", ""), 401),
        ("Authorization: Bearer abc\r\n".to_owned(), 401),
        ("Authorization: Basic !!!\r\n".to_owned(), 401),
    ] {
        for method in ["GET", "HEAD"] {
            assert_eq!(
                status(&server, method, "/secret/a.txt", &fields),
                expected,
                "{method} {fields}"
            );
        }
    }
    let response = ask_as(&server, "ann", "GET", "/secret/a.txt");
    assert_eq!((response.status, response.text()), (200, "SECRET"));
    assert_eq!(server.get("/a.txt").text(), "public");
    let wrong = |name: &str| {
        let mut response = server.send(request("GET", "/secret/a.txt", &basic(name, "wrong")));
        response.head.fields.retain(|(name, _)| name != "date");
        let text = response
            .text()
            .lines()
            .filter(|line| !line.starts_with("Request "))
            .collect::<String>();
        (response.status, response.head.fields, text)
    };
    assert_eq!(wrong("ann"), wrong("zoe"), "the response says whether a user exists");
}

/// Every way that leads to a protected answer.
fn ways() -> Setup {
    let setup = setup()
        .site("index = [\"index.html\", \"index.cgi\"]\nlisting = true")
        .file("secret/sub/index.html", "SECRET index")
        .file("secret/listed/b.txt", "SECRET entry")
        .file("open/index.html", "open")
        .script("hello", "printf 'Content-Type: text/plain\\n\\nSECRET'")
        .script("redirect", "printf 'Location: /secret/a.txt\\n\\n'")
        .script("send", "printf 'X-Accel-Redirect: /protected/x.txt\\n\\n'")
        .cgi("send_files = { \"/protected/\" = \"private\" }")
        .route("path = \"/cgi-bin/hello\"\naccess = { users = \"users\" }")
        .route("path = \"/cgi-bin/send\"\naccess = { users = \"users\" }")
        .route("path = \"/with-script/index.cgi\"\naccess = { users = \"users\" }")
        .route("path = \"/open/index.html\"\naccess = { users = \"users\" }")
        .route(SECRET)
        .route("path = \"/alias/*\"\nrewrite = \"/secret/*\"")
        .route("path = \"/app/*\"\ndirectory = \"htdocs/app\"\nfallback = [\"/secret/a.txt\"]")
        .route("path = \"/moved\"\naccess = { users = \"users\" }")
        .route("path = \"/moved\"\nredirect = { to = \"/SECRET\" }")
        .route("path = \"/gone\"\naccess = { users = \"users\" }\nrefuse = { status = 410, text = \"SECRET\" }")
        .script_route("*.cgi", "mode = \"cgi\"");
    write_script(
        &setup.path("htdocs/with-script/index.cgi"),
        "printf 'Content-Type: text/plain\\n\\nSECRET'",
    );
    fs::create_dir(setup.path("htdocs/app")).unwrap();
    write_with_mode(&setup.path("private/x.txt"), b"SECRET file", 0o644);
    setup
}

#[test]
fn every_kind_of_answer_is_protected() {
    let server = ways().start();
    for (path, as_ann) in [
        ("/secret/a.txt", 200),
        ("/secret", 301),
        ("/secret/", 200),
        ("/secret/sub", 301),
        ("/secret/sub/", 200),
        ("/secret/listed/", 200),
        ("/secret/missing", 404),
        ("/secret/sub/missing/more", 404),
        ("/alias/a.txt", 200),
        ("/alias/listed/", 200),
        ("/app/missing", 200),
        ("/open/", 200),
        ("/open/index.html", 200),
        ("/with-script/", 200),
        ("/with-script/index.cgi", 200),
        ("/with-script/index.cgi/path/info", 200),
        ("/cgi-bin/hello", 200),
        ("/cgi-bin/hello/path/info", 200),
        ("/cgi-bin/redirect", 200),
        ("/cgi-bin/send", 200),
        ("/moved", 302),
        ("/gone", 410),
        ("/%73ecret/a.txt", 200),
        ("//secret//a.txt", 200),
        ("/x/../secret/a.txt", 200),
    ] {
        let response = server.get(path);
        assert_eq!(response.status, 401, "{path}");
        let all = format!("{:?} {}", response.head.fields, response.text());
        assert!(!all.contains("SECRET"), "{path}: {all}");
        let response = ask_as(&server, "ann", "GET", path);
        assert_eq!(response.status, as_ann, "{path}");
        let cache = response.field("cache-control").unwrap_or_default();
        assert!(
            cache.contains("private") || cache.contains("no-store"),
            "{path}: {cache}"
        );
        assert!(response.head.values("vary").contains(&"authorization"), "{path}");
    }
    for method in ["OPTIONS", "POST", "PUT", "DELETE", "PROPFIND"] {
        assert_eq!(status(&server, method, "/secret/a.txt", ""), 401, "{method}");
    }
    assert_eq!(status(&server, "OPTIONS", "*", ""), 200);
}

#[test]
fn nothing_runs_for_a_client_that_is_refused() {
    let setup = setup().route("path = \"/cgi-bin/touch\"\naccess = { users = \"users\" }");
    let ran = setup.path("ran");
    let server = setup
        .script("touch", "touch \"$TEST_DIR/ran\"; printf 'Status: 204\\n\\n'")
        .start();
    for fields in [String::new(), basic("ann", "wrong"), basic("zoe", "open sesame")] {
        assert_eq!(status(&server, "POST", "/cgi-bin/touch", &fields), 401);
        assert!(!ran.exists());
    }
    assert_eq!(ask_as(&server, "ann", "POST", "/cgi-bin/touch").status, 204);
    assert!(ran.exists());
}

#[test]
fn reading_and_changing_have_rules_of_their_own() {
    let access =
        "access = { users = \"users\", groups = \"groups\", allow = [\"all\"], allow_write = [\"group:editors\"] }";
    let server = setup().route(&format!("path = \"/cgi-bin/who\"\n{access}")).start();
    assert_eq!(server.get("/cgi-bin/who").status, 200);
    assert_eq!(status(&server, "HEAD", "/cgi-bin/who", ""), 200);
    for method in ["POST", "PUT", "DELETE", "PATCH", "get"] {
        assert_eq!(status(&server, method, "/cgi-bin/who", ""), 401, "{method}");
        assert_eq!(ask_as(&server, "bob", method, "/cgi-bin/who").status, 403, "{method}");
    }
    assert_eq!(ask_as(&server, "ann", "POST", "/cgi-bin/who").status, 200);
}

#[test]
fn any_or_all_of_the_entries_must_hold() {
    let route = |path: &str, keys: &str| format!("path = \"{path}\"\naccess = {{ users = \"users\", {keys} }}");
    let server = setup()
        .route(&route("/secret/any", "allow = [\"net:127.0.0.0/8\", \"any-user\"]"))
        .route(&route("/secret/other", "allow = [\"net:192.0.2.0/24\", \"any-user\"]"))
        .route(&route(
            "/secret/both",
            "require = \"all\", allow = [\"net:127.0.0.1 ::1\", \"user:ann bob\"]",
        ))
        .route(&route(
            "/secret/never",
            "require = \"all\", allow = [\"net:192.0.2.0/24\", \"any-user\"]",
        ))
        .route(&route("/secret/but", "allow = [\"any-user\", \"!user:eve\"]"))
        .start();
    for (path, nobody, ann, eve) in [
        ("/secret/any", 404, 404, 404),
        ("/secret/other", 401, 404, 404),
        ("/secret/both", 401, 404, 403),
        ("/secret/never", 403, 403, 403),
        ("/secret/but", 401, 404, 403),
    ] {
        assert_eq!(server.get(path).status, nobody, "{path}");
        assert_eq!(ask_as(&server, "ann", "GET", path).status, ann, "{path}");
        assert_eq!(ask_as(&server, "eve", "GET", path).status, eve, "{path}");
    }
}

#[test]
fn a_later_route_makes_an_exception_and_a_rewrite_does_not_lead_around_a_rule() {
    let server = setup()
        .file("secret/open/a.txt", "open")
        .route(SECRET)
        .route("path = \"/secret/open/*\"\naccess = false")
        .route("path = \"/free/*\"\naccess = false\nrewrite = \"/secret/*\"")
        .start();
    assert_eq!(server.get("/secret/open/a.txt").text(), "open");
    assert_eq!(server.get("/secret/a.txt").status, 401);
    assert_eq!(server.get("/free/a.txt").status, 401);
    assert_eq!(server.get("/free/open/a.txt").text(), "open");
}

#[test]
fn listings_show_only_what_the_user_may_have() {
    let server = setup()
        .site("listing = true")
        .file("docs/a.txt", "a")
        .file("docs/b.txt", "b")
        .file("docs/c/d.txt", "d")
        .route("path = \"/docs/*\"\naccess = { users = \"users\", groups = \"groups\", allow = [\"all\"] , allow_write = [\"any-user\"] }")
        .route("path = \"/docs/b.txt\"\naccess = { users = \"users\", groups = \"groups\", allow = [\"user:ann\"] }")
        .start();
    let listing = server.get("/docs/");
    assert!(listing.status == 200 && listing.text().contains("a.txt") && !listing.text().contains("b.txt"));
    assert_eq!(server.get("/docs/b.txt").status, 401);
}

#[test]
fn stored_responses_and_conditions_reveal_nothing() {
    let server = setup()
        .route(SECRET)
        .route("path = \"/secret/*\"\nexpires = \"1h\"\nheaders = { add = { Vary = \"Accept-Language\" } }")
        .start();
    let response = ask_as(&server, "ann", "GET", "/secret/a.txt");
    assert_eq!(response.field("cache-control"), Some("private, max-age=3600"));
    let tag = response.field("etag").unwrap();
    // The file is in the cache now.
    let matching = format!("If-None-Match: {tag}\r\n");
    assert_eq!(status(&server, "GET", "/secret/a.txt", &matching), 401);
    assert_eq!(status(&server, "GET", "/secret/a.txt", "Range: bytes=0-1\r\n"), 401);
    let fields = matching + &basic("ann", "open sesame");
    assert_eq!(status(&server, "GET", "/secret/a.txt", &fields), 304);
}

#[test]
fn users_files_are_never_sent() {
    let setup = setup().route("path = \"/secret/*\"\naccess = { users = \"htdocs/users\", groups = \"htdocs/groups\", allow = [\"group:staff\"] }");
    let text = fs::read(setup.path("users")).unwrap();
    let server = setup.file("users", text).file("groups", "staff: ann").start();
    assert_eq!(ask_as(&server, "ann", "GET", "/secret/a.txt").status, 200);
    // The server would send a compressed file instead of the other one, and administrators make copies.
    for name in ["users.gz", "users.zst", "groups.br", "groups.GZ"] {
        fs::write(server.path("htdocs").join(name), "ann").unwrap();
    }
    for path in [
        "/users",
        "/groups",
        "/users.gz",
        "/users.zst",
        "/groups.br",
        "/groups.GZ",
    ] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
}

#[test]
fn explain_says_who_has_access() {
    let setup = setup().route(SECRET);
    setup.write_configuration();
    let explain = |arguments: &[&str]| {
        let all = [&["check", "-c", "sluice.toml", "--explain", "/secret/a.txt"], arguments].concat();
        let ended = run(setup.directory(), &all);
        (ended.output, ended.status.success())
    };
    let (text, is_served) = explain(&[]);
    assert!(
        text.contains("access for group:staff") && text.contains("401") && !is_served,
        "{text}"
    );
    let (text, is_served) = explain(&["--user", "ann"]);
    assert!(is_served && text.contains("a.txt"), "{text}");
    let (text, is_served) = explain(&["--user", "eve"]);
    assert!(
        !is_served && text.contains("403") && text.contains("user \"eve\" has no access"),
        "{text}"
    );
    let (text, is_served) = explain(&["--user", "zoe"]);
    assert!(
        !is_served && text.contains("401, wrong password or unknown user"),
        "{text}"
    );
    assert!(text.contains("note     user \"zoe\" is not in /"), "{text}");
    for user in [&["--user", "ann"][..], &[]] {
        let (text, is_served) = explain(&[user, &["--client", "192.0.2.1"]].concat());
        assert!(
            !is_served && text.contains("403") && text.contains("clear text"),
            "{text}"
        );
    }
}

#[test]
fn explain_says_what_it_does_not_know() {
    let setup = setup()
        .route("path = \"/agent/*\"\naccess = { agent = \"/cgiplus-bin/agent\", allow = [\"group:staff\"] }\nfiles = { directory = \"htdocs/secret\" }")
        .route("path = \"/certificate/*\"\naccess = { allow = [\"certificate:CN=ann,O=Example\"] }\nfiles = { directory = \"htdocs/secret\" }")
        .script("agent", "");
    setup.write_configuration();
    let explain = |path: &str, arguments: &[&str]| {
        let all = [&["check", "-c", "sluice.toml", "--explain", path], arguments].concat();
        let ran = run(setup.directory(), &all);
        assert_eq!(ran.errors, "");
        ran.output
    };
    let text = explain("/agent/a.txt", &["--user", "carl"]);
    for expected in [
        "403",
        "note     the agent /cgiplus-bin/agent was not asked: the password of \"carl\" is taken as right",
        "note     the groups that the agent /cgiplus-bin/agent gives are not known here: a member of staff gets another answer",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let text = explain("/certificate/a.txt", &["--client-certificate"]);
    assert!(
        text.contains("403") && text.contains("note     the rules are about certificates: --certificate SUBJECT"),
        "{text}"
    );
    let text = explain("/certificate/a.txt", &["--certificate", "CN=ann,O=Example"]);
    assert!(
        text.contains("note     no certificate is asked for at this address"),
        "{text}"
    );
}

#[test]
fn wrong_files_are_reported_by_check() {
    let setup = setup().route(SECRET);
    setup.write_configuration();
    let errors = |users_text: Option<&str>, groups_text: &str| {
        let _ = fs::remove_file(setup.path("users"));
        if let Some(text) = users_text {
            write_with_mode(&setup.path("users"), text.as_bytes(), 0o600);
        }
        write_with_mode(&setup.path("groups"), groups_text.as_bytes(), 0o600);
        let checked = run(setup.directory(), &["check"]);
        assert!(!checked.status.success(), "{}", checked.errors);
        checked.errors
    };
    for (users_text, groups_text, expected) in [
        (None, "", "users: there is no such file; \"sluice passwd"),
        (
            Some("ann:secret\n"),
            "",
            "users:1: user \"ann\" has a password in clear text",
        ),
        (
            Some("ann:rqXexS6ZhobKA\n"),
            "",
            "users:1: user \"ann\" has a hash of DES crypt",
        ),
        (Some("ann\n"), "", "users:1: a line is written NAME:HASH"),
        (Some(""), "staff\n", "groups:1: a line is written GROUP:"),
    ] {
        let text = errors(users_text, groups_text);
        assert!(text.contains("sluice.toml:") && text.contains(expected), "{text}");
    }
    users(&setup, &["ann"]);
    write_with_mode(&setup.path("groups"), b"staff: ann\n", 0o600);
    assert!(run(setup.directory(), &["check"]).status.success());
}

#[test]
fn requests_that_are_refused_put_nothing_into_the_cache() {
    let text = "words that can be compressed ".repeat(4000);
    let server = setup()
        .file("secret/long.txt", &text)
        .age("secret/long.txt")
        .route("path = \"/secret/*\"\naccess = { users = \"users\" }")
        .start();
    let encoded = "Accept-Encoding: br, gzip\r\n";
    let purged = |turn| {
        server.signal("USR2");
        server.log_lines(turn, "cache purged").pop().unwrap()
    };
    for _ in 0..3 {
        assert_eq!(status(&server, "GET", "/secret/long.txt", encoded), 401);
        assert_eq!(status(&server, "GET", "/secret/long.txt", ""), 401);
    }
    let line = purged(1);
    assert!(line.contains("cache purged: 0 files of 0 bytes;"), "{line}");
    let login = basic("ann", "open sesame");
    let response = server.send(request("GET", "/secret/long.txt", &format!("{encoded}{login}")));
    assert_eq!((response.status, response.field("content-encoding")), (200, Some("br")));
    // The file and its variant.
    let line = purged(2);
    assert!(line.contains("cache purged: 2 files of"), "{line}");
}
