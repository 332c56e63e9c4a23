//! Where the server log goes and how its lines are shown: standard error, a file, the journal, a terminal, JSON.
//!
//! Not here: what messages say and how often (`server_log`).

use std::fs;
use std::path::Path;
use std::process::Command;

use sluice_testing::{Server, Setup, run, run_command, sluice, sluice_after, wait_until};

/// A script that writes a line to standard error.
const WARNS: &str = r"echo 'out of order' >&2; printf 'Content-Type: text/plain\n\ndone'";

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Waits until a file contains a text.
#[track_caller]
fn wait_for_text(server: &Server, name: &str, text: &str) -> String {
    let path = server.path(name);
    let found = wait_until(|| read(&path).contains(text));
    assert!(found, "no {text:?} in {name}:\n{}\n{}", read(&path), server.log());
    read(&path)
}

/// Whether a text begins as `2026-11-22T07:28:05.123Z` does.
fn has_time(line: &str) -> bool {
    line.len() > 24
        && line.as_bytes()[..24].iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            10 => *byte == b'T',
            13 | 16 => *byte == b':',
            19 => *byte == b'.',
            23 => *byte == b'Z',
            _ => byte.is_ascii_digit(),
        })
}

#[test]
fn a_start_is_three_lines_with_time_level_and_message() {
    let server = Setup::new().start();
    server.log_line("serving ");
    let log = server.log();
    // What depends on the machine.
    let is_of_machine = |line: &str| line.contains("running as root") || line.contains("cgroups ");
    let lines: Vec<&str> = log.lines().filter(|line| !is_of_machine(line)).collect();
    let own = format!(
        "configuration {} workers=2 pid={}",
        server.path("sluice.toml").display(),
        server.pid()
    );
    let address = format!("INFO  listening on http://{}/", server.address());
    let files = server.path("htdocs");
    let served = format!(
        "INFO  serving files of {0}; scripts of {0}/cgi-bin; access log: standard output, combined; server log: standard error",
        files.display()
    );
    assert_eq!(lines.len(), 3, "{log}");
    assert!(lines.iter().all(|line| has_time(line) && !line.contains("::")), "{log}");
    assert!(
        lines[0].contains("INFO  sluice 0.") && lines[0].ends_with(&own),
        "{}",
        lines[0]
    );
    assert!(lines[1].ends_with(&address) && lines[2].ends_with(&served), "{log}");
}

#[test]
fn modules_are_shown_at_level_debug_only() {
    let server = Setup::new()
        .log("access = \"off\"\nlevel = \"debug\"")
        .script("warns", WARNS)
        .start();
    assert_eq!(server.get("/cgi-bin/warns").text(), "done");
    let line = server.log_line("script process started");
    let expected = " DEBUG sluice_script::pool::lease: script process started: a request came, and there was none pid=";
    assert!(line.contains(expected), "{line}");
    let line = server.log_line("out of order");
    assert!(line.contains(" WARN  script: out of order site="), "{line}");
    server.log_line("DEBUG sluice::server_role::report:   /cgi-bin/*");
}

#[test]
fn a_level_hides_less_important_messages() {
    let server = Setup::new()
        .log("access = \"off\"\nlevel = \"warn\"\ndiagnostics = \"server.log\"")
        .script("warns", WARNS);
    // The harness waits for the address in the log, which such a server does not write.
    let server = server.environment("RUST_LOG", "info").start();
    assert_eq!(server.get("/cgi-bin/warns").text(), "done");
    wait_for_text(&server, "server.log", "out of order");
    let text = server.setup().configuration().replace("\"warn\"", "\"warm\"");
    fs::write(server.path("bad.toml"), text).unwrap();
    let ran = run(server.setup().directory(), &["check", "-c", "bad.toml"]);
    assert!(
        ran.errors.contains("level = \"warm\": must be \"error\", \"warn\""),
        "{}",
        ran.errors
    );
    let shown = run(server.setup().directory(), &["check", "-c", "sluice.toml"]);
    assert!(shown.output.contains("server.log, level warn"), "{}", shown.output);
}

#[test]
fn the_log_goes_to_a_file_that_is_reopened_and_never_sent() {
    let server = Setup::new()
        .log("access = \"off\"\ndiagnostics = \"htdocs/server.log\"")
        .script("warns", WARNS)
        .start();
    let started = wait_for_text(&server, "htdocs/server.log", "serving ");
    assert!(
        started.contains("listening on ") && started.lines().all(has_time),
        "{started}"
    );
    assert_eq!(server.get("/cgi-bin/warns").text(), "done");
    wait_for_text(&server, "htdocs/server.log", "WARN  script: out of order");
    assert!(!server.log().contains("out of order"), "{}", server.log());
    assert_eq!(server.get("/server.log").status, 404);

    fs::rename(server.path("htdocs/server.log"), server.path("old.log")).unwrap();
    server.signal("USR1");
    wait_for_text(&server, "htdocs/server.log", "the logs are opened again");
    assert_eq!(server.get("/cgi-bin/warns").text(), "done");
    wait_for_text(&server, "htdocs/server.log", "out of order");
    assert_eq!(read(&server.path("old.log")).matches("out of order").count(), 1);
    assert!(!server.stop().errors.contains("draining"));
}

#[test]
fn sighup_changes_the_file_level_and_kind_of_the_log() {
    let server = Setup::new().script("warns", WARNS).start();
    let text = server.setup().configuration();
    let with = |log: &str| text.replace("access = \"-\"", &format!("access = \"off\"\n{log}"));
    fs::write(
        server.path("sluice.toml"),
        with("diagnostics = \"server.log\"\njson = true"),
    )
    .unwrap();
    server.signal("HUP");
    wait_for_text(&server, "server.log", "is in force");
    assert_eq!(server.get("/cgi-bin/warns").text(), "done");
    let log = wait_for_text(&server, "server.log", "out of order");
    let line = log.lines().find(|line| line.contains("out of order")).unwrap();
    assert!(line.starts_with("{\"time\":\"2") && line.ends_with('}'), "{line}");
    assert!(
        line.contains("\"level\":\"warn\",\"message\":\"out of order\",\"source\":\"script\",\"site\":\""),
        "{line}"
    );
    assert!(line.contains("\"pid\":"), "{line}");

    fs::create_dir(server.path("directory.log")).unwrap();
    fs::write(server.path("sluice.toml"), with("diagnostics = \"directory.log\"")).unwrap();
    server.signal("HUP");
    wait_for_text(&server, "server.log", "directory.log\\\": is a directory");

    fs::write(server.path("sluice.toml"), &text).unwrap();
    server.signal("HUP");
    server.log_line("is in force");
    assert_eq!(server.get("/cgi-bin/warns").text(), "done");
    assert!(server.log_line("out of order").contains(" WARN  script: "));
    assert_eq!(read(&server.path("server.log")).matches("out of order").count(), 1);
}

#[test]
fn the_file_is_rotated_before_it_exceeds_its_size() {
    let many = r#"i=0; while [ $i -lt 60 ]; do printf '%0150d\n' $i >&2; i=$((i + 1)); done; printf 'Content-Type: text/plain\n\ndone'"#;
    let server = Setup::new()
        .log("access = \"off\"\ndiagnostics = \"server.log\"\nrotate_size = \"4KiB\"\nkeep = 1")
        .script("many", many)
        .start();
    assert_eq!(server.get("/cgi-bin/many").text(), "done");
    let rotated = || {
        let names = fs::read_dir(server.setup().directory()).unwrap().flatten();
        names
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("server.log.2"))
            .count()
    };
    assert!(wait_until(|| rotated() == 1), "{}", server.log());
    assert!(server.path("server.log").metadata().unwrap().len() <= 4096);
}

#[test]
fn a_log_that_cannot_be_written_is_reported_on_standard_error() {
    let server = Setup::new()
        .log("access = \"off\"\ndiagnostics = \"/dev/full\"")
        .file("a.txt", "a")
        .start();
    let line = server.log_line("No space left on device");
    assert!(line.contains("ERROR server log /dev/full: "), "{line}");
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn a_file_that_cannot_be_opened_ends_the_start() {
    let setup = Setup::new().log("access = \"off\"\ndiagnostics = \"htdocs/none/server.log\"");
    setup.write_configuration();
    let ran = run(setup.directory(), &["run", "-c", "sluice.toml"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        ran.errors.contains("diagnostics: no directory ") && ran.errors.contains("create it"),
        "{}",
        ran.errors
    );
}

#[test]
fn a_fifo_that_nobody_reads_ends_the_start() {
    for key in ["diagnostics", "access"] {
        let setup = Setup::new().log(&format!("{key} = \"fifo\""));
        setup.write_configuration();
        let made = Command::new("mkfifo").arg(setup.path("fifo")).status().unwrap();
        assert!(made.success());
        let ran = run(setup.directory(), &["run", "-c", "sluice.toml"]);
        assert_eq!(ran.status.code(), Some(1), "{}", ran.errors);
        assert!(
            ran.errors.contains("/fifo: is a FIFO that no program reads"),
            "{}",
            ran.errors
        );
        let checked = run(setup.directory(), &["check", "-c", "sluice.toml"]);
        let warning = "is a FIFO: the server does not start unless a program reads it";
        assert!(checked.errors.contains(warning), "{}{}", checked.output, checked.errors);
    }
}

#[test]
fn new_log_files_are_not_for_every_user() {
    use std::os::unix::fs::PermissionsExt;
    let server = Setup::new()
        .log("access = \"access.log\"\ndiagnostics = \"server.log\"")
        .start();
    for name in ["access.log", "server.log"] {
        let mode = server.path(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o137, 0, "{name}: {mode:o}");
    }
}

#[test]
fn the_reason_of_a_failed_start_is_in_the_file_too() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let setup = Setup::new().log("access = \"off\"\ndiagnostics = \"server.log\"");
    let text = setup.configuration().replace("127.0.0.1:0", &address);
    fs::write(setup.path("busy.toml"), text).unwrap();
    let ran = run(setup.directory(), &["run", "-c", "busy.toml"]);
    let log = read(&setup.path("server.log"));
    assert!(
        ran.errors.starts_with("sluice: listen on ") && ran.errors.lines().count() == 1,
        "{}",
        ran.errors
    );
    assert!(log.contains("ERROR listen on ") && log.contains("in use"), "{log}");
}

#[test]
fn the_journal_gets_priorities_and_no_times() {
    let journal = "about = os.fstat(2)\nos.environ['JOURNAL_STREAM'] = f'{about.st_dev}:{about.st_ino}'";
    let server = Setup::new().script("warns", WARNS).start_after(journal);
    assert_eq!(server.get("/cgi-bin/warns").text(), "done");
    assert!(server.log_line("listening on ").starts_with("<6>listening on "));
    assert!(
        server
            .log_line("out of order")
            .starts_with("<4>script: out of order site=")
    );
    drop(server);
    let setup = Setup::new();
    let failed = run_command(sluice_after(setup.directory(), journal).args(["check", "-c", "missing.toml"]));
    assert!(
        failed.errors.starts_with("<3>sluice: missing.toml: "),
        "{}",
        failed.errors
    );
    // The variable of another stream, which a program may have inherited, means nothing.
    let other = Setup::new().environment("JOURNAL_STREAM", "1:1").start();
    assert!(has_time(&other.log_line("listening on ")));
}

/// The output on a terminal of a check that warns.
fn check_on_terminal(setup: &Setup, no_color: Option<&str>) -> String {
    const SPAWN: &str = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    let own = sluice(setup.directory());
    let mut command = Command::new("python3");
    command
        .args(["-SEc", SPAWN])
        .arg(own.get_program())
        .args(["check", "-c", "sluice.toml"])
        .current_dir(setup.directory())
        .env_remove("NO_COLOR")
        .env("TERM", "xterm")
        .env_remove("RUST_LOG")
        .envs(no_color.map(|value| ("NO_COLOR", value)))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    run_command(&mut command).output
}

#[test]
fn a_terminal_gets_colours_unless_no_color_is_set() {
    use std::os::unix::fs::PermissionsExt;
    let setup = Setup::new();
    setup.write_configuration();
    fs::set_permissions(setup.path("sluice.toml"), fs::Permissions::from_mode(0o666)).unwrap();
    let coloured = check_on_terminal(&setup, None);
    assert!(
        coloured.contains("\u{1b}[33mWARN \u{1b}[0m") && coloured.contains("every user"),
        "{coloured:?}"
    );
    assert!(
        check_on_terminal(&setup, Some("")).contains("\u{1b}[33m"),
        "an empty value counts as absent"
    );
    let plain = check_on_terminal(&setup, Some("1"));
    assert!(plain.contains(" WARN  ") && !plain.contains('\u{1b}'), "{plain:?}");
}

#[test]
fn a_traceback_is_one_record_and_no_line_of_it_imitates_another() {
    const FORGED: &str = "2026-01-01T00:00:00.000Z ERROR forged";
    let script = format!(
        "#!/usr/bin/env python3\nimport os\nos.write(2, b'{FORGED} one\\n{FORGED} two\\x1b[2J\\n')\nraise ValueError('the cause')\n"
    );
    let server = Setup::new().script("fails", &script).start();
    assert_eq!(server.get("/cgi-bin/fails").status, 502);
    let cause = server.log_line("| ValueError: the cause");
    assert!(cause.starts_with("    | ") && !cause.contains("site="), "{cause}");
    server.log_line("status=502");
    let log = server.log();
    let first = log
        .lines()
        .position(|line| line.contains("script: ") && line.contains("site="))
        .unwrap();
    let lines: Vec<&str> = log
        .lines()
        .skip(first)
        .take_while(|line| !line.contains("ValueError"))
        .collect();
    assert!(lines[0].contains(" id=") && lines[0].contains("fails\""), "{log}");
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("    | Traceback (most recent call last):")),
        "{log}"
    );
    assert!(
        lines
            .iter()
            .any(|line| *line == format!("    | {FORGED} two\\u{{1b}}[2J")),
        "{log}"
    );
    assert!(!log.lines().any(|line| line.starts_with(FORGED)), "{log}");
    // The fault of the exchange, which the process has caused, comes after what it has written.
    assert!(
        log.find("the cause").unwrap() < log.find("status=502").unwrap(),
        "{log}"
    );
}
