//! Isolation: things that a script cannot do to a script of another user, or to the server.

use std::fs;

use super::{ALICE, BOB, SERVER, give, is_root, open_setup, set_mode};
use sluice_testing::{Server, run, wait_until};

/// Hides the processes of a user from others in /proc, as ProtectProc= of systemd does, in a mount namespace of its own.
const HIDE_PROCESSES: &str = "
import ctypes
libc = ctypes.CDLL(None)
assert libc.unshare(0x20000) == 0, 'unshare'
# The mount below lies on this one. `/` need not be a mount point, as in a chroot.
assert libc.mount(b'none', b'/proc', None, 0x44000, None) == 0, 'a private /proc'
assert libc.mount(b'proc', b'/proc', b'proc', 0, b'hidepid=2') == 0, '/proc'
";

/// A CGIplus script that says its process id, and stays.
const VICTIM: &str = r#"
while variables := accept():
    open(os.environ["TMPDIR"] + "/secret", "w").write("of alice")
    put(HEAD + b"%d %s" % (os.getpid(), os.environ["TMPDIR"].encode()))
    finish()
"#;

/// A CGI script that tries everything on the processes that its query names, and says what succeeded.
const ATTACKER: &str = r#"
import signal, ctypes, socket, glob
victim, server, supervisor, tmp, control = os.environ["QUERY_STRING"].split(",")
put(HEAD)
def attempt(name, action):
    try:
        put(b"%s: %r\n" % (name.encode(), action()))
    except (OSError, ValueError) as error:
        pass
libc = ctypes.CDLL(None, use_errno=True)
def traced(pid):
    if libc.ptrace(16, int(pid), 0, 0) != 0:
        raise OSError("ptrace")
    return "traced"
def connected(path):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.sendall(b'{"command":"drain"}\n')
    return s.recv(10000)
for who, pid in (("victim", victim), ("server", server), ("supervisor", supervisor)):
    attempt(who + " signal", lambda: os.kill(int(pid), signal.SIGTERM))
    attempt(who + " memory", lambda: open("/proc/%s/mem" % pid, "rb"))
    attempt(who + " environment", lambda: open("/proc/%s/environ" % pid, "rb").read())
    attempt(who + " maps", lambda: open("/proc/%s/maps" % pid, "rb").read())
    attempt(who + " descriptors", lambda: os.listdir("/proc/%s/fd" % pid))
    for number in range(40):
        attempt(who + " fd %d" % number, lambda: open("/proc/%s/fd/%d" % (pid, number), "rb"))
        attempt(who + " fd %d to write" % number, lambda: open("/proc/%s/fd/%d" % (pid, number), "wb"))
    attempt(who + " trace", lambda: traced(pid))
    attempt(who + " priority", lambda: os.setpriority(os.PRIO_PROCESS, int(pid), 19))
    attempt(who + " limits", lambda: __import__("resource").prlimit(int(pid), 7, (9, 9)))
attempt("temporary files", lambda: open(tmp + "/secret").read())
attempt("temporary directory", lambda: os.listdir(tmp))
attempt("control socket", lambda: connected(control))
put(b"tried everything as %d\n" % os.getuid())
"#;

fn start() -> Server {
    let bob = format!("directory = \"htdocs/cgi-bin\", user = \"{BOB}:{BOB}\"");
    let alice =
        format!("directory = \"htdocs/cgi-bin\", mode = \"cgiplus\", private_tmp = true, user = \"{ALICE}:{ALICE}\"");
    open_setup()
        .server(&format!("user = \"{SERVER}:{SERVER}\""))
        .python("victim", VICTIM)
        .python("attacker", ATTACKER)
        .script_route("/alice/*", &alice)
        .script_route("/bob/*", &bob)
        .start()
}

#[test]
fn a_script_reaches_neither_those_of_another_user_nor_the_server() {
    if !is_root() {
        return;
    }
    let server = start();
    let victim = server.get("/alice/victim");
    let (pid, tmp) = victim.text().split_once(' ').unwrap();
    let control = fs::read_dir(server.path("run"))
        .unwrap()
        .flatten()
        .next()
        .unwrap()
        .path();
    let control = control.display();
    let query = format!("{pid},{},{},{tmp},{control}", server.server_pid(), server.pid());
    let attacked = server.get(&format!("/bob/attacker?{query}"));
    assert_eq!(attacked.text(), format!("tried everything as {BOB}\n"));
    // Nothing has happened to the victim.
    assert_eq!(server.get("/alice/victim").text().split(' ').next(), Some(pid));
    // Root sees that the script has found the right ones.
    assert!(fs::read(format!("/proc/{pid}/environ")).is_ok());
}

#[test]
fn a_script_of_another_user_can_open_its_own_channels_by_name() {
    if !is_root() {
        return;
    }
    let text = r#"
put(HEAD)
put(b"body %s\n" % open("/dev/stdin", "rb").read(5))
open("/dev/stderr", "w").write("a line of the script\n")
os.close(os.open(os.environ["CGIPLUSBUF"], os.O_RDWR))
os.close(os.open("/dev/fd/3", os.O_RDONLY | os.O_NONBLOCK))
for number in (0, 2, 3, 4):
    about = os.fstat(number)
    put(b"%d %d %o\n" % (number, about.st_uid, about.st_mode & 0o777))
"#;
    let keys = format!("directory = \"htdocs/cgi-bin\", user = \"{BOB}:{BOB}\"");
    let server = open_setup()
        .server(&format!("user = \"{SERVER}:{SERVER}\""))
        .python("channels", text)
        .script_route("/bob/*", &keys)
        .start();
    // A pipe is open to the server too; a large body is stored in a file of the server, which the script can only read.
    for (bytes, owner, mode) in [(5, BOB, 666), (200_000, SERVER, 444)] {
        let expected = format!("body b'hello'\n0 {owner} {mode}\n2 {BOB} 666\n3 {BOB} 666\n4 {BOB} 600\n");
        let body = b"hello".repeat(bytes / 5);
        let chunked = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
        let head = b"POST /bob/channels HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let response = server.send([head.as_slice(), &chunked].concat());
        let text = response.text().replace("body hello", "body b'hello'");
        assert_eq!(text, expected);
    }
    server.log_line("a line of the script");
}

/// A script whose query says which steps it leaves out.
const CARELESS: &str = r#"
while variables := accept():
    put(HEAD + b"%d %s" % (os.getpid(), b"" if variables["QUERY_STRING"] == "skip" else body(int(variables["CONTENT_LENGTH"]))))
    finish()
    if variables["QUERY_STRING"] == "end":
        os._exit(0)
"#;

/// The server, the launcher and the script have different users, and the pipes of a process belong to one of them.
#[test]
fn what_a_script_of_another_user_has_not_read_is_taken_out_of_its_pipes() {
    if !is_root() {
        return;
    }
    let keys = format!("directory = \"htdocs/cgi-bin\", mode = \"cgiplus\", max = 1, user = \"{BOB}:{BOB}\"");
    let server = open_setup()
        .server(&format!("user = \"{SERVER}:{SERVER}\""))
        .python("careless", CARELESS)
        .script_route("/bob/*", &keys)
        .start();
    let post = |query: &str, body: &str| {
        let head = format!(
            "POST /bob/careless?{query} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let response = server.send([head.as_bytes(), body.as_bytes()].concat());
        assert_eq!(response.status, 200, "{}", server.log());
        response.text().trim().to_owned()
    };
    let pid = post("skip", "left unread");
    assert_eq!(
        post("read", "read"),
        format!("{pid} read"),
        "the process and its pipe can be used again"
    );
    // A process that ends meanwhile has read nothing of the next request, which another one gets.
    for _ in 0..20 {
        post("end", "last");
        post("read", "next");
    }
    let ended = server.stop();
    assert!(!ended.errors.contains("taken out"), "{}", ended.errors);
}

#[test]
fn a_stored_body_of_one_user_has_no_name_that_another_could_open() {
    if !is_root() {
        return;
    }
    let keys = format!("directory = \"htdocs/cgi-bin\", user = \"{BOB}:{BOB}\"");
    let setup = open_setup();
    let spool = setup.path("spool");
    fs::create_dir(&spool).unwrap();
    give(&spool, SERVER);
    set_mode(&spool, 0o755);
    let list = format!(
        "put(HEAD + repr(os.listdir({:?})).encode())",
        spool.display().to_string()
    );
    let server = setup
        .server(&format!(
            "user = \"{SERVER}:{SERVER}\"\nspool_directory = {:?}",
            spool.display().to_string()
        ))
        .python("list", &list)
        .script_route("/bob/*", &keys)
        .start();
    assert_eq!(server.post("/bob/list", vec![b'x'; 1 << 20]).text(), "[]");
}

#[test]
fn reports_show_the_memory_of_scripts_of_another_user() {
    if !is_root() {
        return;
    }
    let server = start();
    let response = server.get("/alice/victim");
    let pid = response.text().split(' ').next().unwrap().to_owned();
    let ran = run(server.setup().directory(), &["top", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&ran.output).unwrap();
    let process = &shown["state"]["scripts"]["pools"][0]["processes"][0];
    assert_eq!(process["pid"].to_string(), pid, "{shown:#}");
    // Only its user or root may read this.
    assert!(process["usage"]["pss_bytes"].as_u64().unwrap() > 100_000, "{shown:#}");
    server.stop();
}

#[test]
fn the_memory_of_scripts_is_bounded_where_proc_hides_processes_of_other_users() {
    if !is_root() {
        return;
    }
    let grows =
        "while variables := accept():\n    kept = b'x' * (64 << 20)\n    put(HEAD + b'%d' % os.getpid())\n    finish()";
    let route = format!("directory = \"htdocs/cgi-bin\", user = \"{ALICE}:{ALICE}\", ");
    let server = open_setup()
        .server(&format!("user = \"{SERVER}:{SERVER}\""))
        .environment("RUST_LOG", "debug")
        .python("grows", grows)
        .script_route(
            "/kept/*",
            &format!("{route}mode = \"cgiplus\", memory_soft = \"60MiB\""),
        )
        .start_after(HIDE_PROCESSES);
    let first = server.get("/kept/grows").text().to_owned();
    server.log_line("uses more memory than memory_soft");
    // It serves until its successor is ready.
    assert!(
        wait_until(|| server.get("/kept/grows").text() != first),
        "{}",
        server.log()
    );
    server.stop();
}
