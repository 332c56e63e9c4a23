//! Files and directories that the user of the server may not use: which answer, and which message says the user, the mode and the command.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use sluice_testing::{Authority, Server, Setup, run, signal, wait_until};

use super::{ALICE, BOB, SERVER, give, is_root, open_setup, set_mode};

fn user() -> String {
    format!("user = \"{SERVER}:{SERVER}\"")
}

fn append(server: &Server, text: &str) {
    let file = server.path("sluice.toml");
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{before}\n{text}\n")).unwrap();
}

#[test]
fn a_directory_that_the_server_may_not_enter_stops_neither_reload_nor_start_and_is_503_until_it_may() {
    if !is_root() {
        return;
    }
    let server = open_setup()
        .server(&user())
        .file("out/site/a.txt", "a")
        .file(
            "out/cgi-bin/run",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nran'\n",
        )
        .file("health.txt", "well")
        .start();
    set_mode(&server.path("htdocs/out"), 0o700);
    set_mode(&server.path("htdocs/out/cgi-bin/run"), 0o755);
    let routes = "[[site.route]]\npath = \"/site/*\"\ndirectory = \"htdocs/out/site\"\n[[site.route]]\npath = \"/run/*\"\nscript = { directory = \"htdocs/out/cgi-bin\" }";
    append(&server, routes);
    signal(server.pid(), "HUP");
    let home = server.path("htdocs/out");
    let why = format!(
        "user {SERVER} may not enter {0} (mode 700, owner root:root): chgrp {SERVER} {0} && chmod g+x {0}",
        home.display()
    );
    let warning = server.log_line("; until that changes the answer is 503");
    assert!(warning.contains("WARN") && warning.contains(&why), "{warning}");
    assert!(!warning.contains("create it"), "{warning}");
    server.log_line("is in force");
    for path in ["/site/a.txt", "/run/run"] {
        assert_eq!(server.get(path).status, 503, "{path}");
        let line = server.log_line(&format!("GET {path}: "));
        assert!(line.contains(&why), "{line}");
    }
    assert_eq!(server.get("/health.txt").status, 200);
    set_mode(&home, 0o755);
    assert_eq!(server.get("/site/a.txt").text(), "a");
    assert_eq!(server.get("/run/run").text(), "ran");
    // It has more directories open than at its start.
    assert!(server.stop().status.success());
}

#[test]
fn a_log_in_a_directory_of_another_user_is_a_warning() {
    if !is_root() {
        return;
    }
    let setup = open_setup().server(&user()).log("access = \"logs/access.log\"");
    let logs = setup.path("logs");
    fs::create_dir(&logs).unwrap();
    give(&logs, ALICE);
    set_mode(&logs, 0o777);
    let server = setup.start();
    let warning = format!("/logs belongs to user {ALICE}, who can read the log");
    assert!(server.log_line(&warning).contains("WARN"));
    let check = || run(server.setup().directory(), &["check", "-c", "sluice.toml"]);
    assert!(check().errors.contains(&warning), "{}", check().errors);
    give(&logs, SERVER);
    assert!(check().status.success() && !check().errors.contains("/logs"));
}

#[test]
fn status_names_directories_that_the_server_may_not_use_any_more() {
    if !is_root() {
        return;
    }
    let setup = open_setup()
        .server(&format!("{}\nspool_directory = \"spool\"", user()))
        .file("a.txt", "a");
    fs::create_dir(setup.path("spool")).unwrap();
    give(&setup.path("spool"), SERVER);
    let server = setup.start();
    let (root, spool) = (server.path("htdocs"), server.path("spool"));
    let status = || run(server.setup().directory(), &["status", "-c", "sluice.toml"]).output;
    assert!(!status().contains("faults"), "{}", status());
    set_mode(&root, 0o700);
    chown(&spool, Some(0), Some(0)).unwrap();
    let checked = run(server.setup().directory(), &["check", "-c", "sluice.toml"]);
    let mistake = format!("spool_directory: user {SERVER} may not write ");
    assert!(
        !checked.status.success() && checked.errors.contains(&mistake),
        "{}",
        checked.errors
    );
    let faults = [
        format!("{0}: user {SERVER} may not enter {0} (mode 700, ", root.display()),
        format!("{0}: user {SERVER} may not write {0} (", spool.display()),
    ];
    let has_all = || faults.iter().all(|fault| status().contains(fault));
    assert!(wait_until(has_all), "{}", status());
    set_mode(&root, 0o755);
    give(&spool, SERVER);
    assert!(wait_until(|| !status().contains("faults")), "{}", status());
}

#[test]
fn a_file_that_the_server_may_not_read_is_403_with_its_mode_and_the_command() {
    if !is_root() {
        return;
    }
    let server = open_setup()
        .server(&user())
        .file("secret.txt", "secret")
        .script("closed", "echo")
        .start();
    let (file, script) = (server.path("htdocs/secret.txt"), server.path("htdocs/cgi-bin"));
    set_mode(&file, 0o600);
    assert_eq!(server.get("/secret.txt").status, 403);
    let line = server.log_line("GET /secret.txt: ");
    let expected = format!(
        "user {SERVER} may not read {0} (mode 600, owner root:root): chgrp {SERVER} {0} && chmod g+r {0}",
        file.display()
    );
    assert!(line.contains(&expected), "{line}");
    set_mode(&script, 0o700);
    assert_eq!(server.get("/cgi-bin/closed").status, 403);
    let line = server.log_line("GET /cgi-bin/closed: ");
    let expected = format!(
        "user {SERVER} may not enter {} (mode 700, owner root:root)",
        script.display()
    );
    assert!(line.contains(&expected), "{line}");
}

#[test]
fn a_script_that_its_user_may_not_execute_or_read_is_403_with_the_user_and_the_mode() {
    if !is_root() {
        return;
    }
    let user = format!("user = \"{ALICE}:{ALICE}\"");
    let server = open_setup()
        .cgi(&format!("{user}, interpreters = {{ \".sh\" = \"sh\" }}"))
        .script("own", "printf 'Content-Type: text/plain\\n\\nran'")
        .script("read.sh", "printf 'Content-Type: text/plain\\n\\nran'")
        .start();
    for (name, verb, letters) in [("own", "execute", "rx"), ("read.sh", "read", "")] {
        let file = server.path(&format!("htdocs/cgi-bin/{name}"));
        let path = format!("/cgi-bin/{name}");
        assert_eq!(server.get(&path).text(), "ran", "{name}");
        set_mode(&file, 0o700);
        assert_eq!(server.get(&path).status, 403, "{name}");
        let line = server.log_line(&format!("GET {path}: "));
        assert!(line.contains("WARN"), "{line}");
        let expected = format!(
            "user {ALICE} may not {verb} {} (mode 700, owner root:root): ",
            file.display()
        );
        assert!(line.contains(&expected), "{line}");
        assert!(
            letters.is_empty() || line.contains(&format!("chmod o+{letters} ")),
            "{line}"
        );
    }
}

/// A setup with a control socket of its own, in a directory of the server's user, as a service manager makes it.
fn service() -> Setup {
    let setup = open_setup().server("control = \"run/c.sock\"");
    let run = setup.directory().join("run");
    fs::create_dir(&run).unwrap();
    give(&run, SERVER);
    setup
}

/// Runs `sluice check`. Returns whether the configuration is valid, and what it prints as an error.
fn check(setup: &Setup, options: &[&str]) -> (bool, String) {
    setup.write_configuration();
    set_mode(&setup.path("sluice.toml"), 0o644);
    let ran = run(setup.directory(), &[&["check", "-c", "sluice.toml"], options].concat());
    (ran.status.success(), ran.errors)
}

#[test]
fn root_checks_for_the_user_of_the_service() {
    if !is_root() {
        return;
    }
    let setup = service()
        .script("run", "echo")
        .file("out/a.txt", "a")
        .route("path = \"/out/*\"\ndirectory = \"htdocs/out\"");
    let (is_valid, errors) = check(&setup, &[]);
    assert!(is_valid, "{errors}");
    assert!(!errors.contains("checked as root"), "{errors}");
    let out = setup.path("htdocs/out");
    set_mode(&out, 0o700);
    let user = format!("{SERVER}:{SERVER}");
    for options in [&[][..], &["--run-as", &user]] {
        let (is_valid, errors) = check(&setup, options);
        let expected = format!(
            "user {SERVER} may not enter {0} (mode 700, owner root:root): chgrp {SERVER} {0} && chmod g+x {0}",
            out.display()
        );
        assert!(!is_valid && errors.contains(&expected), "{errors}");
    }
}

/// A site with a log of its own, which is not there yet.
const SITE_WITH_LOG: &str =
    "[[site]]\nhosts = [\"old.example\"]\nroot = \"htdocs\"\nlog = { access = \"old/site.log\" }";

/// The words of `check` and of a reload about a log that is not there, in a directory that the server may not write.
fn unwritable(directory: &Path, owner: &str) -> String {
    format!(
        "there is no such file, and user {SERVER} may not write {0} (mode 755, owner {owner}): chgrp {SERVER} {0} && chmod g+w {0}",
        directory.display()
    )
}

#[test]
fn a_log_that_the_server_may_not_write_is_a_mistake_with_the_command_that_permits_it() {
    if !is_root() {
        return;
    }
    let setup = service().sites(SITE_WITH_LOG);
    let old = setup.path("old");
    fs::create_dir(&old).unwrap();
    set_mode(&old, 0o755);
    let (is_valid, errors) = check(&setup, &[]);
    assert!(!is_valid && errors.contains(&unwritable(&old, "root:root")), "{errors}");
    assert!(
        errors.contains("sluice.toml:") && errors.contains("old/site.log"),
        "{errors}"
    );
    let file = old.join("site.log");
    assert!(!file.exists(), "a check makes no file");
    chown(&old, None, Some(SERVER)).unwrap();
    set_mode(&old, 0o775);
    let (is_valid, errors) = check(&setup, &[]);
    assert!(is_valid, "{errors}");
    fs::write(&file, "").unwrap();
    set_mode(&file, 0o640);
    let (is_valid, errors) = check(&setup, &[]);
    let expected = format!(
        "user {SERVER} may not write {0} (mode 640, owner root:root): chgrp {SERVER} {0} && chmod g+w {0}",
        file.display()
    );
    assert!(!is_valid && errors.contains(&expected), "{errors}");
}

#[test]
fn check_says_of_a_log_what_a_reload_says_if_root_starts_the_server() {
    if !is_root() {
        return;
    }
    let setup = open_setup().server(&user()).file("a.txt", "a");
    let old = setup.path("old");
    fs::create_dir(&old).unwrap();
    set_mode(&old, 0o755);
    let server = setup.start();
    append(&server, SITE_WITH_LOG);
    let check = || run(server.setup().directory(), &["check", "-c", "sluice.toml"]);
    let reload = || run(server.setup().directory(), &["reload"]);
    // Another user could put a link into this directory, so the supervisor makes no file in it.
    give(&old, ALICE);
    let why = unwritable(&old, &format!("{ALICE}:{ALICE}"));
    let checked = check();
    assert!(
        !checked.status.success() && checked.errors.contains(&why),
        "{}",
        checked.errors
    );
    // A reload goes on without it: its owner could prevent every one.
    let reloaded = reload();
    assert!(
        reloaded.status.success() && reloaded.output.contains(&why),
        "{}",
        reloaded.output
    );
    // In a directory of root the supervisor makes it.
    give(&old, 0);
    let checked = check();
    assert!(checked.status.success(), "{}", checked.errors);
    let reloaded = reload();
    assert!(reloaded.status.success(), "{}", reloaded.output);
    // It has a file more open than at its start.
    assert!(server.stop().status.success());
}

/// A setup with TLS, whose key is for root alone.
fn with_key() -> (Setup, PathBuf) {
    let setup = open_setup().script("run", "echo");
    let (certificate, key) = Authority::new().issue(&["localhost"]);
    fs::write(setup.path("certificate.pem"), certificate).unwrap();
    let file = setup.path("key.pem");
    fs::write(&file, key).unwrap();
    set_mode(&file, 0o600);
    let setup = setup.listeners(
        "[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"certificate.pem\", key = \"key.pem\" }",
    );
    (setup, file)
}

#[test]
fn a_key_that_the_server_may_not_read_is_a_mistake_unless_root_starts_it() {
    if !is_root() {
        return;
    }
    let (setup, key) = with_key();
    let user = format!("{SERVER}:{SERVER}");
    let (is_valid, errors) = check(&setup, &["--run-as", &user]);
    let expected = format!(
        "user {SERVER} may not read {0} (mode 600, owner root:root): chgrp {SERVER} {0} && chmod g+r {0}",
        key.display()
    );
    assert!(!is_valid && errors.contains(&expected), "{errors}");
    // The supervisor is root, and reads it.
    let (is_valid, errors) = check(&setup.server(&format!("user = \"{user}\"")), &[]);
    assert!(is_valid, "{errors}");
    assert!(!errors.contains("can read the key"), "{errors}");
}

#[test]
fn scripts_that_can_read_a_key_or_give_commands_are_a_warning() {
    if !is_root() {
        return;
    }
    let (setup, key) = with_key();
    give(&key, SERVER);
    fs::create_dir(setup.path("run")).unwrap();
    give(&setup.path("run"), SERVER);
    let setup = setup.server("control = \"run/c.sock\"");
    let (is_valid, errors) = check(&setup, &[]);
    assert!(is_valid, "{errors}");
    for expected in [
        format!("scripts that run as {SERVER} can read the key {}", key.display()),
        format!("scripts that run as {SERVER} can give the server commands"),
    ] {
        assert!(
            errors.contains(&expected) && errors.contains("script_user = "),
            "{errors}"
        );
    }
    let separated = format!("user = \"{SERVER}:{SERVER}\"\nscript_user = \"{ALICE}:{ALICE}\"");
    let (is_valid, errors) = check(&setup.server(&separated), &[]);
    assert!(is_valid && !errors.contains("scripts that run as"), "{errors}");
}

#[test]
fn scripts_that_reach_those_of_another_user_are_a_warning() {
    if !is_root() {
        return;
    }
    let mut setup = open_setup().server(&format!("user = \"{SERVER}:{SERVER}\""));
    for (name, user) in [("alice", ALICE), ("bob", BOB)] {
        setup = setup.file(&format!("{name}/cgi-bin/data"), "").script_route(
            &format!("/{name}/*"),
            &format!("directory = \"htdocs/{name}/cgi-bin\", mode = \"cgi\", user = \"{user}:{user}\""),
        );
    }
    let (is_valid, errors) = check(&setup, &[]);
    let directory = setup.path("htdocs/bob/cgi-bin");
    let expected = |verb: &str| {
        format!(
            "scripts that run as {ALICE} (those of sluice.toml:LINE) can {verb} {0}, whose scripts run as {BOB} (sluice.toml:LINE): chown {BOB}:{SERVER} {0} && chmod o-",
            directory.display()
        )
    };
    let without_lines = |errors: &str| -> String {
        let parts = errors
            .split("sluice.toml:")
            .map(|part| part.trim_start_matches(|letter: char| letter.is_ascii_digit()));
        parts.collect::<Vec<_>>().join("sluice.toml:LINE")
    };
    assert!(
        is_valid && without_lines(&errors).contains(&expected("read")),
        "{errors}"
    );
    set_mode(&directory, 0o777);
    assert!(without_lines(&check(&setup, &[]).1).contains(&expected("change")));
    for name in ["alice", "bob"] {
        set_mode(&setup.path(&format!("htdocs/{name}/cgi-bin")), 0o711);
    }
    let (is_valid, errors) = check(&setup, &[]);
    assert!(is_valid && !errors.contains("whose scripts run as"), "{errors}");
}

#[test]
fn places_that_a_user_reaches_are_one_warning_without_those_of_packages() {
    if !is_root() {
        return;
    }
    let mut setup = open_setup().server(&format!("user = \"{SERVER}:{SERVER}\""));
    let route = |path: &str, directory: &str, user: u32| {
        (
            path.to_owned(),
            format!("directory = \"{directory}\", mode = \"cgi\", user = \"{user}:{user}\""),
        )
    };
    let mut routes = vec![
        route("/reader/*", "htdocs/reader", ALICE),
        route("/package/*", "/usr/lib", BOB),
    ];
    for number in 0..7 {
        routes.push(route(&format!("/{number}/*"), &format!("htdocs/d{number}"), BOB));
    }
    for (path, keys) in &routes {
        let name = keys.split('"').nth(1).unwrap().trim_start_matches("htdocs/");
        if !name.starts_with('/') {
            setup = setup.file(&format!("{name}/data"), "");
        }
        setup = setup.script_route(path, keys);
    }
    let (is_valid, errors) = check(&setup, &[]);
    assert!(is_valid, "{errors}");
    let of_alice: Vec<&str> = errors
        .lines()
        .filter(|line| line.contains(&format!("scripts that run as {ALICE} ")))
        .collect();
    let [line] = of_alice[..] else { panic!("{errors}") };
    assert_eq!(
        line.matches(&format!("whose scripts run as {BOB} ")).count(),
        5,
        "{line}"
    );
    assert!(
        line.contains(&format!(
            "; and 2 more: give each of them to its user and to the group {SERVER} of the server, and chmod o-rwx it"
        )),
        "{line}"
    );
    assert!(!errors.contains("/usr/lib"), "{errors}");
}

#[test]
fn a_check_by_another_user_advises_to_run_it_as_root_and_never_to_open_a_key() {
    if !is_root() {
        return;
    }
    let (setup, _) = with_key();
    setup.write_configuration();
    let ordinary = "os.setgroups([]); os.setgid(65534); os.setuid(65534)";
    let mut command = sluice_testing::sluice_after(setup.directory(), ordinary);
    let checked = sluice_testing::run_command(command.args(["check", "-c", "sluice.toml"]));
    assert!(!checked.status.success());
    let errors = checked.errors;
    assert!(
        errors.contains("key.pem") && errors.contains("sudo sluice check"),
        "{errors}"
    );
    assert!(!errors.contains("chmod ") && !errors.contains("chgrp"), "{errors}");
}
