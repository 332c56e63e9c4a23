//! Process 1 of a container: it starts the program again as its child, passes signals on to that, and reaps orphans.
//!
//! ```text
//! process 1           reaps what has lost its parent: processes that were started beside the server (docker exec)
//!  └── supervisor     inherits what a dead server process leaves behind, and kills it
//! ```
//! A supervisor kills children that it has not started. As process 1 it would inherit those of the whole container, so there the two are two processes.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::arguments;
use crate::signals::event_loop;

const PASSED_ON: [Signal; 5] = [Signal::HUP, Signal::INT, Signal::TERM, Signal::USR1, Signal::USR2];

/// The exit status of a program that a signal has ended is this plus the number of the signal, as in shells.
const BY_SIGNAL: i32 = 128;

/// Whether this process is process 1 and its command runs a server.
pub(crate) fn is_first() -> bool {
    std::process::id() == 1
        && matches!(
            arguments::parse().command,
            arguments::Command::Run(_) | arguments::Command::Serve(_) | arguments::Command::Demo(_)
        )
}

/// Runs the program as a child until that ends. Returns its status.
pub(crate) fn run() -> Result<ExitCode, String> {
    let failed = |error: io::Error| format!("process 1: {error}");
    event_loop()?.block_on(async {
        // Before the child, so that no signal is lost.
        let (sender, mut signals) = mpsc::unbounded_channel();
        for passed_on in PASSED_ON {
            let mut signal = signal(SignalKind::from_raw(passed_on.as_raw())).map_err(failed)?;
            let sender = sender.clone();
            tokio::spawn(async move { while signal.recv().await.is_some() && sender.send(passed_on).is_ok() {} });
        }
        let mut child_ended = signal(SignalKind::child()).map_err(failed)?;
        let server = start().map_err(failed)?;
        loop {
            tokio::select! {
                Some(signal) = signals.recv() => {
                    // It has not been reaped, so the number is its own.
                    let _ = kill_process(server, signal);
                }
                _ = child_ended.recv() => {
                    if let Some(status) = reap(server) {
                        return Ok(exit_code(status));
                    }
                }
            }
        }
    })
}

fn start() -> io::Result<Pid> {
    let mut arguments = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    // A terminal sends its signals to the group of process 1, which passes them on: otherwise they would arrive twice.
    let child = command.args(arguments).process_group(0).spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("the number of a process is out of range"))
}

/// Reaps all that have ended. Returns how the server has ended, if it has.
fn reap(server: Pid) -> Option<WaitStatus> {
    let mut ended = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == server {
            ended = Some(status);
        }
    }
    ended
}

fn exit_code(status: WaitStatus) -> ExitCode {
    let by_signal = status.terminating_signal().map(|signal| BY_SIGNAL + signal);
    let code = status.exit_status().or(by_signal).unwrap_or(1);
    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
}
