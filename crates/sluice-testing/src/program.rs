//! Starts programs and writes executable files, never both at the same time.
//!
//! A child that is being started holds, for a moment, copies of all descriptors of this process. If one of them is a script that another test is writing, the
//! server cannot execute it (ETXTBSY, execve(2)). So files are written under a lock that excludes starts.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{PoisonError, RwLock};

use crate::DEADLINE;
use crate::lines::Lines;

/// Held shared while starting a program, exclusively while writing a file.
static STARTING: RwLock<()> = RwLock::new(());

/// Starts a program while no script is being written.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Writes an executable file; text without `#!` becomes a /bin/sh script that stops at the first failure. Parent directories are created.
pub fn write_script(path: &Path, text: &str) {
    write_with_mode(path, &with_interpreter(text), 0o755);
}

/// Writes a file with a mode; parent directories are created.
pub fn write_with_mode(path: &Path, content: &[u8], mode: u32) {
    let _writing = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn with_interpreter(text: &str) -> Vec<u8> {
    if text.starts_with("#!") {
        text.into()
    } else {
        format!("#!/bin/sh\nset -e\n{text}\n").into()
    }
}

/// The result of a program that has exited.
pub struct RunResult {
    /// The exit status.
    pub status: ExitStatus,
    /// The standard output.
    pub output: String,
    /// The standard error.
    pub errors: String,
}

/// Runs the binary under test to its end; if it does not end, it is killed and the test fails.
pub fn run(directory: &Path, arguments: &[&str]) -> RunResult {
    run_command(sluice(directory).args(with_consent(arguments)))
}

/// Runs any command whose output is piped, as `run` does.
pub fn run_command(command: &mut Command) -> RunResult {
    let mut child = spawn(command).unwrap();
    let output = Lines::read(child.stdout.take().unwrap());
    let errors = Lines::read(child.stderr.take().unwrap());
    if !(errors.wait_end(DEADLINE) && output.wait_end(DEADLINE)) {
        let _ = child.kill();
        let _ = child.wait();
        panic!("{command:?} does not end; its standard error:\n{}", errors.text());
    }
    RunResult {
        status: child.wait().unwrap(),
        output: output.text(),
        errors: errors.text(),
    }
}

/// The binary under test: cargo puts it into the directory above the test's (`target/debug/deps`).
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join("sluice")
}

/// The binary under test, with its output piped and nothing of this process's environment except PATH.
pub fn sluice(directory: &Path) -> Command {
    piped(binary().as_ref(), directory)
}

/// The same, and SIGINT has its usual effect, also if this process ignores it, as those do that a shell starts with `&`.
pub(crate) fn interruptible(directory: &Path) -> Command {
    let mut command = piped("env".as_ref(), directory);
    command.arg("--default-signal=INT").arg(binary());
    command
}

fn piped(program: &OsStr, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(directory)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("SLUICE_RUNTIME_DIR", directory.join("run"))
        .env("SLUICE_STATE_DIR", directory.join("state"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The arguments with `--allow-root` for the commands that have it, because tests are also run as root (by CI).
pub(crate) fn with_consent<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = arguments.to_vec();
    if let Some(&("serve" | "run" | "demo")) = arguments.first() {
        arguments.insert(1, "--allow-root");
    }
    arguments
}

/// A command as `sluice` makes it. Python runs this text first, in the process that then becomes the server: it may set limits, signals or
/// the user. `become_ordinary_user()` gives up root, and the files below `directory`.
pub fn sluice_after(directory: &Path, preparation: &str) -> Command {
    const KIT: &str = "
import os, resource, signal, sys
# Python ignores these; programs that it executes would, too.
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
# Opened by the first user, because another one may not enter the directory of the binary.
binary = os.open(sys.argv[1], os.O_RDONLY)

def become_ordinary_user(number=65534):
    if os.getuid() != 0:
        return
    for directory, _, files in os.walk('.'):
        for name in ['.', *files]:
            os.chown(os.path.join(directory, name), number, number, follow_symlinks=False)
    os.setgroups([])
    os.setresgid(number, number, number)
    os.setresuid(number, number, number)
";
    let mut command = piped("python3".as_ref(), directory);
    let text = format!("{KIT}\n{preparation}\nos.execve(binary, ['sluice', *sys.argv[2:]], os.environ)\n");
    command.args(["-SEc", &text]).arg(binary());
    command
}

/// Sends a signal (`TERM`, `HUP` …) to a process; false if it is gone.
pub fn signal(pid: u32, name: &str) -> bool {
    let mut kill = Command::new("kill");
    kill.arg(format!("-{name}")).arg(pid.to_string()).stderr(Stdio::null());
    spawn(&mut kill).and_then(|mut kill| kill.wait()).unwrap().success()
}
