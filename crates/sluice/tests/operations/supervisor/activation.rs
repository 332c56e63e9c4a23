//! Socket activation: sockets that the parent process has bound.

use std::time::{Duration, Instant};

use sluice_testing::{Setup, run_command, sluice_after};

/// Passes a listening socket as descriptor 3, and writes its address into the configuration instead of `127.0.0.1:0`.
const PASS: &str = "
import fcntl, socket
binary = fcntl.fcntl(binary, fcntl.F_DUPFD_CLOEXEC, 20)
passed = socket.socket()
passed.bind(('127.0.0.1', 0))
passed.listen(50)
number = fcntl.fcntl(passed.fileno(), fcntl.F_DUPFD, 20)
os.dup2(number, 3, inheritable=True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', LISTEN_FDNAMES='web')
address = '127.0.0.1:%d' % passed.getsockname()[1]
def configure(address):
    text = open('sluice.toml').read()
    open('sluice.toml', 'w').write(text.replace('127.0.0.1:0', address))
";

#[test]
fn a_passed_socket_is_used_by_every_worker_and_survives_restart_and_upgrade() {
    let server = Setup::new()
        .workers(3)
        .file("a.txt", "a")
        .start_after(&format!("{PASS}\nconfigure(address)"));
    assert_eq!(server.get("/a.txt").text(), "a");
    let old = server.server_pid();
    assert!(sluice_testing::signal(old, "KILL"));
    super::next_server_process(&server, old);
    assert_eq!(server.get("/a.txt").text(), "a");
    let ran = super::command(&server, &["upgrade"]);
    assert!(ran.status.success(), "{}{}", ran.output, ran.errors);
    assert_eq!(server.get("/a.txt").text(), "a");
    server.signal("HUP");
    server.log_line("is in force");
    assert_eq!(server.get("/a.txt").text(), "a");
}

/// Passes a listening unix socket, `s`, to which a client has connected already: it has sent a request with a TCP socket whose last close
/// waits for 30 s (SO_LINGER), because its peer reads nothing. A process that ends with the server keeps the peer.
const PASS_WITH_CLIENT: &str = "
import array, ctypes, fcntl, signal, socket, struct
binary = fcntl.fcntl(binary, fcntl.F_DUPFD_CLOEXEC, 20)
passed = socket.socket(socket.AF_UNIX)
path = os.getcwd() + '/s'
passed.bind(path)
passed.listen(50)
number = fcntl.fcntl(passed.fileno(), fcntl.F_DUPFD, 20)
peer = socket.socket()
peer.bind(('127.0.0.1', 0))
peer.listen(1)
lingers = socket.create_connection(peer.getsockname())
lingers.setblocking(False)
try:
    while True: lingers.send(bytes(65536))
except BlockingIOError: pass
lingers.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 30))
for request in [b'GET /a.txt HTTP/1.0', b'\\r\\n\\r\\n']:
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    client.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [lingers.fileno()]))])
if os.fork() == 0:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    client.close(); lingers.close()
    os.closerange(0, 3)
    while True: signal.pause()
lingers.close()
os.dup2(number, 3, inheritable=True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')
";

#[test]
fn descriptors_that_a_client_has_sent_before_the_server_had_the_socket_delay_nobody() {
    let setup = Setup::new().workers(1).file("a.txt", "a");
    let address = format!("[[listen]]\naddress = \"unix:{}\"", setup.path("s").display());
    let begun = Instant::now();
    let server = setup.listeners(&address).start_after(PASS_WITH_CLIENT);
    server.log_line("has sent descriptors along");
    assert_eq!(server.get("/a.txt").text(), "a");
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "the worker has waited for a socket of the client"
    );
}

#[test]
fn a_passed_socket_that_no_listen_section_has_is_an_error() {
    let setup = Setup::new();
    setup.write_configuration();
    let ran = run_command(sluice_after(setup.directory(), PASS).args(["run", "--allow-root", "-c", "sluice.toml"]));
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        ran.errors.contains("systemd has passed the socket \"web\" 127.0.0.1:")
            && ran
                .errors
                .contains("which no [[listen]] has: add address = \"127.0.0.1:"),
        "{}",
        ran.errors
    );
}

#[test]
fn sockets_that_were_passed_to_another_process_are_ignored() {
    let server = Setup::new()
        .file("a.txt", "a")
        .environment("LISTEN_PID", "1")
        .environment("LISTEN_FDS", "1")
        .start();
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn a_descriptor_that_was_not_passed_is_reported() {
    let setup = Setup::new();
    setup.write_configuration();
    let wrong = "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='40')";
    let ran = run_command(sluice_after(setup.directory(), wrong).args(["run", "--allow-root", "-c", "sluice.toml"]));
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        ran.errors.contains("LISTEN_FDS=40, but the sockets were not passed"),
        "{}",
        ran.errors
    );
}
