//! Processes that a script starts end with it, also daemons: processes in sessions of their own that ignore signals.
//!
//! With cgroups, where the user of the tests may create them, and without. Not here: processes within the session (`bad_scripts`).

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{for_each_user, is_root, skip};
use sluice_testing::{Server, Setup, is_alive, launchers_of, signal, wait_until};

/// The last step of a daemon: it executes a program, with this environment.
fn executes(environment: &str) -> String {
    format!("os.execve('/bin/sleep', ['sleep', '1000'], {environment})")
}

/// Starts a daemon as daemons are: double fork, a session of its own, signals ignored. `last` is what it does then.
fn daemon(last: &str) -> String {
    format!(
        r#"
def start_daemon():
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
                signal.signal(number, signal.SIG_IGN)
            os.write(writer, b"%d" % os.getpid())
            for fd in range(8):
                try:
                    os.close(fd)
                except OSError:
                    pass
            {last}
        os._exit(0)
    os.wait()
    os.close(writer)
    return os.read(reader, 100)
"#
    )
}

/// A setup with a CGI script and a kept process, both of which start a daemon and print its number.
fn setup(last: &str) -> Setup {
    let daemon = daemon(last);
    Setup::new()
        .python("once", &format!("{daemon}\nput(HEAD + start_daemon())"))
        .python(
            "kept",
            &format!("{daemon}\nwhile accept():\n    put(HEAD + start_daemon())\n    finish()"),
        )
        .python(
            "hangs",
            &format!(
                "{daemon}\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nreport('begun', start_daemon().decode())\nwhile True:\n    signal.pause()"
            ),
        )
        .cgi("kill_grace = \"50ms\"")
}

fn number(server: &Server, path: &str) -> u32 {
    let response = server.get(path);
    assert_eq!(response.status, 200, "{}", server.log());
    response.text().parse().unwrap()
}

#[track_caller]
fn assert_ends(server: &Server, pid: u32) {
    assert!(wait_until(|| !is_alive(pid)), "{pid} is left\n{}", server.log());
}

#[track_caller]
fn check(server: &Server) {
    for _ in 0..2 {
        assert_ends(server, number(server, "/cgi-bin/once"));
    }
    // That of a kept process lives as long as the process.
    let kept = number(server, "/cgiplus-bin/kept");
    assert_ends(server, number(server, "/cgi-bin/once"));
    assert!(is_alive(kept), "a process of another script was ended");
    server.signal("HUP");
    assert_ends(server, kept);
    // A script that is stopped because its client has left.
    let begun = server.setup().event_fifo("begun");
    // The scripts may run as another user than this test.
    std::fs::set_permissions(server.path("begun"), Permissions::from_mode(0o666)).unwrap();
    let mut client = server.connect();
    client.get("/cgi-bin/hangs");
    let hanging: u32 = begun.line().parse().unwrap();
    drop(client);
    assert_ends(server, hanging);
}

#[test]
fn daemons_end_with_their_script() {
    for_each_user(|| setup(&executes("os.environ")), |server, _| check(server));
    check(&setup(&executes("os.environ")).limits("cgroups = false").start());
}

#[test]
fn daemons_get_a_term_signal_first_so_that_they_can_remove_what_they_have_made() {
    let script = r#"
printf 'Content-Type: text/plain\n\n'
setsid sh -c 'trap "echo cleaned > \"$TEST_DIR/cleaned\"; exit" TERM; echo up > "$TEST_DIR/up"; sleep 1000 & wait' </dev/null >/dev/null 2>&1 &
read -r line < "$TEST_DIR/up"
echo done"#;
    for cgroups in ["true", "false"] {
        let setup = Setup::new()
            .limits(&format!("cgroups = {cgroups}"))
            .script("daemon", script);
        let (cleaned, _up) = (setup.event_fifo("cleaned"), setup.gate("up"));
        let server = setup.start();
        assert_eq!(server.get("/cgi-bin/daemon").text(), "done\n");
        assert_eq!(cleaned.line(), "cleaned", "cgroups = {cgroups}\n{}", server.log());
        server.wait_for_processes(0);
    }
}

#[test]
fn daemons_end_whose_environment_is_cleared_or_cannot_be_read() {
    let unreadable = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); time.sleep(1000)";
    for last in [executes("{}"), unreadable.to_owned()] {
        for cgroups in ["true", "false"] {
            let setup = || setup(&last).limits(&format!("cgroups = {cgroups}"));
            for_each_user(setup, |server, _| check(server));
        }
    }
}

#[test]
fn daemons_end_that_leave_the_cgroup_of_their_script() {
    // As root it can leave to every other cgroup.
    let leaves = format!(
        "[open(line.split()[4] + '/cgroup.procs', 'w').write('0') for line in open('/proc/self/mountinfo') if ' - cgroup2 ' in line]; {}",
        executes("os.environ")
    );
    let server = setup(&leaves).start();
    // The launcher says so, when it has opened them.
    let has_cgroups = server.log_line("cgroups ").contains("cgroups of scripts: in ");
    if !is_root() || !has_cgroups {
        skip("there are no cgroups, or it may not leave its own");
        return;
    }
    check(&server);
}

#[test]
fn fork_bomb_is_bounded_and_nothing_of_it_is_left() {
    let bomb = "
import time
sys.stderr.close()
started = 0
try:
    while started < 1000:
        if os.fork() == 0:
            os.setsid()
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            time.sleep(1000)
        started += 1
except OSError:
    pass
put(HEAD + b'%d' % started)
";
    if !is_root() {
        return;
    }
    // A user of its own, because the processes of the user are counted; its number differs between tests that run at the same time.
    let user = 100_000 + std::process::id();
    for cgroups in ["true", "false"] {
        let server = Setup::new()
            .limits(&format!("cgroups = {cgroups}"))
            .cgi("user_processes = 80")
            .python("bomb", bomb)
            .start_after(&format!("become_ordinary_user({user})"));
        for _ in 0..3 {
            let started = number(&server, "/cgi-bin/bomb");
            // The server's own threads count, too.
            assert!((1..80).contains(&started), "{started}");
            server.wait_for_processes(0);
        }
    }
}

/// The cgroup directories of a server.
fn cgroups_of(pid: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut unvisited = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = unvisited.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(&format!("sluice.{pid}.")) {
                found.push(entry.path());
            } else {
                unvisited.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn cgroups_are_removed_at_the_end_and_those_of_a_killed_server_by_the_next() {
    let server = setup(&executes("{}")).start();
    if !server.log_line("cgroups ").contains("cgroups of scripts: in ") {
        return;
    }
    let pid = launchers_of(server.pid())[0];
    assert_ends(&server, number(&server, "/cgi-bin/once"));
    assert_eq!(cgroups_of(pid).len(), 1);
    server.stop();
    assert_eq!(cgroups_of(pid), Vec::<PathBuf>::new());

    let killed = setup(&executes("{}")).start();
    let (pid, daemon) = (launchers_of(killed.pid())[0], number(&killed, "/cgiplus-bin/kept"));
    assert!(signal(killed.server_pid(), "KILL"));
    assert!(wait_until(|| !is_alive(pid)));
    // Its supervisor starts the next one; another test may have started a server meanwhile, too.
    assert!(wait_until(|| !is_alive(daemon) && cgroups_of(pid).is_empty()));
    killed.stop();
}
