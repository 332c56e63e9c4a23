//! What the launcher is told and what it answers: a program to start, the process it became, or why it did not.
//!
//! Plain values. How they become a process is in `launcher`, `channels` and `child`.

use std::error::Error;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use crate::credentials::Credentials;
use crate::limits::ProcessLimits;

/// One script process to start.
#[derive(Debug)]
pub struct Program {
    /// The file to execute, absolute; a relative one is looked for in `directory`. PATH is never searched.
    pub path: CString,
    /// The arguments, the program's own name (`argv[0]`) included.
    pub arguments: Vec<CString>,
    /// The whole environment: entries `NAME=value`, each ended by a NUL, back to back. Nothing is added to it.
    pub environment: Vec<u8>,
    /// The working directory, entered before the change of user.
    pub directory: CString,
    /// What descriptor 0 is.
    pub stdin: Stdin,
    /// What descriptor 1 is.
    pub mailbox: Mailbox,
    /// The memory buffer (a memfd): becomes descriptor 4. The caller hands over a duplicate of its own.
    pub memory: OwnedFd,
    /// The user to become; `None` keeps the server's.
    pub credentials: Option<Credentials>,
    /// Bounds on what the process may use.
    pub limits: ProcessLimits,
}

/// What a script process reads its request body from: descriptor 0.
#[derive(Debug)]
pub enum Stdin {
    /// `/dev/null`: there is no body.
    Null,
    /// A pipe, whose write end comes back in [`Started::stdin`].
    Pipe,
    /// An open file, read from its present offset.
    File(OwnedFd),
}

/// The channel for a script's output: descriptor 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mailbox {
    /// A pipe of the system's default size: bytes.
    Stream,
    /// A `SOCK_SEQPACKET` pair: each write of the script is one record.
    Record {
        /// Bytes in the largest record that the script must be able to write (`WWW_GATEWAY_MRS`).
        record_bytes_max: usize,
    },
}

/// A script process whose program runs, and the server's ends of its channels (all non-blocking and close-on-exec).
#[derive(Debug)]
pub struct Started {
    /// The process, and the process group that it leads.
    pub pid: i32,
    /// The process as a descriptor: readable once it has exited. See [`crate::reap`].
    pub pidfd: OwnedFd,
    /// The write end of descriptor 0, if the program asked for [`Stdin::Pipe`].
    pub stdin: Option<OwnedFd>,
    /// The read end of descriptor 1.
    pub mailbox: OwnedFd,
    /// The read end of descriptor 2.
    pub stderr: OwnedFd,
    /// The write end of descriptor 3, CGIPLUSIN.
    pub cgiplusin: OwnedFd,
}

/// A program that was not started: nothing of it is left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchError {
    /// The step that failed.
    pub stage: Stage,
    /// The system's reason: an `errno` value.
    pub errno: i32,
}

/// The steps of a start, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading `Program::environment`.
    Environment,
    /// Making the pipes and sockets.
    Channels,
    /// Making the process.
    Clone,
    /// Becoming the leader of an own process group.
    Group,
    /// Putting the five descriptors in their places and closing all others.
    Descriptors,
    /// Entering the working directory.
    Directory,
    /// Setting the limits.
    Limits,
    /// Becoming the user.
    Credentials,
    /// Tying the process to the server's life.
    ParentDeathSignal,
    /// Executing the program.
    Exec,
}

impl LaunchError {
    /// Whether the script is to blame (its file, its `#!` line, its directory) and not the server or the machine.
    pub fn is_script_fault(&self) -> bool {
        let is_about_a_file = matches!(
            self.errno,
            libc::ENOENT
                | libc::EACCES
                | libc::ENOEXEC
                | libc::ENOTDIR
                | libc::EISDIR
                | libc::ELOOP
                | libc::ENAMETOOLONG
                | libc::EPERM
                | libc::ETXTBSY
                | libc::EINVAL
                | libc::ELIBBAD
        );
        matches!(self.stage, Stage::Exec | Stage::Directory) && is_about_a_file
    }
}

impl fmt::Display for LaunchError {
    /// What failed, the system's reason, and what to do about it where that is known.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: ", self.stage)?;
        match advice(self.stage, self.errno) {
            Some(text) => write!(out, "{text} (errno {})", self.errno),
            // `io::Error` prints the number itself.
            None => write!(out, "{}", io::Error::from_raw_os_error(self.errno)),
        }
    }
}

impl Error for LaunchError {}

impl fmt::Display for Stage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Stage::Environment => "cannot read the environment",
            Stage::Channels => "cannot make the channels to the process",
            Stage::Clone => "cannot make the process",
            Stage::Group => "cannot make its process group",
            Stage::Descriptors => "cannot arrange its descriptors",
            Stage::Directory => "cannot enter its working directory",
            Stage::Limits => "cannot set its limits",
            Stage::Credentials => "cannot become its user",
            Stage::ParentDeathSignal => "cannot tie it to the server's life",
            Stage::Exec => "cannot execute the program",
        })
    }
}

/// What the system's own text for an error does not say about this stage.
fn advice(stage: Stage, errno: i32) -> Option<&'static str> {
    Some(match (stage, errno) {
        (Stage::Exec, libc::ENOEXEC) => "no #! line or not a program for this machine",
        (Stage::Exec, libc::ENOENT) => "no such file, or the interpreter that its #! line names is missing",
        (Stage::Exec, libc::EACCES) => {
            "permission denied: the file, and the interpreter of its #! line, must be executable \
             (chmod +x) and their directories open to the script's user"
        }
        (Stage::Exec, libc::ETXTBSY) => "the file is open for writing: close it first",
        (Stage::Exec, libc::E2BIG) => "the arguments and the environment are too large",
        (Stage::Exec | Stage::Clone, libc::EAGAIN) => {
            "the user has too many processes: raise `ulimit -u`, the service's TasksMax, or start fewer"
        }
        (Stage::Directory, libc::EACCES) => "permission denied: the server must be able to enter it",
        (Stage::Channels | Stage::Clone | Stage::Descriptors, libc::EMFILE) => {
            "the server has too many open descriptors: raise its `ulimit -n`"
        }
        (Stage::Channels, libc::EMSGSIZE) => {
            "records of this size do not fit: raise net.core.wmem_max or lower the record size"
        }
        (Stage::Environment, libc::EINVAL) => "an entry is not of the form NAME=value ended by a NUL",
        (Stage::Descriptors, libc::ENOSYS | libc::EPERM) => {
            "close_range is missing or forbidden: Linux 5.9 or later is needed"
        }
        (Stage::Credentials, libc::EPERM) => "only a server started as root may change the user of a script",
        (Stage::Limits, libc::EPERM) => "a limit is above the server's own hard limit: lower it, or raise that",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_failed_and_what_to_do() {
        let error = LaunchError {
            stage: Stage::Exec,
            errno: libc::ENOEXEC,
        };
        assert_eq!(
            error.to_string(),
            "cannot execute the program: no #! line or not a program for this machine (errno 8)"
        );
    }

    #[test]
    fn an_error_without_advice_has_the_systems_text() {
        let error = LaunchError {
            stage: Stage::Directory,
            errno: libc::ENOTDIR,
        };
        assert_eq!(
            error.to_string(),
            "cannot enter its working directory: Not a directory (os error 20)"
        );
    }

    #[test]
    fn a_shortage_is_not_the_scripts_fault() {
        let fault = |stage, errno| LaunchError { stage, errno }.is_script_fault();
        assert!(fault(Stage::Exec, libc::ENOENT));
        assert!(fault(Stage::Directory, libc::EACCES));
        assert!(!fault(Stage::Exec, libc::ENOMEM));
        assert!(!fault(Stage::Channels, libc::EMFILE));
        assert!(!fault(Stage::Credentials, libc::EPERM));
    }
}
