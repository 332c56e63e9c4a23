//! The launcher as a process: it dies, its server dies, and what a server leaves behind.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::net::sockopt::socket_type;
use rustix::net::{Shutdown, SocketType, shutdown};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use sluice_testing::{Client, Ending, FAMILY, Setup, is_alive, launchers_of, signal, wait_until};

const HELLO: &str = r"printf 'Content-Type: text/plain\n\nhello'";

/// Answers each request with its number.
const COUNTER: &str = r#"n=0
while read -r line <&3; do
    if [ -z "$line" ]; then n=$((n + 1)); printf 'Content-Type: text/plain\n\n%s%s\n' "$n" "$CGIPLUSEOF"; fi
done"#;

/// The launcher of a server, which has one.
fn launcher_of(server: &sluice_testing::Server) -> u32 {
    let launchers = launchers_of(server.pid());
    assert_eq!(launchers.len(), 1, "{launchers:?}");
    launchers[0]
}

/// Closes the socket between a server process and its launcher, as the server process does if it cannot read from it. False if this is not permitted.
fn close_launcher_socket(server: u32) -> bool {
    let pid = i32::try_from(server).ok().and_then(Pid::from_raw).unwrap();
    let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    let entries = std::fs::read_dir(format!("/proc/{server}/fd")).unwrap();
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let copies = numbers.filter_map(|number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok());
    // The link to the supervisor does not block.
    let is_to_launcher = |copy: &OwnedFd| {
        socket_type(copy) == Ok(SocketType::SEQPACKET) && !fcntl_getfl(copy).unwrap().contains(OFlags::NONBLOCK)
    };
    let sockets: Vec<OwnedFd> = copies.filter(is_to_launcher).collect();
    assert!(sockets.len() <= 1, "{sockets:?}");
    sockets
        .iter()
        .for_each(|socket| shutdown(socket, Shutdown::Both).unwrap());
    !sockets.is_empty()
}

/// Waits for a launcher that is not `old`.
fn next_launcher(server: &sluice_testing::Server, old: u32) -> u32 {
    let mut now = Vec::new();
    let is_new = wait_until(|| {
        now = launchers_of(server.pid());
        now.len() == 1 && now[0] != old
    });
    assert!(is_new, "{now:?}\n{}", server.log());
    now[0]
}

#[test]
fn the_launcher_is_a_process_that_holds_no_socket_and_starts_the_scripts() {
    let setup = Setup::new().script("slow", r#"exec 9> "$TEST_DIR/events"; echo $PPID >&9; exec sleep 1000"#);
    let events = setup.event_fifo("events");
    let server = setup.start();
    let launcher = launcher_of(&server);
    let mut client = server.connect();
    client.get("/cgi-bin/slow");
    assert_eq!(events.line().trim(), launcher.to_string(), "the parent of the script");
    let entries = std::fs::read_dir(format!("/proc/{launcher}/fd")).unwrap();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let listing: String = links.map(|link| link.display().to_string() + "\n").collect();
    assert!(!listing.contains(".pem") && !listing.contains(".log"), "{listing}");
    let tcp = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let inodes = listing
        .split("socket:[")
        .skip(1)
        .filter_map(|rest| rest.split(']').next());
    for inode in inodes {
        let column = |line: &str| line.split_whitespace().nth(9).map(str::to_owned);
        assert!(
            !tcp.lines().any(|line| column(line).as_deref() == Some(inode)),
            "{listing}"
        );
    }
}

#[test]
fn a_killed_launcher_is_replaced_and_the_server_goes_on() {
    // Two requests would otherwise find two processes: the second may arrive before the first process is idle again.
    let setup = Setup::new()
        .cgiplus("max = 1")
        .file("a.txt", "a")
        .script("family", FAMILY)
        .script("hello", HELLO)
        .script("counter", COUNTER);
    let events = setup.event_fifo("events");
    let server = setup.start();
    assert_eq!(server.get("/cgiplus-bin/counter").text(), "1");
    assert_eq!(server.get("/cgiplus-bin/counter").text(), "2");
    let mut of_script = server.connect();
    of_script.get("/cgi-bin/family");
    events.line();
    let (old, process) = (launcher_of(&server), server.server_pid());
    assert!(signal(old, "KILL"));
    // The exchange with the script fails at once.
    let response = of_script.response();
    assert_eq!(response.status, 502, "{}", server.log());
    // Every process that had the FIFO open is gone.
    events.end();
    server.log_line(&format!("launcher process {old} was killed by signal 9 (SIGKILL)"));
    assert_eq!(server.get("/a.txt").text(), "a");
    assert_eq!(server.get("/cgi-bin/hello").text(), "hello");
    assert_eq!(server.get("/cgiplus-bin/counter").text(), "1", "from another process");
    next_launcher(&server, old);
    assert_eq!(server.server_pid(), process, "the server process is the same");
}

#[test]
fn a_launcher_that_does_not_answer_is_killed_and_replaced() {
    let server = Setup::new()
        .limits("launcher_timeout = \"1s\"")
        .script("hello", HELLO)
        .start();
    let old = launcher_of(&server);
    // As a debugger does, or an administrator by mistake.
    assert!(signal(old, "STOP"));
    let mut client = server.connect();
    client.get("/cgi-bin/hello");
    server.log_line(&format!(
        "launcher process {old} has not answered for 1 s: it is killed"
    ));
    server.log_line(&format!("launcher process {old} was killed by signal 9 (SIGKILL)"));
    // Its program may have begun, so it is not started a second time.
    assert_eq!(client.response().status, 503, "{}", server.log());
    next_launcher(&server, old);
    assert_eq!(server.get("/cgi-bin/hello").text(), "hello");
}

#[test]
fn a_launcher_whose_socket_was_closed_is_replaced_while_its_server_process_goes_on() {
    let server = Setup::new().script("hello", HELLO).start();
    let (old, process) = (launcher_of(&server), server.server_pid());
    if !close_launcher_socket(process) {
        return;
    }
    server.log_line(&format!("launcher process {old} has ended"));
    // It waits for the next launcher.
    let response = server.get("/cgi-bin/hello");
    assert_eq!((response.status, response.text()), (200, "hello"), "{}", server.log());
    next_launcher(&server, old);
    assert_eq!(server.server_pid(), process, "the server process is the same");
}

#[test]
fn a_reply_is_not_completed_when_the_launcher_is_killed() {
    let setup = Setup::new().script(
        "half",
        r#"printf 'Content-Type: text/plain\n\nhalf'; echo started > "$TEST_DIR/events"; exec sleep 1000"#,
    );
    let events = setup.event_fifo("events");
    let server = setup.start();
    let mut client = server.connect();
    client.get("/cgi-bin/half");
    events.line();
    // The server has its process then.
    assert_eq!(client.head().status, 200);
    assert!(signal(launcher_of(&server), "KILL"));
    let (rest, _) = client.rest();
    let text = String::from_utf8_lossy(&rest).into_owned();
    assert!(!text.ends_with("0\r\n\r\n"), "{text}");
}

#[test]
fn a_start_while_the_launcher_is_away_waits_for_the_next_one() {
    let server = Setup::new().file("a.txt", "a").script("hello", HELLO).start();
    // The third one is started after 200 ms.
    let mut old = launcher_of(&server);
    for delay in ["a launcher is started again", "again in 100 ms", "again in 200 ms"] {
        assert!(signal(old, "KILL"));
        server.log_line(delay);
        let mut client = server.connect();
        client.get("/cgi-bin/hello");
        assert_eq!(server.get("/a.txt").text(), "a");
        let response = client.response();
        assert_eq!((response.status, response.text()), (200, "hello"), "{}", server.log());
        old = next_launcher(&server, old);
    }
}

#[test]
fn a_launcher_that_is_killed_under_load_costs_only_the_exchanges_of_that_moment() {
    let server = Setup::new().script("hello", HELLO).start();
    let address = server.address();
    let clients: Vec<_> = (0..3)
        .map(|_| {
            std::thread::spawn(move || {
                let mut answered = 0;
                for _ in 0..60 {
                    let response = Client::connect(address).get("/cgi-bin/hello").response();
                    let body = String::from_utf8_lossy(&response.body);
                    match (response.status, response.ending) {
                        // Whatever looks complete is complete.
                        (200, Ending::Complete) => {
                            assert_eq!(body, "hello");
                            answered += 1;
                        }
                        (200, _) => assert!("hello".starts_with(&*body), "{body}"),
                        (status, _) => assert!(matches!(status, 502 | 503), "{status}"),
                    }
                }
                answered
            })
        })
        .collect();
    let mut old = launcher_of(&server);
    for number in 1..=2 {
        std::thread::park_timeout(Duration::from_millis(300));
        assert!(signal(old, "KILL"));
        // By the log: a child that the launcher has just cloned, and that is not executed yet, has its name.
        let lines = server.log_lines(number, "starts scripts");
        let words = lines.last().unwrap().split_whitespace();
        old = words.filter_map(|word| word.parse().ok()).next().unwrap();
    }
    let answered: u32 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    assert!(answered >= 160, "{answered} of 180\n{}", server.log());
    server.wait_for_processes(0);
}

#[test]
fn scripts_of_a_killed_server_process_end_with_their_descendants() {
    let setup = Setup::new().script("family", FAMILY).script("hello", HELLO);
    let events = setup.event_fifo("events");
    let server = setup.start();
    let launcher = launcher_of(&server);
    let mut client = server.connect();
    client.get("/cgi-bin/family");
    events.line();
    assert!(signal(server.server_pid(), "KILL"));
    events.end();
    assert!(wait_until(|| !is_alive(launcher)), "its launcher ends with it");
    assert_eq!(server.get("/cgi-bin/hello").text(), "hello");
    server.wait_for_processes(0);
    next_launcher(&server, launcher);
}

#[test]
fn neither_server_nor_launcher_keeps_anything_of_200_starts() {
    let server = Setup::new().script("hello", HELLO).start();
    let launcher = launcher_of(&server);
    let open = |pid: u32| std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let starts = |count: usize| {
        for _ in 0..count {
            assert_eq!(server.get("/cgi-bin/hello").text(), "hello");
        }
        server.wait_for_processes(0);
    };
    // Free cgroups are kept: as many as were in use at once, which differs with the time that a process takes to end.
    const CGROUPS: usize = 16;
    starts(20);
    let before = (open(launcher), open(server.server_pid()));
    starts(200);
    let is_same = wait_until(|| open(launcher) <= before.0 + CGROUPS && open(server.server_pid()) <= before.1);
    assert!(
        is_same,
        "{before:?}, now {:?}",
        (open(launcher), open(server.server_pid()))
    );
    assert_eq!(launcher_of(&server), launcher);
}

#[test]
fn nothing_remains_of_launcher_and_server_after_the_end() {
    let setup = Setup::new().script("counter", COUNTER);
    let server = setup.start();
    assert_eq!(server.get("/cgiplus-bin/counter").text(), "1");
    let processes = [launcher_of(&server), server.server_pid()];
    server.signal("TERM");
    let ended = server.wait_end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.errors);
    assert!(wait_until(|| !processes.iter().any(|pid| is_alive(*pid))));
}

#[test]
fn a_launcher_started_by_hand_says_so() {
    use std::os::unix::process::CommandExt;
    let setup = Setup::new();
    let mut command = sluice_testing::sluice(setup.directory());
    let ran = sluice_testing::run_command(command.arg0("sluice: launcher"));
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        ran.errors.contains("started by `sluice run`, not by hand"),
        "{}",
        ran.errors
    );
}

#[test]
fn a_server_without_descriptors_does_not_start_a_script_without_its_input() {
    let server = Setup::new()
        .script("echo", r"printf 'Content-Type: text/plain\n\n'; cat")
        .start();
    let body = "b".repeat(1000);
    let request = format!("POST /cgi-bin/echo HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\n{body}");
    let mut client = server.connect();
    // Accepted before the descriptors run out.
    client.send(&request);
    assert_eq!(client.response().text(), body);
    let mut statuses = std::collections::BTreeSet::new();
    for count in 0..16 {
        server.leave_descriptors(count);
        client.send(&request);
        let response = client.response();
        statuses.insert(response.status);
        let is_whole = response.status == 200 && response.text() == body;
        assert!(is_whole || response.status >= 500, "{count}: {}", response.text());
    }
    assert!(
        statuses.contains(&200) && statuses.iter().any(|status| *status >= 500),
        "{statuses:?}"
    );
}
