//! Replacing the program of the supervisor while its server goes on (`sluice upgrade`).
//!
//! ```text
//! tried: another process of the new program says that it can take over
//!   └─▶ execve(2): the same process, now with the new program; sockets and channels pass through a socket on standard input
//!         └─▶ a server process of the new program is started on the same sockets
//!               ├─ it serves: the old one ends after its exchanges
//!               └─ it does not: it is given up, and the old one goes on
//! ```
//! The process stays the same, so its number does, for systemd, pid files, and as process 1 of a container; and the old server process is still its child.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use sluice_net::listener::Bound;
use sluice_report::command::History;
use sluice_server::LauncherPlan;
use sluice_settings::notation;

use super::Supervisor;
use super::launchers::{Ending, Launcher};
use super::process::ServerProcess;
use super::sockets::Sockets;
use crate::control::socket::BoundControl;
use crate::link::channel::{self, Channel, Received};
use crate::link::memory_file;
use crate::link::message::{Cause, VERSION};

/// The name of a supervisor in the process table that takes over from another program.
pub(crate) const SUPERVISOR_NAME: &str = "sluice: supervisor";

/// The variables that were for the first program: its descriptors are passed in another way now.
const PASSED: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// The state that a supervisor leaves to its successor, in a memory file: the plan of the launcher grows with the number of routes. The descriptors
/// follow in this order: the channel of the server process, its bundle, the control socket if there is one, the channels of retired server processes
/// and of launchers, the sockets of each address, the channels of launchers that are to end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Left {
    version: u32,
    server: i32,
    /// Server processes that end.
    retired: Vec<i32>,
    launcher_plan: LauncherPlan,
    launchers: Vec<LeftLauncher>,
    control: Option<PathBuf>,
    listen: Vec<Address>,
    history: History,
    cause: Cause,
    /// The commands and signals that asked for a reload after the upgrade.
    #[serde(default)]
    reloads: Vec<Cause>,
    /// Launchers that are to end, because their server processes have ended.
    #[serde(default)]
    ending: Vec<i32>,
    /// Server processes that hang in the kernel.
    #[serde(default)]
    abandoned: Vec<i32>,
    /// Files of certificates whose old content is in the bundle.
    #[serde(default)]
    kept_files: Vec<PathBuf>,
}

/// A launcher process, and the server process that it works for.
#[derive(Debug, Serialize, Deserialize)]
struct LeftLauncher {
    /// `None` for one that has ended, and is to be started again.
    pid: Option<i32>,
    server: i32,
}

/// Whether this program could take over what another one would leave.
pub(crate) fn check_left(text: &str) -> Result<(), String> {
    match serde_json::from_str::<Left>(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!(
            "this program cannot take over from the one that runs ({error}): restart the server"
        )),
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Address {
    configured: String,
    sockets: usize,
    /// Whether the supervisor removes the file of a unix socket.
    owns_file: bool,
}

/// The state that passes from one supervisor to the next one, or that the first one begins with.
pub(super) struct Estate {
    pub(super) server: Option<ServerProcess>,
    pub(super) retired: Vec<ServerProcess>,
    pub(super) launcher_plan: LauncherPlan,
    pub(super) launchers: Vec<Launcher>,
    pub(super) bundle: OwnedFd,
    pub(super) control: Option<BoundControl>,
    pub(super) sockets: Sockets,
    pub(super) history: History,
    /// The command that asked for the upgrade.
    pub(super) upgrade: Option<Cause>,
    /// The commands and signals that asked for a reload after it.
    pub(super) causes: Vec<Cause>,
    pub(super) ending: Vec<Ending>,
    pub(super) abandoned: Vec<i32>,
    pub(super) kept_files: Vec<PathBuf>,
}

impl Left {
    /// The state as JSON, without the descriptors.
    pub(super) fn text(&self) -> String {
        // Numbers and texts only, which can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Supervisor<'_> {
    /// The state for the next program. `None` if there is no server process, or if the upgrade is no longer wanted.
    pub(super) fn left(&self) -> Option<Left> {
        let launchers = self.launchers.iter().map(|launcher| LeftLauncher {
            pid: launcher.process.as_ref().map(|process| process.pid),
            server: launcher.server,
        });
        Some(Left {
            version: VERSION,
            server: self.server.as_ref()?.pid,
            retired: self.retired.iter().map(|process| process.pid).collect(),
            launcher_plan: self.launcher_plan.clone(),
            launchers: launchers.collect(),
            control: self.control.as_ref().map(|control| control.path.clone()),
            listen: self.sockets.bound().iter().map(Address::of).collect(),
            history: self.history.clone(),
            cause: self.upgrade.clone()?,
            reloads: self.causes.clone(),
            ending: self.ending.iter().map(|ending| ending.process.pid).collect(),
            abandoned: self.abandoned.clone(),
            kept_files: self.kept_files.clone(),
        })
    }

    /// Replaces the program of this process. Returns only if that fails: then nothing has changed. `None` if there is nothing to leave.
    pub(super) fn execute_program(&self) -> Option<io::Error> {
        let end = match self.leave(&self.left()?, self.server.as_ref()?) {
            Ok(end) => end,
            Err(error) => return Some(error),
        };
        // Otherwise a signal that arrives before the new program is ready would end it.
        let _ignored = sluice_launch::IgnoredSignals::ignore();
        let mut command = Command::new(&self.program);
        command
            .arg0(SUPERVISOR_NAME)
            .args(std::env::args_os().skip(1))
            .stdin(Stdio::from(end));
        PASSED.iter().for_each(|name| {
            command.env_remove(name);
        });
        Some(command.exec())
    }

    /// Puts everything into a socket. Returns the end from which the successor takes it.
    fn leave(&self, left: &Left, server: &ServerProcess) -> io::Result<OwnedFd> {
        let launchers = self.launchers.iter().filter_map(|launcher| launcher.process.as_ref());
        let state = memory_file::seal("sluice-state", left.text().as_bytes())?;
        let mut fds = vec![state.as_fd(), server.channel.as_fd(), self.bundle.as_fd()];
        fds.extend(self.control.as_ref().map(|control| control.socket.as_fd()));
        fds.extend(self.retired.iter().map(|process| process.channel.as_fd()));
        fds.extend(launchers.map(|process| process.channel.as_fd()));
        fds.extend(
            self.sockets
                .bound()
                .iter()
                .flat_map(|bound| &bound.sockets)
                .map(AsFd::as_fd),
        );
        fds.extend(self.ending.iter().map(|ending| ending.process.channel.as_fd()));
        let (near, far) = channel::pair()?;
        channel::send_now(near.as_fd(), &VERSION, &fds)?;
        Ok(far)
    }
}

impl Address {
    fn of(bound: &Bound) -> Address {
        Address {
            configured: bound.configured.to_string(),
            sockets: bound.sockets.len(),
            owns_file: bound.file.is_some(),
        }
    }
}

impl Estate {
    /// Takes over what the program before this one has left on standard input. Fails if there is nothing, or it is of another version.
    pub(super) async fn take() -> Result<Estate, String> {
        let failed = |error: io::Error| format!("taking over: {error}");
        let mut channel = Channel::of_stdin().map_err(failed)?;
        let Some(Received { message: version, fds }) = channel.next::<u32>().await.map_err(failed)? else {
            return Err("taking over: the program before this one has left nothing".to_owned());
        };
        if version != VERSION {
            return Err("taking over: the program before this one is of another version".to_owned());
        }
        Estate::of(fds).map_err(failed)
    }

    fn of(fds: Vec<OwnedFd>) -> io::Result<Estate> {
        let mut fds = fds.into_iter();
        let mut next = || fds.next().ok_or_else(|| io::Error::other("too few descriptors"));
        let left: Left = serde_json::from_slice(&memory_file::read(&next()?)?)?;
        let server = ServerProcess::new(left.server, next()?)?;
        let bundle = next()?;
        let control = left.control.map(|path| BoundControl::of(path, next()?)).transpose()?;
        let mut process = |pid| ServerProcess::new(pid, next()?);
        let retired = left.retired.into_iter().map(&mut process).collect::<io::Result<_>>()?;
        let launchers = left.launchers.into_iter().map(|LeftLauncher { pid, server }| {
            let process = pid.map(&mut process).transpose()?;
            Ok(Launcher::new(server, process))
        });
        let launchers = launchers.collect::<io::Result<_>>()?;
        let bound = left.listen.into_iter().map(|address| {
            let configured = notation::parse_address(&address.configured).map_err(io::Error::other)?;
            let sockets = (0..address.sockets).map(|_| next()).collect::<io::Result<_>>()?;
            let sockets = Bound::of_sockets(&configured, sockets)?;
            match address.owns_file {
                true => sockets.owning_file(),
                false => Ok(sockets),
            }
        });
        let bound = bound.collect::<io::Result<_>>()?;
        let ending = left
            .ending
            .into_iter()
            .map(|pid| Ok(Ending::new(ServerProcess::new(pid, next()?)?)));
        let ending = ending.collect::<io::Result<_>>()?;
        Ok(Estate {
            server: Some(server),
            retired,
            launcher_plan: left.launcher_plan,
            launchers,
            bundle,
            control,
            sockets: Sockets::of(bound),
            history: left.history,
            upgrade: Some(left.cause),
            causes: left.reloads,
            ending,
            abandoned: left.abandoned,
            kept_files: left.kept_files,
        })
    }
}

#[cfg(test)]
mod tests {
    use sluice_settings::ListenAddress;

    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in [
            "127.0.0.1:0",
            "0.0.0.0:80",
            "[::]:443",
            "[::1]:0",
            "[fe80::1%2]:80",
            "unix:/run/a b.sock",
        ] {
            let address = notation::parse_address(text).expect(text);
            let written = address.to_string();
            assert_eq!(notation::parse_address(&written), Ok(address), "{written}");
        }
        let path = ListenAddress::Unix("/run/x.sock".into());
        assert_eq!(notation::parse_address(&path.to_string()), Ok(path));
    }
}
