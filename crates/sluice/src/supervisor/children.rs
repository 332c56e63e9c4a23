//! The child processes of the supervisor: server processes, and what a dead one leaves behind.
//!
//! A launcher is a subreaper: while it lives, scripts and their orphans are its own. When it dies they become children of the supervisor, a subreaper too. So a
//! child that the supervisor has not started was left by a dead launcher or server process, and is killed; its own children follow, until none is left. The
//! supervisor is never process 1, which inherits the orphans of others (`first_process`).

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};

use sluice_launch::{Exit, run_as};

use super::files::ServerUser;
use super::notify;
use crate::launcher_role::LAUNCHER_NAME;

/// The name of a server process in the process table, by which the program knows its role.
pub(crate) const SERVER_NAME: &str = "sluice: server";

/// The same of a process that reads a configuration.
pub(crate) const READER_NAME: &str = "sluice: reader";

/// Variables with directories of root.
const FOREIGN_VARIABLES: [&str; 4] = ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "STATE_DIRECTORY", "MAIL"];

pub(super) struct Ended {
    pub(super) pid: i32,
    pub(super) status: WaitStatus,
}

/// The children that are not to be killed.
pub(super) struct Children {
    /// Children that are older than the supervisor: a shell that has replaced itself by this program may have started some.
    strangers: HashSet<i32>,
    own: HashSet<i32>,
    /// The file that lists the children, opened once: nobody can keep a name in /proc from this thread then.
    list: Option<File>,
}

impl Children {
    /// Now, before the first server process, or with these that an earlier supervisor has started.
    pub(super) fn new(own: &[i32]) -> Children {
        let own: HashSet<i32> = own.iter().copied().collect();
        let pid = std::process::id();
        let file = File::open(format!("/proc/{pid}/task/{pid}/children")).ok();
        let strangers = list(file.as_ref()).into_iter().filter(|pid| !own.contains(pid));
        Children { strangers: strangers.collect(), own, list: file }
    }

    /// Starts a process of a program under a name, which says its role, with its end of the channel; as another user if there is one.
    pub(super) fn start(
        &mut self,
        program: &Path,
        name: &str,
        channel: OwnedFd,
        user: Option<&ServerUser>,
    ) -> io::Result<i32> {
        let mut command = Command::new(program);
        command
            .arg0(name)
            .stdin(Stdio::from(channel))
            // So that Ctrl-C of a terminal reaches the supervisor alone.
            .process_group(0);
        notify::VARIABLES.iter().for_each(|name| {
            command.env_remove(name);
        });
        if name == LAUNCHER_NAME {
            // The access log of the server process may be there.
            command.stdout(Stdio::null());
        }
        if name == READER_NAME {
            // It may outlive the supervisor, and others may wait for the end of what that prints.
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        if let Some(user) = user {
            FOREIGN_VARIABLES.iter().for_each(|name| {
                command.env_remove(name);
            });
            command.envs(user.environment());
            run_as(&mut command, user.user.credentials.clone());
        }
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        self.own.insert(pid);
        Ok(pid)
    }

    /// Reaps the children that have ended. Those that are own are forgotten.
    pub(super) fn reap(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get();
            self.strangers.remove(&pid);
            if self.own.remove(&pid) {
                ended.push(Ended { pid, status });
            }
        }
        ended
    }

    /// Kills what a dead server process left behind, and returns the number. Call it again when a child has ended, because its own children have come then.
    pub(super) fn kill_leftovers(&self) -> usize {
        let leftovers: Vec<_> = list(self.list.as_ref())
            .into_iter()
            .filter(|pid| !self.own.contains(pid) && !self.strangers.contains(pid))
            .collect();
        for pid in leftovers.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            // It is a child and not reaped yet, so its number is still its own. Fails for one that runs as another user; the launcher's limits are for those.
            let _ = kill_process(pid, Signal::KILL);
        }
        leftovers.len()
    }
}

/// How a process has ended: `was killed by signal 9 (SIGKILL)`.
pub(super) fn describe(status: WaitStatus) -> String {
    /// The flag for a core dump (WCOREDUMP in wait(2)).
    const CORE: i32 = 0x80;
    match (status.exit_status(), status.terminating_signal()) {
        (_, Some(signal)) => {
            let name = Exit::Signal(signal).signal_name().map(|name| format!(" ({name})"));
            let has_core = status.as_raw() & CORE != 0;
            let core = if has_core { ", core dumped" } else { "" };
            format!("was killed by signal {signal}{}{core}", name.unwrap_or_default())
        }
        (Some(code), None) => format!("exited with status {code}"),
        (None, None) => "ended".to_owned(),
    }
}

/// The children of this process, which starts and inherits them on its main thread. Empty if the kernel does not say (CONFIG_PROC_CHILDREN).
fn list(file: Option<&File>) -> Vec<i32> {
    let mut text = String::new();
    if let Some(mut file) = file {
        // From its beginning: what could not be read then is seen next time.
        let _ = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| file.read_to_string(&mut text));
    }
    text.split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}
