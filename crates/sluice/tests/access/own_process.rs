//! The server's own process: the signals and limits that it inherits, what scripts of its user can see of it, and root.

use std::io::Write;

use sluice_testing::{Server, Setup, make_old, run_command, sluice, sluice_after, warnings_and_errors};

/// A file-size limit that a request body of `LARGE_CHUNKS` chunks exceeds.
const FILE_LIMIT: &str = "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))";
const LARGE_CHUNKS: usize = 40;

/// Sends a chunked body of 64 KiB chunks, as far as the server takes it; returns the status.
fn upload(server: &Server, chunks: usize) -> u16 {
    let mut client = server.connect();
    let mut sender = client.sender();
    let sending = std::thread::spawn(move || {
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        let head = "POST /cgi-bin/count HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n";
        let _ = sender.write_all(head.as_bytes());
        let is_sent = (0..chunks).all(|_| sender.write_all(chunk.as_bytes()).is_ok());
        let _ = is_sent && sender.write_all(b"0\r\n\r\n").is_ok();
    });
    let status = client.response().status;
    drop(client);
    sending.join().unwrap();
    status
}

#[test]
fn upload_past_the_file_size_limit_is_answered_and_the_server_lives_on() {
    let server = Setup::new()
        .script("count", r#"printf 'Content-Type: text/plain\n\n%s' "$(wc -c)""#)
        // Its file is larger than the limit, which would be one more message.
        .server("state_directory = \"off\"")
        .start_after(FILE_LIMIT);
    for _ in 0..3 {
        assert_eq!(upload(&server, LARGE_CHUNKS), 507);
        assert_eq!(upload(&server, 2), 200);
    }
    let line = server.log_line("status=507");
    assert!(line.contains("request body cannot be stored: File too large"), "{line}");
    let ended = server.stop();
    assert_eq!(warnings_and_errors(&ended.errors).len(), 3, "{}", ended.errors);
}

#[test]
fn access_log_at_the_file_size_limit_is_reported_and_the_server_lives_on() {
    let server = Setup::new()
        .log("access = \"access.log\"")
        .start_after("resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))");
    let mut client = server.connect();
    for _ in 0..200 {
        assert_eq!(client.get("/health.txt").response().status, 200);
    }
    server.log_line("File too large");
    assert_eq!(client.get("/health.txt").response().status, 200);
    let logged = std::fs::metadata(server.path("access.log")).unwrap().len();
    assert_eq!(logged, 4096);
}

#[test]
fn record_file_that_cannot_be_rewritten_for_its_size_is_sent() {
    let records: Vec<u8> = b"\x04\0line".repeat(300_000);
    let server = Setup::new()
        .route("path = \"/vms/*\"\nfiles = { directory = \"htdocs/vms\", record_format = \"variable\", convert = \"rewrite\" }")
        .file("vms/large.txt", &records)
        .start_after(FILE_LIMIT);
    make_old(&server.path("htdocs/vms/large.txt"));
    for _ in 0..2 {
        assert_eq!(server.get("/vms/large.txt").text(), "line\n".repeat(300_000));
    }
    server.log_line("File too large");
    assert_eq!(std::fs::read(server.path("htdocs/vms/large.txt")).unwrap(), records);
}

#[test]
fn signals_that_the_server_inherits_ignored_or_blocked_affect_neither_it_nor_its_scripts() {
    let inherited = "
for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
";
    let server = Setup::new()
        .script(
            "masks",
            "printf 'Content-Type: text/plain\\n\\n'; exec grep -E '^Sig(Ign|Blk)' /proc/self/status",
        )
        .start_after(inherited);
    for _ in 0..3 {
        let response = server.get("/cgi-bin/masks");
        assert_eq!(
            response.text(),
            "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
        );
    }
    // SIGTERM ends the server, and no process was reaped by the kernel.
    let ended = server.stop();
    assert_eq!(warnings_and_errors(&ended.errors), Vec::<String>::new());
}

/// A script that tries to look into the server process, whose number is the query, and into its parent, the launcher, and prints what comes
/// of it.
const SPY: &str = r#"
server = "/proc/%s/" % os.environ["QUERY_STRING"]
launcher = "/proc/%d/" % os.getppid()
def attempt(act):
    try:
        act()
        return "done"
    except OSError as error:
        return type(error).__name__
words = [
    attempt(lambda: open(server + "mem", "rb").close()),
    attempt(lambda: os.listdir(server + "fd")),
    attempt(lambda: open(server + "environ", "rb").read()),
    attempt(lambda: open(launcher + "mem", "rb").close()),
    attempt(lambda: os.listdir(launcher + "fd")),
    attempt(lambda: open("/proc/self/environ", "rb").read()),
]
put(HEAD + ("%s %s" % (os.getuid() != 0, " ".join(words))).encode())
"#;

#[test]
fn script_of_the_same_user_cannot_read_the_servers_memory_descriptors_and_environment() {
    let refused = "PermissionError PermissionError PermissionError";
    for (keys, expected) in [("", refused), ("core_dumps = true", "done done done")] {
        let server = Setup::new()
            .server(keys)
            .python("spy", SPY)
            .file("a.txt", "a")
            .start_after("become_ordinary_user()");
        assert_eq!(
            server.get(&format!("/cgi-bin/spy?{}", server.server_pid())).text(),
            format!("True {expected} PermissionError PermissionError done"),
            "{keys}"
        );
        // The server itself reads its descriptors (/proc/self/fd) as before.
        assert_eq!(server.get("/a.txt").text(), "a");
    }
}

#[test]
fn root_needs_consent_except_for_the_demo_on_this_machine() {
    let setup = Setup::new();
    setup.write_configuration();
    for arguments in [
        &["serve", "htdocs", "--listen", "127.0.0.1:0"][..],
        &["run", "-c", "sluice.toml"],
        &["demo", "--listen", ":0"],
    ] {
        if !is_root() {
            break;
        }
        let ran = run_command(sluice(setup.directory()).args(arguments));
        assert_eq!(ran.status.code(), Some(1), "{arguments:?}: {}", ran.errors);
        assert!(
            ran.errors.starts_with("sluice: running as root is refused"),
            "{}",
            ran.errors
        );
        assert!(
            ran.errors.contains("--allow-root") && ran.errors.lines().count() == 1,
            "{}",
            ran.errors
        );
        // Only a configuration can name a user.
        assert_eq!(ran.errors.contains("[server]"), arguments[0] == "run", "{}", ran.errors);
    }
    let ran = run_command(sluice(setup.directory()).args(["check", "-c", "sluice.toml"]));
    assert!(ran.status.success(), "{}", ran.errors);
    assert_eq!(
        ran.errors.contains("refuses to run as root"),
        is_root(),
        "{}",
        ran.errors
    );
    // An ordinary user needs no consent.
    let arguments = ["serve", "nowhere"];
    let ran = run_command(sluice_after(setup.directory(), "become_ordinary_user()").args(arguments));
    assert!(ran.errors.contains("cannot serve nowhere"), "{}", ran.errors);
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}
