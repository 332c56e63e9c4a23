//! The outcome of a start, and of a process, as the server learns it from its launcher.

use std::fmt;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::end::pidfd::{Exit, Usage};
use crate::policy::run_as::Refusal;
use crate::start::launch_error::{LaunchError, Stage};

/// How long a start waits for a launcher, if there is none.
pub(crate) const LAUNCHER_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a program was not started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
pub enum StartError {
    /// A step of the start failed.
    #[error("{0}")]
    Failed(LaunchError),
    /// The policy of the launcher does not permit it.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The launcher ended meanwhile. The program may have begun, and has been killed then.
    #[error("the launcher has ended during its start")]
    Lost,
    /// There was no launcher for too long.
    #[error("there has been no launcher for {} seconds", LAUNCHER_TIMEOUT.as_secs())]
    NoLauncher,
    /// The start did not reach its exec in time.
    #[error("{0}")]
    Late(LateStart),
}

/// A start that took too long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateStart {
    /// The user whose starts count together, in words.
    pub user: String,
    /// The time that a start may take.
    pub timeout: Duration,
    /// The end that it has had.
    pub cause: LateCause,
}

/// The end of a start that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LateCause {
    /// The process was killed before its exec.
    Killed,
    /// The start has not ended, also not by SIGKILL.
    GivenUp,
    /// The start found no place, because so many of the same user hang.
    NoPlace {
        /// The number of those.
        hanging: u32,
    },
    /// Too many processes of the same user have exited and cannot be reaped, because another process traces them.
    Traced {
        /// The number of those.
        unreaped: u32,
    },
}

/// The end of a script process, and of all that it has started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// How the process ended.
    pub exit: Exit,
    /// The resources that the process has used.
    pub usage: Usage,
    /// How often the kernel has killed processes of its cgroup because they used more memory than its limit.
    pub memory_kills: u64,
    /// How often processes of its cgroup could not start another one because of its limit.
    pub processes_refused: u64,
    /// Processes that could not be ended or reaped, as text for the log.
    pub problem: Option<String>,
    /// The launcher of the process has died, and the process with it. `exit` is an assumption then.
    #[serde(skip)]
    pub is_lost: bool,
}

impl End {
    /// The end of a process whose launcher has died, which kills it (PR_SET_PDEATHSIG).
    pub(crate) fn killed() -> End {
        End {
            exit: Exit::Signal(libc::SIGKILL),
            usage: Usage::default(),
            memory_kills: 0,
            processes_refused: 0,
            problem: None,
            is_lost: true,
        }
    }
}

impl StartError {
    pub(crate) fn failed(stage: Stage, errno: i32) -> StartError {
        StartError::Failed(LaunchError { stage, errno })
    }

    /// The message to the launcher could not be made or sent.
    pub(crate) fn unsent(error: &io::Error) -> StartError {
        let errno = error.raw_os_error().unwrap_or(libc::E2BIG);
        let is_too_large = errno == libc::E2BIG;
        StartError::failed(if is_too_large { Stage::Exec } else { Stage::Channels }, errno)
    }

    /// Whether it is the script's fault, not that of the server or the machine.
    #[must_use]
    pub fn is_script_fault(&self) -> bool {
        matches!(self, StartError::Failed(error) if error.is_script_fault())
    }

    /// The reason of the system, an `errno` value; 0 if there is none.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            StartError::Failed(error) => error.errno,
            _ => 0,
        }
    }

    /// Whether it may succeed soon: there is no launcher now, or the start took too long.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, StartError::Lost | StartError::NoLauncher | StartError::Late(_))
    }
}

impl fmt::Display for LateStart {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (user, seconds) = (&self.user, self.timeout.as_secs_f64());
        match self.cause {
            LateCause::Killed => write!(
                out,
                "the start as {user} did not reach its exec in {seconds} s and was ended: the process was stopped, or a lease is held on the file"
            ),
            LateCause::GivenUp => write!(
                out,
                "the start as {user} did not reach its exec in {seconds} s and cannot be ended: a file system does not answer"
            ),
            LateCause::NoPlace { hanging } => write!(
                out,
                "{hanging} starts as {user} hang, so no other one begins until one of them has ended"
            ),
            LateCause::Traced { unreaped } => write!(
                out,
                "{unreaped} processes of {user} have exited, but a process that traces them (ptrace) does not wait for them, so no other one begins until \
                 one of them can be reaped"
            ),
        }
    }
}
