//! Process pools: the number of processes per script, queueing, refusals, and the end of processes.

mod fairness;
mod in_advance;
mod shared_limits;

use std::time::{Duration, Instant};

use sluice_testing::{
    Client, DEADLINE, FifoReader, Gate, Server, Setup, python, spawn, wait_until, warnings_and_errors, write_script,
};

/// A script that reports its start, waits for the gate, and prints its pid and the query. Works as CGI too.
const WAITER: &str = r#"
def respond(variables):
    report("begun", variables["QUERY_STRING"])
    wait_at("go")
    put(HEAD + b"%d %s" % (os.getpid(), variables["QUERY_STRING"].encode()))
if "CGIPLUSEOF" in os.environ:
    while variables := accept():
        respond(variables)
        finish()
else:
    respond(os.environ)
"#;

/// For events that must not happen: long enough for them to happen on a busy machine.
const MOMENT: Duration = Duration::from_millis(150);

/// A server with the waiter script, the FIFO it reports to and the gate it waits at.
fn start_waiter(setup: Setup) -> (Server, FifoReader, Gate) {
    let server = setup.python("waiter", WAITER).start();
    let (begun, gate) = (server.setup().event_fifo("begun"), server.setup().gate("go"));
    (server, begun, gate)
}

fn ask(server: &Server, path: &str) -> Client {
    let mut client = server.connect();
    client.get(path);
    client
}

#[test]
fn at_most_max_processes_run_and_other_requests_wait() {
    for mode in ["cgi", "cgiplus"] {
        let (server, begun, mut gate) = start_waiter(Setup::new().cgi("max = 2").cgiplus("max = 2"));
        let mut clients: Vec<_> = (0..5)
            .map(|number| ask(&server, &format!("/{mode}-bin/waiter?{number}")))
            .collect();
        begun.line();
        begun.line();
        for _ in 0..3 {
            assert_eq!(begun.line_within(MOMENT), None, "{mode}: a third process runs");
            assert!(server.processes().len() <= 2, "{:?}", server.processes());
            gate.open();
            begun.line();
        }
        gate.open();
        gate.open();
        for (number, client) in clients.iter_mut().enumerate() {
            let response = client.response();
            assert_eq!(response.status, 200);
            assert!(
                response.text().ends_with(&format!(" {number}")),
                "each gets its own answer"
            );
        }
    }
}

#[test]
fn queue_is_first_in_first_out() {
    for mode in ["cgi", "cgiplus"] {
        let (server, begun, mut gate) = start_waiter(Setup::new().cgi("max = 1").cgiplus("max = 1"));
        let mut clients = Vec::new();
        for number in 0..4 {
            clients.push(ask(&server, &format!("/{mode}-bin/waiter?{number}")));
            if number == 0 {
                begun.line();
            }
            // There is no event for a request that waits in the queue.
            assert_eq!(begun.line_within(MOMENT), None);
        }
        for number in 1..4 {
            gate.open();
            assert_eq!(begun.line(), number.to_string(), "{mode}");
        }
        gate.open();
        assert!(clients.iter_mut().all(|client| client.response().status == 200));
    }
}

#[test]
fn full_queue_refuses_with_retry_after() {
    for mode in ["cgi", "cgiplus"] {
        let (server, begun, mut gate) =
            start_waiter(Setup::new().cgi("max = 1, queue = 1").cgiplus("max = 1, queue = 1"));
        let path = format!("/{mode}-bin/waiter?x");
        let mut first = ask(&server, &path);
        begun.line();
        // Only one of the next two fits into the queue, whichever comes first.
        let mut others = [ask(&server, &path), ask(&server, &path)];
        let is_refused = |client: &mut Client| !client.is_silent_for(Duration::from_millis(10));
        let mut refused = None;
        assert!(wait_until(|| {
            refused = others.iter_mut().position(is_refused);
            refused.is_some()
        }));
        let [one, other] = &mut others;
        let (refused, start_waiter) = if refused == Some(0) { (one, other) } else { (other, one) };
        let response = refused.response();
        assert_eq!(response.status, 503);
        let after: u32 = response.field("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&after), "{after}");
        // That requests wait, and that one is refused; both name the script and the key. Two workers write these lines.
        for words in ["waiting requests: 1 (queue = 1, ", "status=503"] {
            let line = server.log_line(words);
            assert!(line.contains("cgi-bin/waiter: its process is busy (max = 1)"), "{line}");
        }
        gate.open();
        assert_eq!(first.response().status, 200);
        begun.line();
        gate.open();
        assert_eq!(start_waiter.response().status, 200);
    }
}

#[test]
fn queue_timeout_refuses_with_retry_after() {
    for mode in ["cgi", "cgiplus"] {
        let keys = "max = 1, queue_timeout = \"100ms\"";
        let (server, begun, mut gate) = start_waiter(Setup::new().cgi(keys).cgiplus(keys));
        let path = format!("/{mode}-bin/waiter?x");
        let mut first = ask(&server, &path);
        begun.line();
        let response = server.get(&path);
        assert_eq!(response.status, 503);
        assert!(response.field("retry-after").is_some());
        let line = server.log_line("status=503");
        assert!(
            line.contains("/waiter: its process is busy (max = 1)") && line.contains("(queue_timeout = \"100ms\")"),
            "{line}"
        );
        server.log_line("waiting requests: 1 ");
        assert!(begun.is_silent(), "the refused request did not run");
        gate.open();
        assert_eq!(first.response().status, 200);
        let mut third = ask(&server, &path);
        begun.line();
        gate.open();
        assert_eq!(third.response().status, 200, "the queue slot was freed");
    }
}

#[test]
fn client_that_leaves_the_queue_is_not_served() {
    let (server, begun, mut gate) = start_waiter(Setup::new().cgiplus("max = 1"));
    let mut first = ask(&server, "/cgiplus-bin/waiter?first");
    begun.line();
    let leaver = ask(&server, "/cgiplus-bin/waiter?leaver");
    assert_eq!(begun.line_within(MOMENT), None);
    drop(leaver);
    let line = server.access_lines(1).remove(0);
    assert!(line.contains("?leaver") && line.contains(" 499 "), "{line}");
    let mut last = ask(&server, "/cgiplus-bin/waiter?last");
    gate.open();
    assert_eq!(first.response().status, 200);
    assert_eq!(begun.line(), "last");
    gate.open();
    assert_eq!(last.response().status, 200);
}

/// A script that prints its pid and the number of requests it has served.
const COUNTER: &str = r#"
count = 0
while accept():
    count += 1
    put(HEAD + b"%d %d %s" % (os.getpid(), count, os.environ.get("COLOUR", "none").encode()))
    finish()
"#;

#[track_caller]
fn pid_and_count(server: &Server, path: &str) -> (u32, u32) {
    let response = server.get(path);
    assert_eq!(response.status, 200, "{}", server.log());
    let words: Vec<_> = response.text().split(' ').collect();
    (words[0].parse().unwrap(), words[1].parse().unwrap())
}

#[test]
fn process_is_replaced_after_its_number_of_requests() {
    let server = Setup::new()
        .cgiplus("max = 1, requests = 3")
        .script("counter", in_advance::SHELL_COUNTER)
        .start();
    let mut pids = Vec::new();
    for _ in 0..3 {
        let (pid, count) = pid_and_count(&server, "/cgiplus-bin/counter");
        assert_eq!(count, 1);
        assert!(!pids.contains(&pid), "{pids:?}");
        pids.push(pid);
        for count in [2, 3] {
            assert_eq!(pid_and_count(&server, "/cgiplus-bin/counter"), (pid, count));
        }
        // It would serve on until another one is ready.
        let is_replaced = || matches!(&server.processes()[..], [only] if only.pid != pid);
        assert!(wait_until(is_replaced), "{:?}", server.processes());
    }
    let ended = server.stop();
    assert_eq!(warnings_and_errors(&ended.errors), Vec::<String>::new());
}

#[test]
fn min_processes_outlive_their_idle_time() {
    let server = Setup::new()
        .cgiplus("max = 3, min = 1, idle = \"1s\"")
        .script_route(
            "/clock/*",
            "directory = \"htdocs/cgi-bin\", mode = \"cgiplus\", idle = \"1s\"",
        )
        .python("waiter", WAITER)
        .python("clock", "while accept():\n    put(HEAD)\n    finish()\nreport('ended')")
        .start();
    let (begun, ended, mut gate) = (
        server.setup().event_fifo("begun"),
        server.setup().event_fifo("ended"),
        server.setup().gate("go"),
    );
    let mut clients: Vec<_> = (0..3).map(|_| ask(&server, "/cgiplus-bin/waiter?x")).collect();
    for _ in 0..3 {
        begun.line();
    }
    for _ in 0..3 {
        gate.open();
    }
    assert!(clients.iter_mut().all(|client| client.response().status == 200));
    server.wait_for_processes(1);
    let kept = server.processes()[0].pid;
    // Another process with the same idle limit, which became idle later, has ended: so the time is over.
    assert_eq!(server.get("/clock/clock").status, 200);
    ended.line();
    server.wait_for_processes(1);
    let mut client = ask(&server, "/cgiplus-bin/waiter?x");
    begun.line();
    gate.open();
    assert!(client.response().text().starts_with(&format!("{kept} ")));
}

#[test]
fn starts_are_throttled_when_processes_die_before_their_first_reply() {
    let server = Setup::new()
        .cgiplus("max = 4")
        .python("fixed", COUNTER)
        .script("dies", "echo started >> \"$TEST_DIR/started\"; exit 3")
        .start();
    let begun = Instant::now();
    let mut responses = Vec::new();
    let mut refused = 0;
    // On a busy machine a start may take longer than the first delays.
    while refused < 6 && responses.len() < 40 {
        let response = server.get("/cgiplus-bin/dies");
        refused += usize::from(response.status == 503);
        responses.push(response);
    }
    assert_eq!(responses[0].status, 502, "the first response shows the failure");
    assert_eq!(refused, 6, "of {}", responses.len());
    for response in responses.iter().filter(|response| response.status == 503) {
        let after: u32 = response.field("retry-after").unwrap().parse().unwrap();
        assert!((1..=10).contains(&after), "{after}");
    }
    let starts = std::fs::read_to_string(server.path("started")).unwrap().lines().count();
    assert_eq!(starts, responses.len() - refused);
    // Four are free; the others come a quarter of a second, a half, one, two and four seconds after the one before.
    let delays = (1..9).map(|number| Duration::from_millis(250) * ((1 << number) - 1));
    let starts_max = 4 + delays.take_while(|delay| *delay <= begun.elapsed()).count();
    assert!(starts <= starts_max, "{starts} starts of a script that cannot work");
    write_script(&server.path("htdocs/cgi-bin/dies"), &python(COUNTER));
    assert_eq!(
        pid_and_count(&server, "/cgiplus-bin/dies").1,
        1,
        "a fixed script is tried at once"
    );
}

#[test]
fn clients_that_leave_do_not_throttle_starts() {
    let (server, begun, mut gate) =
        start_waiter(Setup::new().cgiplus("max = 1, client_grace = \"10ms\", kill_grace = \"10ms\""));
    for number in 0..8 {
        let mut client = ask(&server, &format!("/cgiplus-bin/waiter?{number}"));
        if begun.line_within(DEADLINE).is_none() {
            panic!(
                "a good script is refused after {number} clients have left: {}",
                client.response().status
            );
        }
        drop(client);
        server.wait_for_processes(0);
    }
    let mut client = ask(&server, "/cgiplus-bin/waiter?last");
    begun.line();
    gate.open();
    assert_eq!(client.response().status, 200);
}

#[test]
fn requests_on_all_workers_share_the_processes() {
    let server = Setup::new().cgiplus("max = 3").python("counter", COUNTER).start();
    let served: Vec<_> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    (0..25)
                        .map(|_| pid_and_count(&server, "/cgiplus-bin/counter"))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let mut pids: Vec<_> = served.iter().map(|(pid, _)| *pid).collect();
    pids.sort_unstable();
    pids.dedup();
    assert!(pids.len() <= 3, "{pids:?}");
    for pid in pids {
        let mut counts: Vec<_> = served
            .iter()
            .filter(|(by, _)| *by == pid)
            .map(|(_, count)| *count)
            .collect();
        counts.sort_unstable();
        let all = u32::try_from(counts.len()).unwrap();
        assert_eq!(
            counts,
            (1..=all).collect::<Vec<_>>(),
            "each use of a process gives one answer"
        );
    }
}

#[test]
fn sequential_requests_start_at_most_one_process_per_worker() {
    let server = Setup::new().python("counter", COUNTER).start();
    let mut pids: Vec<_> = (0..30)
        .map(|_| pid_and_count(&server, "/cgiplus-bin/counter").0)
        .collect();
    pids.sort_unstable();
    pids.dedup();
    assert!(pids.len() <= 2, "{pids:?}");
}

#[test]
fn killed_idle_process_is_replaced() {
    let server = Setup::new().cgiplus("max = 1").python("counter", COUNTER).start();
    for _ in 0..3 {
        let (pid, count) = pid_and_count(&server, "/cgiplus-bin/counter");
        assert_eq!(count, 1);
        let mut kill = spawn(std::process::Command::new("kill").arg("-KILL").arg(pid.to_string())).unwrap();
        assert!(kill.wait().unwrap().success());
        server.wait_for_processes(0);
    }
}

#[test]
fn reload_keeps_serving_and_replaces_old_processes() {
    let server = Setup::new()
        .cgiplus("max = 4, environment = { COLOUR = \"red\" }")
        .python("counter", COUNTER)
        .python("waiter", WAITER)
        .start();
    let (begun, mut gate) = (server.setup().event_fifo("begun"), server.setup().gate("go"));
    assert!(server.get("/cgiplus-bin/counter").text().ends_with(" red"));
    let mut busy = ask(&server, "/cgiplus-bin/waiter?busy");
    begun.line();
    let file = server.path("sluice.toml");
    let green = std::fs::read_to_string(&file).unwrap().replace("red", "green");
    std::fs::write(&file, green).unwrap();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| wait_until(|| server.get("/cgiplus-bin/counter").text().ends_with(" green"))))
            .collect();
        server.signal("HUP");
        server.log_line("is in force");
        for client in clients {
            assert!(client.join().unwrap(), "the new configuration is not in force");
        }
    });
    assert!(server.get("/cgiplus-bin/counter").text().ends_with(" green"));
    gate.open();
    assert!(
        busy.response().text().ends_with(" busy"),
        "the running exchange completes"
    );
    let is_old = |process: u32| {
        let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == b"COLOUR=red")
    };
    let is_replaced = || !server.processes().iter().any(|process| is_old(process.pid));
    assert!(wait_until(is_replaced), "{:#?}", server.processes());
    let ended = server.stop();
    assert_eq!(warnings_and_errors(&ended.errors), Vec::<String>::new());
}

#[test]
fn process_counts_until_it_has_exited() {
    let server = Setup::new()
        .cgi("max = 1, kill_grace = \"300ms\"")
        .script(
            "stubborn",
            "trap '' TERM; exec 9> \"$TEST_DIR/events\"; echo $$ >&9; sleep 1000",
        )
        .start();
    let events = server.setup().event_fifo("events");
    let client = ask(&server, "/cgi-bin/stubborn");
    let first = events.line();
    drop(client);
    let second = ask(&server, "/cgi-bin/stubborn");
    events.line();
    // The first process ignores SIGTERM, so it lived for the whole grace period and occupied its slot until then.
    assert!(!std::path::Path::new("/proc").join(&first).exists(), "two at once");
    drop(second);
    server.assert_idle();
}
