//! Configurations with directories and files whose file systems do not answer: starts, reloads and checks go on without them, and nothing hangs.

use std::time::{Duration, Instant};

use sluice_testing::{
    HeldDirectory, Response, Server, Setup, SilentFuse, child_of, is_alive, signal, sluice, wait_until,
};

/// A start, reload or check with a file system that does not answer takes no longer.
const IN_TIME: Duration = Duration::from_secs(8);

/// A server process that waits for one is abandoned within ten seconds.
const ENDS_IN_TIME: Duration = Duration::from_secs(16);

/// Much less than the time for which such a file system is waited for.
const AT_ONCE: Duration = Duration::from_secs(3);

const FILES: &[(&str, &str)] = &[
    ("a.txt", "a"),
    ("run", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\na'\n"),
    ("more.toml", ""),
    (
        "users",
        "ann:$2y$05$abcdefghijklmnopqrstuuF0V7D6Y4W1G3oRqGqIvd6Xf1yYbhm6\n",
    ),
];

const SILENT: &str = "its file system does not answer, or a process holds its directory";

fn setup() -> Setup {
    Setup::new()
        .workers(1)
        .file("local.txt", "local")
        .script("local", "printf 'Content-Type: text/plain\n\nlocal'")
}

/// Adds two directories: files, and scripts.
fn with_directories(setup: Setup) -> Setup {
    setup
        .route("path = \"/files/*\"\ndirectory = \"silent\"")
        .script_route("/run/*", "directory = \"scripts\"")
}

#[track_caller]
fn assert_others_are_answered(server: &Server) {
    for path in ["/local.txt", "/cgi-bin/local"] {
        assert_eq!(server.get(path).text(), "local", "{path}");
    }
}

#[track_caller]
fn assert_refused(response: &Response) {
    assert_eq!(response.status, 503, "{}", response.text());
    assert!(response.field("retry-after").is_some());
}

/// Adds lines to the configuration of a server, as the last ones of its site.
fn add_to_site(server: &Server, lines: &str) {
    let file = server.path("sluice.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}\n{lines}\n")).unwrap();
}

/// The server ends within its time, whatever file system is silent.
#[track_caller]
fn assert_ends(server: Server, silent: SilentFuse) {
    let begun = Instant::now();
    server.signal("TERM");
    assert!(wait_until(|| !is_alive(server.pid())), "{}", server.log());
    assert!(begun.elapsed() < ENDS_IN_TIME, "{:?}", begun.elapsed());
    // A process that hangs has the server's standard error, too.
    drop(silent);
    server.wait_end();
}

#[test]
fn a_start_with_directories_that_do_not_answer_serves_the_rest_and_opens_them_later() {
    let setup = with_directories(setup());
    let Some(mut silent) = SilentFuse::mount(&setup.path("silent"), FILES) else {
        return;
    };
    let mut scripts = SilentFuse::mount(&setup.path("scripts"), FILES).expect("as the first one");
    silent.fall_silent();
    scripts.fall_silent();
    let begun = Instant::now();
    let server = setup.start();
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    assert_others_are_answered(&server);
    for directory in ["/silent: ", "/scripts: "] {
        let line = server.log_line(&format!("{directory}{SILENT}"));
        assert!(line.contains("503"), "{line}");
    }
    for path in ["/files/a.txt", "/run/run"] {
        assert_refused(&server.get(path));
    }
    assert_others_are_answered(&server);
    silent.answer();
    scripts.answer();
    for path in ["/files/a.txt", "/run/run"] {
        assert!(
            wait_until(|| server.get(path).text() == "a"),
            "{path}: {}",
            server.log()
        );
    }
    silent.fall_silent();
    assert_ends(server, silent);
}

#[test]
fn a_reload_with_directories_that_do_not_answer_serves_the_rest_and_the_server_ends_in_time() {
    let setup = setup();
    let Some(mut silent) = SilentFuse::mount(&setup.path("silent"), FILES) else {
        return;
    };
    silent.fall_silent();
    let server = setup.start();
    add_to_site(&server, "[[site.route]]\npath = \"/files/*\"\ndirectory = \"silent\"");
    let begun = Instant::now();
    let reloaded = super::command(&server, &["reload"]);
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    assert!(reloaded.status.success(), "{}", reloaded.output);
    assert!(reloaded.output.contains(SILENT), "{}", reloaded.output);
    assert_others_are_answered(&server);
    assert_refused(&server.get("/files/a.txt"));
    // Another one, while the threads of the first one still wait.
    let begun = Instant::now();
    assert!(super::command(&server, &["reload"]).status.success());
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    assert_ends(server, silent);
}

#[test]
fn a_held_directory_is_opened_later() {
    let setup = setup().route("path = \"/files/*\"\ndirectory = \"held/d\"");
    std::fs::create_dir_all(setup.path("held")).unwrap();
    let Some(held) = HeldDirectory::hold(&setup.path("held"), &setup.path("memory")) else {
        return;
    };
    let begun = Instant::now();
    let server = setup.start();
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    server.log_line(SILENT);
    assert_others_are_answered(&server);
    assert_refused(&server.get("/files/a.txt"));
    drop(held);
    std::fs::create_dir_all(server.path("held/d")).unwrap();
    std::fs::write(server.path("held/d/a.txt"), "a").unwrap();
    assert!(
        wait_until(|| server.get("/files/a.txt").text() == "a"),
        "{}",
        server.log()
    );
    // It has one more descriptor than at its start.
    server.signal("TERM");
    server.wait_end();
}

#[test]
fn a_reload_of_a_file_that_does_not_answer_is_refused_while_the_supervisor_restarts_and_ends() {
    let server = setup().start();
    let Some(mut silent) = SilentFuse::mount(&server.path("silent"), FILES) else {
        return;
    };
    let text = std::fs::read_to_string(server.path("sluice.toml")).unwrap();
    std::fs::write(
        server.path("sluice.toml"),
        format!("include = \"silent/more.toml\"\n{text}"),
    )
    .unwrap();
    assert!(super::command(&server, &["reload"]).status.success());
    silent.fall_silent();
    server.signal("HUP");
    silent.await_request();
    // Nobody waits with it.
    let begun = Instant::now();
    let old = server.server_pid();
    assert!(signal(old, "KILL"));
    super::next_server_process(&server, old);
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    // That process asks where the file is, which must not be sent.
    assert_others_are_answered(&server);
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    server.log_line("silent/more.toml");
    server.log_line("nothing has changed");
    let begun = Instant::now();
    let refused = super::command(&server, &["reload"]);
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    assert!(!refused.status.success());
    for part in ["silent/more.toml", SILENT, "nothing has changed"] {
        assert!(refused.output.contains(part), "{part}: {}", refused.output);
    }
    server.signal("HUP");
    silent.await_request();
    assert_ends(server, silent);
}

#[test]
fn a_users_file_and_a_log_that_do_not_answer_refuse_a_reload() {
    let server = setup().start();
    let Some(mut silent) = SilentFuse::mount(&server.path("silent"), FILES) else {
        return;
    };
    silent.fall_silent();
    let users = "[[site.route]]\npath = \"/private/*\"\naccess = { users = \"silent/users\", allow = [\"any-user\"] }\ndirectory = \"htdocs\"";
    let text = std::fs::read_to_string(server.path("sluice.toml")).unwrap();
    for (changed, part) in [
        (format!("{text}\n{users}\n"), "silent/users"),
        (
            text.replace("access = \"-\"", "access = \"silent/access.log\""),
            "silent",
        ),
    ] {
        std::fs::write(server.path("sluice.toml"), changed).unwrap();
        let begun = Instant::now();
        let refused = super::command(&server, &["reload"]);
        assert!(begun.elapsed() < IN_TIME, "{part}: {:?}", begun.elapsed());
        assert!(!refused.status.success(), "{part}: {}", refused.output);
        for part in [part, "does not answer"] {
            assert!(refused.output.contains(part), "{part}: {}", refused.output);
        }
        assert_others_are_answered(&server);
    }
    assert_ends(server, silent);
}

#[test]
fn a_check_names_what_does_not_answer_and_goes_on_with_the_rest() {
    let setup = with_directories(setup()).route("path = \"/other/*\"\ndirectory = \"missing\"");
    std::fs::create_dir(setup.path("scripts")).unwrap();
    let Some(mut silent) = SilentFuse::mount(&setup.path("silent"), FILES) else {
        return;
    };
    silent.fall_silent();
    setup.write_configuration();
    let begun = Instant::now();
    let checked = sluice_testing::run(setup.directory(), &["check"]);
    assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    assert_eq!(checked.status.code(), Some(1));
    for part in [SILENT, "silent", "no directory", "missing"] {
        assert!(checked.errors.contains(part), "{part}: {}", checked.errors);
    }
    silent.answer();
    std::fs::create_dir(setup.path("missing")).unwrap();
    let checked = sluice_testing::run(setup.directory(), &["check"]);
    assert!(checked.status.success(), "{}", checked.errors);
}

/// Kills the child with this name, which waits for the file system, and has that answer.
#[track_caller]
fn kill_child(pid: u32, name: &str, silent: &mut SilentFuse) {
    silent.await_request();
    assert!(signal(child_of(pid, name).unwrap(), "KILL"));
    silent.answer();
}

const READER_DIED: &str = "sluice.toml: the process that reads it was killed by signal 9 (SIGKILL)";

#[test]
fn what_has_killed_the_reader_is_not_read_by_the_supervisor() {
    let server = setup().start();
    let Some(mut silent) = SilentFuse::mount(&server.path("silent"), FILES) else {
        return;
    };
    let text = std::fs::read_to_string(server.path("sluice.toml")).unwrap();
    let changed = format!("include = \"silent/more.toml\"\n{text}");
    std::fs::write(server.path("sluice.toml"), changed).unwrap();
    silent.fall_silent();
    server.signal("HUP");
    kill_child(server.pid(), "sluice: reader", &mut silent);
    let line = server.log_line(READER_DIED);
    assert!(line.contains("nothing has changed"), "{line}");
    assert!(!server.log().contains("is in force"), "{}", server.log());
    assert_others_are_answered(&server);
    let reloaded = super::command(&server, &["reload"]);
    assert!(reloaded.status.success(), "{}", reloaded.output);

    for (arguments, name, code, message) in [
        (
            &["run", "--allow-root", "-c", "sluice.toml"][..],
            "sluice: reader",
            1,
            READER_DIED,
        ),
        (
            &["check"],
            "sluice: check",
            137,
            "the process that checks: ended by signal 9 (SIGKILL)",
        ),
    ] {
        silent.fall_silent();
        let child = sluice(server.setup().directory()).args(arguments).spawn().unwrap();
        kill_child(child.id(), name, &mut silent);
        let ended = child.wait_with_output().unwrap();
        let errors = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(code), "{errors}");
        assert!(errors.contains(message), "{errors}");
    }
    server.stop();
}

#[test]
fn a_log_that_does_not_answer_keeps_no_other_from_being_opened_again() {
    let setup = setup()
        .log("access = \"access.log\"")
        .sites("[[site]]\nhosts = [\"other\"]\nroot = \"htdocs\"\nlog = { access = \"silent/site.log\" }");
    let Some(mut silent) = SilentFuse::mount(&setup.path("silent"), &[("site.log", "")]) else {
        return;
    };
    let server = setup.start();
    let rename = |name: &str| std::fs::rename(server.path("access.log"), server.path(name)).unwrap();
    silent.fall_silent();
    // The first one finds it, a later one has threads that wait.
    for old in ["access.log.1", "access.log.2"] {
        rename(old);
        let begun = Instant::now();
        let reopened = super::command(&server, &["log", "reopen"]);
        assert!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
        assert!(reopened.status.success(), "{}", reopened.output);
        for part in [
            "silent/site.log: its directory does not answer",
            "the other logs are opened again",
        ] {
            assert!(reopened.output.contains(part), "{part}: {}", reopened.output);
        }
        server.get(&format!("/after-{old}"));
        let read = || std::fs::read_to_string(server.path("access.log")).unwrap_or_default();
        assert!(wait_until(|| read().contains(&format!("/after-{old}"))));
    }
    silent.answer();
    let reopened = super::command(&server, &["log", "reopen"]);
    assert!(
        reopened.output.contains("the logs are opened again"),
        "{}",
        reopened.output
    );
    server.stop();
}
