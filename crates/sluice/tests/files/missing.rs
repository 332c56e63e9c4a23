//! Programs and directories that the configuration names and that do not exist yet.

use sluice_testing::{Server, Setup, run, run_command, signal, sluice_after, write_script};

const SHOW: &str = r#"printf 'Content-Type: text/plain\n\n%s' "$SCRIPT_NAME""#;

fn setup() -> Setup {
    Setup::new()
        .file("cgi-bin/page.foo", "a page")
        .route("path = \"/later/*\"\nfiles = { directory = \"mounted/later\", listing = true }")
        .script_route("/app/*", "file = \"bin/app\"")
        .script_route("/tools/*", "directory = \"tools\"")
        .cgi("interpreters = { \".foo\" = \"bin/interpreter\" }, send_files = { \"/sent/\" = \"sent\" }")
        .script("send", "printf 'X-Accel-Redirect: /sent/a.txt\\n\\n'")
}

/// The paths that need what is missing, and what is missing for them.
const PATHS: [(&str, &str); 5] = [
    ("/later/a.txt", "mounted/later"),
    ("/app/x", "bin/app"),
    ("/tools/run", "tools"),
    ("/cgi-bin/page.foo", "bin/interpreter"),
    ("/cgi-bin/send", "sent"),
];

/// Makes everything that is missing.
fn make(server: &Server) {
    for directory in ["mounted/later", "sent"] {
        std::fs::create_dir_all(server.path(directory)).unwrap();
        std::fs::write(server.path(directory).join("a.txt"), "/a.txt").unwrap();
    }
    write_script(&server.path("bin/app"), SHOW);
    write_script(&server.path("tools/run"), SHOW);
    write_script(&server.path("bin/interpreter"), SHOW);
}

#[test]
fn a_server_starts_without_a_program_or_directory_and_answers_503_until_it_exists() {
    let server = setup().start();
    for (path, missing) in PATHS {
        let response = server.get(path);
        assert_eq!(response.status, 503, "{path}");
        assert!(response.field("retry-after").is_some(), "{path}");
        server.log_line(&format!(
            "GET {path}: {} does not exist",
            server.path(missing).display()
        ));
    }
    assert_eq!(server.get("/later/").status, 503);
    assert_eq!(server.get("/health.txt").status, 200);
    let warning = server.log_line("no directory");
    assert!(
        warning.contains("WARN") && warning.contains("sluice.toml:"),
        "{warning}"
    );
    assert!(warning.contains("until it exists the answer is 503"), "{warning}");
    make(&server);
    for (path, _) in PATHS {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    assert_eq!(server.get("/later/a.txt").text(), "/a.txt");
    assert_eq!(server.get("/later/none.txt").status, 404);
    assert_eq!(server.get("/app/x").text(), "/app");
    assert!(server.get("/later/").text().contains("a.txt"));
    // It has more directories open than at its start.
    assert!(server.stop().status.success());
}

#[test]
fn check_reports_what_is_missing_as_a_mistake() {
    let setup = setup();
    setup.write_configuration();
    let checked = run(setup.directory(), &["check", "-c", "sluice.toml"]);
    assert_eq!(checked.status.code(), Some(1));
    for missing in ["mounted/later", "bin/app", "tools", "bin/interpreter", "sent"] {
        assert!(checked.errors.contains(missing), "{missing} in {}", checked.errors);
    }
}

#[test]
fn a_reload_accepts_what_is_missing_and_a_source_that_appears_later_is_not_sent() {
    let server = Setup::new().start();
    let file = server.path("sluice.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let route = "[[site.route]]\npath = \"/tools/*\"\nscript = { directory = \"htdocs/private/tools\" }\n";
    std::fs::write(&file, format!("{text}\n{route}")).unwrap();
    signal(server.pid(), "HUP");
    server.log_line("SIGHUP: sluice.toml:");
    server.log_line("is in force");
    assert_eq!(server.get("/tools/run").status, 503);
    write_script(&server.path("htdocs/private/tools/run"), SHOW);
    assert_eq!(server.get("/tools/run").text(), "/tools/run");
    assert_eq!(server.get("/private/tools/run").status, 404);
}

/// Removes openat2(2) (number 437 on every architecture), as systemd does for a unit with RestrictSUIDSGID=.
const WITHOUT_OPENAT2: &str = "
import ctypes, struct
program = b''.join(struct.pack('HBBI', *line) for line in [(0x20, 0, 0, 0), (0x15, 0, 1, 437), (0x06, 0, 0, 0x50026), (0x06, 0, 0, 0x7fff0000)])
memory = ctypes.create_string_buffer(program)
filter = struct.pack('HxxxxxxQ', 4, ctypes.addressof(memory))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter, 0, 0) == 0
";

#[test]
fn a_kernel_without_openat2_is_reported_before_the_first_request() {
    let setup = Setup::new().file("a.txt", "a");
    setup.write_configuration();
    let result = run_command(sluice_after(setup.directory(), WITHOUT_OPENAT2).arg("check"));
    assert!(!result.status.success(), "{}", result.output);
    assert!(
        result.errors.contains("openat2(2) is not available") && result.errors.contains("RestrictSUIDSGID="),
        "{}",
        result.errors
    );
}
