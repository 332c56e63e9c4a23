//! A server process that hangs in the kernel, so that SIGKILL has no effect on it.

use sluice_testing::{Setup, SilentFuse, is_alive, signal, wait_until};

/// Whether a thread of the process waits uninterruptibly.
fn hangs(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    let is_in_d = |stat: String| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('D'))
    };
    let stat =
        |thread: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok();
    threads.filter_map(stat).any(is_in_d)
}

#[test]
fn a_server_process_that_hangs_in_the_kernel_is_abandoned_and_its_scripts_end() {
    let script = r#"exec 9> "$TEST_DIR/events"; echo $$ >&9; exec sleep 1000"#;
    let setup = Setup::new().workers(1).file("a.txt", "a").script("long", script);
    let events = setup.event_fifo("events");
    let Some(mut silent) = SilentFuse::mount(&setup.path("htdocs/silent"), &[("b.txt", "b"), ("c.txt", "c")]) else {
        return;
    };
    let server = setup.start();
    assert_eq!(server.get("/silent/b.txt").text(), "b");
    let mut long = server.connect();
    long.get("/cgi-bin/long");
    let script: u32 = events.line().trim().parse().unwrap();
    silent.fall_silent();
    let mut client = server.connect();
    client.get("/silent/c.txt");
    let old = server.server_pid();
    silent.await_request();
    assert!(signal(old, "KILL"));
    server.log_line("hangs in the kernel, and is abandoned");
    super::next_server_process(&server, old);
    assert_eq!(server.get("/a.txt").text(), "a");
    assert!(wait_until(|| !is_alive(script)), "the script of the abandoned process");
    assert!(hangs(old), "the abandoned process goes on");
    assert_eq!(super::status(&server)["supervisor"]["restarts"], 1);
    drop(silent);
    server.log_line("which was abandoned, has ended");
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn a_server_process_that_hangs_does_not_keep_the_supervisor_from_ending() {
    let setup = Setup::new().workers(1).file("a.txt", "a");
    let Some(mut silent) = SilentFuse::mount(&setup.path("htdocs/silent"), &[("b.txt", "b"), ("c.txt", "c")]) else {
        return;
    };
    let server = setup.start();
    assert_eq!(server.get("/silent/b.txt").text(), "b");
    silent.fall_silent();
    let mut client = server.connect();
    client.get("/silent/c.txt");
    let old = server.server_pid();
    silent.await_request();
    // The first one drains, the second one ends, the third one kills.
    let is_killed = wait_until(|| {
        server.signal("TERM");
        server.log().contains("is killed")
    });
    assert!(is_killed, "{}", server.log());
    assert!(wait_until(|| !is_alive(server.pid())), "{}", server.log());
    assert!(hangs(old));
    // It has the server's standard error, too.
    drop(silent);
    let ended = server.wait_end();
    assert!(
        ended.errors.contains("hangs in the kernel, and is abandoned"),
        "{}",
        ended.errors
    );
}
