//! `sluice check` in a process of its own, which may be lost to a file system that does not answer.
//!
//! A process ends with its last thread, and nobody can end one that waits for a file system in user space. So the command starts itself again, and ends
//! as soon as that process says what has come of the check.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, ExitStatus};

use sluice_launch::Exit;

/// The name of the process in the process table, by which the program knows its role.
pub(crate) const CHECK_NAME: &str = "sluice: check";

const VALID: u8 = b'+';
const INVALID: u8 = b'-';

/// Runs this command in another process. `None` if the system starts no process.
pub(crate) fn run() -> Option<ExitCode> {
    let (mut said, saying) = io::pipe().ok()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0(CHECK_NAME).args(std::env::args_os().skip(1)).stdin(saying);
    let mut child = command.spawn().ok()?;
    // Its end of the pipe.
    drop(command);
    let mut answer = [0];
    match said.read(&mut answer) {
        Ok(1) if answer == [VALID] => Some(ExitCode::SUCCESS),
        Ok(1) => Some(ExitCode::FAILURE),
        _ => child.wait().ok().map(end_as),
    }
}

/// Says what has come of the check, in the other process, when all is printed.
pub(crate) fn say(is_valid: bool) {
    let answer = if is_valid { VALID } else { INVALID };
    // Fails if nobody waits any more.
    let _ = leave_output().and_then(|mut said| said.write_all(&[answer]));
}

/// Closes the output, for whose end others may wait, and returns the pipe to the first process.
fn leave_output() -> io::Result<File> {
    let said = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(said)
}

/// The end of a process that has said nothing: the status is its own, or that of a shell for a signal, which is named.
fn end_as(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    if let Some(signal) = status.signal() {
        crate::print_failure(&format!("the process that checks: {}", Exit::Signal(signal)));
    }
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from)
}
