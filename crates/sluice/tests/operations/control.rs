//! Commands to a running server over its control socket.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use sluice_testing::{DEADLINE, RunResult, Server, Setup, run, signal, wait_until};

/// The socket of a server.
fn socket(server: &Server) -> PathBuf {
    server.path("run").join(format!("{}.sock", server.pid()))
}

fn ask(server: &Server, arguments: &[&str]) -> RunResult {
    run(server.setup().directory(), arguments)
}

/// Sends bytes to the socket of a server, and returns what it answers before it closes the connection.
fn send(server: &Server, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket(server)).unwrap();
    stream.write_all(bytes).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn status_counts_requests_and_processes() {
    let setup = Setup::new().script("count", "printf 'Content-Type: text/plain\\n\\nx'");
    let server = setup.start();
    server.get("/cgi-bin/count");
    server.get("/none");
    // A response is counted after its last byte was sent.
    assert!(wait_until(|| ask(&server, &["status"]).output.contains("2xx 1, 4xx 1")));
    let shown = ask(&server, &["status"]).output;
    let (pid, address) = (format!("pid {}", server.pid()), server.address().to_string());
    for words in [&pid, &address, "sluice.toml", "requests      2; 0 in progress", "0 of "] {
        assert!(shown.contains(words), "no {words:?} in\n{shown}");
    }
    let json = ask(&server, &["status", "--json", "--server", &server.pid().to_string()]).output;
    for words in ["\"ok\":true", "\"by_class\":[0,1,0,1,0]", "\"body_bytes\":"] {
        assert!(json.contains(words), "no {words:?} in {json}");
    }
}

#[test]
fn connections_that_say_nothing_block_no_command() {
    let server = Setup::new().start();
    let silent: Vec<_> = (0..300)
        .map(|_| UnixStream::connect(socket(&server)).unwrap())
        .collect();
    let begun = std::time::Instant::now();
    let ran = ask(&server, &["status"]);
    assert!(ran.status.success(), "{}", ran.errors);
    // Ten seconds are what each silent connection may take.
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    drop(silent);
}

#[test]
fn connections_whose_command_waits_are_bounded() {
    let server = Setup::new().start();
    let descriptors = || {
        std::fs::read_dir(format!("/proc/{}/fd", server.server_pid()))
            .unwrap()
            .count()
    };
    let before = descriptors();
    // No command ends: this one is answered by the supervisor.
    assert!(signal(server.pid(), "STOP"));
    let mut waiting: Vec<_> = (0..300)
        .map(|_| {
            let mut stream = UnixStream::connect(socket(&server)).unwrap();
            stream.write_all(b"{\"command\":\"reload\"}\n").unwrap();
            stream
        })
        .collect();
    // 16 commands are carried out, and 64 wait. The one before those gives way.
    let mut answer = String::new();
    let given_up = &mut waiting[300 - 65];
    given_up.set_read_timeout(Some(DEADLINE)).unwrap();
    given_up.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("too many commands"), "{answer}");
    // A few are for what the server does meanwhile, such as a check of its processes.
    let arrived = wait_until(|| descriptors() <= before + 16 + 64 + 32);
    assert!(arrived, "{before}, then {}", descriptors());
    assert!(signal(server.pid(), "CONT"));
    waiting[0].set_read_timeout(Some(DEADLINE)).unwrap();
    waiting[0].read_to_string(&mut answer).unwrap();
    assert!(answer.contains("is in force"), "{answer}");
}

#[test]
fn reload_says_what_is_wrong_and_what_is_in_force() {
    let server = Setup::new().start();
    let file = server.path("sluice.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{good}\n[sever]\n")).unwrap();
    let ran = ask(&server, &["reload"]);
    assert_eq!(ran.status.code(), Some(1), "{}", ran.errors);
    for words in ["sever", "server", "nothing has changed"] {
        assert!(ran.output.contains(words), "no {words:?} in {}", ran.output);
    }
    server.log_line("sluice reload: ");
    std::fs::write(&file, good).unwrap();
    let ran = ask(&server, &["reload"]);
    assert!(
        ran.status.success() && ran.output.contains("sluice.toml is in force"),
        "{}",
        ran.output
    );
}

#[test]
fn logs_are_reopened_the_cache_is_purged_and_the_server_drains() {
    let server = Setup::new().log("access = \"access.log\"").start();
    std::fs::rename(server.path("access.log"), server.path("old.log")).unwrap();
    assert!(ask(&server, &["reopen-logs"]).status.success());
    assert!(wait_until(|| server.path("access.log").exists()));
    assert!(ask(&server, &["purge"]).output.contains("cache purged"));
    let path = socket(&server);
    assert!(
        ask(&server, &["drain", "--server", path.to_str().unwrap()])
            .status
            .success()
    );
    server.wait_end();
    assert!(!path.exists(), "the socket is left behind");
}

#[test]
fn only_the_owner_can_open_the_socket() {
    let server = Setup::new().start();
    let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(socket(&server)), 0o600);
    assert_eq!(mode(server.path("run")), 0o700);
}

#[test]
fn a_socket_whose_file_is_removed_is_bound_again() {
    for keys in ["", "control = \"run/own.sock\""] {
        let setup = Setup::new().server(keys);
        let run_directory = setup.path("run");
        std::fs::create_dir(&run_directory).unwrap();
        std::fs::set_permissions(&run_directory, std::fs::Permissions::from_mode(0o700)).unwrap();
        let server = setup.start();
        let path = match keys {
            "" => socket(&server),
            _ => run_directory.join("own.sock"),
        };
        std::fs::remove_file(&path).unwrap();
        // The usual directory is made again, too.
        if keys.is_empty() {
            std::fs::remove_dir(&run_directory).unwrap();
        }
        let answers = || {
            ask(&server, &["status", "--server", path.to_str().unwrap()])
                .status
                .success()
        };
        assert!(wait_until(answers), "{}", server.log());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        server.log_line("another one is bound");
        server.stop();
        assert!(!path.exists(), "the socket is left behind");
    }
}

#[test]
fn nonsense_is_refused_and_silent_peers_do_not_stop_the_server() {
    let server = Setup::new().start();
    let silent: Vec<_> = (0..100)
        .map(|_| UnixStream::connect(socket(&server)).unwrap())
        .collect();
    assert_eq!(server.get("/none").status, 404);
    drop(silent);
    for bytes in [
        &b"{\"command\":\"explode\"}\n"[..],
        b"\n",
        &[0xff; 100],
        &[b'x'; 100_000][..4096],
    ] {
        let answer = send(&server, bytes);
        assert!(answer.is_empty() || answer.contains("\"ok\":false"), "{answer}");
    }
    assert!(ask(&server, &["status"]).status.success());
}

#[test]
fn the_socket_of_a_killed_server_is_removed_by_the_next_search() {
    let setup = Setup::new();
    let run_directory = setup.path("run");
    std::fs::create_dir(&run_directory).unwrap();
    std::fs::set_permissions(&run_directory, std::fs::Permissions::from_mode(0o700)).unwrap();
    let dead = run_directory.join("1.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    let ran = run(setup.directory(), &["status"]);
    assert!(ran.errors.contains("no running server"), "{}", ran.errors);
    assert!(!dead.exists());
}

#[test]
fn a_directory_that_others_can_change_is_not_used() {
    let setup = Setup::new();
    let run_directory = setup.path("run");
    std::fs::create_dir(&run_directory).unwrap();
    std::fs::set_permissions(&run_directory, std::fs::Permissions::from_mode(0o777)).unwrap();
    let server = setup.start();
    server.log_line("sluice status cannot reach this server");
    assert_eq!(std::fs::read_dir(&run_directory).unwrap().count(), 0);
    let ran = ask(&server, &["status"]);
    assert!(ran.errors.contains("chmod 700"), "{}", ran.errors);
}

#[test]
fn a_configured_socket_is_used_and_off_means_none() {
    let server = Setup::new().server("control = \"own.sock\"").start();
    let path = server.path("own.sock");
    let ran = ask(&server, &["status", "--server", path.to_str().unwrap()]);
    assert!(ran.status.success(), "{}", ran.errors);
    assert!(!server.path("run").exists());
    drop(server);
    assert!(!path.exists());
    let server = Setup::new().server("control = \"off\"").start();
    assert!(!server.path("run").exists());
}

#[test]
fn a_server_is_found_by_its_process_id_or_its_configuration() {
    let server = Setup::new().start();
    let pid = server.pid().to_string();
    let file = server.path("sluice.toml");
    assert!(
        ask(&server, &["status", "-c", file.to_str().unwrap()])
            .output
            .contains(&format!("pid {pid}"))
    );
    let ran = ask(&server, &["status", "--server", "999999"]);
    assert_eq!(ran.status.code(), Some(1), "{}", ran.errors);
    let expected = format!("no server of this user has the process id 999999 (process id {pid})");
    assert!(ran.errors.contains(&expected), "{}", ran.errors);
    let other = server.path("other.toml");
    std::fs::copy(&file, &other).unwrap();
    let ran = ask(&server, &["status", "-c", other.to_str().unwrap()]);
    assert!(
        ran.errors.contains("no server of this user runs ") && ran.errors.contains(&pid),
        "{}",
        ran.errors
    );
    let ran = ask(&server, &["status", "-c", "none.toml"]);
    assert!(ran.errors.contains("none.toml: No such file"), "{}", ran.errors);
    let own = Setup::new().server("control = \"own.sock\"").start();
    let file = own.path("sluice.toml");
    assert!(ask(&own, &["status", "-c", file.to_str().unwrap()]).status.success());
}

#[test]
fn a_configured_socket_is_found_although_the_file_has_a_mistake() {
    let server = Setup::new().server("control = \"own.sock\"").start();
    let file = server.path("sluice.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    for (mistake, expected) in [
        ("[sever]", "unknown key \"sever\""),
        ("[[site]", "cannot be read as TOML"),
    ] {
        std::fs::write(&file, format!("{good}\n{mistake}\n")).unwrap();
        let ran = ask(&server, &["reload", "-c", file.to_str().unwrap()]);
        assert!(ran.output.contains(expected), "{mistake}: {}{}", ran.output, ran.errors);
    }
    std::fs::write(&file, good).unwrap();
    // Root may see the sockets of the process; the message for others says how to name the server.
    let ran = ask(&server, &["status", "--server", &server.pid().to_string()]);
    match rustix::process::geteuid().is_root() {
        true => assert!(ran.status.success(), "{}", ran.errors),
        false => assert!(ran.errors.contains("is found with -c FILE"), "{}", ran.errors),
    }
}

#[test]
fn a_missing_server_is_said_with_its_cause() {
    let setup = Setup::new().server("control = \"own.sock\"");
    setup.write_configuration();
    let directory = setup.directory();
    let ran = run(directory, &["status", "-c", "sluice.toml"]);
    let starts = "\"sluice run -c sluice.toml\" starts one";
    assert!(
        ran.errors
            .contains("the control socket of sluice.toml: either no server runs it")
            && ran.errors.contains(starts),
        "{}",
        ran.errors
    );
    let ran = run(directory, &["status", "--server", "./own.sock"]);
    assert!(
        ran.errors.contains("there is no such socket: either no server runs"),
        "{}",
        ran.errors
    );
    drop(std::os::unix::net::UnixListener::bind(setup.path("own.sock")).unwrap());
    let ran = run(directory, &["status", "--server", "./own.sock"]);
    assert!(
        ran.errors.contains("the server that made it was killed"),
        "{}",
        ran.errors
    );
    for (control, expected) in [
        (
            "control = \"off\"",
            "has control = \"off\", so its server takes no commands",
        ),
        ("control = \"on\"", "there is a control socket without this key"),
    ] {
        let text = std::fs::read_to_string(setup.path("sluice.toml")).unwrap();
        std::fs::write(
            setup.path("other.toml"),
            text.replace("control = \"own.sock\"", control),
        )
        .unwrap();
        let command = if control.contains("off") { "status" } else { "check" };
        let ran = run(directory, &[command, "-c", "other.toml"]);
        assert!(ran.errors.contains(expected), "{control}: {}", ran.errors);
    }
}

#[test]
fn several_servers_are_listed_with_their_files() {
    let server = Setup::new().start();
    let second = server.path("second");
    std::fs::create_dir(&second).unwrap();
    let text = std::fs::read_to_string(server.path("sluice.toml")).unwrap();
    let root = server.path("htdocs");
    std::fs::write(
        second.join("sluice.toml"),
        format!("[[listen]]\naddress = \"unix:s.sock\"\n[[site]]\nroot = {root:?}\n"),
    )
    .unwrap();
    assert!(!text.is_empty());
    let mut command = sluice_testing::sluice(&second);
    command
        .args(["run", "--allow-root"])
        .env("SLUICE_RUNTIME_DIR", server.path("run"));
    let mut child = sluice_testing::spawn(&mut command).unwrap();
    let several = || ask(&server, &["status"]).errors;
    let is_listed = wait_until(|| several().contains("several servers run"));
    let errors = several();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        is_listed && errors.contains("second/sluice.toml on unix:") && errors.contains(&server.address().to_string()),
        "{errors}"
    );
}

#[test]
fn another_user_is_refused() {
    let server = Setup::new().start();
    // Only root can become another user.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let path = socket(&server);
    let everyone = std::fs::Permissions::from_mode(0o777);
    for open in [path.clone(), server.path("run"), server.setup().directory().to_owned()] {
        std::fs::set_permissions(open, everyone.clone()).unwrap();
    }
    let script = "import os, socket, sys
os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(b'{\"command\":\"drain\"}\\n'); print(s.recv(100))";
    let output = Command::new("python3")
        .args(["-c", script])
        .arg(&path)
        .output()
        .unwrap();
    assert!(!String::from_utf8_lossy(&output.stdout).contains("ok"), "{output:?}");
    server.log_line("control socket: user 65534 was refused");
    assert!(
        ask(&server, &["status", "--server", path.to_str().unwrap()])
            .status
            .success()
    );
}
