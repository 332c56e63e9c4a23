//! Replacing the program of the supervisor while its server goes on (`sluice upgrade`).
//!
//! ```text
//! tried: another process of the new program says that it can take over
//!   └─▶ execve(2): the same process, now with the new program; sockets and channels pass through a socket on standard input
//!         └─▶ a server process of the new program is started on the same sockets
//!               ├─ it serves: the old one ends after its exchanges
//!               └─ it does not: it is given up, and the old one goes on
//! ```
//! The process stays the same, so its number does, for systemd, for pid files, and as process 1 of a container; and the old server
//! process is still its child. Here: what passes to the new program. Not here: when (`life`), the server processes (the supervisor).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use sluice_net::listener::Bound;
use sluice_report::command::History;
use sluice_server::LauncherPlan;
use sluice_settings::notation;

use super::launchers::{Ending, Launcher};
use super::process::ServerProcess;
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
struct Left {
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
}

/// A launcher process, and the server process that it works for.
#[derive(Debug, Serialize, Deserialize)]
struct LeftLauncher {
    /// `None` for one that has ended, and is to be started again.
    pid: Option<i32>,
    server: i32,
}

/// Whether this program could take over what another one would leave.
///
/// # Errors
/// One line: it cannot be read.
pub(crate) fn check_left(text: &str) -> Result<(), String> {
    match serde_json::from_str::<Left>(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!(
            "this program cannot take over from the one that runs ({error}): restart the server"
        )),
    }
}

/// The sockets of an address.
#[derive(Debug, Serialize, Deserialize)]
struct Address {
    configured: String,
    sockets: usize,
    /// Whether the supervisor removes the file of a unix socket.
    owns_file: bool,
}

/// The state that passes from one supervisor to the next one.
pub(super) struct Estate {
    pub(super) server: ServerProcess,
    pub(super) retired: Vec<ServerProcess>,
    pub(super) launcher_plan: LauncherPlan,
    pub(super) launchers: Vec<Launcher>,
    pub(super) bundle: OwnedFd,
    pub(super) control: Option<BoundControl>,
    pub(super) bound: Vec<Bound>,
    pub(super) history: History,
    /// The command that asked for the upgrade.
    pub(super) cause: Cause,
    /// The commands and signals that asked for a reload after it.
    pub(super) reloads: Vec<Cause>,
    pub(super) ending: Vec<Ending>,
    pub(super) abandoned: Vec<i32>,
}

/// The same state, borrowed from the supervisor that leaves it.
pub(super) struct Leaving<'a> {
    pub(super) server: &'a ServerProcess,
    pub(super) retired: &'a [ServerProcess],
    pub(super) launcher_plan: LauncherPlan,
    pub(super) launchers: &'a [Launcher],
    pub(super) bundle: BorrowedFd<'a>,
    pub(super) control: Option<&'a BoundControl>,
    pub(super) bound: &'a [Bound],
    pub(super) history: History,
    pub(super) cause: Cause,
    pub(super) reloads: &'a [Cause],
    pub(super) ending: &'a [Ending],
    pub(super) abandoned: &'a [i32],
}

impl Leaving<'_> {
    /// Replaces the program of this process. Returns only if that fails: then nothing has changed.
    pub(super) fn replace_program(&self, program: &Path) -> io::Error {
        let end = match self.leave() {
            Ok(end) => end,
            Err(error) => return error,
        };
        // Otherwise a signal that arrives before the new program is ready would end it.
        let _ignored = sluice_launch::IgnoredSignals::ignore();
        let mut command = Command::new(program);
        command
            .arg0(SUPERVISOR_NAME)
            .args(std::env::args_os().skip(1))
            .stdin(Stdio::from(end));
        PASSED.iter().for_each(|name| {
            command.env_remove(name);
        });
        command.exec()
    }

    /// The state for the successor as JSON, without the descriptors.
    pub(super) fn text(&self) -> String {
        // Numbers and texts only, which can always be written.
        serde_json::to_string(&self.left()).unwrap_or_default()
    }

    fn left(&self) -> Left {
        Left {
            version: VERSION,
            server: self.server.pid,
            retired: self.retired.iter().map(|process| process.pid).collect(),
            launcher_plan: self.launcher_plan.clone(),
            launchers: self
                .launchers
                .iter()
                .map(|launcher| LeftLauncher {
                    pid: launcher.process.as_ref().map(|process| process.pid),
                    server: launcher.server,
                })
                .collect(),
            control: self.control.map(|control| control.path.clone()),
            listen: self.bound.iter().map(Address::of).collect(),
            history: self.history.clone(),
            cause: self.cause.clone(),
            reloads: self.reloads.to_vec(),
            ending: self.ending.iter().map(|ending| ending.process.pid).collect(),
            abandoned: self.abandoned.to_vec(),
        }
    }

    /// Puts everything into a socket. Returns the end from which the successor takes it.
    fn leave(&self) -> io::Result<OwnedFd> {
        let launchers = self.launchers.iter().filter_map(|launcher| launcher.process.as_ref());
        let state = memory_file::seal("sluice-state", self.text().as_bytes())?;
        let mut fds = vec![state.as_fd(), self.server.channel.as_fd(), self.bundle];
        fds.extend(self.control.map(|control| control.socket.as_fd()));
        fds.extend(self.retired.iter().map(|process| process.channel.as_fd()));
        fds.extend(launchers.map(|process| process.channel.as_fd()));
        fds.extend(self.bound.iter().flat_map(|bound| &bound.sockets).map(AsFd::as_fd));
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
    /// Takes over what the program before this one has left on standard input.
    ///
    /// # Errors
    /// One line: there is nothing, or it is of another version.
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
        let control = match left.control {
            Some(path) => Some(BoundControl::of(path, next()?)?),
            None => None,
        };
        let mut retired = Vec::new();
        for pid in left.retired {
            retired.push(ServerProcess::new(pid, next()?)?);
        }
        let mut launchers = Vec::new();
        for LeftLauncher { pid, server } in left.launchers {
            let process = match pid {
                Some(pid) => Some(ServerProcess::new(pid, next()?)?),
                None => None,
            };
            launchers.push(Launcher::new(server, process));
        }
        let mut bound = Vec::new();
        for address in left.listen {
            let configured = notation::parse_address(&address.configured).map_err(io::Error::other)?;
            let sockets = (0..address.sockets).map(|_| next()).collect::<io::Result<_>>()?;
            let sockets = Bound::of_sockets(&configured, sockets)?;
            bound.push(if address.owns_file {
                sockets.owning_file()?
            } else {
                sockets
            });
        }
        let mut ending = Vec::new();
        for pid in left.ending {
            ending.push(Ending::new(ServerProcess::new(pid, next()?)?));
        }
        Ok(Estate {
            server,
            retired,
            launcher_plan: left.launcher_plan,
            launchers,
            bundle,
            control,
            bound,
            history: left.history,
            cause: left.cause,
            reloads: left.reloads,
            ending,
            abandoned: left.abandoned,
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
