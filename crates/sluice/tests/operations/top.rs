//! `sluice top` at a terminal that is closed, and that is nobody's controlling terminal: then no SIGHUP says so.

use std::process::Command;

use sluice_testing::{Setup, run_command, sluice};

/// Runs the program at a terminal, waits for its first picture, and closes the terminal. Prints how it ended.
const CLOSE: &str = "
import fcntl, os, signal, struct, subprocess, sys, termios
master, slave = os.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 100, 0, 0))
pid = subprocess.Popen(sys.argv[1:], stdin=slave, stdout=slave, stderr=slave, start_new_session=True).pid
os.close(slave)
signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
signal.alarm(15)
shown = b''
while b'quit' not in shown.lower():
    shown += os.read(master, 65536)
os.close(master)
_, status = os.waitpid(pid, 0)
print('ended', os.waitstatus_to_exitcode(status))
";

#[test]
fn top_ends_when_its_terminal_is_closed_without_a_signal() {
    let server = Setup::new().start();
    let own = sluice(server.setup().directory());
    let mut command = Command::new("python3");
    command
        .args(["-SEc", CLOSE])
        .arg(own.get_program())
        .args(["top", "-c", "sluice.toml"])
        .current_dir(server.setup().directory())
        .env_clear()
        .envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("TERM", "xterm")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let ran = run_command(&mut command);
    assert_eq!(ran.output, "ended 129\n", "{}", ran.errors);
}
