//! How CGIplus processes end and are replaced.

use std::process::Command;

use super::{COUNTER, counted};
use sluice_testing::{Ending, Server, Setup, is_alive, python, spawn, wait_until, warnings_and_errors, write_script};

#[test]
fn output_after_the_sentinel_ends_the_process() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "talker",
            r#"
while accept():
    put(HEAD + b"%d 1" % os.getpid() + EOF + b"\nContent-Type: text/plain\n\nmore")
"#,
        )
        .start();
    let (first, _) = counted(&server.get("/cgiplus-bin/talker"));
    let (second, _) = counted(&server.get("/cgiplus-bin/talker"));
    assert_ne!(first, second, "a process with unexpected output is not reused");
    let line = server.log_line("after the sentinel");
    assert!(
        line.contains(&format!("pid {first}")) && line.contains("/talker"),
        "{line}"
    );
    server.log_lines(2, "after the sentinel");
    server.assert_idle();
}

#[test]
fn output_between_requests_reaches_no_client() {
    let server = Setup::new()
        .cgiplus("max = 1")
        .python(
            "talker",
            r#"
while accept():
    put(HEAD + b"%d 1" % os.getpid())
    finish()
    wait_at("go")
    put(HEAD + b"poison")
    finish()
    report("done")
"#,
        )
        .start();
    let done = server.setup().event_fifo("done");
    let mut gate = server.setup().gate("go");
    let (first, _) = counted(&server.get("/cgiplus-bin/talker"));
    gate.open();
    done.line();
    let (second, _) = counted(&server.get("/cgiplus-bin/talker"));
    assert_ne!(first, second, "a process with unexpected output is not reused");
    gate.open();
}

#[test]
fn changed_script_gets_a_new_process() {
    let server = Setup::new().cgiplus("max = 1").python("counter", COUNTER).start();
    let (old, _) = counted(&server.get("/cgiplus-bin/counter"));
    let changed = COUNTER.replace("count += 1", "count += 100");
    write_script(&server.path("htdocs/cgi-bin/counter"), &python(&changed));
    let (new, count) = counted(&server.get("/cgiplus-bin/counter"));
    assert_eq!(count, 100, "the new script answers");
    assert_ne!(new, old);
    server.wait_for_processes(1);
}

#[test]
fn changed_module_replaces_kept_processes() {
    let setup = Setup::new();
    let module = setup.path("lib/deep/greeting.py");
    std::fs::create_dir_all(module.parent().unwrap()).unwrap();
    std::fs::write(&module, "TEXT = b'one'\n").unwrap();
    let server = setup
        .cgiplus("max = 1, watch = [\"lib\"]")
        .python(
            "greets",
            r#"
sys.path.insert(0, TEST_DIR + "/lib/deep")
import greeting
while variables := accept():
    put(HEAD + greeting.TEXT)
    if variables["QUERY_STRING"]:
        report("begun")
        wait_at("go")
    finish()
"#,
        )
        .start();
    let (begun, mut gate) = (server.setup().event_fifo("begun"), server.setup().gate("go"));
    let text = |path: &str| server.get(path).text().to_owned();
    assert_eq!(text("/cgiplus-bin/greets"), "one");
    std::fs::write(&module, "TEXT = b'second'\n").unwrap();
    assert!(
        wait_until(|| text("/cgiplus-bin/greets") == "second"),
        "{}",
        server.log()
    );
    server.log_line("lib/deep/greeting.py has changed");
    // A busy process completes its reply first.
    let mut client = server.connect();
    client.get("/cgiplus-bin/greets?waits");
    begun.line();
    std::fs::remove_file(&module).unwrap();
    std::fs::write(module.with_file_name("other.py"), "").unwrap();
    server.log_lines(2, "changed: processes");
    gate.open();
    assert_eq!(client.response().text(), "second");
    drop(client);
    server.wait_for_processes(0);
}

#[test]
fn script_changed_while_running_completes_its_reply_first() {
    let waiting = "\nwhile accept():\n    put(HEAD + b'%d ' % os.getpid())\n    report('begun')\n    wait_at('go')\n    put(b'1')\n    finish()\n";
    let server = Setup::new().python("slow", waiting).start();
    let begun = server.setup().event_fifo("begun");
    let mut gate = server.setup().gate("go");
    let mut client = server.connect();
    client.get("/cgiplus-bin/slow");
    begun.line();
    write_script(
        &server.path("htdocs/cgi-bin/slow"),
        &python(&COUNTER.replace("count += 1", "count += 2")),
    );
    assert_eq!(
        counted(&server.get("/cgiplus-bin/slow")).1,
        2,
        "a new request gets the new script"
    );
    gate.open();
    assert_eq!(counted(&client.response()).1, 1, "the old one completes its reply");
    server.wait_for_processes(1);
}

/// A shell script, because it starts quickly; it exits after this many replies.
fn script_with_limited_replies(replies: u32) -> String {
    format!(
        r#"left={replies}
while [ $left -gt 0 ]; do
  while read -r line <&3 && [ "$line" ]; do :; done
  left=$((left - 1))
  printf 'Content-Type: text/plain\n\n%s' "$$"
  echo "$CGIPLUSEOF"
done"#
    )
}

#[test]
fn processes_that_exit_after_a_reply_are_replaced_unnoticed() {
    for (max, replies) in [(1, 1), (4, 1), (4, 3)] {
        let server = Setup::new()
            .cgiplus(&format!("max = {max}"))
            .script("mortal", &script_with_limited_replies(replies))
            .start();
        let failures: Vec<_> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| (0..12).map(|_| server.get("/cgiplus-bin/mortal")).collect::<Vec<_>>()))
                .collect();
            let responses = clients.into_iter().flat_map(|client| client.join().unwrap());
            responses
                .filter(|response| response.status != 200 || response.ending == Ending::Truncated)
                .collect()
        });
        assert!(
            failures.is_empty(),
            "{} of 96 clients saw that processes end after {replies} replies, the first: {} {}\n{}",
            failures.len(),
            failures[0].status,
            String::from_utf8_lossy(&failures[0].body),
            server.log()
        );
        server.assert_healthy();
    }
}

#[test]
fn no_body_byte_is_lost_when_a_process_is_replaced() {
    let server = Setup::new()
        .cgiplus("max = 2")
        .script(
            "mortal",
            r#"while read -r line <&3 && [ "$line" ]; do
  case $line in CONTENT_LENGTH=*) length=${line#*=};; esac
done
sum=$(head -c "$length" | cksum)
printf 'Content-Type: text/plain\n\n%s' "$sum"
echo "$CGIPLUSEOF""#,
        )
        .start();
    std::thread::scope(|scope| {
        for client in 0..4_u8 {
            let server = &server;
            scope.spawn(move || {
                for length in [10, 100_000, 3000, 70_000, 1, 65_536] {
                    let body = vec![b'a' + client; length];
                    let response = server.post("/cgiplus-bin/mortal", &body);
                    assert_eq!(response.status, 200, "{length} bytes\n{}", server.log());
                    assert_eq!(response.text(), format!("{} {length}", cksum(&body)), "{length} bytes");
                }
            });
        }
    });
    server.assert_idle();
}

/// The checksum of cksum(1): the POSIX CRC-32 over the bytes and their count.
fn cksum(bytes: &[u8]) -> u32 {
    let length = bytes.len().to_le_bytes();
    let used = 8 - bytes.len().leading_zeros() as usize / 8;
    let crc = bytes.iter().chain(&length[..used]).fold(0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| {
            (crc << 1) ^ (0x04C1_1DB7 * (crc >> 31))
        })
    });
    !crc
}

#[test]
fn killed_idle_process_is_replaced_unnoticed() {
    let server = Setup::new().cgiplus("max = 1").python("counter", COUNTER).start();
    let mut last = 0;
    for _ in 0..4 {
        let (pid, count) = counted(&server.get("/cgiplus-bin/counter"));
        assert_eq!(count, 1);
        assert_ne!(pid, last);
        last = pid;
        kill(pid);
    }
    server.wait_for_processes(0);
    assert_eq!(counted(&server.get("/cgiplus-bin/counter")).1, 1);
}

/// Kills a process; when this returns it is a zombie or gone.
fn kill(pid: u32) {
    let status = spawn(Command::new("kill").arg("-KILL").arg(pid.to_string()))
        .and_then(|mut kill| kill.wait())
        .unwrap();
    assert!(status.success());
    assert!(wait_until(|| !is_alive(pid)));
}

#[test]
fn idle_process_is_asked_to_exit_by_end_of_file() {
    let server = Setup::new()
        .cgiplus("idle = \"1s\"")
        .python(
            "told",
            r#"
count = 0
while accept():
    count += 1
    put(HEAD + b"%d %d" % (os.getpid(), count))
    finish()
report("ended", "by end-of-file")
"#,
        )
        .start();
    let ended = server.setup().event_fifo("ended");
    let (pid, _) = counted(&server.get("/cgiplus-bin/told"));
    assert_eq!(ended.line(), "by end-of-file");
    server.wait_for_processes(0);
    let (again, count) = counted(&server.get("/cgiplus-bin/told"));
    assert_eq!(count, 1);
    assert_ne!(again, pid);
    let ended = stop(server);
    assert_eq!(warnings_and_errors(&ended), Vec::<String>::new());
}

/// Stops the server and returns its log.
fn stop(server: Server) -> String {
    server.stop().errors
}
