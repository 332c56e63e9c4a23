//! A process that the supervisor has started, with the channel to it: a server process, a launcher, or a program that is tried.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Serialize;
use tokio::time::timeout;

use super::children::Children;
use super::files::ServerUser;
use crate::link::channel::{self, Channel};
use crate::link::message::FromLauncher;

/// The program of this process, also if its file is replaced meanwhile.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";

/// How long a launcher may take to permit other users.
const USERS_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a process may take to read what the supervisor says. A stopped one has room for hundreds of messages before.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// A server process or launcher with its channel.
pub(super) struct ServerProcess {
    pub(super) pid: i32,
    /// The process, also when it was reaped and its number is that of another one.
    pidfd: OwnedFd,
    pub(super) channel: Channel,
    pub(super) is_closed: bool,
    /// Since when it is known to be dying (`abandon`).
    pub(super) dying_since: Option<Instant>,
}

impl ServerProcess {
    /// A child that was not reaped, with this end of its channel; call it within an event loop.
    pub(super) fn new(pid: i32, end: OwnedFd) -> io::Result<ServerProcess> {
        let number = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(ServerProcess {
            pid,
            pidfd: pidfd_open(number, PidfdFlags::empty())?,
            channel: Channel::to_untrusted(end)?,
            is_closed: false,
            dying_since: None,
        })
    }

    /// Kills it, unless it has ended.
    pub(super) fn kill(&self) {
        // Fails for one that runs as another user; the launcher's limits are for those.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Whether it has said anything since the last call. Forgets that; waits for nothing.
    pub(super) async fn has_answered(&mut self) -> bool {
        let mut has_answered = false;
        while let Ok(Ok(Some(_))) = timeout(Duration::ZERO, self.channel.next::<FromLauncher>()).await {
            has_answered = true;
        }
        has_answered
    }

    /// Waits until a launcher permits the users that it was sent last, but no longer than five seconds: its directories may be in file systems that do not answer.
    pub(super) async fn await_users(&mut self) {
        let are_set = async {
            while let Ok(Some(received)) = self.channel.next::<FromLauncher>().await {
                if matches!(received.message, FromLauncher::UsersSet) {
                    return;
                }
            }
        };
        if timeout(USERS_TIMEOUT, are_set).await.is_err() {
            tracing::warn!(
                "launcher process {}: it has not said that it permits the users of scripts",
                self.pid
            );
        }
    }

    /// Sends it a message. If it is gone, its end is noticed elsewhere.
    pub(super) async fn send_or_log(&self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) {
        if let Err(error) = self.send(message, fds).await {
            tracing::debug!("process {}: {error}", self.pid);
        }
    }

    /// Sends it a message. One that reads nothing for so long is killed: otherwise it would keep the supervisor from everything else.
    pub(super) async fn send(&self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        match timeout(SEND_TIMEOUT, self.channel.send(message, fds)).await {
            Ok(sent) => sent,
            Err(elapsed) => {
                tracing::error!(
                    "process {} reads nothing of what the supervisor says: it is killed",
                    self.pid
                );
                self.kill();
                Err(elapsed.into())
            }
        }
    }
}

pub(super) fn start_process(
    children: &mut Children,
    program: &Path,
    name: &str,
    user: Option<&ServerUser>,
) -> io::Result<ServerProcess> {
    let (near, far) = channel::pair()?;
    let pid = children.start(program, name, far, user)?;
    ServerProcess::new(pid, near)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Ends when its input ends.
    fn child() -> Child {
        Command::new("cat").stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn another_process_that_has_got_the_number_of_a_dead_one_is_not_killed() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        let _entered = runtime.enter();
        let process_of = |child: &Child| {
            let (near, _) = channel::pair().unwrap();
            ServerProcess::new(i32::try_from(child.id()).unwrap(), near).unwrap()
        };
        let (mut first, mut second) = (child(), child());
        let mut process = process_of(&first);
        process.kill();
        assert_eq!(first.wait().unwrap().code(), None, "it was killed");
        process.pid = i32::try_from(second.id()).unwrap();
        process.kill();
        drop(second.stdin.take());
        assert_eq!(second.wait().unwrap().code(), Some(0));
    }
}
