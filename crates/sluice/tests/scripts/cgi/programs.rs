//! Which program a path runs, and how: the file itself, its `#!` line, an interpreter by suffix, a pattern, a single
//! file.

use std::os::unix::fs::symlink;

use sluice_testing::{Setup, write_script};

/// A script that prints its variables.
const SHOW: &str = r"printf 'Content-Type: text/plain\n\n'; exec env";

#[test]
fn shebang_line_gives_interpreter_and_argument() {
    let server = Setup::new()
        .script("sed", "#!/bin/sed -nf\n1i Content-Type: text/plain\\n\\nby sed\n")
        .script(
            "env",
            "#!/usr/bin/env -S sh -e\nprintf 'Content-Type: text/plain\\n\\n%s' \"$0\"\n",
        )
        .start();
    let env_response = server.get("/cgi-bin/env");
    assert!(env_response.text().ends_with("/cgi-bin/env"), "{}", env_response.text());
    // sed reads the request body. With an empty body it prints nothing, which is not a valid reply.
    assert_eq!(server.get("/cgi-bin/sed").status, 502);
    let sed_response = server.post("/cgi-bin/sed", "line\n");
    assert_eq!(sed_response.text(), "by sed\n");
}

#[test]
fn binary_is_executed_directly() {
    let setup = Setup::new();
    std::fs::copy("/usr/bin/env", setup.path("htdocs/cgi-bin/program")).unwrap();
    let server = setup.start();
    // Its output begins with `SERVER_SOFTWARE=…`, which is not a header field.
    assert_eq!(server.get("/cgi-bin/program").status, 502);
    server.log_line("cgi-bin/program");
}

#[test]
fn suffix_selects_the_interpreter() {
    let server = Setup::new()
        .file_with_mode(
            "tools/x.txt",
            "printf 'Content-Type: text/plain\\n\\n%s:%s' \"$0\" \"$1\"",
            0o644,
        )
        .file_with_mode("tools/y.other", "not run", 0o644)
        .script_route(
            "/tools/*",
            "directory = \"htdocs/tools\", arguments = true, interpreters = { \".txt\" = \"sh\" }",
        )
        .start();
    let file = server.path("htdocs/tools/x.txt").display().to_string();
    assert_eq!(server.get("/tools/x.txt?word").text(), format!("{file}:word"));
    assert_eq!(server.get("/tools/x.txt/info").text(), format!("{file}:"));
    assert_eq!(server.get("/tools/y.other").status, 403);
}

#[test]
fn pattern_runs_files_below_the_root_with_path_info() {
    let setup = Setup::new().file("a/page.html", "page").file("a/x.cgi.txt", "text");
    write_script(&setup.path("htdocs/a/x.cgi"), SHOW);
    write_script(&setup.path("htdocs/a/.hidden.cgi"), SHOW);
    std::fs::create_dir(setup.path("htdocs/folder.cgi")).unwrap();
    let server = setup.script_route("*.cgi", "mode = \"cgi\"").start();
    let response = server.get("/a/x.cgi/more/info?q");
    assert_eq!(response.variable("SCRIPT_NAME"), Some("/a/x.cgi"));
    assert_eq!(response.variable("PATH_INFO"), Some("/more/info"));
    assert_eq!(server.get("/a/x.cgi").variable("PATH_INFO"), None);
    assert_eq!(server.get("/a/page.html").text(), "page");
    assert_eq!(server.get("/a/x.cgi.txt").text(), "text");
    for none in [
        "/a/y.cgi",
        "/y.cgi",
        "/a/.hidden.cgi",
        "/folder.cgi",
        "/folder.cgi/x",
        "/a/x.cgi/../y.cgi",
    ] {
        assert_eq!(server.get(none).status, 404, "{none}");
    }
}

#[test]
fn segments_of_path_info_may_begin_with_a_dot() {
    let setup = Setup::new().script("cgit.cgi", SHOW).script(".hidden", SHOW);
    write_script(&setup.path("htdocs/cgi-bin/.git/hook"), SHOW);
    let server = setup.start();
    for path in ["/p.git/plain/.gitignore", "/.git/.x", "/.", "/..a"] {
        let expected = if path == "/." { "/" } else { path };
        let response = server.get(&format!("/cgi-bin/cgit.cgi{path}"));
        assert_eq!(response.variable("PATH_INFO"), Some(expected), "{path}");
    }
    for hidden in [
        "/cgi-bin/.hidden",
        "/cgi-bin/.hidden/x",
        "/cgi-bin/.git/hook",
        "/cgi-bin/.git/hook/x",
    ] {
        assert_eq!(server.get(hidden).status, 404, "{hidden}");
    }
}

#[test]
fn pattern_script_source_is_not_served_in_any_spelling() {
    let setup = Setup::new();
    write_script(
        &setup.path("htdocs/x.cgi"),
        "# the source\nprintf 'Content-Type: text/plain\\n\\nran'",
    );
    let server = setup.script_route("*.cgi", "mode = \"cgi\"").start();
    for path in [
        "/x.cgi",
        "//x.cgi",
        "/x%2ecgi",
        "/./x.cgi",
        "/a/../x.cgi",
        "/x.cgi/",
        "/x.cgi/.",
    ] {
        assert_eq!(server.get(path).text(), "ran", "{path}");
    }
}

#[test]
fn single_program_answers_everything_below_its_path() {
    let setup = Setup::new();
    write_script(&setup.path("bin/app"), SHOW);
    let server = setup.script_route("/app/*", "file = \"bin/app\"").start();
    for (path, info) in [
        ("/app", None),
        ("/app/", Some("/")),
        ("/app/a/b", Some("/a/b")),
        ("/app/../app/x", Some("/x")),
    ] {
        let response = server.get(path);
        assert_eq!(
            (response.variable("SCRIPT_NAME"), response.variable("PATH_INFO")),
            (Some("/app"), info),
            "{path}"
        );
    }
    assert_eq!(server.get("/apple").status, 404);
}

#[test]
fn non_executable_file_is_403_and_the_log_says_why() {
    let server = Setup::new()
        .file_with_mode("cgi-bin/norun", "#!/bin/sh\n", 0o644)
        .start();
    let response = server.get("/cgi-bin/norun");
    assert_eq!(response.status, 403);
    assert!(!response.text().contains("chmod"), "the client must not see file names");
    let line = server.log_line("chmod +x");
    assert!(line.contains("cgi-bin/norun") && line.contains("WARN"), "{line}");
}

#[test]
fn missing_interpreter_is_502_and_the_log_names_the_file() {
    let server = Setup::new().script("lost", "#!/usr/bin/no-such-interpreter\n").start();
    assert_eq!(server.get("/cgi-bin/lost").status, 502);
    let line = server.log_line("cannot be started");
    assert!(line.contains("cgi-bin/lost"), "{line}");
}

#[test]
fn non_programs_are_not_run() {
    let setup = Setup::new()
        .script(".hidden", SHOW)
        .script("show", SHOW)
        .file_with_mode("cgi-bin/garbage", b"\x7fELF garbage", 0o755)
        .file_with_mode("cgi-bin/empty", "", 0o755);
    let _fifo = setup.event_fifo("htdocs/cgi-bin/fifo");
    std::fs::create_dir(setup.path("htdocs/cgi-bin/folder")).unwrap();
    let server = setup.start();
    for (path, allowed) in [
        ("/cgi-bin/.hidden", [404, 404]),
        ("/cgi-bin/./.hidden", [404, 404]),
        ("/cgi-bin/none", [404, 404]),
        ("/cgi-bin/folder", [404, 404]),
        ("/cgi-bin/folder/", [404, 404]),
        ("/cgi-bin/", [404, 404]),
        ("/cgi-bin/fifo", [403, 404]),
        ("/cgi-bin/garbage", [502, 502]),
        ("/cgi-bin/empty", [502, 502]),
        ("/cgi-bin/show%00", [400, 400]),
    ] {
        let status = server.get(path).status;
        assert!(allowed.contains(&status), "{path}: {status}");
    }
    assert_eq!(server.get("/cgi-bin/show").status, 200);
}

#[test]
fn changed_script_runs_in_its_new_version() {
    let server = Setup::new()
        .script("x", r"printf 'Content-Type: text/plain\n\nold'")
        .start();
    assert_eq!(server.get("/cgi-bin/x").text(), "old");
    write_script(
        &server.path("htdocs/cgi-bin/x"),
        r"printf 'Content-Type: text/plain\n\nnew'",
    );
    assert_eq!(server.get("/cgi-bin/x").text(), "new");
    write_script(
        &server.path("htdocs/cgi-bin/y"),
        r"printf 'Content-Type: text/plain\n\nadded'",
    );
    assert_eq!(server.get("/cgi-bin/y").text(), "added");
}

#[test]
fn script_below_a_root_is_not_run_through_a_link_out_of_it() {
    let setup = Setup::new()
        .file_with_mode(
            "/tools/in.cgi",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s' \"$SCRIPT_NAME\"\n",
            0o755,
        )
        .file("/.hidden/x.cgi", "")
        .script_route("*.cgi", "mode = \"cgi\"");
    write_script(
        &setup.path("outside/out.cgi"),
        "printf 'Content-Type: text/plain\\n\\noutside'",
    );
    write_script(
        &setup.path("htdocs/.hidden/x.cgi"),
        "printf 'Content-Type: text/plain\\n\\nhidden'",
    );
    for (target, link) in [
        ("../outside/out.cgi", "relative.cgi"),
        ("../outside", "directory"),
        ("tools/in.cgi", "link.cgi"),
        (".hidden/x.cgi", "hidden.cgi"),
    ] {
        symlink(target, setup.path("htdocs").join(link)).unwrap();
    }
    symlink(setup.path("outside/out.cgi"), setup.path("htdocs/absolute.cgi")).unwrap();
    let server = setup.start();
    assert_eq!(server.get("/tools/in.cgi").text(), "/tools/in.cgi");
    assert_eq!(server.get("/link.cgi").text(), "/link.cgi");
    for path in [
        "/relative.cgi",
        "/absolute.cgi",
        "/directory/out.cgi",
        "/hidden.cgi",
        "/.hidden/x.cgi",
    ] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
}
