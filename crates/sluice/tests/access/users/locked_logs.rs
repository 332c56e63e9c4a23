//! A local user keeps the lock of the directory of the logs, by getdents64(2) into memory of a file system that does not answer: whoever makes a file there waits.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use sluice_testing::{Server, SilentFuse, run, signal, wait_until};

use super::{SERVER, is_root, open_setup};

/// Maps a file, and lists a directory into that memory when it gets a line.
const HOLDER: &str = "
import ctypes, mmap, os, sys, threading
libc = ctypes.CDLL(None)
page = open(sys.argv[1], 'rb')
memory = mmap.mmap(page.fileno(), 8192, flags=mmap.MAP_PRIVATE)
place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
directory = os.open(sys.argv[2], os.O_RDONLY)
number = 217 if os.uname().machine == 'x86_64' else 61
print('ready', flush=True)
sys.stdin.readline()
thread = threading.Thread(target=libc.syscall, args=(number, directory, ctypes.c_void_p(place), 8192), daemon=True)
thread.start()
while not open(f'/proc/self/task/{thread.native_id}/syscall').read().startswith(f'{number} '):
    pass
print('held', flush=True)
thread.join()
";

/// Keeps the directory of the logs locked until the file system ends.
fn hold(server: &Server, silent: &mut SilentFuse, page: &str) -> Child {
    let mut holder = Command::new("python3")
        .args(["-c", HOLDER])
        .arg(server.path("silent").join(page))
        .arg(server.path("logs"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    silent.fall_silent();
    writeln!(holder.stdin.as_mut().unwrap()).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "held");
    silent.await_request();
    holder
}

fn release(mut holder: Child, silent: &mut SilentFuse) {
    silent.answer();
    holder.wait().unwrap();
}

#[test]
fn a_directory_of_logs_that_is_locked_stops_neither_the_supervisor_nor_the_server() {
    if !is_root() {
        return;
    }
    let setup = open_setup()
        .server(&format!("user = \"{SERVER}:{SERVER}\""))
        .log("access = \"logs/access.log\"");
    fs::create_dir(setup.path("logs")).unwrap();
    let Some(mut silent) = SilentFuse::mount(&setup.path("silent"), &[("one", "@8192"), ("two", "@8192")]) else {
        return;
    };
    let server = setup.start();
    let reopen = || run(server.setup().directory(), &["log", "reopen"]);
    // The file is there: nothing has to be made.
    let holder = hold(&server, &mut silent, "one");
    let ran = reopen();
    assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
    let old = server.server_pid();
    assert!(signal(old, "KILL"));
    let is_next = wait_until(|| server.server_pid() != old && server.get("/health.txt").status == 200);
    assert!(is_next, "{}", server.log());
    release(holder, &mut silent);

    fs::rename(server.path("logs/access.log"), server.path("logs/access.log.1")).unwrap();
    let holder = hold(&server, &mut silent, "two");
    let ran = reopen();
    assert!(!ran.status.success());
    assert!(
        ran.output.contains("somebody keeps it locked"),
        "{}{}",
        ran.output,
        ran.errors
    );
    // Both go on, and the lines are in the file that was opened before.
    assert!(run(server.setup().directory(), &["status"]).status.success());
    server.get("/after");
    let lines = || fs::read_to_string(server.path("logs/access.log.1")).unwrap();
    assert!(wait_until(|| lines().contains("/after")));
    server.signal("HUP");
    server.log_line("is in force");
    release(holder, &mut silent);
    assert!(reopen().status.success());
    server.stop();
}
