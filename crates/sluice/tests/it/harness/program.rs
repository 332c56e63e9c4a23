//! Programs that the tests start, and executable files that they write, kept apart in time.
//!
//! A child that is being started holds, for a moment, copies of all descriptors of this process. Were one of them a script
//! that another test is just writing, its server could not execute it (ETXTBSY, execve(2)). So files are written under a
//! lock that no start holds.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{PoisonError, RwLock};

use super::DEADLINE;
use super::lines::Lines;

/// Held shared to start, exclusively to write.
static STARTING: RwLock<()> = RwLock::new(());

/// Starts a program while no script is being written.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Writes a file that may be executed; one without `#!` becomes a script of /bin/sh that stops at the first failure.
/// Folders on the way are made.
pub(crate) fn write_script(path: &Path, text: &str) {
    write_with_mode(path, &with_interpreter(text), 0o755);
}

/// Writes a file with a mode; folders on the way are made.
pub(crate) fn write_with_mode(path: &Path, content: &[u8], mode: u32) {
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

/// A program that has ended.
pub(crate) struct Ran {
    pub status: ExitStatus,
    pub output: String,
    pub errors: String,
}

/// Runs the binary under test to its end; a run that does not end is killed and fails the test.
pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Ran {
    let mut child = spawn(sluice(directory).args(arguments)).unwrap();
    let output = Lines::read(child.stdout.take().unwrap());
    let errors = Lines::read(child.stderr.take().unwrap());
    if !(errors.wait_end(DEADLINE) && output.wait_end(DEADLINE)) {
        let _ = child.kill();
        let _ = child.wait();
        panic!("sluice {arguments:?} does not end; it said:\n{}", errors.text());
    }
    Ran {
        status: child.wait().unwrap(),
        output: output.text(),
        errors: errors.text(),
    }
}

/// The binary under test, with pipes for what it says and nothing of this process's environment but PATH.
pub(crate) fn sluice(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command
        .current_dir(directory)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Sends a signal (`TERM`, `HUP` …) to a process; false if it is gone.
pub(crate) fn signal(pid: u32, name: &str) -> bool {
    let mut kill = Command::new("kill");
    kill.arg(format!("-{name}")).arg(pid.to_string()).stderr(Stdio::null());
    spawn(&mut kill).and_then(|mut kill| kill.wait()).unwrap().success()
}
