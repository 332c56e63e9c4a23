//! `sluice passwd`, and what `sluice check` says about users files.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use super::{HASH, ask_as, setup, status};
use sluice_testing::{RunResult, Setup, run, run_command, sluice, spawn, wait_until, write_with_mode};

/// The result of `sluice passwd` with this password on standard input.
fn passwd(directory: &Path, arguments: &[&str], password: &str) -> RunResult {
    let input = directory.join("password");
    fs::write(&input, password).unwrap();
    let mut command = sluice(directory);
    command
        .arg("passwd")
        .args(arguments)
        .stdin(fs::File::open(&input).unwrap());
    run_command(&mut command)
}

#[test]
fn commands_at_once_lose_no_user() {
    let setup = Setup::new();
    let directory = setup.directory();
    fs::write(directory.join("password"), "secret\n").unwrap();
    let add = |number: u32| {
        let mut command = sluice(directory);
        let input = fs::File::open(directory.join("password")).unwrap();
        command.args(["passwd", "--create", "users", &format!("user{number}")]);
        run_command(command.stdin(input))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..12).map(|number| scope.spawn(move || add(number))).collect();
        for thread in threads {
            let result = thread.join().unwrap();
            assert!(result.status.success(), "{}", result.errors);
        }
    });
    let text = fs::read_to_string(setup.path("users")).unwrap();
    assert_eq!(text.lines().count(), 12, "{text}");
}

#[test]
fn passwords_are_set_removed_and_verified() {
    let setup = Setup::new();
    let directory = setup.directory();
    let file = setup.path("users");
    let missing = passwd(directory, &["users", "ann"], "secret\n");
    assert!(
        !missing.status.success() && missing.errors.contains("--create makes it"),
        "{}",
        missing.errors
    );
    let created = passwd(directory, &["--create", "users", "ann"], "secret\n");
    assert!(
        created.status.success() && created.output.contains("user \"ann\" added"),
        "{}",
        created.errors
    );
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert!(
        fs::read_to_string(&file)
            .unwrap()
            .starts_with("ann:$argon2id$v=19$m=19456,t=2,p=1$")
    );

    write_with_mode(
        &setup.path("real"),
        format!("# staff\nbob:{HASH}\n\neve:{HASH}\n").as_bytes(),
        0o640,
    );
    symlink("real", setup.path("link")).unwrap();
    assert!(passwd(directory, &["link", "bob"], "other").status.success());
    let text = fs::read_to_string(setup.path("real")).unwrap();
    assert!(
        text.starts_with("# staff\nbob:$argon2id$") && text.ends_with(&format!("\n\neve:{HASH}\n")),
        "{text}"
    );
    assert_eq!(fs::metadata(setup.path("real")).unwrap().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(setup.path("link")).unwrap().is_symlink());

    for (user, password, is_right) in [
        ("bob", "other", true),
        ("bob", "another", false),
        ("eve", "open sesame", true),
    ] {
        let verified = passwd(directory, &["--verify", "real", user], password);
        assert_eq!(verified.status.success(), is_right, "{user} {}", verified.errors);
    }
    assert!(passwd(directory, &["--delete", "real", "eve"], "").status.success());
    assert!(!fs::read_to_string(setup.path("real")).unwrap().contains("eve"));
    for (arguments, password, expected) in [
        (&["--delete", "real", "eve"][..], "", "there is no user \"eve\""),
        (&["real", "bob"], "", "the password is empty"),
        (&["real", "a:b"], "x", "a name has no colon"),
        (&["real", "#b"], "x", "begins with no \"#\""),
    ] {
        let refused = passwd(directory, arguments, password);
        assert!(
            !refused.status.success() && refused.errors.contains(expected),
            "{}",
            refused.errors
        );
    }
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(
        names
            .into_iter()
            .all(|name| !name.to_string_lossy().starts_with(".sluice-passwd"))
    );
}

#[test]
fn a_file_that_is_no_users_file_is_left_as_it_is() {
    let setup = setup();
    setup.write_configuration();
    let directory = setup.directory();
    for (name, line) in [("groups", "groups:1: "), ("sluice.toml", "sluice.toml:1: ")] {
        let before = fs::read(setup.path(name)).unwrap();
        for arguments in [
            &[name, "ann"][..],
            &["--create", name, "ann"],
            &["--delete", name, "ann"],
        ] {
            let refused = passwd(directory, arguments, "secret\n");
            let errors = &refused.errors;
            assert!(
                !refused.status.success() && errors.contains("this is no users file"),
                "{errors}"
            );
            assert!(errors.contains(line), "{errors}");
        }
        assert_eq!(fs::read(setup.path(name)).unwrap(), before);
    }
    // The line of the user may be wrong: the command puts it right.
    fs::write(setup.path("users"), format!("ann:secret\nbob:{HASH}:Bob\n")).unwrap();
    assert!(passwd(directory, &["users", "ann"], "secret\n").status.success());
    let refused = passwd(directory, &["--create", "none/users", "ann"], "secret\n");
    assert!(
        refused.errors.contains("there is no directory none: make it first"),
        "{}",
        refused.errors
    );
}

#[test]
fn the_terminal_does_not_show_the_password() {
    let setup = Setup::new();
    // script(1) gives the program a terminal, and copies what it shows.
    let program = env!("CARGO_BIN_EXE_sluice");
    let mut child = spawn(
        Command::new("script")
            .args(["--quiet", "--return", "--command"])
            .arg(format!("{program} passwd --create users ann"))
            .arg("/dev/null")
            .current_dir(setup.directory())
            .stdin(Stdio::piped())
            .stdout(fs::File::create(setup.path("shown")).unwrap()),
    )
    .unwrap();
    let shown = || fs::read_to_string(setup.path("shown")).unwrap();
    let mut input = child.stdin.take().unwrap();
    assert!(wait_until(|| shown().contains("Password: ")), "{}", shown());
    input.write_all(b"open sesame\n").unwrap();
    assert!(wait_until(|| shown().contains("The same again: ")), "{}", shown());
    input.write_all(b"open sesame\n").unwrap();
    assert!(child.wait().unwrap().success(), "{}", shown());
    assert!(!shown().contains("sesame"), "{}", shown());
    assert!(
        passwd(setup.directory(), &["--verify", "users", "ann"], "open sesame")
            .status
            .success()
    );
}

#[test]
fn a_running_server_takes_a_new_password() {
    let server = setup()
        .route("path = \"/secret/*\"\naccess = { users = \"users\" }")
        .start();
    assert_eq!(ask_as(&server, "ann", "GET", "/secret/a.txt").status, 200);
    assert!(passwd(&server.path(""), &["users", "ann"], "changed").status.success());
    let old = || ask_as(&server, "ann", "GET", "/secret/a.txt").status;
    assert!(wait_until(|| old() == 401), "the old password is accepted");
    assert_eq!(
        status(&server, "GET", "/secret/a.txt", &super::basic("ann", "changed")),
        200
    );
}

#[test]
fn check_warns_of_files_and_names() {
    let setup = setup().route(
        "path = \"/secret/*\"\naccess = { users = \"users\", groups = \"groups\", allow = [\"group:admins\", \"user:zedd\"] }",
    )
    .route("path = \"/other/*\"\naccess = { users = \"users\" }");
    setup.write_configuration();
    write_with_mode(
        &setup.path("users"),
        b"ann:{SHA}W8r/fyL/UzygmbNAjq2HbA67qac=\nzed:{SHA}W8r/fyL/UzygmbNAjq2HbA67qac=\n",
        0o644,
    );
    write_with_mode(&setup.path("groups"), b"staff: ann bob\nempty:\n", 0o600);
    let text = run(setup.directory(), &["check"]).errors;
    assert_eq!(text.matches("weak hash").count(), 1, "{text}");
    for expected in [
        "users: weak hash of ann, zed: {SHA} is SHA-1",
        "users: every user of this machine may read it (mode 644): chmod o=",
        "group \"admins\" is not in /",
        "/users; did you mean \"zed\"?",
        "groups: group \"empty\" has no users",
        "groups: user \"bob\" is not in /",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}
