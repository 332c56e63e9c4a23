//! The error of a start: the step that failed, the system's reason, and advice for the reader of the log.

use std::error::Error;
use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

/// The error of a start. No process and no descriptor remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchError {
    /// The step that failed.
    pub stage: Stage,
    /// The system's reason, an `errno` value.
    pub errno: i32,
}

/// The steps of a start, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Checking `Program::environment`.
    Environment,
    /// Creating the pipes and sockets.
    Channels,
    /// Creating the process.
    Clone,
    /// Creating its session.
    Session,
    /// Moving the descriptors to 0 to 4, or 5, and closing all others.
    Descriptors,
    /// Setting the resource limits.
    Limits,
    /// Creating its cgroup with its limits, or moving the process there.
    Cgroup,
    /// Creating and mounting its directory for temporary files.
    PrivateTmp,
    /// Changing its root.
    Chroot,
    /// Entering the working directory.
    Directory,
    /// Setting its priorities.
    Priority,
    /// Restricting it to its files (Landlock).
    FileRules,
    /// Changing the user.
    Credentials,
    /// Giving up set-user-ID programs (`no_new_privs`).
    Privileges,
    /// Setting the signal that ends the process with the server (PR_SET_PDEATHSIG).
    ParentDeathSignal,
    /// Refusing it the network (seccomp).
    Network,
    /// Executing the program.
    Exec,
    /// The time in which it must reach the execution of its program; the launcher has killed it.
    Deadline,
}

impl LaunchError {
    /// An error without a number is one of input and output.
    pub(crate) fn of(stage: Stage, error: &io::Error) -> LaunchError {
        LaunchError {
            stage,
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        }
    }

    /// Whether it is the script's fault (its file, its `#!` line, its directory), not that of the server or the machine.
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
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: ", self.stage)?;
        match advice(self.stage, self.errno) {
            Some(text) => write!(out, "{text} (errno {})", self.errno),
            // `io::Error` prints the number, too.
            None => write!(out, "{}", io::Error::from_raw_os_error(self.errno)),
        }
    }
}

impl Error for LaunchError {}

impl fmt::Display for Stage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Stage::Environment => "invalid environment",
            Stage::Channels => "cannot create the channels to the process",
            Stage::Clone => "cannot create the process",
            Stage::Session => "cannot create its session",
            Stage::Descriptors => "cannot set up its descriptors",
            Stage::Directory => "cannot enter its working directory",
            Stage::Limits => "cannot set its limits",
            Stage::Cgroup => "cannot set the limits of its cgroup",
            Stage::PrivateTmp => "cannot give it a private /tmp (private_tmp)",
            Stage::Chroot => "cannot change its root (chroot)",
            Stage::Priority => "cannot set its priority (nice, io_priority)",
            Stage::FileRules => "cannot restrict it to its files (read, write)",
            Stage::Privileges => "cannot give up set-user-ID programs",
            Stage::Network => "cannot refuse it the network (network = false)",
            Stage::Credentials => "cannot change to its user",
            Stage::ParentDeathSignal => "cannot set its parent-death signal",
            Stage::Exec => "cannot execute the program",
            Stage::Deadline => "it was killed before its exec, which it did not reach in time",
        })
    }
}

/// The likely cause and its fix, where the system's own text for the error would not help.
fn advice(stage: Stage, errno: i32) -> Option<&'static str> {
    Some(match (stage, errno) {
        (Stage::Exec, libc::ENOEXEC) => "no #! line or not a program for this machine",
        (Stage::Exec, libc::ENOENT) => "no such file, or the interpreter that its #! line names is missing",
        (Stage::Exec, libc::EACCES) => {
            "permission denied: the file, and the interpreter of its #! line, must be executable \
             (chmod +x) and their directories open to the script's user; with read or write, the interpreter must be below a path in them"
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
        (Stage::Cgroup, _) => {
            "the server has no cgroup with the controllers for it: run it as a service with Delegate=yes (systemd.resource-control(5)); \
             the log says at the start what is missing"
        }
        (Stage::Chroot, libc::EPERM) => {
            "that needs CAP_SYS_CHROOT: start the server as root, and add it to CapabilityBoundingSet= of the unit if that has one"
        }
        (Stage::Chroot, libc::ENOENT | libc::ENOTDIR) => "there is no such directory",
        (Stage::PrivateTmp, libc::EPERM) => {
            "the server lacks CAP_SYS_ADMIN, so /tmp would stay shared: add it to CapabilityBoundingSet= of the unit or to the container, \
             or remove private_tmp"
        }
        (Stage::PrivateTmp, libc::ENOENT) => "there is no /tmp below its root (chroot)",
        (Stage::FileRules, libc::ENOSYS | libc::EOPNOTSUPP) => {
            "this kernel has no Landlock, or it is switched off: Linux 5.13 or later is needed, with landlock in /sys/kernel/security/lsm"
        }
        (Stage::Network, libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => {
            "this kernel has no filters of system calls (CONFIG_SECCOMP_FILTER)"
        }
        (Stage::Limits, libc::EPERM) => "a limit is above the server's own hard limit: lower it, or raise that",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_step_and_gives_advice() {
        let error = LaunchError { stage: Stage::Exec, errno: libc::ENOEXEC };
        assert_eq!(
            error.to_string(),
            "cannot execute the program: no #! line or not a program for this machine (errno 8)"
        );
    }

    #[test]
    fn an_error_without_advice_has_the_systems_text() {
        let error = LaunchError { stage: Stage::Directory, errno: libc::ENOTDIR };
        assert_eq!(
            error.to_string(),
            "cannot enter its working directory: Not a directory (os error 20)"
        );
    }

    #[test]
    fn missing_resources_are_not_the_scripts_fault() {
        let fault = |stage, errno| LaunchError { stage, errno }.is_script_fault();
        assert!(fault(Stage::Exec, libc::ENOENT));
        assert!(fault(Stage::Directory, libc::EACCES));
        assert!(!fault(Stage::Exec, libc::ENOMEM));
        assert!(!fault(Stage::Channels, libc::EMFILE));
        assert!(!fault(Stage::Credentials, libc::EPERM));
    }
}
