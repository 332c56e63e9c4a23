//! A server process that somebody else controls: what its launcher refuses to start.
//!
//! The test stops the server process, takes its socket to the launcher (pidfd_getfd(2)), and sends messages of its own.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use sluice_launch::{Confinement, Mailbox, ProcessLimits, Program, RemoteLauncher, RunAs, StartError, Stdin};
use sluice_testing::{Server, Setup, signal, wait_until, write_script};

use super::{is_root, skip};

const MEMORY: u64 = 256 << 20;

/// The socket of the server process to its launcher. The one to the supervisor does not block.
fn launcher_socket(server: &Server) -> OwnedFd {
    let pid = Pid::from_raw(server.server_pid().cast_signed()).unwrap();
    let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    let entries = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).unwrap();
    let numbers = entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let mut sockets = numbers.filter_map(|number| {
        let copy = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok()?;
        let is_packets = rustix::net::sockopt::socket_type(&copy) == Ok(rustix::net::SocketType::SEQPACKET);
        let is_blocking = !fcntl_getfl(&copy).ok()?.contains(OFlags::NONBLOCK);
        (is_packets && is_blocking).then_some(copy)
    });
    sockets.next().expect("the server process has a launcher")
}

/// Stops the server process with all its threads: one that still runs would take answers of the launcher.
fn stop(pid: u32) {
    assert!(signal(pid, "STOP"));
    let is_stopped = || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let mut stats =
            tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default());
        stats.all(|stat| stat.contains(") T "))
    };
    assert!(wait_until(is_stopped));
}

/// The answer of the launcher: the text of its refusal.
fn answer(launcher: &RemoteLauncher, program: Program) -> Result<(), String> {
    let (sender, received) = channel();
    launcher.launch(program, "", move |result| {
        let answer = match result {
            Ok(_) => Ok(()),
            Err(StartError::Refused(refusal)) => Err(refusal.to_string()),
            Err(error) => panic!("{error:?}"),
        };
        drop(sender.send(answer));
    });
    received.recv_timeout(Duration::from_secs(60)).unwrap()
}

fn text(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

/// A program without limits of its own.
fn program(words: &[&CStr], directory: &Path) -> Program {
    Program {
        path: words[0].into(),
        arguments: words.iter().map(|word| (*word).into()).collect(),
        environment: Vec::new(),
        directory: text(directory),
        stdin: Stdin::Null,
        mailbox: Mailbox::Stream,
        memory: None,
        is_kept: false,
        run_as: RunAs::Usual,
        credentials: None,
        limits: ProcessLimits {
            open_files_max: Some(64),
            ..ProcessLimits::default()
        },
        confinement: None,
    }
}

#[test]
fn a_hostile_server_process_starts_nothing_without_the_limits_of_its_route() {
    if !is_root() {
        return skip("only root can take descriptors of the server process");
    }
    let setup = Setup::new();
    std::fs::create_dir(setup.path("confined")).unwrap();
    let server = setup
        .script_route(
            "/confined/*",
            "directory = \"confined\", memory_max = \"256MiB\", network = false",
        )
        .start();
    let directory = server.path("confined");
    write_script(&directory.join("a"), "exit 0");
    stop(server.server_pid());
    let launcher = RemoteLauncher::start(launcher_socket(&server)).unwrap();
    let program = |words: &[&CStr]| Program {
        limits: ProcessLimits {
            memory_bytes_max: Some(MEMORY),
            open_files_max: Some(64),
            ..ProcessLimits::default()
        },
        confinement: Some(Confinement { is_offline: true, ..Confinement::default() }.into()),
        ..program(words, &directory)
    };
    let script = text(&directory.join("a"));
    assert_eq!(answer(&launcher, program(&[&script])), Ok(()));
    let weaker = |key: &str| Err(format!("its limits are weaker than those of its route: {key}"));
    let mut large = program(&[&script]);
    large.limits.memory_bytes_max = Some(MEMORY + 1);
    assert_eq!(answer(&launcher, large), weaker("memory_max"));
    let mut online = program(&[&script]);
    online.confinement = None;
    assert_eq!(answer(&launcher, online), weaker("network"));
    for words in [&[c"/bin/sh", script.as_c_str()][..], &[c"/bin/sh", c"-c", c"id"]] {
        let refused = answer(&launcher, program(words)).unwrap_err();
        assert!(refused.starts_with("the program is neither a script"), "{refused}");
    }
    // The server process would read the answers to messages that it has not sent.
    assert!(signal(server.server_pid(), "KILL"));
}

#[test]
fn a_reload_tells_the_launcher_the_programs_of_new_routes() {
    let setup = Setup::new();
    std::fs::create_dir(setup.path("first")).unwrap();
    let server = setup
        .script_route("/first/*", "directory = \"first\", memory_max = \"256MiB\"")
        .start();
    let hello = "printf 'Content-Type: text/plain\\n\\nhello'";
    write_script(&server.path("first/a"), hello);
    write_script(&server.path("second/a"), hello);
    assert_eq!(server.get("/first/a").text(), "hello");
    let text = std::fs::read_to_string(server.path("sluice.toml")).unwrap();
    // Fewer limits, and another place.
    let changed = text.replace(
        "directory = \"first\", memory_max = \"256MiB\"",
        "directory = \"second\"",
    );
    assert_ne!(changed, text);
    std::fs::write(server.path("sluice.toml"), changed).unwrap();
    server.signal("HUP");
    server.log_line("is in force");
    assert_eq!(server.get("/first/a").text(), "hello", "{}", server.log());
}

#[test]
fn a_file_that_the_server_process_has_not_made_is_given_to_no_script() {
    if !is_root() {
        return skip("only root can change users");
    }
    const USER: &str = "64011:64011";
    let setup = Setup::new();
    std::fs::set_permissions(setup.directory(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(setup.path("other")).unwrap();
    let server = setup
        .script_route("/other/*", &format!("directory = \"other\", user = \"{USER}\""))
        .start();
    let directory = server.path("other");
    write_script(&directory.join("a"), "exit 0");
    std::fs::write(server.path("of-root"), "").unwrap();
    stop(server.server_pid());
    let launcher = RemoteLauncher::start(launcher_socket(&server)).unwrap();
    let script = text(&directory.join("a"));
    let with = |memory: File| {
        let mut program = program(&[&script], &directory);
        program.run_as = RunAs::User(USER.to_owned());
        program.memory = Some(memory.into());
        answer(&launcher, program)
    };
    // One without a name passes: the server process is of the same user as this one.
    assert_eq!(with(tempfile::tempfile().unwrap()), Ok(()));
    for other in [File::open(server.path("of-root")), File::open("/dev/null")] {
        let refused = with(other.unwrap()).unwrap_err();
        assert!(refused.contains("was not made by the server process"), "{refused}");
    }
    assert_eq!(std::fs::metadata(server.path("of-root")).unwrap().uid(), 0);
    assert!(signal(server.server_pid(), "KILL"));
}
