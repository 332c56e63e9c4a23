//! Memory buffers that stay locked, by a write from memory of a file system that does not answer: the kernel then makes everybody wait who allocates
//! or releases memory there, and no signal ends that.

use sluice_testing::{Setup, SilentFuse};

/// The number of buffers that may keep a thread.
const BUFFERS: usize = 8;

/// Has another process write to the memory buffer from a page that does not come, and then asks for the buffer.
const HOLDER: &str = r#"
import mmap
page = open(os.environ["TEST_DIR"] + "/silent/" + os.environ["QUERY_STRING"], "rb")
memory = mmap.mmap(page.fileno(), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
events = open(os.environ["TEST_DIR"] + "/events", "w")
print("mapped", file=events, flush=True)
sys.stdin.read()
holder = os.fork()
if holder == 0:
    os.closerange(0, 4)
    os.pwrite(4, memory, 0)
    os._exit(0)
# It waits in the kernel, with the lock.
while not open(f"/proc/{holder}/syscall").read().startswith(("18 ", "68 ")):
    pass
put(ESC + b"\nBUFFER-BEGIN: 1M\n" + EOT + b"\n")
sys.stdin.close()
os.wait()
"#;

#[test]
fn buffers_that_stay_locked_take_a_few_threads_and_no_others_wait() {
    let setup = Setup::new()
        .workers(1)
        .file("page.txt", "a page")
        .python("holds", &format!("import sys\n{HOLDER}"))
        .python("length", "put(HEAD + b'%d' % len(sys.stdin.buffer.read()))");
    let events = setup.event_fifo("events");
    // Each has its own: only the process that asks for a page cannot be killed.
    let names: Vec<String> = (0..BUFFERS).map(|number| number.to_string()).collect();
    let files: Vec<_> = names.iter().map(|name| (&**name, "@4096")).collect();
    let Some(mut silent) = SilentFuse::mount(&setup.path("silent"), &files) else {
        return;
    };
    let server = setup.start();
    let mut clients: Vec<_> = (0..BUFFERS).map(|_| server.connect()).collect();
    for (client, name) in clients.iter_mut().zip(&names) {
        let head = format!("POST /cgi-bin/holds?{name} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n");
        client.send(&head);
        assert_eq!(events.line(), "mapped");
    }
    silent.fall_silent();
    for client in &mut clients {
        client.send("body");
    }
    let line = server.log_line("cannot allocate or release its memory buffer");
    assert!(line.contains("/holds") && line.contains("it is stopped"), "{line}");
    let line = server.log_line("get no new process until");
    assert!(line.contains("some of the 8 memory buffers are free"), "{line}");
    assert_eq!(server.get("/cgi-bin/length").status, 503);
    server.log_line("too many memory buffers of scripts of this user are kept locked");
    assert_eq!(server.get("/page.txt").text(), "a page");
    // Their processes and their memory end.
    drop(clients);
    drop(silent);
    server.wait_for_processes(0);
    assert!(sluice_testing::wait_until(
        || server.get("/cgi-bin/length").status == 200
    ));
    // Its body is stored on a blocking thread.
    let mut client = server.connect();
    client.send(
        "POST /cgi-bin/length HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
    );
    assert_eq!(client.response().text(), "4");
    server.stop();
}
