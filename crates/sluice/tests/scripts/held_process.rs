//! A user holds `/proc/PID` of his script process, so that whoever looks up a name there waits: nothing else does.

use std::path::Path;

use sluice_testing::{Client, Gate, HeldDirectory, Server, Setup, run, wait_until};

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

/// A script process whose directory in `/proc` is held. Its client waits for the reply.
struct Scene {
    // Before the server, which checks that its clients have left.
    client: Client,
    gate: Gate,
    pid: String,
    held: HeldDirectory,
    server: Server,
}

/// `None` where no directory can be held.
fn scene() -> Option<Scene> {
    let setup = Setup::new()
        .workers(1)
        .file("page.txt", "a page")
        .python("holds", SCRIPT);
    let (events, mut gate) = (setup.event_fifo("events"), setup.gate("gate"));
    let server = setup.start();
    let mut client = server.connect();
    client.get("/cgi-bin/holds");
    let pid = events.line();
    let Some(held) = HeldDirectory::hold(&Path::new("/proc").join(&pid), &server.path("memory")) else {
        gate.write("\n\n");
        return None;
    };
    Some(Scene { server, client, gate, pid, held })
}

#[test]
fn the_end_of_output_of_a_process_that_is_held_delays_nobody() {
    let Some(mut scene) = scene() else { return };
    scene.gate.open();
    // The script has closed its output: the server asks whether it is ending.
    assert_eq!(scene.client.response().text(), "all of it");
    for _ in 0..3 {
        assert_eq!(scene.server.get("/page.txt").text(), "a page");
    }
    drop(scene.held);
    scene.gate.open();
}

#[test]
fn status_goes_on_without_what_a_held_process_uses() {
    let Some(mut scene) = scene() else { return };
    let status = || run(scene.server.setup().directory(), &["status", "--json"]);
    // More than there are places for commands.
    for _ in 0..20 {
        let status = status();
        assert!(
            status.status.success() && status.output.contains(&scene.pid),
            "{}{}",
            status.output,
            status.errors
        );
    }
    drop(scene.held);
    assert!(wait_until(|| status().output.contains("rss_bytes")));
    scene.gate.write("\n\n");
    assert_eq!(scene.client.response().text(), "all of it");
}
