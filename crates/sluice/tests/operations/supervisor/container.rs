//! The server as process 1 of a container: in a PID namespace of its own. Needs root.

use std::process::{Command, Stdio};

use rustix::process::geteuid;

use super::note;
use sluice_testing::{Setup, is_alive, run_command, signal, wait_until};

/// Continues as process 1 of a new PID namespace with its own /proc; the process outside passes signals on, and its status.
const AS_FIRST: &str = "
import ctypes, signal
libc = ctypes.CDLL(None, use_errno=True)
NEWPID, NEWNS, PRIVATE = 0x20000000, 0x20000, 0x44000
assert libc.unshare(NEWPID | NEWNS) == 0, 'unshare'
# The mount below lies on this one. `/` need not be a mount point, as in a chroot.
assert libc.mount(b'none', b'/proc', None, PRIVATE, None) == 0, 'a private /proc'
first = os.fork()
if first:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: os.kill(first, number))
    os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) & 0xff)
assert libc.mount(b'proc', b'/proc', b'proc', 0, None) == 0, '/proc'
";

fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

#[test]
fn process_1_reaps_orphans_and_the_death_of_a_server_process_ends_only_its_own() {
    if !geteuid().is_root() {
        return note("skipped: a PID namespace needs root");
    }
    let kept = r#"while read -r line <&3; do
    if [ -z "$line" ]; then printf 'Content-Type: text/plain\n\nkept%s\n' "$CGIPLUSEOF"; fi
done
sleep 1000"#;
    let server = Setup::new()
        .file("a.txt", "a")
        .script("kept", kept)
        .start_after(AS_FIRST);
    let first = children(server.pid())[0];
    let supervisor = children(first)[0];
    let old = children(supervisor)[0];
    assert_eq!(server.get("/cgiplus-bin/kept").text(), "kept");
    let script = children(old);
    // What `docker exec` starts: its parent is outside, and an orphan of it becomes a child of process 1.
    let exec = [
        "--pid",
        "--target",
        &first.to_string(),
        "sh",
        "-c",
        "sleep 1000 >/dev/null 2>&1 &",
    ];
    assert!(
        run_command(
            Command::new("nsenter")
                .args(exec)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
        )
        .status
        .success()
    );
    let foreign = || children(first).into_iter().find(|pid| *pid != supervisor);
    assert!(wait_until(|| foreign().is_some()));
    let foreign = foreign().unwrap();
    assert!(signal(old, "KILL"));
    assert!(wait_until(|| children(supervisor)
        .iter()
        .any(|pid| *pid != old && !script.contains(pid))));
    assert_eq!(server.get("/a.txt").text(), "a");
    assert!(wait_until(|| !script.iter().any(|pid| is_alive(*pid))), "{script:?}");
    assert!(is_alive(foreign));
    assert!(signal(foreign, "KILL"));
    assert!(
        wait_until(|| !children(first).contains(&foreign)),
        "an orphan is not reaped"
    );
    server.signal("HUP");
    server.log_line("SIGHUP: sluice.toml is in force");
    assert!(server.stop().status.success());
}
