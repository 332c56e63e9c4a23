//! RTE: processes of an engine, which run one script after another.
//!
//! Here: which file is run by which engine, with which variables. Submodules: failures and ends (`failures`), which process runs
//! what, and when it is replaced (`processes`). The engine of these tests is a
//! CGIplus program that runs Python texts in itself. Those of the SDK have tests of their own.

mod failures;
mod processes;

use sluice_testing::{Response, Setup, run};

/// Runs the text of SCRIPT_FILENAME for each request. `end_of_script` is what a script that ends early raises.
const ENGINE: &str = r#"
class Done(Exception):
    pass

count = 0
while variables := accept():
    count += 1
    with open(variables["SCRIPT_FILENAME"]) as file:
        text = file.read()
    try:
        exec(text, {**globals(), "variables": variables, "count": count})
    except Done:
        pass
    finish()
"#;

/// Prints its name, and the process and its count of requests.
const HELLO: &str = r#"
put(HEAD + b"%s %d %d" % (os.path.basename(variables["SCRIPT_FILENAME"]).encode(), os.getpid(), count))
"#;

/// A setup with the test engine, and the scripts of `htdocs/rte` at `/rte/*`; `keys` go to its script section.
fn setup(keys: &str) -> Setup {
    let engine = "engine = { program = \"htdocs/cgi-bin/engine\" }";
    let more = if keys.is_empty() { "" } else { ", " };
    Setup::new()
        .python("engine", ENGINE)
        .file("rte/a.test", HELLO)
        .file("rte/b.test", HELLO)
        .script_route(
            "/rte/*",
            &format!("directory = \"htdocs/rte\", mode = \"rte\", {engine}{more}{keys}"),
        )
}

/// Makes the test engine that of Python in `htdocs/sdk`.
fn write_sdk(setup: &Setup) {
    let sdk = setup.path("htdocs/sdk/python");
    std::fs::create_dir_all(&sdk).unwrap();
    let kit = sluice_testing::KIT;
    std::fs::write(sdk.join("engine.py"), format!("{kit}\n{ENGINE}")).unwrap();
}

/// The name of the script, the process that has run it, and its count.
#[track_caller]
fn ran(response: &Response) -> (String, u32, u32) {
    assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
    let words: Vec<&str> = response.text().split(' ').collect();
    (
        words[0].to_owned(),
        words[1].parse().unwrap(),
        words[2].parse().unwrap(),
    )
}

#[test]
fn scripts_of_one_engine_share_a_process() {
    let server = setup("max = 1").start();
    let (name, pid, count) = ran(&server.get("/rte/a.test"));
    assert_eq!((name.as_str(), count), ("a.test", 1));
    assert_eq!(ran(&server.get("/rte/b.test/more")), ("b.test".to_owned(), pid, 2));
    assert_eq!(ran(&server.get("/rte/a.test?x")), ("a.test".to_owned(), pid, 3));
    server.wait_for_processes(1);
}

#[test]
fn a_script_has_the_variables_of_its_request_and_the_name_of_the_engine() {
    let server = setup("")
        .file(
            "rte/deep/vars.test",
            r#"
names = ["SCRIPT_NAME", "SCRIPT_FILENAME", "PATH_INFO", "SCRIPT_RTE", "QUERY_STRING"]
lines = [name + "=" + variables.get(name, "-") for name in names]
put(HEAD + "\n".join(lines + [os.environ.get("SCRIPT_RTE", "-")]).encode())
"#,
        )
        .start();
    let expected = format!(
        "SCRIPT_NAME=/rte/deep/vars.test\nSCRIPT_FILENAME={}\nPATH_INFO=/x/y\nSCRIPT_RTE=engine\nQUERY_STRING=a=b\nengine",
        server.path("htdocs/rte/deep/vars.test").display()
    );
    assert_eq!(server.get("/rte/deep/vars.test/x/y?a=b").text(), expected);
}

#[test]
fn paths_that_lead_to_no_script_are_refused_and_no_source_is_sent() {
    let server = setup("")
        .file("rte/.hidden.test", HELLO)
        .file("rte/deep/x.test", HELLO)
        .route("path = \"/source/*\"\nfiles = { directory = \"htdocs\" }")
        .start();
    for path in [
        "/rte/none.test",
        "/rte/.hidden.test",
        "/rte/deep",
        "/rte/",
        "/source/rte/a.test",
    ] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    server.wait_for_processes(0);
}

#[test]
fn a_file_is_run_by_the_engine_of_its_suffix_or_not_at_all() {
    let server = Setup::new()
        .python("engine", ENGINE)
        .file("rte/a.test", HELLO)
        .file("rte/a.txt", "secret")
        .file_with_mode("rte/program", "#!/bin/sh\necho secret", 0o755)
        .script_route(
            "/rte/*",
            "directory = \"htdocs/rte\", mode = \"rte\", interpreters = { \".test\" = \"htdocs/cgi-bin/engine\" }",
        )
        .start();
    assert_eq!(ran(&server.get("/rte/a.test")).0, "a.test");
    for path in ["/rte/a.txt", "/rte/program"] {
        let response = server.get(path);
        assert_eq!(response.status, 403, "{path}");
        assert!(!response.text().contains("secret"));
    }
    server.log_lines(2, "its route has no engine for its suffix");
}

#[test]
fn sources_of_engines_are_not_sent_by_a_route_for_the_files_beside_them() {
    let setup = Setup::new()
        .python("engine", ENGINE)
        .file("rte/a.py", HELLO)
        .file("rte/a.pl", "secret")
        .file("rte/style.css", "css")
        .file("own/a.x", HELLO)
        .file("app/shop.py", "secret")
        .file("app/static/app.css", "css")
        .server("sdk = \"htdocs/sdk\"")
        .script_route(
            "/rte/*",
            "directory = \"htdocs/rte\", mode = \"rte\", engine = \"python\", interpreters = { \".pl\" = \"perl\" }",
        )
        .script_route(
            "/own/*",
            "directory = \"htdocs/own\", mode = \"rte\", engine = { program = \"htdocs/cgi-bin/engine\" }",
        )
        .script_route(
            "/app/*",
            "directory = \"htdocs/app\", mode = \"rte\", engine = \"python\", app = \"shop:app\"",
        )
        .route("path = \"/files/*\"\nfiles = { directory = \"htdocs/rte\" }")
        .route("path = \"/own-files/*\"\nfiles = { directory = \"htdocs/own\" }")
        .route("path = \"/app-files/*\"\nfiles = { directory = \"htdocs/app\" }")
        .route("path = \"/static/*\"\nfiles = { directory = \"htdocs/app/static\" }")
        .route("path = \"/all/*\"\nfiles = { directory = \"htdocs\" }");
    write_sdk(&setup);
    let server = setup.start();
    for path in ["/files/style.css", "/static/app.css"] {
        assert_eq!(server.get(path).text(), "css", "{path}");
    }
    for path in [
        "/files/a.py",
        "/files/a.pl",
        "/own-files/a.x",
        "/app-files/shop.py",
        "/all/rte/a.py",
        "/all/app/shop.py",
        "/all/own/a.x",
    ] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
}

#[test]
fn scripts_among_files_are_run_by_engines() {
    let server = Setup::new()
        .python("engine", ENGINE)
        .file("mixed/page.test", HELLO)
        .file("mixed/index.test", HELLO)
        .file("mixed/style.css", "css")
        .route(
            "path = \"/mixed/*\"\nscripts = { \".test\" = \"htdocs/cgi-bin/engine\" }\n\
             script = { mode = \"rte\", max = 1, inherit = [\"TEST_DIR\", \"SLUICE_TEST_MARK\"] }",
        )
        .start();
    let (name, pid, _) = ran(&server.get("/mixed/page.test"));
    assert_eq!(name, "page.test");
    assert_eq!(ran(&server.get("/mixed/")), ("index.test".to_owned(), pid, 2));
    assert_eq!(server.get("/mixed/style.css").text(), "css");
}

#[test]
fn an_application_gets_every_path_of_its_route() {
    let text = r#"
names = ["SCRIPT_NAME", "PATH_INFO", "SCRIPT_FILENAME"]
lines = [name + "=" + variables.get(name, "-") for name in names]
put(HEAD + "\n".join(lines + sys.argv[1:] + [os.getcwd()]).encode())
"#;
    let keys = "directory = \"htdocs/shop\", mode = \"rte\", app = \"app.test\", fresh = \"fork\", max = 1, \
                engine = { program = \"htdocs/cgi-bin/engine\", arguments = [\"-x\"] }";
    let inherit = "inherit = [\"TEST_DIR\", \"SLUICE_TEST_MARK\"]";
    let server = Setup::new()
        .python("engine", ENGINE)
        .file("shop/app.test", text)
        .script_route("/shop/*", keys)
        .sites(&format!(
            "[[site]]\nhosts = [\"all.test\"]\n[[site.route]]\npath = \"/*\"\nscript = {{ {keys}, {inherit} }}"
        ))
        .start();
    let file = server.path("htdocs/shop/app.test").display().to_string();
    let directory = server.path("htdocs/shop").display().to_string();
    for (path, name, info) in [
        ("/", "", "/"),
        ("/a/b%20c?x", "", "/a/b c"),
        ("/.git/config", "", "/.git/config"),
        ("/shop", "/shop", "-"),
        ("/shop/", "/shop", "/"),
        ("/shop/app.test/x", "/shop", "/app.test/x"),
        ("/shopping", "", "/shopping"),
    ] {
        let expected = format!(
            "SCRIPT_NAME={name}\nPATH_INFO={info}\nSCRIPT_FILENAME={file}\n-x\n--app=app.test\n--fresh=fork\n{directory}"
        );
        let host = if path.starts_with("/shop") && name == "/shop" {
            "test"
        } else {
            "all.test"
        };
        let response = server.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(response.text(), expected, "{path}");
    }
}

#[test]
fn a_missing_engine_is_a_warning_at_the_start_and_503_until_it_is_there() {
    let server = Setup::new()
        .file("sdk/readme", "")
        .file("rte/a.py", HELLO)
        .server("sdk = \"htdocs/sdk\"")
        .script_route(
            "/rte/*",
            "directory = \"htdocs/rte\", mode = \"rte\", engine = \"python\"",
        )
        .start();
    server.log_line("from the sources make sdk");
    let response = server.get("/rte/a.py");
    assert_eq!(response.status, 503);
    assert!(
        response.text().contains("is missing on the server"),
        "{}",
        response.text()
    );
    write_sdk(server.setup());
    assert_eq!(ran(&server.get("/rte/a.py")).0, "a.py");
}

#[test]
fn serve_warns_of_an_engine_that_its_scripts_need_and_takes_a_directory_of_engines() {
    let serve = |sdk: &str| {
        let setup = Setup::new().file("rte/a.py", HELLO).file("empty/readme", "");
        write_sdk(&setup);
        setup.start_with(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--host",
            "test",
            "--sdk",
            sdk,
            "htdocs",
        ])
    };
    let server = serve("htdocs/empty");
    let line = server.log_line("the engine of python is not there");
    assert!(
        line.contains("htdocs/rte: ") && line.contains("sluice serve --sdk DIR"),
        "{line}"
    );
    assert!(!server.log().contains("engine of perl"), "{}", server.log());
    drop(server);
    let server = serve("htdocs/sdk");
    // The engine of these tests wants variables that scripts of `serve` do not get.
    let response = server.send("GET /rte/a.py HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(response.status, 502, "{}", server.log());
    server.log_line("sdk/python/engine.py");
    assert!(!server.log().contains("is not there"), "{}", server.log());
}

#[test]
fn serve_runs_the_scripts_of_rte_by_their_suffix_and_needs_no_engine_to_start() {
    let setup = Setup::new().file("rte/a.pl", "print 1").file("rte/style.css", "css");
    let server = setup.start_with(&["serve", "--listen", "127.0.0.1:0", "--host", "test", "htdocs"]);
    let line = server.log_line("serving files of ");
    assert!(line.contains("/htdocs/rte"), "{line}");
    let get = |path: &str| server.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
    // The engine may be there or not; the text of the script is never sent.
    let response = get("/rte/a.pl");
    assert!(matches!(response.status, 200 | 502 | 503), "{}", response.status);
    assert_ne!(response.text(), "print 1");
    assert_eq!(get("/rte/style.css").status, 403);
    assert_eq!(get("/rte/none.pl").status, 404);
}

#[test]
fn status_names_the_route_where_an_engine_has_processes_of_two() {
    let engine = "while accept():\n    put(HEAD + b'ran')\n    finish()\n";
    let keys = |more: &str| {
        format!("directory = \"htdocs/rte\", mode = \"rte\", engine = {{ program = \"htdocs/cgi-bin/engine\" }}{more}")
    };
    let server = Setup::new()
        .python("engine", engine)
        .file("rte/a.test", "")
        .script_route("/one/*", &keys(""))
        .script_route("/two/*", &keys(", environment = { A = \"2\" }"))
        .start();
    let lines = || {
        let ran = run(server.setup().directory(), &["status"]);
        let lines = ran.output.lines().filter(|line| line.contains("(rte"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(server.get("/one/a.test").text(), "ran");
    let alone = lines();
    assert!(alone.len() == 1 && alone[0].contains("(rte):"), "{alone:?}");
    assert_eq!(server.get("/two/a.test").text(), "ran");
    let both = lines();
    assert!(
        both.len() == 2 && both.iter().all(|line| line.contains("(rte, sluice.toml:")),
        "{both:?}"
    );
    assert_ne!(both[0], both[1]);
}
