//! A user holds `/proc/PID` of his script process, so that whoever looks up a name there waits: nothing else does.

use std::path::Path;

use sluice_testing::{HeldDirectory, Server, Setup, run, wait_until};

/// Says its process id, and goes on at a line of the gate.
const SCRIPT: &str = "
put(HEAD + b'all of it')
with open(os.environ['TEST_DIR'] + '/events', 'w') as fifo:
    fifo.write(f'{os.getpid()}\\n')
gate = open(os.environ['TEST_DIR'] + '/gate')
gate.readline()
os.close(1)
gate.readline()
";

fn setup() -> Setup {
    Setup::new()
        .workers(1)
        .file("page.txt", "a page")
        .python("holds", SCRIPT)
}

fn hold(server: &Server, pid: &str) -> Option<HeldDirectory> {
    HeldDirectory::hold(&Path::new("/proc").join(pid), &server.path("memory"))
}

#[test]
fn the_end_of_output_of_a_process_that_is_held_delays_nobody() {
    let setup = setup();
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let server = setup.start();
    let mut client = server.connect();
    client.get("/cgi-bin/holds");
    let pid = events.line();
    let Some(held) = hold(&server, &pid) else {
        gate.write("\n\n");
        return;
    };
    gate.open();
    // The script has closed its output: the server asks whether it is ending.
    assert_eq!(client.response().text(), "all of it");
    for _ in 0..3 {
        assert_eq!(server.get("/page.txt").text(), "a page");
    }
    drop(held);
    gate.open();
}

#[test]
fn status_goes_on_without_what_a_held_process_uses() {
    let setup = setup();
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let server = setup.start();
    let mut client = server.connect();
    client.get("/cgi-bin/holds");
    let pid = events.line();
    let Some(held) = hold(&server, &pid) else {
        gate.write("\n\n");
        return;
    };
    // More than there are places for commands.
    for _ in 0..20 {
        let status = run(server.setup().directory(), &["status", "--json"]);
        assert!(
            status.status.success() && status.output.contains(&pid),
            "{}{}",
            status.output,
            status.errors
        );
    }
    drop(held);
    let has_usage = || {
        let status = run(server.setup().directory(), &["status", "--json"]);
        status.output.contains("rss_bytes")
    };
    assert!(wait_until(has_usage));
    gate.write("\n\n");
    assert_eq!(client.response().text(), "all of it");
}
