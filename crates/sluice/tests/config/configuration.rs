//! The files of a configuration: which one is read, what it includes, and what SIGHUP reads again.
//!
//! Not here: the messages about single keys (`sluice::config::tests`).

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use sluice_testing::{Server, Setup, run, write_script};

/// A main file with a site and included files.
const MAIN: &str = "include = \"sites/*.toml\"\n[[listen]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \"htdocs\"\n";

/// All that a packaged application writes.
const APPLICATION: &str = r#"# The wiki of this machine.
[[route]]
path = "/wiki/*"
script = { directory = "../wiki", mode = "cgi" }
"#;

fn setup() -> Setup {
    let setup = Setup::new().file("a.txt", "a");
    fs::create_dir(setup.path("sites")).unwrap();
    fs::write(setup.path("main.toml"), MAIN).unwrap();
    write_script(
        &setup.path("wiki/page"),
        r"printf 'Content-Type: text/plain\n\nthe wiki'",
    );
    setup
}

fn start(setup: Setup) -> Server {
    setup.start_with(&["run", "-c", "main.toml"])
}

#[test]
fn a_packaged_application_adds_its_routes_with_one_file_and_sighup_reads_it() {
    let server = start(setup());
    assert_eq!(server.get("/wiki/page").status, 404);
    fs::write(server.path("sites/wiki.toml"), APPLICATION).unwrap();
    fs::write(
        server.path("sites/other.toml"),
        "[[site]]\nhosts = [\"other.test\"]\nroot = \"../other\"\n",
    )
    .unwrap();
    fs::create_dir(server.path("other")).unwrap();
    fs::write(server.path("other/a.txt"), "other").unwrap();
    server.signal("HUP");
    server.log_line("is in force");
    assert_eq!(server.get("/wiki/page").text(), "the wiki");
    assert_eq!(server.get("/a.txt").text(), "a");
    let other = server.send("GET /a.txt HTTP/1.1\r\nHost: other.test\r\n\r\n");
    assert_eq!(other.text(), "other");

    fs::write(server.path("sites/wiki.toml"), "[[route]]\npath = \"wiki\"\n").unwrap();
    server.signal("HUP");
    let line = server.log_line("nothing has changed");
    assert!(line.contains("SIGHUP"), "{line}");
    server.log_line("sites/wiki.toml:2: path = \"wiki\"");
    assert_eq!(server.get("/wiki/page").text(), "the wiki");

    fs::remove_file(server.path("sites/wiki.toml")).unwrap();
    fs::remove_file(server.path("sites/other.toml")).unwrap();
    server.signal("HUP");
    server.log_lines(2, "is in force");
    assert_eq!(server.get("/wiki/page").status, 404);
}

#[test]
fn included_files_are_never_sent() {
    let setup = setup();
    fs::create_dir(setup.path("htdocs/sites")).unwrap();
    let main = MAIN.replace("sites/", "htdocs/sites/");
    fs::write(setup.path("main.toml"), main).unwrap();
    fs::write(
        setup.path("htdocs/sites/wiki.toml"),
        APPLICATION.replace("../", "../../"),
    )
    .unwrap();
    let server = start(setup);
    assert_eq!(server.get("/wiki/page").text(), "the wiki");
    assert_eq!(server.get("/sites/wiki.toml").status, 404);
}

#[test]
fn check_reports_included_files_and_their_mistakes() {
    let setup = setup();
    let check = || run(setup.directory(), &["check", "-c", "main.toml"]);
    let empty = check();
    assert!(empty.status.success(), "{}", empty.errors);
    fs::write(setup.path("sites/wiki.toml"), APPLICATION).unwrap();
    let good = check();
    assert!(
        good.output
            .contains("main.toml: ok: 1 site, 1 route, 1 address, 1 included file"),
        "{}",
        good.output
    );
    assert!(
        good.output.contains("sites/wiki.toml") && good.output.contains("/wiki/*"),
        "{}",
        good.output
    );
    fs::write(
        setup.path("sites/bad.toml"),
        "[[route]]\npath = \"/x\"\nproxy_pass = \"http://x\"\nrefuse = {}\n",
    )
    .unwrap();
    let bad = check();
    assert_eq!(bad.status.code(), Some(1));
    assert!(
        bad.errors.contains("sites/bad.toml:3: unknown key \"proxy_pass\""),
        "{}",
        bad.errors
    );
    assert!(bad.errors.contains("is no proxy"), "{}", bad.errors);
    fs::remove_file(setup.path("sites/bad.toml")).unwrap();
    fs::remove_file(setup.path("sites/wiki.toml")).unwrap();
    fs::remove_dir(setup.path("sites")).unwrap();
    let missing = check();
    assert!(
        missing.errors.contains("main.toml:1: include") && missing.errors.contains("create it"),
        "{}",
        missing.errors
    );
}

#[test]
fn check_warns_of_a_configuration_that_every_user_can_change() {
    let setup = setup();
    fs::write(setup.path("sites/wiki.toml"), APPLICATION).unwrap();
    let check = || run(setup.directory(), &["check", "-c", "main.toml"]).errors;
    assert!(!check().contains("every user"), "{}", check());
    for (path, mode) in [("sites", 0o1777), ("sites/wiki.toml", 0o666), ("main.toml", 0o646)] {
        fs::set_permissions(setup.path(path), Permissions::from_mode(mode)).unwrap();
        let errors = check();
        let warning = format!("{}: every user of this machine can change", setup.path(path).display());
        assert!(errors.contains(&warning), "{path}: {errors}");
    }
}

#[test]
fn without_c_the_file_of_the_current_directory_is_taken_and_named() {
    let setup = Setup::new().file("a.txt", "a");
    setup.write_configuration();
    let checked = run(setup.directory(), &["check"]);
    assert!(
        checked.output.starts_with("sluice.toml: ok"),
        "{} {}",
        checked.output,
        checked.errors
    );
    let server = setup.start_with(&["run"]);
    server.log_line(&format!("configuration {}", server.path("sluice.toml").display()));
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn without_any_configuration_both_places_are_named() {
    let setup = Setup::new();
    if std::path::Path::new("/etc/sluice/sluice.toml").exists() {
        return;
    }
    for command in ["run", "check"] {
        let ran = run(setup.directory(), &[command]);
        assert_eq!(ran.status.code(), Some(1));
        assert!(
            ran.errors.contains("neither sluice.toml nor /etc/sluice/sluice.toml") && ran.errors.contains("-c FILE"),
            "{}",
            ran.errors
        );
    }
}

#[test]
fn a_list_of_addresses_is_listened_on() {
    let setup = Setup::new().file("a.txt", "a");
    fs::write(
        setup.path("two.toml"),
        "[[listen]]\naddress = [\"127.0.0.1:0\", \"[::1]:0\"]\n[[site]]\nroot = \"htdocs\"\n",
    )
    .unwrap();
    let server = setup.start_with(&["run", "-c", "two.toml"]);
    let addresses = server.addresses();
    assert!(
        addresses.len() == 2 && addresses[1].starts_with("http://[::1]:"),
        "{addresses:?}"
    );
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn check_prints_json_for_programs_and_nothing_with_quiet() {
    let setup = setup();
    let check = |option: &str| run(setup.directory(), &["check", "-c", "main.toml", option]);
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let valid = check("--json");
    assert!(valid.status.success(), "{}", valid.errors);
    let outcome = json(&valid.output);
    assert_eq!(
        (&outcome["valid"], &outcome["configuration"]),
        (&true.into(), &"main.toml".into())
    );
    assert_eq!(outcome["mistakes"], serde_json::json!([]));
    assert!(
        outcome["summary"][0].as_str().unwrap().contains("main.toml"),
        "{outcome}"
    );
    let quiet = check("--quiet");
    assert!(quiet.status.success() && quiet.output.is_empty(), "{}", quiet.output);

    fs::write(setup.path("sites/wiki.toml"), "[[route]]\npath = \"wiki\"\n").unwrap();
    let invalid = check("--json");
    assert_eq!(invalid.status.code(), Some(1));
    let outcome = json(&invalid.output);
    let mistake = &outcome["mistakes"][1];
    assert_eq!(
        (&outcome["valid"], &mistake["line"]),
        (&false.into(), &2.into()),
        "{outcome}"
    );
    assert!(
        mistake["file"].as_str().unwrap().ends_with("sites/wiki.toml"),
        "{outcome}"
    );
    assert!(
        mistake["message"].as_str().unwrap().starts_with("path = \"wiki\""),
        "{outcome}"
    );
    let quiet = check("--quiet");
    assert!(
        !quiet.status.success() && quiet.errors.contains("sites/wiki.toml:2:"),
        "{}",
        quiet.errors
    );
}

#[test]
fn variables_of_the_environment_are_replaced_also_after_a_reload() {
    let setup = setup()
        .environment("SITE_ROOT", "htdocs")
        .environment("HOST", "env.test");
    let main = MAIN.replace(
        "\"htdocs\"",
        "\"${SITE_ROOT}\"\nhosts = [\"${HOST}\", \"${OTHER:-other.test}\"]",
    );
    fs::write(setup.path("main.toml"), &main).unwrap();
    let server = start(setup);
    let get = |host: &str| server.send(format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    for host in ["env.test", "other.test"] {
        assert_eq!(get(host).text(), "a", "{host}");
    }
    fs::write(server.path("main.toml"), main.replace("SITE_ROOT", "NO_ROOT")).unwrap();
    server.signal("HUP");
    server.log_line("main.toml:5: ${NO_ROOT}: the environment of the server has no variable NO_ROOT: set it");
    server.log_line("nothing has changed");
    assert_eq!(get("env.test").text(), "a");
}

#[test]
fn a_site_is_switched_off_by_one_word() {
    let setup = setup();
    let shop = "[[site]]\nenabled = false\nhosts = [\"shop.test\"]\nroot = \"../missing\"\n";
    fs::write(setup.path("sites/shop.toml"), shop).unwrap();
    fs::write(
        setup.path("sites/wiki.toml"),
        format!("host = \"shop.test\"\n{APPLICATION}"),
    )
    .unwrap();
    let server = start(setup);
    let get = |path: &str| server.send(format!("GET {path} HTTP/1.1\r\nHost: shop.test\r\n\r\n"));
    assert_eq!(get("/a.txt").text(), "a", "the first site answers");
    assert_eq!(get("/wiki/page").status, 404);
    assert!(!server.log().contains("missing"), "{}", server.log());
    fs::create_dir(server.path("shop")).unwrap();
    fs::write(server.path("shop/a.txt"), "shop").unwrap();
    let shop = shop.replace("enabled = false", "").replace("missing", "shop");
    fs::write(server.path("sites/shop.toml"), shop).unwrap();
    server.signal("HUP");
    server.log_line("is in force");
    assert_eq!(get("/a.txt").text(), "shop");
    assert_eq!(get("/wiki/page").text(), "the wiki");
    // It has more directories open than at its start.
    assert!(server.stop().status.success());
}
